"""Where refusals are shown: by `check`, editors and servers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from datalog_gate.editing.workspace import Workspace
from tests.commands import run

HEAD = "heat_template_version: 2018-08-31\nresources:\n"
WRONG = f"{HEAD}  v: {{type: OS::Cinder::Volume, properties: {{size: 20, nmae: x, value_specs: 1}}}}\n"
RULES = '@deny("size", "{v} has {n} GB")\nlarge(v, n) :- os:cinder:volume(_id=v, size=n), is_number(n), n > 10.\n'
NAMES = ["unknown-property", "unknown-property"]
FILES = {"t.yaml": WRONG, "rules/m.dl": RULES}


def codes(printed: str) -> list[str]:
    return [refusal["code"] for refusal in json.loads(printed)["refusals"]]


@pytest.mark.usefixtures("folder")
def test_a_refusal_is_exit_3_and_hides_no_finding(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", "t.yaml", "--format", "compact")
    finding, counts = out.splitlines()
    assert (code, finding) == (3, "t.yaml:3:52: deny[size] v has 20 GB")
    assert counts.partition("; decision")[0] == (
        "2 mistakes, 1 denied, 0 warnings, 0 undetermined; 1 policy, 3 facts; deny"
    )
    assert [line.split("] ")[0] for line in err.splitlines() if "error" in line] == [
        "t.yaml:3:56: error[unknown-property",
        "t.yaml:3:65: error[unknown-property",
    ]


@pytest.mark.usefixtures("folder")
def test_refusals_are_printed_before_all_findings() -> None:
    command = [sys.executable, "-m", "datalog_gate", "check", "t.yaml"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert re.findall(r"^t\.yaml:\d+:\d+: (\w+)", done.stdout, re.M) == ["error", "error", "deny"]


@pytest.mark.usefixtures("folder")
def test_mistakes_are_in_the_total(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "check", "t.yaml", "t.yaml", "--select", "unknown-property")
    assert out.splitlines()[-1] == "total of 2: 4 mistakes, 0 denied, 0 warnings, 0 undetermined; 2 allow"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("options", "expected", "exit_code"),
    [
        ([], NAMES, 3),
        (["--ignore", "unknown-property"], [], 1),
        (["--select", "size"], [], 1),
        (["--select", "size,unknown-*,unknown-property"], NAMES, 3),
        (["--select", "unknown-property"], NAMES, 3),
    ],
)
def test_codes_are_selected_and_ignored(
    capsys: pytest.CaptureFixture[str], options: list[str], expected: list[str], exit_code: int
) -> None:
    code, out, _ = run(capsys, "check", "t.yaml", "--format", "json", *options)
    assert (codes(out), code) == (expected, exit_code)


@pytest.mark.parametrize(("code", "day", "expected", "exit_code"), [
    ("unknown-property", "2027-01-31", [], 1),
    ("unknown-property", "2026-01-31", NAMES, 3),
    ("wrong-kind", "2027-01-31", NAMES, 3),
])  # fmt: skip
def test_a_comment_ignores_a_code_on_its_line(
    code: str, day: str, expected: list[str], exit_code: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "t.yaml"
    path.write_text(f"{WRONG.rstrip()}  # datalog-gate: ignore[{code}] until {day}: a plugin\n")
    returned, out, err = run(capsys, "check", "t.yaml", "--format", "json", "--now", "2026-12-01")
    assert (returned, codes(out)) == (exit_code, expected)
    reasons = {"2026-01-31": "no longer ignored", "wrong-kind": "finds nothing on this line"}
    assert [reason in err for reason in reasons.values()] == [reason in (day, code) for reason in reasons]
    (folder / "datalog-gate.toml").write_text('now = "2026-12-01"\n')
    assert [problem.code for problem in Workspace(folder).judge(path)[str(path)]] == ["size", *expected]


def test_a_comment_ignores_a_code_of_a_template_that_can_not_be_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "t.yaml"
    path.write_text(
        f"{HEAD}  n:\n    type: OS::Neutron::Net\n    depends_on: nothing\n    properties:\n"
        "      nmae: x  # datalog-gate: ignore[unknown-property] until 2027-01-31: a plugin\n      shared: perhaps\n"
    )
    _, out, _ = run(capsys, "check", "t.yaml", "--format", "json", "--now", "2026-12-01")
    expected = ["bad-reference", "wrong-kind"]
    assert [problem["code"] for problem in json.loads(out)["diagnostics"]] == expected
    (folder / "datalog-gate.toml").write_text('now = "2026-12-01"\n')
    assert [problem.code for problem in Workspace(folder).judge(path)[str(path)]] == expected


@pytest.mark.parametrize(
    ("options", "configured", "expected"),
    [
        ([], "", []),
        (["--heat", "26"], "", ["unknown-property"]),
        ([], "26", ["unknown-property"]),
        (["--heat", "27"], "26", []),
    ],
)
def test_what_is_wrong_depends_on_the_heat(
    options: list[str], configured: str, expected: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = folder / "t.yaml"
    template.write_text(f"{HEAD}  g: {{type: OS::Neutron::SecurityGroup, properties: {{stateful: true}}}}\n")
    if configured:
        (folder / "datalog-gate.toml").write_text(f'heat = "{configured}"\n')
    _, out, _ = run(capsys, "check", "t.yaml", "--format", "json", *options)
    assert codes(out) == expected
    if not options:
        assert [problem.code for problem in Workspace(folder).judge(template)[str(template)]] == expected


@pytest.mark.usefixtures("folder")
def test_a_heat_that_is_not_there_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="64"):
        run(capsys, "check", "t.yaml", "--heat", "23")
    assert "argument --heat: invalid choice: '23' (choose from " in capsys.readouterr().err


def test_other_formats_have_them_like_other_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = ["sarif=s.json", "junit=j.xml", "github=g.txt"]
    run(capsys, "check", "t.yaml", *(part for report in reports for part in ("--output", report)))
    results = json.loads((folder / "s.json").read_text())["runs"][0]["results"]
    assert sorted((result["ruleId"], result["level"]) for result in results) == [
        ("size", "error"),
        *(("unknown-property", "error") for _ in NAMES),
    ]
    assert (folder / "g.txt").read_text().count("::error file=t.yaml,line=3,col=") == 3
    assert '<testcase classname="t.yaml" name="readable">' in (folder / "j.xml").read_text()


def test_the_editor_shows_them_beside_findings(folder: Path) -> None:
    path = folder / "t.yaml"
    problems = Workspace(folder).judge(path)[str(path)]
    assert [problem.code for problem in problems] == ["size", *NAMES]
