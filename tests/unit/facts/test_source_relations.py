"""The relations of a template's text, environments and deployments."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from datalog_gate import read_stack
from datalog_gate.base.values import SECRET, Unknown, row_key, to_json
from datalog_gate.facts.factset import place_of
from datalog_gate.facts.flatten import flatten
from datalog_gate.facts.lines import write
from datalog_gate.facts.old_relations import add_old_facts
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.declaration import old_version
from datalog_gate.stack.model import Stack
from tests.refusals import refusals

HOT = "heat_template_version: 2021-04-16\n"
TEXT = (
    HOT
    + """\
parameters: {key: {type: string, default: ops}, size: {type: number, default: 2}}
conditions:
  large: {equals: [{get_param: size}, 3]}
  either: {or: [large, {not: large}]}
resources:
  net: {type: OS::Neutron::Net}
  srv:
    type: OS::Nova::Server
    condition: either
    depends_on: net
    metadata: {tier: {if: [large, {get_param: key}, back]}, plain: {and: [a, b]}}
    properties:
      user_data:
        str_replace: {template: {get_file: setup.sh}, params: {$a: {get_attr: [net, show, id]}}}
      networks:
        - network: {if: [large, {get_resource: net}, {get_param: [key, 0]}]}
      key_name: {get_param: {list_join: ['', [k, ey]]}}
  grp:
    type: OS::Heat::ResourceGroup
    properties:
      count: 2
      resource_def: {type: OS::Nova::Server, properties: {image: {get_attr: [net, name]}, name: {get_param: key}}}
  made:
    type: OS::Heat::ResourceGroup
    properties: {count: 1, resource_def: {map_merge: [{type: OS::Heat::None}, {metadata: {get_param: key}}]}}
"""
)
CFN = """\
HeatTemplateFormatVersion: 2012-12-12
Parameters: {Key: {Type: String, Default: ops}}
Resources:
  Net: {Type: OS::Neutron::Net}
  Srv: {Type: AWS::EC2::Instance, Properties: {KeyName: {Ref: Key}, Tags: [{Ref: Net}, {'Fn::GetAtt': [Net, name]}]},
        Metadata: {a: {'Fn::GetAtt': [Net, b.c]}}}
"""
TEXTS = (
    HOT
    + """\
parameters: {key: {type: string, default: ops}}
resources:
  srv:
    type: OS::Nova::Server
    properties:
      name: {get_param: key}
      user_data: {list_join: ["\\n", [{list_join: ['=', [a, {get_param: key}]]}, b], [c, '']]}
      admin_pass: {str_replace_strict: {template: b- b, params: {b: {get_param: key}, b-: {get_param: key}}}}
      metadata:
        a:
          str_replace:
            template: x %k% %k%%kk% y
            params: {'%k%': {get_param: key}, '%kk%': {str_replace_vstrict: {template: '[%n%]', params: {'%n%': 1}}}}
"""
)
CFN_TEXTS = """\
HeatTemplateFormatVersion: 2012-12-12
Parameters: {Key: {Type: String, Default: ops}}
Resources:
  Srv:
    Type: AWS::EC2::Instance
    Properties:
      KeyName: {'Fn::Replace': [{x: {Ref: Key}}, kx]}
      UserData: {'Fn::Base64': {'Fn::Join': ['', [a=, {Ref: Key}, b]]}}
"""
PARTS = ("", ".condition", ".deletion_policy", ".depends_on", ".external_id", ".metadata", ".update_policy")
"""Where a member whose whole definition a function makes has that function."""
UNUSED = (
    HOT
    + """\
parameters: {never: {type: json, default: {a: []}}, far: {type: json}, told: {type: string}, when: {type: boolean}}
conditions: {is: {equals: [{get_param: when}, true]}}
resources:
  gone: {type: OS::Heat::Value, condition: {equals: [1, 2]}, properties: {value: {get_param: far}}}
  srv:
    type: OS::Nova::Server
    properties:
      name: {get_param: [far, {get_param: [far, {get_param: far}]}, {get_param: far}]}
      user_data: {str_replace: {template: a, params: {a: {get_param: far}, b: {get_param: far}}}}
outputs: {o: {value: [{get_param: told}]}}
"""
)
NAME = 'name {"list_join": ["", ["k", "ey"]]} of get_param in stack/srv'
WITHIN = NAME.removesuffix("/srv")
NAMED_AS_FUNCTIONS = """\
AWSTemplateFormatVersion: '2010-09-09'
Parameters: {Key: {Type: String, Default: ops}}
Conditions: {off_: {'Fn::Equals': [1, 2]}}
Resources: {Ref: {Type: OS::Heat::None, Metadata: {a: {'Fn::If': [off_, {Ref: {b: c}}, d]}}}}
Outputs: {Ref: {Value: {Ref: Key}}}
"""
"""A resource and an output have the name of a function; no condition selects the function that Heat refuses."""


def rows(of: Stack, relation: str) -> list[list[object]]:
    """The rows of a relation as plain data, sorted; an unknown is its expression, and maybe rows end with a mark."""
    factset = flatten(of, SHIPPED, [relation])
    assert set(factset.rows) <= {relation}
    maybe = factset.maybe.get(relation, {})
    return [
        [*map(plain, factset.shown(relation, row)), *["maybe"] * (row in maybe)]
        for row in sorted(factset.rows.get(relation, {}), key=row_key)
    ]


def plain(value: object) -> object:
    return f"?{value.expression}" if isinstance(value, Unknown) else to_json(value)  # type: ignore[arg-type]


def stack(text: str, environment: dict[str, object] | None = None) -> Stack:
    return read_stack(template=text, environment=environment, files={"setup.sh": "x", "in.yaml": INNER})


INNER = HOT + "resources: {db: {type: OS::Heat::None}, web: {type: OS::Heat::None}}\n"


@pytest.mark.parametrize(
    ("text", "relation", "expected"),
    [
        (TEXT, "heat:function", [
            ["stack/grp", "resource_def.properties.image", "get_attr"],
            ["stack/grp", "resource_def.properties.name", "get_param"],
            ["stack/grp/0", "image", "get_attr"], ["stack/grp/0", "name", "get_param"],
            ["stack/grp/1", "image", "get_attr"], ["stack/grp/1", "name", "get_param"],
            ["stack/made", "resource_def", "get_param"], ["stack/made", "resource_def", "map_merge"],
            *(["stack/made/0", path, name] for path in PARTS for name in ("get_param", "map_merge")),
            ["stack/srv", ".condition", "equals"], ["stack/srv", ".condition", "get_param"],
            ["stack/srv", ".condition", "not"], ["stack/srv", ".condition", "or"],
            ["stack/srv", ".metadata.tier", "equals"], ["stack/srv", ".metadata.tier", "get_param"],
            ["stack/srv", ".metadata.tier", "if"],
            ["stack/srv", "key_name", "get_param"], ["stack/srv", "key_name", "list_join"],
            ["stack/srv", "networks.0.network", "equals"], ["stack/srv", "networks.0.network", "get_param"],
            ["stack/srv", "networks.0.network", "get_resource"], ["stack/srv", "networks.0.network", "if"],
            ["stack/srv", "user_data", "get_attr"], ["stack/srv", "user_data", "get_file"],
            ["stack/srv", "user_data", "str_replace"],
        ]),
        (TEXT, "heat:attribute", [
            ["stack/grp", "resource_def.properties.image", "stack/net", "name"],
            ["stack/grp/0", "image", "stack/net", "name"], ["stack/grp/1", "image", "stack/net", "name"],
            ["stack/srv", "user_data", "stack/net", "show"],
        ]),
        (TEXT, "heat:uses_parameter", [
            ["stack/grp", "resource_def.properties.name", "key"],
            ["stack/grp/0", "name", "key"], ["stack/grp/1", "name", "key"],
            ["stack/made", "resource_def", "key"],
            *(["stack/made/0", path, "key"] for path in PARTS),
            ["stack/srv", ".condition", "size"], ["stack/srv", ".metadata.tier", "key"],
            ["stack/srv", ".metadata.tier", "size"], ["stack/srv", "key_name", f"?{NAME}"],
            ["stack/srv", "networks.0.network", "key"], ["stack/srv", "networks.0.network", "size"],
        ]),
        (TEXTS, "heat:text", [
            ["stack/srv", "admin_pass", "$ $\n$\n$"],
            ["stack/srv", "metadata.a", "x $ $$ y\n$\n[$]\n$"],
            ["stack/srv", "user_data", "a=$\nb\nc\n"],
        ]),
        (CFN_TEXTS, "heat:text", [["stack/Srv", "KeyName", "k$\n$"], ["stack/Srv", "UserData", "a=$b"]]),
        (TEXT, "heat:text", []),
        (TEXT, "heat:uses_file", [["stack/srv", "user_data", "setup.sh"]]),
        (TEXT, "heat:section", [["stack", name] for name in
                                ("conditions", "heat_template_version", "parameters", "resources")]),
        (CFN, "heat:function", [["stack/Srv", ".metadata.a", "Fn::GetAtt"], ["stack/Srv", "KeyName", "Ref"],
                                ["stack/Srv", "Tags.0", "Ref"], ["stack/Srv", "Tags.1", "Fn::GetAtt"]]),
        (CFN, "heat:attribute", [["stack/Srv", ".metadata.a", "stack/Net", "b.c"],
                                 ["stack/Srv", "Tags.1", "stack/Net", "name"]]),
        (CFN, "heat:uses_parameter", [["stack/Srv", "KeyName", "Key"]]),
        (TEXT, "heat:used_parameter", [["stack", "key"], ["stack", "size"], ["stack", f"?{WITHIN}"]]),
        (CFN, "heat:used_parameter", [["stack", "Key"]]),
        (NAMED_AS_FUNCTIONS, "heat:used_parameter", [["stack", "Key"], ["stack", '?name {"b": "c"} of Ref in stack']]),
        (UNUSED, "heat:used_parameter", [["stack", "far"], ["stack", "told"], ["stack", "when"]]),
        (UNUSED, "heat:nested_function", [["stack/srv", "name", "get_param", at] for at in (2, 3)]),
        (UNUSED, "heat:parameter_attribute", [["stack", "never", "default", '{"a":[]}']]),
    ],
)  # fmt: skip
def test_what_the_text_says_is_a_row_before_any_function_is_resolved(
    text: str, relation: str, expected: list[list[object]]
) -> None:
    assert rows(stack(text), relation) == expected


def test_an_unknown_text_is_no_map() -> None:
    text = (
        HOT
        + """\
parameters: {a: {type: string}, b: {type: number}, c: {type: boolean}, d: {type: json}, e: {type: comma_delimited_list}}
resources:
  srv:
    type: OS::Nova::Server
    properties:
      metadata:
        text: [{get_param: a}, {get_param: b}, {get_param: c}]
        made: {str_replace: {template: x, params: {x: {get_param: a}}}}
        map: {get_param: d}
        list: {get_param: e}
"""
    )
    metadata = rows(stack(text), "os:nova:server.metadata")
    assert [row[1] for row in metadata if row[-1] != "maybe"] == ["made", "text.0", "text.1", "text.2"]
    assert [row[1] for row in metadata if row[-1] == "maybe" and "any" not in str(row[1])] == ["list", "map"]


def test_environments_give_what_they_say_and_where() -> None:
    env = {
        "parameters": {"secret": "abc", "tags": ["a", {"b.c": True}]},
        "parameter_defaults": {"secret": "xyz"},
        "resource_registry": {"My::A": "OS::Heat::None"},
    }
    text = HOT + "parameters: {secret: {type: string, hidden: true}, tags: {type: json}}\n"
    text += "resources: {a: {type: OS::Heat::None}}"
    of = read_stack(template=text, environment="parameters:\n  secret: x\n  tags: [1]\n")
    assert rows(stack(text, env), "heat:environment") == [
        ["<environment>", "parameter_defaults", "secret", f"?{SECRET.expression}"],
        ["<environment>", "parameters", "secret", f"?{SECRET.expression}"],
        ["<environment>", "parameters", "tags.0", "a"],
        ["<environment>", "parameters", r"tags.1.b\.c", True],
        ["<environment>", "resource_registry", "My::A", "OS::Heat::None"],
    ]
    assert [str(place_of(origin)) for _, _, origin in flatten(of, SHIPPED, ["heat:environment"]) if origin] == [
        "<environment>:2:11",
        "<environment>:3:10",
    ]


REGISTRY = {
    "My::A": "in.yaml",
    "resources": {
        "*": {"hooks": "pre-create"},
        "we*": {"hooks": ["post-delete", "pre-create"], "restricted_actions": "update"},
        "nest": {"restricted_actions": ["replace", "update"], "db": {"hooks": "pre-update"}, "w*": {"hooks": []}},
        "n*": {"web": {"restricted_actions": "replace"}},
        "*st": {"web": {}},
    },
}


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("heat:hook", [["stack/nest", "pre-create"], ["stack/nest/db", "pre-update"],
                       ["stack/web", "post-delete"], ["stack/web", "pre-create"]]),
        ("heat:restricted", [["stack/nest", "replace"], ["stack/nest", "update"], ["stack/nest/web", "replace"],
                             ["stack/web", "update"]]),
    ],
)  # fmt: skip
def test_hooks_and_restrictions_match_by_pattern_and_by_nesting(relation: str, expected: list[list[object]]) -> None:
    text = HOT + "resources: {web: {type: OS::Heat::None}, nest: {type: My::A}}"
    assert rows(stack(text, {"resource_registry": REGISTRY}), relation) == expected


@pytest.mark.parametrize(
    "restriction", [{"hooks": ["pre-create", "pre-suspend"]}, {"restricted_actions": {"update": 1}}]
)
def test_a_hook_or_restriction_that_heat_has_not_is_refused(restriction: dict[str, object]) -> None:
    text = HOT + "resources: {web: {type: OS::Heat::None}}"
    environment: dict[str, object] = {"resource_registry": {"resources": {"web": restriction}}}
    assert refusals(lambda: stack(text, environment), "code") == ["bad-environment"]


SCALED = """\
parameters: {n: {type: number}}
resources:
  a: {type: OS::Heat::AutoScalingGroup, properties: {min_size: 1, max_size: '5', resource: {type: OS::Heat::None}}}
  b: {type: OS::Heat::AutoScalingGroup, properties: {min_size: 1, max_size: {get_param: n}, desired_capacity: 2,
                                                     resource: {type: OS::Heat::None}}}
  c: {type: OS::Heat::ResourceGroup, properties: {count: 2, resource_def: {type: OS::Heat::None}}}
"""


def test_scaling_groups_have_bounds_and_a_size_to_begin_with() -> None:
    assert rows(stack(HOT + SCALED), "heat:scaling") == [
        ["stack/a", 1, 5, 1],
        ["stack/b", 1, "?{get_param: n} in stack", 2],
    ]


DEPLOYED = """\
parameters: {n: {type: string}, when: {type: boolean}, names: {type: comma_delimited_list}, map: {type: json}}
resources:
  srv: {type: OS::Nova::Server, properties: {image: i}}
  cfg: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: 'true', inputs: [
      {name: a}, {name: b, default: 3}]}}
  part: {type: OS::Heat::SoftwareComponent, properties: {configs: [
      {tool: script, config: x}, {tool: script, config: y, actions: [DELETE]}]}}
  tree: {type: OS::Heat::StructuredConfig, properties: {config: {k: {get_param: n}}}}
  d_cfg: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: cfg}, server: {get_resource: srv},
      actions: [DELETE], input_values: {a: 1, c: 2}}}
  d_part: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: part}, server: s, actions: [RESUME]}}
  d_tree: {type: OS::Heat::StructuredDeployment, properties: {config: {get_resource: tree}, server: s,
      actions: [CREATE]}}
  d_cloud: {type: OS::Heat::SoftwareDeployment, properties: {config: c-17, server: s, actions: [CREATE]}}
  new: {type: OS::Heat::SoftwareConfig, condition: {get_param: when}}
  d_new: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: new}, server: s, actions: [CREATE]}}
  d_none: {type: OS::Heat::SoftwareDeployment, properties: {server: s}}
  d_never: {type: OS::Heat::SoftwareDeployment, properties: {server: s, actions: []}}
  d_open: {type: OS::Heat::SoftwareDeployment, properties: {server: s, actions: {get_param: names}}}
  g_two: {type: OS::Heat::SoftwareDeploymentGroup, properties: {servers: {x: s1, y: s2}, actions: [CREATE]}}
  g_open: {type: OS::Heat::StructuredDeployments, properties: {servers: {get_param: map}}}
"""


def digest(group: str, config: object, inputs: list[object], key: str | None = None) -> str:
    data = {"group": group, "config": config, "options": {}, "inputs": inputs, "outputs": [], "input_key": key}
    return sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def test_a_deployment_finds_its_configuration_in_the_stacks_around_it() -> None:
    inner = "parameters: {c: {type: string}}\nresources: {cfg: {type: OS::Heat::SoftwareConfig}, d: DEPLOYMENT}\n"
    deployment = "{type: OS::Heat::SoftwareDeployment, properties: {config: CONFIG, server: s, actions: [CREATE]}}"
    text = f"""\
resources:
  cfg: {{type: OS::Heat::SoftwareConfig, properties: {{config: 'true'}}}}
  grp: {{type: OS::Heat::ResourceGroup, properties: {{count: 1, resource_def: {deployment}}}}}
  nest: {{type: nest.yaml, properties: {{c: {{get_resource: cfg}}}}}}
"""
    nest = HOT + inner.replace("DEPLOYMENT", deployment.replace("CONFIG", "{get_param: c}"))
    of = read_stack(template=HOT + text.replace("CONFIG", "{get_resource: cfg}"), files={"nest.yaml": nest})
    same = digest("Heat::Ungrouped", "true", [])
    assert rows(of, "heat:deployment") == [
        [name, "stack/cfg", "s", "CREATE", same] for name in ("stack/grp/0", "stack/nest/d")
    ]


@pytest.mark.parametrize(
    ("configuration", "deployment", "hidden"),
    [
        ("config: {get_param: key}", "config: {get_resource: cfg}, actions: [CREATE]", {"digest"}),
        (
            "inputs: [{name: a, default: {get_param: key}}]",
            "config: {get_resource: cfg}, actions: [CREATE]",
            {"digest"},
        ),
        ("", "config: {get_resource: cfg}, actions: [{get_param: key}]", {"action", "digest"}),
        ("", "config: {get_param: key}, actions: [CREATE]", {"config", "server", "action", "digest"}),
    ],
)
def test_what_a_deployment_takes_of_a_secret_is_not_shown(
    configuration: str, deployment: str, hidden: set[str]
) -> None:
    text = f"""\
parameters: {{key: {{type: string, hidden: true, default: abc}}}}
resources:
  cfg: {{type: OS::Heat::SoftwareConfig, properties: {{{configuration}}}}}
  d: {{type: OS::Heat::SoftwareDeployment, properties: {{server: s, {deployment}}}}}
"""
    [line] = write(flatten(stack(HOT + text), SHIPPED, ["heat:deployment"]))
    row = json.loads(line)["row"]
    assert {column for column in row if row[column] == {"$hidden": True}} == hidden


def test_the_digest_of_a_configuration_changes_with_every_unknown_in_it() -> None:
    text = """\
resources:
  one: {type: OS::Neutron::Net}
  two: {type: OS::Neutron::Net, properties: {name: NAME}}
  cfg: {type: OS::Heat::SoftwareConfig, properties: {config: '', inputs: [
      {name: a, default: {get_attr: [one, mtu]}}, {name: b, default: {get_attr: [two, mtu]}}]}}
  d: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: cfg}, server: s, actions: [CREATE]}}
"""
    old, new = (stack(HOT + text.replace("NAME", name)) for name in ("a", "b"))
    facts = flatten(new, SHIPPED, ["heat:deployment"])
    before = old_version("heat:deployment")
    add_old_facts(facts, [old], [new], SHIPPED, [before])
    assert [row[4] for row in facts.rows[before]] != [row[4] for row in facts.rows["heat:deployment"]]


def test_deployments_have_a_digest_of_all_that_they_configure() -> None:
    nothing = digest("Heat::Ungrouped", None, [])
    parts = [{"tool": "script", "config": "x"}, {"tool": "script", "config": "y", "actions": ["DELETE"]}]
    whole = digest("component", parts, [])
    digested = digest(
        "script",
        "true",
        [{"name": "a", "value": 1}, {"name": "b", "default": 3, "value": 3}, {"name": "c", "value": 2}],
    )
    deployments = rows(stack(HOT + DEPLOYED), "heat:deployment")
    assert [row for row in deployments if not str(row[4]).startswith("?")] == [
        ["stack/d_cfg", "stack/cfg", "stack/srv", "DELETE", digested],
        ["stack/d_none", None, "s", "CREATE", nothing],
        ["stack/d_none", None, "s", "UPDATE", nothing],
        *(["stack/d_part", "stack/part", "s", action, whole] for action in ("CREATE", "DELETE", "UPDATE")),
        ["stack/g_two/x", None, "s1", "CREATE", nothing],
        ["stack/g_two/y", None, "s2", "CREATE", nothing],
    ]
    of_any = "of heat:deployment in {} {}: {{get_param: {}}} in stack"
    names = of_any.format("stack/d_open null s", "properties", "names")
    members = "of heat:deployment in members.stack/g_open: {get_param: map} in stack"
    assert [row for row in deployments if str(row[4]).startswith("?")] == [
        [
            "stack/d_cloud",
            "c-17",
            "s",
            "CREATE",
            "?digest of stack/d_cloud: what Heat makes of config of stack/d_cloud",
        ],
        ["stack/d_new", "stack/new", "s", "CREATE", "?digest of stack/d_new: {get_param: when} in stack"],
        ["stack/d_open", None, "s", f"?any action {names}", f"?any digest {names}", "maybe"],
        [
            "stack/d_tree",
            "stack/tree",
            "s",
            "CREATE",
            f"?digest of {sha256(TREE.encode()).hexdigest()}: {{get_param: n}} in stack",
        ],
        [*(f"?any {column} {members}" for column in ("id", "config", "server", "action", "digest")), "maybe"],
    ]


TREE = (
    "json("
    '{"config":{"k":{"$unknown":"{get_param: n} in stack"}},"group":"Heat::Ungrouped","input_key":"get_input",'
    '"inputs":[],"options":{},"outputs":[]})'
)
