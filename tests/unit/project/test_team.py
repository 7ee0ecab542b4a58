"""A team's way through docs/ci.md, in a repository with thirty templates."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tests.commands import run, write_files
from tests.sources import ROOT

RULES = '@deny("web.flavor", "{s} takes {f}")\nhuge(s, f) :- os:nova:server(_id=s, flavor=f), f = "huge".\n'
STACK = """\
heat_template_version: 2018-08-31
parameters: {flavor: {type: string, default: small}}
resources:
  web:
    type: OS::Nova::Server
    properties:
      image: debian
      flavor: {get_param: flavor}
"""
SAMPLES = ROOT / "docs/samples/ci"
IGNORE = "  # datalog-gate: ignore[web.flavor] until {}: the new image is late"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of a repository with thirty templates, of which two take what they may not."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    texts = {f"stacks/team{at % 3}/app{at}.yaml": STACK for at in range(30)}
    for at in (4, 8):
        texts[f"stacks/team{at % 3}/app{at}.yaml"] = STACK.replace("{get_param: flavor}", "huge")
    texts |= {
        "policies/m.dl": RULES,
        "production.env": "parameters: {flavor: medium}\n",
        "datalog-gate.toml": (SAMPLES / "datalog-gate.toml").read_text("utf-8"),
    }
    write_files(origin, texts)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    for arguments in (["init", "-q", "."], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *arguments], cwd=origin, check=True)
    subprocess.run([*git, "clone", "-q", str(origin), str(clone)], check=True)
    monkeypatch.chdir(clone)
    return clone


@pytest.mark.slow
def test_a_team_finds_its_way(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/ci.md").read_text("utf-8")
    [configure, begin, commit, change] = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert re.findall(r"```toml\n(.*?)```", page, re.DOTALL) == [Path("datalog-gate.toml").read_text()]

    code, out, _ = run(capsys, *shlex.split(configure)[1:])
    assert (code, f"# {repository}/datalog-gate.toml" in out, tomllib.loads(out)["fail-on"]) == (0, True, "warn")

    write, add, again = begin.splitlines()
    assert run(capsys, *shlex.split(write)[1:])[0] == 0
    findings = json.loads(Path("known.json").read_text())["findings"]
    assert [finding["template"] for finding in findings] == ["stacks/team1/app4.yaml", "stacks/team2/app8.yaml"]
    subprocess.run(shlex.split(add), check=True)
    code, out, _ = run(capsys, *shlex.split(again)[1:])
    total = "total of 30: 0 denied, 0 warnings, 0 undetermined; 28 allow, 2 allow_with_warnings"
    assert (code, out.splitlines()[-1]) == (0, total)

    changed = Path("stacks/team0/app9.yaml")
    changed.write_text(STACK.replace("{get_param: flavor}", "huge"))
    action, job = change.splitlines()
    assert run(capsys, *shlex.split(job)[1:])[0] == 1
    code, out, _ = run(capsys, *shlex.split(action)[1:])
    assert (code, [line for line in out.splitlines() if line.startswith("::error")]) == (
        1,
        ["::error file=stacks/team0/app9.yaml,line=8,col=15,title=web.flavor::web takes huge"],
    )
    [sarif] = json.loads(Path("findings.sarif").read_text())["runs"]
    states = [result["baselineState"] for result in sarif["results"]]
    assert (states, len({str(result["partialFingerprints"]) for result in sarif["results"]})) == (
        ["new", "unchanged", "unchanged"],
        3,
    )
    suites = ElementTree.parse("findings.xml").getroot()
    assert [suite.get("name") for suite in suites if suite.get("failures") != "0"] == ["stacks/team0/app9.yaml"]
    committed = commit_hook(commit)
    finding = "stacks/team0/app9.yaml:8:15: deny[web.flavor] web takes huge"
    lines = re.findall(r"^(?:stacks/|\d+ finding).*", committed.stdout, re.M)
    assert (committed.returncode, lines) == (1, [finding, "2 findings preexisting: not shown"])

    changed.write_text(STACK.replace("{get_param: flavor}", f"huge{IGNORE.format('2027-01-31')}"))
    codes = [run(capsys, *shlex.split(again)[1:], "--now", now)[0] for now in ("2027-01-30T23:59", "2027-01-31")]
    assert codes == [0, 1]
    changed.write_text(STACK)
    assert commit_hook(commit).returncode == 0


def commit_hook(command: str) -> subprocess.CompletedProcess[str]:
    """Run pre-commit with our hook, from this environment instead of one that it would make."""
    pytest.importorskip("pre_commit")
    [hook, *_] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    sample = yaml.safe_load((SAMPLES / "pre-commit-config.yaml").read_text("utf-8"))
    assert sample["repos"][0]["hooks"] == [{"id": hook["id"]}]
    hooks = [{**hook, "language": "system", "always_run": True}]
    Path(".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [{"repo": "local", "hooks": hooks}]}))
    subprocess.run(["git", "add", "-A"], check=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    home = str(Path.cwd().parent / "pre-commit")
    environment = {**os.environ, "PATH": path, "PRE_COMMIT_HOME": home}
    arguments = shlex.split(command)[1:]
    command_ = [sys.executable, "-m", "pre_commit", *arguments]
    return subprocess.run(command_, env=environment, capture_output=True, text=True, check=False)


def test_samples_are_what_the_page_says() -> None:
    page = (ROOT / "docs/ci.md").read_text("utf-8")
    assert (SAMPLES / "datalog-gate.toml").read_text("utf-8") in page
    named = set(re.findall(r"\(samples/ci/([\w.-]+)\)", page))
    assert named == {path.name for path in SAMPLES.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "sample"),
    [("github-workflows", "github.yml"), ("github-actions", "action.yml"), ("gitlab-ci", "gitlab.yml")],
)
def test_a_sample_keeps_to_the_schema_of_its_reader(schema: str, sample: str) -> None:
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(SAMPLES / sample)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == "ok -- validation done\n"
