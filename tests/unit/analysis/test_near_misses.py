"""A policy that finds nothing but another form is reported."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

from datalog_gate.api import Rules
from datalog_gate.decision.policy_set import PolicySet, RuleFile, load
from datalog_gate.files.rules import read_rules
from datalog_gate.files.templates import read_stack
from tests.mistakes import POLICY, TEMPLATE
from tests.sources import ROOT

SLIP = 'm.dl:2:9 near-miss: flavor in web/server is "m1.huge", but the rule asks for "M1.HUGE"'
KEY = "{type: string, default: ops"


def near_misses(text: str, template: str = TEMPLATE) -> list[str]:
    """The place, the code and the message of each warning of a decision on the template."""
    return _of_rules(load([RuleFile("m", "m.dl", text if "@" in text else f"{POLICY}{text}.\n")]), template)


def _of_rules(rules: PolicySet, template: str) -> list[str]:
    stack = read_stack(template=template, stack_name="web")
    decision = Rules(rules).decide(stack, near_misses=True, now="2027-01-01")
    return [f"{warning.span} {warning.code}: {warning.message}" for warning in decision.near_misses]


def test_a_slip_is_reported_where_it_was_asked_for() -> None:
    text = 'os:nova:server(_id=x, flavor="M1.HUGE")'
    assert near_misses(text) == [SLIP]
    rules = Rules(load([RuleFile("m", "m.dl", f"{POLICY}{text}.\n")]))
    assert rules.decide(read_stack(template=TEMPLATE, stack_name="web")).near_misses == ()


def test_what_to_write_is_written_as_rules_write_it() -> None:
    template = TEMPLATE.replace("{public: true", "{a.b: c, public: true")
    assert near_misses('os:nova:server.metadata(_id=x, _key="a\\\\.B")', template) == [
        'm.dl:2:9 near-miss: _key in web/server is "a\\\\.b", but the rule asks for "a\\\\.B"'
    ]


def test_each_constant_is_reported_once() -> None:
    server = "  copy: {type: OS::Nova::Server, properties: {flavor: m1.huge}}\n"
    template = TEMPLATE.replace("outputs:\n", f"{server}outputs:\n")
    assert [warning.replace("web/copy", "web/server") for warning in near_misses(
        'os:nova:server(_id=x, flavor="M1.HUGE")', template
    )] == [SLIP]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        'os:nova:server(_id=x, flavor=f), f in ["M1.HUGE", "m1.huge"]',
        'os:nova:server(_id=x, flavor="M1.HUGE", name="db")',
        'os:nova:server(_id=x), not os:nova:server(_id=x, flavor="M1.HUGE"), heat:resource(id=x, name="db")',
        'os:nova:server(_id=x), not old_one(x), heat:resource(id=x, name="db").\n'
        'old_one(x) :- os:nova:server(_id=x, flavor="M1.HUGE")',
        'os:nova:server(_id=x, flavor="m1.hug")',
        'os:nova:server(_id=x, name="web-2")',
        'os:nova:server(_id=x, name=n), n != null, starts_with(n, "web-2")',
        'os:nova:server(_id=x, name=n), lower(n ?? "", l), starts_with(l, "db")',
        'os:nova:server.metadata(_id=x, _key="slots", _value=v), is_number(v), v > 9',
        "heat:metadata(id=x, value=v), is_number(v), v > 9",
        'os:nova:server(_id=x, flavor="m1 .huge")',
        'os:nova:server(_id=x, flavor="m1.hgue")',
        'os:neutron:port(_id=x, network="net2")',
    ],
)
def test_what_is_no_slip_is_not_reported(text: str) -> None:
    assert near_misses(text) == []


def test_a_policy_with_a_finding_is_not_reviewed() -> None:
    other = 'p(x) :- os:nova:server(_id=x, name="web-1").\n'
    assert near_misses(f'{POLICY}os:nova:server(_id=x, flavor="M1.HUGE").\n{other}') == []


def test_a_hidden_value_is_not_compared() -> None:
    text = 'heat:parameter(stack=x, name="key", value="OPS")'
    shown = 'm.dl:2:9 near-miss: value is "ops", but the rule asks for "OPS"'
    assert near_misses(text) == [shown]
    assert near_misses(text, TEMPLATE.replace(KEY, f"{KEY}, hidden: true")) == []


def test_packs_of_the_package_are_not_reported_and_their_copies_are(tmp_path: Path) -> None:
    template = TEMPLATE.replace("{public: true", "{Replica_of: a, public: true")
    copied = copytree(ROOT / "rules/placement", tmp_path / "placement")
    said = 'near-miss: _key in web/server is "Replica_of", but the rule asks for "replica_of"'
    assert _of_rules(load(read_rules([ROOT / "rules/placement"])), template) == []
    assert _of_rules(load(read_rules([copied])), template) == [f"{copied}/replica.dl:13:38 {said}"]
