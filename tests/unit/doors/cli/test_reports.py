"""The report formats of `check` for other programs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalog_gate import __version__
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import EngineError, GateError, RulesError
from datalog_gate.doors.cli.main import main
from datalog_gate.doors.cli.reports.csv_table import format_table
from datalog_gate.doors.cli.reports.entries import ReportEntry
from datalog_gate.doors.cli.reports.formats import DOCUMENTS, FOR_PEOPLE, FOR_PROGRAMS, format_report
from datalog_gate.files.check_options import FORMATS
from tests.pages import GOLDEN, assert_written
from tests.sampling import sample

RULES = """\
@deny("flavor", "{s} takes {f}", hint="take a small one", doc="Large flavors are few.", url="https://example.org/a b",
      tags=["cost"])
huge(s, f) :- os:nova:server(_id=s, flavor=f), f = "huge".
@warn("image", "{s} runs {i}", url="none")
old(s, i) :- os:nova:server(_id=s, image=i), i = "old".
@record("seen", "{s} is there")
seen(s) :- os:nova:server(_id=s, name="seen").
@deny("count", "bad count")
bad(s) :- os:nova:server.metadata(_id=s, _value=text), is_string(text), int(text, n), n > 3.
@deny("zone", "{s} is in {z}", on_unknown="deny")
zone(s, z) :- os:nova:server(_id=s, availability_zone=z), z = "north".
"""
STACK = "heat_template_version: 2018-08-31\nparameters: {f: {type: string}}\nresources:\n  "
FILES = {
    "m.dl": RULES,
    "bad.dl": '@deny("p", "bad")\np(s) :- os:nova:server(_id=s, flavour="x").\n',
    "a b/web.yaml": STACK
    + """\
one: {type: OS::Nova::Server, properties: {image: old, flavor: huge}}
  two: {type: OS::Nova::Server, properties: {image: new, flavor: {get_param: f}}}
  six: {type: OS::Nova::Server, properties: {image: new, flavor: m, availability_zone: {get_param: f}, name: seen}}
""",
    "odd.yaml": STACK
    + r"""\
"a](x)\u001b<b>&\n::error::%,x": {type: OS::Nova::Server, properties: {image: i, flavor: huge, metadata: {a: many}}}
""".removeprefix("\\\n"),
    "ok.yaml": STACK + "one: {type: OS::Nova::Server, properties: {image: i, flavor: m}}\n",
}
pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize("form", ["junit", "sarif", "github"])
def test_the_findings_of_several_templates_are_one_document(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = f"odd.yaml absent.yaml ok.yaml --rules m.dl --format {form} --output {form}=out"
    assert main(["check", "a b/web.yaml", *options.split()]) == 3
    printed = capsys.readouterr()
    assert printed == (Path("out").read_text(), "")
    assert_written(
        GOLDEN / f"report.{form}", printed.out.replace(f'"version": "{__version__}"', '"version": "VERSION"')
    )


def test_a_cell_is_never_a_formula() -> None:
    assert format_table(("a", "b"), [("=1+1", None), ("x\ny", "")]) == 'a,b\n\'=1+1,\n"x\ny",\n'


def test_the_counts_of_several_templates_have_names_and_a_total(capsys: pytest.CaptureFixture[str]) -> None:
    options = "ok.yaml absent.yaml --rules m.dl --format compact --output text=out"
    assert main(["check", "a b/web.yaml", *options.split()]) == 3
    lines = capsys.readouterr().out.splitlines()
    counts = [line.partition("; decision")[0] for line in lines if "denied" in line]
    assert counts == [
        "a b/web.yaml: 1 denied, 1 warning, 2 undetermined; 5 policies, 5 facts; deny",
        "ok.yaml: 0 denied, 0 warnings, 0 undetermined; 5 policies, 3 facts; allow",
        "total of 3: 1 denied, 1 warning, 2 undetermined; 1 allow, 1 deny, 1 without a decision",
    ]
    assert [line.partition("; decision")[0] for line in Path("out").read_text().splitlines() if "denied" in line] == (
        counts
    )


NODE = STACK.replace("\n  ", "\n") + "  s: {type: OS::Nova::Server, properties: {image: i, flavor: huge, name: seen}}\n"
CROWD = """\
heat_template_version: 2018-08-31
resources:
  g: {type: OS::Heat::ResourceGroup, properties: {count: 12, resource_def: {type: node.yaml}}}
"""
CROWDED = """\
node.yaml:4:62: deny[flavor] crowd/g/0/s takes huge
  4 |   s: {type: OS::Nova::Server, properties: {image: i, flavor: huge, name: seen}}
    |                                                              ^^^^
  hint  take a small one
  and 11 more here: crowd/g/1/s, crowd/g/2/s, crowd/g/3/s, ...
"""


def test_many_findings_of_a_policy_at_one_place_are_shown_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "node.yaml").write_text(NODE)
    (folder / "crowd.yaml").write_text(CROWD)
    assert main(["check", "crowd.yaml", "--rules", "m.dl"]) == 1
    text = capsys.readouterr().out
    assert text.startswith(CROWDED)
    assert "\nby policy: flavor 12, seen 12\n12 denied, 0 warnings" in text
    assert main(["check", "crowd.yaml", "--rules", "m.dl", "--explain"]) == 1
    explained = capsys.readouterr().out
    assert [explained.count(text) for text in ("deny[flavor]", "  why", "11 more here")] == [1, 2, 2]


def test_members_that_take_other_values_are_shown_each(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.dl").write_text(
        '@deny("m1", "{s} takes {f}")\nm1(s, f) :- os:nova:server(_id=s, flavor=f), f != null.\n'
    )
    member = "{type: OS::Nova::Server, properties: {image: i, flavor: m1.%index%}}"
    (folder / "crowd.yaml").write_text(CROWD.replace("12", "5").replace("{type: node.yaml}", member))
    assert denied(capsys) == [f"crowd/g/{at} takes m1.{at}" for at in range(5)]


def test_members_with_a_common_prefix_are_shown_separately(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = "os:nova:server(_id=s, name=n), os:nova:server(_id=t, name=m), is_string(n), is_string(m)"
    (folder / "m.dl").write_text(f'@deny("pair", "{{s}} is beside {{t}}")\npair(s, t) :- {named}, concat(n, "0", m).\n')
    member = "{type: OS::Nova::Server, properties: {image: i, flavor: f, name: n%index%}}"
    (folder / "crowd.yaml").write_text(CROWD.replace("12", "41").replace("{type: node.yaml}", member))
    assert denied(capsys) == [f"crowd/g/{at} is beside crowd/g/{at}0" for at in range(1, 5)]


def denied(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The messages of the findings in the crowd."""
    assert main(["check", "crowd.yaml", "--rules", "m.dl"]) == 1
    return [line.partition("] ")[2] for line in capsys.readouterr().out.splitlines() if "deny[" in line]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", ["1 flavor failure", "1 image -", "1 seen -", "1 zone failure"]),
        ("--fail-on warn", ["1 flavor failure", "1 image failure", "1 seen -", "1 zone failure"]),
        ("--fail-on record", ["1 flavor failure", "1 image failure", "1 seen failure", "1 zone failure"]),
        ("--mode warn", ["0 flavor skipped", "0 image -", "0 seen -", "0 zone skipped"]),
        ("--mode record --fail-on record", ["1 flavor failure", "1 image failure", "1 seen failure", "1 zone skipped"]),
    ],
)
def test_a_case_fails_by_what_fails_the_run(
    options: str, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["check", "a b/web.yaml", "--rules", "m.dl", "--format", "junit", *options.split()])
    cases = ElementTree.fromstring(capsys.readouterr().out).findall("testsuite/testcase")
    tags = {
        case.get("name"): next((element.tag for element in case if element.tag != "system-out"), "-") for case in cases
    }
    assert [f"{code} {name} {tag}" for name, tag in tags.items() if name != "count"] == expected


WRONG = Diagnostic("unknown-column", "no column a, b:\n100%", Span("x y.dl", 2, 5, 2, 9), "did you mean c?")
NEAR = Diagnostic("syntax", "hm", None, None, "warning")
ERROR = RulesError([WRONG, NEAR], {"x y.dl": "\np(x, a)."})
OF_ERROR = {
    "text": f"{ERROR}\n",
    "compact": f"{ERROR}\n",
    "json": json.dumps({"schema": "datalog-gate/diagnostics/1", "diagnostics": [WRONG.to_json(), NEAR.to_json()]})
    + "\n",
    "github": "::error file=x y.dl,line=2,col=5,title=unknown-column::no column a, b:%0A100%25 (did you mean c?)\n"
    "::warning title=syntax::hm\n",
    "junit": """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="datalog-gate">
  <testsuite name="rules" failures="0" errors="1" skipped="0" tests="1">
    <testcase classname="rules" name="readable">
      <error message="no column a, b:\ufffd100%" type="unknown-column">x y.dl:2:5: error[unknown-column] \
no column a, b:\ufffd100% (did you mean c?)</error>
      <system-out>warning[syntax] hm</system-out>
    </testcase>
  </testsuite>
</testsuites>
""",
}


def test_each_format_is_an_option() -> None:
    assert sorted(FORMATS) == sorted([*FOR_PEOPLE, *FOR_PROGRAMS, *DOCUMENTS])


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in ("sarif", "html")])
def test_diagnostics_are_reported_in_every_format(form: str) -> None:
    assert format_report(form, [ReportEntry("rules", ERROR)]) == OF_ERROR[form]


@pytest.mark.parametrize(
    ("file", "uri"),
    [("HERE/x.yaml", "x.yaml"), ("./d/../x:y%.yaml", "x%3Ay%25.yaml"), ("../\u00e4.yaml", "../%C3%A4.yaml"),
     ("\udcff.yaml", "%FF.yaml"), ("\ud800\udcff.yaml", "%ED%A0%80%ED%B3%BF.yaml"),
     ("/else where/x.yaml", "file:///else%20where/x.yaml")],
)  # fmt: skip
def test_files_are_uris_from_the_working_directory(file: str, uri: str) -> None:
    wrong = RulesError([Diagnostic("syntax", "m", Span(file.replace("HERE", str(Path.cwd())), 1, 1, 1, 2))])
    assert place_of("sarif", format_report("sarif", [ReportEntry("rules", wrong)])) == f"{uri}:1:1"


@pytest.mark.parametrize(
    ("form", "expected"), [("text", "slow\n"), ("json", ""), ("github", "::error title=engine::slow\n")]
)
def test_an_exceeded_budget_is_reported(form: str, expected: str) -> None:
    answers: list[GateError] = [EngineError("slow")]
    assert "".join(format_report(form, [ReportEntry("web", answer)]) for answer in answers) == expected


COLOURED = """\
a: warn[y] b.yaml:6:57: {red}deny{plain}[flavor] s takes huge
  6 |     properties: {{image: i, metadata: {{a: many}}, flavor: huge}}
    |                                                         {green}^^^^{plain}
  hint  take a small one
a: warn[y] b.yaml:6:42: {red}error{plain}[count] int('many'): the text is not a number
1 denied, 0 warnings, 0 undetermined, 1 in error; 5 policies, 4 facts; deny; decision DIGEST
"""


@pytest.mark.parametrize(
    ("is_terminal", "environ", "coloured"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
        (False, {"FORCE_COLOR": "1"}, True),
    ],
)
def test_colours_are_for_terminals_or_asked_for(
    is_terminal: bool,
    environ: dict[str, str],
    coloured: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = dict.fromkeys(("red", "green", "plain"), "")
    if coloured:
        codes = {"red": "\x1b[1;31m", "green": "\x1b[1;32m", "plain": "\x1b[0m"}
    server = "type: OS::Nova::Server\n    properties: {image: i, metadata: {a: many}, flavor: huge}\n"
    Path("a: warn[y] b.yaml").write_text(f"{STACK}s:\n    {server}")
    for name, value in {"TERM": "xterm", "NO_COLOR": "", "FORCE_COLOR": "", **environ}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    main(["check", "a: warn[y] b.yaml", "--rules", "m.dl"])
    shown = re.sub("decision .*", "decision DIGEST", capsys.readouterr().out)
    assert shown == COLOURED.format(**codes)


@settings(max_examples=sample(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text() | st.text("\x00\x1b\r\n\u2028\ud800\uffff]]><&:,%[](){}"))
def test_no_text_breaks_a_document(name: str) -> None:
    wrong = [ReportEntry(name, RulesError([Diagnostic("syntax", name, Span(f"d/{name}", 1, 1, 1, 2), name)]))]
    [case] = ElementTree.fromstring(format_report("junit", wrong)).findall("testsuite/testcase")
    assert [element.tag for element in case] == ["error"]
    [run] = json.loads(format_report("sarif", wrong))["runs"]
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [("syntax", "error")]
    line = format_report("github", wrong)
    properties = line.split("::", 2)[1]
    assert (line[:-1].isprintable(), [entry.partition("=")[0] for entry in properties.split(",")]) == (
        True, ["error file", "line", "col", "title"])  # fmt: skip


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("check ok.yaml --rules bad.dl", 2),
        ("check ok.yaml --rules m.dl --catalogue absent.json", 3),
        ("lint bad.dl --catalogue none.json", 3),
        ("check absent.yaml ok.yaml --together --rules m.dl", 3),
    ],
)
@pytest.mark.parametrize("form", ["json", "sarif", "github"])
def test_input_errors_are_printed_on_stdout_in_the_format(
    command: str, code: int, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--format", form]) == code
    printed = capsys.readouterr()
    assert (printed.err, place_of(form, printed.out)) == ("", {2: "bad.dl:2:31"}.get(code))


def place_of(form: str, text: str) -> str | None:
    """The place of the first result."""
    if form == "github":
        properties = dict(entry.split("=") for entry in text.split("::")[1].split(" ", 1)[1].split(","))
        return "{file}:{line}:{col}".format(**properties) if "file" in properties else None
    data: Any = json.loads(text)
    if form == "json":
        place = data["diagnostics"][0]["place"]
        return "{file}:{line}:{column}".format(**place) if place else None
    [*locations] = data["runs"][0]["results"][0]["locations"]
    if not locations:
        return None
    location = locations[0]["physicalLocation"]
    return (
        f"{location['artifactLocation']['uri']}:{location['region']['startLine']}:{location['region']['startColumn']}"
    )


def test_bad_rules_are_in_every_output(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = [f"--output={form}={form}" for form in ("sarif", "github", "json")]
    assert main(["check", "ok.yaml", "--rules", "bad.dl", *outputs]) == 2
    assert capsys.readouterr().out == ""
    assert {place_of(form, Path(form).read_text()) for form in ("sarif", "github", "json")} == {"bad.dl:2:31"}
    assert main(["check", "ok.yaml", "--rules", "bad.dl", "--output", "sarif=absent/x"]) == 64


def test_the_most_serious_findings_come_first_and_members_by_number(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "m.dl").write_text(
        '@record("a", "{v}")\na(v) :- os:cinder:volume(_id=v, name="r").\n'
        '@warn("b", "{v}")\nb(v) :- os:cinder:volume(_id=v, name="w").\n'
        '@deny("z", "{v} {s}")\nz(v, s) :- os:cinder:volume(_id=v, size=s), s ?? 0 > 500.\n'
        '@deny("y", "{v}")\ny(v) :- os:cinder:volume(_id=v, name="y").\n'
    )
    (folder / "part.yaml").write_text(f"{STACK}p: {{type: OS::Cinder::Volume, properties: {{size: 1, name: y}}}}\n")
    (folder / "order.yaml").write_text(
        "heat_template_version: 2018-08-31\nparameters: {n: {type: number}}\nresources:\n"
        "  r: {type: OS::Cinder::Volume, properties: {size: 1, name: r}}\n"
        "  w: {type: OS::Cinder::Volume, properties: {size: 1, name: w}}\n"
        "  u: {type: OS::Cinder::Volume, properties: {size: {get_param: n}}}\n"
        "  g: {type: OS::Heat::ResourceGroup, properties: {count: 11, resource_def: "
        '{type: OS::Cinder::Volume, properties: {size: {list_join: ["", ["%index%", "600"]]}}}}}\n'
        "  y: {type: OS::Cinder::Volume, properties: {size: 1, name: y}}\n  n: {type: part.yaml}\n"
    )
    main(["check", "order.yaml", "--rules", "m.dl", "--format", "compact"])
    lines = [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()[:-1]]
    denied = [*(f"deny[z] order/g/{at} {at or ''}600" for at in range(11)), "deny[y] y", "deny[y] p"]
    assert lines == [*denied, "warn[b] w", "undetermined[z] u ?: depends on parameter n", "record[a] r"]


def test_undetermined_findings_of_one_cause_are_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    member = "{type: OS::Nova::Server, properties: {image: i, flavor: {get_param: f}}}"
    crowd = CROWD.replace("{type: node.yaml}", member)
    (folder / "crowd.yaml").write_text(f"{crowd}parameters: {{f: {{type: string}}}}\n")
    assert main(["check", "crowd.yaml", "--rules", "m.dl"]) == 0
    lines = capsys.readouterr().out.splitlines()[:-1]
    heads = [line for line in lines if "undetermined" in line or "more here" in line]
    assert [re.sub("^.*undetermined", "undetermined", line) for line in heads] == [
        "undetermined[flavor] crowd/g/0 takes ?: depends on parameter f",
        "  and 11 more here: crowd/g/1, crowd/g/2, crowd/g/3, ...",
    ]
