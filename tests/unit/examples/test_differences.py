"""Cases that two policy sets judge differently."""

from __future__ import annotations

from typing import Any

import pytest

from datalog_gate.decision.policy_set import PolicySet, RuleFile, load
from datalog_gate.examples.differences import find_differences

LIMITS = "relation tagged(tag: string) key(tag). relation excused(tag: string) key(tag).\n"


def policies(text: str) -> PolicySet:
    return load([RuleFile("m", "m.dl", f'{LIMITS}@deny("a", "no")\n{text}')])


def differences(old: str, new: str) -> list[tuple[str, bool, dict[str, Any], dict[str, Any]]]:
    """The policy, whether it newly denies, the properties of the resources, and the inventory of each difference."""
    return [
        (
            difference.policy,
            difference.newly,
            {name: data.get("properties", {}) for name, data in difference.case["stack"]["resources"].items()},
            difference.case.get("inventory", {}),
        )
        for difference in find_differences(policies(old), policies(new))
    ]


SERVER = {"flavor": "m1.small"}
VALUE = {"type": "OS::Heat::Value", "properties": {"value": "value-1"}}
LOOKS = " ".join(
    f'looks(s, "{column}") :- os:nova:server(_id=s, {column}="x").' for column in ("name", "key_name", "image")
)
OK = 'ok(s) :- heat:metadata(s, "ok").'
TAGGED = "os:nova:server.tags(_id=s, _value=t), tagged(t)"
NETWORKS = "os:nova:server.networks(_id=s, network=n)"
OPEN = (
    f"p(s) :- os:nova:server.networks(_id=s), not out(s). out(s) :- {NETWORKS}, open(n). "
    f"open(n) :- {NETWORKS}, not os:neutron:net(_id=n). open(n) :- os:neutron:subnet(_id=i, network=n), gate(i). "
    "gate(i) :- os:neutron:router_interface(subnet=i, router=r), os:neutron:router(_id=r)."
)
TWICE = (
    "p(s) :- os:nova:server(_id=s), not q(s). q(s) :- os:nova:server(_id=s, name=n), not r(s). "
    'r(s) :- os:nova:server(_id=s, key_name="a", image'
)
UNSEEN = (
    'p(s) :- heat:property(s, path), matches(path, "c$"), not hid(s, path). '
    "hid(s, path) :- heat:property(s, path), heat:uses_parameter(s, above, n), heat:parameter(_, n, hidden=true), "
    "(path = above or starts_with(path, "
)
CHANGES = {
    "a chain below a negation, whose ends others would be too": (
        f'{OPEN} gate(i) :- os:neutron:subnet(_id=i, name="out").',
        OPEN,
        [
            (
                "a",
                True,
                {
                    "server": {"networks": [{"network": {"get_resource": "net"}}], **SERVER},
                    "subnet": {"name": "out", "network": {"get_resource": "net"}},
                    "net": {},
                },
                {},
            )
        ],
    ),
    "a condition below two negations": (
        f'{TWICE}="b").',
        f"{TWICE}=_).",
        [("a", True, {"server": {"key_name": "a", **SERVER}}, {})],
    ),
    "a prefix, and one up to a separator": (
        f'{UNSEEN}f"{{above}}.")).',
        f"{UNSEEN}above)).",
        [("a", False, {"s": {"1c": "x", "1": {"get_param": "parameter-1"}, "value": "value-1"}}, {})],
    ),
    "how deep calls of a function are": (
        'p(r) :- heat:nested_function(r, _, "get_param", depth), depth > 2.',
        'p(r) :- heat:nested_function(r, _, "get_param", depth), depth > 1.',
        [("a", True, {"r": {"name": {"get_param": ["values", {"get_param": "size"}]}, **SERVER}}, {})],
    ),
    "another number of columns": (
        'p(s) :- os:nova:server(_id=s, name=n), n != null, not contains(n, "x"), len(n) > 3, len(n) < 9.',
        'p(s, n) :- os:nova:server(_id=s, name=n), n != null, not contains(n, "x"), len(n) > 3, len(n) < 8.',
        [("a", False, {"server": {"name": "aaaaaaaa", **SERVER}}, {})],
    ),
    "a number of repeats": (
        'p(s) :- os:nova:server(_id=s, name=n), matches(n ?? "", "^[0-9a-f]{32}$").',
        'p(s) :- os:nova:server(_id=s, name=n), matches(n ?? "", "^[0-9a-f]{31,32}$").',
        [("a", True, {"server": {"name": "a" * 31, **SERVER}}, {})],
    ),
    "a bound": (
        "p(v) :- os:cinder:volume(_id=v, size=n), n ?? 0 > 500.",
        "p(v) :- os:cinder:volume(_id=v, size=n), n ?? 0 >= 500.",
        [("a", True, {"volume": {"size": 500}}, {})],
    ),
    "a condition that alone read an input": (
        f"p(s) :- {TAGGED}, not excused(t).",
        f"p(s) :- {TAGGED}.",
        [
            (
                "a",
                True,
                {"server": {"tags": ["tag-1"], **SERVER}},
                {"m:tagged": [{"tag": "tag-1"}], "m:excused": [{"tag": "tag-1"}]},
            )
        ],
    ),
    "a row less in a list of what is allowed": (
        'p(s) :- os:nova:server(_id=s, flavor=f), not offered("x", f). offered("x", "small"). offered("x", "large").',
        'p(s) :- os:nova:server(_id=s, flavor=f), not offered("x", f). offered("x", "small").',
        [("a", True, {"server": {"flavor": "large"}}, {})],
    ),
    "a row more in it": (
        'p(s) :- os:nova:server(_id=s, flavor=f), not offered(f). offered("small").',
        'p(s) :- os:nova:server(_id=s, flavor=f), not offered(f). offered("small"). offered("huge").',
        [("a", False, {"server": {"flavor": "huge"}}, {})],
    ),
    "another rule that counts as many of another type": (
        "p(s) :- heat:stack(id=s), count{ v : os:cinder:volume(_stack=s, _id=v) } = 2.",
        "p(s) :- heat:stack(id=s), count{ v : os:cinder:volume(_stack=s, _id=v) } = 2. "
        "p(s) :- heat:stack(id=s), count{ x : os:nova:server(_stack=s, _id=x) } = 2.",
        [("a", True, {"server": SERVER, "server_2": SERVER}, {})],
    ),
    "a condition for one network, and for all": (
        "p(s) :- os:nova:server.networks(_id=s, network=n), not q(s, n). "
        "q(s, n) :- os:nova:server.networks(_id=s, network=n, fixed_ip=ip), ip != null.",
        "p(s) :- os:nova:server.networks(_id=s, network=n), not q(s, _). "
        "q(s, n) :- os:nova:server.networks(_id=s, network=n, fixed_ip=ip), ip != null.",
        [
            (
                "a",
                False,
                {"server": {"networks": [{"fixed_ip": "10.0.0.5"}], **SERVER}},
                {},
            )
        ],
    ),
    "what a pattern repeats": (
        'p(s) :- os:nova:server(_id=s, name=n), matches(lower(n ?? "-"), "^(tcp|0*6)$").',
        'p(s) :- os:nova:server(_id=s, name=n), matches(lower(n ?? "-"), "^(tcp|6)$").',
        [("a", False, {"server": {"name": "06", **SERVER}}, {})],
    ),
    "a pattern in a term": (
        'p(s) :- os:nova:server(_id=s, name=n), n != null, tagged(capture(n, "^db-([a-z]{1,3})$")).',
        'p(s) :- os:nova:server(_id=s, name=n), n != null, tagged(capture(n, "^db-([a-z]{1,2})$")).',
        [("a", False, {"server": {"name": "db-aaa", **SERVER}}, {"m:tagged": [{"tag": "aaa"}]})],
    ),
    "the end of a text, and any place in it": (
        'p(s) :- heat:root(s), ends_with(s, "-db"). p(s) :- os:nova:server(_id=s, name=n), ends_with(n ?? "", "-db").',
        'p(s) :- heat:root(s), ends_with(s, "-db"). p(s) :- os:nova:server(_id=s, name=n), contains(n ?? "", "-db").',
        [("a", True, {"server": {"name": "1-db1", **SERVER}}, {})],
    ),
    "a default in the head of a rule": (
        'p(s) :- called(s, "b"). called(s, n ?? "c") :- os:nova:server(_id=s, name=n, key_name=k).',
        'p(s) :- called(s, "b"). called(s, n ?? k ?? "c") :- os:nova:server(_id=s, name=n, key_name=k).',
        [("a", True, {"server": {"key_name": "b", **SERVER}}, {})],
    ),
    "a count that is exact": (
        "p(s) :- os:nova:server.tags(_id=s, _value=t), count{ any : os:nova:server.tags(_id=s, _value=any) } = 1.",
        "p(s) :- os:nova:server.tags(_id=s, _value=t), count{ any : os:nova:server.tags(_id=s, _value=any) } > 0.",
        [("a", True, {"server": {"tags": ["x", "x2"], **SERVER}}, {})],
    ),
    "a count of what two rules derive": (
        f"p(s) :- os:nova:server(_id=s), count{{ way : looks(s, way) }} > 1. {LOOKS}",
        f"p(s) :- os:nova:server(_id=s), count{{ way : looks(s, way) }} > 2. {LOOKS}",
        [("a", False, {"server": {"key_name": "x", "name": "x", **SERVER}}, {})],
    ),
    "a resource of the root, and of any stack": (
        "p(s) :- heat:hook(s, _), heat:resource(s, stack), heat:root(stack).",
        "p(s) :- heat:hook(s, _), heat:resource(s, stack).",
        [("a", True, {"group": {"resource_def": VALUE}}, {})],
    ),
    "a test in a negation": (
        'p(s) :- os:nova:server(_id=s, name=n), not (lower(n ?? "", x), matches(x, "^a+$"), len(x) < 3).',
        'p(s) :- os:nova:server(_id=s, name=n), not (lower(n ?? "", x), matches(x, "^a+$"), len(x) < 4).',
        [("a", False, {"server": {"name": "aaa", **SERVER}}, {})],
    ),
    "what a group passes to its members": (
        f"p(s) :- os:nova:server(_id=s), not ok(s). {OK} ok(s) :- ok(h), heat:nested(h, t), heat:resource(s, t).",
        f"p(s) :- os:nova:server(_id=s), not ok(s). {OK}",
        [("a", True, {"group": {"resource_def": {"type": "OS::Nova::Server", "properties": SERVER}}}, {})],
    ),
    "what is counted": (
        "p(s) :- os:nova:server(_id=s), count{ i : os:nova:server.networks(_id=s, _index=i) } > 1.",
        "p(s) :- os:nova:server(_id=s), count{ n : os:nova:server.networks(_id=s, network=n) } > 1.",
        [("a", False, {"server": {"networks": [{}, {}], **SERVER}}, {})],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_versions_differ_on_a_case_that_only_one_denies(change: str) -> None:
    old, new, expected = CHANGES[change]
    assert differences(old, new) == expected
    assert differences(new, old) == [(policy, not newly, *case) for policy, newly, *case in expected]


def test_lists_without_a_common_entry_differ() -> None:
    old, new = (
        "p(s) :- os:nova:server(_id=s, name=n), n != null, not ok(n).\n"
        + " ".join(f'ok("{letter}{number}").' for number in range(400))
        for letter in "ab"
    )
    assert differences(old, new) == [
        ("a", True, {"server": {"name": "a0", **SERVER}}, {}),
        ("a", False, {"server": {"name": "b0", **SERVER}}, {}),
    ]


def test_versions_differ_where_one_can_t_decide() -> None:
    zones = "aws:auto_scaling:auto_scaling_group.VPCZoneIdentifier"
    old, new = (f"p(g) :- {zones}(_id=g), count{{ at : {zones}(_id=g, _index=at) }} > {least}." for least in (1, 2))
    ((policy, newly, resources, _),) = differences(old, new)
    assert (policy, newly, resources["auto_scaling_group"]["VPCZoneIdentifier"]) == ("a", False, ["x", "x"])


def test_versions_differ_on_what_is_replaced_always() -> None:
    rule = 'q(s) :- heat:change(s, "replace"), heat:reference(s, target=t), heat:change(t, {}), not new(s).'
    new = "new(s) :- heat:property(s, path, value), not old:heat:property(s, path, value)."
    old, other = (
        load([RuleFile("m", "m.dl", f'@deny("b", "no", on=["update"])\n{rule.format(change)}\n{new}')])
        for change in ('"replace"', "_")
    )
    (difference,) = find_differences(old, other)
    assert [resource["properties"] for resource in difference.case["stack"]["resources"].values()] == [
        {"network": {"get_resource": "t"}, "replacement_policy": "REPLACE_ALWAYS"},
        {"value": "x"},
    ]


def test_a_policy_of_one_set_differs_on_its_own_example() -> None:
    common = "p(s) :- os:nova:server(_id=s, name=null)."
    old = policies(common)
    new = policies(f'{common}\n@deny("b", "no")\nq(s) :- os:nova:server(_id=s, key_name=null).')
    assert [(difference.policy, difference.newly) for difference in find_differences(old, new)] == [("b", True)]
    assert [(difference.policy, difference.newly) for difference in find_differences(new, old)] == [("b", False)]


def test_versions_that_deny_the_same_stacks_differ_in_what_they_say() -> None:
    old, new = (
        load(
            [
                RuleFile(
                    "m",
                    "m.dl",
                    f'@deny("a", "no {{key}}")\n'
                    f"p(s, key) :- os:nova:server(_id=s), key in [{keys}], "
                    "not os:nova:server.metadata(_id=s, _key=key).",
                )
            ]
        )
        for keys in ('"x", "y"', '"x", "y", "z"')
    )
    (difference,) = find_differences(old, new)
    resources = difference.case["stack"]["resources"]
    assert (difference.policy, difference.newly, difference.message) == ("a", True, "no z")
    assert resources == {"server": {"type": "OS::Nova::Server", "properties": SERVER}}
    assert [(difference.newly, difference.message) for difference in find_differences(new, old)] == [(False, "no z")]


def test_versions_differ_in_what_a_list_says() -> None:
    old, new = (
        load(
            [
                RuleFile(
                    "m",
                    "m.dl",
                    '@deny("a", "no {names}")\np(s, names) :- os:nova:server.networks(_id=s), '
                    f"names = list{{ distinct n : os:nova:server.networks(_id=s, {column}=n) }}.",
                )
            ]
        )
        for column in ("network", "port")
    )
    assert [(difference.newly, difference.message) for difference in find_differences(old, new)] == [
        (True, "no port-1"),
        (False, "no private"),
    ]


def test_a_difference_beside_another_violation_is_one_of_messages() -> None:
    volume = "p(v) :- os:cinder:volume(_id=v)"
    image = "q(s, v) :- os:cinder:volume_attachment(_id=s, volume_id=v), os:cinder:volume(_id=v"
    old, new = (
        load([RuleFile("m", "m.dl", f'@deny("a", "no {{v}}")\n{volume}. p(s) :- q(s, _). {image}{more}).')])
        for more in (", image=null", "")
    )
    (difference,) = find_differences(old, new)
    assert (difference.newly, difference.message) == (True, "no volume_attachment")
    assert difference.case["stack"]["resources"].keys() == {"volume_attachment", "volume"}


@pytest.mark.parametrize(
    "text",
    [
        f"p(s) :- {TAGGED}, not excused(t).",
        "p(server) :- q(tag), os:nova:server.tags(_id=server, _value=tag). q(t) :- tagged(t), not excused(t).",
    ],
)
def test_other_names_and_another_order_are_no_difference(text: str) -> None:
    assert differences(f"p(s) :- {TAGGED}, not excused(t).", text) == []
