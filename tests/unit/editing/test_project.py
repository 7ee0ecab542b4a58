"""Projects in an editor, judged as `check` judges them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from datalog_gate.doors.cli.main import main
from datalog_gate.editing.answers import TextProblem
from datalog_gate.editing.workspace import Workspace
from tests.commands import write_files

LEVELS = {"deny": "error", "warn": "warning", "record": "note"}
RULES = """\
@deny("huge", "{server} is huge")
huge(server, flavor) :- os:nova:server(_id=server, flavor=flavor), flavor = "huge".
@warn("named", "{server} is not {caller}'s")
named(server, caller) :- os:nova:server(_id=server, name=name), gate:caller(user=caller), name != caller.
@warn("known", "{server} takes {flavor}, which is not known")
known(server, flavor) :- os:nova:server(_id=server, flavor=flavor), flavor != null, not offered(flavor).
offered(name) :- nova:flavors(name=name).
"""
WEB = """\
heat_template_version: 2018-08-31
parameters:
  flavor: {type: string}
  name: {type: string, default: web}
resources:
  web:
    type: OS::Nova::Server
    properties:
      flavor: {get_param: flavor}
      name: {get_param: name}
  db:
    type: OS::Nova::Server
    properties: {flavor: huge}  # datalog-gate: ignore[huge] until 2027-01-31: the old image is late
"""
CONFIGURED = """\
rules = ["policies"]
caller = "caller.json"
inventory = "cloud.jsonl"
now = "2026-12-01"

[[templates]]
path = "stacks/*.yaml"
environment = ["production.yaml"]
parameter = {name = "other"}
"""
FILES = {
    "policies/web.dl": RULES,
    "stacks/web.yaml": WEB,
    "before.yaml": WEB,
    "production.yaml": "parameters: {flavor: huge}\n",
    "caller.json": '{"user": "ann"}',
    "cloud.jsonl": '{"relation": "nova:flavors", "row": {"id": "1", "name": "small", "vcpus": 1, "ram": 1, "disk": 1, '
    '"ephemeral": 0}}\n',
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_files(tmp_path, FILES).resolve()


def judge(project: Path, name: str = "web.yaml") -> list[str]:
    """The findings of an editor in the folder: policy, place and level."""
    path = project / "stacks" / name
    workspace = Workspace(project)
    return sorted(
        f"{problem.severity} {problem.code} {Path(file).name}:{line_of(workspace, file, problem)}"
        for file, own in workspace.judge(path).items()
        for problem in own
    )


def line_of(workspace: Workspace, file: str, problem: TextProblem) -> int:
    return workspace.text(Path(file)).position(problem.range.start)[0] + 1


def check(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The findings of `check` in the folder: policy, place and level."""
    main(["check", "--format", "json"])
    decision = json.loads(capsys.readouterr().out)
    return sorted(
        f"{'note' if finding['change'] == 'preexisting' else LEVELS[finding['level']]} {finding['policy']} "
        f"{Path(finding['place']['file']).name}:{finding['place']['line']}"
        for finding in (*decision["violations"], *decision["undetermined"])
    )


HUGE, NAMED = "error huge production.yaml:1", ["warning named web.yaml:6", "warning named web.yaml:11"]
KNOWN = ["warning known production.yaml:1", "warning known web.yaml:13"]


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("", [HUGE, *KNOWN, *NAMED]),
        ('ignore = ["known"]\n', [HUGE, *NAMED]),
        ('select = ["known"]\n', KNOWN),
        ('action = "delete"\n', []),
        ('parameter = ["flavor=small"]\nstack-name = "front"\n', [HUGE, *KNOWN, *NAMED]),
        ('baseline = "known.json"\n', [HUGE.replace("error", "note"), *KNOWN, *NAMED]),
        ('against = "before.yaml"\nselect = ["huge"]\n', [HUGE.replace("error", "note")]),
    ],
)
def test_an_editor_finds_what_check_finds(
    project: Path, capsys: pytest.CaptureFixture[str], more: str, found: list[str]
) -> None:
    (project / "datalog-gate.toml").write_text(CONFIGURED)
    if "baseline" in more:
        main(["check", "--select", "huge", "--output", "baseline=known.json"])
        capsys.readouterr()
    (project / "datalog-gate.toml").write_text(more + CONFIGURED)
    assert (judge(project), check(capsys)) == (sorted(found), sorted(found))


@pytest.mark.parametrize("pattern", ["stacks", "stacks/*.yaml", "stacks/template.yaml"])
def test_environments_of_all_stand_above_that_of_a_folder(
    project: Path, capsys: pytest.CaptureFixture[str], pattern: str
) -> None:
    (project / "stacks/web.yaml").rename(project / "stacks/template.yaml")
    (project / "stacks/env.yaml").write_text("parameters: {flavor: small, name: ann}\n")
    configured = f'environment = ["production.yaml"]\n{CONFIGURED.partition("[[")[0]}templates = ["{pattern}"]\n'
    (project / "datalog-gate.toml").write_text(configured)
    found = [finding.replace("web.yaml", "template.yaml") for finding in (HUGE, *KNOWN, NAMED[1])]
    assert (judge(project, "template.yaml"), check(capsys)) == (sorted(found), sorted(found))


@pytest.mark.parametrize(("mode", "level"), [("enforce", "error"), ("warn", "warning"), ("record", "note")])
def test_a_denial_is_as_severe_as_its_mode(project: Path, mode: str, level: str) -> None:
    (project / "datalog-gate.toml").write_text(f'mode = "{mode}"\nselect = "huge"\n{CONFIGURED}')
    assert judge(project) == [HUGE.replace("error", level)]


def test_a_comment_that_ignores_nothing_is_reported_at_its_place(project: Path) -> None:
    (project / "datalog-gate.toml").write_text(CONFIGURED)
    web = project / "stacks/web.yaml"
    web.write_text(WEB.replace(" until 2027-01-31", ""))
    assert [line for line in judge(project) if line.endswith("web.yaml:13")] == [
        "error huge web.yaml:13",
        "warning bad-ignore web.yaml:13",
        "warning known web.yaml:13",
    ]


def test_errors_of_the_configuration_are_shown_in_the_template(project: Path) -> None:
    (project / "datalog-gate.toml").write_text("rulez = []\n")
    [problem] = Workspace(project).judge(project / "stacks/web.yaml")[str(project / "stacks/web.yaml")]
    assert problem.message == "datalog-gate.toml:1:1: there is no key `rulez`"
    assert problem.help == "did you mean rules?"
