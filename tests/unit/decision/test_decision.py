"""From rules and a stack to a decision."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pytest

from datalog_gate.analysis.policy import ACTIONS, Level
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.cloud_state import loaded
from datalog_gate.decision.decision import Decision, Mode, Outcome, PolicyError, Violation, compute_outcome
from datalog_gate.decision.judgement import decide
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.decision.request import Caller, DecisionRequest
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.native import evaluate
from datalog_gate.files.templates import read_stack
from datalog_gate.template.reader import read_assuming
from tests.expressions import unknown_of

HERE = Span("i.jsonl", 1, 1, 1, 1)
NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
HUGE = '@deny("huge", "{s} takes {f}"{more})\nhuge(s, f) :- os:nova:server(_id=s, flavor=f), f = "huge".\n'
PERHAPS = "condition: {equals: [{get_param: f}, x]}, "
HEAD = "heat_template_version: 2018-08-31\nparameters: {f: {type: string}}\nresources:\n"


def server(called: str = "web", more: str = "", **properties: str) -> str:
    """A resource of a template, on one line."""
    properties_text = "".join(f", {key}: {value}" for key, value in {"flavor": "tiny", **properties}.items())
    return f"  {called}: {{type: OS::Nova::Server, {more}properties: {{image: debian{properties_text}}}}}\n"


AT = server().index("tiny") + 1
"""The column of the flavour."""


def judge(rules: str | dict[str, str], template: str, files: dict[str, str] | None = None, **request: Any) -> Decision:
    texts = {"m": rules} if isinstance(rules, str) else rules
    policies = load([RuleFile(name, f"{name}.dl", text) for name, text in texts.items()])
    name = request.pop("stack_name", "s")
    stack = read_stack(template=request.pop("head", HEAD) + template, files=files, stack_name=name)
    if "inventory" in request:
        request["inventory"] = loaded(policies, request["inventory"])
    return decide(
        policies, [stack], DecisionRequest(**{"action": "create", "now": NOW, **request}), evaluate, read_assuming
    )


def finding(level: Level = "deny", mode: Mode = "enforce", on_unknown: str = "defer") -> Violation:
    return Violation("p", level, mode, "", "", "m:p", (), None, None, (), on_unknown)


DENY, WARN, RECORD = finding(), finding("warn"), finding("record")
ERROR, SOFT_ERROR = PolicyError("p", "", None, True), PolicyError("p", "", None, False)


@pytest.mark.parametrize(
    ("violations", "undetermined", "errors", "outcome"),
    [
        ([], [], [], "allow"), ([RECORD], [RECORD], [], "allow"), ([finding(mode="record")], [], [], "allow"),
        ([WARN], [], [], "allow_with_warnings"), ([finding("warn", "record")], [], [], "allow"),
        ([finding(mode="warn")], [], [], "allow_with_warnings"), ([], [DENY], [], "allow_with_warnings"),
        ([], [finding(on_unknown="allow")], [], "allow"), ([], [finding(on_unknown="deny")], [], "deny"),
        ([], [finding("warn", on_unknown="deny")], [], "allow_with_warnings"),
        ([], [finding(mode="warn", on_unknown="deny")], [], "allow_with_warnings"),
        ([], [], [SOFT_ERROR], "allow_with_warnings"),
        ([WARN], [finding(on_unknown="deny")], [SOFT_ERROR], "deny"),
        ([WARN], [finding(on_unknown="deny")], [SOFT_ERROR, ERROR], "indeterminate"),
        ([WARN, DENY], [finding(on_unknown="deny")], [ERROR], "deny"),
    ],
)  # fmt: skip
def test_the_graver_finding_makes_the_outcome(
    violations: list[Violation], undetermined: list[Violation], errors: list[PolicyError], outcome: Outcome
) -> None:
    assert compute_outcome(violations, undetermined, errors) == outcome


def test_a_violation_holds_all_that_a_door_shows() -> None:
    rules = HUGE.replace("{more}", ', hint="write {get_param: f} for {f}"')
    assert judge(rules, server(flavor="huge")).violations == (
        Violation("huge", "deny", "enforce", "web takes huge", "write {get_param: f} for huge", "m:huge",
                  (ResourceId("s/web"), "huge"), ResourceId("s/web"), Span("<template>", 4, AT, 4, AT + 4)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("on_unknown", "outcome"), [("defer", "allow_with_warnings"), ("deny", "deny"), ("allow", "allow")]
)
def test_an_unknown_that_decides_is_named_and_does_what_the_policy_says(on_unknown: str, outcome: Outcome) -> None:
    decision = judge(HUGE.replace("{more}", f', on_unknown="{on_unknown}"'), server(flavor="{get_param: f}"))
    assert (decision.outcome, decision.violations, [violation.message for violation in decision.undetermined]) == (
        outcome, (), ["web takes ?"])  # fmt: skip
    [(unknown, place)] = [
        (unknown, unknown.place) for violation in decision.undetermined for unknown in violation.because
    ]
    assert (unknown, place) == (unknown_of("{get_param: f} in s"), Span("<template>", 2, 17, 2, 31))


def test_an_undetermined_finding_is_reported_once_for_each_subject_without_a_certain_one() -> None:
    rules = HUGE.replace("{more}", "") + 'huge(s, f) :- os:nova:server.metadata(_id=s, _value=f), f != "ok".\n'
    unknown = "{a: {get_param: f}, b: {get_param: f}, c: ok}"
    decision = judge(rules, server("a", metadata=unknown) + server("b", flavor="huge", metadata=unknown))
    assert [violation.resource for violation in decision.violations] == [ResourceId("s/b")]
    assert [violation.resource for violation in decision.undetermined] == [ResourceId("s/a")]


@pytest.mark.parametrize("others", ["", server("db", name="{get_param: f}")])
def test_a_finding_by_absence_names_the_unknowns_near_its_subject_or_else_all(others: str) -> None:
    rules = '@deny("p", "{s}")\np(s) :- heat:resource(id=s, name="web"), not os:nova:server(_id=_, flavor="huge").\n'
    decision = judge(rules, server(flavor="{get_param: f}") + others)
    assert [[unknown.expression for unknown in violation.because] for violation in decision.undetermined] == [
        ["{get_param: f} in s"]
    ]


def test_a_row_under_an_undecided_condition_is_undetermined_by_the_condition() -> None:
    decision = judge(HUGE.replace("{more}", ""), server("web", PERHAPS, flavor="huge"))
    assert [[unknown.expression for unknown in violation.because] for violation in decision.undetermined] == [
        ["{equals: [{get_param: f}, x]} in s"]
    ]
    assert (decision.outcome, decision.violations) == ("allow_with_warnings", ())


SERVERS = server("a") + server("b") + server("c", PERHAPS) + server("d", PERHAPS)


def test_an_unknown_count_is_shown_as_an_interval_unless_it_is_settled() -> None:
    rules = '@deny("many", "{n} servers")\nmany(n) :- n = count{ s : os:nova:server(_id=s) }, n > LIMIT.\n'
    member = "resource_def: {type: OS::Nova::Server, properties: {flavor: f}}"
    more = f"  g: {{type: OS::Heat::ResourceGroup, properties: {{count: {{get_param: f}}, {member}}}}}\n"
    messages = {
        (limit, bool(rest)): [
            [violation.message for violation in violations]
            for violations in (decision.violations, decision.undetermined)
        ]
        for limit in (1, 2, 4)
        for rest in ("", more)
        if (decision := judge(rules.replace("LIMIT", str(limit)), SERVERS + rest))
    }
    assert messages == {
        (1, False): [["2..4 servers"], []],
        (1, True): [["2.. servers"], []],
        (2, False): [[], ["4 servers"]],
        (2, True): [[], ["2.. servers"]],
        (4, False): [[], []],
        (4, True): [[], ["2.. servers"]],
    }


@pytest.mark.parametrize(
    ("mode", "modes", "outcome"),
    [
        ("enforce", ["enforce", "warn", "enforce"], "deny"),
        ("warn", ["warn", "warn", "warn"], "allow_with_warnings"),
        ("record", ["record", "record", "record"], "allow"),
    ],
)
def test_the_lesser_of_mode_and_date_holds_for_a_finding(mode: Mode, modes: list[Mode], outcome: Outcome) -> None:
    rules = "".join(
        f'@deny("{name}", "{name}", enforce_from="{day}")\n{name}(s) :- os:nova:server(_id=s).\n'
        for name, day in [("a", "2027-03-01"), ("b", "2027-03-02"), ("c", "2020-01-01")]
    )
    decision = judge(rules, server(), mode=mode)
    assert ([violation.mode for violation in decision.violations], decision.outcome) == (modes, outcome)


@pytest.mark.parametrize(
    ("modes", "expected", "outcome"),
    [
        ({}, ["enforce", "enforce"], "deny"),
        ({"modes": {"a": "warn"}}, ["warn", "enforce"], "deny"),
        ({"modes": {"a": "warn", "b": "record"}}, ["warn", "record"], "allow_with_warnings"),
        ({"mode": "record", "modes": {"a": "warn"}}, ["record", "record"], "allow"),
        ({"off": frozenset({"b"}), "modes": {"a": "enforce"}}, ["enforce"], "deny"),
        ({"off": frozenset({"a", "b"})}, [], "allow"),
    ],
)
def test_a_policy_s_own_mode_lowers_it_and_off_leaves_it_out(
    modes: dict[str, Any], expected: list[Mode], outcome: Outcome
) -> None:
    rules = "".join(f'@deny("{name}", "{name}")\n{name}(s) :- os:nova:server(_id=s).\n' for name in "ab")
    decided = judge(rules, server(), **modes)
    assert ([violation.mode for violation in decided.violations], decided.outcome) == (expected, outcome)
    assert decided.counts["policies"] == 2 - len(modes.get("off", ()))
    assert (decided.id == judge(rules, server()).id) == (modes == {})


@pytest.mark.parametrize(
    ("on", "judged"),
    [("", {"create", "update", "adopt", "restore"}), (', on=["delete", "check"]', {"delete", "check"})],
)
def test_a_policy_judges_the_actions_that_it_names(on: str, judged: set[str]) -> None:
    decisions = {action: judge(HUGE.replace("{more}", on), server(flavor="huge"), action=action) for action in ACTIONS}
    assert {action for action, decision in decisions.items() if decision.outcome == "deny"} == judged
    assert {action: decision.counts["policies"] for action, decision in decisions.items()} == {
        action: int(action in judged) for action in ACTIONS
    }


def test_a_message_names_a_resource_by_its_path_only_where_names_repeat_or_number_members() -> None:
    template = server("web", flavor="huge") + server("two", flavor="huge") + "  n: {type: n.yaml}\n"
    template += "  g: {type: OS::Heat::ResourceGroup, properties: {count: 1, resource_def: {type: OS::Nova::Server, "
    template += "properties: {image: debian, flavor: huge}}}}\n"
    inner = "heat_template_version: 2018-08-31\nresources:\n" + server("web", flavor="huge", name='"{s}\\n"')
    decision = judge(HUGE.replace("{more}", ""), template, files={"n.yaml": inner})
    assert [(violation.message, violation.place and violation.place.file) for violation in decision.violations] == [
        ("s/g/0 takes huge", "<template>"),
        ("s/n/web takes huge", "n.yaml"),
        ("two takes huge", "<template>"),
        ("s/web takes huge", "<template>"),
    ]


@pytest.mark.parametrize("value", ["1.50", "true", "~", "'{s}'", '"a\\nb\\0"'])
def test_a_message_shows_a_value_and_never_reads_it(value: str) -> None:
    rules = '@deny("p", "{k}: {v}")\np(s, k, v) :- os:nova:server.metadata(_id=s, _key=k, _value=v).\n'
    texts = {"1.50": "1.5", "~": "null", "'{s}'": "{s}", '"a\\nb\\0"': "a\nb\0"}
    decision = judge(rules, server(metadata=f"{{'{{v}}': {value}}}"))
    assert [violation.message for violation in decision.violations] == [f"{{v}}: {texts.get(value, value)}"]


RULES_OF_GROUP = "[{port_range_min: 1}, {port_range_min: 22, remote_ip_prefix: 10.0.0.0/8}]"
GROUP = f"  g: {{type: OS::Neutron::SecurityGroup, properties: {{rules: {RULES_OF_GROUP}}}}}\n"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("os:neutron:security_group.rules(_id=g, port_range_min=n), n = 22", "22"),
        ("os:neutron:security_group.rules(_id=g, port_range_min=22, port_range_max=n)", "{port_range_min: 22"),
        ("os:neutron:security_group(_id=g), n = 1", "g: {"),
        ("heat:resource(id=g), n = 1, not os:nova:server(_id=g)", "g: {"),
        ('deep(g), n = 1.\ndeep(g) :- os:neutron:security_group.rules(_id=g, remote_ip_prefix="10.0.0.0/8")',
         "{port_range_min: 22"),
    ],
)  # fmt: skip
def test_a_violation_has_the_place_of_the_value_or_of_its_parent(body: str, place: str) -> None:
    [violation] = judge(f'@deny("p", "{{g}} {{n}}")\np(g, n) :- {body}.\n', GROUP).violations
    assert violation.place is not None
    assert (violation.place.line, violation.place.column) == (4, GROUP.index(place) + 1)


@pytest.mark.parametrize(
    "rule", ["p(n) :- n = count{ s : heat:resource(id=s) }.", 'p("x") :- not os:glance:image(_id=_).']
)
def test_a_violation_without_a_resource_has_a_place_in_the_template(rule: str) -> None:
    [violation] = judge(f'@deny("p", "bad")\n{rule}\n', server()).violations
    assert (violation.resource, violation.place and violation.place.file) == (None, "<template>")


COUNT = '@{level}("count", "bad")\np(s) :- os:nova:server.metadata(_id=s, _value=v), is_string(v), int(v, n), n > 3.\n'


@pytest.mark.parametrize(
    ("level", "flavor", "mode", "outcome"),
    [
        ("deny", "tiny", "enforce", "indeterminate"),
        ("deny", "huge", "enforce", "deny"),
        ("deny", "tiny", "warn", "allow_with_warnings"),
        ("warn", "tiny", "enforce", "allow_with_warnings"),
    ],
)
def test_a_policy_that_can_not_be_evaluated_is_an_error_and_not_a_pass(
    level: str, flavor: str, mode: Mode, outcome: Outcome
) -> None:
    rules = HUGE.replace("{more}", "") + COUNT.replace("{level}", level)
    web = server(flavor=flavor, metadata="{a: many}")
    decision = judge(rules, web, mode=mode)
    error = {"code": "evaluation", "policy": "count", "message": "int('many'): the text is not a number",
             "place": {"file": "<template>", "line": 4, "column": web.index("many") + 1}}  # fmt: skip
    assert (decision.outcome, [error.to_json() for error in decision.errors]) == (outcome, [error])


META = "os:nova:server.metadata(_id=s, _value=v), v != null"
DISK = "os:nova:server.block_device_mapping_v2(_id=s, _index=k, volume_size=v), v != null"
ENTRY = "os:nova:server.metadata(_id=s, _key=k, _value=v), v != null"
DAY = "the text is not a date such as 2027-03-01 or 2027-03-01T12:00:00Z"
FROM_STACK = [
    ("p(s) :- {d}, v > 3.", "0x40x", "'0x40x' > 3: string and number can't be ordered", "0x40x"),
    ("p(s) :- {d}, 3 <= v.", "many", "3 <= 'many': number and string can't be ordered", "many"),
    ("p(s) :- {m}, is_number(v), 10 / v = 1.", "{a: 0}", "/(10, 0): division by zero", "0}"),
    ("p(s) :- {m}, is_number(v), 10 % v = 1.", "{a: 0}", "%(10, 0): division by zero", "0}"),
    ("p(s) :- {m}, is_number(v), v * 1e999 * 1e999 * 1e999 * 1e999 > 1.", "{a: 100000}",
     "the result of * has more than 4000 digits",
     "100000"),
    ("p(s) :- {m}, is_string(v), days_until(v, d), d < 3.", "{a: soon}", f"days_until('soon'): {DAY}", "soon"),
    ('p(s) :- {m}, is_string(v), cidr_contains("10.0.0.0/8", v).', "{a: x}",
     "cidr_contains('10.0.0.0/8', 'x'): the text is not a "
     "network", "x}"),
    ('p(s) :- {m}, is_string(v), matches("x", v).', "{a: '('}",
     "matches('x', '('): the pattern is not valid in RE2: missing ): (", "'('"),
    ('p(s) :- {m}, is_string(v), split(v, ":", 1, x), x = "a".', "{a: ab}",
     "split('ab', ':', 1): it has 1 part, counted from 0",
     "ab"),
    ("p(s) :- {m}, not (is_string(v), len(v, l), 1 / (l - 2) > 0).", "{a: ab}", "/(1, 0): division by zero", "ab"),
    ("p(s) :- q(s, x), x > 2. q(s, v) :- {d}.", "b", "'b' > 2: string and number can't be ordered", "b}"),
    ("p(s) :- os:nova:server(_id=s), q(s, 5). q(s, x) :- {m}, is_string(v), int(v, x).", "{a: 5, b: c}",
     "int('c'): the text is not "
     "a number", "c}"),
    ("p(n) :- n = sum{{ v, s, k : {d} }}, n > 3.", "5, c", "sum: 'c' is string, not number", "c}"),
    ("p(n) :- n = max{{ v : {d} }}, n > 3.", "5, c", "max: number and string can't be ordered", "c}"),
    ("p(n) :- n = sum{{ v, s, k : {e}, is_number(v) }}, 1 / n > 3.", "{a: 1, b: -1}",
     "/(1, 0): division by zero", "1,"),
    ("p(n) :- n = max{{ v : {d} }}, n > 3.", "5, c, {get_param: f}",
     "max: number and string can't be ordered", "c}"),
    ("p(s) :- {d}, limit(l), v > l.", "b", "'b' > 3: string and number can't be ordered", "b}"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "data", "message", "at"), FROM_STACK)
def test_an_error_over_a_value_of_the_stack_has_the_place_of_the_value(
    rule: str, data: str, message: str, at: str
) -> None:
    rules = f'relation limit(n: number) "."\n@deny("p", "bad")\n{rule.format(m=META, e=ENTRY, d=DISK)}\n'
    disks = ", ".join(f"{{volume_size: {size}}}" for size in data.split(", "))
    template = server(block_device_mapping_v2=f"[{disks}]") if "{d}" in rule else server(metadata=data)
    inventory = {"m:limit": {(3,): HERE}} if "limit" in rule else {}
    [error] = judge(rules, template, inventory=inventory).errors
    place = f"<template>:4:{template.index(at, template.index('debian')) + 1}"
    assert (error.message, str(error.place), error.blames_stack) == (message, place, True)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("p(s) :- {d}, 1 / 0 > v.", "/(1, 0): division by zero"),
        ("p(s) :- {m}, v != 0, limit(l), 1 / (l - 3) > 3.", "/(1, 0): division by zero"),
        ("p(s) :- {m}, v != 0, gate:request(action=a), int(a, i), i > 3.", "int('create'): the text is not a number"),
    ],
)
def test_an_error_without_values_of_the_stack_has_the_place_of_the_rule(rule: str, message: str) -> None:
    rules = f'relation limit(n: number) "."\n@deny("p", "bad")\n{rule.format(m=META, d=DISK)}\n'
    template = server(metadata="{a: b}", block_device_mapping_v2="[{volume_size: b}]")
    [error] = judge(rules, template, inventory={"m:limit": {(3,): HERE}}).errors
    assert (error.message, error.place and error.place.file, error.blames_stack) == (message, "m.dl", False)


@pytest.mark.parametrize(
    "rule",
    [
        "p(n) :- n = sum{{ distinct v, s : {m}, is_number(v) }}, n > 3.",
        "p(n) :- heat:stack(id=_), t(n), n > 3. t(n) :- n = sum{{ distinct v, s : {m}, is_number(v) }}.",
        "p(h, n) :- heat:stack(id=h), n = sum{{ distinct v, s : heat:resource(id=s, stack=h), {m}, is_number(v) }}.",
        "p(n) :- n = sum{{ v, s : q(s, v) }}. q(s, v) :- {m}, is_number(v).",
        "p(n) :- n = max{{ v : {m}, is_number(v) }}, n > 3.",
    ],
)
def test_a_finding_of_an_aggregate_has_the_place_of_its_first_row(rule: str) -> None:
    template = server(metadata="{a: 10}") + server("z", metadata="{b: 20}")
    [violation] = judge(f'@deny("p", "bad")\n{rule.format(m=META)}\n', template).violations
    assert str(violation.place) == f"<template>:4:{template.index('10') + 1}"


def test_values_of_the_older_and_the_newer_stack_are_distinct() -> None:
    rules = f'@deny("p", "bad")\np(s) :- old:{DISK}, v > 3.\n'
    before = read_stack(template=HEAD + server(block_device_mapping_v2="[{volume_size: b}]"), stack_name="s")
    [error] = judge(rules, server(), against=[before], action="update").errors
    assert (error.message, str(error.place), error.blames_stack) == (
        "as it was: 'b' > 3: string and number can't be ordered", "<template>:4:115", True)  # fmt: skip


def test_what_nothing_in_the_stack_gives_is_at_its_beginning() -> None:
    rules = '@deny("p", "bad")\np(n) :- n = count{ s : os:nova:server(_id=s) }, 100 / n > 3.\n'
    [error] = judge(rules, "  x: {type: OS::Heat::None}\n").errors
    assert (error.message, str(error.place), error.blames_stack) == (
        "/(100, 0): division by zero", "<template>:1:1", True)  # fmt: skip


EDGE = """
@unlock("edge")
edge(g) :- gate:grant(id=g), not gate:grant_option(id=g, path="refuse").
@deny("address", "{ip} needs edge")
address(ip) :- os:neutron:floating_ip(_id=ip), not gate:unlocked("edge", ip).
"""
IPS = "".join(f"  {name}: {{type: OS::Neutron::FloatingIP, properties: {{floating_network: n}}}}\n" for name in "ab")
LATE = ": write the value, or use a parameter that is known and not hidden"
LATER = ": remove the grant, or set a later date"
RACK = (
    "the service rack is not enabled here, or not for this caller: use --services rack on the command line, or ask "
    "the operator to enable it, and to allow it in the policy datalog_gate:grant:rack"
)
UNGIVEN = "it depends on parameters, and not all of them have a value yet"
NONE = ", which is not a resource of the stack"
ASKED: tuple[tuple[str, str, list[str]], ...] = (
    ("service: edge", "unlocked", []),
    ("service: edge, scope: [a]", "unlocked", ["s/b"]),
    ("service: edge, scope: [a.b]", "unlocked", ["s/b"]),
    ("service: edge, scope: [a, absent]", "unlocked", ["s/b"]),
    ("service: edge, scope: {get_param: l}", "unlocked", ["s/b"]),
    ("service: edge, scope: [absent]", "nothing is in its scope", ["s/a", "s/b"]),
    ("service: edge, scope: []", "nothing is in its scope", ["s/a", "s/b"]),
    ("service: edge, scope: [perhaps]", "whether the resources in its scope are in the template is not known yet",
     ["s/a", "s/b"]),
    ("service: edge, scope: [a, cc]", f"its scope names cc{NONE}", ["s/a", "s/b"]),
    ("service: edge, scope: [a, abset]", f"its scope names abset{NONE}: did you mean absent?", ["s/a", "s/b"]),
    ("service: edge, scope: a", "its scope is not a list of names", ["s/a", "s/b"]),
    ("service: edge, scope: {get_attr: [a, show]}", f"its scope depends on {{get_attr: [a, show]}} in s{LATE}",
     ["s/a", "s/b"]),
    ("service: edge, scope: [{get_resource: a}]",
     "its scope refers to a, so each would wait for the other: write only the name", ["s/a", "s/b"]),
    ("service: edge, scope: [a, b]}, depends_on: [a], metadata: {",
     "its scope names a, but the grant depends on it: remove one of the two", ["s/a", "s/b"]),
    ("service: edge, options: {refuse: 1}", "no rule unlocks it", ["s/a", "s/b"]),
    ("service: edge, expires: 2027-03-02", "unlocked", []),
    ("service: edge, expires: 2027-03-01", f"expired 2027-03-01{LATER}", ["s/a", "s/b"]),
    ("service: edge, expires: '2027-03-01T13:00+02:00'", f"expired 2027-03-01T13:00+02:00{LATER}", ["s/a", "s/b"]),
    ("service: edge, expires: soon", "expires is not a date: soon", ["s/a", "s/b"]),
    ("service: edge, expires: {get_attr: [a, show]}", f"its expiry date depends on {{get_attr: [a, show]}} in s{LATE}",
     ["s/a", "s/b"]),
    ("service: edge, expires: {get_param: f}", UNGIVEN, ["s/a", "s/b"]),
    ("service: edge, scope: [a, {get_param: f}]", UNGIVEN, ["s/a", "s/b"]),
    ("service: edge}, deletion_policy: Retain, metadata: {",
     "its deletion_policy is Retain, which would never release the grant: remove it", ["s/a", "s/b"]),
    ("service: edge}, external_id: x, metadata: {", "its external_id names an existing resource: remove it",
     ["s/a", "s/b"]),
    ("service: rack", RACK, ["s/a", "s/b"]),
    ("service: rack, scope: a", f"{RACK}; its scope is not a list of names", ["s/a", "s/b"]),
    ("service: {get_param: f}", UNGIVEN, ["s/a", "s/b"]),
    ("service: {get_attr: [a, show]}", f"its service depends on {{get_attr: [a, show]}} in s{LATE}", ["s/a", "s/b"]),
    ("service: {get_param: h}", f"its service depends on hidden value of a parameter{LATE}", ["s/a", "s/b"]),
    ("service: edge, scope: [{get_param: h}]", f"its scope depends on hidden value of a parameter{LATE}",
     ["s/a", "s/b"]),
)  # fmt: skip


@pytest.mark.parametrize(
    ("properties", "a", "b"),
    [
        ("service: edge, expires: 2027-03-01", f"expired 2027-03-01{LATER}", f"expired 2027-03-01{LATER}"),
        ("service: edge, expires: 2027-03-01, scope: [a]", f"expired 2027-03-01{LATER}", ""),
        ("service: edge, scope: [absent]", "nothing is in its scope", "nothing is in its scope"),
        ("service: edge, options: {refuse: 1}, scope: [b]", "", "no rule unlocks it"),
        ("service: rack", "", ""),
    ],
)
def test_a_denial_says_why_a_grant_did_not_count(properties: str, a: str, b: str) -> None:
    grant = f"  g: {{type: DatalogGate::Policy, properties: {{{properties}}}}}\n"
    absent = "  absent: {type: OS::Heat::None, condition: {equals: [1, 2]}}\n"
    decision = judge(EDGE, IPS + grant + absent, services=frozenset({"edge"}))
    reasons = [violation.hint.removeprefix("the grant g does not count: ") for violation in decision.violations]
    assert reasons == [a, b]


@pytest.mark.parametrize(("properties", "reason", "denied"), ASKED)
def test_a_grant_unlocks_its_scope_or_says_why_not(properties: str, reason: str, denied: list[str]) -> None:
    grant = f"  g: {{type: DatalogGate::Policy, properties: {{{properties}}}}}\n"
    absent = "  absent: {type: OS::Heat::None, condition: {equals: [1, 2]}, properties: {name: k}}\n"
    perhaps = f"  perhaps: {{type: OS::Heat::None, {PERHAPS}properties: {{name: k}}}}\n"
    more = "l: {type: comma_delimited_list, default: a}, h: {type: string, hidden: true, default: b1}"
    if open_ := "perhaps" in properties or "get_param: f" in properties:
        more += ", f: {type: string}"
    head = HEAD.replace("f: {type: string}", more)
    decision = judge(EDGE, IPS + grant + absent + perhaps * open_, services=frozenset({"edge"}), head=head)
    assert [violation.resource and violation.resource.path for violation in decision.violations] == denied
    [grant_json] = [grant.to_json() for grant in decision.grants]
    assert grant_json == {"grant": "s/g", "service": grant_json["service"], "unlocked": not denied or denied == ["s/b"],
                          "reason": reason}  # fmt: skip


def test_a_grant_that_no_rule_unlocks_does_not_share_in_another_of_the_same_resource() -> None:
    grants = "".join(
        f"  {name}: {{type: DatalogGate::Policy, properties: {{service: edge, scope: [a], options: {{{options}}}}}}}\n"
        for name, options in (("g", "refuse: 1"), ("h", "other: 1"))
    )
    decision = judge(EDGE, IPS + grants, services=frozenset({"edge"}))
    assert [(grant.grant.name, grant.unlocked, grant.reason) for grant in decision.grants] == [
        ("g", False, "no rule unlocks it"),
        ("h", True, "unlocked"),
    ]


def test_a_grant_that_may_not_be_there_unlocks_nothing() -> None:
    grant = f"  g: {{type: DatalogGate::Policy, {PERHAPS}properties: {{service: edge}}}}\n"
    decision = judge(EDGE, IPS + grant, services=frozenset({"edge"}))
    assert [grant.reason for grant in decision.grants] == ["whether the grant is in the template is not known yet"]
    assert ([violation.level for violation in decision.violations], decision.undetermined) == (["deny", "deny"], ())


def test_the_id_is_that_of_rules_facts_and_request_and_of_nothing_else() -> None:
    rules = {"a": HUGE.replace("{more}", ""), "b": EDGE, "c": COUNT.replace("{level}", "warn")}
    orders = [judge(dict(permutation), server()).id for permutation in permutations(rules.items())]
    late, early = (judge(rules, server(), now=NOW.replace(year=year)).id for year in (2028, 2026))
    assert len({*orders, late, early}) == 1
    moved = [judge(rules, text + server(flavor="{get_attr: [db, show]}") + server("db")).id for text in ("", "  # x\n")]
    assert len(set(moved)) == 1
    several = (server(), server("db", flavor="{get_attr: [web, show]}"), server("lb", PERHAPS))
    assert len({judge(rules, "".join(permutation)).id for permutation in permutations(several)}) == 1
    other: list[dict[str, Any]] = [
        {"mode": "warn"}, {"action": "update"}, {"services": frozenset({"edge"})}, {"stack_name": "t"},
        {"caller": Caller("u")}, {"caller": Caller("u", roles=("admin",))},
    ]  # fmt: skip
    assert len({orders[0], *(judge(rules, server(), **options).id for options in other)}) == 1 + len(other)
    templates = (server(), server("db"), server(flavor="x"), server(flavor="{get_param: f}"), server("web", PERHAPS))
    assert len({judge(rules, template).id for template in templates}) == len(templates)


READS_NOW = '@deny("p", "late")\np(s) :- heat:stack(id=s), gate:now(now), now >= "2027-06".\n'


@pytest.mark.parametrize(
    ("rules", "grant"),
    [
        (READS_NOW, ""),
        ('@deny("p", "late")\np(s) :- heat:stack(id=s), days_until("2027-06-01", n), n < 0.\n', ""),
        (HUGE.replace("{more}", ', enforce_from="2027-06-01"'), ""),
        (EDGE, "  g: {type: DatalogGate::Policy, properties: {service: edge, expires: 2027-06-01}}\n"),
    ],
)
def test_the_time_changes_the_id_where_it_may_change_the_decision(rules: str, grant: str) -> None:
    months = {judge(rules, server() + grant, services=frozenset({"edge"}), now=NOW.replace(month=month)).id
              for month in (5, 7)}  # fmt: skip
    assert len(months) == 2


def test_inventory_is_judged_with_the_stack() -> None:
    rules = 'relation known(f: string) "."\n@deny("p", "{f}")\np(s, f) :- os:nova:server(_id=s, flavor=f), known(f).\n'
    decision = judge(rules, server(), inventory={"m:known": {("tiny",): HERE}})
    assert [violation.row for violation in decision.violations] == [(ResourceId("s/web"), "tiny")]
    alone = judge(rules.replace("os:nova:server(_id=s, flavor=f), ", "").replace("(s, f)", "(f)"), server(),
                  inventory={"m:known": {("tiny",): HERE}})  # fmt: skip
    assert [(violation.row, violation.place and violation.place.file) for violation in alone.violations] == [
        (("tiny",), "<template>")
    ]


MANY = "  g: {type: OS::Heat::ResourceGroup, properties: {count: 30, resource_def: {type: OS::Nova::Server}}}\n"
BOMB = "p(a, b, c) :- heat:resource(id=a), heat:resource(id=b), heat:resource(id=c).\n"
PLAIN = '@deny("plain", "")\nq(s) :- os:nova:server(_id=s, name="none").\n'


@pytest.mark.parametrize(
    ("rules", "outcome", "errors"),
    [
        (f'@deny("bomb", "")\n{BOMB}{PLAIN}', "indeterminate", [("bomb", True), ("plain", True)]),
        (f'@warn("bomb", "")\n{BOMB}{PLAIN}', "allow_with_warnings", [("bomb", False)]),
        (f'@record("bomb", "")\n{BOMB}{PLAIN}', "allow_with_warnings", [("bomb", False)]),
        (BOMB + PLAIN, "allow", []),
    ],
)  # fmt: skip
def test_what_goes_beyond_the_budget_of_its_level_stops_no_other_level(
    rules: str, outcome: Outcome, errors: list[tuple[str, bool]]
) -> None:
    decision = judge(rules, MANY, budget=Budget(facts=20_000))
    message = "more than 20,000 facts: the rule of m:p at m.dl:"
    assert (decision.outcome, [(error.policy, error.enforced) for error in decision.errors]) == (outcome, errors)
    assert [
        error.to_json() | {"message": error.message.partition("m.dl:")[0] + "m.dl:"} for error in decision.errors
    ] == [
        {
            "code": "budget",
            "policy": name,
            "message": message,
            "place": policy_error.place and policy_error.place.to_json(),
        }
        for policy_error, (name, _) in zip(decision.errors, errors, strict=True)
    ]


def test_what_was_found_within_the_budget_still_denies() -> None:
    rules = f'@deny("bomb", "")\n{BOMB}{PLAIN.replace("none", "web").replace("q(s)", "a(s)")}'
    decision = judge(rules, MANY + server(name="web"), budget=Budget(facts=20_000))
    assert (decision.outcome, [violation.policy for violation in decision.violations]) == ("deny", ["plain"])
    assert [error.policy for error in decision.errors] == ["bomb"]


@pytest.mark.slow
def test_what_no_policy_reads_is_derived_unless_a_budget_ran_out() -> None:
    rules = f'@warn("bomb", "")\n{BOMB}{PLAIN}spare(s) :- os:nova:server(_id=s).\n'
    derived = [judge(rules, MANY, budget=Budget(facts=limit)).derived.keys() for limit in (30_000, 20_000)]
    assert derived == [{"m:p", "m:q", "m:spare"}, {"m:q"}]


def test_a_policy_without_a_way_to_hold_finds_nothing() -> None:
    never = '@deny("never", "{s}")\nnever(s) :- os:nova:server(_id=s), false.\n'
    assert [
        violation.policy for violation in judge(never + HUGE.replace("{more}", ""), server(flavor="huge")).violations
    ] == ["huge"]
