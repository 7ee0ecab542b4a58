"""The settings and samples of heat.conf in docs/services.md load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from datalog_gate.decision_point.config_options import build_settings
from datalog_gate.decision_point.enabled_plugins import load_enabled_services
from datalog_gate.rack_affinity import service as rack_affinity
from datalog_gate.rack_affinity.demand import read_flavors
from datalog_gate.rack_affinity.places import read_places
from datalog_gate.services import approval, licence_pool, placement
from tests.commands import read_conf
from tests.installed import moved

PAGE = (Path(__file__).parents[3] / "docs/services.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
SETTINGS = {
    name: dict(re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`)? *\| .* \|$", section, re.M))
    for name, section in SECTIONS.items()
}


def test_the_settings_are_those_of_the_services() -> None:
    approvals = {name: default for name, default in approval.DEFAULTS.items() if name != "store"}  # the gate sets it
    assert {name: set(settings) for name, settings in SETTINGS.items()} == {
        "approval": set(approvals),
        "licence": {"file", *licence_pool.OWN},
        "rack_affinity": {"file", *rack_affinity.OWN},
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
