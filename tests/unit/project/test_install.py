"""The files and commands of docs/install.md and docs/services.md work as these say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from importlib import invalidate_caches
from pathlib import Path

import pytest
from stevedore.extension import ExtensionManager

from datalog_gate.decision_point.break_glass import read_break_glass
from datalog_gate.decision_point.config_options import build_settings
from datalog_gate.decision_point.enabled_plugins import load_enabled_services
from datalog_gate.decision_point.roles import Entitlements
from datalog_gate.doors.cli.main import main
from datalog_gate.plugins.plugin_errors import RefusedError
from datalog_gate.rack_affinity import service as rack_affinity
from datalog_gate.rack_affinity.demand import read_flavors
from datalog_gate.rack_affinity.places import read_places
from datalog_gate.services import approval, licence_pool, placement
from datalog_gate.services.contract import Request
from datalog_gate.services.licence_server import DEFAULTS
from tests.commands import read_conf
from tests.installed import INSTALL, MEMBER, install, moved, off_site
from tests.pages import DOCS

SHELL = re.compile(r"^ {4,}((?:python -c|ln -s|echo|sed) [^\n]*)$", re.M)
SECTION = "[filter:datalog_gate_cfn]\nuse = egg:datalog-gate#datalog_gate_cfn\n"
ROW = re.compile(r"^\| `(\w+)` \| (?:`([^`]*)`)? *\| .* \|$", re.M)
FINDING = re.compile(r"^/.* finding\[.*\n  fix .*\n", re.M)


def test_the_shell_commands_do_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "etc/heat/datalog_gate").mkdir(parents=True)
    link, *folders, mode, glass = SHELL.findall(INSTALL)
    (tmp_path / "etc/heat/heat.conf").write_text("[datalog_gate]\nmode = record\n")
    for command in (link, mode, glass):
        subprocess.run(["bash", "-c", moved(command, tmp_path)], check=True)
    modules = []
    for command in folders:
        program = ["bash", "-c", command.replace("python", sys.executable, 1)]
        folder = subprocess.run(program, capture_output=True, text=True, check=True).stdout.rstrip("\n")
        modules.append([path.name for path in Path(folder).glob("*.py")])
    assert modules == [["datalog_gate_engine_door.py"], ["datalog_gate_resources.py"]]
    assert build_settings(read_conf(tmp_path / "etc/heat/heat.conf")).mode == "warn"
    assert os.readlink(tmp_path / "etc/heat/datalog_gate/current") == "rules-2027-03"
    now = datetime.now(UTC)
    broke = read_break_glass(str(tmp_path / "etc/heat/datalog_gate/glass"), now)
    assert broke is not None
    assert (broke.why, broke.until > now) == ("the licence server is down", True)


def test_the_doctor_finds_that_a_section_is_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    install(tmp_path)
    paste = tmp_path / "etc/heat/api-paste.ini"
    paste.write_text(paste.read_text().replace(SECTION, ""))
    assert main(["doctor", "--heat-conf", str(tmp_path / "etc/heat/heat.conf")]) == 1
    assert FINDING.findall(off_site(capsys.readouterr().out, tmp_path)) == FINDING.findall(INSTALL)


def test_the_policy_file_says_who_may_do_what(tmp_path: Path) -> None:
    rules = Entitlements(install(tmp_path), ("edge", "night"))
    callers = [{**MEMBER, "roles": [role]} for role in ("member", "edge_user", "admin")]
    allowed = [
        (sorted(rules.services("p-shop", caller)), rules.may_break_glass("p-shop", caller)) for caller in callers
    ]
    assert allowed == [(["night"], False), (["edge"], False), (["night"], True)]


def test_the_licence_is_enabled_and_has_the_settings_of_the_table(tmp_path: Path) -> None:
    [text] = [section for section in re.findall(r"```ini\n(.*?)```", INSTALL, re.S) if "licence_server" in section]
    (tmp_path / "heat.conf").write_text(text)
    conf = read_conf(tmp_path / "heat.conf")
    services = load_enabled_services(build_settings(conf))
    rows = ROW.findall(INSTALL)
    assert (list(services), dict(rows)) == (["licence_server"], DEFAULTS)


def test_the_smallest_service_loads_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [(module, project)] = re.findall(r"```python\n((?:(?!```).)*)```\n\n```toml\n(.*?)```", INSTALL, re.S)
    [(group, entries)] = tomllib.loads(project)["project"]["entry-points"].items()
    installed = tmp_path / "acme_freeze-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-freeze\nVersion: 1\n")
    lines = [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / "acme_freeze.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", {})
    invalidate_caches()
    conf = build_settings(read_conf(), {"services": "freeze", "service_option": "freeze.projects=p1+p2", "store": "/s"})
    freeze = load_enabled_services(conf)["freeze"]

    def ask(action: str, project: str) -> None:
        place = {"service": "freeze", "project": project, "stack": "", "stack_name": "web", "grant": "", "uuid": "u"}
        freeze.reserve(Request(**place, options={}, scope=(), action=action))  # type: ignore[arg-type]

    ask("create", "p3")
    ask("delete", "p2")
    with pytest.raises(RefusedError, match=r"^this project is frozen until its move is done$"):
        ask("create", "p2")


SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", (DOCS / "services.md").read_text("utf-8"), re.M | re.S))
SETTINGS = {name: dict(ROW.findall(section)) for name, section in SECTIONS.items()}


def test_the_settings_are_those_of_the_services() -> None:
    approvals = {name: default for name, default in approval.DEFAULTS.items() if name != "store"}  # the gate sets it
    assert {name: set(settings) for name, settings in SETTINGS.items()} == {
        "approval": set(approvals),
        "licence": {*licence_pool.OWN},
        "rack_affinity": {*rack_affinity.OWN},
        "Placement": {*placement.OWN, "password_file"},
    }
    assert SETTINGS["approval"] == approvals


@pytest.mark.parametrize("name", ["approval", "licence", "rack_affinity"])
def test_a_service_loads_with_its_section_of_the_page(name: str, tmp_path: Path) -> None:
    [conf] = re.findall(r"```ini\n(.*?)```", SECTIONS[name], re.S)
    (tmp_path / "etc/heat/datalog_gate").mkdir(parents=True)
    (tmp_path / "var/lib/heat").mkdir(parents=True)
    (tmp_path / "etc/heat/datalog_gate/placement_password").write_text("s3cret")
    for file in ("places.jsonl", "flavors.jsonl"):
        (tmp_path / "etc/heat/datalog_gate" / file).touch()
    (tmp_path / "heat.conf").write_text(moved(conf, tmp_path))
    assert list(load_enabled_services(build_settings(read_conf(tmp_path / "heat.conf")))) == [name]


def test_the_files_of_racks_and_flavors_are_read(tmp_path: Path) -> None:
    places, flavors = re.findall(r"```json\n(.*?)```", SECTIONS["rack_affinity"], re.S)
    (tmp_path / "places").write_text(places)
    (tmp_path / "flavors").write_text(flavors)
    assert [row["rack"] for row in read_places(str(tmp_path / "places"))] == ["r1", "r2"]
    assert read_flavors(str(tmp_path / "flavors")) == {
        "m1.small": {"VCPU": 1, "MEMORY_MB": 2048},
        "m1.large": {"VCPU": 4, "MEMORY_MB": 8192},
    }
