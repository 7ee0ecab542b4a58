"""The command `relations` and docs/relations.md, with their examples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from datalog_gate.base.values import kind_of
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.doors.cli.main import main
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.descriptions import RelationDescription, describe_relations, read_examples
from datalog_gate.schema.operator_files import read_catalogue
from datalog_gate.schema.relations import FIXED
from tests.pages import DOCS, assert_generated, assert_written
from tests.relation_fixtures import EXAMPLES, examples_file, relations_page


@pytest.fixture(scope="module")
def described() -> list[RelationDescription]:
    """All descriptions, with the examples that the fixtures give."""
    assert_written(EXAMPLES, examples_file())
    read_examples.cache_clear()
    return describe_relations()


def test_an_example_has_values_of_its_columns(described: list[RelationDescription]) -> None:
    wrong = [
        (description.relation.name, column.name, value)
        for description in described
        for column, value in zip(description.relation.columns, description.example or (), strict=False)
        if not kind_of(value) & column.kinds or (column.closed and value is not None and value not in column.allowed)
    ]
    assert wrong == []


def test_each_relation_of_stacks_and_requests_has_an_example(described: list[RelationDescription]) -> None:
    assert [
        description.relation.name
        for description in described
        if description.relation.name in FIXED and not description.example
    ] == []


def test_each_rule_loads_without_a_warning(described: list[RelationDescription]) -> None:
    files = [
        RuleFile(f"r{at}", f"{description.relation.name}.dl", description.rule)
        for at, description in enumerate(described)
    ]
    policy = RuleFile("policy", "policy.dl", '@record("policy", "{stack}")\npolicy(stack) :- heat:root(stack=stack).')
    rules = load([*files, policy])
    assert rules.warnings == ()
    assert [name for name in SHIPPED.names() if name not in rules.program.relations] == []


@pytest.mark.usefixtures("described")
def test_the_page_is_the_generated_one() -> None:
    assert_generated(DOCS / "relations.md", relations_page())


ACME = """{"source": "acme 1", "Acme::Box": {"relation": "acme:box", "properties": {
  "size": {"kind": "integer"}, "x-tags": {"kind": "list", "item": {"kind": "string"}},
  "colour": {"kind": "string", "required": true, "allowed": %s}}}}"""


SCOPE = """\
gate:grant_scope  The resources in the scope of a grant.
  id        resource  The resource.
  resource  resource  A resource that the grant or service is for.
  filled by  the template: its resources of type DatalogGate::Policy; old:gate:grant_scope has the older state
  row        gate:grant_scope(id=portal/edge, resource=portal/address)
  rule       for_port(grant, port) :- gate:grant_scope(id=grant, resource=port), os:neutron:port(_id=port).
"""


@pytest.mark.usefixtures("described")
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("heat:scaling", """\
heat:scaling  The bounds of autoscaling groups.
  id*      resource        The resource.
  min      number or null  The least number of members.
  max      number or null  The greatest number of members.
  desired  number or null  The number of members to begin with.
  filled by  the template; old:heat:scaling has the older state
  row        heat:scaling(id=portal/workers, min=1, max=10, desired=2)
  rule       wide(group, max) :- heat:scaling(id=group, max=max), max ?? 1000 > 20.
"""),
        ("nova:flavor?", """\
nova:flavors  The flavors.
  id*          string
  name         string or null
  vcpus        number
  ram          number
  disk         number
  ephemeral    number
  rxtx_factor  number or null
  filled by  an inventory
  mandatory  id, vcpus, ram, disk, ephemeral
  row        nova:flavors(id="f-1", name="m1.small", vcpus=1, ram=2048, disk=20, ephemeral=0, rxtx_factor=1)
  rule       example(id, value) :- nova:flavors(id=id, name=value).
"""),
        ("old:gate:grant_s*", SCOPE),
        ("all:gate:grant_s*", SCOPE),
        ("Acme::*", """\
acme:box  Every resource of type Acme::Box.
  _id*    resource                        The resource.
  _stack  string                          The id of its stack.
  size    number or null
  colour  "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", 2 more
  filled by  the template: its resources of type Acme::Box; old:acme:box has the older state
  rule       example(id, value) :- acme:box(_id=id, size=value).

acme:box.x_tags  The members of x_tags.
  _id*     resource            The resource.
  _index*  number              The position, from 0.
  _value   string or resource
  filled by  the template: its resources of type Acme::Box; old:acme:box.x_tags has the older state
  rule       example(id, value) :- acme:box.x_tags(_id=id, _value=value).
"""),
    ],
)  # fmt: skip
def test_the_command_describes_the_relations_that_match(
    pattern: str, expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "acme.json").write_text(ACME % json.dumps([f"c{number}" for number in range(12)]))
    assert main(["relations", pattern, "--catalogue", str(tmp_path / "acme.json")]) == 0
    assert capsys.readouterr() == (expected, "")


def test_without_a_name_the_command_prints_a_line_for_each_relation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["relations"]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert [line.partition("(")[0] for line in lines] == list(SHIPPED.names())
    assert [
        line for line in lines if line.startswith(("heat:scaling(", "os:neutron:port.fixed_ips(", "nova:tags("))
    ] == [
        "heat:scaling(id*: resource, min?: number, max?: number, desired?: number)  The bounds of autoscaling groups.",
        "nova:tags(server_id*, tag*)  The tags of servers.",
        "os:neutron:port.fixed_ips(_id*, _index*, ip_address?, subnet?, subnet_id?)  The members of fixed_ips.",
    ]
    assert printed.err == (
        "datalog-gate: * is part of the key, ? may be null, the kind is string if none is shown; `relations "
        "NAME` shows more, with a row and a"
        " rule\n"
    )


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("heat:scalin", "there is no relation heat:scalin: did you mean heat:scaling?"),
        ("OS::Nova::Servre", "there is no relation OS::Nova::Servre: did you mean OS::Nova::Server?"),
        ("old:gate:now", "there is no relation old:gate:now: did you mean gate:now?"),
        ("all:nova:servers", "there is no relation all:nova:servers: did you mean nova:servers?"),
        ("zebra:*", "there is no relation zebra:*: `datalog-gate relations` lists all"),
    ],
)
def test_an_unknown_name_is_wrong_usage(pattern: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["relations", pattern]) == 64
    assert capsys.readouterr() == ("", f"datalog-gate: {message}\n")


def test_a_type_that_an_operator_changed_has_no_shipped_example() -> None:
    server = {"relation": "os:nova:server", "properties": {"size": {"kind": "any"}}}
    text = json.dumps({"source": "acme", "OS::Nova::Server": server})
    [description] = describe_relations("os:nova:server", read_catalogue([("acme.json", text)]))
    assert description.example is None
