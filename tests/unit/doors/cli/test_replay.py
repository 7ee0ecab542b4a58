"""The commands `explain` and `replay` over a decision log."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from datalog_gate.decision_point.operation import Operation
from datalog_gate.doors.cli.commands import logged_decisions
from datalog_gate.files.stack_definition import StackDefinition
from tests.commands import run
from tests.fake_heat import point_at

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
MEMBER = {"user_id": "u1", "project_id": "p1", "roles": ["member"]}
RULES = """@deny("flavor", "{s} takes {f}")
flavor(s, f) :- os:nova:server(_id=s, flavor=f), f in ["huge", "vast"].
@warn("late", "{s} after office hours")
late(s) :- os:nova:server(_id=s), gate:now(t), datetime_gt(t, "2027-03-01T18:00").
"""
TEMPLATE = """heat_template_version: 2018-08-31
parameters: {key: {type: string, hidden: true}}
resources:
  web: {type: OS::Nova::Server, properties: {image: debian, flavor: FLAVOR, admin_pass: {get_param: key}}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rules, and a log of a denied, an allowed, an unreadable and an exempt creation."""
    monkeypatch.chdir(tmp_path)
    Path("rules").mkdir()
    Path("rules/m.dl").write_text(RULES)
    point = point_at(NOW, rules=f"{tmp_path}/rules", decision_log=f"{tmp_path}/log.jsonl", exempt_projects="p9")
    texts = [("web", "p1", TEMPLATE.replace("FLAVOR", "huge")), ("db", "p1", TEMPLATE.replace("FLAVOR", "tiny"))]
    for name, project, text in [*texts, ("bad", "p1", "resources: ["), ("own", "p9", TEMPLATE)]:
        definition = StackDefinition(text, parameters={"key": "S3CRET"})
        point.judge(Operation("api", "create", name, project, lambda body=definition: body, MEMBER))  # type: ignore[misc]
    point.flush()
    return tmp_path


def ids() -> list[str]:
    """The ids of the log's decisions."""
    records = [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()]
    return [record["id"] for record in records if record["kind"] == "decision"]


def test_replay_judges_an_update_against_the_older_state(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    point = point_at(NOW, rules=str(folder / "rules"), decision_log=f"{folder}/updates.jsonl")
    new = StackDefinition(TEMPLATE.replace("FLAVOR", "huge"), parameters={"key": "S3CRET"})
    old = StackDefinition(TEMPLATE.replace("FLAVOR", "huge"), parameters={"key": "other", "gone": "x"})
    operation = Operation("api", "update", "web", "p1", lambda: new, MEMBER, against=lambda: old)
    answer = point.judge(operation)
    assert (answer.verdict, point.judge(replace(operation, tolerant=False)).verdict) == ("allowed", "denied")
    point.flush()
    assert run(capsys, "replay", "updates.jsonl") == (0, "2 the same, 0 others, 0 that can't be decided\n", "")
    assert "preexisting[flavor] web takes huge" in run(capsys, "explain", answer.id, "--log", "updates.jsonl")[1]


@pytest.mark.usefixtures("folder")
def test_a_log_of_a_later_version_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """It has keys and kinds that this package does not know."""
    before = run(capsys, "replay", "log.jsonl", "--rules", "rules")
    log = Path("log.jsonl")
    records = [json.loads(line) for line in log.read_text().splitlines()]
    for record in records:
        record |= {"version": "9.0", "mood": {"good": True}}
        if "decision" in record:
            record["decision"]["mood"] = "good"
    records.append({"schema": "datalog-gate/log/1", "kind": "mood", "time": "now"})
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert run(capsys, "replay", "log.jsonl", "--rules", "rules") == before


@pytest.mark.usefixtures("folder")
def test_explain_needs_only_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    denied = ids()[0]
    assert run(capsys, "explain", denied[:8], "--log", "log.jsonl") == (0, f"""\
2027-03-01T12:00:00+00:00 {denied[:6]} create of web by u1 of p1 at door api: denied
<template>:4:69: deny[flavor] web takes huge
  4 | b: {{type: OS::Nova::Server, properties: {{image: debian, flavor: huge, admin_pass: {{get_param: key}}}}}}
    |                                                                 ^^^^
  why   os:nova:server(web/web, flavor=huge, ...)   <template>:4
        huge in [huge, vast]                        rules/m.dl:2
clean[late] looked at 2 rows: gate:now 1, os:nova:server 1
1 denied, 0 warnings, 0 undetermined; 2 policies, 5 facts; deny; decision {denied[:6]}
hidden, and not in the log: key
""", "")  # fmt: skip


@pytest.mark.usefixtures("folder")
def test_explain_shows_operations_without_a_decision_as_logged(capsys: pytest.CaptureFixture[str]) -> None:
    unread = ids()[2]
    message = "<template>:2:1: this is not YAML: while parsing a flow node, did not find expected node content"
    head = f"2027-03-01T12:00:00+00:00 {unread[:6]} create of bad by u1 of p1 at door api: unreadable: "
    head += f"The stack can't be read: {message}\n"
    assert run(capsys, "explain", unread, "--log", "log.jsonl") == (0, head, "")


@pytest.mark.usefixtures("folder")
def test_explain_warns_of_changed_rules(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules/m.dl").write_text(RULES.replace('"huge", ', ""))
    code, out, err = run(capsys, "explain", ids()[0], "--log", "log.jsonl")
    assert (code, err) == (0, "datalog-gate: the rules have changed since: this is their result now\n")
    assert out.splitlines()[-2].startswith(
        "0 denied, 0 warnings, 0 undetermined; 2 policies, 5 facts; allow; decision "
    )


@pytest.mark.parametrize(
    ("decision", "log", "message"),
    [
        ("zzz", "log.jsonl",
         "error[unreadable] log.jsonl holds no decision zzz\n  help  a reason ends with the first 6 characters "
         "of the id\n"),
        ("a", "none.jsonl", "error[unreadable] none.jsonl can't be read: No such file or directory\n"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_an_unknown_decision_or_log_is_bad_input(
    capsys: pytest.CaptureFixture[str], decision: str, log: str, message: str
) -> None:
    assert run(capsys, "explain", decision, "--log", log) == (3, "", message)


@pytest.mark.usefixtures("folder")
def test_the_environment_may_name_the_log(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATALOG_GATE_LOG", "log.jsonl")
    assert run(capsys, "explain", ids()[0]) == run(capsys, "explain", ids()[0], "--log", "log.jsonl")
    monkeypatch.delenv("DATALOG_GATE_LOG")
    message = "datalog-gate: explain: name the decision log with --log, or in DATALOG_GATE_LOG\n"
    assert run(capsys, "explain", "abc") == (64, "", message)


@pytest.mark.usefixtures("folder")
def test_an_ambiguous_id_lists_its_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path("log.jsonl").read_text()
    record = next(line for line in lines.splitlines() if '"verdict": "denied"' in line)
    Path("log.jsonl").write_text(
        "".join(json.dumps(json.loads(record) | {"id": decision}) + "\n" for decision in ("ab1", "ab2", "c"))
    )
    message = "error[unreadable] log.jsonl holds several decisions ab\n  help  one of ab1, ab2\n"
    assert run(capsys, "explain", "ab", "--log", "log.jsonl") == (3, "", message)


@pytest.mark.usefixtures("folder")
def test_the_same_rules_replay_to_the_same_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "replay", "log.jsonl") == (0, "2 the same, 0 others, 0 that can't be decided\n", "")
    nothing = '{"same": 2, "other": 0, "failed": 0, "policies": []}\n'
    assert run(capsys, "replay", "log.jsonl", "--format", "json") == (0, nothing, "")


@pytest.mark.usefixtures("folder")
def test_replay_shows_the_decisions_that_other_rules_change(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules/m.dl").write_text(RULES.replace('["huge", "vast"]', '["vast", "tiny"]'))
    first, second = (decision[:6] for decision in ids()[:2])
    head = "2027-03-01T12:00:00+00:00"
    hidden = "hidden, and not in the log: key"
    assert run(capsys, "replay", "log.jsonl") == (1, f"""\
{head} {first} create of web by u1 of p1 at door api: denied: was deny, now allow; {hidden}
  -flavor: web takes huge
{head} {second} create of db by u1 of p1 at door api: allowed: was allow, now deny; {hidden}
  +flavor: web takes tiny
0 the same, 2 others, 0 that can't be decided
policy  decisions  projects  how                               examples
flavor          2         1  1 deny to allow, 1 allow to deny  web {first}, db {second}
""", "")  # fmt: skip
    code, out, _ = run(capsys, "replay", "log.jsonl", "--format", "json")
    records: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert (code, records[0]) == (1, {
        "id": ids()[0], "was": "deny", "now": "allow", "why": "", "differs": ["outcome", "violations"],
        "changes": ["-flavor: web takes huge"],
    })  # fmt: skip
    assert records[2] == {
        "same": 0, "other": 2, "failed": 0,
        "policies": [{"policy": "flavor", "decisions": 2, "how": {"deny to allow": 1, "allow to deny": 1},
                      "projects": 1, "examples": [f"web {first}", f"db {second}"]}],
    }  # fmt: skip


@pytest.mark.usefixtures("folder")
def test_replay_writes_its_table_and_the_first_decisions_as_a_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged_decisions, "MOST", 1)
    Path("rules/m.dl").write_text(RULES.replace('["huge", "vast"]', '["vast", "tiny"]'))
    _, text, _ = run(capsys, "replay", "log.jsonl")
    difference, change, _, _, numbers, _, _ = text.splitlines()
    code, page, err = run(capsys, "replay", "log.jsonl", "--format", "html")
    table = re.search(r"<tbody>\n(.*)</td></tr>", page)
    heads, items = (re.findall(f"<{tag}>([^<]*)", page) for tag in ("h1>Replay of logged decisions</h1>\n<p", "li"))
    first, second = (decision[:6] for decision in ids()[:2])
    cells = ["flavor", "2", "1", "1 deny to allow, 1 allow to deny", f"web {first}, db {second}"]
    assert table
    assert (code, err) == (1, "")
    assert (heads, re.split("<.*?>", table[1])[2::2], items) == (
        [numbers.replace("'", "&#39;")], cells, [difference, change],
    )  # fmt: skip
    assert "<p>1 further decision not shown.</p>" in page


@pytest.mark.usefixtures("folder")
def test_replay_has_no_page_of_a_log_or_rules_that_it_cannot_read(capsys: pytest.CaptureFixture[str]) -> None:
    message = "error[unreadable] none.jsonl can't be read: No such file or directory\n"
    assert run(capsys, "replay", "none.jsonl", "--format", "html") == (3, "", message)
    Path("rules/m.dl").write_text("@deny(")
    as_text = run(capsys, "replay", "log.jsonl")
    assert as_text[:2] == (2, "")
    assert run(capsys, "replay", "log.jsonl", "--format", "html") == as_text


@pytest.mark.slow
def test_a_policy_changes_the_decisions_that_it_touches(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a thousand decisions in twelve projects, each hundredth has what a new policy warns of."""
    point = point_at(
        NOW, rules=str(folder / "rules"), decision_log=f"{folder}/many.jsonl", decision_log_bytes="99999999"
    )
    for number in range(1000):
        text = TEMPLATE.replace("FLAVOR", "huge" if number % 7 == 0 else "tiny")
        text = text if number % 100 else text.replace("debian", "old")
        body = StackDefinition(text, parameters={"key": "S3CRET"})
        point.judge(Operation("api", "create", f"s{number}", f"p{number % 12}", lambda body=body: body, MEMBER))  # type: ignore[misc]
    point.flush()
    more = '@warn("image", "{s} runs {i}")\nold(s, i) :- os:nova:server(_id=s, image=i), i = "old".\n'
    more += '@deny("none", "{s}")\nnone(s) :- os:nova:server(_id=s, flavor="vast").\n'
    Path("rules/more.dl").write_text(more)
    code, out, err = run(capsys, "replay", "many.jsonl")
    records = [json.loads(line) for line in Path("many.jsonl").read_text().splitlines()]
    ids = [record["id"][:6] for record in records if record["kind"] == "decision"]
    examples = [f"s{number} {ids[number]}" for number in (0, 100, 200)]
    numbers = "990 the same, 10 others, 0 that can't be decided"
    cells = ["image", "10", "3", "8 allow to allow_with_warnings, 2 new finding", f"{', '.join(examples)}, ..."]
    heading = "policy  decisions  projects  how                                            examples"
    assert (code, out.splitlines()[-3:], err) == (
        1,
        [numbers, heading, f"image          10         3  {cells[3]}  {cells[4]}"],
        "",
    )
    code, out, err = run(capsys, "replay", "many.jsonl", "--format", "json")
    how = {"allow to allow_with_warnings": 8, "new finding": 2}
    table = [{"policy": "image", "decisions": 10, "how": how, "projects": 3, "examples": examples}]
    assert (code, json.loads(out.splitlines()[-1]), err) == (
        1,
        {"same": 990, "other": 10, "failed": 0, "policies": table},
        "",
    )
    code, page, err = run(capsys, "replay", "many.jsonl", "--format", "html")
    [row] = re.findall(r"<tbody>\n(.*)</td></tr>", page)
    assert (code, re.findall("<h1>([^<]*)", page), re.split("<.*?>", row)[2::2], err) == (
        1,
        ["Replay of logged decisions"],
        cells,
        "",
    )


@pytest.mark.usefixtures("folder")
def test_other_words_and_counts_are_no_other_decision(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules/m.dl").write_text(RULES.replace("takes", "has").replace('"vast"]', '"vast", "colossal"]'))
    assert run(capsys, "replay", "log.jsonl") == (0, "2 the same, 0 others, 0 that can't be decided\n", "")


def test_a_policy_that_joins_an_undetermined_finding_is_a_change(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    point = point_at(NOW, rules=str(folder / "rules"), decision_log=f"{folder}/unread.jsonl")
    text = "heat_template_version: 2018-08-31\nresources: {web: {type: 'https://example.com/web.yaml'}}\n"
    answer = point.judge(Operation("api", "create", "web", "p1", lambda: StackDefinition(text), MEMBER))
    point.flush()
    assert run(capsys, "replay", "unread.jsonl")[0] == 0
    for policy, level in (("a", "warn"), ("z", "deny")):
        Path(f"rules/{policy}.dl").write_text(f'@{level}("{policy}", "")\np(v) :- os:cinder:volume(_id=v).\n')
    _, out, _ = run(capsys, "replay", "unread.jsonl", "--format", "json")
    row = {"decisions": 1, "how": {"undetermined": 1}, "projects": 1, "examples": [f"web {answer.id[:6]}"]}
    assert json.loads(out.splitlines()[-1])["policies"] == [{"policy": "a", **row}, {"policy": "z", **row}]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"schema": "datalog-gate/log/1", "ki', "the line is not a record: "),
        ('{"schema": "datalog-gate/log/1"}', "the line is not a record of datalog-gate/log/1"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_broken_line_is_reported_and_the_others_are_read(
    capsys: pytest.CaptureFixture[str], line: str, problem: str
) -> None:
    before = run(capsys, "explain", ids()[0], "--log", "log.jsonl")
    log = Path("log.jsonl")
    log.write_text(log.read_text() + line)
    number = len(log.read_text().splitlines())
    code, out, err = run(capsys, "replay", "log.jsonl")
    assert (code, out) == (0, "2 the same, 0 others, 0 that can't be decided\n")
    assert err.startswith(f"log.jsonl:{number}:1: warning[unreadable] {problem}")
    assert run(capsys, "explain", before[1].split()[1], "--log", "log.jsonl") == before


@pytest.mark.usefixtures("folder")
def test_a_record_that_is_being_written_makes_no_other_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("begun.jsonl").write_text('{"schema": "datalog-gate/lo')
    code, out, err = run(capsys, "replay", "begun.jsonl")
    assert (code, out) == (0, "0 the same, 0 others, 0 that can't be decided\n")
    assert err.startswith("begun.jsonl:1:1: warning[unreadable] the line is not a record: ")


@pytest.mark.parametrize("command", [("replay",), ("explain", "7f3a91", "--log"), ("scan", "run", "--log")])
@pytest.mark.usefixtures("folder")
def test_a_file_without_a_record_is_no_log(capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    Path("list.jsonl").write_text('{"host": "one"}\n')
    code, out, err = run(capsys, *command, "list.jsonl")
    problem = "error[unreadable] list.jsonl is no decision log: no line is a record of datalog-gate/log/1"
    assert (code, out, err.splitlines()[-2:]) == (3, "", [problem, "  help  name the file of the option decision_log"])


@pytest.mark.usefixtures("folder")
def test_replay_shows_what_another_mode_stops_and_can_not_judge(capsys: pytest.CaptureFixture[str]) -> None:
    denied, _, unread = (decision[:6] for decision in ids()[:3])
    head, by = "2027-03-01T12:00:00+00:00", "by u1 of p1 at door api"
    why = "this is not YAML: while parsing a flow node, did not find expected node content"
    assert run(capsys, "replay", "log.jsonl", "--mode", "record") == (1, f"""\
{head} {denied} create of web {by}: denied: was deny, now allow; hidden, and not in the log: key
  ~flavor: web takes huge (enforce, now record)
{head} {unread} create of bad {by}: unreadable: The stack can't be read: <template>:2:1: {why}
1 the same, 1 other, 1 that can't be decided
policy  decisions  projects  how              examples
flavor          1         1  1 deny to allow  web {denied}
""", "")  # fmt: skip
    assert run(capsys, "replay", "log.jsonl", "--mode", "enforce")[0] == 1
    code, out, _ = run(capsys, "replay", "log.jsonl", "--mode", "record", "--format", "json")
    records: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert (code, records[1]) == (1, {
        "id": ids()[2], "was": None, "now": None, "why": f"The stack can't be read: <template>:2:1: {why}",
        "differs": [], "changes": [],
    })  # fmt: skip
