"""The door in Heat's convergence engine, without any filter, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.heat.doors.rig import RESOURCES, Heat, running
from tests.heat.doors.templates import CLEAN, LONG, OF_PARAMETER, string, template, why

ENGINE = RESOURCES.parent / "engine"
NESTED: dict[str, Any] = {
    "template": template(inner={"type": "inner.yaml"}, s=string()),
    "files": {"inner.yaml": json.dumps(CLEAN)},
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
    folders = f"{RESOURCES},{ENGINE}"
    with running(tmp_path_factory.mktemp("engine"), convergence=True, resources=folders) as heat:
        yield heat


def test_a_denied_creation_fails_with_its_reason_and_builds_nothing(engine: Heat) -> None:
    name, answer = engine.create(LONG)
    assert (answer.status_code, engine.outcome(name), engine.resources(name)) == (
        201,
        ("CREATE_FAILED", why(name)),
        {},
    )


def test_what_is_allowed_is_built(engine: Heat) -> None:
    name, _ = engine.create(**NESTED)
    assert engine.outcome(name) == ("CREATE_COMPLETE", "Stack CREATE completed successfully")
    assert engine.lengths(name) == [8, 8]


def test_a_denied_update_is_refused_each_time_and_changes_nothing(engine: Heat) -> None:
    name, _ = engine.create(OF_PARAMETER)
    engine.ended(name)
    before = engine.stack(name)
    for _ in range(2):
        answer = engine.on(name, "PATCH", parameters={"length": 64})
        assert (answer.status_code, answer.json()["error"]["message"].split(" [decision")[0]) == (400, why(name))
    assert engine.stack(name) == before
    assert engine.lengths(name) == [8]
