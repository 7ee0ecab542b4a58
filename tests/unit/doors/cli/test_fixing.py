"""`check --fix` writes proved fixes into templates, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from itertools import count
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from datalog_gate.template.document import read_document
from tests.commands import run, write_files
from tests.known_values import CORPUS

ROOT = Path(__file__).parents[4]
RULES = """\
@deny("own.flavor", "{s} takes {f}", hint="set flavor to m1.small")
flavor(s, f) :- os:nova:server(_id=s, flavor=f), f != null, f != "m1.small".
@warn("own.size", "{v} has {n} GB", hint="set size to at most 10")
size(v, n) :- os:cinder:volume(_id=v, size=n, volume_type=null), n != null, n > 10, n <= 500.
@deny("own.type", "{v} of {n} GB has no encrypted type", hint="use an encrypted type")
plain(v, n) :- os:cinder:volume(_id=v, size=n, volume_type=t), n ?? 0 > 500, t ?? "" != "luks".
"""
ZONE = """\
@record("own.zone", "{s} is in {zone}", hint="set availability_zone to z1")
zone(s, zone) :- os:nova:server(_id=s, availability_zone=z), zone = z ?? "any zone", zone != "z1".
"""
"""Matches most servers of the corpus."""
WEB = """\
heat_template_version: 2018-08-31
# what the team needs
parameters:
  size: {type: number, default: 20}   # GB
resources:
  web:
    type: OS::Nova::Server
    properties: {flavor: 'huge', image: i}  # too large
  data: {type: OS::Cinder::Volume, properties: &data {size: {get_param: size}}}
  more:
    type: OS::Heat::ResourceGroup
    properties:
      count: 2
      resource_def:
        type: OS::Cinder::Volume
        properties:
          size: 900
"""
FIXED = (
    WEB.replace("default: 20", "default: 10")
    .replace("'huge'", "'m1.small'")
    .replace("  size: 900", "  volume_type: luks\n          size: 900")
)
LINES = """\
web.yaml:8:26: fixed[own.flavor] set flavor of web to m1.small
web.yaml:17:11: fixed[own.type] set volume_type of 0 to luks
web.yaml:4:33: fixed[own.size] set size of data to 10
"""
FIXTURES = [ROOT / "fixtures"]
SOURCES = [*FIXTURES, *sorted(path for path in CORPUS.glob("*") if path.is_dir())]
"""The fixtures, and the folders of the corpus, if there is one."""
HEAD = "heat_template_version: 2018-08-31\nresources:\n  "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_files(tmp_path, {"web.yaml": WEB, "own.dl": RULES})


def test_proved_fixes_are_written_where_the_values_stand(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    total = "0 denied, 0 warnings, 0 undetermined; 3 policies, 6 facts; allow; decision "
    code, out, err = run(capsys, "check", "web.yaml", "--rules", "own.dl", "--fix")
    assert (code, out[:-7], err, (folder / "web.yaml").read_text()) == (0, total, LINES, FIXED)
    code, out, err = run(capsys, "check", "web.yaml", "--rules", "own.dl", "--fix")
    assert (code, out[:-7], err, (folder / "web.yaml").read_text()) == (0, total, "", FIXED)


def test_the_difference_is_one_that_patch_applies(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", "web.yaml", "--rules", "own.dl", "--diff")
    assert (code, err, (folder / "web.yaml").read_text()) == (1, LINES, WEB)
    subprocess.run(["patch", "--strip", "1", "--quiet"], input=out, text=True, check=True)
    assert (folder / "web.yaml").read_text() == FIXED


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("\ufeff" + HEAD + "v: {type: OS::Cinder::Volume, properties: {size: 20}}", "size: 10"),
        (HEAD.replace("\n", "\r\n") + "v: {type: OS::Cinder::Volume,\r\n   properties: {size: 20}}\r\n", "size: 10"),
        (HEAD + 'v: {type: OS::Cinder::Volume, properties: {size: "20"}}\n', "size: 10"),
        (
            HEAD.replace("resources", "parameters: {key: {type: string, hidden: true, default: S3CRET}}\nresources")
            + "v: {type: OS::Cinder::Volume, properties: {size: 20}}\n"
            + "  n: {type: OS::Heat::Value, properties: {value: {get_param: key}}}\n",
            "size: 10",
        ),
        (HEAD + "v: {type: OS::Cinder::Volume, properties: {size: &s 20, metadata: {n: *s}}}\n", ""),
    ],
    ids=["byte order mark", "line ends", "quotes", "a secret", "a value that is used twice"],
)
def test_all_else_stays_as_it_is(folder: Path, capsys: pytest.CaptureFixture[str], wrong: str, right: str) -> None:
    (folder / "v.yaml").write_bytes(wrong.encode())
    run(capsys, "check", "v.yaml", "--rules", "own.dl", "--fix")
    expected = re.sub(r'size: "?20"?', right, wrong) if right else wrong
    assert (folder / "v.yaml").read_bytes() == expected.encode()


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (
            "resources:\n  # the page\n  web: {type: OS::Nova::Server}  # small\n",
            "resources:\n"
            "  edge_for_web: {type: DatalogGate::Policy, properties: {service: edge, scope: [web]}}\n"
            "  # the page\n  web: {type: OS::Nova::Server}  # small\n",
        ),
        (
            'resources: {"web": {type: OS::Nova::Server}}\n',
            "resources: {edge_for_web: {type: DatalogGate::Policy, properties: {service: edge, scope: [web]}}, "
            '"web": {type: OS::Nova::Server}}\n',
        ),
        ("resources:\n  edge_for_web: {type: OS::Heat::None}\n  web: {type: OS::Nova::Server}\n", ""),
        ("resources: {g: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: OS::Nova::Server}}}}\n", ""),
    ],
    ids=["block", "flow", "a name that is taken", "a member"],
)
def test_a_grant_is_written_as_a_resource(
    folder: Path, capsys: pytest.CaptureFixture[str], wrong: str, right: str
) -> None:
    rules = '@deny("d", "{s}")\np(s) :- os:nova:server(_id=s), not gate:unlocked("edge", s).\n'
    rules += '@unlock("edge")\nedge(g) :- gate:grant(id=g, service="edge").\n'
    head = "heat_template_version: 2018-08-31\n"
    write_files(folder, {"own.dl": rules, "web.yaml": head + wrong})
    run(capsys, "check", "web.yaml", "--rules", "own.dl", "--services", "edge", "--fix", "--ignore", "unknown-*")
    assert (folder / "web.yaml").read_text() == head + (right or wrong)


LIMITED = """\
@deny("d", "{s} takes {f}, not one of {offer}")
p(s, f, offer) :- os:nova:server(_id=s, flavor=f), not offered(f), offer = list{ n : offered(n) }.
relation offered(name). offered("tiny"). offered("m1.small").
@deny("zone", "{s}") q(s) :- os:nova:server(_id=s, availability_zone=z), z != null, z != "z1".
"""
HOT = "heat_template_version: 2018-08-31\nparameters:\n"
SERVER = "resources: {s: {type: OS::Nova::Server, properties: {image: i, flavor: {get_param: f}}}}\n"
DATABASE = "d: {type: OS::Trove::Instance, properties: {flavor: {get_param: f}, size: 1}}}\n"
BIG = "conditions: {big: {equals: [{get_param: f}, huge]}}\n"
CFN = """\
{"HeatTemplateFormatVersion": "2012-12-12", "Parameters": {"f": {"Type": "String"}}, "Resources": {
 "s": {"Type": "OS::Nova::Server", "Properties": {"image": "i", "flavor": {"Ref": "f"}}}}}
"""


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (
            f"{HOT}  # the size\n  f:\n    type: string  # a flavor\n{SERVER}",
            f"{HOT}  # the size\n  f:\n    constraints: [{{allowed_values: [m1.small, tiny]}}]\n"
            f"    type: string  # a flavor\n{SERVER}",
        ),
        (
            f"{HOT}  f:\n    type: string\n    constraints:\n    - custom_constraint: nova.flavor\n{SERVER}",
            f"{HOT}  f:\n    type: string\n    constraints:\n    - allowed_values: [m1.small, tiny]\n"
            f"    - custom_constraint: nova.flavor\n{SERVER}",
        ),
        (
            f"{HOT}  f: {{type: string, constraints: [{{allowed_values: [huge, tiny]}}]}}\n{SERVER}",
            f"{HOT}  f: {{type: string, constraints: [{{allowed_values: [tiny]}}]}}\n{SERVER}",
        ),
        (CFN, CFN.replace('{"Type": "String"}', '{"AllowedValues": ["m1.small", "tiny"], "Type": "String"}')),
        (f"{HOT}  f: {{type: string, constraints: [{{allowed_values: [huge, vast]}}]}}\n{SERVER}", ""),
        (f"{HOT}  f: {{type: string}}\n{SERVER.replace('image: i', 'image: {get_param: f}')}", ""),
        (f"{HOT}  f: {{type: string, hidden: true}}\n{SERVER}", ""),
        (f"{HOT}  f: {{type: string}}\n{SERVER.replace('}}}}', '}}, ' + DATABASE)}", ""),
        (f"{HOT}  f: {{type: string}}\n{BIG}{SERVER.replace('properties', 'condition: big, properties')}", ""),
        (f"{HOT}  f: {{type: string}}\n{SERVER.replace('{get_param: f}', '{list_join: [a, [{get_param: f}]]}')}", ""),
    ],
    ids=["none", "a block", "fewer", "JSON", "none that passes", "another use", "hidden", "another resource",
         "a condition", "a part of the value"],
)  # fmt: skip
def test_a_parameter_without_a_value_gets_the_values_that_pass(
    folder: Path, capsys: pytest.CaptureFixture[str], wrong: str, right: str
) -> None:
    write_files(folder, {"own.dl": LIMITED, "web.yaml": wrong})
    run(capsys, "check", "web.yaml", "--rules", "own.dl", "--fix")
    assert (folder / "web.yaml").read_text() == (right or wrong)


ADVISED = """\
@deny("team", "{s}", hint="team: {get_param: team}")
p(s) :- os:nova:server(_id=s), not os:nova:server.metadata(_id=s, _key="team").
@deny("zone", "{s}", hint="leave availability_zone out")
q(s) :- os:nova:server(_id=s, availability_zone=z), z != null.
@deny("default", "{name}", hint="remove the default, and set the value in an environment")
r(name) :- heat:parameter(name=name, origin="default").
"""
TEAM = "heat_template_version: 2018-08-31\nparameters: {team: {type: string}}\nresources:\n  s:\n    "
MADE = f"{TEAM}type: OS::Nova::Server\n    properties:\n      "
NEXT = "\n  # ---- what comes next\n  t: {type: OS::Heat::None}\n"
OWN = "{team: {get_param: team}}"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (f"{MADE}image: i  # small\n", f"{MADE}metadata: {OWN}\n      image: i  # small\n"),
        (f"{MADE}metadata: {{}}\n", f"{MADE}metadata: {OWN}\n"),
        (f"{MADE}metadata: {{a: b}}\n", f"{MADE}metadata: {{team: {{get_param: team}}, a: b}}\n"),
        (f"{MADE}metadata:\n        a: b\n", f"{MADE}metadata:\n        team: {{get_param: team}}\n        a: b\n"),
        (f"{MADE}metadata: {{get_param: team}}\n", ""),
        (
            f"{MADE}metadata: {OWN}\n      # where it is\n      availability_zone: z  # a zone\n      # its image\n"
            "      image: i\n",
            f"{MADE}metadata: {OWN}\n      # where it is\n      # its image\n      image: i\n",
        ),
        (
            f"{MADE}metadata: {OWN}\n      availability_zone:\n        list_join: ['', [a, b]]",
            f"{MADE}metadata: {OWN}\n",
        ),
        (
            f"{MADE}metadata: {OWN}\n      availability_zone:\n        list_join: ['', [a, b]]\n{NEXT}",
            f"{MADE}metadata: {OWN}\n{NEXT}",
        ),
        (
            f"{TEAM}{{type: OS::Nova::Server, properties: {{availability_zone: z, metadata: {OWN}}}}}\n",
            f"{TEAM}{{type: OS::Nova::Server, properties: {{metadata: {OWN}}}}}\n",
        ),
        (
            f"{TEAM}{{type: OS::Nova::Server, properties: {{metadata: {OWN},\n      availability_zone: z}}}}\n",
            f"{TEAM}{{type: OS::Nova::Server, properties: {{metadata: {OWN}}}}}\n",
        ),
        (
            "heat_template_version: 2018-08-31\nparameters:\n  k:\n    type: string\n    default: |\n      a\n\n"
            "      b\n    hidden: true\nresources: {k: {type: OS::Heat::Value, properties: {value: {get_param: k}}}}\n",
            "heat_template_version: 2018-08-31\nparameters:\n  k:\n    type: string\n"
            "    hidden: true\nresources: {k: {type: OS::Heat::Value, properties: {value: {get_param: k}}}}\n",
        ),
        (
            CFN.replace('"String"', '"String", "Default": "x"'),
            CFN,
        ),
    ],
    ids=["a map that is missing", "an empty map", "in brackets", "a block", "a function", "a line", "lines",
         "lines before a comment", "first", "last", "a default", "JSON"],
)  # fmt: skip
def test_what_a_hint_writes_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str], wrong: str, right: str
) -> None:
    write_files(folder, {"own.dl": ADVISED, "web.yaml": wrong})
    run(capsys, "check", "web.yaml", "--rules", "own.dl", "--fix")
    assert (folder / "web.yaml").read_text() == (right or wrong)


def test_an_example_is_shown_and_not_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = "{direction: ingress, remote_ip_prefix: 0.0.0.0/0, protocol: tcp, port_range_min: 22, port_range_max: 22}"
    text = HEAD + f"g: {{type: OS::Neutron::SecurityGroup, properties: {{rules: [{rule}]}}}}\n"
    (folder / "web.yaml").write_text(text)
    check: list[str | Path] = ["check", "web.yaml", "--rules", ROOT / "rules" / "net" / "ssh.dl", "--fix", "--explain"]
    code, out, err = run(capsys, *check)
    assert (code, err, (folder / "web.yaml").read_text()) == (1, "", text)
    [fix] = [line.split("fix", 1)[1].strip() for line in out.splitlines() if line.lstrip().startswith("fix")]
    assert fix == (
        "set rules.0.remote_ip_prefix of g to a network of your own, at most a /16, such as 10.0.0.0/16 "
        "(settles 1 finding)   web.yaml:3"
    )


def test_a_fix_counts_what_it_settles_wherever_the_value_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = "{type: OS::Nova::Server, properties: {flavor: f, image: i, availability_zone: x}}"
    group = f"{{type: OS::Heat::ResourceGroup, properties: {{count: 2, resource_def: {server}}}}}"
    rules = '@deny("zone", "{s}")\nzone(s) :- os:nova:server(_id=s, availability_zone=z), z != "nova-1".\n'
    root = f"{HEAD}a: {{type: inner.yaml}}\n  b: {{type: inner.yaml}}\n  g: {group}\n"
    write_files(folder, {"own.dl": rules, "inner.yaml": f"{HEAD}s: {server}\n", "web.yaml": root})
    _, out, _ = run(capsys, "check", "web.yaml", "--rules", "own.dl", "--explain")
    assert [line.split("fix", 1)[1].strip() for line in out.splitlines() if line.startswith("  fix")] == [
        *["set availability_zone of s to nova-1 (settles 2 findings)   inner.yaml:3"] * 2,
        *[f"set availability_zone of {at} to nova-1 (settles 2 findings)   web.yaml:5" for at in range(2)],
    ]


def test_a_fix_adds_no_finding_to_another_template_that_reads_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = HEAD.replace("resources", "parameters: {f: {type: string, default: huge}}\nresources")
    inner += "s: {type: OS::Nova::Server, properties: {image: i, flavor: {get_param: f}}}\n"
    root = HEAD + "n: {type: inner.yaml}\n"
    rules = RULES + '@deny("named", "{s}")\nnamed(s) :- os:nova:server(_id=s, flavor="m1.small", _stack="b/n").\n'
    write_files(folder, {"inner.yaml": inner, "a.yaml": root, "b.yaml": root, "own.dl": rules})
    run(capsys, "check", "a.yaml", "b.yaml", "--rules", "own.dl", "--fix")
    assert (folder / "inner.yaml").read_text() == inner
    run(capsys, "check", "a.yaml", "--rules", "own.dl", "--fix")
    assert (folder / "inner.yaml").read_text() == inner.replace("huge", "m1.small")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("arguments", ["- --fix", "--stack web --diff"])
def test_only_templates_in_files_can_be_fixed(
    arguments: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("web.yaml") as sent:
        monkeypatch.setattr(sys, "stdin", sent)
        code, _, err = run(capsys, "check", "--rules", "own.dl", *arguments.split())
    assert (code, err) == (64, "datalog-gate: --fix and --diff need templates in files\n")


@pytest.mark.slow
def test_a_file_is_old_or_new_whenever_the_command_is_killed(folder: Path) -> None:
    command = [sys.executable, "-m", "datalog_gate", "check", "web.yaml", "--rules", "own.dl", "--fix"]
    started = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    step = (time.monotonic() - started) / 15
    for number in count(1):
        (folder / "web.yaml").write_text(WEB)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(number * step)
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert (folder / "web.yaml").read_text() in (WEB, FIXED)
    assert (folder / "web.yaml").read_text() == FIXED


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=[source.name for source in SOURCES])
def test_a_fix_removes_its_finding_and_adds_none(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = copytree(source, tmp_path / "copy")
    rules = write_files(tmp_path, {"own.dl": RULES + ZONE}) / "own.dl"
    templates = sorted(path for path in copy.rglob("*") if path.suffix in (".yaml", ".yml", ".template"))
    counts = [fix(template, copy, rules, capsys) for template in templates]
    assert sum(counts) > 30 or source not in FIXTURES


def fix(template: Path, folder: Path, rules: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """Fix a template, compare the files and the decision with those before, and restore the files. Return the number of
    fixes."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    check: list[str | Path] = ["check", template, "--rules", ROOT / "rules", "--rules", rules, "--format", "json"]
    check += ["--services", "approval,edge,licence,rack_affinity"]
    _, out, _ = run(capsys, *check)
    if "datalog-gate/decision/1" not in out[:50]:
        return 0
    was = problems(out)
    _, out, err = run(capsys, *check, "--fix")
    now = problems(out)
    fixes = Counter(re.findall(r": fixed\[([^]]*)\] ", err))
    gone = Counter(policy for policy, _ in (was - now).elements())
    assert now <= was
    assert fixes <= gone
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    changed = [path for path in after if before[path] != after[path]]
    values = 0
    for path in changed:
        old, new = before[path].decode(), after[path].decode()
        old_values, new_values = (Counter(leaves(read_document(text, "").data)) for text in (old, new))
        values += (new_values - old_values).total()
        assert re.findall(r"#.*", old) == re.findall(r"#.*", new)
        # a new key before the first one of a list's member moves that to a line of its own
        assert added(old, new) <= 2 * fixes.total()
    assert (after.keys(), bool(changed)) == (before.keys(), bool(fixes))
    allowed = [names.count(", ") for names in re.findall(r"\] allow only (.*) for the parameter ", err)]
    more = 2 * err.count("] add a resource of type ") + sum(allowed)  # type, service and scope; values of a parameter
    assert values <= fixes.total() + more
    for path in changed:
        path.write_bytes(before[path])
    return fixes.total()


def leaves(data: object, path: tuple[object, ...] = ()) -> Iterator[tuple[tuple[object, ...], object]]:
    """The single values in data, with the names on their paths: what is added to a list moves its other members."""
    items: Iterable[tuple[object, object]] = ()
    match data:
        case dict():
            items = data.items()
        case list():
            items = enumerate(data)
        case _:
            yield path, repr(data)
    for step, value in items:
        yield from leaves(value, (*path, *([step] if isinstance(step, str) else [])))


def added(old: str, new: str) -> int:
    """The number of lines that are new or changed."""
    lines = unified_diff(old.splitlines(), new.splitlines(), n=0)
    return sum(line[0] == "+" and line[:3] != "+++" for line in lines)


def problems(text: str) -> Counter[tuple[str, str]]:
    """Count the findings, errors and refusals of a decision in JSON."""
    decision: dict[str, Any] = json.loads(text)
    findings = [
        (finding["policy"], finding["resource"] or json.dumps(finding["row"]))
        for finding in (*decision["violations"], *decision["undetermined"])  # which of the two may depend on the load
    ]
    errors = [(error["policy"], error["message"]) for error in decision["errors"]]
    refusals = [(refusal["code"], refusal["message"]) for refusal in decision["refusals"]]
    return Counter([*findings, *errors, *refusals])
