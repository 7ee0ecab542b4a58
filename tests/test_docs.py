"""What the pages show is what happens: every command runs, and where output is shown it is the whole output."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from importlib import invalidate_caches
from pathlib import Path

import pytest
from oslo_config import cfg
from stevedore.extension import ExtensionManager

from datalog_gate.diagnostics import CODES
from datalog_gate.enforce.cli import main
from datalog_gate.gate.policyset import RuleFile, load
from datalog_gate.point.asked import Asked
from datalog_gate.point.definition import Definition
from datalog_gate.point.glass import broken
from datalog_gate.point.options import settings
from datalog_gate.point.point import Point, chain_of
from datalog_gate.point.policies import Entitlements
from datalog_gate.preflight.licence import DEFAULTS
from datalog_gate.preflight.loading import load_chain
from datalog_gate.preflight.plugin import RefusedError
from datalog_gate.preflight.snapshot import snapshot
from tests.test_doctor import PASTE

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(
    r"^ {4,}(?:pip install [^&\n]*&& )?datalog-gate (?P<command>[^\n]*)\n(?:\n```\n(?P<output>.*?)```)?", re.M | re.S
)
PYTHON = re.compile(r"```python\n(?P<program>(?:(?!```).)*)```\n\n```\n(?P<output>.*?)```", re.S)
RULES = re.compile(r"```prolog\n(.*?)```", re.S)
SHELL = re.compile(r"^ {4,}((?:python -c|ln -s|echo) [^\n]*)$", re.M)
FILE = re.compile(r"`(/etc/heat/[^`]*)`[^`\n]*(?:\n[^`\n]+)*\n\n```\w+\n(.*?)```", re.S)
"""A file that a page shows, after the paragraph that names it last."""
INSTALL = (ROOT / "docs" / "install.md").read_text("utf-8")
NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
MEMBER = {"user_id": "u-ann", "project_id": "p-shop", "roles": ["member"]}
TEMPLATE = """\
heat_template_version: 2018-08-31
resources:
  web: {type: OS::Nova::Server, properties: {image: debian, flavor: FLAVOR}}
"""
SHOWN = [
    pytest.param(found["command"], found["output"], id=f"{page.name}: {found['command'][:50]}")
    for page in PAGES
    for found in COMMAND.finditer(page.read_text("utf-8"))
]


@pytest.mark.parametrize(("command", "output"), SHOWN)
def test_a_command_of_a_page_prints_what_the_page_shows(
    command: str,
    output: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(ROOT)
    for name in [one for one in os.environ if one.startswith(("DATALOG_GATE_RULES", "OS_"))]:
        monkeypatch.delenv(name)
    command = _on_site(command, tmp_path)
    if command.startswith("test"):
        program = [sys.executable, "-m", "datalog_gate.enforce.cli", *shlex.split(command)]
        assert subprocess.run(program, capture_output=True, check=False).returncode == 0
        return
    assert main(shlex.split(command)) in (0, 1)
    printed = capsys.readouterr()
    assert (printed.err, _off_site(printed.out, tmp_path) if output else None) == ("", output)


def _on_site(text: str, folder: Path) -> str:
    """The text with the folder in the place of the root of files, if it names an installed Heat: which is there, then,
    with all that the page on it shows, and a log of two creations."""
    if "/heat" not in text:
        return text
    files = dict(FILE.findall(INSTALL))
    files["/etc/heat/api-paste.ini"] += PASTE[PASTE.index("[app:") : PASTE.index("[filter:datalog_gate]")]
    (folder / "var/log/heat").mkdir(parents=True, exist_ok=True)
    for name, shown in files.items():
        path = folder / name[1:]
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.write_text(_moved(shown, folder))
        path.chmod(0o644)
    conf = cfg.ConfigOpts()
    conf([], project="heat", default_config_files=[str(folder / "etc/heat/heat.conf")])
    point = Point(settings(conf), Entitlements(conf, ()), now=lambda: NOW)
    for name, flavor in (("web", "m1.huge"), ("db", "m1.tiny")):
        definition = Definition(TEMPLATE.replace("FLAVOR", flavor))
        point.judge(Asked("api", "create", name, "p-shop", lambda held=definition: held, MEMBER))  # type: ignore[misc]
    point.flush()
    return _moved(text, folder)


def _moved(text: str, folder: Path) -> str:
    return re.sub(r"(?<!\w)/(?=(?:etc|var/log)/heat)", f"{folder}/", text)


def _off_site(text: str, folder: Path) -> str:
    return text.replace(str(folder), "").replace(socket.gethostname(), "api-1")


def test_the_shell_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    commands = SHELL.findall(INSTALL)
    (tmp_path / "etc/heat/datalog_gate").mkdir(parents=True)
    said = [
        subprocess.run(
            ["bash", "-c", _moved(one, tmp_path).replace("python ", f"{sys.executable} ")],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for one in commands
    ]  # fmt: skip
    link = os.readlink(tmp_path / "etc/heat/datalog_gate/current")
    glass = broken(str(tmp_path / "etc/heat/datalog_gate/glass"), datetime.now(UTC))
    resources = [one.name for text in said if text for one in Path(text).glob("*.py")]
    assert (len(commands), link, resources) == (3, "rules-2027-03", ["datalog_gate_resources.py"])
    assert glass is not None
    assert glass.why == "the licence server is down"


def test_the_doctor_finds_the_section_that_the_page_leaves_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    conf, paste = _on_site("/etc/heat/heat.conf /etc/heat/api-paste.ini", tmp_path).split()
    told = Path(paste).read_text()
    Path(paste).write_text(told.replace("[filter:datalog_gate_cfn]\nuse = egg:datalog-gate#datalog_gate_cfn\n", ""))
    assert main(["doctor", "--heat-conf", conf]) == 1
    finding = re.findall(r"^.* finding\[.*\n  fix .*\n", _off_site(capsys.readouterr().out, tmp_path), re.M)
    assert finding == re.findall(r"^/.* finding\[.*\n  fix .*\n", INSTALL, re.M)


def test_the_policy_file_of_the_page_says_who_may_do_what(tmp_path: Path) -> None:
    _on_site("/heat", tmp_path)
    conf = cfg.ConfigOpts()
    conf([], project="heat", default_config_files=[str(tmp_path / "etc/heat/heat.conf")])
    rules = Entitlements(conf, ("edge", "night"))
    asked = [{**MEMBER, "roles": [role]} for role in ("member", "edge_user", "admin")]
    allowed = [(sorted(rules.services("p-shop", one)), rules.may_break_glass("p-shop", one)) for one in asked]
    assert allowed == [(["night"], False), (["edge"], False), (["night"], True)]


def test_the_licence_is_asked_as_the_page_sets_it(tmp_path: Path) -> None:
    [text] = [one for one in re.findall(r"```ini\n(.*?)```", INSTALL, re.S) if "preflight" in one]
    (tmp_path / "heat.conf").write_text(text)
    conf = cfg.ConfigOpts()
    conf([], project="heat", default_config_files=[str(tmp_path / "heat.conf")])
    chain = chain_of(settings(conf))
    rows = re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`)? *\| .* \|$", INSTALL, re.M)
    assert (list(chain.plugins) if chain else [], dict(rows)) == (["licence"], DEFAULTS)


def test_the_plugin_of_the_page_loads_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [(module, project)] = re.findall(r"```python\n((?:(?!```).)*)```\n\n```toml\n(.*?)```", INSTALL, re.S)
    [(group, entries)] = tomllib.loads(project)["project"]["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    installed = tmp_path / "acme_freeze-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-freeze\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / "acme_freeze.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", {})
    invalidate_caches()
    chain = load_chain(("freeze",), {"freeze": {"projects": "p1+p2"}})
    chain.before(snapshot(action="create", stack_name="web", project="p3", decision_id="7f"))
    chain.before(snapshot(action="delete", stack_name="web", project="p2", decision_id="7f"))
    with pytest.raises(RefusedError, match=r"^freeze: this project is frozen until its move is done$"):
        chain.before(snapshot(action="create", stack_name="web", project="p2", decision_id="7f"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_program_of_a_page_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    for found in PYTHON.finditer(page.read_text("utf-8")):
        program = [sys.executable, "-c", _on_site(found["program"], tmp_path)]
        assert subprocess.run(program, capture_output=True, text=True, cwd=ROOT, check=True).stdout == found["output"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_rules_of_a_page_load_without_a_warning(page: Path) -> None:
    for text in RULES.findall(page.read_text("utf-8")):
        assert load([RuleFile("page", page.name, text)]).warnings == ()


def test_readme_shows_what_a_policy_a_command_and_a_program_do() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert (len(COMMAND.findall(text)), len(PYTHON.findall(text)), len(RULES.findall(text))) == (1, 1, 1)


def test_every_code_is_said_in_a_sentence() -> None:
    assert [code for code, sentence in CODES.items() if not re.fullmatch(r"[A-Z].*\.", sentence)] == []
