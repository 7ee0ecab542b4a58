"""The relations `live:`, from what the cloud has now."""

from __future__ import annotations

from dataclasses import replace

import pytest

import datalog_gate as dg
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.policy_set import PolicySet, RuleFile, load
from datalog_gate.schema.cloud import LIVE_TABLES
from datalog_gate.schema.operator_files import read_catalogue
from datalog_gate.stack.model import Live, Stack
from tests.refusals import rule_problems

POLICY = '@deny("p", "{s} {n}")\n'
RULES = POLICY + 'p(s, n) :- live:os:nova:server(_id=s, name=n), n != null.\n@warn("gone", "{s}")\n'
RULES += "gone(s) :- os:nova:server(_id=s), not live:os:nova:server(_id=s).\n"
TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "resources": {
        "one": {"type": "OS::Nova::Server", "properties": {"flavor": "small"}},
        "two": {"type": "OS::Nova::Server", "properties": {"flavor": "small"}},
        "other": {"type": "AWS::EC2::Instance", "properties": {"ImageId": "i", "InstanceType": "small"}},
    },
}
SERVERS = {"nova:servers": [{"id": f"s-{at}", "name": f"server {at}"} for at in (1, 3, 4)]}


def policies(text: str) -> PolicySet:
    return load([RuleFile("m", "m.dl", text)])


def live_stack(template: object = TEMPLATE) -> Stack:
    stack = dg.read_stack(template=template, stack_name="web")  # type: ignore[arg-type]
    rows = [Live(ResourceId(f"web/{name}"), "CREATE", "COMPLETE", f"s-{at}") for at, name in enumerate(NAMES, 1)]
    return replace(stack, live=tuple(rows))


NAMES = ("one", "two", "other")


def findings(rules: PolicySet, stack: Stack) -> list[tuple[str, str, int]]:
    decision = dg.Rules(rules).decide(stack, inventory=SERVERS)
    places = [violation.place for violation in decision.violations]
    return [
        (violation.policy, violation.message, place.line if place else 0)
        for violation, place in zip(decision.violations, places, strict=True)
    ]


def test_a_live_row_is_that_of_the_table_with_the_resource_s_physical_id_and_only_of_the_type() -> None:
    text = "heat_template_version: 2018-08-31\nresources:\n" + "".join(
        f"  {name}: {{type: {resource['type']}, properties: {{flavor: small}}}}\n"
        for name, resource in TEMPLATE["resources"].items()  # type: ignore[attr-defined]
        if name != "other"
    )
    assert findings(policies(RULES), live_stack(text)) == [("gone", "two", 4), ("p", "one server 1", 3)]
    assert [found[:2] for found in findings(policies(RULES), live_stack())] == [
        ("gone", "two"),
        ("p", "one server 1"),
    ]


def test_without_a_stack_in_heat_there_are_none() -> None:
    found = findings(policies(RULES), replace(live_stack(), live=()))
    assert [policy for policy, _, _ in found] == ["gone", "gone"]


@pytest.mark.parametrize(
    ("rule", "code", "message"),
    [
        ("p(s, n) :- old:live:os:nova:server(_id=s, name=n).", "undefined-relation",
         "there is no old:live:os:nova:server: no stack, old or new, has rows of live:os:nova:server"),
        ("p(s, n) :- all:live:os:nova:server(_id=s, name=n).", "undefined-relation",
         "there is no all:live:os:nova:server: no stack has rows of live:os:nova:server"),
        ("p(s, n) :- live:os:nova:keypair(_id=s, name=n).", "undefined-relation",
         "there is no relation live:os:nova:keypair"),
        ("p(s, n) :- live:os:nova:server(_id=s, flavor=n).", "unknown-column",
         "live:os:nova:server has no column flavor"),
    ],
)  # fmt: skip
def test_what_no_live_relation_says_is_reported(rule: str, code: str, message: str) -> None:
    assert (code, message) in [(problem.code, problem.message) for problem in rule_problems(POLICY + rule)]


def test_each_live_relation_derives_rows_of_its_table_alone() -> None:
    rules = "".join(
        f'@record("p{at}", "{{s}}")\np{at}(s) :- live:{name}(_id=s).\n' for at, name in enumerate(LIVE_TABLES)
    )
    program = policies(rules).program
    types = {name.partition(".")[0] for name in LIVE_TABLES}
    assert program.inputs == {"heat:physical"} | types | {table for table, _ in LIVE_TABLES.values()}


def test_a_catalogue_without_the_type_has_its_live_relation_still() -> None:
    heat = '{"source": "openstack-heat 1", "OS::Nova::KeyPair": {"relation": "os:nova:keypair", "properties": {}}}'
    text = POLICY + "p(s, n) :- live:os:nova:server(_id=s, name=n), n != null.\n"
    rules = load([RuleFile("m", "m.dl", text)], read_catalogue([("c.json", heat)]))
    assert rules.program.inputs == {"heat:physical", "nova:servers"}
