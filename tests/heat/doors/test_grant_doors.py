"""Grants at the API filter of a Heat, and without the gate.

A grant that cannot be had is refused and leaves nothing in Heat.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.heat.doors.grant_heat import GrantHeat, grant, place, run_grant_heat, value
from tests.heat.doors.rig import Heat, running
from tests.heat.doors.templates import CLEAN, refusal, string, template


@pytest.fixture(scope="module")
def granting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrantHeat]:
    """The convergence engine behind the filters, with services."""
    with run_grant_heat(tmp_path_factory.mktemp("granting"), convergence=True, filtered=True) as heat:
        yield heat


def asking(**properties: Any) -> dict[str, Any]:
    """A template whose grant asks for that."""
    return template(g=grant(**properties), a=string(), b=string(), c=string())


WRONG = {
    "edge refuses the grant {}/g: the edge has 2 places left, and 3 are asked for": asking(),
    "the grant {}/g does not unlock edge: its scope names d, which is not a resource of the stack": asking(scope=["d"]),
    "the grant {}/g does not unlock rack: the service rack is not enabled here, or not for this caller: use "
    "--services rack on the command line, or ask the operator to enable it, and to allow it in the policy "
    "datalog_gate:grant:rack": asking(service="rack"),
    "the grant {}/g does not unlock edge: expired 2020-01-01: remove the grant, or set a later date": asking(
        expires="2020-01-01"
    ),
}
Ask = Callable[[Heat, str, Any], requests.Response]
NEW: dict[str, Ask] = {
    "create": lambda heat, name, body: heat.create(body, name)[1],
    "preview": lambda heat, name, body: heat.ask("POST", "stacks/preview", stack_name=name, template=body),
    "adopt": lambda heat, name, body: heat.create(None, name, adopt_stack_data=json.dumps({"template": body}))[1],
}
CHANGED: dict[str, Ask] = {
    "PUT": lambda heat, name, body: heat.on(name, "PUT", template=body),
    "PATCH": lambda heat, name, body: heat.on(name, "PATCH", template=body),
    "preview of a PUT": lambda heat, name, body: heat.on(name, "PUT", "/preview", template=body),
    "preview of a PATCH": lambda heat, name, body: heat.on(name, "PATCH", "/preview", template=body),
}


@pytest.mark.parametrize("message", WRONG)
@pytest.mark.parametrize("operation", NEW)
def test_a_stack_whose_grant_is_refused_is_not_created(granting: Heat, operation: str, message: str) -> None:
    name = granting.name()
    with granting.unchanged():
        assert refusal(NEW[operation](granting, name, WRONG[message])) == (403, message.format(name))


@pytest.mark.parametrize("message", WRONG)
@pytest.mark.parametrize("operation", CHANGED)
def test_an_update_whose_grant_is_refused_changes_nothing(granting: Heat, operation: str, message: str) -> None:
    name = granting.created(CLEAN)
    with granting.unchanged():
        assert refusal(CHANGED[operation](granting, name, WRONG[message])) == (403, message.format(name))


def test_a_template_is_validated_before_its_parameters_are_chosen(granting: Heat) -> None:
    open_ = asking(scope=[{"get_param": "p"}]) | {"parameters": {"p": {"type": "string"}}}
    assert granting.ask("POST", "validate", template=open_).status_code != 403


WITHOUT = Path("docs/samples/without-gate.yaml").read_text()
BODY = template(g=grant(), s=string(), v=value(place("s")))


def test_a_template_with_a_grant_works_in_a_cloud_without_the_gate(tmp_path: Path) -> None:
    with running(tmp_path, convergence=True, resources="") as heat:
        assert heat.create(BODY)[1].status_code == 400
        heat.created(BODY, environment=WITHOUT)


def test_the_gate_refuses_an_environment_that_remaps_grants(granting: Heat) -> None:
    _, answer = granting.create(BODY, environment=WITHOUT)
    message = "maps the types DatalogGate::* to others, which is not allowed"
    assert (answer.status_code, message in refusal(answer)[1]) == (400, True)
