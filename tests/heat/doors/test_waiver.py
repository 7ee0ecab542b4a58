"""A waiver in a running Heat, before and after it expires."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from datalog_gate.doors.cli.main import main
from tests.heat.doors.rig import HERE, Heat, running
from tests.heat.doors.templates import LONG, refusal, why

WHO = ("--owner", "net", "--reason", "a test", "--expires", "2999-01-01")
EXPIRED = " (32 are enough; waiver W-1 expired 2020-01-01)"


@pytest.fixture(params=["filter", "plugin"])
def heat(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Heat]:
    """A Heat with a log and a file of waivers: behind the filters, or with the lifecycle plugin alone."""
    (tmp_path / "waivers.yaml").write_text("waivers:\n")
    options = {"waivers": tmp_path / "waivers.yaml", "decision_log": tmp_path / "log", "reload_seconds": 0}
    texts = {name: str(value) for name, value in options.items()}
    filtered = request.param == "filter"
    with running(tmp_path, convergence=filtered, options=texts, filtered=filtered) as heat:
        yield heat


def create_stack(heat: Heat, name: str) -> tuple[str, str]:
    """How the creation of a stack ends, and why, and the stack is gone again."""
    _, answer = heat.create(LONG, name)
    if answer.status_code == 403:
        return "denied", refusal(answer)[1] + answer.json()["explanation"][-18:]
    ended = heat.ended(name)
    heat.delete(name)
    return ended


def test_what_is_waived_is_built_until_the_waiver_expires(heat: Heat) -> None:
    name, file = heat.name(), heat.folder / "waivers.yaml"
    _, denied = create_stack(heat, name)
    match = re.search(r"\[decision (\w+)\]", denied)
    assert match
    log = ("--log", str(heat.folder / "log"), "--rules", str(HERE / "rules"), "--waivers", str(file))
    assert main(["waive", match[1], "1", *WHO, *log]) == 0
    built = create_stack(heat, name)
    file.write_text(file.read_text().replace("2999", "2020"))
    _, again = create_stack(heat, name)
    assert built == ("CREATE_COMPLETE", "Stack CREATE completed successfully")
    assert [reason.split(" [decision ")[0] for reason in (denied, again)] == [why(), why(hint=EXPIRED)]
