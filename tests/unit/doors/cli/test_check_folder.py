"""`check` of a folder of templates, in several processes."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from datalog_gate.base.errors import EngineError
from datalog_gate.doors.cli.processes import map_in_processes
from tests.commands import run

RULES = '@deny("flavor", "{s} takes {f}")\nhuge(s, f) :- os:nova:server(_id=s, flavor=f), f = "huge".\n'
STACK = """\
heat_template_version: 2018-08-31
parameters: {f: {type: string, default: small}}
resources:
  web: {type: OS::Nova::Server, properties: {image: debian, flavor: {get_param: f}}}
"""
FILES = {
    "m.dl": RULES,
    "repo/ok.yaml": STACK,
    "repo/app/template.yaml": STACK,
    "repo/app/env.yaml": "parameters: {f: huge}\n",
    "repo/broken.yaml": "heat_template_version: 2018-08-31\nresources: [\n",
    "repo/own.yaml": STACK,
    "repo/own.env": "parameters: {f: huge}\n",
    "repo/site.yaml": "heat_template_version: 2018-08-31\nresources: {a: {type: parts/part.yaml}}\n",
    "repo/parts/part.yaml": STACK.replace("small", "huge"),
    "repo/values.yaml": "a: 1\n",
    "repo/.tox/web.yaml": STACK,
    "empty/notes.txt": "none\n",
}
TEXT = """\
repo/app/env.yaml:1:17: deny[flavor] web takes huge (in repo/app)
  1 | parameters: {f: huge}
    |                 ^^^^
repo/app: 1 denied, 0 warnings, 0 undetermined; 1 policy, 3 facts; deny; decision ID
repo/ok.yaml: 0 denied, 0 warnings, 0 undetermined; 1 policy, 3 facts; allow; decision ID
repo/own.env:1:17: deny[flavor] web takes huge (in repo/own.yaml)
  1 | parameters: {f: huge}
    |                 ^^^^
repo/own.yaml: 1 denied, 0 warnings, 0 undetermined; 1 policy, 3 facts; deny; decision ID
repo/parts/part.yaml:2:41: deny[flavor] web takes huge (in repo/site.yaml)
  2 | parameters: {f: {type: string, default: huge}}
    |                                         ^^^^
repo/site.yaml: 1 denied, 0 warnings, 0 undetermined; 1 policy, 3 facts; deny; decision ID
total of 5: 3 denied, 0 warnings, 0 undetermined; 1 allow, 3 deny, 1 without a decision
"""
BROKEN = """\
repo/broken.yaml:3:1: error[yaml] this is not YAML: while parsing a flow node, did not find expected node content
"""
pytestmark = pytest.mark.usefixtures("folder")


def check(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code, out, err = run(capsys, "check", *command.split(), "--rules", "m.dl")
    return code, re.sub(r"decision \w+", "decision ID", out), err


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_folder_is_all_its_templates_in_order_with_one_total(jobs: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(f"repo --jobs {jobs}", capsys) == (3, TEXT, BROKEN)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_many_templates_are_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert check("repo", capsys)[:2] == (3, TEXT)
    counts = dict.fromkeys(re.findall(r"\d+/\d+", terminal.getvalue()))
    assert list(counts) == ["0/5", "1/5", "2/5", "3/5", "4/5", "5/5"]


@pytest.mark.parametrize("named", ["repo/own.yaml repo", "repo/own.yaml ./repo repo/app repo"])
def test_templates_given_beside_their_folder_are_judged_once(named: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = check(f"{named} --format compact", capsys)
    assert (code, [line.partition(": ")[0] for line in text.splitlines()]) == (
        3,
        [
            "repo/own.yaml",
            "repo/app/env.yaml:1:17",
            "repo/app",
            "repo/ok.yaml",
            "repo/parts/part.yaml:2:41",
            "repo/site.yaml",
            "total of 5",
        ],
    )


def test_each_line_of_json_names_its_template(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = check("repo --format json --jobs 2", capsys)
    names = ["repo/app", "repo/broken.yaml", "repo/ok.yaml", "repo/own.yaml", "repo/site.yaml"]
    assert [json.loads(line)["template"] for line in text.splitlines()] == names


def test_each_annotation_names_its_template(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = check("repo --format github", capsys)
    assert text.splitlines() == [
        "::error file=repo/app/env.yaml,line=1,col=17,title=flavor::web takes huge (in repo/app)",
        f"::error file=repo/broken.yaml,line=3,col=1,title=yaml::{BROKEN.partition('] ')[2].strip()}",
        "::error file=repo/own.env,line=1,col=17,title=flavor::web takes huge (in repo/own.yaml)",
        "::error file=repo/parts/part.yaml,line=2,col=41,title=flavor::web takes huge (in repo/site.yaml)",
    ]


def test_each_result_and_suite_of_a_document_names_its_template(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["repo/app", "repo/broken.yaml", "repo/own.yaml", "repo/site.yaml"]
    [run] = json.loads(check("repo --format sarif", capsys)[1])["runs"]
    assert [result["properties"]["template"] for result in run["results"]] == names
    suites = re.findall('testsuite name="(.*?)"', check("repo --format junit", capsys)[1])
    assert suites == ["repo/app", "repo/broken.yaml", "repo/ok.yaml", "repo/own.yaml", "repo/site.yaml"]


def test_an_error_in_a_part_names_the_templates_that_have_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.yaml").write_text(STACK.replace("get_param: f", "get_param: g"))
    for name in ("one", "d"):
        Path(f"{name}.yaml").write_text(FILES["repo/site.yaml"].replace("parts/part.yaml", "bad.yaml"))
    _, _, error = check("one.yaml d.yaml", capsys)
    assert [line for line in error.splitlines() if line.startswith("bad")] == [
        f"bad.yaml:4:81: error[bad-reference] there is no parameter `g` (in {name}.yaml)" for name in ("one", "d")
    ]


def test_a_template_without_resources_beside_others_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    empty = "heat_template_version: 2018-08-31\noutputs: {a: {value: 1}}\n"
    Path("repo/broken.yaml").write_text(empty)
    code, text, error = check("repo --format compact", capsys)
    assert (code, text.splitlines()[-1], error.splitlines()[0]) == (
        1,
        "total of 5: 3 denied, 0 warnings, 0 undetermined; 2 allow, 3 deny",
        "repo/broken.yaml:1:1: warning[no-resources] repo/broken.yaml leaves nothing to judge: it has no resource, or "
        "its conditions switch all of them off",
    )
    for name in ("a", "b"):
        Path(f"empty/{name}.yaml").write_text(empty)
    assert [check(command, capsys)[0] for command in ("empty", "empty --together", "repo/broken.yaml", "repo")] == [
        3,
        3,
        3,
        1,
    ]
    assert check("repo/broken.yaml repo/ok.yaml", capsys)[0] == 3


def test_a_folder_with_one_template_is_that_template(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, error = check("repo/app", capsys)
    assert (code, error) == (1, "")
    assert text == "".join(TEXT.splitlines(True)[:4]).replace(" (in repo/app)", "").replace("repo/app: ", "")


def test_a_folder_without_a_template_says_what_one_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("empty", capsys) == (
        3,
        "",
        "error[unreadable] empty holds no template\n"
        "  help  a template begins with its version, `heat_template_version: 2018-08-31`\n",
    )


def test_a_folder_that_cannot_be_listed_is_named_and_the_others_are_judged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str | Path) -> object:
        if str(path).endswith("parts"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    scan = os.scandir
    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "listdir", lambda path: list(map(str, refuse(path))))  # type: ignore[call-overload]
    code, text, error = check("repo", capsys)
    assert (code, text.splitlines()[-1]) == (
        3,
        "total of 6: 3 denied, 0 warnings, 0 undetermined; 1 allow, 3 deny, 2 without a decision",
    )
    assert error == BROKEN + "error[unreadable] repo/parts can't be read: Permission denied\n"


HEARS_CTRL_C = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
"""A shell that starts the tests in the background lets all that they start ignore it."""


@pytest.mark.slow
def test_ctrl_c_ends_a_check_with_the_code_of_a_shell(tmp_path: Path) -> None:
    for at in range(3000):
        (tmp_path / "repo" / f"s{at}.yaml").write_text(STACK)
    script = HEARS_CTRL_C + "from datalog_gate.doors.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "check", "repo", "--rules", "m.dl", "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate()
    assert (process.returncode, error.splitlines()[-1]) == (130, "datalog-gate: interrupted")


@pytest.mark.slow
def test_ctrl_c_while_a_process_is_forked_ends_a_check(tmp_path: Path) -> None:
    for at in range(300):
        (tmp_path / "repo" / f"s{at}.yaml").write_text(STACK)
    script = HEARS_CTRL_C + (
        "import os; from datalog_gate.doors.cli.main import main; "
        "os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGINT)); sys.exit(main())"
    )
    command = [sys.executable, "-c", script, "check", "repo", "--rules", "m.dl", "--jobs", "2"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr.splitlines()[-1]) == (130, "datalog-gate: interrupted")


def test_a_process_that_ends_is_an_error_and_no_answer_is_waited_for() -> None:
    answers = map_in_processes(lambda item: os._exit(9) if item else item, [0, 1, 2, 3], 2)
    with pytest.raises(EngineError, match="use fewer --jobs"):
        list(answers)
