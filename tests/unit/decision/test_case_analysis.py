"""Case analysis agrees with reading the stack once per value."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import datalog_gate as dg
from datalog_gate.api import Rules
from datalog_gate.base.values import ResourceId
from datalog_gate.stack.model import Data, Stack
from tests import known_values
from tests.sampling import sample

RULES = """
@deny("zone", "{s} stands in nova-2")
zone(s) :- os:nova:server(_id=s, availability_zone="nova-2").
@deny("named", "{s} is named {n}")
named(s, n) :- os:nova:server(_id=s, name=n), n != null, starts_with(n, "db").
@deny("large", "{s} is large, and {t} is no m1")
large(s, t) :- os:nova:server(_id=s, flavor="big"), os:nova:server(_id=t, flavor=f), f != null, f != "m1".
@warn("lonely", "no network is shared beside {s}")
lonely(s) :- os:nova:server(_id=s), not os:neutron:net(shared=true).
@deny("crowd", "{n} servers")
crowd(n) :- n = count{ s : os:nova:server(_id=s) }, n > 2.
@deny("port", "{s} opens {p}")
port(s, p) :- os:neutron:port(_id=s, mac_address=p), p != null, int(p, n), n > 1.
"""
ZONES, FLAVORS, SIZES = ["nova-1", "nova-2"], ["m1", "big", "db1"], [1, 2]
PARAMETERS: dict[str, dict[str, Any]] = {
    "zone": {"type": "string", "constraints": [{"allowed_values": ZONES}]},
    "flavor": {"type": "string", "constraints": [{"allowed_values": FLAVORS}]},
    "size": {"type": "number", "constraints": [{"allowed_values": SIZES}]},
    "flag": {"type": "boolean"},
}
VALUES: dict[str, list[Data]] = {"zone": [*ZONES], "flavor": [*FLAVORS], "size": [*SIZES], "flag": [False, True]}

of_parameter = st.sampled_from(list(PARAMETERS)).map(lambda name: {"get_param": name})
of_text = st.sampled_from(["zone", "flavor"]).map(lambda name: {"get_param": name})
equal = st.builds(
    lambda name, at: {"equals": [{"get_param": name}, VALUES[name][at % len(VALUES[name])]]},
    st.sampled_from(list(PARAMETERS)),
    st.integers(0, 2),
)
condition = st.recursive(
    equal | st.just({"get_param": "flag"}),
    lambda inner: (
        st.builds(lambda condition: {"not": condition}, inner)
        | st.builds(
            lambda word, condition, other: {word: [condition, other]}, st.sampled_from(["and", "or"]), inner, inner
        )
    ),
    max_leaves=3,
)
text = st.recursive(
    of_text
    | of_parameter.map(lambda value: {"str_replace": {"template": "db-X", "params": {"X": value}}})
    | st.sampled_from(["nova-2", "m1", "big", "db"]),
    lambda inner: (
        st.builds(lambda value, other: {"list_join": ["-", [value, other]]}, inner, inner)
        | st.builds(lambda value: {"str_replace": {"template": "dbX", "params": {"X": value}}}, inner)
        | st.builds(lambda at, value, other: {"if": [f"c{at}", value, other]}, st.integers(0, 1), inner, inner)
    ),
    max_leaves=3,
)
server = st.fixed_dictionaries(
    {"type": st.just("OS::Nova::Server"), "properties": st.fixed_dictionaries(
        {"image": st.just("i"), "flavor": text, "name": text, "availability_zone": text})},
    optional={"condition": st.sampled_from(["c0", "c1"])},
)  # fmt: skip
net = st.fixed_dictionaries(
    {"type": st.just("OS::Neutron::Net"), "properties": st.fixed_dictionaries(
        {"shared": st.sampled_from([{"get_param": "flag"}, {"if": ["c0", True, False]}, False])})},
    optional={"condition": st.sampled_from(["c0", "c1"])},
)  # fmt: skip
group = st.fixed_dictionaries({
    "type": st.just("OS::Heat::ResourceGroup"),
    "properties": st.fixed_dictionaries({"count": st.just({"get_param": "size"}), "resource_def": server.map(
        lambda resource: {"type": resource["type"], "properties": resource["properties"]})}),
})  # fmt: skip
template = st.builds(
    lambda resources, c0, c1: {
        "heat_template_version": "2021-04-16",
        "parameters": PARAMETERS,
        "conditions": {"c0": c0, "c1": c1},
        "resources": {f"r{at}": resource for at, resource in enumerate(resources)},
    },
    st.lists(server | server | net | group, min_size=1, max_size=4),
    condition,
    condition,
)


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Rules:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "m.dl").write_text(RULES)
    return dg.load_rules(folder)


def read(body: Mapping[str, Any], values: Mapping[str, Data]) -> Stack:
    return dg.read_stack(template=json.loads(json.dumps(body)), parameters=values, stack_name="web")


def worlds(
    rules: Rules, body: Mapping[str, Any], values: Mapping[str, list[Data]]
) -> list[set[tuple[str, str | None]]]:
    """The findings with each combination of the values. A member of a group of unknown size has no name before."""
    names = {resource.id.path for stack in read(body, {}).walk() for resource in stack.resources}
    outcomes = []
    for chosen in product(*values.values()):
        decision = known_values.judged(rules, read(body, dict(zip(values, chosen, strict=True))))
        assert decision.undetermined == ()
        outcomes.append(
            {(policy, on if on in names else None) for policy, on in known_values.read_findings(decision.violations)}
        )
    return outcomes


def members(
    findings: Collection[tuple[str, str | None]], among: Iterable[tuple[str, str | None]]
) -> set[tuple[str, str | None]]:
    """Those findings that are of these, or of another member of their group: one of them stands for all."""
    named = {(policy, known_values.member_name(subject)) for policy, subject in findings}
    return {(policy, subject) for policy, subject in among if (policy, known_values.member_name(subject)) in named}


def test_a_policy_that_errs_for_a_value_is_not_settled(tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text("""@deny("share", "{q}")
    share(q) :- heat:parameter(name="n", value=n), is_number(n), q = 12 / n, q > 2.
    """)
    parameter = {"type": "number", "constraints": [{"allowed_values": [0, 2, 12]}]}
    stack = read({"heat_template_version": "2021-04-16", "parameters": {"n": parameter}, "resources": {}}, {})
    decision = dg.load_rules(tmp_path).decide(stack)
    assert [(finding.policy, finding.depends) for finding in decision.undetermined] == [
        ("share", "depends on parameter n")
    ]


@pytest.mark.parametrize(
    ("rule", "flavor", "expected"),
    [
        ('os:nova:server(_id=r, flavor="a").', "b", (ResourceId("web/s"), "s", "denied if parameter f is a")),
        ('os:nova:server(_id=r, name="x2").', "a", (None, "web/w/2", "denied if parameter n is 100")),
    ],
)
def test_a_member_without_a_name_is_found_under_a_name_that_has_no_finding(
    tmp_path: Path, rule: str, flavor: str, expected: tuple[ResourceId | None, str, str]
) -> None:
    (tmp_path / "m.dl").write_text(f'@deny("p", "{{r}}")\np(r) :- {rule}\n')
    member = {"type": "OS::Nova::Server", "properties": {"name": "x%index%", "flavor": flavor}}
    of_group = {"count": {"get_param": "n"}, "resource_def": member}
    chosen = {"name": {"get_param": "f"}, "flavor": {"get_param": "f"}}
    body = {
        "heat_template_version": "2021-04-16",
        "parameters": {
            "n": {"type": "number", "constraints": [{"allowed_values": [1, 100]}]},
            "f": {"type": "string", "constraints": [{"allowed_values": ["a", "b"]}]},
        },
        "resources": {
            "w": {"type": "OS::Heat::ResourceGroup", "properties": of_group},
            "s": {"type": "OS::Nova::Server", "properties": chosen},
        },
    }
    decision = dg.load_rules(tmp_path).decide(read(body, {}))
    assert decision.violations == ()
    assert [(finding.resource, finding.message, finding.depends) for finding in decision.undetermined] == [expected]


@settings(max_examples=sample(30))
@given(body=template)
def test_what_is_tried_is_what_reading_with_each_value_gives(rules: Rules, body: dict[str, Any]) -> None:
    outcomes = worlds(rules, body, VALUES)
    decision = known_values.judged(rules, read(body, {}))
    always, ever = set.intersection(*outcomes), set.union(*outcomes)
    certain, open_ = map(known_values.read_findings, (decision.violations, decision.undetermined))
    assert certain == always
    assert open_ <= ever - always
    assert ever <= members(certain | open_, ever)
    assert all(violation.because and " if " in violation.depends for violation in decision.undetermined)


@settings(max_examples=sample(20))
@given(body=template, free=st.sampled_from([{"flavor"}, {"zone"}, {"zone", "flavor"}]))
def test_findings_that_are_not_settled_by_trying_are_never_wrong(
    rules: Rules, body: dict[str, Any], free: set[str]
) -> None:
    declared = {
        name: {"type": parameter["type"]} if name in free else parameter for name, parameter in PARAMETERS.items()
    }
    values = {**VALUES, **{name: [*VALUES[name], "db", "x"] for name in free}}
    body = {**body, "parameters": declared}
    outcomes = worlds(rules, body, values)
    decision = known_values.judged(rules, read(body, {}))
    assert known_values.read_findings(decision.violations) <= set.intersection(*outcomes)
    open_ = known_values.read_findings(decision.violations) | known_values.read_findings(decision.undetermined)
    ever = set.union(*outcomes)
    assert ever <= members(open_, ever)
    assert all(violation.because for violation in decision.undetermined)
