"""Services enforce the same whatever folder they run in."""

from __future__ import annotations

from pathlib import Path

import pytest
from oslo_config import cfg

from datalog_gate.api import load_rules
from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.config_options import OptionFiles
from datalog_gate.decision_point.point import create_point
from datalog_gate.files.rules import shipped_rules
from datalog_gate.plugins.plugin_errors import PluginLoadError
from tests.commands import read_conf, write_files
from tests.unit.decision_point.test_decision_point import FLAVOR

ADVICE = "is not an absolute path, and services run in different folders"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with rules that a command would use."""
    monkeypatch.chdir(write_files(tmp_path, {"rules/m.dl": FLAVOR}))
    monkeypatch.setenv("DATALOG_GATE_RULES", str(tmp_path / "rules"))
    return tmp_path


def test_without_rules_the_packs_of_the_package_are_in_force() -> None:
    in_force = create_point(read_conf(), {}).current().ruleset.rules
    assert in_force.digest == load_rules(shipped_rules()).digest


@pytest.mark.parametrize(
    ("option", "path"),
    [
        ("rules", "./rules"),
        ("rules", "rules"),
        ("catalogue", "types.yaml"),
        ("inventory", "cloud.jsonl"),
        ("waivers", "waivers.yaml"),
        ("break_glass", "glass"),
        ("decision_log", "log/decisions.jsonl"),
        ("metrics_folder", "metrics"),
        ("store", "store"),
        ("store", "sqlite:///store"),
    ],
)
def test_a_relative_path_is_an_error_in_heat_conf_and_in_the_section_of_a_door(
    folder: Path, option: str, path: str
) -> None:
    relative = path.removeprefix("sqlite:///")
    with pytest.raises(ValueError, match=f"^{relative} {ADVICE}$"):
        create_point(read_conf(), {option: path})
    (folder / "heat.conf").write_text(f"[datalog_gate]\n{option} = {path}\n")
    conf = read_conf(folder / "heat.conf")
    with pytest.raises(cfg.ConfigFileValueError, match=ADVICE):
        create_point(conf, {})
    with pytest.raises(InputError, match=ADVICE):
        OptionFiles(conf, {}).read()


@pytest.mark.parametrize(
    ("service", "setting"),
    [
        ("approval", "webhook_secret_file=secret"),
        ("rack_affinity", "places=places"),
        ("rack_affinity", "flavors=flavors"),
        ("rack_affinity", "cafile=ca.pem"),
        ("rack_affinity", "password_file=secret"),
    ],
)
def test_a_relative_path_in_a_setting_of_a_service_is_an_error(folder: Path, service: str, setting: str) -> None:
    (folder / setting.partition("=")[2]).touch()
    options = [f"{service}.{setting}"]
    if service == "approval":
        options += ["approval.webhook=https://people"]
    elif "password" not in setting:
        options += ["rack_affinity.endpoint=https://placement"]
    with pytest.raises(PluginLoadError, match=ADVICE):
        create_point(
            read_conf(),
            {"services": service, "service_option": "\n".join(options), "store": str(folder / "journal")},
        )
