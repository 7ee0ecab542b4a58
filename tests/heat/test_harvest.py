"""The shipped resource types against the installed `openstack-heat`."""

from __future__ import annotations

import logging
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from datalog_gate.base.values import ResourceId
from datalog_gate.schema import resource_types
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.declaration import Property
from datalog_gate.stack.model import Resource
from datalog_gate.stack.translation import as_heat_reads
from tests.sources import ROOT

pytest.importorskip("heat.engine.resources", reason="openstack-heat is not installed")
DATA = Path(resource_types.__file__).parent / "data"
HEAT = version("openstack-heat").partition(".")[0]
CATALOGUE = SHIPPED.of_heat(HEAT)
MOVING = [name for name in CATALOGUE.types() if (kind := CATALOGUE.type(name)) and kind.moved]


def test_the_data_is_what_the_installed_heat_says() -> None:
    options = [] if HEAT == resource_types.NEWEST else ["--difference"]
    run = subprocess.run(
        [sys.executable, str(ROOT / "contrib" / "harvest.py"), *options], capture_output=True, text=True, check=True
    )
    assert run.stdout == (DATA / f"heat-{resource_types.HEATS[HEAT]}.json").read_text()


@pytest.fixture(scope="module")
def registry() -> dict[str, Any]:
    logging.disable(logging.CRITICAL)
    from heat.engine import resources

    resources.initialise()
    logging.disable(logging.NOTSET)
    registry: dict[str, Any] = resources.global_env().registry._registry
    return registry


@pytest.mark.parametrize("left_out", ["nothing", "targets", "sources", "all"])
@pytest.mark.parametrize("name", MOVING)
def test_properties_are_moved_as_heat_moves_them(name: str, left_out: str, registry: dict[str, Any]) -> None:
    from heat.engine import properties

    kind = CATALOGUE.type(name)
    assert kind is not None
    sources = {source for source, _ in kind.moved}
    targets = {target for _, target in kind.moved if target}
    omitted = {"nothing": set(), "targets": targets, "sources": sources, "all": sources | targets}[left_out]
    values = {
        declared.name: value for declared in kind.properties if (value := sample(declared, (), omitted)) is not None
    }
    if left_out == "nothing":  # Heat refuses both, unless one is empty
        for way in targets:
            blank(values, way)
    stack_resource = Resource(ResourceId("s/r"), "r", name, name, values)
    resource = object.__new__(registry[name].value)
    resource.client_plugin = lambda *_: AnyName()
    schema = registry[name].value.properties_schema
    translated = properties.Properties(schema, values)
    translated.update_translation(resource.translation_rules(translated), client_resolve=False)
    ours = properties.Properties(schema, dict(as_heat_reads(stack_resource, kind).properties))
    expected = {key: read_value(translated, key) for key in schema}
    refused = {key for key, value in expected.items() if str(value).startswith("Incorrect translation rule")}
    assert {key: read_value(ours, key) for key in schema if key not in refused} == {
        key: value for key, value in expected.items() if key not in refused
    }


class AnyName:
    """A client's plugin, of which rules only ask the names of finders and entities."""

    def __getattr__(self, name: str) -> str:
        return name


def read_value(properties: Any, key: str) -> object:
    """The value of a property, or what is wrong with it."""
    try:
        value: object = properties[key]
    except ValueError as error:
        return str(error)
    return value


def sample(described: Property, way: tuple[str, ...], omitted: set[tuple[str, ...]]) -> object:
    """A value of the property's kind, without what lies under the omitted ways."""
    way = (*way, described.name)
    if way in omitted:
        return None
    match described.kind:
        case "string":
            return f"a {described.name}"
        case "integer" | "number":
            return 7
        case "boolean":
            return True
    within = {child.name: value for child in described.children if (value := sample(child, way, omitted)) is not None}
    if described.kind == "list":
        return [within] if described.children else ["x"]
    return within or {"retry": {"count": 3}, "timeout": 5}


def blank(data: Any, way: tuple[str, ...]) -> None:
    """Makes the text, list or map under the way an empty one."""
    if isinstance(data, list):
        for item in data:
            blank(item, way)
    elif way[1:]:
        blank(data[way[0]], way[1:])
    elif way[0] in data:
        data[way[0]] = type(data[way[0]])()
