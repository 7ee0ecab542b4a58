"""The relations for rules, and the harvested data of resource types."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from contrib.harvest import compact, relation_name
from datalog_gate.schema import cloud, heat_defaults, resource_types
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import Relation, ResourceType
from datalog_gate.schema.relations import ENVIRONMENT_SECTIONS, FIXED, FUNCTIONS, SECTIONS, VERSIONS
from datalog_gate.template import dialect, environment, parameters, reader

DATA = Path(resource_types.__file__).parent / "data"
HEAT = json.loads((DATA / resource_types.SOURCES[0]).read_text())
OWN = json.loads((DATA / resource_types.SOURCES[1]).read_text())
FILES = sorted(DATA.glob("heat-*.json"))
TYPES = {name: data for source in (HEAT, OWN) for name, data in source.items() if name != "source"}


def columns(name: str) -> str:
    """The columns of a relation with their kinds in words."""
    relation = SHIPPED.relation(name)
    assert relation is not None, name
    return ", ".join(f"{column.name}: {column.kinds.describe()}" for column in relation.columns)


SCHEMAS = Path(os.environ.get("DATALOG_GATE_SHARED", Path(__file__).parents[4] / "shared")) / "research"


@pytest.mark.skipif(not (SCHEMAS / "congress-schemas.json").is_file(), reason="Congress's schemas are not here")
def test_every_table_of_a_driver_of_congress_is_there_in_its_old_width() -> None:
    drivers = json.loads((SCHEMAS / "congress-schemas.json").read_text())
    relations = [relation for name in cloud.names() if (relation := SHIPPED.relation(name))]
    ours = {
        (relation.name.partition(":")[2], tuple(relation.positions)[: cloud.OLD_WIDTHS.get(relation.name)])
        for relation in relations
    }
    assert {(table, tuple(its)) for driver in drivers.values() for table, its in driver.items() if its} - ours == set()


def test_a_property_that_heat_reads_as_another_names_it() -> None:
    renamed = {name: kind.moved for name in SHIPPED.types() if (kind := SHIPPED.type(name)) and kind.moved}
    assert renamed["OS::Neutron::Router"] == ((("l3_agent_id",), ("l3_agent_ids",)),)
    moved = (("network_id",), ("network",)), (("fixed_ips", "subnet_id"), ("fixed_ips", "subnet"))
    assert renamed["OS::Neutron::Port"] == moved


def test_what_heat_does_not_have_or_nothing_fills_is_none() -> None:
    for name in ("OS::Nova::Nothing", "", "os:nova:server"):
        assert SHIPPED.type(name) is None
    for name in ("heat:nothing", "os:nova:nothing", "os:nova:server.nothing", "nova:srv", ""):
        assert SHIPPED.relation(name) is None
    for name in ("old:gate:request", "old:old:heat:stack", "old:nova:servers", "old:all:heat:stack"):
        assert SHIPPED.relation(name) is None
    for name in ("all:gate:now", "all:gate:unlocked", "all:all:heat:stack", "all:old:heat:stack", "all:nova:servers"):
        assert SHIPPED.relation(name) is None


def test_every_name_is_the_name_of_a_relation_in_a_namespace_of_the_catalogue() -> None:
    relations: dict[str, Relation | None] = {name: SHIPPED.relation(name) for name in SHIPPED.names()}
    assert [name for name, relation in relations.items() if relation is None or relation.name != name] == []
    assert all(relation and len(relation.positions) == len(relation.columns) for relation in relations.values())
    assert {name.removeprefix(cloud.LIVE).partition(":")[0] for name in relations} - SHIPPED.namespaces() == set()
    assert [name for name in SHIPPED.names() if name not in relations] == []
    assert {*FIXED, *cloud.names()} <= set(relations)
    assert len(relations) == len(list(SHIPPED.names()))
    assert {name.partition(":")[0] for name in cloud.names()} == cloud.CLOUD | {"heat", "gate"}
    assert {data["relation"] for data in TYPES.values()} <= set(relations)


def test_every_type_can_be_read_and_relation_names_are_made_by_the_rule_and_no_two_are_one() -> None:
    relations = {name: resource_type.relation for name in SHIPPED.types() if (resource_type := SHIPPED.type(name))}
    assert relations == {name: data["relation"] for name, data in TYPES.items()}
    assert relations == {name: relation_name(name) for name in HEAT if name != "source"} | {
        "DatalogGate::Policy": "datalog_gate:policy"
    }
    assert len(set(relations.values())) == len(relations)


@pytest.mark.parametrize("file", [*FILES, DATA / resource_types.SOURCES[1]])
def test_the_data_holds_one_resource_type_a_line(file: Path) -> None:
    text = file.read_text()
    data = json.loads(text)
    lines = [f'{{"source": {compact(data.pop("source"))}', *(f"{compact(k)}: {compact(v)}" for k, v in data.items())]
    assert text == ",\n".join(lines) + "\n}\n"


OLDER = ("OS::Monasca::Notification", "OS::Neutron::RBACPolicy", "OS::Vitrage::Template")


@pytest.mark.parametrize(
    ("heat", "statuses", "objects"),
    [
        ("24", ["deprecated", "", ""], 2),
        ("25", ["hidden", "", ""], 2),
        ("26", ["hidden", "", "deprecated"], 5),
        ("27", ["hidden", "", "hidden"], 5),
    ],
)
def test_each_heat_has_the_types_of_its_own(heat: str, statuses: list[str], objects: int) -> None:
    catalogue = SHIPPED.of_heat(heat)
    kinds = [kind for name in OLDER if (kind := catalogue.type(name))]
    assert [kind.status[0] if kind.status else "" for kind in kinds] == statuses
    assert len(kinds[1].parts["object_type"].allowed) == objects
    assert catalogue.types() == SHIPPED.types()


def test_a_type_that_only_the_newest_heat_has_is_null_in_an_older_one(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"source": "openstack-heat 9",\n"OS::Heat::None": null\n}\n')
    catalogue = Catalogue(sources=(*resource_types.SOURCES, str(tmp_path / "old.json")))
    assert {*SHIPPED.types()} - {*catalogue.types()} == {"OS::Heat::None"}


def test_types_of_an_operator_are_in_each_heat_and_defaults_of_heat_conf_in_none() -> None:
    box = ResourceType("Acme::Box", "acme:box", (), {})
    values = dict.fromkeys(heat_defaults.HEAT_DEFAULTS, "x")
    older = heat_defaults.apply_defaults(Catalogue({"Acme::Box": box}), values).of_heat("26")
    assert older.type("Acme::Box") is box
    assert older.type("OS::Nova::Server") == SHIPPED.of_heat("26").type("OS::Nova::Server")


def test_the_data_of_all_heats_is_small() -> None:
    assert sum(file.stat().st_size for file in FILES) < 400_000


def test_a_list_whose_name_is_no_identifier_has_a_valid_relation_name() -> None:
    named = [name for name in SHIPPED.names() if name.startswith("os:swift:container.")]
    assert named == ["os:swift:container.X_Account_Meta", "os:swift:container.X_Container_Meta"]


def test_rules_may_name_what_templates_of_any_version_take() -> None:
    written = [("heat_template_version", version) for version in (*dialect._DATES, *dialect._NAMES)]
    written += list(dialect.CFN_VERSIONS.items())
    versions = [dialect.dialect_of({key: version}) for key, version in written]
    functions = [
        name for version in versions if not isinstance(version, str) for name in version.functions | version.conditional
    ]
    assert {
        "functions": set(FUNCTIONS.split()),
        "versions": set(VERSIONS.split()),
        "sections": set(SECTIONS.split()),
        "environment": set(ENVIRONMENT_SECTIONS.split()),
        "types": set(FIXED["heat:parameter"].columns[2].allowed),
    } == {
        "functions": set(functions),
        "versions": {version for _, version in written},
        "sections": {*reader._SECTIONS, *reader._CFN_SECTIONS, *dialect.VERSION_KEYS},
        "environment": set(environment.SECTIONS),
        "types": set(parameters.TYPES),
    }
