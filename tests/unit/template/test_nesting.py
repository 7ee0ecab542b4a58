"""Nested templates, groups and their members in the stacks of templates."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

import pytest

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.expression import content
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.files.templates import read_stack
from datalog_gate.stack.model import Data, Resource, Stack
from tests.expressions import unknown_of
from tests.unit.template.test_reader import HEAD, problems, read


def members(resource: Resource) -> dict[str, Data]:
    assert resource.nested is not None
    return {resource.id.path: (resource.type, dict(resource.properties)) for resource in resource.nested.resources}


CHILD = """\
heat_template_version: 2015-04-30
parameters: {name: {type: string}, nets: {type: comma_delimited_list, default: ''}}
resources:
  server: {type: OS::Nova::Server, properties: {name: {get_param: name}, nets: {get_param: nets}}}
outputs: {said: {value: {get_param: name}}, ip: {value: {get_attr: [server, first_address]}}}
"""


@pytest.mark.parametrize("section", ["parameters", "resource_registry"])
def test_a_nested_template_is_given_no_parameter_that_heat_reads_as_an_environment(section: str) -> None:
    text = f"resources:\n  n: {{type: n.yaml, properties: {{{section}: {{length: 64}}, event_sinks: ~}}}}\n"
    child = HEAD + f"parameters: {{{section}: {{type: json}}, event_sinks: {{type: json, default: []}}}}\n"
    assert problems(text, files={"n.yaml": child}) == [
        (
            "bad-template",
            3,
            f"Heat reads the parameter `{section}` of a nested template as that section of an environment",
            "give the parameter another name",
        )
    ]


def test_a_template_is_nested_with_its_properties_as_parameters() -> None:
    text = """\
resources:
  net: {type: OS::Neutron::Net}
  db: {type: child.yaml, properties: {name: n, nets: [{get_resource: net}]}}
  use: {type: A, properties: {said: {get_attr: [db, said]}, ip: {get_attr: [db, ip]}, none: {get_attr: [db, x]}}}
"""
    stack = read(text, files={"child.yaml": CHILD})
    _, db, use = stack.resources
    assert members(db) == {"web/db/server": ("OS::Nova::Server", {"name": "n", "nets": [ResourceId("web/net")]})}
    assert use.properties == {
        "said": "n",
        "ip": unknown_of("{get_attr: [server, first_address]} in web/db"),
        "none": unknown_of("{get_attr: [db, x]} in web"),
    }
    inner = db.nested
    assert inner is not None
    assert (inner.id, inner.parent, inner.depth, inner.name) == ("web/db", ResourceId("web/db"), 1, "web-db")
    assert inner.parameters[0].origin == "parent"
    assert inner.resources[0].locate(("properties", "name")) == Span("<template>", 4, 45, 4, 46)
    assert inner.resources[0].locate(("properties", "nets", 0)) == Span("<template>", 4, 55, 4, 74)


@pytest.mark.parametrize(
    ("mappings", "kind"),
    [
        ({"My::*": "OS::Heat::*", "My::X": "OS::Heat::RandomString"}, "OS::Heat::RandomString"),
        ({"My::*": "OS::Heat::*", "My::X": "OS::Nova::Servant"}, "OS::Heat::X"),
        ({"My::X": "Their::X", "Their::*": "OS::Heat::*", "Their::X": "OS::Heat::Value"}, "OS::Heat::Value"),
    ],
)
def test_a_mapping_that_leads_to_no_type_is_skipped_if_another_leads_to_one(
    mappings: dict[str, Data], kind: str
) -> None:
    stack = read("resources: {s: {type: 'My::X'}}\n", environment={"resource_registry": mappings})
    assert stack.resources[0].type == kind


def test_the_registry_can_make_a_type_a_template() -> None:
    environment = "resource_registry: {'My::DB': child.yaml, resources: {g: {'0': {'OS::Nova::Server': 'OS::Heat::None'}}, db: {server: {'OS::Nova::Server': 'OS::Heat::Value'}}}}\n"
    stack = read(
        "resources: {db: {type: 'My::DB', properties: {name: n}}}\n",
        environment=environment,
        files={"child.yaml": CHILD},
    )
    assert (stack.resources[0].type, members(stack.resources[0])["web/db/server"]) == (
        "child.yaml",
        ("OS::Heat::Value", {"name": "n", "nets": []}),
    )


def test_a_stack_resource_holds_the_template_that_it_names() -> None:
    text = """\
resources:
  s: {type: OS::Heat::Stack, properties: {template: {get_file: child.yaml}, parameters: {name: n}}}
  t: {type: A, properties: {said: {get_attr: [s, outputs, said]}}}
"""
    stack = read(text, files={"child.yaml": CHILD})
    assert members(stack.resources[0]) == {"web/s/server": ("OS::Nova::Server", {"name": "n", "nets": []})}
    assert stack.resources[1].properties == {"said": "n"}
    assert stack.files == {"child.yaml": CHILD}


def test_a_stack_resource_takes_the_whole_registry() -> None:
    mappings = {
        "server": {"OS::Nova::Server": "OS::Heat::Value"},
        "s": {"server": {"OS::Nova::Server": "OS::Heat::None"}},
    }
    stack = read(
        "resources: {s: {type: OS::Heat::Stack, properties: {template: {get_file: child.yaml}, parameters: {name: n}}}}\n",
        environment={"resource_registry": {"resources": mappings}},
        files={"child.yaml": CHILD},
    )
    assert members(stack.resources[0]) == {"web/s/server": ("OS::Heat::Value", {"name": "n", "nets": []})}


def test_a_resource_of_a_nested_template_gives_its_id_and_attributes() -> None:
    child = "heat_template_version: 2018-08-31\nparameters: {more: {type: boolean, default: false}}\n"
    child += "conditions: {more: {get_param: more}}\nresources: {in: {type: A}, gone: {type: A, condition: more}, "
    child += "v: {type: 'OS::Heat::Value', properties: {value: {a: b}}}}\n"
    attributes = {"id": "resource.in", "gone": "resource.gone", "none": "resource.x"}
    attributes |= {"of": "resource.in.name", "known": "resource.v.value", "part": "resource.v, value, a"}
    written = ", ".join(f"{key}: {{get_attr: [n, {attribute}]}}" for key, attribute in attributes.items())
    text = f"resources:\n  n: {{type: child.yaml}}\n  use: {{type: A, properties: {{{written}}}}}\n"
    assert read(text, files={"child.yaml": child}).resources[1].properties == {
        "id": ResourceId("web/n/in"),
        "of": unknown_of("{get_attr: [in, name]} in web/n"),
        "known": {"a": "b"},
        "part": "b",
        **{key: unknown_of(f"{{get_attr: [n, {attributes[key]}]}} in web") for key in ("gone", "none")},
    }


def test_a_group_holds_its_members() -> None:
    text = """\
parameters: {key: {type: string}}
resources:
  g:
    type: OS::Heat::ResourceGroup
    properties:
      count: 2
      removal_policies: [{resource_list: ['0']}]
      resource_def: {type: OS::Nova::Server, properties: {name: 'n%index%', k: {list_join: ['', [{get_param: key}, '%index%']]}}}
  use: {type: A, properties: {refs: {get_attr: [g, refs]}, ips: {get_attr: [g, ip]}, one: {get_attr: [g, resource.2.ip]}}}
"""
    g, use = read(text).resources
    assert members(g) == {
        f"web/g/{n}": (
            "OS::Nova::Server",
            {"name": f"n{n}", "k": unknown_of(f'{{list_join: ["", [{{get_param: key}}, "{n}"]]}} in web')},
        )
        for n in (1, 2)
    }
    ips = [unknown_of(f'{{get_attr: ["{n}", ip]}} in web/g') for n in (1, 2)]
    assert use.properties == {"refs": [ResourceId("web/g/1"), ResourceId("web/g/2")], "ips": ips, "one": ips[1]}


@pytest.mark.parametrize(
    ("kind", "properties", "names", "open_"),
    [
        ("ResourceGroup", "resource_def: {type: A}", ["0"], None),
        ("ResourceGroup", "count: 0, resource_def: {type: A}", [], None),
        ("ResourceGroup", "count: {get_param: n}, resource_def: {type: A}", ["0?"], "{get_param: n} in web"),
        ("ResourceGroup", "count: {get_param: two}, resource_def: {type: A}", ["0", "1", "2?"], None),
        ("ResourceGroup", "count: {get_param: few}, resource_def: {type: A}", ["0", "1", "2?", "3?", "4?"], None),
        ("ResourceGroup", "count: {get_param: two}, removal_policies: [{resource_list: ['0', '2']}], resource_def: {type: A}", ["1", "3", "4?"], None),
        ("ResourceGroup", "count: {get_param: lots}, resource_def: {type: A}", ["0", "1", "2?"], "{get_param: lots} in web"),
        ("ResourceGroup", "count: {get_param: same}, resource_def: {type: A}", ["0", "1"], None),
        ("ResourceGroup", "count: {get_param: hidden}, resource_def: {type: A}", ["0?"], "{get_param: hidden} in web"),
        ("ResourceGroup", "count: {get_attr: [lc, n]}, resource_def: {type: A}", ["0?"], "{get_attr: [lc, n]} in web"),
        ("ResourceGroup", "count: 2, resource_def: {get_param: n}", [], "{get_param: n} in web"),
        ("ResourceGroup", "count: MANY, resource_def: {type: A}", ["0?"], "the number of members MANY"),
        ("ResourceGroup", "count: 2.5, resource_def: {type: A}", ["0", "1"], None),
        ("ResourceGroup", "count: ' +0_2 ', resource_def: {type: A}", ["0", "1"], None),
        ("ResourceGroup", "count: '\uff12', resource_def: {type: A}", ["0", "1"], None),
        ("AutoScalingGroup", "min_size: 1, max_size: 9, desired_capacity: 2, resource: {type: A}", ["0", "1"], None),
        ("AutoScalingGroup", "min_size: 1, max_size: 9, resource: {type: A}", ["0"], None),
        ("AutoScalingGroup", "min_size: 1, max_size: 66, desired_capacity: {get_param: n}, resource: {type: A}", ["0", "1?"], "{get_param: n} in web"),
        ("AutoScalingGroup", "min_size: 1, max_size: 3, desired_capacity: {get_param: n}, resource: {type: A}", ["0", "1?", "2?"], None),
        ("AutoScalingGroup", "min_size: 1, max_size: 3, desired_capacity: {get_param: few}, resource: {type: A}", ["0", "1", "2?"], None),
        ("AutoScalingGroup", "min_size: {get_param: two}, max_size: 9, resource: {type: A}", ["0", "1", "2?"], None),
        ("AutoScalingGroup", "min_size: 1, max_size: 3, desired_capacity: {get_attr: [lc, n]}, resource: {type: A}", ["0?"], "{get_attr: [lc, n]} in web"),
        ("ResourceChain", "resources: [A, B]", ["0", "1"], None),
        ("ResourceChain", "resources: {get_param: n}", [], "{get_param: n} in web"),
        ("InstanceGroup", "Size: 2, LaunchConfigurationName: {get_resource: lc}", ["0", "1"], None),
        ("InstanceGroup", "Size: 2, LaunchConfigurationName: other", [], None),
        ("InstanceGroup", "Size: 2, LaunchConfigurationName: lc}, depends_on: lc, metadata: {", ["0", "1"], None),
        ("InstanceGroup", "Size: 2, LaunchConfigurationName: id}, depends_on: lc, metadata: {", [], "the members of g"),
        ("InstanceGroup", "Size: 2, LaunchConfigurationName: {get_param: n}", [], "the members of g"),
        ("InstanceGroup", "Size: 0, LaunchConfigurationName: other", [], None),
        ("InstanceGroup", "Size: null, LaunchConfigurationName: {get_resource: lc}", [], None),
    ],
)  # fmt: skip
def test_the_size_of_a_group_is_what_it_is_created_with(
    kind: str, properties: str, names: list[str], open_: str | None
) -> None:
    text = f"""\
parameters:
  n: {{type: number}}
  two: {{type: number, constraints: [{{allowed_values: [3, 2.5, 2]}}]}}
  few: {{type: number, constraints: [{{range: {{min: 2.5}}}}, {{range: {{max: 5}}}}]}}
  lots: {{type: number, constraints: [{{range: {{min: 2, max: 67}}}}]}}
  same: {{type: number, constraints: [{{range: {{min: 2, max: 2}}}}]}}
  hidden: {{type: number, hidden: true, constraints: [{{range: {{min: 2, max: 2}}}}]}}
resources:
  lc: {{type: 'AWS::AutoScaling::LaunchConfiguration', properties: {{ImageId: i}}}}
  g: {{type: 'OS::Heat::{kind}', properties: {{{properties}}}}}
"""
    group = read(text).resources[1]
    inside = group.nested.resources if group.nested else ()
    assert [f"{resource.name}{'?' if resource.maybe else ''}" for resource in inside] == names
    assert (group.open_members and group.open_members.expression) == open_


@pytest.mark.parametrize(
    ("kind", "tags", "keys"),
    [
        ("OS::Heat::InstanceGroup", "", ["metering.groupname"]),
        ("OS::Heat::InstanceGroup", "Tags: [{Key: metering.x, Value: y}]", ["metering.x"]),
        ("AWS::AutoScaling::AutoScalingGroup", "", ["metering.groupname", "metering.AutoScalingGroupName"]),
    ],
)
def test_the_instances_of_a_group_are_tagged_with_its_name(kind: str, tags: str, keys: list[str]) -> None:
    text = f"""\
resources:
  lc: {{type: 'AWS::AutoScaling::LaunchConfiguration', properties: {{ImageId: i}}}}
  g: {{type: '{kind}', properties: {{Size: 1, MinSize: 1, LaunchConfigurationName: {{get_resource: lc}}, {tags}}}}}
"""
    group = read(text).resources[1]
    assert group.nested is not None
    [member] = group.nested.resources
    values = ["y" if key == "metering.x" else group.id for key in keys]
    tagged = [{"Key": key, "Value": value} for key, value in zip(keys, values, strict=True)]
    assert member.properties == {"ImageId": "i", "Tags": tagged}


def test_a_group_of_deployments_has_one_for_each_server_with_all_properties_of_the_group() -> None:
    text = """\
parameters: {open: {type: json}}
resources:
  two: {type: 'OS::Heat::SoftwareDeploymentGroup', properties: {config: c, actions: null, servers: {a: s1, b: s2}}}
  tree: {type: 'OS::Heat::StructuredDeploymentGroup', properties: {servers: {a: s1}, input_key: k}}
  any: {type: 'OS::Heat::SoftwareDeployments', properties: {servers: {get_param: open}}}
outputs:
  all: {value: {get_attr: [two, deploy_stdouts]}}
  one: {value: {get_attr: [two, result, b]}}
  open: {value: {get_attr: [any, result]}}
"""
    stack = read(text)
    two, tree, unsure = stack.resources
    shared = {"input_values": None, "actions": ["CREATE", "UPDATE"], "name": None, "signal_transport": "CFN_SIGNAL"}
    assert members(two) == {
        f"web/two/{name}": ("OS::Heat::SoftwareDeployment", {**shared, "config": "c", "server": server})
        for name, server in (("a", "s1"), ("b", "s2"))
    }
    more = {"config": None, "input_key": "k", "input_values_validate": "LAX", "server": "s1"}
    assert members(tree) == {"web/tree/a": ("OS::Heat::StructuredDeployment", {**shared, **more})}
    assert (members(unsure), unsure.open_members) == ({}, unknown_of("{get_param: open} in web"))
    assert stack.outputs == {
        "all": {name: unknown_of(f"{{get_attr: [{name}, deploy_stdout]}} in web/two") for name in ("a", "b")},
        "one": unknown_of("{get_attr: [b, result]} in web/two"),
        "open": unknown_of("{get_attr: [any, result]} in web"),
    }


def test_a_resource_as_a_list_of_texts_is_a_list_of_it() -> None:
    nested = """\
parameters: {list: {type: comma_delimited_list}}
resources: {r: {type: A}}
outputs: {all: {value: {get_param: list}}, first: {value: {get_param: [list, 0]}}}
"""
    text = "resources: {net: {type: A}, in: {type: in.yaml, properties: {list: {get_resource: net}}}}\n"
    tree = read(text, files={"in.yaml": HEAD + nested}).resources[-1].nested
    assert tree is not None
    assert tree.outputs == {
        "all": [ResourceId("web/net")],
        "first": ResourceId("web/net"),
    }


@pytest.mark.parametrize(
    ("properties", "names"),
    [("index_var: null", ["n-0"]), ("index_var: 0, count: 1", ["n-%index%"]), ("removal_policies: null", ["n-0"])],
)
def test_a_property_of_a_group_is_converted_by_its_schema(properties: str, names: list[str]) -> None:
    text = "resources: {g: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: A, properties: {n: n-%index%}}, %s}}}\n"
    group = read(text.replace("%s", properties)).resources[0].nested
    assert group
    assert [member.properties["n"] for member in group.resources] == names


def test_members_of_a_scaling_group_have_its_policies() -> None:
    nested = HEAD + "resources: {r: {type: A, properties: {p: {resource_facade: deletion_policy}}}}\n"
    text = """\
parameters: {pin: {type: string, default: pinned}}
resources:
  g:
    type: OS::Heat::AutoScalingGroup
    properties:
      min_size: 1
      max_size: 1
      resource: {type: n.yaml, deletion_policy: Retain, update_policy: {a: {get_param: pin}}}
"""
    group = read(text, files={"n.yaml": nested}).resources[0].nested
    assert group
    [member] = group.resources
    assert (member.deletion_policy, member.update_policy) == ("Retain", {"a": "pinned"})
    assert members(member) == {"web/g/0/r": ("A", {"p": "Retain"})}
    wrong = problems(text.replace("deletion_policy: R", "deletion_policy: r"), files={"n.yaml": nested})
    assert wrong == [("bad-template", 9, "`retain` is not a deletion policy", "use Delete or Retain")]


@pytest.mark.parametrize(
    ("version", "kind", "path", "value"),
    [
        ("wallaby", "ResourceGroup", "[g, refs, 1]", ResourceId("web/g/1")),
        ("wallaby", "ResourceGroup", "[g, refs_map, '1']", None),
        ("wallaby", "AutoScalingGroup", "[g, refs, 0]", None),
        ("wallaby", "AutoScalingGroup", "[g, refs_map, '1']", None),
        ("2013-05-23", "ResourceGroup", "[g, resource.0, value]", None),
        ("2013-05-23", "ResourceGroup", "[g, refs_map, '1']", ResourceId("web/g/1")),
        ("2013-05-23", "ResourceGroup", "[g, value, 0]", "xy"),
        ("2015-04-30", "ResourceGroup", "[g, value, 0]", ["x", "x"]),
        ("2015-04-30", "ResourceGroup", "[g, resource.0, value]", "xy"),
    ],
)
def test_a_path_into_an_attribute_of_a_group_selects_as_in_heat(
    version: str, kind: str, path: str, value: object
) -> None:
    size = "count: 2, resource_def" if kind == "ResourceGroup" else "min_size: 2, max_size: 2, resource"
    text = f"""\
heat_template_version: {version}
resources:
  g: {{type: OS::Heat::{kind}, properties: {{{size}: {{type: OS::Heat::Value, properties: {{value: xy}}}}}}}}
outputs: {{o: {{value: {{get_attr: {path}}}}}}}
"""
    given = read_stack(text, stack_name="web").outputs["o"]
    assert given == value or (value is None and isinstance(given, Unknown))


@pytest.mark.parametrize(
    ("given", "taken"), [("[a, 'b,c']", ["a", "b", "c"]), ("['']", []), ("[null]", []), ("['', '']", ["", ""])]
)
def test_a_list_goes_to_a_nested_template_as_one_text(given: str, taken: list[str]) -> None:
    nested = HEAD + "parameters: {list: {type: comma_delimited_list}}\n"
    text = f"resources: {{in: {{type: in.yaml, properties: {{list: {given}}}}}}}\n"
    tree = read(text, files={"in.yaml": nested}).resources[0].nested
    assert tree
    assert [parameter.value for parameter in tree.parameters] == [taken]


@pytest.mark.parametrize("kind", ["AWS::ElasticLoadBalancing::LoadBalancer", "AWS::CloudFormation::Stack"])
def test_what_a_stack_of_amazons_kind_holds_is_not_known(kind: str) -> None:
    [resource] = read(f"resources: {{b: {{type: '{kind}'}}}}\n").resources
    members = resource.open_members
    assert (resource.nested, members, members and members.unread) == (None, Unknown(content("web/b")), True)


def test_the_members_of_a_chain_wait_for_each_other() -> None:
    text = "resources: {c: {type: 'OS::Heat::ResourceChain', properties: {resources: [A, B], resource_properties: {x: 1}%s}}}\n"
    for concurrent, required in (("", {"0": "explicit"}), (", concurrent: true", {}), (", concurrent: 'True'", {})):
        nested = read(text % concurrent).resources[0].nested
        assert nested is not None
        assert [(resource.type, resource.properties, resource.requires) for resource in nested.resources] == [
            ("A", {"x": 1}, {}),
            ("B", {"x": 1}, required),
        ]


def test_a_remote_template_that_was_not_given_is_unknown_not_missing() -> None:
    url = "https://example.com/db.yaml"
    db, use = read(
        f"resources: {{db: {{type: '{url}'}}, use: {{type: A, properties: {{x: {{get_attr: [db, y]}}}}}}}}\n"
    ).resources
    assert (db.type, db.nested, db.open_members) == (url, None, Unknown(content(url)))
    assert use.properties == {"x": unknown_of("{get_attr: [db, y]} in web")}


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"a.yaml": HEAD + "resources: {a: {type: a.yaml}}\n"}, "nesting"),
        ({"a.yaml": HEAD + "resources: {b: {type: b.yaml}}\n", "b.yaml": HEAD + "resources: {a: {type: a.yaml}}\n"}, "nesting"),
        ({"a.yaml": "just text"}, "not-a-template"),
        ({"a.yaml": "a: ["}, "yaml"),
        ({"a.yaml": HEAD + "parameters: {}\nresources: {x: {type: A, depends_on: y}}\n"}, "bad-reference"),
        ({f"{a}.yaml": HEAD + f"resources: {{x: {{type: {b}.yaml}}}}\n" for a, b in zip("abcdef", "bcdefg", strict=True)}, "nesting"),
    ],
)  # fmt: skip
def test_errors_of_nested_templates_are_reported_at_the_top(files: dict[str, str], code: str) -> None:
    assert [problem[0] for problem in problems("resources: {r: {type: a.yaml}}\n", files=files)] == [code]


@pytest.mark.parametrize(
    ("registry", "types"),
    [
        ("T: wrap.yaml", ["wrap.yaml", "T"]),
        ("U: T, T: wrap.yaml", ["wrap.yaml", "T"]),
        ("T: group.yaml", ["group.yaml", "OS::Heat::ResourceGroup", "T"]),
        ("T: other.yaml, U: wrap.yaml", ["other.yaml", "wrap.yaml", "T"]),
        ("resources: {r: {T: wrap.yaml}}, T: wrap.yaml", ["wrap.yaml", "wrap.yaml", "T"]),
    ],
)
def test_a_template_may_hold_the_type_that_it_is_mapped_to(registry: str, types: list[str]) -> None:
    group = "{type: OS::Heat::ResourceGroup, properties: {resource_def: {type: T}}}"
    files = {
        "wrap.yaml": HEAD + "resources: {r: {type: T}}\n",
        "other.yaml": HEAD + "resources: {x: {type: U}}\n",
        "group.yaml": HEAD + f"resources: {{g: {group}}}\n",
    }
    kind = "U" if registry.startswith("U") else "T"
    stack: Stack | None = read(
        f"resources: {{r: {{type: {kind}}}}}\n", files=files, environment=f"resource_registry: {{{registry}}}"
    )
    found = []
    while stack:
        found += [resource.type for resource in stack.resources]
        stack = stack.resources[0].nested
    assert found == types


@pytest.mark.parametrize("name", ["count", "min_size", "max_size", "desired_capacity"])
def test_a_negative_size_is_refused(name: str) -> None:
    kind, member = ("ResourceGroup", "resource_def") if name == "count" else ("AutoScalingGroup", "resource")
    text = f"resources: {{g: {{type: OS::Heat::{kind}, properties: {{{name}: -1, {member}: {{type: A}}}}}}}}\n"
    assert ("group-size", 2, f"`{name}` is -1: Heat refuses the group", "write 0 or more") in problems(text)


def test_a_property_that_a_nested_template_does_not_have_is_refused() -> None:
    diagnostics = problems("resources:\n  db: {type: c.yaml, properties: {nam: n}}\n", files={"c.yaml": CHILD})
    assert diagnostics == [("bad-parameter", 3, "there is no parameter `nam`", "did you mean `name`?")]


def test_heat_checks_values_of_parameters_one_stack_deep() -> None:
    sized = HEAD + "parameters: {n: {type: number}}\nresources: {x: {type: A, properties: {n: {get_param: n}}}}\n"
    member = "{type: c.yaml, properties: {n: x}}"
    group = f"resources:\n  g: {{type: OS::Heat::ResourceGroup, properties: {{count: 1, resource_def: {member}}}}}\n"
    message = "parameter `n` can't be 'x': it is not a valid number"
    direct = problems("resources:\n  c: {type: c.yaml, properties: {n: x}}\n", files={"c.yaml": sized})
    assert direct == [("bad-parameter", 3, message, None)]
    warnings = read(group, files={"c.yaml": sized}).warnings
    assert [warning.message for warning in warnings] == [
        f"{message} (Heat finds this only when it creates the resource)"
    ]


def test_resource_facade_reads_the_resource_that_nests_the_template() -> None:
    child = (
        HEAD
        + "resources: {x: {type: A, properties: {m: {resource_facade: metadata}, d: {resource_facade: deletion_policy}}}}\n"
    )
    stack = read("resources: {f: {type: c.yaml, metadata: {k: 1}}, g: {type: c.yaml}}\n", files={"c.yaml": child})
    assert members(stack.resources[0]) == {"web/f/x": ("A", {"m": {"k": 1}, "d": "Delete"})}
    assert members(stack.resources[1]) == {"web/g/x": ("A", {"m": {}, "d": "Delete"})}


def test_a_resource_facade_of_no_resource_warns() -> None:
    stack = read(
        "resources:\n  x: {type: A, metadata: {k: {resource_facade: metadata}}, deletion_policy: {resource_facade: "
        "deletion_policy}}\n  y: {type: A, properties: {p: {resource_facade: metadata}}}\n"
    )
    reason = "`resource_facade` has a value only in a template that another nests: Heat refuses it here"
    said = [(warning.span and (warning.span.line, warning.span.column), warning.message) for warning in stack.warnings]
    assert said == [((3, 77), reason), ((4, 32), reason)]
    assert stack.resources[0].deletion_policy is None


def test_the_members_of_a_group_are_read_in_a_version_of_their_own() -> None:
    text = """
parameters: {data: {type: json, default: {repeat: {for_each: {X: [a, b]}, template: X-here}}}}
resources:
  g:
    type: OS::Heat::ResourceGroup
    properties: {count: 2, resource_def: {type: T, properties: {none: null, list: {get_param: data}, other: {get_resource: h}}}}
  h:
    type: OS::Heat::AutoScalingGroup
    properties: {min_size: 1, max_size: 1, resource: {type: T, properties: {none: null, if: [true, 1, 2]}}}
"""
    group, scaling = (members(resource) for resource in read(text).resources)
    own = {"list": ["a-here", "b-here"], "other": ResourceId("web/h")}
    assert group == {"web/g/0": ("T", own), "web/g/1": ("T", own)}
    assert scaling == {"web/h/0": ("T", {"none": None, "if": [True, 1, 2]})}
