"""Judge hostile templates, environments, parameters and requests by the packs.

No request may cause an ERROR line or an answer that the gate could not decide, budgets apart.
"""

from __future__ import annotations

import copy
import json
import logging
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import yaml

from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.operation import Answer, Operation
from datalog_gate.doors.wsgi import wrap
from datalog_gate.doors.wsgi.filter import Filter
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.template.document import read_document
from tests.fake_heat import ID, STACK, Client, FakeHeat, point_at

ROOT = Path(__file__).parents[1]
OWN = """\
@deny("a.number", "{s}") a(s) :- os:nova:server.metadata(_id=s, _value=v), is_number(v), v * v / (v - 1) > 3.
@deny("a.text", "{s}") b(s) :- os:nova:server(_id=s, name=n, key_name=k), n != null, is_string(k), (matches(n, k) or
  cidr_contains("10.0.0.0/8", n) or days_until(n, d), d < 3 or split(n, k, 1, x), x = "a" or parse_size(n, z), z > 3).
@deny("a.total", "{n}") c(n) :-
  n = sum{ v, s, k : os:nova:server.metadata(_id=s, _key=k, _value=v), is_number(v) }, n > 100.
@deny("a.most", "{n}") d(n) :- n = max{ v : heat:parameter(value=v), is_number(v) }, n > 100.
@warn("a.any", "{r} {v}") e(r, v) :- heat:property(id=r, value=v), is_string(v), v > "z".
@deny("a.length", "{r}") f(r) :- os:heat:random_string(_id=r, length=n), n > 32.
"""
SMALL: list[Any] = [0, 1, -1, 2, 80, 0.5, True, None, [], {}, "0", "1.5", "80", "yes", "10.0.0.0/8", "4G"]
NUMBERS = [0, -1, 1, 2**63, 10**18, 10**400, 10**3999, -(10**4200), 1e308, 1e-320, float("nan"), float("inf"), 0.1]
TEXTS = [
    "", " ", "\0", "\x1b[2J", "\n", "\r\n", "\x85", "\u2028", "\ufeff", "\ud800", "\udfff\ud800", "\U0001f600", "a/b",
    "a.b", "..", "'", '"', "`", "{", "{x}", "%s", "$x", "0x40", "1e999", "1e4000", "nan", "inf", "-0", "1_000", "0o7",
    "12:30:45", "2027-13-45", "2027-03-01", "9999-12-31T23:59:59-23:59", "0000-00-00", "10.0.0.0/33", "::/0",
    "fe80::1%1", "(", "(a*)*b", "x" * 70_000, "9" * 4299, "9" * 5000, "1" + "0" * 5000 + "x", "null", "true", "~", "=",
    "<<", "*", "&", "OS::stack_id", "OS::Nova::Server", "OS::", "::", "AWS::CloudFormation::Stack", "n.yaml",
    "../n.yaml", "file:///x", "http://h/x.yaml", "web", "get_param", "Ref", "if", "******", "heat_template_version",
    "٣", "ﬀ", "İ",
]  # fmt: skip
FUNCTIONS = [
    "get_param", "get_resource", "get_attr", "get_file", "str_replace", "str_replace_strict", "list_join", "digest",
    "str_replace_vstrict", "repeat", "map_merge", "map_replace", "yaql", "equals", "not", "and", "or", "if",
    "contains", "str_split", "resource_facade", "filter", "make_url", "list_concat", "list_concat_unique", "Ref",
    "Fn::GetAtt", "Fn::Join", "Fn::Split", "Fn::Select", "Fn::Replace", "Fn::Base64", "Fn::MemberListToMap",
    "Fn::FindInMap", "Fn::If", "Fn::ResourceFacade", "Fn::GetAZs", "Fn::Equals", "Fn::Not", "Fn::And", "Fn::Or",
    "Fn::Unknown", "Ref ",
]  # fmt: skip
SCRAPS = [
    "!!binary aGk=", "!!binary '*'", "!!set {a, b}", "!!set {? a}", "2001-12-14t21:59:43.10-05:00", "2001-02-31",
    "&a [*a]", "&a {b: *a}", "*a", "!!python/object:os.system x", "!x y", "! y", "{? {a: b} : c}", "{<<: {a: b}}",
    "{<<: 3}", "{<<: [*a]}", "!!timestamp x", "!!float nan", ".nan", ".inf", "-.inf", "0o9", "!!int x", "!!int '1_0'",
    "!!omap [a: b]", "!!pairs [a: b]", "!!null x", "!!bool maybe", "!!str {}", "!!map x", "!!seq x", "=", "0x_", "0b",
    "1:99:99", "190:20:30", "9" * 5000, "0x" + "f" * 4000, "1." + "1" * 5000, "1e5000", "~", "yes", "%a", "@a", "`a",
    "\t", "\0", "- - -", "? ", "|", ">", "'", '"\\ud800"', '"\\xzz"', '"\\U00110000"', "#", "---", "...",
    "{a: 1, a: 2}", "[[[[", "? ? ?", "'a': 'b': c", "1__", "!!value x", "!!yaml x", "!<tag:yaml.org,2002:int> 08",
    "{1: a, true: b, null: c, [1]: d}", "{{a: b}: c}", "[" * 3000, "{a: " * 3000, "- " * 3000,
    "[&a [x, x], " + ", ".join(f"&{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefghi")) + "]",
    "{a: &a [1, 2], b: [*a, *a], <<: {c: *a}}", "&r {r: {r: *r}}",
]  # fmt: skip
NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
LIST_JOIN, REPLACE = '{"list_join": [",", [@]]}', '{"str_replace": {"template": @, "params": {}}}'
ACTIONS = ["create", "create", "create", "update", "adopt", "restore", "delete", "suspend"]
LARGEST, READING = 1_000_000, 3
"""The size of a heavy body, and how many seconds of CPU its reading may take."""
PATTERNS = ["r{}", "r{}*", "*{}", "r[0-9]{}", "*r*{}*", "{}?*", "*"]
TARGETS = ["T{}", "T{}*", "T{}x*", "x{}*", "n.yaml", "OS::Heat::Value", "OS::Nova::Server", None, "", "TT{}*"]
QUERIES = [
    "$.data + {}", "$.data.select($ + {}).sum()", "+".join(["{}"] * 400), "$.data.where($ != {}).len()", "$.data.x.y",
    "range({}).select(str($)).join(',')", "$.data.orderBy($)", "[$.data, {}].flatten()", "{}.repeat().len()", "-" * 300,
]  # fmt: skip


def read_seeds() -> list[dict[str, Any]]:
    """The stacks of the packs' own cases and of the fixtures, as requests."""
    seeds: list[dict[str, Any]] = []
    for folder in sorted((ROOT / "fixtures" / "stacks").iterdir()):
        if (folder / "template.yaml").exists():
            environment = folder / "env.yaml"
            files = {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.is_file()}
            seeds.append({
                "template": read(folder / "template.yaml"),
                "environment": read(environment) if environment.exists() else {},
                "files": files,
            })  # fmt: skip
    for file in sorted((ROOT / "rules").rglob("test.yaml")):
        for case in read(file)["cases"]:
            if isinstance(case.get("stack"), dict):
                environment = case.get("environment")
                seeds.append({
                    "template": case["stack"],
                    "environment": environment if isinstance(environment, dict) else {},
                    "files": {"n.yaml": json.dumps(case["stack"], default=str)},
                })  # fmt: skip
    return json.loads(json.dumps(seeds, default=str))  # type: ignore[no-any-return]


def read(file: Path) -> Any:
    return read_document(file.read_text("utf-8"), file.name).data


def value(random: Random, depth: int = 0) -> Any:
    """Something that nobody expects at a place of a template."""
    match random.randrange(10):
        case 0 | 1:
            return random.choice(TEXTS)
        case 2 | 3:
            return random.choice(NUMBERS)
        case 4:
            return random.choice([None, True, False, [], {}, [[]], [None], {"": None}, {"a": {}}])
        case 5 | 6:
            return {random.choice(FUNCTIONS): value(random, depth + 1) if depth < 4 else "web"}
        case 7:
            return [value(random, depth + 1) for _ in range(random.randrange(4))] if depth < 4 else []
        case 8:
            return (
                {random.choice(TEXTS): value(random, depth + 1) for _ in range(random.randrange(4))}
                if depth < 4
                else {}
            )
    return wrapped(random) if depth == 0 else 7


def wrapped(random: Random) -> Any:
    """Something deep or wide."""
    deep: Any = random.choice(["x", 1, {"get_param": "x"}])
    many = random.choice([20, 50, 100])
    around = random.choice(
        ["[@]", '{"a": @}', '{"get_param": @}', '{"not": @}', '{"if": ["c", @, 1]}', LIST_JOIN, REPLACE]
    )
    if random.randrange(4) == 0:
        return {f"k{at}": at for at in range(random.choice([1000, 20_000]))}
    before, after = around.split("@")
    return json.loads(before * many + json.dumps(deep) + after * many)


def places(data: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Each container with each key of it."""
    items: Any = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, inner in list(items):
        yield data, key
        if depth < 40:
            yield from places(inner, depth + 1)


def spoil(random: Random, data: Any) -> Any:
    """The data with some values replaced, moved, doubled or dropped, and some keys renamed."""
    data = copy.deepcopy(data)
    mildly = random.randrange(2)
    for _ in range(random.choice([1, 1, 1, 2, 3, 6])):
        spots = list(places(data))
        if mildly:  # a scalar in the place of another, which rules may read
            spots = [(holder, key) for holder, key in spots if not isinstance(holder[key], dict | list)]
            if spots:
                holder, key = random.choice(spots)
                holder[key] = random.choice([*TEXTS, *SMALL])
                continue
        if not spots:
            return value(random)
        holder, key = random.choice(spots)
        match random.randrange(8):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[random.choice([*TEXTS, *FUNCTIONS])] = holder.pop(key)
            case 2:
                other, at = random.choice(spots)
                holder[key] = copy.deepcopy(other[at]) if isinstance(other, dict) and at in other else value(random)
            case 3 if isinstance(holder, dict):
                holder[random.choice(TEXTS)] = value(random)
            case _:
                holder[key] = value(random)
    return data


def written(random: Random, data: Any) -> Any:
    """The data as it is, or as a text, which may be spoilt."""
    form = random.randrange(5)
    if form < 2:
        return data
    try:
        text = (
            json.dumps(data)
            if form == 2
            else yaml.safe_dump(data, allow_unicode=True, width=random.choice([30, 10**9]))
        )
    except (ValueError, RecursionError):
        return data
    for _ in range(random.choice([0, 0, 1, 1, 2])):
        at = random.choice([place for place, char in enumerate(text) if char in " :\n[{,"] or [0]) + 1
        text = text[:at] + random.choice(SCRAPS) + text[at + random.choice([0, 0, 1, 6]) :]
    return text


def request(random: Random, seeds: list[dict[str, Any]]) -> dict[str, Any]:
    """The fields of a request of Heat's API."""
    fields = copy.deepcopy(random.choice(seeds))
    for name in random.choice([["template"], ["template"], ["template", "environment"], ["environment"], []]):
        fields[name] = spoil(random, fields[name])
    declared = fields["template"].get("parameters") if isinstance(fields["template"], dict) else None
    names = [*declared, "x"] if isinstance(declared, dict) else ["x"]
    if random.randrange(3) == 0:
        fields["parameters"] = {name: value(random) for name in names if random.randrange(2)}
        if isinstance(declared, dict) and random.randrange(3) == 0:
            for parameter in declared.values():
                if isinstance(parameter, dict):
                    parameter["hidden"] = random.choice([True, "true", 1, "maybe"])
    fields = {
        name: written(random, part) if name in ("template", "environment") else part for name, part in fields.items()
    }
    for name in list(fields["files"]):
        if random.randrange(4) == 0:
            fields["files"][name] = written(random, spoil(random, random.choice(seeds)["template"]))
    return fields


def heavy(random: Random) -> dict[str, Any]:
    """A body below `LARGEST` of registries, patterns, environments, merges, yaql and nesting."""
    scale = 1.0
    while True:
        fields = _heavy(random, scale)
        if len(json.dumps(fields)) < LARGEST:
            return fields
        scale /= 2


def _heavy(random: Random, scale: float) -> dict[str, Any]:
    def some(most: int) -> int:
        return int((most * scale) ** random.random())

    def name(of: str) -> str:
        return of.replace("{}", str(random.randrange(1 + some(20_000))))

    def chosen(parts: list[Any], most: int) -> list[Any]:
        """A few of the parts, some of them often."""
        return [part for part in random.sample(parts, random.randrange(1, 4)) for _ in range(some(most))]

    def registry(depth: int = 0) -> dict[str, Any]:
        most = 20_000 if depth == 0 else 5
        entries: dict[str, Any] = {f"T{at}": f"T{at + 1}" for at in range(some(most))} if random.randrange(2) else {}
        entries |= {name(key): name("T{}") for key in chosen(TARGETS[:4], most)}
        entries |= {name(key): random.choice(TARGETS) for key in chosen(TARGETS[:4], most // 5)}
        if depth < 3:
            patterns = {name(pattern): registry(depth + 1) for pattern in chosen(PATTERNS, 30 if depth == 0 else 3)}
            patterns |= {name(pattern): {"hooks": "pre-create"} for pattern in chosen(PATTERNS, most)}
            entries |= patterns if depth else {"resources": patterns}
        return entries

    def text(at: int) -> str:
        """A value of the parameter with that number."""
        if at % 3 == 1:
            return random.choice(['{"a": [1, 2]}', f"[{'1, ' * some(100_000)}1]", "{}"])
        return random.choice(["x", "x,y", "x" * some(500_000), "," * some(50_000)])

    def parameters() -> dict[str, Any]:
        kinds = ["string", "json", "comma_delimited_list"]
        limits: list[Any] = [
            {"allowed_pattern": "(a|b?)*" * some(1000)},
            {"allowed_values": ["x"] * some(50_000)},
            {"length": {"max": 9}},
        ]  # fmt: skip
        return {
            f"p{at}": {
                "type": kinds[at % 3],
                "default": text(at),
                "constraints": random.choices(limits, k=some(2)) if random.randrange(3) == 0 else [],
            }
            for at in range(3 + some(1000))
        }

    def content(depth: int = 0) -> Any:
        def amount(most: int) -> int:
            return some(most) if depth == 0 else random.randrange(3)

        inner = [content(depth + 1) for _ in range(random.randrange(1, 3))] if depth < 2 else [1, "x"]
        replaced = {
            "template": random.choice(["x1 x2", {"get_param": "p0"}]),
            "params": {f"x{at}": "y" for at in range(amount(100))},
        }
        repeated = {"<x>": ["a"] * amount(1000), "y": ["b"] * amount(1000)}
        return random.choice([
            {"yaql": {"expression": name(random.choice(QUERIES)), "data": inner[0]}},
            {"get_param": f"p{random.randrange(3)}"},
            {"get_param": ["p1", "a", 0]},
            {"get_file": random.choice(["n.yaml", "e.yaml"])},
            {"get_attr": [name("r{}"), random.choice(["refs", "attributes", "value", "outputs"]), *inner[:1]]},
            {"str_replace": replaced},
            {"list_join": [",", ["x", {"get_param": "p2"}] * amount(30)]},
            {"repeat": {"for_each": repeated, "template": {"<x>y": inner}}},
            {"digest": ["sha512", {"get_param": "p0"}]},
            {"if": [{"and": ["c0"] * (2 + amount(1000))}, inner[0], 1]},
            {"map_merge": [{f"k{at}": 1 for at in range(amount(100))}] * amount(100)},
            inner,
        ])  # fmt: skip

    def template() -> dict[str, Any]:
        def resource() -> dict[str, Any]:
            kind = random.choice(["n.yaml", name("T{}"), "T0", "OS::Heat::Value", "OS::Nova::Server"])
            definition = {"type": kind, "properties": {"value": random.choice(contents), "p0": random.choice(contents)}}
            group = {"count": some(10_000), "resource_def": definition, "index_var": random.choice(["x", "%index%"])}
            scaling = {"max_size": group["count"], "desired_capacity": group["count"], "resource": definition}
            nested = {"template": random.choice([{"get_file": "n.yaml"}, *contents]), "parameters": {}}
            return random.choice([
                definition,
                definition,
                {"type": "OS::Heat::ResourceGroup", "properties": group},
                {"type": "OS::Heat::AutoScalingGroup", "properties": scaling},
                {"type": "OS::Heat::Stack", "properties": nested},
            ])  # fmt: skip

        contents = [content() for _ in range(random.randrange(1, 5))]
        return {
            "heat_template_version": "2018-08-31",
            "parameters": parameters(),
            "conditions": {f"c{at}": {"not": f"c{at + 1}"} for at in range(some(1000))} | {"c0": True},
            "resources": {f"r{at}": random.choice([resource() for _ in range(9)]) for at in range(some(2000))},
            "outputs": {f"o{at}": {"value": random.choice(contents)} for at in range(some(1000))},
        }

    def environment() -> dict[str, Any]:
        values = {f"p{at}": text(at) for at in range(some(100))} | {f"q{at}": "x" for at in range(some(20_000))}
        strategies = {"default": random.choice(["merge", "deep_merge", "overwrite"])} if random.randrange(2) else {}
        return {"parameter_defaults": values, "resource_registry": registry(), "parameter_merge_strategies": strategies}

    def written_out(data: Any) -> str:
        dump = random.choice([json.dumps, yaml.safe_dump if len(json.dumps(data)) < 50_000 else json.dumps])
        return str(dump(data))

    files = {"n.yaml": written_out(template()), "e.yaml": written_out(environment())}
    names = ["e.yaml"] * some(50_000) if random.randrange(2) else []
    return {"template": template(), "environment": environment(), "files": files, "environment_files": names}


class Witness(logging.Handler):
    """Keeps what is logged as ERROR."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        self.lines += [] if "more than 50,000,000 steps" in line or "more than 1,000,000 facts" in line else [line]


class Trial:
    """A decision point with the packs and rules over any value, and a door before it."""

    def __init__(self, folder: Path) -> None:
        (folder / "own").mkdir()
        (folder / "own" / "a.dl").write_text(OWN)
        self.point = point_at(
            NOW, rules=f"{ROOT / 'rules'},{folder / 'own'}", decision_log=str(folder / "decisions.jsonl")
        )
        self.heat = FakeHeat()
        self.heat.answer = "201 Created", {"stack": {"id": ID}}
        self.door: Filter = wrap(self.heat, point=self.point, settings=self.point.settings)
        self.seeds = read_seeds()
        self.witness = Witness()
        signal.signal(signal.SIGVTALRM, hang)
        logging.getLogger("datalog_gate").addHandler(self.witness)

    def attempt(self, seed: int) -> str:
        """Make a request and judge it; return the verdict. Anything that is wrong is an AssertionError."""
        random = Random(seed)
        if random.randrange(4) == 0:
            return self.read(heavy(random))
        fields = request(random, self.seeds)
        self.witness.lines.clear()
        verdict = self.ask(random, fields) if random.randrange(3) == 0 else self.judge(random, fields)
        self.point.flush()
        assert self.witness.lines == []
        return verdict

    def judge(self, random: Random, fields: dict[str, Any]) -> str:
        action = random.choice(ACTIONS)
        former = request(random, self.seeds) if random.randrange(2) else fields
        definition, before = (self.definition(sections) for sections in (fields, former))
        operation = Operation(
            door="api",
            action=action,
            stack_name=random.choice(["web", "web", random.choice(TEXTS)]),
            project="p",
            definition=lambda: definition,
            credentials={"user_id": "u", "project_id": "p", "roles": ["member"]},
            against=(lambda: before) if action in ("update", "restore") else None,
        )
        answer = self.point.judge(operation)
        self.check(answer)
        blamed = answer.decision and any(error.blames_stack for error in answer.decision.errors)
        return f"{answer.verdict}, a value blamed" if blamed else answer.verdict

    @staticmethod
    def read(fields: dict[str, Any]) -> str:
        """Read a stack within `READING` seconds of CPU."""
        environment = None if fields["environment_files"] else fields["environment"]
        names = tuple(fields["environment_files"])
        definition = StackDefinition(fields["template"], environment, None, fields["files"], names)
        signal.setitimer(signal.ITIMER_VIRTUAL, READING)
        try:
            definition.stack("web", SHIPPED)
        except InputError as error:
            heavy = any(diagnostic.message.startswith("too much work") for diagnostic in error.diagnostics)
            return "too much work to read" if heavy else "not read"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return "read"

    @staticmethod
    def definition(fields: dict[str, Any]) -> StackDefinition:
        files = {name: text if isinstance(text, str) else "[]" for name, text in fields["files"].items()}
        template, environment = (
            part if isinstance(part, dict | str) else "[]" for part in (fields["template"], fields["environment"])
        )
        return StackDefinition(template, environment, fields.get("parameters"), files)

    @staticmethod
    def check(answer: Answer) -> None:
        errors = answer.decision.errors if answer.decision else ()
        budget = any(error.code == "budget" for error in errors)
        assert answer.verdict != "undecided" or budget, answer
        assert answer.reason.isprintable(), answer
        assert len(answer.reason) <= 2000, answer
        if answer.decision:
            json.dumps(answer.decision.to_json())

    def ask(self, random: Random, fields: dict[str, Any]) -> str:
        """Send the request through the filter."""
        try:
            body = json.dumps({"stack_name": "web", **fields}).encode()
        except (ValueError, RecursionError):
            return "no body"
        if random.randrange(4) == 0:
            at = random.randrange(len(body))
            body = body[:at] + random.choice(SCRAPS).encode() + body[at + random.choice([0, 1, 5]) :]
        self.heat.stack |= {"template": self.seeds[0]["template"], "environment": {"parameters": {}}, "files": {}}
        method, path = random.choice(
            [("POST", "/v1/p/stacks"), ("POST", "/v1/p/validate"), ("PUT", STACK), ("PATCH", STACK)]
        )
        status, _, content = Client(self.door, self.heat).send(body, REQUEST_METHOD=method, PATH_INFO=path)
        self.heat.requests.clear()
        if status[:3] not in ("200", "201"):
            fault = json.loads(content)
            if "more than 50,000,000 steps" in fault["error"]["message"]:
                return "over budget"
            assert status[:3] in ("400", "403"), (status, fault)
            assert fault["error"]["message"].isprintable(), fault
        return status[:3]


def hang(_: int, __: FrameType | None) -> None:
    raise TimeoutError("too many seconds of CPU")
