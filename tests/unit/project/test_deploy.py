"""The scripts and files of docs/deploy.md work as the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from datalog_gate.decision_point.config_options import build_settings
from datalog_gate.doors.heat import __path__ as heat_path
from tests.commands import read_conf
from tests.installed import INSTALL

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/deploy.md").read_text("utf-8")
[DOORS] = re.findall(r"```ini\n(\[composite:api\].*?)```", INSTALL, re.S)
HEATS = re.sub(r" datalog_gate(_cfn)?\b", "", DOORS.partition("\n[filter:")[0])
"""What Heat itself has of the file."""
SCRIPT = ROOT / "docs/samples/add_doors.sh"
PLUGIN_DIRS = "/usr/lib64/heat,/usr/lib/heat,/usr/local/lib64/heat,/usr/local/lib/heat"


def test_the_script_writes_what_the_page_shows_and_only_once(tmp_path: Path) -> None:
    paste = tmp_path / "api-paste.ini"
    paste.write_text(HEATS)
    for _ in range(2):
        subprocess.run([SCRIPT, paste], check=True)
        assert paste.read_text() == DOORS


def test_the_image_has_the_doors_and_the_folder_for_plugin_dirs(tmp_path: Path) -> None:
    [run] = re.findall(r"^RUN ((?:.*\\\n)*.*)", (ROOT / "docs/samples/Containerfile").read_text(), re.M)
    checkout = tmp_path / "tmp/datalog-gate"
    (checkout / "docs/samples").mkdir(parents=True)
    shutil.copy(SCRIPT, checkout / "docs/samples")
    for folder in ("etc/heat", "opt"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/heat/api-paste.ini").write_text(HEATS)
    program = run.replace("pip install --no-cache-dir", "ls").replace("python3", sys.executable)
    subprocess.run(["sh", "-c", re.sub(r" /(tmp|etc|opt)/", rf" {tmp_path}/\1/", program)], check=True)
    assert (tmp_path / "etc/heat/api-paste.ini").read_text() == DOORS
    assert os.readlink(tmp_path / "opt/datalog-gate-heat") == heat_path[0]
    assert not checkout.exists()


def test_kolla_merges_options_that_the_gate_knows(tmp_path: Path) -> None:
    [options] = re.findall(r"```ini\n(\[DEFAULT\].*?)```", PAGE, re.S)
    (tmp_path / "heat.conf").write_text(options)
    settings = build_settings(read_conf(tmp_path / "heat.conf"))
    assert (settings.mode, settings.rules, settings.decision_log) == (
        "record",
        ("/etc/heat/datalog_gate/rules",),
        "/var/log/kolla/heat/decisions.jsonl",
    )
    [folder] = re.findall(rf"plugin_dirs = {PLUGIN_DIRS},/opt/datalog-gate-heat/(\w+)\n", options)
    assert [path.name for path in (Path(heat_path[0]) / folder).glob("*.py")] == ["datalog_gate_engine_door.py"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_units() -> None:
    units = sorted((ROOT / "docs/samples").glob("*.service"))
    command = ["systemd-analyze", "verify", "--man=no", *map(str, units)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (len(units), ended.returncode, ended.stderr) == (3, 0, "")


STUBS = """
is_service_enabled() { [[ "$1" == h-api ]]; }
pip_install() { echo "pip_install $*"; }
iniset() { echo "iniset $*"; }
iniget() { echo "$OTHERS"; }
"""


def run_plugin(folder: Path, phase: str, others: str = "") -> list[str]:
    """Run a phase of the plugin with DevStack's functions in place, and return what it calls, without the folder."""
    program = f"{STUBS}\nsource {ROOT}/devstack/settings\nset -- stack {phase}\nsource {ROOT}/devstack/plugin.sh"
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHON": sys.executable,
        "DEST": str(folder),
        "HEAT_CONF_DIR": str(folder),
        "HEAT_CONF": str(folder / "heat.conf"),
        "DATA_DIR": str(folder / "data"),
        "OTHERS": others,
    }
    ended = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, env=environment)
    return ended.stdout.replace(f"{folder}/", "").replace(f"{heat_path[0]}/", "").splitlines()


def test_devstack_installs_the_gate_and_writes_doors_and_options(tmp_path: Path) -> None:
    (tmp_path / "datalog-gate").symlink_to(ROOT)
    (tmp_path / "api-paste.ini").write_text(HEATS)
    assert run_plugin(tmp_path, "install") == ["pip_install datalog-gate"]
    assert run_plugin(tmp_path, "extra") == []
    assert run_plugin(tmp_path, "post-config") == [
        f"iniset heat.conf DEFAULT plugin_dirs {PLUGIN_DIRS},engine",
        "iniset heat.conf datalog_gate rules datalog-gate/rules",
        "iniset heat.conf datalog_gate mode enforce",
        "iniset heat.conf datalog_gate decision_log data/heat/decisions.jsonl",
    ]
    assert (tmp_path / "api-paste.ini").read_text() == DOORS
    assert (
        run_plugin(tmp_path, "post-config", "/opt/plugins")[0]
        == "iniset heat.conf DEFAULT plugin_dirs /opt/plugins,engine"
    )
