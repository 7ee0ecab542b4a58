"""Faults around the gate in a running Heat.

Each fault has its answer, nothing gets through and nothing hangs. Each test runs behind the filter with the convergence
engine, and with the lifecycle plugin in the legacy one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.heat.doors.rig import HERE, Heat, install, running
from tests.heat.doors.templates import CLEAN, LONG, why
from tests.licence_server import Server, hang, licence_server, refuse, says, slam

pytestmark = pytest.mark.real_time
GOOD = (HERE / "rules" / "doors.dl").read_text()
BROKEN = "@deny(\n"
PLUGIN = """
import time
from datalog_gate.services.contract import Service

class Faulty(Service):
    for_every_stack = True

    def __init__(self, settings):
        pass

    def reserve(self, request):
        if "raise" in request.stack_name:
            raise RuntimeError("broken")
        if "slow" in request.stack_name:
            time.sleep(1)
        return {}

    def release(self, held):
        pass

    def status(self, held):
        return "absent"
"""
SILENT = "licence_server could not be consulted: the licence server "


@dataclass(frozen=True)
class Door:
    """A Heat with the gate in it, by the filter or by the plugin, the folder of its rules and its licence server."""

    heat: Heat
    filtered: bool
    rules: Path
    licences: Server

    def create(self, body: Any, name: str | None = None, **fields: Any) -> tuple[str, str]:
        """The status of the new stack, or the code of a refusal that left none, and why."""
        name, answer = self.heat.create(body, name, **fields)
        if answer.status_code == 201:
            status, reason = self.heat.outcome(name)
            return status, reason if status.endswith("FAILED") else ""
        assert self.heat.stack(name) == {}
        return str(answer.status_code), answer.json()["error"]["message"].partition(" [decision ")[0]

    def stopped(self, code: int, reason: str) -> tuple[str, str]:
        """What `create` gives where the gate stops it."""
        return str(code) if self.filtered else "CREATE_FAILED", reason

    def records(self, **wanted: str) -> list[Any]:
        """The records of the decision log."""
        return self.heat.lines("decisions.jsonl", **wanted)

    def gate_log(self) -> str:
        """What the gate said in the log of Heat, with tracebacks."""
        parts = re.split(r"(?m)^(?=\d{4}-\d\d-\d\d )", (self.heat.folder / "heat.log").read_text())
        return "".join(part for part in parts if " datalog_gate." in part.partition("\n")[0])

    def write(self, text: str) -> None:
        """Put other rules in the place of those that are there."""
        (self.rules.parent / "new").write_text(text)
        (self.rules.parent / "new").replace(self.rules / "doors.dl")


@pytest.fixture(scope="module", params=["filter", "plugin"])
def door(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder, rules = tmp_path_factory.mktemp(request.param), tmp_path_factory.mktemp("gate") / "rules"
    site, filtered = tmp_path_factory.mktemp("site"), request.param == "filter"
    rules.mkdir()
    (rules / "doors.dl").write_text(GOOD)
    (site / "faulty.py").write_text(PLUGIN)
    install(site, "faulty", "[datalog_gate.services]\nfaulty=faulty:Faulty\n")
    with licence_server() as licences, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
        settings = [f"licence_server.{setting}" for setting in (f"url={licences.url}", "read_timeout=2", "retries=0")]
        options = {
            "reload_seconds": "0", "decision_log": f"{folder}/decisions.jsonl",
            "services": "faulty,licence_server", "service_option": settings,
            "store": f"{folder}/journal",
        }  # fmt: skip
        with running(folder, convergence=filtered, rules=rules, options=options, filtered=filtered) as heat:
            yield Door(heat, filtered, rules, licences)


def test_rules_that_do_not_load_leave_those_before_in_force_and_say_so(door: Door) -> None:
    outcomes = [door.create(CLEAN)]
    failed = len(door.records(kind="reload_failed"))
    for fault in ("syntax", "gone", "emptied", "unreadable"):
        match fault:
            case "syntax":
                door.write(BROKEN)
            case "gone":
                door.rules.rename(door.rules.parent / "away")
            case "emptied":
                (door.rules / "doors.dl").write_text("")
            case "unreadable":
                (door.rules / "doors.dl").unlink()
                (door.rules / "doors.dl").symlink_to("doors.dl")
        outcomes += [door.create(LONG, name=f"long-{fault}"), door.create(CLEAN)]
        if fault == "gone":
            (door.rules.parent / "away").rename(door.rules)
    (door.rules / "doors.dl").unlink()
    door.write(GOOD.replace("32", "5"))
    outcomes.append(door.create(CLEAN, name="five"))
    door.write(GOOD)
    outcomes.append(door.create(CLEAN))
    good = ("CREATE_COMPLETE", "")
    denied = [door.stopped(403, why()) for fault in ("syntax", "gone", "emptied", "unreadable")]
    short = door.stopped(403, why("length: s has 8 characters", " (5 are enough)"))
    assert outcomes == [good, *(outcome for two in denied for outcome in (two, good)), short, good]
    reported = [
        [diagnostic["code"] for diagnostic in record["diagnostics"]]
        for record in door.records(kind="reload_failed")[failed:]
    ]
    assert [codes[0] for codes in reported] == ["syntax", "unreadable", "unreadable", "unreadable"]
    assert door.gate_log().count("the changed rules can't be loaded, so the previous ones stay in force") == 4


def test_a_broken_plugin_stops_what_builds_and_a_slow_one_is_waited_for(door: Door) -> None:
    outcomes = [door.create(CLEAN, name=name) for name in ("raises", "slow")]
    broken = "faulty could not be consulted: is broken (RuntimeError)"
    assert outcomes == [door.stopped(503, broken), ("CREATE_COMPLETE", "")]
    if not door.filtered:
        door.heat.delete("raises")
    door.heat.delete("slow")


def test_a_licence_server_that_refuses_or_gives_no_answer_stops_what_builds(door: Door) -> None:
    door.licences.answers = [refuse("no seat left"), slam, hang, says(b"", 500)]
    outcomes = [door.create(CLEAN) for _ in range(5)]
    assert outcomes == [
        door.stopped(403, "licence_server refuses this: no seat left"),
        door.stopped(503, f"{SILENT}can't be reached, or broke off its answer"),
        door.stopped(503, f"{SILENT}can't be reached, or broke off its answer"),
        door.stopped(503, f"{SILENT}gave an unreadable answer, with status 500"),
        ("CREATE_COMPLETE", ""),
    ]


def test_a_pipeline_without_good_rules_does_not_start_and_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match=r"RulesError: error\[unreadable\] .*/none can't be read: No such file"),
        running(tmp_path, convergence=True, filtered=True, rules=tmp_path / "none"),
    ):
        pass


def test_an_engine_without_good_rules_builds_nothing_before_they_are_there(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    with running(tmp_path, convergence=False, rules=rules) as heat:
        name, _ = heat.create(CLEAN)
        reason = "The policies could not be evaluated: RulesError, see the log of heat-engine"
        assert (heat.ended(name), heat.resources(name)) == (("CREATE_FAILED", reason), {"s": "INIT_COMPLETE"})
        heat.delete(name)
        rules.mkdir()
        (rules / "doors.dl").write_text(GOOD)
        assert heat.outcome(heat.create(CLEAN)[0])[0] == "CREATE_COMPLETE"
        name, _ = heat.create(LONG)
        assert heat.outcome(name) == ("CREATE_FAILED", why())
