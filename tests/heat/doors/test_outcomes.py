"""Plugins hear the outcome of an operation, in both engines."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from stevedore.extension import ExtensionManager

from datalog_gate.doors.cli.commands.services import settle_claims
from datalog_gate.doors.cli.main import main
from tests.heat.doors.rig import Heat, install, running
from tests.heat.doors.templates import CLEAN, template

PLUGIN = r"""
import json
import os

from datalog_gate.services.contract import Service


class Teller(Service):
    for_every_stack = True

    def __init__(self, settings):
        self.file = settings["file"]

    def reserve(self, request):
        self.tell(request, "asked")
        return {}

    def commit(self, held):
        self.tell(held, held.outcome)

    def release(self, held):
        self.tell(held, "failed")

    def status(self, held):
        return "unknown"

    def tell(self, about, what):
        with open(self.file, "a") as file:
            file.write(json.dumps([about.stack_name, about.action, what]) + "\n")
"""


@dataclass(frozen=True)
class Door:
    """A Heat behind the filters, whose service writes down what it is told; the legacy engine's lifecycle plugin tells
    the ends that it knows."""

    heat: Heat
    folder: Path
    legacy: bool

    def outcomes(self, name: str) -> list[tuple[str, str]]:
        """What a service was told of a stack of that name, in this order."""
        lines = [json.loads(line) for line in (self.folder / "told").read_text().splitlines()]
        return [(action, what) for stack, action, what in lines if stack == name]


@pytest.fixture(scope="module", params=["convergence", "legacy"])
def door(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "teller.py").write_text(PLUGIN)
    install(folder, "teller", "[datalog_gate.services]\nteller=teller:Teller\n")
    options = {
        "services": "teller", "service_option": f"teller.file={folder}/told", "store": f"{folder}/journal",
    }  # fmt: skip
    with (
        running(folder, convergence=request.param == "convergence", options=options, filtered=True) as heat,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.syspath_prepend(str(folder))
        patch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", {})  # others may have looked for services before
        heat.login(patch)
        yield Door(heat, folder, request.param == "legacy")


def resource(fail: bool = False, value: str = "1", seconds: int = 0) -> dict[str, Any]:
    properties = {"value": value, "fail": fail, "wait_secs": seconds, "update_replace": True}
    return template(s={"type": "OS::Heat::TestResource", "properties": properties})


def test_the_outcome_of_a_creation_is_reported_when_claims_are_settled(
    door: Door, capsys: pytest.CaptureFixture[str]
) -> None:
    good, _ = door.heat.create(resource())
    bad, _ = door.heat.create(resource(fail=True))
    back, _ = door.heat.create(resource(fail=True), disable_rollback=False)
    cfn = door.heat.name()
    form = {"Action": "CreateStack", "StackName": cfn, "TemplateBody": json.dumps(CLEAN)}
    assert door.heat.cfn(form).status_code == 200
    ends = [door.heat.ended(stack)[0] for stack in (back, good, bad, cfn)]
    assert ends[1:] == ["CREATE_COMPLETE", "CREATE_FAILED", "CREATE_COMPLETE"]
    expected = {good: "complete", bad: "failed", back: "failed", cfn: "complete"}
    conf = str(door.folder / "heat.conf")
    assert main(["services", "reconcile", "--heat-conf", conf]) == 0
    ends = [] if door.legacy else ["failed" if end == "failed" else "is complete" for end in expected.values()]
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": its create ")[2] for line in lines] == ends
    assert main(["services", "reconcile", "--heat-conf", conf]) == 0
    assert capsys.readouterr().out == ""
    assert {name: door.outcomes(name) for name in expected} == {
        name: [("create", "asked"), ("create", end)] for name, end in expected.items()
    }


def test_later_operations_on_a_stack_are_reported_one_by_one(door: Door) -> None:
    name = door.heat.created(resource())
    door.heat.on(name, "PUT", template=resource(fail=True, value="2"))
    assert door.heat.ended(name)[0] == "UPDATE_FAILED"
    door.heat.delete(name)
    settled = settle_claims(door.folder / "heat.conf", None, clock=lambda: time.time() + 60)
    dones = [] if door.legacy else ["committed", "released", "committed"]
    assert [claim.done for claims in settled for claim in claims] == dones
    ends = [("create", "complete"), ("update", "failed"), ("delete", "complete")]
    asked = [(action, "asked") for action, _ in ends]
    told = [entry for pair in zip(asked, ends, strict=True) for entry in pair] if door.legacy else [*asked, *ends]
    assert door.outcomes(name) == told
