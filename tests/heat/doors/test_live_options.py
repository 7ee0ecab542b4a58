"""Options that change while Heat runs, and its numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import requests

from tests.heat.doors.rig import ENGINE_DOOR, RESOURCES, Heat, running, wait
from tests.heat.doors.templates import CLEAN, LONG
from tests.servers import free_ports

COUNTED = re.compile(r'^datalog_gate_decisions_total{outcome="(\w+)",door="(\w+)",action="create"} ([1-9]\d*)$', re.M)


@pytest.mark.parametrize(("convergence", "filtered"), [(True, True), (True, False), (False, False)])
def test_a_mode_changes_while_heat_runs_at_each_door(tmp_path: Path, convergence: bool, filtered: bool) -> None:
    [port] = free_ports(1)
    options = {
        "reload_seconds": "0", "policy_modes": "", "metrics_port": str(port), "metrics_folder": f"{tmp_path}/metrics",
    }  # fmt: skip
    resources = ENGINE_DOOR if convergence else str(RESOURCES)
    with running(tmp_path, convergence=convergence, filtered=filtered, resources=resources, options=options) as heat:
        if convergence:  # the engine's door serves from its start
            wait(lambda: _answers(port), heat.log)
        outcomes = [_create(heat, LONG, "before")]
        doors = 2 if convergence and filtered else 1
        _set(heat, "policy_modes = length:record", doors)
        outcomes.append(_create(heat, LONG, "recorded"))
        _set(heat, "policy_modes = length:wrong", doors)
        outcomes.append(_create(heat, LONG, "wrong"))
        _set(heat, "policy_modes =", doors)
        outcomes += [_create(heat, LONG, "after"), _create(heat, CLEAN, "clean")]
        denied = "DENIED" if filtered else "CREATE_FAILED"
        assert outcomes == [denied, "CREATE_COMPLETE", "CREATE_COMPLETE", denied, "CREATE_COMPLETE"]
        inside = "engine" if convergence else "plugin"
        expected = {("allowed", inside): 3}
        expected |= {("denied", "api"): 2, ("allowed", "api"): 3} if filtered else {("denied", inside): 2}
        wait(lambda: _read(port) == expected, lambda: f"{_read(port)}\n{heat.log()}")


def _create(heat: Heat, body: object, name: str) -> str:
    """How the creation of a stack ends, `DENIED` by a filter."""
    _, answer = heat.create(body, name)
    if answer.status_code == 403:
        return "DENIED"
    return heat.outcome(name)[0]


def _set(heat: Heat, line: str, doors: int) -> None:
    """Replace the line of policy_modes in heat.conf, and wait until as many doors have looked at it. A request that
    comes while another thread looks is judged by the options before."""
    path = heat.folder / "heat.conf"
    new = heat.folder / "new.conf"
    new.write_text(re.sub(r"^policy_modes =.*$", line, path.read_text(), flags=re.M))
    before = _count_looks(heat)
    new.replace(path)
    wait(lambda: _count_looks(heat) == before + doors, heat.log)


def _count_looks(heat: Heat) -> int:
    """How often changed options were loaded or refused."""
    log = (heat.folder / "heat.log").read_text()
    refused = "the changed options can't be loaded, so the previous ones stay in force"
    return log.count("changed options are in force: policy_modes") + log.count(refused)


def _answers(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).ok
    except requests.ConnectionError:
        return False


def _read(port: int) -> dict[tuple[str, str], int]:
    """The creations by outcome and door."""
    text = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text if _answers(port) else ""
    return {(outcome, door): int(number) for outcome, door, number in COUNTED.findall(text)}
