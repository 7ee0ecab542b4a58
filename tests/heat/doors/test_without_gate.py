"""Templates with grants in a Heat without the gate."""

from __future__ import annotations

from pathlib import Path

from tests.heat.doors.grant_heat import grant, place, value
from tests.heat.doors.rig import Heat, running
from tests.heat.doors.templates import refusal, string, template

WITHOUT = Path("docs/samples/without-gate.yaml").read_text()
BODY = template(g=grant(), s=string(), v=value(place("s")))


def test_a_template_with_a_grant_works_in_a_cloud_without_the_gate(tmp_path: Path) -> None:
    with running(tmp_path, convergence=True, resources="") as heat:
        assert heat.create(BODY)[1].status_code == 400
        heat.created(BODY, environment=WITHOUT)


def test_the_gate_refuses_an_environment_that_remaps_grants(filtered: Heat) -> None:
    _, answer = filtered.create(BODY, environment=WITHOUT)
    message = "maps the types DatalogGate::* to others, which is not allowed"
    assert (answer.status_code, message in refusal(answer)[1]) == (400, True)
