"""Examples of policies: small ones, and true ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import datalog_gate as dg
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.engine.builtins import holds
from datalog_gate.examples.differences import list_cases
from datalog_gate.examples.example_search import PolicyExamples, find_examples
from datalog_gate.examples.sample_texts import sample_pattern, tell_apart
from datalog_gate.policytest.suite import Suite, suite_of
from datalog_gate.policytest.testfile import Case

ROOT = Path(__file__).parents[3]
PACKS = sorted((ROOT / "rules").iterdir())
MOST_POLICIES = 12
"""About how many policies of a pack are tried."""
VALUE = {"type": "OS::Heat::Value", "properties": {"value": "value-1"}}


def search(text: str) -> PolicyExamples:
    rules = load([RuleFile("m", "m.dl", f'@deny("a", "no")\n{text}')])
    return find_examples(rules, rules.policies[0])


def resources(case: dict[str, Any]) -> dict[str, Any]:
    return {name: data.get("properties", {}) for name, data in case["stack"]["resources"].items()}


@pytest.mark.parametrize(
    ("rule", "denied", "flips"),
    [
        (
            'p(s) :- os:nova:server(_id=s, name=n), starts_with(n ?? "", "db").',
            {"server": {"flavor": "m1.small", "name": "db1"}},
            {'starts_with(n ?? "", "db")': {"server": {"flavor": "m1.small", "name": "DB1"}}},
        ),
        (
            "p(v) :- os:cinder:volume(_id=v, size=n), n ?? 0 > 500.",
            {"volume": {"size": 501}},
            {"n ?? 0 > 500": {"volume": {"size": 500}}},
        ),
        (
            "p(s) :- os:nova:server(_id=s, key_name=null).",
            {"server": {"flavor": "m1.small"}},
            {"key_name=null": {"server": {"flavor": "m1.small", "key_name": "ops"}}},
        ),
        (
            'p(s) :- os:nova:server(_id=s, flavor=f), not small(f). small("m1.small"). small("m1.tiny").',
            {"server": {"flavor": "flavor-2"}},
            {"not small(f)": {"server": {"flavor": "m1.small"}}},
        ),
        (
            'p(s) :- os:nova:server(_id=s, name=n), matches(lower(n ?? ""), "^x[0-9]+$").',
            {"server": {"flavor": "m1.small", "name": "x1"}},
            {},
        ),
        (
            "p(s) :- heat:stack(id=s), n = count{ v : os:nova:server(_stack=s, _id=v) }, n > 2.",
            {"server": {"flavor": "m1.small"}, "server_2": {"flavor": "m1.small"}, "server_3": {"flavor": "m1.small"}},
            {"n > 2": {"server": {"flavor": "m1.small"}, "server_2": {"flavor": "m1.small"}}},
        ),
        (
            "p(v) :- os:cinder:volume(_id=v, size=n), n != null, n > 500.",
            {"volume": {"size": 501}},
            {"n != null": {"volume": {}}},
        ),
        (
            'p(s) :- os:nova:server(_id=s), not os:nova:server.metadata(_id=s, _key="cost").',
            {"server": {"flavor": "m1.small"}},
            {
                'not os:nova:server.metadata(_id=s, _key="cost")': {
                    "server": {"flavor": "m1.small", "metadata": {"cost": "x"}}
                }
            },
        ),
        (
            'p(s) :- os:neutron:port.tags(_id=s, _value=t), t != "team".',
            {"port": {"network": "private", "tags": ["x"]}},
            {"os:neutron:port.tags(_id=s, _value=t)": {"port": {"network": "private"}}},
        ),
        (
            "p(s) :- os:neutron:subnet(_id=s, enable_dhcp=true).",
            {"subnet": {"network": "private"}},
            {"enable_dhcp=true": {"subnet": {"network": "private", "enable_dhcp": False}}},
        ),
        (
            'p(g) :- os:neutron:security_group.rules(_id=g, remote_ip_prefix=c), c != null, starts_with(c, "10").',
            {"security_group": {"rules": [{"remote_ip_prefix": "100.0.0.0/8"}]}},
            {"c != null": {"security_group": {"rules": [{}]}}},
        ),
        (
            'p(s) :- heat:property(id=s, path=p), p = "1".',
            {"s": {"1": "x", "value": "value-1"}},
            {'p = "1"': {"s": {"value": "value-1"}}},
        ),
        (
            "p(g) :- heat:scaling(id=g, desired=n), n ?? 1 < 2.",
            {"g": {"max_size": 0, "min_size": 0, "resource": VALUE}},
            {"n ?? 1 < 2": {"g": {"desired_capacity": 2, "max_size": 2, "min_size": 0, "resource": VALUE}}},
        ),
        (
            'p(d) :- os:heat:software_deployment(_id=d), heat:attribute(d, path, _), matches(path, "^server$").',
            {"software_deployment": {"server": {"get_attr": ["target"]}}, "target": {"value": "value-1"}},
            {
                'matches(path, "^server$")': {
                    "software_deployment": {"name": {"get_attr": ["target"]}, "server": "server-1"},
                    "target": {"value": "value-1"},
                }
            },
        ),
        (
            "p(a) :- os:cinder:volume(_id=a, image=i), os:cinder:volume(_id=b, image=j), a != b, i != null, j != null.",
            {"volume": {"image": "ubuntu-24.04"}, "volume_2": {"image": "image-2"}},
            {},
        ),
    ],
)
def test_the_smallest_stack_is_denied_and_near_ones_pass(
    rule: str, denied: dict[str, Any], flips: dict[str, Any]
) -> None:
    found = search(rule)
    example = found.examples[0]
    assert resources(example.case) == denied
    shown = {flip.condition: resources(flip.case) for flip in example.flips}
    assert {condition: shown.get(condition) for condition in flips} == flips


@pytest.mark.parametrize(
    ("rule", "condition", "passing"),
    [
        (
            "os:nova:server(_id=s, name=v), heat:root(stack=r)",
            f"not {builtin}(r, v)",
            {"server": {"flavor": "m1.small", "name": "stack"}},
        )
        for builtin in ("starts_with", "ends_with", "contains", "matches")
    ]
    + [
        ("os:neutron:subnet(_id=s, cidr=v)", f"not {test}", {"subnet": {"network": "private", "cidr": "10.20.0.0/16"}})
        for test in ('cidr_overlaps(v, "10.20.0.0/16")', 'cidr_contains("10.20.0.0/16", v)')
    ]
    + [
        (
            "os:neutron:port.fixed_ips(_id=s, ip_address=v)",
            'not cidr_contains("10.20.0.0/16", v)',
            {"port": {"network": "private", "fixed_ips": [{"ip_address": "10.20.0.0"}]}},
        )
    ],
)
def test_a_stack_passes_in_which_a_negated_builtin_holds(rule: str, condition: str, passing: dict[str, Any]) -> None:
    found = search(f"p(s) :- {rule}, v != null, {condition}.")
    assert [flips[condition] for _, _, flips in shown(found)] == [passing]


SERVER = {"flavor": "m1.small"}
NESTED = {"group": {"resource_def": {"type": "OS::Nova::Server", "properties": SERVER}}}


@pytest.mark.parametrize(
    ("rule", "condition", "passing"),
    [
        (
            "heat:root(stack=s), n = count{ v : os:nova:server(_stack=s, _id=v) }, n > 1.",
            "_stack=s",
            {"server": SERVER, **NESTED},
        ),
        ("heat:root(stack=s), os:nova:server(_stack=s).", "heat:root(stack=s)", NESTED),
        (
            "os:nova:server(_stack=s, _id=v), os:cinder:volume(_stack=s, _id=u).",
            "_stack=s",
            {"server": SERVER, "group": {"resource_def": {"type": "OS::Cinder::Volume", "properties": {}}}},
        ),
    ],
)
def test_a_stack_passes_whose_resources_are_in_a_nested_one(rule: str, condition: str, passing: dict[str, Any]) -> None:
    assert [flips[condition] for _, _, flips in shown(search(f"p(s) :- {rule}"))] == [passing]


def test_a_stack_passes_without_a_caller() -> None:
    found = search('p(s) :- os:cinder:volume(_id=s), gate:caller(project=p), not ours(p). ours("lab").')
    passing = {flip.condition: flip.case.get("caller") for example in found.examples for flip in example.flips}
    assert passing == {
        "gate:caller(project=p)": None,
        "not ours(p)": {"project": "lab"},
        "os:cinder:volume(_id=s)": {"project": "project-2"},
    }


@pytest.mark.parametrize(
    ("rule", "types"), [("", [["AWS::EC2::Volume"]]), ("p(s) :- aws:ec2:volume(_id=s, Size=n), n ?? 0 > 500.", [])]
)
def test_a_stack_passes_whose_resource_is_of_a_type_that_no_rule_reads(rule: str, types: list[list[str]]) -> None:
    found = search(f"p(s) :- os:cinder:volume(_id=s).\n{rule}")
    flips = [flip for flip in found.examples[0].flips if flip.condition == "os:cinder:volume(_id=s)"]
    assert [[data["type"] for data in flip.case["stack"]["resources"].values()] for flip in flips] == types


def test_a_condition_without_a_flip_has_a_reason() -> None:
    rule = 'os:neutron:floating_ip(_id=s, fixed_ip_address=v), v != null, not cidr_contains(v, "10.20.0.0/16")'
    found = search(f"p(s) :- {rule}.")
    reason = "no stack was found in which it alone is false"
    assert [entry[::2] for entry in found.unshown] == [('not cidr_contains(v, "10.20.0.0/16")', reason)]


def shown(found: PolicyExamples) -> list[tuple[int, dict[str, Any], dict[str, dict[str, Any]]]]:
    """The line, the resources and the flips of each example."""
    return [
        (example.span.line, resources(example.case), {flip.condition: resources(flip.case) for flip in example.flips})
        for example in found.examples
    ]


def test_each_rule_and_each_bound_has_an_example() -> None:
    rules = ("p(v) :- large(v).", "large(v) :- os:cinder:volume(_id=v, size=n), n ?? 0 >= 9.")
    found = search("\n".join((*rules, "large(v) :- aws:ec2:volume(_id=v).")))
    flips = {"n ?? 0 >= 9": {"volume": {"size": 8}}}
    zone = {"AvailabilityZone": "AvailabilityZone-1"}
    assert shown(found) == [(2, {"volume": {"size": 9}}, flips), (4, {"volume": zone}, {})]


def test_rules_that_deny_the_same_stacks_have_an_example() -> None:
    found = search("p(v) :- os:cinder:volume(_id=v).\np(v) :- os:cinder:volume(_id=v, size=n), n ?? 0 >= 0.")
    assert [line for line, *_ in shown(found)] == [2]


def test_a_flip_is_a_stack_that_heat_accepts() -> None:
    found = search("p(s) :- os:nova:server.networks(_id=s, port=p), os:neutron:port(_id=p, admin_state_up=true).")
    ((_, denied, flips),) = shown(found)
    server = {"flavor": "m1.small", "networks": [{"port": {"get_resource": "port"}}]}
    assert denied == {"server": server, "port": {"network": "private"}}
    port = "os:neutron:port(_id=p, admin_state_up=true)"
    assert flips == {
        "admin_state_up=true": {"server": server, "port": {"admin_state_up": False, "network": "private"}},
        port: {"server": server, "port": {"value": "x"}},
        "os:nova:server.networks(_id=s, port=p)": {"server": {"flavor": "m1.small"}, "port": {"network": "private"}},
    }


def test_a_condition_that_guards_another_is_shown() -> None:
    found = search("p(s) :- os:nova:server.metadata(_id=s, _value=n), is_number(n), n > 4.")
    ((_, denied, flips),) = shown(found)
    assert denied == {"server": {"flavor": "m1.small", "metadata": {"key-1": 5}}}
    assert flips == {
        "is_number(n)": {"server": {"flavor": "m1.small", "metadata": {"key-1": "x"}}},
        "n > 4": {"server": {"flavor": "m1.small", "metadata": {"key-1": 4}}},
        "os:nova:server.metadata(_id=s, _value=n)": {"server": {"flavor": "m1.small"}},
    }


def test_a_null_joins_nothing_and_items_of_a_list_are_distinct() -> None:
    items = ", ".join(f'os:nova:server.networks(_id=s, network={name}), {name} = "{name}"' for name in ("lan", "wan"))
    found = search(f"p(s) :- {items}, os:neutron:port(network=n), os:neutron:subnet(network=n).")
    assert [denied for _, denied, _ in shown(found)] == [
        {
            "server": {"flavor": "m1.small", "networks": [{"network": "lan"}, {"network": "wan"}]},
            "port": {"network": "private"},
            "subnet": {"network": "private"},
        }
    ]


def test_a_condition_that_others_imply_is_shown_by_one_difference() -> None:
    found = search("p(s) :- os:nova:server(_id=s, image=i), i != null, os:glance:web_image(_id=i).")
    ((_, denied, flips),) = shown(found)
    image = {"container_format": "ami", "disk_format": "ami", "location": "location-1"}
    assert denied == {"server": {"flavor": "m1.small", "image": {"get_resource": "web_image"}}, "web_image": image}
    assert flips["i != null"] == {"server": {"flavor": "m1.small"}, "web_image": image}


def test_each_rule_below_a_negation_is_shown() -> None:
    ways = 'tagged(n) :- os:neutron:net.tags(_id=n).\ntagged(n) :- os:neutron:net(_id=n, name="old").'
    found = search(f"p(n) :- os:neutron:net(_id=n), not tagged(n).\n{ways}")
    (example,) = found.examples
    assert [(flip.condition, resources(flip.case)) for flip in example.flips] == [
        ("not tagged(n)", {"net": {"tags": ["x"]}}),
        ("not tagged(n)", {"net": {"name": "old"}}),
    ]


def test_a_flip_that_another_rule_denies_is_changed_until_it_passes() -> None:
    rules = 'p(z) :- os:designate:zone(_id=z, type="PRIMARY", email=null).'
    other = 'p(z) :- os:designate:zone(_id=z, type="SECONDARY"), not os:designate:zone.masters(_id=z).'
    found = search(f"{rules}\n{other}")
    flips = {condition: case for _, _, flips in shown(found) for condition, case in flips.items()}
    assert (flips["type=PRIMARY"], flips["type=SECONDARY"]) == (
        {"zone": {"masters": ["x"], "name": "web", "type": "SECONDARY"}},
        {"zone": {"email": "email-1", "name": "web", "type": "PRIMARY"}},
    )


def test_a_count_has_members_that_another_condition_reads() -> None:
    member = "os:nova:server(_id=s, flavor=f)"
    found = search(f"p(f) :- {member}, n = count{{ other : os:nova:server(_id=other, flavor=f) }}, n > 2.")
    assert [list(denied) for _, denied, _ in shown(found)] == [["server", "server_2", "server_3"]]


def test_a_stack_that_grew_had_fewer_servers() -> None:
    servers = "servers(s, n) :- heat:root(stack=s), n = count{ x : os:nova:server(_id=x) }."
    (example,) = search(f"p(s) :- servers(s, n), old:servers(s, m), n > m.\n{servers}").examples
    assert (list(example.case["stack"]["resources"]), example.case["against"]["resources"]) == (["server_2"], {})


def test_a_grant_is_written_with_its_service() -> None:
    unlock = '@unlock("edge")\ngranted(grant) :- gate:grant(grant, "edge").'
    found = search(f'p(i) :- os:neutron:floating_ip(_id=i), not gate:unlocked("edge", i).\n{unlock}')
    example, refused = found.examples
    assert (refused.case.get("services"), resources(refused.case)["grant"]) == (None, {"service": "edge"})
    _, flip = example.flips
    assert (flip.case["services"], resources(flip.case)["grant"]) == (["edge"], {"service": "edge"})


@pytest.mark.parametrize(
    ("rule", "denied"),
    [
        ('starts_with(t, "2026-12").', "2026-12-01T09:00:00Z"),
        ('int(capture(t, "T([0-9]{2})")) >= 22.', "2027-03-01T22:00:00Z"),
    ],
)
def test_the_time_is_one_that_the_rule_asks_for(rule: str, denied: str) -> None:
    found = search(f"p(s) :- heat:root(stack=s), gate:now(time=t), {rule}")
    assert [example.case["now"] for example in found.examples] == [denied]


def test_a_stack_has_the_name_that_the_rule_asks_for() -> None:
    found = search('p(s) :- heat:stack(id=s, name=n), starts_with(n, "prod-").')
    assert [list(example.case["modules"]) for example in found.examples] == [["prod-1"]]


def test_what_no_stack_can_have_is_said_with_the_condition() -> None:
    found = search('p(s) :- os:nova:server(_id=s, name=n), n = "a", ends_with(n, "b").')
    assert (found.examples, found.furthest, found.span and found.span.line) == ((), 'ends_with(n, "b")', 2)


@pytest.mark.parametrize(
    ("pack", "engine"),
    [
        ("net", "native"),
        *(pytest.param(pack, "both", marks=pytest.mark.slow) for pack in ("net", "licence")),
        *(pytest.param(pack.name, "native", marks=pytest.mark.slow) for pack in PACKS),
    ],
)
def test_examples_are_judged_alike_by_the_whole_gate(pack: str, engine: str) -> None:
    rules = dg.load_rules(ROOT / "rules" / pack)
    suite = suite_of(ROOT / "rules" / pack / "test.yaml", (), (ROOT / "rules",))
    for policy in rules.policies[:: max(1, len(rules.policies) // MOST_POLICIES)]:
        for example in rules.examples(policy.id).examples:
            for denies, case in [(True, example.case), *((False, flip.case) for flip in example.flips)]:
                assert violates(rules, suite, policy.id, case, engine) is denies, (policy.id, case)


def violates(rules: dg.Rules, suite: Suite, policy: str, case: dict[str, Any], engine: str) -> bool:
    given: dict[str, Any] = {
        key: case[key] for key in ("action", "caller", "services", "inventory", "now") if key in case
    }
    read = Case("", 1, case, {})
    stacks = suite.stacks(read)
    if "against" in case:
        given["against"] = suite.before(read, stacks[0].id)
    decision = rules.decide(stacks, cloud=case.get("projects", {}), engine=engine, **given)
    assert not any(error.policy == policy for error in decision.errors)
    return any(policy in violation.policies for violation in decision.violations)


def test_what_no_stack_lacks_is_said_to_fail() -> None:
    found = search('p(s) :- os:nova:server(_id=s, name=n), not q(s), n != "a". q(s) :- os:nova:server(_id=s).')
    assert (found.examples, found.furthest) == ((), "not q(s)")


def test_what_a_negation_compares_differs() -> None:
    found = search(
        "p(s) :- os:nova:server.networks(_id=s, network=n), neutronv2:networks(id=n, tenant_id=owner), owner != null, "
        "gate:caller(project=us), us != null, not ours(owner). ours(o) :- gate:caller(project=us), o = us."
    )
    case = found.examples[0].case
    assert case["caller"] == {"project": "project-2"}
    assert case["inventory"] == {"neutronv2:networks": [{"id": "private", "tenant_id": "lab"}]}


def test_a_search_is_repeatable() -> None:
    text = 'p(s) :- os:nova:server(_id=s, name=n, flavor=f), n = "db", not small(f). small("m1.tiny").'
    first, other = (search(text) for _ in range(2))
    assert list_cases(first) == list_cases(other) != []


def test_a_property_that_is_left_out_passes_beside_another_value() -> None:
    found = search('p(s) :- os:neutron:security_group.rules(_id=s, protocol="tcp").')
    flips = [resources(flip.case) for flip in found.examples[0].flips if flip.condition == "protocol=tcp"]
    assert flips == [{"security_group": {"rules": [{}]}}, {"security_group": {"rules": [{"protocol": "0"}]}}]


def test_each_alternative_has_an_example_without_the_others() -> None:
    found = search("p(s) :- os:nova:server(_id=s, key_name=key, admin_pass=pass), (key = null or pass = null).")
    assert [resources(example.case) for example in found.examples] == [
        {"server": {"flavor": "m1.small", **given}}
        for given in ({}, {"admin_pass": "admin_pass-1"}, {"key_name": "ops"})
    ]


@pytest.mark.parametrize(
    ("negated", "denied"),
    [
        ('os:cinder:volume.metadata(_id=s, _key="cost")', [{}, {"metadata": {"key-1": "x"}}]),
        ("ours(s)", [{}, {"size": 8}, {"name": "db", "size": 9}]),
    ],
)
def test_what_makes_a_part_of_a_negation_false_is_denied(negated: str, denied: list[dict[str, Any]]) -> None:
    ours = 'ours(s) :- os:cinder:volume(_id=s, name="db", size=n), n != null, n < 9.'
    found = search(f"p(s) :- os:cinder:volume(_id=s), not {negated}.\n{ours}")
    assert [resources(example.case)["volume"] for example in found.examples] == denied


@pytest.mark.parametrize(
    ("rule", "alike"),
    [
        (
            'os:octavia:listener(_id=s, protocol=p), p != "HTTPS"',
            ("protocol HTTP or TERMINATED_HTTPS or PROXY or UDP",),
        ),
        ("os:nova:server.networks(_id=s, allocate_network=null)", ()),
        ("os:nova:server(_id=s)", ()),
    ],
)
def test_the_first_example_says_what_may_be_otherwise(rule: str, alike: tuple[str, ...]) -> None:
    assert [example.alike for example in search(f"p(s) :- {rule}.").examples[:1]] == [alike]


@pytest.mark.parametrize(
    "pattern",
    ["^a+$", "x|yy", "[0-9]{2,3}-[a-z_]", "^(?:int_)?[^-]+$", r"\d\s\w\.", "(?i)^db", r"^\S*$", "^[0-9a-f]{32}$"],
)
def test_samples_of_a_pattern_match_it(pattern: str) -> None:
    samples = sample_pattern(pattern)
    assert samples
    assert any(holds("matches", (text, pattern), False) for text in samples)


def test_a_pattern_that_python_does_not_know_has_no_samples() -> None:
    assert sample_pattern(r"\pN") == ()


def test_nothing_tells_a_pattern_from_one_that_can_not_be_read() -> None:
    assert tell_apart(("a",), ("[",)) == ()
