"""Flattening: whole fact sets of small stacks built by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import InputError
from datalog_gate.base.values import FALSE, TRUE, ResourceId, Row, Unknown, Value
from datalog_gate.facts.factset import place_of
from datalog_gate.facts.flatten import flatten
from datalog_gate.schema import cloud
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.declaration import RelationRef
from datalog_gate.stack.model import Data, Parameter, Resource, Stack, Template
from datalog_gate.stack.property_values import Leaf, as_text, coerce, leaves, path_text
from tests.expressions import as_words, worded

WEB = "web"
NETWORK = worded("get_attr [net, show]")


def resource(name: str, kind: str, home: str = WEB, /, **properties: Data) -> Resource:
    return Resource(ResourceId(f"{home}/{name}"), name, kind, kind, properties)


def stack(*resources: Resource, id: str = WEB, depth: int = 0) -> Stack:
    parent = ResourceId(id) if depth else None
    return Stack(id, id.rpartition("/")[2], parent, depth, "2021-04-16", None, resources=resources)


def facts(of: Stack, *wanted: str) -> dict[RelationRef, dict[Row, bool]]:
    """The rows by relation, each with whether it is a maybe row; all relations if none is wanted."""
    factset = flatten(of, SHIPPED, wanted or None)
    maybe, shown = factset.maybe, {name: rows for name, rows in factset.rows.items() if rows}
    return {name: {as_words(row): row in maybe[name] for row in rows} for name, rows in shown.items()}


def certain(*rows: Row) -> dict[Row, bool]:
    return dict.fromkeys(rows, False)


def any_of(relation: RelationRef, column: str, where: str, unknown: Unknown) -> Unknown:
    apart = column in ("_id", "id") or (column == "stack" and relation != "heat:resource")
    return worded(f"any {column} of {relation} in {where}: {unknown.expression}", apart=apart)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=2)
OTHERS = st.sampled_from(["7", "true", 2**70, [1], {"a": 1}, NETWORK, ResourceId("web/other")])


@given(st.lists(st.dictionaries(st.sampled_from(["name", "read_only", "size"]), SCALARS | OTHERS), min_size=1))
def test_a_resource_has_the_rows_among_others_of_its_type_that_it_has_alone(properties: list[dict[str, Data]]) -> None:
    volumes = [resource(str(at), "OS::Cinder::Volume", **values) for at, values in enumerate(properties)]
    alone = [facts(stack(volume), "os:cinder:volume")["os:cinder:volume"] for volume in volumes]
    assert facts(stack(*volumes), "os:cinder:volume") == {"os:cinder:volume": dict(chain(*map(dict.items, alone)))}


def test_a_small_stack_gives_these_facts() -> None:
    net = resource("net", "OS::Neutron::Net")
    group = resource(
        "sg",
        "OS::Neutron::SecurityGroup",
        rules=[{"remote_ip_prefix": "0.0.0.0/0", "port_range_min": "22", "port_range_max": 22, "protocol": 6}, None],
    )
    port = replace(
        resource(
            "port", "OS::Neutron::Port", network=net.id, security_groups=[group.id], value_specs={"a.b": {"c": [1]}}
        ),
        requires={"net": "reference", "sg": "explicit"},
        metadata={"tier": ["front"]},
        deletion_policy="Retain",
        update_policy={"rolling": {"pause": 1.50}},
    )
    net_id, group_id, port_id = net.id, group.id, port.id
    assert facts(stack(net, group, port)) == {
        "heat:stack": certain((WEB, WEB, None, 0, "2021-04-16", None)),
        "heat:root": certain((WEB,)),
        "heat:resource": certain(
            (net_id, WEB, "net", "OS::Neutron::Net", "OS::Neutron::Net"),
            (group_id, WEB, "sg", "OS::Neutron::SecurityGroup", "OS::Neutron::SecurityGroup"),
            (port_id, WEB, "port", "OS::Neutron::Port", "OS::Neutron::Port"),
        ),
        "heat:property": certain(
            (group_id, "rules.0.remote_ip_prefix", "0.0.0.0/0"),
            (group_id, "rules.0.port_range_min", 22),
            (group_id, "rules.0.port_range_max", 22),
            (group_id, "rules.0.protocol", "6"),
            (group_id, "rules.1", None),
            (port_id, "network", net_id),
            (port_id, "security_groups.0", group_id),
            (port_id, r"value_specs.a\.b.c.0", 1),
        ),
        "heat:metadata": certain((port_id, "tier.0", "front")),
        "heat:deletion_policy": certain((net_id, "Delete"), (group_id, "Delete"), (port_id, "Retain")),
        "heat:update_policy": certain((port_id, "rolling.pause", Decimal("1.5"))),
        "heat:requires": certain((port_id, net_id, "reference"), (port_id, group_id, "explicit")),
        "heat:reference": certain((port_id, "network", net_id), (port_id, "security_groups.0", group_id)),
        "os:neutron:net": certain((net_id, WEB, *values("os:neutron:net", {"admin_state_up": TRUE, "shared": FALSE}))),
        "os:neutron:security_group": certain((group_id, WEB, None, None, None)),
        "os:neutron:security_group.rules": certain(
            (group_id, 0, None, "ingress", "IPv4", 22, 22, "6", None, "0.0.0.0/0", "remote_ip_prefix"),
            (group_id, 1, None, "ingress", "IPv4", None, None, None, None, None, "remote_ip_prefix"),
        ),
        "os:neutron:port": certain(
            (
                *(port_id, WEB),
                *values(
                    "os:neutron:port",
                    {
                        "admin_state_up": TRUE,
                        "binding:vnic_type": "normal",
                        "device_id": "",
                        "device_owner": "",
                        "network": net_id,
                        "no_fixed_ips": FALSE,
                        "replacement_policy": "AUTO",
                    },
                ),
            )
        ),
        "os:neutron:port.security_groups": certain((port_id, 0, group_id)),
        "os:neutron:port.value_specs": certain((port_id, r"a\.b.c.0", 1)),
    }


def values(relation: RelationRef, columns: dict[str, Value]) -> Row:
    """The values of the columns after `_id` and `_stack`, null where none is given."""
    described = SHIPPED.relation(relation)
    assert described is not None
    assert columns.keys() <= described.positions.keys()
    return tuple(columns.get(column.name) for column in described.columns[2:])


def test_only_wanted_relations_are_produced() -> None:
    of = stack(resource("net", "OS::Neutron::Net"), resource("a", "OS::Nova::ServerGroup"))
    assert facts(of, "os:nova:server_group.policies", "heat:nothing") == {
        "os:nova:server_group.policies": certain((ResourceId("web/a"), 0, "anti-affinity")),
    }


def test_an_unknown_type_gives_its_resource_and_its_properties_as_they_are() -> None:
    assert facts(stack(resource("x", "Acme::Box", size="5", at=worded("e"))), "heat:resource", "heat:property") == {
        "heat:resource": certain((ResourceId("web/x"), WEB, "x", "Acme::Box", "Acme::Box")),
        "heat:property": {
            (ResourceId("web/x"), "size", "5"): False,
            (ResourceId("web/x"), "at", worded("e")): True,
            (
                ResourceId("web/x"),
                any_of("heat:property", "path", "web/x properties.at", worded("e")),
                any_of("heat:property", "value", "web/x properties.at", worded("e")),
            ): True,
        },
    }


def test_every_row_has_a_value_for_each_column() -> None:
    deep: dict[str, Data] = {"networks": [{"port_extra_properties": {"allowed_address_pairs": [{}, worded("p")]}}]}
    deep |= {
        "block_device_mapping": worded("b"),
        "metadata": {"a": worded("m")},
        "scheduler_hints": "nonsense",
    }
    group = replace(resource("g", "OS::Heat::ResourceGroup"), open_members=worded("count"))
    factset = flatten(stack(resource("s", "OS::Nova::Server", **deep), group), SHIPPED)
    described = {name: SHIPPED.relation(name) for name in factset.rows}
    wrong = [
        (name, row)
        for name, row, _ in factset
        if not (relation := described[name]) or len(relation.columns) != len(row)
    ]
    assert wrong == []
    live = {f"{cloud.LIVE}{name}" for name in cloud.LIVE_TABLES}
    assert set(SHIPPED.names()) - set(cloud.names()) - live - set(described) == {
        *("gate:request", "gate:caller", "gate:role", "gate:now", "gate:service", "gate:unlocked", "heat:environment"),
        *(
            "heat:status",
            "heat:physical",
            "heat:updated",
            "heat:tag",
            "heat:change",
            "heat:disruption",
            "gate:inventory_age",
        ),
    }


def test_an_unknown_value_stays_in_its_column() -> None:
    group = resource("sg", "OS::Neutron::SecurityGroup", name=NETWORK)
    assert facts(stack(group), "os:neutron:security_group", "heat:property", "heat:unknown") == {
        "os:neutron:security_group": certain((group.id, WEB, None, NETWORK, None)),
        "heat:property": certain((group.id, "name", NETWORK)),
        "heat:unknown": certain((group.id, "name", "get_attr [net, show]")),
    }


RULES = "os:neutron:security_group.rules"
RULE_COLUMNS = (
    *("_index", "description", "direction", "ethertype", "port_range_max", "port_range_min", "protocol"),
    *("remote_group_id", "remote_ip_prefix", "remote_mode"),
)


def test_an_unknown_list_is_one_maybe_row_of_unknowns_that_equal_nothing_else() -> None:
    groups = [resource(name, "OS::Neutron::SecurityGroup", rules=NETWORK) for name in "ab"]
    assert facts(stack(*groups), RULES) == {
        RULES: {
            (
                group.id,
                *(any_of(RULES, column, f"{group.id.path} properties.rules", NETWORK) for column in RULE_COLUMNS),
            ): True
            for group in groups
        }
    }


def test_an_unknown_member_of_a_list_is_a_maybe_row_at_its_index() -> None:
    group = resource("sg", "OS::Neutron::SecurityGroup", rules=[NETWORK])
    where = "web/sg 0 properties.rules.0"
    assert facts(stack(group), RULES) == {
        RULES: {(group.id, 0, *(any_of(RULES, column, where, NETWORK) for column in RULE_COLUMNS[1:])): True}
    }


def test_data_of_the_wrong_shape_is_as_good_as_unknown() -> None:
    group = resource("sg", "OS::Neutron::SecurityGroup", rules={"direction": "egress"})
    unknown = worded("what Heat makes of properties.rules")
    columns = (any_of(RULES, column, "web/sg properties.rules", unknown) for column in RULE_COLUMNS)
    assert facts(stack(group), RULES) == {RULES: {(group.id, *columns): True}}


def test_an_unknown_in_a_free_map_may_be_a_map() -> None:
    server = resource("s", "OS::Nova::Server", metadata={"a": NETWORK, "b": True})
    where = "web/s properties.metadata.a"
    assert facts(stack(server), "os:nova:server.metadata") == {
        "os:nova:server.metadata": {
            (server.id, "a", NETWORK): True,
            (
                server.id,
                any_of("os:nova:server.metadata", "_key", where, NETWORK),
                any_of("os:nova:server.metadata", "_value", where, NETWORK),
            ): True,
            (server.id, "b", TRUE): False,
        }
    }


@pytest.mark.parametrize(
    ("kind", "properties", "relation", "rows"),
    [
        (
            "OS::Nova::Server",
            {"networks": [{}, {"port_extra_properties": {"allowed_address_pairs": [{"ip_address": "10.0.0.0/8"}]}}]},
            "os:nova:server.networks.port_extra_properties.allowed_address_pairs",
            [(1, 0, "10.0.0.0/8", None)],
        ),
        ("OS::Nova::Server", {"tags": ["a", None, 3]}, "os:nova:server.tags", [(0, "a"), (1, ""), (2, "3")]),
        ("OS::Nova::ServerGroup", {"policies": None}, "os:nova:server_group.policies", [(0, "anti-affinity")]),
        ("OS::Heat::Value", {"value": [1], "type": None}, "os:heat:value", [(WEB, None, "[1]")]),
    ],
)
def test_lists_have_their_indexes_and_null_has_no_row(
    kind: str, properties: dict[str, Data], relation: str, rows: list[Row]
) -> None:
    item = resource("x", kind, **properties)
    assert facts(stack(item), relation) == {relation: certain(*((item.id, *row) for row in rows))}


def test_a_null_switches_a_boolean_off_but_not_one_with_a_default() -> None:
    port = resource("p", "OS::Neutron::Port", port_security_enabled=None, admin_state_up=None, name=None)
    assert facts(stack(port), "heat:property") == {
        "heat:property": certain(
            (port.id, "port_security_enabled", FALSE), (port.id, "admin_state_up", TRUE), (port.id, "name", None)
        )
    }
    described, factset = SHIPPED.relation("os:neutron:port"), flatten(stack(port), SHIPPED, ["os:neutron:port"])
    assert described is not None
    (row,) = factset.rows["os:neutron:port"]
    wanted = ("port_security_enabled", "admin_state_up", "name", "propagate_uplink_status")
    assert [row[described.positions[name]] for name in wanted] == [FALSE, TRUE, None, None]


def test_a_resource_with_an_undecided_condition_and_its_contents_are_possible() -> None:
    innermost = resource("kp", "OS::Cinder::QoSAssociation", "web/tr/in", qos_specs="q")
    inner = resource("in", "in.yaml", "web/tr")
    inner = replace(inner, nested=stack(innermost, id="web/tr/in", depth=2))
    nested_stack = stack(inner, id="web/tr", depth=1)
    outer = replace(resource("tr", "tr.yaml"), maybe=worded("equals [a, b]"), nested=nested_stack)
    other = replace(resource("b", "OS::Heat::None"), requires={"tr": "explicit", "gone": "explicit"})
    wanted = ("heat:stack", "heat:nested", "heat:requires", "os:cinder:qos_association")
    assert facts(stack(outer, other), *wanted) == {
        "heat:stack": {
            (WEB, WEB, None, 0, "2021-04-16", None): False,
            ("web/tr", "tr", outer.id, 1, "2021-04-16", None): True,
            ("web/tr/in", "in", inner.id, 2, "2021-04-16", None): True,
        },
        "heat:nested": {(outer.id, "web/tr"): True, (inner.id, "web/tr/in"): True},
        "heat:requires": {(other.id, outer.id, "explicit"): True},
        "os:cinder:qos_association": {(innermost.id, "web/tr/in", "q"): True},
    }


def test_of_an_external_resource_no_property_counts() -> None:
    sure = replace(resource("a", "OS::Cinder::QoSAssociation", qos_specs="q"), external=True)
    unsure = replace(resource("b", "OS::Cinder::QoSAssociation", qos_specs="q"), external=worded("p"))
    assert facts(stack(sure, unsure), "heat:resource", "heat:property", "os:cinder:qos_association") == {
        "heat:resource": certain(
            *((resource.id, WEB, resource.name, resource.type, resource.type) for resource in (sure, unsure))
        ),
        "heat:property": certain((sure.id, "qos_specs", "q"), (unsure.id, "qos_specs", "q")),
        "os:cinder:qos_association": {(unsure.id, WEB, "q"): True},
    }


def test_groups_have_members_and_template_resources_have_none() -> None:
    members = [resource(name, "OS::Heat::None", "web/g") for name in ("0", "3")]
    named = [replace(resource("srv", "OS::Heat::None", "web/d"), maybe=worded("c"))]
    of = stack(
        replace(resource("g", "OS::Heat::ResourceGroup"), nested=stack(*members, id="web/g", depth=1)),
        replace(resource("d", "OS::Heat::SoftwareDeploymentGroup"), nested=stack(*named, id="web/d", depth=1)),
        replace(resource("t", "t.yaml"), nested=stack(resource("0", "OS::Heat::None", "web/t"), id="web/t", depth=1)),
    )
    assert facts(of, "heat:member") == {
        "heat:member": {
            (ResourceId("web/g"), ResourceId("web/g/0"), 0): False,
            (ResourceId("web/g"), ResourceId("web/g/3"), 3): False,
            (ResourceId("web/d"), ResourceId("web/d/srv"), 0): True,
        }
    }


def test_an_open_group_may_hold_more_members_of_the_types_that_were_read() -> None:
    count = worded("get_param n")
    member = resource("0", "OS::Cinder::QoSAssociation", "web/g", qos_specs="q")
    group = resource("g", "OS::Heat::ResourceGroup")
    group = replace(group, nested=stack(member, id="web/g", depth=1), open_members=count)
    where = "members.web/g"
    assert facts(stack(group), "heat:member", "heat:stack", "os:cinder:qos_association", "os:nova:server") == {
        "heat:stack": certain((WEB, WEB, None, 0, "2021-04-16", None), ("web/g", "g", group.id, 1, "2021-04-16", None)),
        "heat:member": {
            (group.id, member.id, 0): False,
            (group.id, *(any_of("heat:member", column, f"web/g {where}", count) for column in ("id", "index"))): True,
        },
        "os:cinder:qos_association": {
            (member.id, "web/g", "q"): False,
            tuple(
                any_of("os:cinder:qos_association", column, where, count) for column in ("_id", "_stack", "qos_specs")
            ): True,
        },
    }


def test_an_unread_group_of_unknown_size_may_have_any_member() -> None:
    count = worded("get_param n")
    group = replace(resource("g", "OS::Heat::ResourceGroup"), open_members=count)
    wanted = {
        "heat:member": ("group", "id", "index"),
        "heat:output": ("stack", "name", "value"),
        "gate:grant_scope": ("id", "resource"),
        "os:nova:server.tags": ("_id", "_index", "_value"),
    }
    assert facts(stack(group), *wanted) == {
        name: {tuple(any_of(name, column, "members.web/g", count) for column in columns): True}
        for name, columns in wanted.items()
    }


@pytest.mark.parametrize(
    ("kind", "name", "left_out", "may_hold"),
    [
        ("OS::Heat::ResourceGroup", "n%index%", True, True),  # another member may decide its condition otherwise
        ("OS::Heat::ResourceGroup", "n%index%", False, False),
        ("OS::Heat::ResourceGroup", "n", True, False),
        ("OS::Heat::AutoScalingGroup", "n%index%", True, False),
    ],
)
def test_an_open_group_of_stacks_may_hold_what_their_template_does(
    kind: str, name: str, left_out: bool, may_hold: bool
) -> None:
    count, net = worded("get_param n"), resource("net", "OS::Neutron::Net", "web/g/0")
    template = Template("web/g/0", {"net": {}, "server": {}} if left_out else {"net": {}}, {}, frozenset(), {})
    inner = replace(stack(net, id="web/g/0", depth=2), template=template)
    member = replace(resource("0", "t.yaml", "web/g"), nested=inner)
    group = resource("g", kind, resource_def={"type": "t.yaml", "properties": {"name": name}})
    group = replace(group, nested=stack(member, id="web/g", depth=1), open_members=count)
    tag = tuple(any_of("os:nova:server.tags", column, "members.web/g", count) for column in ("_id", "_index", "_value"))
    rows = {tag: True} if may_hold else {}
    assert facts(stack(group), "os:nova:server.tags").get("os:nova:server.tags", {}) == rows


def test_an_open_group_may_hold_more_resources_of_the_types_that_were_read_and_what_these_alone_have() -> None:
    count, wanted = worded("get_param n"), ("heat:resource", "heat:scaling", "heat:deployment", "heat:member")
    server = resource("0", "OS::Nova::Server", "web/g")
    group = replace(
        resource("g", "OS::Heat::ResourceGroup"), nested=stack(server, id="web/g", depth=1), open_members=count
    )
    columns = ("id", "stack", "name", "declared")
    named = {name: any_of("heat:resource", name, "members.web/g", count) for name in columns}
    more = (named["id"], named["stack"], named["name"], "OS::Nova::Server", named["declared"])
    members = tuple(any_of("heat:member", name, "web/g members.web/g", count) for name in ("id", "index"))
    assert facts(stack(group), *wanted) == {
        "heat:resource": {
            (group.id, WEB, "g", group.type, group.type): False,
            (server.id, "web/g", "0", server.type, server.type): False,
            more: True,
        },
        "heat:member": {(group.id, server.id, 0): False, (group.id, *members): True},
    }


def test_the_stack_has_its_parameters_outputs_conditions_and_files() -> None:
    attributes = {"label": "Key", "tags": ["x"], "default": "s3cret"}
    of = replace(
        stack(),
        parameters=(
            Parameter("size", "number", 5, "parameters", False, {"default": 1}),
            Parameter("zones", "json", {"b": [1, True], "a": None}, "default", False, {}),
            Parameter("key", "string", "s3cret", "environment", True, attributes),
        ),
        outputs={"ip": worded("get_attr [s, ip]"), "all": ["x", ResourceId("web/s")]},
        conditions={"prod": True},
        files={"é.sh": "é"},
        place=Span("web.yaml", 1, 1, 1, 2),
    )
    hidden = worded("hidden value of key in web")
    digest = "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
    relations = facts(of)
    assert flatten(of, SHIPPED, ["heat:parameter"]).hidden == {
        "heat:parameter": {(WEB, "key", "string", "s3cret", "environment", TRUE): {3}}
    }
    assert relations == {
        "heat:stack": certain((WEB, WEB, None, 0, "2021-04-16", None)),
        "heat:root": certain((WEB,)),
        "heat:parameter": certain(
            (WEB, "size", "number", 5, "parameters", FALSE),
            (WEB, "zones", "json", '{"a":null,"b":[1,true]}', "default", FALSE),
            (WEB, "key", "string", "s3cret", "environment", TRUE),
        ),
        "heat:parameter_attribute": certain(
            (WEB, "size", "default", 1),
            (WEB, "key", "label", "Key"),
            (WEB, "key", "tags.0", "x"),
            (WEB, "key", "default", hidden),
        ),
        "heat:output": certain((WEB, "ip", worded("get_attr [s, ip]")), (WEB, "all", '["x","web/s"]')),
        "heat:condition": certain((WEB, "prod", TRUE)),
        "heat:file": certain((WEB, "é.sh", digest, 2)),
    }
    assert [place_of(origin, "value") for _, _, origin in flatten(of, SHIPPED, ["heat:output"]) if origin] == [
        of.place
    ] * 2


def grant(name: str = "g", **properties: Data) -> Resource:
    return resource(name, "DatalogGate::Policy", service="rack", **properties)


def test_a_grant_passes_its_expiry_and_options_to_its_service() -> None:
    resource = grant(expires="2027-01-01", options={"same": "rack", "n": {"max": 3}}, scope=[])
    assert facts(stack(resource), "gate:grant", "gate:grant_option", "gate:grant_scope", "datalog_gate:policy") == {
        "gate:grant": certain((resource.id, "rack", "2027-01-01")),
        "gate:grant_option": certain((resource.id, "same", "rack"), (resource.id, "n.max", 3)),
        "datalog_gate:policy": certain((resource.id, WEB, "2027-01-01", "rack")),
    }


def test_a_grant_without_a_scope_is_for_all_but_grants_and_what_grants_require() -> None:
    key, config, server = (resource(name, "OS::Heat::None") for name in ("key", "config", "server"))
    config = replace(config, requires={"key": "reference"})
    volume = replace(resource("volume", "OS::Heat::None"), maybe=worded("c"))
    first, two = grant(), replace(grant("h", scope=["server"]), requires={"config": "attribute"})
    assert facts(stack(key, config, server, volume, first, two), "gate:grant_scope") == {
        "gate:grant_scope": {(first.id, server.id): False, (first.id, volume.id): True, (two.id, server.id): False}
    }


def test_a_scope_names_resources_of_the_grants_own_stack() -> None:
    server, template, dotted, db = (resource(name, "OS::Heat::None") for name in ("server", "tr", "a.b", "db"))
    unknown = worded("get_param s")
    scope = ["tr.srv", "a.b", server.id, ResourceId("other/db"), "gone", unknown]
    policy = grant(scope=scope)
    assert facts(stack(server, template, dotted, db, policy), "gate:grant_scope") == {
        "gate:grant_scope": {
            (policy.id, template.id): False,
            (policy.id, dotted.id): False,
            (policy.id, server.id): False,
            (policy.id, any_of("gate:grant_scope", "resource", "web/g properties.scope.5", unknown)): True,
        }
    }


@pytest.mark.parametrize(("scope", "wild"), [("server", False), (worded("e"), True)])
def test_a_scope_that_is_no_list_is_for_nothing_for_certain(scope: Data, wild: bool) -> None:
    policy = grant(scope=scope)
    row = (policy.id, any_of("gate:grant_scope", "resource", "web/g properties.scope", worded("e")))
    expected = {"gate:grant_scope": {row: True}} if wild else {}
    assert facts(stack(resource("server", "OS::Heat::None"), policy), "gate:grant_scope") == expected


SAME = object()


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [
        ("string", [(80, "80"), (True, "True"), (1.5, Decimal("1.5")), ([1], "[1]"), (ResourceId("a/b"), SAME)]),
        ("integer", [("8080", 8080), (" 80 ", 80), (80.9, 80), (True, 1), ("many", SAME), (None, SAME)]),
        ("integer", [(float("inf"), "inf"), ("9" * 5000, SAME), (NETWORK, SAME)]),
        ("number", [("1.50", Decimal("1.5")), ("2", 2), ("2.0", 2), ("nan", SAME), (True, TRUE)]),
        ("boolean", [("tRue", TRUE), ("false", FALSE), ("on", SAME), (1, SAME), (None, FALSE)]),
        ("any", [({"b": 1, "a": [None]}, '{"a":[null],"b":1}'), (False, FALSE), ("1", SAME)]),
    ],
)
def test_a_value_is_what_heat_makes_of_it_or_stays_as_it_is(kind: str, pairs: list[tuple[Data, Data]]) -> None:
    values = [coerce(kind, data) for data, _ in pairs]
    expected = [data if value is SAME else value for data, value in pairs]
    assert [(type(value), value) for value in values] == [(type(value), value) for value in expected]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.sampled_from(["string", "integer", "number", "boolean", "any"]), PLAIN)
def test_no_data_is_refused_and_what_is_typed_stays_so(kind: str, data: Data) -> None:
    value = coerce(kind, data)
    assert coerce(kind, value) == value


@given(st.lists(st.text(), min_size=1), st.lists(st.text(), min_size=1))
def test_two_paths_have_two_texts(first: list[str], other: list[str]) -> None:
    assert (path_text(tuple(first)) == path_text(tuple(other))) == (first == other)


@given(st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_the_text_of_known_data_is_its_json(data: Data) -> None:
    assert json.loads(str(as_text(data))) == data


def test_the_text_of_data_that_holds_an_unknown_is_unknown() -> None:
    place = Span("web.yaml", 2, 3, 2, 4)
    text = as_text({"a": [worded("e", place), worded("f", unread=True)]})
    assert as_words(text) == worded('json({"a":[{"$unknown":"e"},{"$unknown":"f"}]})')
    assert isinstance(text, Unknown)
    assert (text.place, text.unread) == (place, True)


def test_the_leaves_of_data_are_its_scalars_in_order() -> None:
    assert list(leaves({"b": [1, {"c.d": None}], "a": {}, 3: worded("e")})) == [
        Leaf(("b", 0), "b.0", 1, False),
        Leaf(("b", 1, "c.d"), r"b.1.c\.d", None, False),
        Leaf(("3",), "3", worded("e"), True),
    ]


def test_a_number_that_no_rule_can_hold_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        facts(stack(resource("web", "OS::Nova::Server", metadata={"a": 10**4000})), "heat:property")
    assert refused.value.diagnostics == (
        Diagnostic("too-large", "the stack web has a number of more than 4000 digits"),
    )


def test_a_map_with_an_unknown_value_has_no_other_keys_than_those_below() -> None:
    server = resource("srv", "OS::Nova::Server", metadata={"a.b": NETWORK})
    rows = facts(stack(server), "os:nova:server.metadata")["os:nova:server.metadata"]
    [key] = [key for row in rows for key in row[1:2] if isinstance(key, Unknown)]
    assert key.prefix == "a\\.b."
