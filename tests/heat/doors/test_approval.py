"""Approve a grant with the commands, in both engines of Heat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from datalog_gate.doors.cli.main import main
from tests.heat.doors.rig import PROJECT, running
from tests.heat.doors.templates import string, template

pytest.importorskip("datalog_gate.doors.heat.grant_resource")
RULES = """\
@unlock("approval") asked(grant) :- gate:grant(id=grant, service="approval").
@deny("long", "{string} is long") long(string) :- os:heat:random_string(_id=string, length=length), length > 64.
"""


def granted(length: int) -> dict[str, Any]:
    """A string once somebody has approved it, and who did."""
    by = {"type": "OS::Heat::Value", "properties": {"value": {"get_attr": ["g", "decision", "s", "approved_by"]}}}
    grant = {"type": "DatalogGate::Policy", "properties": {"service": "approval", "scope": ["s"]}}
    return template(g=grant, s=string(length), by=by)


@pytest.mark.parametrize("convergence", [True, False])
def test_a_stack_goes_on_once_what_it_asks_is_approved_and_asks_again_for_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], convergence: bool
) -> None:
    (tmp_path / "rules.dl").write_text(RULES)
    options = {
        "services": "approval",
        "service_option": f"approval.file={tmp_path}/approvals",
        "service_journal": f"{tmp_path}/journal",
    }

    def command(*arguments: str) -> list[str]:
        assert main([*arguments, "--heat-conf", str(tmp_path / "heat.conf")]) == 0
        return [line.partition(":")[0] for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]

    with running(tmp_path, convergence, rules=tmp_path / "rules.dl", options=options) as heat:
        monkeypatch.setenv("OS_AUTH_TYPE", "none")
        monkeypatch.setenv("OS_ENDPOINT", f"{heat.url}/v1/{PROJECT}")
        name, answer = heat.create(granted(8))
        assert answer.status_code == 201, answer.text

        def ended(length: int) -> tuple[str, str]:
            heat.on(name, "PUT", template=granted(length))
            status, why = heat.ended(name)
            return status, why.partition("resources.g: the service approval refuses this: ")[2]

        assert heat.ended(name)[0] == "CREATE_FAILED"
        assert heat.resources(name) == {"g": "CREATE_FAILED", "s": "INIT_COMPLETE", "by": "INIT_COMPLETE"}
        assert ended(8) == ("UPDATE_FAILED", "awaiting approval A-1")
        command("approval", "approve", "A-1")
        assert ended(8) == ("UPDATE_COMPLETE", "")
        assert [line.partition(" ")[0] for line in command("services", "reconcile")] == ["committed"]
        assert ended(12) == ("UPDATE_FAILED", "awaiting approval A-2")
        command("approval", "refuse", "A-2", "--why", "too long")
        assert ended(12)[1].startswith("A-2 was refused by ")
        assert command("services", "reconcile") == []
        command("approval", "approve", "A-2")
        assert ended(12) == ("UPDATE_COMPLETE", "")
        assert [line.partition(" ")[0] for line in command("services", "status")][:-1] != []
        heat.delete(name)
        command("services", "reconcile")
        assert command("services", "status") == ["0 claims, 0 to look at"]
