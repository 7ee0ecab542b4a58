"""A policy is reported that finds nothing by a slip.

What is said of each slip stands in tests/golden/mistakes.md (tests/test_mistakes.py).
"""

from __future__ import annotations

import pytest

from datalog_gate.api import Rules
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.files.templates import read_stack
from tests.mistakes import ASSOCIATED, GROUP, INSTANCE, POLICY, TEMPLATE

SLIP = 'm.dl:2:9 near-miss: flavor in web/server is "m1.huge", but the rule asks for "M1.HUGE"'
VOLUMES = "n = count{ v : os:cinder:volume(_id=v, _stack=x) }"
KEY = "{type: string, default: ops"


def near_misses(text: str, template: str = TEMPLATE) -> list[str]:
    """The place, the code and the message of each warning of a decision on the template."""
    rules = Rules(load([RuleFile("m", "m.dl", text if "@" in text else f"{POLICY}{text}.\n")]))
    decision = rules.decide(read_stack(template=template, stack_name="web"), near_misses=True, now="2027-01-01")
    return [f"{warning.span} {warning.code}: {warning.message}" for warning in decision.near_misses]


def test_a_slip_is_reported_where_it_was_asked_for() -> None:
    text = 'os:nova:server(_id=x, flavor="M1.HUGE")'
    assert near_misses(text) == [SLIP]
    rules = Rules(load([RuleFile("m", "m.dl", f"{POLICY}{text}.\n")]))
    assert rules.decide(read_stack(template=TEMPLATE, stack_name="web")).near_misses == ()


def test_what_to_write_is_written_as_rules_write_it() -> None:
    template = TEMPLATE.replace("{public: true", "{a.b: c, public: true")
    assert near_misses('os:nova:server.metadata(_id=x, _key="a.b")', template) == [
        'm.dl:2:9 near-miss: _key in web/server is "a\\\\.b", but the rule asks for "a.b"'
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
        "os:nova:server(_id=x, key_name=k), os:nova:server(_id=y, key_name=k), x != y",
        "os:nova:server(_id=x, availability_zone=z), z != null, os:cinder:volume(availability_zone=z)",
        'os:nova:server(_id=x, availability_zone=z), os:cinder:volume(availability_zone=y), z ?? "a" = y ?? "b"',
        'os:neutron:port(_id=x, network="net2")',
        'heat:metadata(x, "front", "other")',
        f"heat:stack(id=x), {VOLUMES}, n > 9",
        f"heat:root(stack=x), {VOLUMES}, n > 9",
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


@pytest.mark.parametrize("root", ["heat:root(stack=x)", "heat:stack(id=x, depth=0)", "heat:stack(id=x, parent=null)"])
def test_a_count_of_the_root_alone_is_reported_where_nested_stacks_hold_more(root: str) -> None:
    place = f"m.dl:2:{len(f'p(x) :- {root}, n = count{{ v : ') + 1}"
    where = "its nested stacks have 20 rows of os:cinder:volume"
    message = f"near-miss: count reads the root stack only, but {where}"
    assert near_misses(f"{root}, {VOLUMES}, n > 9", GROUP) == [f"{place} {message}"]
    assert near_misses(f"{root}, n = count{{ v : os:cinder:volume(_id=v) }}, n > 99", GROUP) == []


def test_another_form_is_reported_where_the_stack_has_it() -> None:
    reads = "one-form: the rules read os:nova:server, but not aws:ec2:instance, which this stack has too"
    assert near_misses('os:nova:server(_id=x, flavor="m1")', INSTANCE) == [f"m.dl:2:9 {reads}"]
    both = '(os:nova:server(_id=x, flavor="m1") or aws:ec2:instance(_id=x, InstanceType="m1"))'
    assert near_misses(both, INSTANCE) == []
    assert near_misses('os:nova:server(_id=x, flavor="m1")', GROUP) == []


def test_a_second_resource_that_fills_a_column_counts_where_the_column_is_read() -> None:
    link = "os:neutron:floating_ip_association, which this stack has too"
    message = f"one-form: the rules read os:neutron:floating_ip, but not {link}"
    assert near_misses("os:neutron:floating_ip(_id=x, port_id=p), p != null", ASSOCIATED) == [f"m.dl:2:9 {message}"]
    assert near_misses('os:neutron:floating_ip(_id=x, dns_name="web")', ASSOCIATED) == []
