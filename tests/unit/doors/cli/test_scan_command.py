"""The command `scan` over a folder: its output and exit codes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import duckdb
import pytest

from datalog_gate.decision_point.log import SCHEMA
from datalog_gate.doors.cli.option_parser import parse_options
from datalog_gate.files.stack_definition import StackDefinition
from tests.commands import run
from tests.scripted_cloud import with_keystone

pytestmark = pytest.mark.slow
RULES = """@deny("size", "{server} is {flavor}", hint="take a small one")
huge(server, flavor) :- os:nova:server(_id=server, flavor=flavor), is_string(flavor), starts_with(flavor, "huge").

@warn("named", "{server} has no name")
nameless(server) :- os:nova:server(_id=server, name=null).
"""
SERVER = """heat_template_version: 2018-08-31
resources:
  vm:
    type: OS::Nova::Server
    properties: {flavor: %s, name: %s}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with rules, and three templates of which one denies and one warns."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "size.dl").write_text(RULES)
    (tmp_path / "stacks" / "net").mkdir(parents=True)
    write(tmp_path, "big", "huge", "vm")
    write(tmp_path, "small", "small", "vm")
    write(tmp_path, "net/plain", "small", "null")
    return tmp_path


def write(folder: Path, name: str, flavor: str, server: str) -> None:
    (folder / "stacks" / f"{name}.yaml").write_text(SERVER % (flavor, server))


LIST = "GET /v1/p/stacks?show_nested=True&show_hidden=True&global_tenant=True"
SCAN = ("scan", "run", "--folder", "stacks", "--now")


def test_a_run_says_what_it_judged_and_what_is_open(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = run(capsys, *SCAN, "2027-03-01")
    write(folder, "big", "small", "vm")
    (folder / "stacks" / "small.yaml").unlink()
    second = run(capsys, *SCAN, "2027-03-01")
    assert (first, second) == (
        (
            1,
            "3 judged, 0 unchanged, 0 gone, 0 unread; open: 1 denied, 1 warned, 0 recorded, 0 waived, 0 undetermined, "
            "0 in error\n",
            "",
        ),
        (
            0,
            "1 judged, 1 unchanged, 1 gone, 0 unread; open: 0 denied, 1 warned, 0 recorded, 0 waived, 0 undetermined, "
            "0 in error\n",
            "",
        ),
    )


def test_stacks_are_judged_again_by_the_defaults_of_another_heat_conf(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rules" / "size.dl").write_text(
        '@deny("raw", "{server} is raw")\nraw(server) :- os:nova:server(_id=server, user_data_format="RAW").\n'
    )
    (folder / "heat.conf").write_text("[DEFAULT]\ndefault_user_data_format = RAW\n")
    answers = [run(capsys, *SCAN, "2027-03-01", *more) for more in ([], ["--heat-conf", "heat.conf"], [])]
    assert [(code, re.findall(r"\d+ judged|\d+ denied", out)) for code, out, _ in answers] == [
        (0, ["3 judged", "0 denied"]), (1, ["3 judged", "3 denied"]), (0, ["3 judged", "0 denied"]),
    ]  # fmt: skip


def test_a_template_that_can_not_be_read_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *SCAN, "2027-03-01")
    (folder / "stacks" / "big.yaml").write_text("heat_template_version: 2018-08-31\nresources: {vm: {type: []}}\n")
    code, out, err = run(capsys, *SCAN, "2027-03-02")
    assert (code, out.partition(";")[0], err) == (
        3,
        "0 judged, 2 unchanged, 0 gone, 1 unread",
        "datalog-gate: big.yaml: the resource `vm` needs a `type`\n",
    )
    assert run(capsys, "scan", "findings", "--policy", "size")[0] == 1


def test_a_template_of_another_folder_keeps_its_findings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *SCAN, "2027-03-01")
    shutil.copytree(folder / "stacks", folder / "others")
    write(folder, "../others/big", "small", "vm")
    write(folder, "../others/new", "small", "vm")
    code, out, err = run(capsys, "scan", "run", "--folder", "others", "--now", "2027-03-02")
    other = f"the store has the template of this name in {folder}/stacks: give each folder a --store of its own"
    assert (code, out.split("; ")[0], err) == (
        3,
        "1 judged, 0 unchanged, 0 gone, 3 unread",
        "".join(f"datalog-gate: {name}.yaml: {other}\n" for name in ("big", "net/plain", "small")),
    )
    assert run(capsys, "scan", "findings", "--policy", "size")[0] == 1
    (folder / "stacks").rename(folder / "moved")
    moved = run(capsys, "scan", "run", "--folder", "moved", "--now", "2027-03-03")
    assert (moved[0], moved[1].split("; ")[0], moved[2]) == (1, "3 judged, 0 unchanged, 0 gone, 0 unread", "")


def test_findings_are_listed_as_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *SCAN, "2027-03-01")
    place = f"{folder}/stacks"
    listed = (
        f"2027-03-01 plain: warn[named] vm has no name at {place}/net/plain.yaml:3:3\n"
        f"2027-03-01 big: deny[size] vm is huge (take a small one) at {place}/big.yaml:5:26\n"
    )
    assert run(capsys, "scan", "findings") == (1, listed, "datalog-gate: 2 open findings\n")
    assert run(capsys, "scan", "findings", "--policy", "named") == (
        0,
        listed.splitlines(keepends=True)[0],
        "datalog-gate: 1 open finding\n",
    )
    assert run(capsys, "scan", "findings", "--since", "2027-03-02") == (0, "", "datalog-gate: 0 open findings\n")


def test_findings_are_listed_for_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *SCAN, "2027-03-01")
    finding = {
        "policy": "size",
        "level": "deny",
        "state": "holds",
        "stack": "big",
        "project": None,
        "resource": "big/vm",
        "message": "vm is huge",
        "hint": "take a small one",
        "first_seen": "2027-03-01T00:00:00+00:00",
        "last_seen": "2027-03-01T00:00:00+00:00",
        "resolved_at": None,
        "root": "big.yaml",
        "key": [{"$resource": "big/vm"}, "huge"],
        "row": [{"$resource": "big/vm"}, "huge"],
        "place": {"file": f"{folder}/stacks/big.yaml", "line": 5, "column": 26},
        "denies": True,
    }
    _, out, _ = run(capsys, "scan", "findings", "--policy", "size", "--format", "json")
    assert json.loads(out) == finding
    _, out, _ = run(capsys, "scan", "findings", "--policy", "size", "--format", "csv")
    assert out == (
        "policy,level,state,stack,project,resource,message,hint,first_seen,last_seen,resolved_at,root,key,row,place\n"
        "size,deny,holds,big,,big/vm,vm is huge,take a small one,2027-03-01T00:00:00+00:00,2027-03-01T00:00:00+00:00,,"
        'big.yaml,"[{""$resource"": ""big/vm""}, ""huge""]","[{""$resource"": ""big/vm""}, ""huge""]",'
        f'"{{""file"": ""{folder}/stacks/big.yaml"", ""line"": 5, ""column"": 26}}"\n'
    )
    _, out, _ = run(capsys, "scan", "findings", "--policy", "size", "--format", "sarif")
    [result] = json.loads(out)["runs"][0]["results"]
    assert result == {
        "ruleId": "size",
        "ruleIndex": 1,
        "kind": "fail",
        "level": "error",
        "message": {"text": "big: vm is huge (take a small one)"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "stacks/big.yaml"},
                    "region": {"startLine": 5, "startColumn": 26, "endLine": 5, "endColumn": 26},
                },
                "logicalLocations": [{"fullyQualifiedName": "big/vm", "kind": "resource"}],
            }
        ],
    }


def test_history_counts_by_day(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *SCAN, "2027-03-01")
    write(folder, "big", "small", "vm")
    write(folder, "small", "small", "null")
    run(capsys, *SCAN, "2027-03-03")
    assert run(capsys, "scan", "history") == (
        0,
        "2027-03-01  2 new, 0 resolved, 2 open\n2027-03-03  1 new, 1 resolved, 2 open\n",
        "",
    )
    assert run(capsys, "scan", "history", "--policy", "size")[1] == (
        "2027-03-01  1 new, 0 resolved, 1 open\n2027-03-03  0 new, 1 resolved, 0 open\n"
    )


def test_other_rules_are_tried(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *SCAN, "2027-03-01")
    (folder / "other.dl").write_text(RULES.replace('"huge")', '"small")'))
    assert run(capsys, "scan", "rejudge", "--rules", "other.dl") == (
        0,
        """\
project  policy  findings  stacks
-        named          1       1
-        size           2       2
policy  stacks  projects  how                            examples
size         3         1  2 new finding, 1 finding gone  big, plain, small
""",
        "",
    )


@pytest.mark.usefixtures("folder")
def test_all_engines_rejudge_with_one_result(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *SCAN, "2027-03-01")
    expected = run(capsys, "scan", "rejudge")
    assert run(capsys, "scan", "rejudge", "--engine", "native") == expected
    assert run(capsys, "scan", "rejudge", "--engine", "duckdb") == expected
    message = "datalog-gate: the store is not a store of postgres: remove --engine\n"
    assert run(capsys, "scan", "rejudge", "--engine", "postgres") == (64, "", message)
    assert expected[0] == 0


@pytest.mark.usefixtures("folder")
def test_a_query_reads_all_stacks(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *SCAN, "2027-03-01")
    query = ":- all:os:nova:server(_id=server, flavor=flavor, name=null)"
    assert run(capsys, "scan", "query", query) == (0, "net/plain.yaml/vm\tsmall\n", "")
    assert run(capsys, "scan", "query", query, "--format", "json") == (0, '[["net/plain.yaml/vm", "small"]]\n', "")


@pytest.mark.usefixtures("folder")
def test_two_ways_to_judge_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *SCAN, "2027-03-01")
    assert run(capsys, "scan", "verify", "200") == (0, "", "datalog-gate: 3 stacks, 0 differences\n")
    with duckdb.connect("datalog-gate.duckdb") as store:
        store.execute("DELETE FROM os__nova__server WHERE _root = 'big.yaml'")
    assert run(capsys, "scan", "verify", "200") == (
        4,
        "big.yaml: size(big/vm, huge) by the stack alone\n",
        "datalog-gate: 3 stacks, 1 differences\n",
    )


def test_a_row_with_an_unknown_is_told_as_a_difference(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "heat_template_version: 2018-08-31\nparameters: {f: {type: string}}\n"
    text += "resources: {vm: {type: OS::Nova::Server, properties: {flavor: {get_param: f}}}}\n"
    (folder / "stacks" / "open.yaml").write_text(text)
    run(capsys, *SCAN, "2027-03-01")
    with duckdb.connect("datalog-gate.duckdb") as store:
        store.execute("DELETE FROM unfit")
    assert run(capsys, "scan", "verify", "200") == (
        4,
        "open.yaml: size(open/vm, {get_param: f} in open) by the stack alone\n",
        "datalog-gate: 4 stacks, 1 differences\n",
    )


@pytest.mark.usefixtures("folder")
def test_the_store_is_exported_as_parquet(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *SCAN, "2027-03-01")
    assert run(capsys, "scan", "export", "--parquet", "facts") == (0, "", "datalog-gate: 12 tables in facts\n")
    with duckdb.connect() as reader:
        reader.execute("SELECT _root, flavor, _project FROM 'facts/os__nova__server.parquet' ORDER BY _root")
        rows = reader.fetchall()
    assert rows == [("big.yaml", "Shuge", None), ("net/plain.yaml", "Ssmall", None), ("small.yaml", "Ssmall", None)]


def test_a_missing_or_invalid_store_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "scan", "findings") == (
        3,
        "",
        "error[unreadable] there is no store datalog-gate.duckdb\n  help  create one with `datalog-gate scan run`\n",
    )
    (folder / "text.duckdb").write_text("no store")
    code, _, err = run(capsys, "scan", "history", "--store", "text.duckdb")
    assert (code, err.partition(":")[0]) == (3, "error[unreadable] the store text.duckdb fails")


def test_only_the_owner_reads_the_store(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *SCAN, "2027-03-01")
    assert oct((folder / "datalog-gate.duckdb").stat().st_mode & 0o777) == "0o600"


PAGE = (Path(__file__).parents[4] / "docs" / "scan.md").read_text("utf-8")
SHOWN = re.findall(r"```sh\n(.*?)```\n(?:\n```\n(.*?)```)?", PAGE, re.S)


@pytest.mark.usefixtures("folder")
def test_the_commands_of_the_page_print_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    for commands, shown in SHOWN:
        for command in commands.splitlines():
            arguments = shlex.split(command)[1:]
            if "--cloud" in arguments:  # what Heat answers is tested with the feed
                assert parse_options(arguments).cloud == "prod"
                continue
            code, out, _ = run(capsys, *arguments)
            assert code in (0, 1)
            assert out == (shown or out)
    watch = next(commands for commands, _ in SHOWN if "scan watch" in commands)
    assert f"ExecStart=/usr/bin/{watch}" in PAGE


@pytest.mark.usefixtures("folder")
def test_the_unit_of_the_page_posts_what_is_open(capsys: pytest.CaptureFixture[str]) -> None:
    """The commands of the unit in their order, where a folder is in the place of the cloud."""
    commands = [shlex.split(line) for line in re.findall("^ExecStart=(.*)$", PAGE, re.M)]
    pull, judge, show, post = commands[commands.index(next(line for line in commands if line[1] == "inventory")) :]
    assert [parse_options(line[1:]).cloud for line in (pull, judge)] == ["prod", "prod"]
    if not (curl := shutil.which("curl")):
        pytest.skip("there is no curl")
    run(capsys, *SCAN, "2027-03-01")
    program = f"{sys.executable} -m datalog_gate.doors.cli.main"
    shell = subprocess.run([*show[:2], show[2].replace("/usr/bin/datalog-gate", program)], check=False)
    posted: list[tuple[str, str]] = []

    class Tickets(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            posted.append((self.headers["Content-Type"], body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Tickets) as server:
        Thread(target=server.handle_request, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/hook"
        sent = subprocess.run([curl, *post[1:-1], address], check=False)
    assert (shell.returncode, sent.returncode) == (1, 0)
    assert posted == [("application/x-ndjson", run(capsys, "scan", "findings", "--format", "json")[1])]


@pytest.mark.usefixtures("folder")
def test_a_log_is_a_source_too(capsys: pytest.CaptureFixture[str]) -> None:
    Path("log.jsonl").write_text("")
    code, out, _ = run(capsys, "scan", "run", "--log", "log.jsonl")
    assert (code, out.partition(";")[0]) == (0, "0 judged, 0 unchanged, 0 gone, 0 unread")


@pytest.mark.usefixtures("folder")
def test_the_log_of_another_host_is_refused_while_that_of_the_first_exists(capsys: pytest.CaptureFixture[str]) -> None:
    inputs = {"stack_name": "web", "definition": StackDefinition(SERVER % ("huge", "vm")).to_json(), "caller": {}}
    operation = {"time": "2027-03-01T12:00:00+00:00", "project": "p1", "stack_name": "web", "action": "create"}
    answer = {"schema": SCHEMA, "kind": "decision", "id": "d", "dry_run": False, "verdict": "allowed"}
    for name in ("a.jsonl", "b.jsonl"):
        Path(name).write_text(json.dumps({**answer, **operation, "inputs": inputs}) + "\n")
    assert run(capsys, "scan", "run", "--log", "a.jsonl")[0] == 1
    log = Path.cwd() / "a.jsonl"
    refused = f"error[unreadable] the store has stacks of the log {log}, and this one would replace them\n"
    advice = "  help  join the logs of all hosts in one file, or give each its own --store\n"
    assert run(capsys, "scan", "run", "--log", "b.jsonl") == (3, "", refused + advice)
    Path("a.jsonl").rename("c.jsonl")
    assert run(capsys, "scan", "run", "--log", "b.jsonl")[0] == 1


@pytest.mark.usefixtures("folder")
def test_clouds_of_the_environment_do_not_replace_each_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = {"id": "s-1", "stack_name": "web", "project": "p", "stack_status": "CREATE_COMPLETE"}
    server = {"type": "OS::Nova::Server", "properties": {"flavor": "huge", "name": "vm"}}
    template = {"heat_template_version": "2018-08-31", "resources": {"vm": server}}
    runs = []
    for stacks in ([stack], []):
        with with_keystone(monkeypatch) as cloud:
            path = "GET /v1/p/stacks/web/s-1"
            cloud.give(f"{LIST}&limit=1000", {"stacks": stacks})
            cloud.give(f"{path}/template", template)
            cloud.give(f"{path}/environment", {})
            cloud.give(f"{path}/files", {})
            cloud.give(f"{path}/resources?nested_depth=5", {"resources": []})
            runs.append(run(capsys, "scan", "run", "--cloud"))
    assert [(code, out.partition(", 0 warned")[0], err) for code, out, err in runs] == [
        (1, "1 judged, 0 unchanged, 0 gone, 0 unread; open: 1 denied", ""),
        (1, "0 judged, 0 unchanged, 0 gone, 0 unread; open: 1 denied", ""),
    ]


@pytest.mark.usefixtures("folder")
def test_a_folder_does_not_tell_since_when(capsys: pytest.CaptureFixture[str]) -> None:
    message = "datalog-gate: --since needs --cloud or --log: a folder does not say when a template changed\n"
    assert run(capsys, "scan", "run", "--folder", "stacks", "--since", "2027-03-01") == (64, "", message)


@pytest.mark.parametrize("rate", ["20", "20/s"])
def test_a_rate_is_a_number_a_second(rate: str) -> None:
    assert parse_options(["scan", "run", "--cloud", "prod", "--rate", rate]).rate == 20.0


def test_watch_runs_until_it_is_ended(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "datalog_gate.doors.cli.main",
        "scan",
        "watch",
        "--folder",
        "stacks",
        "--every",
        "1s",
    ]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout
        first = service.stdout.readline()
        (folder / "stacks" / "big.yaml").unlink()
        later = iter(service.stdout.readline, "")
        gone = next(line for line in later if ", 1 gone," in line)
        (folder / "rules" / "size.dl").write_text("wrong(")
        failed = next(line for line in later if line.startswith("failed: "))
        service.send_signal(signal.SIGTERM)
        assert service.wait() == 0
    assert [line.partition(";")[0] for line in (first, gone)] == [
        "3 judged, 0 unchanged, 0 gone, 0 unread",
        "0 judged, 2 unchanged, 1 gone, 0 unread",
    ]
    assert "error[" in failed
