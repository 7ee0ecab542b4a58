"""What Heat would refuse, one mistake at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError
from datalog_gate.files.templates import read_stack
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Data
from datalog_gate.validation.deprecation import find_deprecated
from datalog_gate.validation.refusals import find_further_refusals, find_refusals
from datalog_gate.validation.texts import find_reason

HEAD = "heat_template_version: 2018-08-31\n"
LATER = "(Heat finds this only when it creates the resource)"


def said(template: str, *environments: str, folder: Path | None = None) -> list[str]:
    """What is said of a template: place, severity, code, message and help."""
    try:
        if folder is None:
            found = find_refusals(read_stack(template), SHIPPED)
        else:
            found = find_refusals(
                read_stack(folder / template, environments=[folder / e for e in environments]), SHIPPED
            )
    except InputError as error:
        found = (*error.diagnostics, *find_further_refusals(error, SHIPPED))
    return [_line(problem) for problem in found]


def _line(problem: Diagnostic) -> str:
    span, help_ = problem.span, f"; {problem.suggestion}" if problem.suggestion else ""
    place = f"{Path(span.file).name.removeprefix('<')[:1]}{span.line}:{span.column} " if span else ""
    return f"{place}{problem.severity}[{problem.code}] {problem.message}{help_}"


def of_resources(resources: str) -> list[str]:
    """What is said of the lines of the section `resources`, without the file."""
    lines = "".join(f"  {line}\n" for line in resources.splitlines())
    return [line[1:] for line in said(f"{HEAD}resources:\n{lines}")]


NET = "n: {type: OS::Neutron::Net}\n"
PROPERTIES = {
    "v: {type: OS::Cinder::Volum}": "3:13 error[unknown-type] there is no resource type OS::Cinder::Volum; "
    "did you mean `OS::Cinder::Volume`?",
    "v: {type: OS::Cindr::Volume}": "3:13 error[unknown-type] there is no resource type OS::Cindr::Volume; "
    "did you mean `OS::Cinder::Volume`?",
    "v: {type: os::cinder::volume}": "3:13 error[unknown-type] there is no resource type os::cinder::volume; "
    "did you mean `OS::Cinder::Volume`?",
    "n: {type: 'OS:Neutron:Net'}": "3:13 error[unknown-type] there is no resource type OS:Neutron:Net; "
    "did you mean `OS::Neutron::Net`?",
    f"{NET}v: {{type: OS::Heat::Value, properties: {{value: {{get_attr: [n, 1]}}}}}}": "4:50 error[bad-function] "
    "`get_attr` takes a text as the attribute, and texts or numbers as keys",
    "v: {type: ''}": "3:3 error[bad-template] the resource `v` needs a `type`",
    "v: {type: Acme::Volume}": "3:13 warning[unknown-type] the resource type Acme::Volume is not in the catalogue: its "
    "properties are not checked; map it in an environment, or give the catalogue of its plugin with --catalogue",
    "n: {type: lib/net.yml}": "3:13 error[unknown-type] there is no resource type lib/net.yml; the name of a template "
    "ends with .yaml or .template",
    "v: {type: OS::Heat::Value, properties: {value: {str_replace: {template: a, param: {}}}}}": "3:50 "
    "error[bad-function] `str_replace` takes a map of `template` and `params`; did you mean `params`?",
    "n: {type: OS::Neutron::Net, properties: {nmae: x}}": "3:44 error[unknown-property] OS::Neutron::Net has no "
    "property `nmae`; did you mean `name`?",
    "v: {type: OS::Cinder::VolumeAttachment, properties: {instance_uuid: x, volume_id: y, colour: z}}": "3:88 "
    "error[unknown-property] OS::Cinder::VolumeAttachment has no property `colour`; it has instance_uuid, mountpoint, "
    "volume_id",
    "s: {type: OS::Nova::Server, properties: {flavor: f, networks: [{nework: n}]}}": "3:67 error[unknown-property] "
    "`networks[0]` has no property `nework`; did you mean `network`?",
    "s: {type: OS::Nova::Server, properties: {image: i}}": "3:3 error[missing-property] OS::Nova::Server needs the "
    "property `flavor`; add `flavor`, a text",
    "s: {type: OS::Nova::Server, properties: {flavour: f}}": "3:44 error[unknown-property] OS::Nova::Server has no "
    "property `flavour`; did you mean `flavor`?",  # the flavor is not missing besides
    "p: {type: OS::Neutron::Port, properties: {netwrk_id: n}}": "3:45 error[unknown-property] OS::Neutron::Port has no "
    "property `netwrk_id`; did you mean `network_id`?",
    "p: {type: OS::Neutron::Port, properties: {network: n, allowed_address_pairs: [{}]}}": "3:81 "
    "error[missing-property] `allowed_address_pairs[0]` needs the property `ip_address`; add `ip_address`, a text",
    "v: {type: OS::Cinder::Volume, properties: {size: big}}": "3:52 error[wrong-kind] `size` of OS::Cinder::Volume "
    "takes a whole number, not `big`",
    "n: {type: OS::Neutron::Network}": "3:13 warning[unknown-type] the resource type OS::Neutron::Network is not in "
    "the catalogue: its properties are not checked; did you mean `OS::Neutron::Net`? If not, map it in an environment, "
    "or give the catalogue of its plugin with --catalogue",
    "n: {type: OS::Neutron::Net, properties: {name: {get_parm: x}}}": "3:50 error[wrong-kind] `name` of "
    "OS::Neutron::Net takes a text, not a map; did you mean `get_param`?",
    "n: {type: OS::Neutron::Net, properties: {name: 1.5}}": "3:50 error[wrong-kind] `name` of OS::Neutron::Net takes a "
    "text, not `1.5`",
    "n: {type: OS::Neutron::Net, properties: {shared: 1}}": "3:52 error[wrong-kind] `shared` of OS::Neutron::Net takes "
    "true or false, not `1`",
    "n: {type: OS::Neutron::Net, properties: {tags: a}}": "3:50 error[wrong-kind] `tags` of OS::Neutron::Net takes a "
    "list, not `a`",
    "n: {type: OS::Neutron::Net, properties: {value_specs: [a]}}": "3:57 error[wrong-kind] `value_specs` of "
    "OS::Neutron::Net takes a map, not a list",
    "s: {type: OS::Neutron::Subnet, properties: {network: n, ip_version: 5}}": "3:71 error[not-allowed] `ip_version` "
    "of OS::Neutron::Subnet can't be `5`; one of 4, 6",
    "s: {type: OS::Neutron::Subnet, properties: {network: n, ipv6_ra_mode: slac}}": "3:73 error[not-allowed] "
    "`ipv6_ra_mode` of OS::Neutron::Subnet can't be `slac`; did you mean `slaac`?",
    "s: {type: OS::Neutron::Subnet, properties: {network: n, ipv6_ra_mode: null}}": "3:73 error[not-allowed] "
    "`ipv6_ra_mode` of OS::Neutron::Subnet can't be an empty text; one of dhcpv6-stateful, dhcpv6-stateless, slaac",
    "v: {type: OS::Cinder::Volume, properties: {size: 0}}": "3:52 error[out-of-range] `size` of OS::Cinder::Volume "
    "must be at least 1, not `0`",
    "q: {type: OS::Heat::RandomString, properties: {length: 513}}": "3:58 error[out-of-range] `length` of "
    "OS::Heat::RandomString must be 1 to 512, not `513`",
    "g: {type: OS::Neutron::NetworkGateway, properties: {devices: []}}": "3:64 error[bad-length] `devices` of "
    "OS::Neutron::NetworkGateway must have a length of at least 1, not 0",
    "s: {type: OS::Neutron::Subnet, properties: {network: n, cidr: 10.0.0.300/24}}": "3:65 error[bad-text] `cidr` of "
    "OS::Neutron::Subnet can't be `10.0.0.300/24`: it is not a network: 10.0.0.300 is not an IP address",
    "p: {type: OS::Neutron::Port, properties: {network: n, network_id: m}}": "3:69 error[not-allowed] `network_id` of "
    "OS::Neutron::Port is the same as `network`; give one of them",
    "n: {type: OS::Neutron::Net, deletion_policy: Snapshot}": "3:48 error[not-allowed] OS::Neutron::Net has no "
    "deletion policy Snapshot; use Delete or Retain",
    "n: {type: OS::Neutron::Net, external_id: x, deletion_policy: Keep}": "3:64 error[bad-template] `Keep` is not a "
    "deletion policy; use Delete or Retain",
    "n: {type: OS::Neutron::Net, update_policy: {rolling: {}}}": "3:47 error[unknown-property] the update policy of "
    "OS::Neutron::Net has no property `rolling`; leave it out",
    "g: {type: OS::Heat::ResourceGroup, update_policy: {batch_creat: {}, rolling_update: {max_batch_size: 0, "
    "pause_time: a, min_in_servce: 1}}, properties: {resource_def: {type: OS::Heat::None}}}": "3:54 "
    "error[unknown-property] the update policy of OS::Heat::ResourceGroup has no property `batch_creat`; did you "
    "mean `batch_create`?\n"
    "3:104 error[out-of-range] `rolling_update.max_batch_size` of the update policy of OS::Heat::ResourceGroup must be "
    "at least 1, not `0`\n"
    "3:119 error[wrong-kind] `rolling_update.pause_time` of the update policy of OS::Heat::ResourceGroup takes a "
    "number, not `a`\n"
    "3:122 error[unknown-property] `rolling_update` has no property `min_in_servce`; did you mean `min_in_service`?",
    "v: {type: OS::Heat::Value, properties: {type: number, value: abc}}": "3:64 error[wrong-kind] `value` of "
    "OS::Heat::Value takes a number, not `abc`",
    "v: {type: OS::Heat::Value, properties: {type: json, value: [1]}}": "3:62 error[wrong-kind] `value` of "
    "OS::Heat::Value takes a map, not a list",
    "s: {type: OS::Nova::Server, external_id: x, properties: {user_data_format: [RAW]}}": "3:78 error[wrong-kind] "
    "`user_data_format` of OS::Nova::Server takes a text, not a list",
    "n: {type: OS::Heat::None, properties: {a: {get_resource: {get_param: n}}}}": "3:72 error[bad-reference] there is "
    "no parameter `n`",
    "n: {type: OS::Heat::None, properties: {a: {if: [{get_param: n}, a, b]}}}": "3:63 error[bad-reference] there is "
    "no parameter `n`",
    "n: {type: OS::Heat::None, properties: {a: {get_resource: o}}}": "3:60 error[bad-reference] there is no resource "
    "`o`",
    "n: {type: OS::Neutron::Net, external_id: x, depends_on: [o]}\no: {type: OS::Neutron::Net}": "3:59 "
    "error[not-allowed] a resource with `external_id` can't depend on others; leave out `depends_on`",
    NET + "s: {type: OS::Nova::Server, properties: {flavor: f, networks: [{nework: {get_resource: n}}]}}": "4:67 "
    f"warning[unknown-property] `networks[0]` has no property `nework` {LATER}; did you mean `network`?",
    NET + "p: {type: OS::Neutron::Port, properties: {network: n, allowed_address_pairs: [{ip_adress: {get_attr: "
    "[n, mtu]}}]}}": "4:82 error[unknown-property] `allowed_address_pairs[0]` has no property `ip_adress`; did you "
    "mean `ip_address`?",  # what is needed is refused at once
    "n: {type: OS::Neutron::Net, properties: {nmae: {get_param: nothing}, shared: perhaps}}\n"
    "v: {type: OS::Cinder::Volum}": "3:62 error[bad-reference] there is no parameter `nothing`\n"
    "3:44 error[unknown-property] OS::Neutron::Net has no property `nmae`; did you mean `name`?\n"
    "3:80 error[wrong-kind] `shared` of OS::Neutron::Net takes true or false, not `perhaps`\n"
    "4:13 error[unknown-type] there is no resource type OS::Cinder::Volum; did you mean `OS::Cinder::Volume`?",
    "n: {type: OS::Neutron::Net, properties: {tags: {a: {get_param: nothing}}}}": "3:66 error[bad-reference] there is "
    "no parameter `nothing`\n3:50 error[wrong-kind] `tags` of OS::Neutron::Net takes a list, not a map",
    "n: {type: OS::Neutron::Net, condition: nothing}\n"
    "s: {type: OS::Neutron::Subnet, properties: {network: {get_resource: n}, cidr: {if: [nothing, x, y]}}}": "3:42 "
    "error[bad-reference] there is no condition `nothing`\n4:87 error[bad-reference] there is no condition `nothing`",
}
"""Resources, and what is said of them."""


@pytest.mark.parametrize("resource", PROPERTIES)
def test_each_mistake_is_said_with_its_place(resource: str) -> None:
    assert of_resources(resource) == PROPERTIES[resource].splitlines()


@pytest.mark.parametrize(
    "resources",
    [
        "p: {type: OS::Neutron::Port, properties: {network_id: n}}",  # the old name of a property that it needs
        "s: {type: OS::Nova::Server, properties: {flavor: null}}",  # for Heat an empty text
        "v: {type: OS::Cinder::Volume, properties: {size: '2'}}",
        "v: {type: OS::Cinder::Volume, properties: {size: 2.5}}",
        "v: {type: OS::Cinder::Volume, properties: {size: {get_attr: [v2, size]}}}\n"
        "v2: {type: OS::Cinder::Volume, properties: {size: 1}}",
        "n: {type: OS::Heat::None, properties: {nmae: [x]}}",
        "n: {type: OS::Neutron::Net, external_id: x, properties: {nmae: x}}",
        NET + "o: {type: OS::Neutron::Net, external_id: x, depends_on: []}",
        NET + "o: {type: OS::Neutron::Net, external_id: '', depends_on: n}",
        NET + "o: {type: OS::Neutron::Net, external_id: {if: [true, null, x]}, depends_on: n}",
        "s: {type: OS::Nova::Server, external_id: x, properties: {flavor: [x], user_data_format: x}}",
        "n: {type: OS::Neutron::Nett, condition: false}",
        "r: {type: OS::Neutron::SecurityGroup, properties: {rules: [{protocol: 6}]}}",
        NET + "o: {type: OS::Heat::Value, properties: {value: {get_attr: [n, show]}}}",
        NET + "o: {type: OS::Heat::Value, properties: {value: {if: [true, x, {get_attr: [n, y]}]}}}",  # it is not taken
    ],
)
def test_what_heat_accepts_is_not_refused(resources: str) -> None:
    assert of_resources(resources) == []


def test_attributes_and_names() -> None:
    outputs = "outputs: {a: {value: {get_attr: [n, statu]}}, b: {value: {get_attr: [s, x, y]}}}\n"
    template = (
        f"{HEAD}parameters: {{n: {{type: string, default: x}}}}\nresources:\n  {NET}"
        f"  s: {{type: OS::Heat::SoftwareDeployment, properties: {{server: s, config: c}}}}\n{outputs}"
    )
    assert said(template) == [
        "t4:3 error[duplicate-name] `n` is a parameter and a resource; give one of them another name",
        "t6:37 error[unknown-attribute] OS::Neutron::Net has no attribute `statu`; did you mean `status`?",
    ]


MEMBER = "{type: OS::Heat::RandomString, properties: {lenght: 5}}"
GROUPS = {
    f"OS::Heat::ResourceGroup, properties: {{resource_def: {MEMBER}}}": (
        "resource.0.valu resource.0,valu attributes,valu valu refs_mp",
        "resource.0.value,x resource.9.valu refs_map,x attributes resource.0 show",
    ),
    "OS::Heat::ResourceChain, properties: {resources: [OS::Heat::RandomString, Acme::Disk]}": (
        "resource.0.valu attributes,valu refs_map",
        "attributes,value refs,0 resource.7.valu resource.1.valu",
    ),
    f"OS::Heat::AutoScalingGroup, properties: {{max_size: 1, min_size: 1, resource: {MEMBER}}}": (
        "outputs,valu outputs_list,valu resource.7.valu resource.0,valu",
        "outputs_list,value valu resource.0 current_size",
    ),
}
"""Groups, with the attributes that Heat refuses and those that it accepts."""


@pytest.mark.parametrize("group", GROUPS)
def test_attributes_of_members(group: str) -> None:
    wrong, right = (part.split() for part in GROUPS[group])
    outputs = "".join(f"  {at}: {{value: {{get_attr: [g, {at}]}}}}\n" for at in (*wrong, *right))
    found = said(f"{HEAD}resources:\n  g: {{type: {group}}}\noutputs:\n{outputs}")
    said_of = [line.split(":")[0] for line in found if "error[unknown-attribute] OS::Heat::RandomString has no" in line]
    assert said_of == [f"t{line}" for line in range(5, 5 + len(wrong))]


def test_what_a_misspelt_section_or_key_holds_is_read() -> None:
    resources = (
        "  v: {tpe: OS::Cinder::Volume, properties: {size: {get_param: size}, nmae: x}}\n"
        "  w: {type: OS::Cinder::Volume, proprties: {size: 0}}\n"
    )
    assert said(f"{HEAD}paramters: {{size: {{type: number}}}}\nresourcs:\n{resources}") == [
        "t2:1 error[bad-template] a template has no section `paramters`; did you mean `parameters`?",
        "t3:1 error[bad-template] a template has no section `resourcs`; did you mean `resources`?",
        "t4:7 error[bad-template] a resource has no key `tpe`; did you mean `type`?",
        "t5:33 error[bad-template] a resource has no key `proprties`; did you mean `properties`?",
        "t4:70 error[unknown-property] OS::Cinder::Volume has no property `nmae`; did you mean `name`?",
        "t5:51 error[out-of-range] `size` of OS::Cinder::Volume must be at least 1, not `0`",
    ]


def test_a_misspelt_type_hides_no_other_mistake() -> None:
    wrong = "properties: {nmae: x, value_specs: 1}"
    for types in ("os::neutron::net", "OS::Neutrn2::Net"), ("OS::Neutron::Network", "OS::Neutron::Nix"):
        found = [
            of_resources(f"n: {{type: {kind}{more}, {wrong}}}") for kind in types for more in ("", ", metadata: {a: x}")
        ]
        codes = [[line.split("[")[1].split("]")[0] for line in lines] for lines in found]
        sure = types[0] == "os::neutron::net"
        assert codes == 4 * [["unknown-type", *(["unknown-property", "wrong-kind"] if sure else [])]]
    nets = "n: {type: OS:N:eutron::Net, properties: {shared: x}}\no: {type: OS::Heat::Value, properties: {value: "
    assert [line.split("; ")[0] for line in of_resources(nets + "{get_attr: [n, nmae]}}}")] == [
        "3:13 error[unknown-type] there is no resource type OS:N:eutron::Net",
        "3:52 error[wrong-kind] `shared` of OS::Neutron::Net takes true or false, not `x`",
        "4:65 error[unknown-attribute] OS::Neutron::Net has no attribute `nmae`",
    ]


def test_a_resource_may_have_a_mistake_beside_what_can_not_be_read() -> None:
    template = "parameters: {n: {type: string}}\nresources: {n: {type: OS::Neutron::Net, depends_on: n}}"
    assert [line.split("]")[0] for line in said(HEAD + template)] == [
        "t3:13 error[bad-reference",
        "t3:13 error[duplicate-name",
    ]


def test_all_mistakes_of_a_parameter_are_said() -> None:
    parameters = "{a: {type: strin, colour: x, defualt: 1}, b: {typ: number, default: x, labl: []}}"
    assert said(f"{HEAD}parameters: {parameters}\nresources: {{}}") == [
        "t2:14 error[bad-template] the definition of parameter `a` has no key `colour`",
        "t2:14 error[bad-template] the definition of parameter `a` has no key `defualt`; did you mean `default`?",
        "t2:14 error[bad-template] the type of parameter `a` is not one of string, number, comma_delimited_list, json, "
        "boolean; did you mean `string`?",
        "t2:55 error[bad-parameter] parameter `b` can't be 'x': it is not a valid number",
        "t2:55 error[bad-template] the definition of parameter `b` has no key `labl`; did you mean `label`?",
        "t2:55 error[bad-template] the definition of parameter `b` has no key `typ`; did you mean `type`?",
    ]


def test_custom_constraints_of_parameters(tmp_path: Path) -> None:
    network, address = (f"constraints: [{{custom_constraint: {name}}}]" for name in ("net_cidr", "ip_addr"))
    parameters = (
        f"  net: {{type: string, {network}, default: 10.0.0.1}}\n"
        f"  given: {{type: string, {network}}}\n"
        f"  old: {{type: string, {network}, default: 10.0.0.1}}\n"
        f"  many: {{type: comma_delimited_list, {address}, default: 10.0.0.1}}\n"
        f"  secret: {{type: string, {network}, hidden: true}}\n"
    )
    resources = "resources: {s: {type: OS::Neutron::Subnet, properties: {network: n, cidr: {get_param: net}}}}\n"
    (tmp_path / "t.yaml").write_text(f"{HEAD}parameters:\n{parameters}{resources}")
    (tmp_path / "e.yaml").write_text("parameters: {old: 10.0.0.0/8, given: 10.0.0.0/33, secret: 10.0.0.300/8}\n")
    assert said("t.yaml", "e.yaml", folder=tmp_path) == [
        "e1:38 error[bad-text] parameter `given` can't be `10.0.0.0/33`: it is not a network: its prefix is 0 to 32",
        "e1:59 error[bad-text] parameter `secret` can't be a hidden value",
        "t3:78 error[bad-text] parameter `net` can't be `10.0.0.1`: it has no prefix length, such as 10.0.0.0/24",
        "t6:92 error[bad-text] parameter `many` can't be a list: it is not a text",
    ]


def test_a_misspelt_custom_constraint_of_a_value() -> None:
    names = {"a": "neutron.netwrk", "b": "net_cird", "c": "acme.network", "d": "neutron.network", "e": "nova.flavr"}
    names |= {"f": "flavor"}
    parameters = "".join(
        f"  {name}: {{type: string, constraints: [{{custom_constraint: {constraint}}}]"
        f"{'' if name == 'e' else ', default: 10.0.0.0/8'}}}\n"
        for name, constraint in names.items()
    )
    assert said(f"{HEAD}parameters:\n{parameters}resources: {{}}\n") == [
        "t3:3 error[bad-template] there is no custom constraint `neutron.netwrk`; did you mean `neutron.network`?",
        "t4:3 error[bad-template] there is no custom constraint `net_cird`; did you mean `net_cidr`?",
        "t8:3 error[bad-template] there is no custom constraint `flavor`; did you mean `nova.flavor`?",
    ]


NO_MEMBERS = "error[bad-template] the definition of a group's members must be a map with a `type`"
SCALING = "type: OS::Heat::AutoScalingGroup, properties: {max_size: 1"
DEFINITIONS = {
    "type: OS::Heat::ResourceGroup": [f"3:3 {NO_MEMBERS}; add `resource_def`, a map"],
    "type: OS::Heat::ResourceGroup, properties: {resourc_def: x}": [
        "3:51 error[bad-template] the resource has no property `resourc_def`; did you mean `resource_def`?"
    ],
    "type: OS::Heat::ResourceGroup, properties: {resource_def: x}": [f"3:65 {NO_MEMBERS}"],
    "type: OS::Heat::ResourceGroup, properties: {resource_def: {tpe: x}}": [
        "3:66 error[bad-template] `resource_def` has no property `tpe`; did you mean `type`?"
    ],
    "type: OS::Heat::ResourceGroup, properties: {resource_def: {}}": [f"3:51 {NO_MEMBERS}; add `type`, a text"],
    "type: OS::Heat::ResourceGroup, properties: {resource_def: {type: OS::Nova::Server, propertes: {flavor: x}}}": [
        "3:90 error[unknown-property] `resource_def` has no property `propertes`; did you mean `properties`?"
    ],
    f"{SCALING}, min_size: 1, resource: [a]}}": [f"3:90 {NO_MEMBERS}"],
    f"{SCALING}, min_size: 0, resource: {{type: A::B, properties: null, metadata: [], depends_on: 1, no: 1}}}}": [
        f"3:{column} error[bad-template] `{key}` of `resource` must be {what}"
        for column, key, what in (
            (115, "properties", "a map; leave it out, or give it a value"),
            (131, "metadata", "a map"),
            (147, "depends_on", "a name or a list of names"),
        )
    ],
    f"{SCALING}}}": [
        f"3:3 {NO_MEMBERS}; add `resource`, a map",
        "3:3 error[missing-property] OS::Heat::AutoScalingGroup needs the property `min_size`; add `min_size`, "
        "a whole number",
    ],
    "type: OS::Heat::ResourceChain, properties: {resources: x}": [
        "3:62 error[bad-template] a chain takes a list of types as `resources`"
    ],
    "type: OS::Heat::Stack": [
        "3:3 error[bad-template] a nested stack needs a template and a map of parameters; add `template`, a text"
    ],
}
"""Groups and stacks that can't be read, with all that is said."""


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_what_keeps_members_from_being_read_is_said_once(definition: str) -> None:
    assert of_resources(f"g: {{{definition}}}") == DEFINITIONS[definition]


def test_what_is_wrong_in_data_is_said_once() -> None:
    nothing = {"get_param": "nothing"}
    group: Data = {"type": "OS::Heat::ResourceGroup", "properties": {"resource_def": {"type": ["a"]}, "nmae": nothing}}
    resources: Data = {"g": group, "v": {"type": "OS::Cinder::Volume", "properties": {"size": {"list_join": [1]}}}}
    with pytest.raises(InputError) as refused:
        read_stack(template={"heat_template_version": "2018-08-31", "resources": resources})
    found = (*refused.value.diagnostics, *find_further_refusals(refused.value, SHIPPED))
    assert [(problem.code, problem.span and problem.span.path) for problem in found] == [
        ("bad-function", "resources.v.properties.size"),
        ("bad-reference", "resources.g.properties.nmae.get_param"),
        ("bad-template", "resources.g.properties.resource_def.type"),
        ("unknown-property", "resources.g.properties.nmae"),
    ]


def test_members_and_nested_stacks(tmp_path: Path) -> None:
    files = {
        "t.yaml": f"{HEAD}resources:\n"
        "  a: {type: n.yaml, properties: {size: 5}}\n"
        "  b: {type: n.yaml}\n"
        "  g: {type: OS::Heat::ResourceGroup, properties: {count: 2, resource_def: {type: OS::Neutron::Net, "
        "properties: {nmae: x}}}}\n"
        "outputs: {o: {value: {get_attr: [a, idd]}}, p: {value: {get_attr: [a, resource.v.siz]}}, q: {value: "
        "{get_attr: [a, resource.v.size]}}}\n",
        "n.yaml": f"{HEAD}parameters: {{size: {{type: number}}}}\nresources:\n"
        "  v: {type: OS::Cinder::Volume, properties: {size: 0, colour: red}}\noutputs: {id: {value: x}}\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert said("t.yaml", folder=tmp_path) == [
        f"n4:52 warning[out-of-range] `size` of OS::Cinder::Volume must be at least 1, not `0` {LATER}",
        "n4:55 error[unknown-property] OS::Cinder::Volume has no property `colour`; it has availability_zone, "
        "backup_id, description, image, imageRef, metadata, multiattach, name, read_only, scheduler_hints, size, "
        "snapshot_id, source_volid, volume_type",
        "t4:3 error[missing-property] n.yaml needs the property `size`; add `size`, a parameter of type number",
        "t5:113 error[unknown-property] OS::Neutron::Net has no property `nmae`; did you mean `name`?",
        f"t6:37 warning[unknown-attribute] n.yaml has no attribute `idd` {LATER}; did you mean `id`?",
        f"t6:71 warning[unknown-attribute] OS::Cinder::Volume has no attribute `siz` {LATER}; did you mean `size`?",
    ]


def test_event_sinks(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(f"{HEAD}resources: {{}}\nparameters: [p]\n")
    (tmp_path / "e.yaml").write_text(
        "event_sinks: [a, {target: a}, {type: zaqar-que, target: a}, {type: acme, target: a}, {type: zaqar-queue}, "
        "{type: zaqar-queue, target: a, tll: 1}, {type: zaqar-queue, target: a, ttl: 1}]\n"
    )
    assert said("t.yaml", "e.yaml", folder=tmp_path) == [
        "t3:1 error[bad-template] the section `parameters` must be a map",
        "e1:15 error[bad-environment] an event sink is a map with a `type`; write type: zaqar-queue",
        "e1:18 error[bad-environment] an event sink is a map with a `type`; write type: zaqar-queue",
        "e1:31 error[bad-environment] Heat has no event sink of type `zaqar-que`; did you mean `zaqar-queue`?",
        "e1:61 warning[bad-environment] Heat has no event sink of type `acme`; a plugin of Heat may have it",
        "e1:86 error[bad-environment] a zaqar-queue takes a `target`, the queue, and a `ttl`",
        "e1:107 error[bad-environment] a zaqar-queue takes a `target`, the queue, and a `ttl`",
    ]


def test_a_misspelt_parameter_of_a_template_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "n.yaml").write_text(f"{HEAD}parameters: {{size: {{type: number}}}}\n")
    (tmp_path / "t.yaml").write_text(f"{HEAD}resources:\n  a: {{type: n.yaml, properties: {{siez: 1}}}}\n")
    assert said("t.yaml", folder=tmp_path) == [
        "t3:40 error[bad-parameter] there is no parameter `siez`; did you mean `size`?"
    ]


def test_a_mistake_in_an_environment_is_placed_there(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(
        f"{HEAD}parameters: {{size: {{type: string}}}}\nresources:\n"
        "  v: {type: My::Volume, properties: {size: {get_param: size}}}\n  w: {type: My::Net}\n"
    )
    (tmp_path / "e.yaml").write_text(
        "parameters: {size: ten}\nresource_registry: {'My::Volume': OS::Cinder::Volume, 'My::Net': OS::Neutron::Nt}\n"
    )
    assert said("t.yaml", "e.yaml", folder=tmp_path) == [
        "e1:20 error[wrong-kind] `size` of OS::Cinder::Volume takes a whole number, not `ten`",
        "e2:66 error[unknown-type] there is no resource type OS::Neutron::Nt; did you mean `OS::Neutron::Net`?",
    ]


def test_a_template_in_the_place_of_a_type_has_its_properties_and_attributes(tmp_path: Path) -> None:
    files = {
        "t.yaml": f"{HEAD}resources:\n  a: {{type: OS::Heat::WaitCondition}}\n  b: {{type: OS::Heat::RandomString}}\n",
        "e.yaml": "resource_registry:\n  OS::Heat::WaitCondition: w.yaml\n  OS::Heat::RandomString: r.yaml\n",
        "w.yaml": f"{HEAD}parameters: {{count: {{type: json, default: {{}}}}, more: {{type: string}}}}\n"
        "resources: {}\n",
        "r.yaml": f"{HEAD}parameters: {{length: {{type: number, default: 1}}}}\nresources: {{}}\n"
        "outputs: {value: {value: x}}\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert said("t.yaml", "e.yaml", folder=tmp_path) == [
        "e2:28 error[missing-property] w.yaml takes the place of OS::Heat::WaitCondition and lacks the output `data`, "
        "the parameter `count` of type number, the parameter `handle` of type string, the parameter `timeout` of type "
        "number, a default of its parameter `more`; add what it lacks, or map a type that Heat does not have",
        "t3:3 error[missing-property] w.yaml needs the property `more`; add `more`, a parameter of type string",
    ]
    (tmp_path / "e.yaml").write_text(
        "resource_registry: {OS::Heat::RandomString: r.yaml, OS::Heat::Value: v.yaml}\nparameter_defaults: {more: x}\n"
    )
    (tmp_path / "t.yaml").write_text(
        f"{HEAD}resources:\n  b: {{type: OS::Heat::RandomString}}\n"
        "  c: {type: OS::Heat::Value, properties: {value: 1}}\n"
    )
    (tmp_path / "v.yaml").write_text(
        f"{HEAD}parameters: {{value: {{type: string}}}}\nresources: {{}}\noutputs: {{value: {{value: x}}}}\n"
    )
    (tmp_path / "r.yaml").write_text(files["r.yaml"].replace("}}\nres", "}, more: {type: string}}\nres"))
    assert said("t.yaml", "e.yaml", folder=tmp_path) == [
        "e1:70 error[missing-property] v.yaml takes the place of OS::Heat::Value and lacks the parameter `value` of "
        "type any, which no parameter has; add what it lacks, or map a type that Heat does not have"
    ]


SUBNET = "OS::Neutron::Subnet, properties: {network: n, cidr: 10.0.0.0/24"
OF_NETWORKS = "allocate_network, fixed_ip, floating_ip, network, port, port_extra_properties, subnet, tag, uuid"


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (
            "{type: OS::Nova::Server, properties: {flavor: f, config_drive: {get_param: pw}}}",
            "error[wrong-kind] `config_drive` of OS::Nova::Server takes true or false, not a hidden value",
        ),
        (
            f"{{type: {SUBNET}, cidr: {{get_param: pw}}}}}}",
            "error[bad-text] `cidr` of OS::Neutron::Subnet can't be a hidden value",
        ),
        (
            f"{{type: {SUBNET}, ipv6_ra_mode: {{get_param: pw}}}}}}",
            "error[not-allowed] `ipv6_ra_mode` of OS::Neutron::Subnet can't be a hidden value; "
            "one of dhcpv6-stateful, dhcpv6-stateless, slaac",
        ),
        (
            "{type: OS::Nova::Server, properties: {flavor: f, networks: [{get_param: map}]}}",
            f"error[unknown-property] `networks[0]` has no property `***`; it has {OF_NETWORKS}",
        ),
        (
            "{type: OS::Nova::Server, properties: {flavor: f, networks: "
            "[{map_merge: [{get_param: map}, {port: []}]}]}}",
            f"error[unknown-property] `networks[0]` has no property `***`; it has {OF_NETWORKS}\n"
            "error[wrong-kind] `networks[0].***` of OS::Nova::Server takes a text, not a hidden value",
        ),
        (
            "{type: OS::Heat::ResourceGroup, properties: {count: 1, resource_def: {type: {get_param: pw}}}}",
            "warning[unknown-type] the resource type *** is not in the catalogue: its properties are not checked; "
            "map it in an environment, or give the catalogue of its plugin with --catalogue",
        ),
        (
            "{type: OS::Heat::ScalingPolicy, properties: {auto_scaling_group_id: g, scaling_adjustment: 1, "
            "adjustment_type: exact_capacity}, update_policy: {get_param: map}}",
            "error[unknown-property] the update policy of OS::Heat::ScalingPolicy has no property `***`; leave it out",
        ),
        (
            "{type: OS::Designate::Zone, properties: {name: a., email: m, "
            f"description: {{list_join: ['', [{{get_param: pw}}, {'x' * 160}]]}}}}}}",
            "error[bad-length] `description` of OS::Designate::Zone must have a length of at most 160",
        ),
    ],
)
def test_a_hidden_value_is_not_told(resource: str, expected: str) -> None:
    for word in ("zq9-secret", "a", "the", "text", "is", "netwrk"):
        section = f"{{pw: {{type: string, hidden: true, default: {word}}}, "
        section += f"map: {{type: json, hidden: true, default: {{{word}: {word}}}}}}}"
        template = f"{HEAD}parameters: {section}\nresources:\n  r: {resource}\n"
        assert "\n".join(sorted(line.partition(" ")[2] for line in said(template))) == expected, word


def test_a_misspelt_type_of_cfn() -> None:
    resources = "{n: {Tpe: 'OS::Neutron::Net', Colour: x, Properties: {shared: x}}}"
    lines = said(f"HeatTemplateFormatVersion: '2012-12-12'\nResources: {resources}")
    assert [line.split("; ")[0] for line in lines] == [
        "t2:17 error[bad-template] a resource has no key `Tpe`",
        "t2:74 error[wrong-kind] `shared` of OS::Neutron::Net takes true or false, not `x`",
    ]


def test_a_function_that_only_newer_versions_have() -> None:
    resources = "resources: {n: {type: OS::Neutron::Net, properties: {name: {if: [a, b, c]}}}}"
    assert [line[1:] for line in said(f"heat_template_version: 2015-04-30\n{resources}")] == [
        "2:60 error[newer-version] `if` is there from version 2016-10-14; this template is 2015-04-30; "
        "write `heat_template_version: 2016-10-14`"
    ]


def test_a_newer_version_is_named_once() -> None:
    call = "{if: [a, b, c]}"
    group = f"resources: {{g: {{type: OS::Neutron::SecurityGroup, properties: {{name: {call}, rules: [{call}]}}}}}}"
    for section, first in ("conditions: {a: true}\n", "t2:1"), ("", "t2:70"):
        lines = said(f"heat_template_version: 2015-04-30\n{section}{group}")
        assert [line.split("]")[0] for line in lines] == [f"{first} error[newer-version"]


def test_what_heat_hides_or_deprecates() -> None:
    template = (
        f"{HEAD}resources:\n  f: {{type: OS::Nova::FloatingIP}}\n"
        "  r: {type: OS::Heat::RandomString, properties: {sequence: letters}}\n"
        "  w: {type: OS::Mistral::Workflow, properties: {type: direct, tasks: [{name: t, policies: {}}]}}\n"
        "  s: {type: OS::Nova::Server, properties: {flavor: f, networks: [{uuid: n}], personality: {}}}\n"
        "outputs: {o: {value: {get_attr: [s, first_address]}}}\n"
    )
    assert [_line(warning) for warning in find_deprecated(read_stack(template), SHIPPED)] == [
        "t3:13 warning[deprecated] the type OS::Nova::FloatingIP is hidden since Heat 11.0.0; "
        "Heat says: Please use OS::Neutron::FloatingIP instead.",
        "t4:50 warning[deprecated] `sequence` of OS::Heat::RandomString is hidden since Heat 5.0.0; "
        "write `character_classes.class`",
        "t5:81 warning[deprecated] `tasks[0].policies` of OS::Mistral::Workflow is hidden since Heat 8.0.0; "
        "Heat says: Add needed policies directly to the task, Policy keyword is not needed",
        "t6:67 warning[deprecated] `networks[0].uuid` of OS::Nova::Server is hidden since Heat 5.0.0; write `network`",
        "t6:78 warning[deprecated] `personality` of OS::Nova::Server is deprecated since Heat 12.0.0; Heat says: This "
        "is not supported with nova api microversion 2.57 and above. OS::Nova::Server resource will not support it in "
        "the future. Please use user_data or metadata instead. However, you can set heat config option "
        "max_nova_api_microversion < 2.57 to use this property in the meantime.",
        "t7:37 warning[deprecated] the attribute `first_address` of OS::Nova::Server is hidden since Heat 5.0.0; Heat "
        'says: Use the networks attribute instead of first_address. For example: "{get_attr: [<server name>, networks, '
        '<network name>, 0]}"',
    ]
    assert find_refusals(read_stack(template), SHIPPED) == ()


TEXTS = {
    "ip_addr": ("10.0.0.1 ::1 fe80::1:2", "10.0.0.300 10.0.0 010.0.0.1 10.0.0.1/8 a fe80::1%e"),
    "net_cidr": ("10.0.0.0/24 10.0.0.7/24 2001:db8::/32", "10.0.0.0 10.0.0.0/33 10.0.0/8 a/8 10.0.0.0/024 ::/129"),
    "ip_or_cidr": ("10.0.0.1 10.0.0.0/8", "10.0.0 10.0.0.0/x"),
    "mac_addr": ("fa:16:3e:0:0:1 FA-16-3E-00-00-01 fa16.3e00.0001 fa163e000001", "fa:16:3e:00:00 fa:16-3e:0:0:1 g"),
    "dns_name": ("web web.example.org. 1.2", "-a a_b A a..b x.12."),
    "rel_dns_name": ("web web.example.org", "web."),
    "dns_domain": ("example.org.", "example.org a_b."),
    "cron_expression": (
        "*,*,*,*,* 0,3,*,*,7 */5,1-4,1,JAN,MON-FRI @daily",
        "*,*,*,* 60,*,*,*,* x!,*,*,*,* *,25,*,*,* *,*,*,*,*/0",
    ),
    "timezone": ("Europe/Paris UTC", "Europe/Pariss x"),
    "expiration": ("2030-01-31T12:00:00", "tomorrow"),
    "json_string": ('{"a":1} 1', "{a:1} {"),
    "neutron.network": ("anything", ""),
}
"""Texts that meet a constraint, and those that do not. A field of cron ends with a comma here."""


@pytest.mark.parametrize("constraint", TEXTS)
def test_texts(constraint: str) -> None:
    right, wrong = (part.split() for part in TEXTS[constraint])
    if constraint == "cron_expression":
        right, wrong = ([text.replace(",", " ") for text in texts] for texts in (right, wrong))
    refused = [text for text in (*right, *wrong) if find_reason(constraint, text)]
    assert refused == wrong
