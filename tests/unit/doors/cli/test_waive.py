"""Waivers on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from datalog_gate.decision_point.operation import Operation
from datalog_gate.doors.cli.main import main
from datalog_gate.files.stack_definition import StackDefinition
from tests.commands import run, write_files
from tests.fake_heat import point_at
from tests.unit.decision.test_waivers import RULES, TEMPLATE
from tests.unit.doors.cli.test_replay import MEMBER, NOW

FILE = """\
# Agreed on Mondays.
waivers:
- id: W-7   # the old ones
  policy: flavor
  key: {f: huge}
  owner: net
  ticket: OPS-1
  reason: the scanner
  expires: 2027-03-08
"""
CHECK = ("check", "s.yaml", "--now", "2027-03-01T12:00", "--waivers", "waivers.yaml")
WHO = ("--owner", "net", "--reason", "it: stays", "--expires", "2027-06-01")
UNREAD = "waivers.yaml: no waiver can be appended: write the list with a dash for each waiver"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with rules, a template, waivers, and a decision on it."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, {"rules/m.dl": RULES, "s.yaml": TEMPLATE})
    assert main(["check", "s.yaml", "--format", "json"]) == 1
    Path("d.json").write_text(capsys.readouterr().out)
    Path("waivers.yaml").write_text(FILE)
    return tmp_path


def logged(waivers: str = "") -> str:
    """The id of a creation that a service judged and logged."""
    here = Path.cwd()
    waivers = waivers and str(here / waivers)
    point = point_at(NOW, rules=f"{here}/rules", decision_log=f"{here}/log.jsonl", waivers=waivers)
    answer = point.judge(Operation("api", "create", "s", "p1", lambda: StackDefinition(TEMPLATE), MEMBER))
    point.flush()
    return answer.id


def test_the_text_shows_what_is_waived_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *CHECK)
    assert (code, out, err) == (1, """\
s.yaml:4:3: deny[many] 2 servers
  4 |   db: {type: OS::Nova::Server, properties: {flavor: vast}}
    |   ^^
s.yaml:4:53: deny[flavor] db takes vast
  4 |   db: {type: OS::Nova::Server, properties: {flavor: vast}}
    |                                                     ^^^^
  hint  take less
s.yaml:3:54: waived[flavor] web takes huge
  3 |   web: {type: OS::Nova::Server, properties: {flavor: huge}}
    |                                                      ^^^^
  waiver  W-7 until 2027-03-08: the scanner (net, OPS-1)
2 denied, 0 warnings, 1 waived (W-7, 7 days left), 0 undetermined; 2 policies, 4 facts; deny; decision 3a3abf
""", "datalog-gate: waiver W-7 ends soon: 7 days left\n")  # fmt: skip


def test_the_other_formats_show_what_is_waived_as_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    reports = {form: run(capsys, *CHECK, "--format", form)[1] for form in ("compact", "github", "junit", "sarif")}
    assert reports["compact"].splitlines()[2:3] == ["s.yaml:3:54: waived[flavor] web takes huge"]
    assert reports["github"].splitlines()[2:] == [
        "::notice file=s.yaml,line=3,col=54,title=flavor::web takes huge "
        "(waived by W-7 until 2027-03-08: the scanner (net, OPS-1))"
    ]
    results = json.loads(reports["sarif"])["runs"][0]["results"]
    assert [(result["message"]["text"], result["level"], result.get("suppressions")) for result in results] == [
        ("db takes vast (take less)", "error", None),
        ("2 servers", "error", None),
        ("web takes huge", "error", [{"kind": "external", "status": "accepted",
                                      "justification": "waived by W-7 until 2027-03-08: the scanner (net, OPS-1)"}]),
    ]  # fmt: skip
    Path("s.yaml").write_text(TEMPLATE[: TEMPLATE.index("  db")])
    assert run(capsys, *CHECK, "--format", "junit")[:2] == (0, """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="datalog-gate">
  <testsuite name="s.yaml" failures="0" errors="0" skipped="1" tests="2">
    <testcase classname="s.yaml" name="flavor">
      <skipped message="web takes huge">s.yaml:3:54: waived[flavor] web takes huge \
(waived by W-7 until 2027-03-08: the scanner (net, OPS-1))</skipped>
    </testcase>
    <testcase classname="s.yaml" name="many" />
  </testsuite>
</testsuites>
""")  # fmt: skip


def test_an_explanation_shows_why_a_waived_finding_holds(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.yaml").write_text(TEMPLATE[: TEMPLATE.index("  db")])
    assert run(capsys, *CHECK, "--explain=all")[:2] == (0, """\
s.yaml:3:54: waived[flavor] web takes huge
  3 |   web: {type: OS::Nova::Server, properties: {flavor: huge}}
    |                                                      ^^^^
  why   os:nova:server(s/web, flavor=huge, ...)   s.yaml:3
        huge in [huge, vast]                      rules/m.dl:2
  waiver  W-7 until 2027-03-08: the scanner (net, OPS-1)
clean[many] looked at 1 row: os:nova:server 1
0 denied, 0 warnings, 1 waived (W-7, 7 days left), 0 undetermined; 2 policies, 3 facts; allow; decision af94ac
""")  # fmt: skip


def test_a_file_of_waivers_may_be_named_by_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    named = run(capsys, *CHECK)
    monkeypatch.setenv("DATALOG_GATE_WAIVERS", "waivers.yaml")
    assert run(capsys, *CHECK[:-2]) == named


def test_waivers_without_a_violation_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.yaml").write_text(TEMPLATE[: TEMPLATE.index("  web")] + TEMPLATE[TEMPLATE.index("  db") :])
    code, _, err = run(capsys, *CHECK)
    assert (code, err) == (1, "datalog-gate: 1 of 1 waivers matched nothing here: W-7\n")


def test_a_waiver_is_written_below_those_that_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, "waive", "d.json", "1", *WHO, "--ticket", "OPS-2")
    entry = """\
- id: "W-8"
  policy: "flavor"
  subject: "s/db"
  key: {"f": "vast"}
  owner: "net"
  reason: "it: stays"
  ticket: "OPS-2"
  expires: "2027-06-01"
"""
    assert (result, Path("waivers.yaml").read_text()) == ((0, entry, ""), FILE + entry)
    assert run(capsys, *CHECK, "--format", "compact")[1].splitlines()[1:3] == [
        "s.yaml:3:54: waived[flavor] web takes huge", "s.yaml:4:53: waived[flavor] db takes vast"
    ]  # fmt: skip


def test_a_waiver_for_a_number_says_how_to_bound_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("waivers.yaml").unlink()
    bounded = """\
- id: "W-1"
  policy: "many"
  owner: "net"
  reason: "it: stays"
  expires: "2027-06-01"
  while: "n <= 3"
"""
    code, out, err = run(capsys, "waive", "d.json", "3", *WHO)
    assert (code, out, Path("waivers.yaml").exists()) == (3, "", False)
    assert err.splitlines()[0] == "waivers.yaml:2:5: error[bad-waiver] it would waive everything that the policy finds"
    assert run(capsys, "waive", "d.json", "3", *WHO, "--while", "n <= 3") == (0, bounded, "")
    assert run(capsys, *CHECK, "--format", "compact")[1].splitlines()[-2:-1] == ["s.yaml:4:3: waived[many] 2 servers"]


COUNTED = """\
@deny("full", "{s} has {n} in {z}")
full(s, z, n) :- heat:stack(name=s), os:nova:server(availability_zone=z), n = count{ r : os:nova:server(_id=r) }, n > 1.
"""


def test_what_a_waiver_leaves_open_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules/m.dl").write_text(COUNTED)
    zone = "flavor: huge, availability_zone: {get_param: z}"
    Path("s.yaml").write_text(
        TEMPLATE.replace("flavor: huge", zone) + "parameters: {z: {type: string, hidden: true}}\n"
    )
    Path("waivers.yaml").write_text("waivers:\n")
    run(capsys, "check", "s.yaml", "-P", "z=S3CRET", "--format", "json", "--output", "json=d.json")
    code, out, err = run(capsys, "waive", "d.json", "2", *WHO)
    assert (code, out.splitlines()[1:3], err) == (
        0, ['  policy: "full"', '  key: {"s": "s"}'],
        "datalog-gate: z is hidden or not known: the waiver holds for any value\n"
        "datalog-gate: the waiver holds for any n: bound it with --while 'n <= 2'\n",
    )  # fmt: skip


def test_a_waiver_of_a_logged_decision_is_for_the_project_that_asked(capsys: pytest.CaptureFixture[str]) -> None:
    Path("waivers.yaml").write_text("waivers:\n  - " + FILE[FILE.index("id") :].replace("\n  ", "\n    ").rstrip())
    denied = logged()
    code, out, err = run(capsys, "waive", denied[:8], "2", *WHO, "--log", "log.jsonl")
    assert (code, out, err) == (0, """\
- id: "W-8"
  policy: "flavor"
  subject: "s/web"
  key: {"f": "huge"}
  project: "p1"
  owner: "net"
  reason: "it: stays"
  expires: "2027-06-01"
""", "")  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "text", "expected"),
    [
        (("d.json", "0"), FILE, (64, "the decision has no violation 0, only 3")),
        (("s.yaml", "1"), FILE,
         (3, "error[unreadable] s.yaml is not a decision as `check --format json` writes it")),
        (("7f3a91", "1"), FILE, (64, "waive: name the decision log with --log, or in DATALOG_GATE_LOG")),
        (("d.json", "1"), "waivers: []\n", (64, UNREAD)),
        (("d.json", "1"), FILE + "...\n", (64, UNREAD)),
        (("d.json", "1", "--expires", "never"), FILE,
         (3, "waivers.yaml:16:12: error[bad-waiver] never is not a date")),
        (("d.json", "1", "--rules", "other.dl"), FILE,
         (64, "the rules have no policy flavor like the one that found it: give them with --rules")),
    ],
)  # fmt: skip
def test_what_can_t_be_waived_leaves_the_file_as_it_is(
    arguments: tuple[str, ...], text: str, expected: tuple[int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other.dl").write_text('@deny("other", "x")\np(s) :- heat:stack(id=s).\n')
    Path("waivers.yaml").write_text(text)
    code, out, err = run(capsys, "waive", *arguments[:2], *WHO, *arguments[2:])
    message = err.splitlines()[0].removeprefix("datalog-gate: ")
    assert ((code, message), out, Path("waivers.yaml").read_text()) == (expected, "", text)


MORE = FILE + "".join(
    f"- {{id: {name}, policy: flavor, subject: db, owner: net, reason: r, expires: {day}}}\n"
    for name, day in (("W-8", "2027-03-01"), ("W-9", "2028-01-01"))
)


def test_what_needs_a_look_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("waivers.yaml").write_text(MORE)
    logged("waivers.yaml")
    at = ("waivers", "check", "--now", "2027-03-01T12:00")
    expired = "waivers.yaml:10:3: expired[W-8] on 2027-03-01: flavor of db, net"
    soon = "waivers.yaml:3:3: soon[W-7] 7 days left: flavor, net, OPS-1"
    assert run(capsys, *at) == (1, f"{soon}\n{expired}\n3 waivers, 1 expired\n", "")
    Path("waivers.yaml").write_text(MORE.replace("W-9", "W-10").replace("2027-03-01", "2027-06-01"))
    unused = [
        f"waivers.yaml:{line}:3: unused[{name}] by any decision of log.jsonl: flavor of db, net\n"
        for line, name in ((10, "W-8"), (11, "W-10"))
    ]
    assert run(capsys, *at, "waivers.yaml", "--log", "log.jsonl") == (
        0,
        f"{soon}\n{''.join(unused)}3 waivers, 0 expired\n",
        "",
    )
    assert run(capsys, *at, "none.yaml")[0] == 3


def test_the_log_has_what_gives_the_same_decision_again(capsys: pytest.CaptureFixture[str]) -> None:
    Path("waivers.yaml").write_text(MORE)
    denied = logged("waivers.yaml")
    Path("waivers.yaml").unlink()
    assert run(capsys, "replay", "log.jsonl") == (0, "1 the same, 0 others, 0 that can't be decided\n", "")
    assert run(capsys, "explain", denied, "--log", "log.jsonl")[1].splitlines()[-1] == (
        "1 denied, 0 warnings, 2 waived (W-9, 306 days left; W-7, 7 days left), 0 undetermined; "
        f"2 policies, 6 facts; deny; decision {denied[:6]}"
    )
    Path("none.yaml").write_text("waivers:\n")
    assert run(capsys, "replay", "log.jsonl", "--waivers", "none.yaml") == (1, f"""\
2027-03-01T12:00:00+00:00 {denied[:6]} create of s by u1 of p1 at door api: denied: was deny, now deny
  +flavor: db takes vast
  +flavor: web takes huge
  -waived flavor: db takes vast
  -waived flavor: web takes huge
0 the same, 1 other, 0 that can't be decided
policy  decisions  projects  how                                 examples
flavor          1         1  1 new finding and no longer waived  s {denied[:6]}
""", "")  # fmt: skip
