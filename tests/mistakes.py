"""Mistakes of new authors of rules, which docs/mistakes.md shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CHECK = "check web.yaml --rules rules.dl"
POLICY = '@deny("a", "{x}")\np(x) :- '
TEMPLATE = """\
heat_template_version: 2018-08-31
parameters:
  key: {type: string, default: ops}
resources:
  server:
    type: OS::Nova::Server
    deletion_policy: Retain
    metadata: {tier: front, critical: true}
    properties:
      name: web-1
      flavor: m1.huge
      image: cirros
      key_name: {get_param: key}
      metadata: {public: true, slots: 5}
      networks: [{port: {get_resource: port}}]
      user_data: {str_replace: {template: "ip $ip", params: {$ip: {get_attr: [port, mac_address]}}}}
  port:
    type: OS::Neutron::Port
    properties: {network: net1, port_security_enabled: false}
  group:
    type: OS::Neutron::SecurityGroup
    properties:
      rules:
        - {protocol: tcp, port_range_min: 22, port_range_max: 22, remote_ip_prefix: 0.0.0.0/0}
        - {remote_ip_prefix: 0.0.0.0/0}
  separate:
    type: OS::Neutron::SecurityGroupRule
    properties: {security_group: {get_resource: group}, protocol: tcp, port_range_min: 22, port_range_max: 22}
  volume:
    type: OS::Cinder::Volume
    properties: {size: 600}
  other:
    type: OS::Cinder::Volume
    properties: {size: 600}
outputs:
  address: {value: {get_attr: [server, first_address]}}
"""
"""The template that all of them are tried on: web.yaml."""

VERSION = "heat_template_version: 2018-08-31\nresources:\n"
GROUP = f"""\
{VERSION}  disks:
    type: OS::Heat::ResourceGroup
    properties: {{count: 20, resource_def: {{type: OS::Cinder::Volume, properties: {{size: 1}}}}}}
"""
INSTANCE = f"""\
{VERSION}  vm:
    type: AWS::EC2::Instance
    properties: {{ImageId: cirros, InstanceType: m1.huge}}
"""
SUBNET = f"""\
{VERSION}  net:
    type: OS::Neutron::Net
  subnet:
    type: OS::Neutron::Subnet
    properties:
      network: {{get_resource: net}}
      cidr: 10.0.0.0/24
      allocation_pools: [{{start: 10.0.0.9, end: 10.0.0.100}}]
"""
ASSOCIATED = f"""\
{VERSION}  address:
    type: OS::Neutron::FloatingIP
    properties: {{floating_network: public}}
  link:
    type: OS::Neutron::FloatingIPAssociation
    properties: {{floatingip_id: {{get_resource: address}}, port_id: web-port}}
"""
LABELS = f"""\
{VERSION}  server:
    type: OS::Nova::Server
    metadata: {{labels: [front]}}
    properties: {{flavor: m1.huge, image: cirros, networks: []}}
"""
"""Templates of their own for mistakes that need other resources."""


@dataclass(frozen=True, slots=True, eq=False)
class Mistake:
    """Rules with a mistake, the body of a policy `p(x)` or the whole text of rules.dl; other files by name; the
    command, if it is another than these files say."""

    text: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    other_command: str = ""

    @property
    def rules(self) -> str:
        """The text of rules.dl; empty if there is none."""
        return self.text if not self.text or ":-" in self.text or "@" in self.text else f"{POLICY}{self.text}.\n"

    @property
    def command(self) -> str:
        options = [option for file, option in OPTIONS.items() if file in self.files]
        return self.other_command or " ".join([CHECK if self.text else "check web.yaml --rules r", *options])


OPTIONS = {"caller.json": "--caller caller.json", "i.jsonl": "--inventory i.jsonl", "w.yaml": "--waivers w.yaml"}
FLAVORS = {
    "i.jsonl": '{"relation": "nova:flavors", "row": {"id": "1", "name": "m1.huge", "vcpus": 1, "ram": 1, "disk": 1, '
    '"ephemeral": 0, "rxtx_factor": 1}}\n'
}
SERVER = '@deny("b", "{x}")\np(x) :- os:nova:server(_id=x).\n'

HUGE = 'p(x) :- os:nova:server(_id=x, flavor="m1.huge").\n'
DENY_HUGE = f'@deny("a", "{{x}}")\n{HUGE}'
DENY_TINY = '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor="tiny").\n'


def _waiver(expires: str, bound: str = "subject: server") -> str:
    return f"waivers:\n  - {{id: W-1, policy: a, owner: o, reason: r, expires: '{expires}', {bound}}}\n"


_WRITTEN: dict[str, tuple[Mistake | Mapping[str, str] | str, ...]] = {
    "Names and values": (
        'heat:deletion_policy(id=x, policy="retain")',
        'heat:deletion_policy(id=x, policy="Keep")',
        'heat:deletion_policy(id=x, policy=d), d = "snapshot"',
        Mistake('heat:stack(id=x), gate:role("Admin")', files={"caller.json": '{"roles": ["admin"]}'}),
        Mistake('heat:stack(id=x), gate:role("administrator")', files={"caller.json": '{"roles": ["admin"]}'}),
        'heat:attribute(id=x, target=t, attribute="mac_adress"), os:neutron:port(_id=t)',
        'heat:attribute(id=x, target=t, attribute="first_address"), os:neutron:port(_id=t)',
        'heat:attribute(id=x, attribute="mac_adress")',
        'os:nova:server(_id=x), heat:property(id=x, path="size", value=v), v != null',
        'heat:property(id=x, path="networks.port")',
        'heat:property(id=x, path=p), p = "networks.port"',
        'heat:property(id=x, path="networks[0].port")',
        'heat:property(id=x, path="networks.*.port")',
        'heat:metadata(id=x, path="disks[0].size")',
        'heat:property(id=x, path="networks")',
        'heat:property(id=x, path="networks.0.prt")',
        'heat:property(id=x, path="networks/0/port")',
        'heat:property(id=x, path="properties.flavor", value="m1.huge")',
        'heat:reference(id=x, path="network.0.port")',
        'heat:function(id=x, path="userdata")',
        'heat:function(id=x, function="getparam")',
        'heat:nested_function(id=x, function="get_parm")',
        'heat:parameter(stack=x, name="key", type="text")',
        'heat:parameter(stack=x, name="key", type="integer")',
        'heat:parameter(stack=x, origin="env")',
        'heat:parameter_attribute(stack=x, attribute="constraint")',
        'heat:stack(id=x, version="2018-8-31")',
        'heat:section(stack=x, section="output")',
        Mistake(
            'heat:environment(file=x, section="parameter")',
            files={"env.yaml": "parameters: {key: ops}\n"},
            other_command="check web.yaml -e env.yaml --rules rules.dl",
        ),
        'heat:update_policy(id=x, path="batch_creat.max_batch_size")',
        'heat:stack(id=x), gate:request("Create")',
        'heat:stack(id=x), gate:request(action="modify")',
        'heat:status(id=x, status="COMPLETED")',
        'heat:change(x, "replaced")',
        'heat:requires(id=x, why="depends_on")',
        'heat:hook(id=x, hook="precreate")',
        'heat:resource(id=x, type="os::nova::server")',
        'heat:resource(id=x, type=t), starts_with(t, "OS::Nvoa::")',
        'heat:resource(id=x, type=t), contains(t, "Nova:Server")',
        'heat:resource(id=x, type=t), t in ["OS::Nova::Server ", "OS::Nova::Svr"]',
        'os:neutron:security_group.rules(_id=x, protocol="TCP")',
        'os:neutron:security_group.rules(_id=x, ethertype="ipv4")',
        'os:neutron:security_group.rules(_id=x, direction="inbound")',
        'heat:resource(x, _, "OS::Nova::Server")',
        Mistake('os:nova:server(_id=x, name=n), nova:servers(_, n, "ACTIVE")', files={"i.jsonl": ""}),
        'heat:property(x, "m1.huge", "flavor")',
        'os:nova:server(x, "web")',
        'heat:resource(id=x, name="web/server")',
        "relation Banned(name: string).\n"
        'Banned("m1.huge").\n'
        '@deny("a", "{x}")\n'
        "p(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n",
        'os:nova:server(_id=x, flavor=F), f = "m1.huge"',
        'os:nova:server(_id=x, Flavor="m1.huge")',
        "OS:Nova:Server(_id=x)",
        "OS::Nova::Server(_id=x)",
        '@unlock("edge") g(x) :- gate:grant(id=x, service="edge").\n'
        '@deny("a", "{x}")\n'
        'p(x) :- os:nova:server(_id=x), not gate:unlocked("Edge", x).\n',
        'os:nova:server(_id=x, flavor="m1.huge ")',
        'os:nova:server(_id=x, flavor=f), f in [" m1.huge", "m1.large"]',
        "relation banned(name: string).\n"
        'banned("m1.huge ").\n'
        '@deny("a", "{x}")\n'
        "p(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n",
        "os:nova:server(_id=x, name=n), n != null, lower(n, low), upper(n, up), low = up",
        'heat:stack(id=x), gate:now(t), t >= "2026-11-31"',
        'heat:stack(id=x), gate:now(t), t >= "2026-24-12"',
        '(os:neutron:security_group.rules(_id=x, remote_ip_prefix="any") or '
        'os:neutron:security_group_rule(_id=x, remote_ip_prefix="any"))',
        Mistake('heat:stack(id=x), gate:inventory_age(table="nova:server", seconds=s), s > 60', files={"i.jsonl": ""}),
        Mistake('os:nova:server(_id=x, name=n), nova:servers(name=n, status="RUNNING")', files={"i.jsonl": ""}),
        '@unlock("edge") g(x) :- gate:grant(id=x, service="edge").\n'
        '@deny("a", "{x}")\n'
        'p(x) :- os:nova:server(_id=x), not gate:unlocked("edge", _).\n',
        'os:neutron:port.fixed_ips(_id=x, ip_address="10.0.0.0/24")',
        'os:neutron:subnet(_id=x, cidr="10.0.0.0")',
        'kept("keep").\n@deny("a", "{x}")\np(x) :- heat:deletion_policy(id=x, policy=d), kept(d).\n',
        "os:nova:server(_id=x, networks=n), n != null",
        'relation kept(policy: string).\nkept("keep").\n'
        '@deny("a", "{x}")\np(x) :- heat:deletion_policy(id=x, policy=d), kept(d).\n',
        'wanted("front").\ntier(x, "web") :- os:nova:server(_id=x).\n'
        '@deny("a", "{x}")\np(x) :- tier(x, t), wanted(t).\n',
        'tier(x, "web") :- os:nova:server(_id=x).\n@deny("a", "{x}")\np(x) :- tier(x, t), t in ["front"].\n',
        'heat:property(id=x, path=p, value="m1.huge"), starts_with(p, "flavour")',
        'heat:property(id=x, path=p), starts_with(p, "networks[0]")',
        'heat:stack(id=x), list{ f, s : os:nova:server(_stack=x, _id=s, flavor=f) } = "m1.tiny, m1.huge"',
        'os:nova:server(_id=x, flavor=f), f in ["m1.tiny m1.huge"]',
        'heat:parameter_attribute(stack=x, attribute="constraints.range.max")',
        'heat:parameter_attribute(stack=x, attribute="constraints.0.range.maximum")',
        'os:nova:server(_id=x), not os:cinder:volume_attachment(instance_uuid="x")',
        'heat:resource(id=x, type=t), lower(t, low), low = "os:nova:server"',
        "heat:property(x, value, path), value = path",
        'after("01.01.2027").\n@deny("a", "{x}")\np(x) :- heat:stack(id=x), gate:now(t), after(day), t > day.\n',
        'read("mac_adress").\n@deny("a", "{x}")\np(x) :- heat:attribute(id=x, attribute=a), read(a).\n',
        'at("networks[0].port").\n@deny("a", "{x}")\np(x) :- heat:property(id=x, path=p), at(p).\n',
        {
            "r/limits.dl": "relation kept(policy: string).\nexport kept.\n",
            "r/limits.yaml": "kept: [keep]\n",
            "r/a.dl": 'import limits.\n@deny("a", "{x}")\np(x) :- heat:deletion_policy(id=x, policy=d), kept(d).\n',
        },
    ),
    "Values of another kind": (
        'os:nova:server.metadata(_id=x, _key="public", _value="true")',
        'os:nova:server.metadata(_id=x, _key="slots", _value="5")',
        'heat:metadata(id=x, path="critical", value="true")',
        'heat:metadata(id=x, path="critical", value="yes")',
        'heat:property(id=x, path="port_security_enabled", value="false")',
        'heat:property(id=x, path="size", value="600")',
        'os:neutron:port(_id=x, port_security_enabled="false")',
        'os:cinder:volume(_id=x, size="600")',
        "os:neutron:port(_id=x, port_security_enabled=0)",
        "os:neutron:port(_id=x, port_security_enabled=no)",
        'heat:parameter(stack=x, hidden="true")',
        'heat:condition(stack=x, name="public", value="true")',
        'os:cinder:volume(_id=x, size=n), parse_size("500 GB", b), n ?? 0 > b',
        'os:cinder:volume(_id=x, size=n), n ?? 0 > "500"',
        'os:nova:server(_id=x), x = "server"',
        "heat:stack(id=x), os:nova:server(_id=x)",
        '@deny("a", "{x}")\np(x, y) :- os:nova:server(_id=x, name=n), y = n ?? "" + "-x", y != "".\n',
        '@deny("a", "{x}")\np(x, y) :- heat:resource(id=x, name=n), y = "id-" + n.\n',
        'heat:stack(id=x), gate:now(t), t > "2027-3-1"',
        'heat:stack(id=x), gate:now("2026-11-23")',
        "os:cinder:volume(_id=x, size=n), n ?? 0 > 500 * 1024",
        "os:cinder:volume(_id=x, size=n), n ?? 0 in [107374182400, 536870912000]",
        "heat:stack(id=x), sum{ n, v : os:cinder:volume(_stack=x, _id=v, size=n) } > 1000 * 1024 * 1024",
        'most(524288).\n@deny("a", "{x}")\np(x) :- os:cinder:volume(_id=x, size=n), most(m), n ?? 0 > m.\n',
        "size(x, n) :- os:cinder:volume(_id=x, size=n), n != null.\n"
        '@deny("a", "{x}")\np(x) :- size(x, n), n > 500 * 1024.\n',
        "os:cinder:volume(_id=x, size=n, volume_type=t), t != n",
        'os:cinder:volume(_id=x, size=n), n ?? "0" > 500',
        'os:cinder:volume(_id=x, size=n), m = n ?? "none", m != 600',
        "os:neutron:port(_id=x, port_security_enabled=s), s ?? 1 = 0",
        "heat:deletion_policy(id=x, policy=d), heat:section(section=s), d = s",
        "(os:neutron:security_group.rules(_id=x, direction=d, ethertype=d) or "
        "os:neutron:security_group_rule(_id=x, direction=d, ethertype=d))",
        'public(v) :- os:nova:server.metadata(_key="public", _value=v).\n'
        '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x), public("true").\n',
    ),
    "What a template leaves out": (
        "relation bad(p: string or null).\n"
        'bad("udp").\n'
        "bad(null).\n"
        '@deny("a", "{x}")\n'
        "p(x) :- os:neutron:security_group.rules(_id=x, protocol=p), bad(p).\n",
        "zone(s, z) :- os:nova:server(_id=s, availability_zone=z).\n"
        '@deny("a", "{x}")\n'
        "p(x, y) :- zone(x, z), zone(y, z), x != y.\n",
        "zone(s, z) :- os:nova:server(_id=s, availability_zone=z).\n"
        "volzone(v, z) :- os:cinder:volume(_id=v, availability_zone=z).\n"
        '@deny("a", "{x}")\n'
        "p(x, y) :- zone(x, z), volzone(y, z).\n",
        "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a <= 22, b >= 22",
        "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a ?? 65535 <= 22, b ?? 0 >= 22",
        "(os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b) or "
        "os:neutron:security_group_rule(_id=x, port_range_min=a, port_range_max=b)), a ?? 0 > 600, b ?? 65535 < 600",
        "os:neutron:security_group.rules(_id=x, port_range_max=a), a ?? 0 >= 22",
        "os:neutron:security_group.rules(_id=x, port_range_min=a), low = a ?? 65535, low <= 22",
        "os:nova:server(_id=x, availability_zone=z), z = None",
        'os:nova:server(_id=x, availability_zone="null")',
        "os:nova:server(_id=x, availability_zone=NULL)",
        "os:nova:server(_id=x, availability_zone=z), z is null",
        "os:nova:server(_id=x, availability_zone=z), z == null",
        "os:cinder:volume(_id=x), heat:resource(id=x, name=n), n = null",
        'os:nova:server(_id=x, availability_zone=z), z ?? null = "nova"',
        "(os:neutron:security_group.rules(_id=x, protocol=p) or "
        'os:neutron:security_group_rule(_id=x, protocol=p)), p ?? "udp" = "tcp"',
        "(os:neutron:security_group.rules(_id=x, remote_ip_prefix=c) or "
        'os:neutron:security_group_rule(_id=x, remote_ip_prefix=c)), c ?? "10.0.0.0/8" = "0.0.0.0/0"',
        "low(x, n ?? 65535) :- os:neutron:security_group.rules(_id=x, port_range_min=n).\n"
        "low(x, n ?? 65535) :- os:neutron:security_group_rule(_id=x, port_range_min=n).\n"
        '@deny("a", "{x}")\np(x) :- low(x, n), n <= 22.\n',
        '@deny("a", "{x}")\n'
        "p(x) :- os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), port(q), "
        "a ?? 65535 <= q, b ?? 0 >= q.\nport(22).\n",
        "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a = 22, b = 22",
    ),
    "Conditions that hold of nothing, or of everything": (
        "os:cinder:volume(_id=x, size=n), n ?? 0 > 1000, n ?? 0 < 100",
        "os:cinder:volume(_id=x, size=n), n != null, n > 1000, n < 100",
        "os:cinder:volume(_id=x, size=n), n != null, n > 1000, n = 600",
        "os:cinder:volume(_id=x, size=n), n != null, n < 1",
        "os:cinder:volume(_id=x, size=0)",
        "os:cinder:volume(_id=x), not os:cinder:volume(_id=x, size=0)",
        "os:nova:server(_id=x, flavor=f), f in []",
        '@deny("a", "{x}")\n'
        "p(x, n) :- heat:stack(id=x), n = count{ v : os:cinder:volume(_stack=x, _id=v) }, n > 10, n < 2.\n",
        'os:nova:server(_id=x, flavor=f), f = "m1.huge", f = "m1.large"',
        'os:nova:server(_id=x, flavor="m1.huge"), os:nova:server(_id=x, flavor="m1.large")',
        'os:nova:server(_id=x, flavor=f), f in ["m1.huge", "m1.large"], f = "m1.tiny"',
        "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a ?? 0 >= 22, b ?? 65535 <= 22",
        "os:neutron:security_group.rules(_id=x, port_range_min=22, port_range_max=22)",
        'os:nova:server(_id=x, flavor=f), (f != "m1.small" or f != "m1.huge")',
        'os:nova:server(_id=x, flavor=f), not (f != "m1.small" or f != "m1.huge")',
        '@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), n = count{ v : os:cinder:volume(_stack=x, _id=v) }, n < 0.\n',
        "os:nova:server(_id=x), x != x",
        "os:nova:server(_id=x), os:cinder:volume(_id=x)",
        "os:nova:server.networks(_id=x, port=p), os:neutron:net(_id=p)",
        'heat:deletion_policy(id=x, policy=p), p != "Delete", p != "Retain", p != "Snapshot"',
        'os:nova:server(_id=x), not os:nova:server.metadata(_key="public")',
        'os:cinder:volume(_id=x), not heat:deletion_policy(policy="Retain")',
        "heat:stack(id=x, depth=d), d < 0",
        "os:nova:server(_id=x), not os:nova:server(_id=x)",
        'os:nova:server(_id=x, flavor="m1.huge"), not os:nova:server(_id=x, flavor=_)',
        "os:cinder:volume(_id=x, size=n), n ?? 1000 < 0",
        "os:cinder:volume(_id=x, size=n), n ?? 0 < 0",
        "heat:stack(id=x), count{ v : os:cinder:volume(_stack=x, _id=v) } > 3, "
        "count{ v : os:cinder:volume(_stack=x, _id=v) } < 2",
        "heat:stack(id=x), sum{ n, v : os:cinder:volume(_stack=x, _id=v, size=n) } < 0",
        "heat:stack(id=x), max{ n : os:cinder:volume(_stack=x, size=n) } < 1",
        'os:nova:server(_id=x, name=n), n != null, matches(n, "^web"), not matches(n, "^web")',
        "listed(s) :- os:nova:server(_id=s).\n"
        '@deny("a", "{x}")\n'
        "p(x) :- os:nova:server(_id=x, image=i), i != null, not listed(x).\n",
        'os:nova:server(_id=x, flavor=f), f in ["m1.huge"], not (f in ["m1.tiny", "m1.huge"])',
        'os:nova:server(_id=x, flavor=f), f in ["m1.huge", "m1.large"], f in ["m1.tiny", "m1.small"]',
        "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), "
        "low = a ?? 0, high = b ?? 65535, low > high, low < high",
        "heat:stack(id=x), count{ v : os:cinder:volume(_stack=x, _id=v, size=n), n ?? 0 > 9, n ?? 0 < 2 } > 0",
        "heat:resource(id=x, name=n), len(n, l), l < 0",
        "heat:stack(id=x), os:cinder:volume(_stack=x), count{ v : os:cinder:volume(_stack=x, _id=v) } = 0",
        "os:cinder:volume(_id=x), count{ v : os:cinder:volume(_id=v), v = x } > 1",
        "os:cinder:volume(_id=x, size=n), n != null, max{ m : os:cinder:volume(size=m) } < n",
        "heat:stack(id=x), count{ v : os:cinder:volume(_stack=x, _id=v) } = 1.5",
        "heat:stack(id=x), count{ v : os:cinder:volume(_stack=x, _id=v) } = null",
        'os:nova:server(_id=x, name=n), n != null, matches(n, "^web$"), matches(n, "^db$")',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "^web"), starts_with(n, "db")',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "^[0-9]+$"), matches(n, "^[a-z-]+$")',
        'os:nova:server(_id=x, name=n), n != null, starts_with(n, "web"), not matches(n, "^w")',
        'os:nova:server(_id=x, name=n), n != null, lower(n, low), matches(low, "^Web")',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "$web")',
        'os:nova:server(_id=x, name=n), n != null, not contains(n, "")',
        'os:nova:server(_id=x, name=n), n != null, split(n, "-", 0, part), part = "web-1"',
        'os:nova:server(_id=x, name=n), n != null, starts_with(n, "web-1"), len(n, l), l < 5',
        "os:nova:key_pair(_id=x, name=n), len(n, l), l > 255",
        "os:cinder:volume(_id=x, size=a), os:cinder:volume(_id=x, size=b), a = 600, b = 500",
        "os:cinder:volume(_id=x, size=a), os:cinder:volume(_id=x, size=b), a ?? 0 > 500, b ?? 0 < 100",
        'os:nova:server(_id=x, flavor="m1.huge"), heat:property(id=x, path="flavor", value="m1.tiny")',
        "os:cinder:volume(_id=x, size=n), n != null, n > n * 2",
        "os:cinder:volume(_id=x, size=n), n != null, n = n + 1",
        "os:cinder:volume(_id=x, size=n), n != null, n > 600, n < 601",
        "os:cinder:volume(_id=x, size=n), n != null, n % 10 > 10",
        "os:cinder:volume(_id=x, size=n), n != null, n / 1000 > 1, n < 500",
        "os:cinder:volume(_id=x, size=n), not (n ?? 0 > 500), not (n ?? 0 <= 500)",
        "os:cinder:volume(_id=x, _stack=s), not heat:stack(id=s)",
        "heat:stack(id=x), gate:now(t), unpack_datetime(t, _, month, _, _, _, _), month = 13",
        "os:neutron:port(_id=x, port_security_enabled=s), s != true, s != false, s != null",
        "os:cinder:volume(_id=x, size=n), n != null, round(n / 100, m), m > 100, n < 1000",
        "os:cinder:volume(_id=x, size=n), n != null, max2(n, 100, m), m < 100",
        'os:neutron:subnet(_id=x, cidr=c), c != null, cidr_contains("10.0.0.0/8", c), cidr_contains("192.0.0.0/8", c)',
        'os:neutron:subnet(_id=x, cidr=c), c != null, cidr_contains("10.0.0.0/8", c), c = "192.168.0.0/24"',
        "os:cinder:volume(_id=x, size=n), n ?? 0 > 500, n ?? 10 < 100",
        "os:cinder:volume(_id=x, size=n), n = null, n ?? 5 = 6",
        "os:cinder:volume(_id=x, size=n), n != null, n + 1 < 1",
        "os:cinder:volume(_id=x, size=n), n != null, n > 1000, n * 2 < 100",
        "heat:stack(id=x), count{ v : os:cinder:volume(_stack=x, _id=v) } > 1, "
        "count{ v : os:cinder:volume(_stack=x, _id=v) } < 2",
        'os:nova:server(_id=x), heat:resource(id=x, type="OS::Cinder::Volume")',
        'os:nova:server(_id=x), heat:resource(id=x, type=t), starts_with(t, "OS::Neutron")',
        "os:nova:server(_id=x), not heat:resource(id=x)",
        "os:nova:server.networks(_id=x), not os:nova:server(_id=x)",
        "heat:resource(id=x, name=n), heat:resource(id=x, name=m), n != m",
        'heat:resource(id=x, name=n), starts_with(n, "web"), starts_with(n, "db")',
        'heat:resource(id=x, name=n), starts_with(n, "web"), n = "db"',
        'heat:resource(id=x, name=n), n = "server", not starts_with(n, "serv")',
        'heat:resource(id=x, name=n), starts_with(n, "web-1"), not starts_with(n, "web")',
        "os:neutron:subnet(_id=x, ip_version=5)",
        "os:neutron:subnet(_id=x, ip_version=v), v != 4, v != 6",
        "heat:stack(id=x), max{ n : os:cinder:volume(_stack=x, size=n) } < "
        "avg{ n, v : os:cinder:volume(_stack=x, _id=v, size=n) }",
        '@deny("a", "{x}")\n'
        "p(x, low) :- heat:stack(id=x), low = min{ n : os:cinder:volume(_stack=x, size=n) }, "
        "low > max{ n : os:cinder:volume(_stack=x, size=n) }.\n",
        "heat:stack(id=x), count{ s : os:nova:server(_stack=x, _id=s) } < "
        'count{ s : os:nova:server(_stack=x, _id=s, flavor="m1.huge") }',
        "heat:stack(id=x), min{ n : os:cinder:volume(_stack=x, size=n), n ?? 0 > 500 } < 100",
        '@deny("a", "{x}")\n'
        "p(x, n) :- heat:stack(id=x), n = count{ v : os:cinder:volume(_stack=x, _id=v) }, n > 1, n < 3, n != 2.\n",
        'size(x, n) :- os:cinder:volume(_id=x, size=n), n != null.\n@deny("a", "{x}")\np(x) :- size(x, n), n < 0.\n',
        "level(x, 1) :- os:cinder:volume(_id=x).\nlevel(x, 2) :- os:nova:server(_id=x).\n"
        '@deny("a", "{x}")\np(x) :- level(x, 3).\n',
        'kind(x, "disk") :- os:cinder:volume(_id=x).\nkind(x, "vm") :- os:nova:server(_id=x).\n'
        '@deny("a", "{x}")\np(x) :- kind(x, "disk"), kind(x, "vm").\n',
        "open(n) :- os:neutron:net(_id=n, port_security_enabled=false).\n"
        '@deny("a", "{x}")\np(x) :- os:nova:server.networks(_id=x, port=n), open(n).\n',
        'heat:reference(id=x, path="networks.0.port", target=t), os:neutron:net(_id=t)',
        "os:nova:server(_id=x, _stack=s), heat:stack(id=s, parent=p), os:nova:server(_id=p)",
        "heat:nested(id=x, stack=_), os:nova:server(_id=x)",
        '@unlock("edge") g(x) :- gate:grant(id=x, service="edge").\n'
        '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x), gate:grant(id=x, service="edge").\n',
        '@unlock("edge") g(x) :- os:nova:server(_id=x, flavor="m1.huge").\n'
        '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x), not gate:unlocked("edge", x).\n',
        'good(f) :- good(f).\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), good(f).\n',
    ),
    "Builtins and patterns": (
        'os:nova:server(_id=x, name=n), n != null, starts_with("web-", n)',
        'os:nova:server(_id=x, name=n), n != null, starts_with(n, "web-.*")',
        'heat:resource(id=x, type=t), matches(t, "^OS::nova")',
        'os:nova:server(_id=x, name=n), n != null, contains("web", n)',
        'heat:resource(id=x, name=n), prefix = "web-", starts_with(prefix, n)',
        'os:neutron:security_group.rules(_id=x, remote_ip_prefix=c), c != null, not cidr_contains(c, "10.0.0.0/8")',
        'os:nova:server(_id=x, name=n), n != null, matches("^web", n)',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "^db|web$")',
        'os:nova:server(_id=x, name=n), n != null, not matches(n, "^db|web-1|dns$")',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "db-*")',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "*.example.com")',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "web-[0..9]")',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "^web-1$ ")',
        'os:nova:server(_id=x, name=n), n != null, ends_with(n, "-[0-9]")',
        'os:nova:server(_id=x, name=n), n != null, contains(n, "db|web")',
        'os:nova:server(_id=x, name=n), n != null, starts_with(n, "web*")',
        '@deny("a", "{x}")\n'
        "p(x) :- os:nova:server(_id=x, name=n), n != null, prefix(p), starts_with(p, n).\n"
        'prefix("web-").\n',
        '@deny("a", "{x}")\n'
        "p(x) :- os:nova:server(_id=x, name=n), n != null, good(p), not matches(n, p).\n"
        'good("^db|web").\n',
        '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), bad(f).\nbad("m1.*").\n',
        'heat:stack(id=x), gate:now(t), contains(t, "Sunday")',
        'heat:stack(id=x), gate:now(t), starts_with(t, "26-12")',
        'os:nova:server(_id=x, name="web-*")',
        'os:nova:server(_id=x, name="web%")',
        'os:nova:server(_id=x, name="^web.*")',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "\\d+")',
        'os:nova:server(_id=x, name=n), n != null, lower(n, "Web-1")',
        'os:nova:server(_id=x, name=n), n != null, lower(n, l), starts_with(l, "Web")',
        'os:nova:server(_id=x, name=n), n != null, upper(n, l), l in ["web-1", "DB"]',
        'os:neutron:security_group.rules(_id=x, remote_ip_prefix=c), c != null, cidr_contains("10.0.0.0/33", c)',
        'os:neutron:security_group.rules(_id=x, remote_ip_prefix=c), c != null, ip_in_network("10.0.0.0/8", c)',
        'heat:resource(id=x, name=n), lower(n) = "web"',
        "heat:resource(id=x, name=n), len(n) > 3",
        'os:nova:server(_id=x, name=n), n != null, split(n, "-", 1, part), part = "2"',
        'os:nova:server(_id=x, name=n), n != null, split(n, ".", 2, part), part = "org"',
        'os:nova:server(_id=x, name=n), n != null, split(n, "-", -1, part), part = "1"',
        'os:nova:server(_id=x, name=n), n != null, split(n, "", 0, part), part = "1"',
        Mistake(
            'os:neutron:subnet(_id=x, cidr=c), c != null, starts_with(c, "10.0.0.0/8")', files={"web.yaml": SUBNET}
        ),
        Mistake(
            "os:neutron:subnet.allocation_pools(_id=x, start=first, end=last), first < last", files={"web.yaml": SUBNET}
        ),
        'heat:stack(id=x), cidr_contains("10.0.0.0/24", "10.0.0.0/8")',
        'heat:stack(id=x), days_until("01.03.2027", n), n < 0',
        'os:cinder:volume(_id=x, size=n), parse_size("500 gigs", b), n ?? 0 * 1073741824 > b',
        'os:nova:server(_id=x, name=n), n != null, pattern = "^db|web$", matches(n, pattern)',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "^[A-z]+$")',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "^db|^web-1 ")',
        'front("web-*").\n@deny("a", "{x}")\n'
        "p(x) :- os:nova:server(_id=x, name=n), n != null, front(f), starts_with(n, f).\n",
    ),
    "Aggregates": (
        '@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), n = count(os:nova:server(_stack=x)), n > 0.\n',
        "heat:stack(id=x), count(s : os:nova:server(_stack=x, _id=s)) > 0",
        "os:nova:server(_id=x), count(x) > 3",
        "heat:stack(id=x), count(s, n), n > 0",
        "heat:stack(id=x), count(os:nova:server) > 0",
        '@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), n = count{ os:nova:server(_stack=x) }, n > 0.\n',
        '@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), n = count{ s | os:nova:server(_stack=x, _id=s) }, n > 0.\n',
        '@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), n = count{ s: os:nova:server(_stack=x, _id=s) }, n > 0.\n',
        '@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), n = sum(z), os:cinder:volume(size=z), n > 0.\n',
        '@deny("a", "{x}")\n'
        "p(x, n) :- os:nova:server(_id=x), n = count{ i : os:nova:server.networks(_index=i) }, n > 1.\n",
    ),
    "Policies": (
        'os:nova:server(_id=x), gate:request("delete")',
        'os:nova:server(_id=x), gate:request(a), a in ["delete", "suspend"]',
        '@deny("a", "{x}", on=["create"])\np(x) :- old:os:nova:server(_id=x), not os:nova:server(_id=x).\n',
        '@deny("a", "{x}", on=["create"])\np(x) :- heat:change(x, "replace").\n',
        'deleting() :- gate:request("delete").\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x), deleting().\n',
        '@deny("a", "{x}", on=["delete"])\np(x) :- os:nova:server(_id=x).\n',
        '@deny("a", "{x}", on=["create"])\np(x) :- heat:stack(id=x), not gate:request("create").\n',
        '@deny("a", "{x}", on=["create"])\np(x) :- heat:stack(id=x), gate:request(a), a != "create".\n',
        '@deny("a", "{x}", on=["creat"])\np(x) :- os:nova:server(_id=x).\n',
        '@deny("a", "{x}", on=[])\np(x) :- os:nova:server(_id=x).\n',
        '@deny("a", "{x}", enforce_from="2029-03-01")\np(x) :- os:nova:server(_id=x).\n',
        '@deny("a", "{x}", enforce_from="01.03.2027")\np(x) :- os:nova:server(_id=x).\n',
        'deny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n',
        '@denny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n',
        "p(x) :- os:nova:server(_id=x).\n",
        'relation q(a: string).\n@deny("a", "{x}")\nrelation p(x: resource).\np(x) :- os:nova:server(_id=x).\n',
        '@deny("a", "{x}", on_unknown="block")\np(x) :- os:nova:server(_id=x).\n',
        '@deny("a", "{server}")\np(x) :- os:nova:server(_id=x).\n',
        '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n@warn("b", "{x}")\np(x) :- os:cinder:volume(_id=x).\n',
    ),
    "Rules that just miss what a stack says": (
        'os:nova:server(_id=x, flavor="M1.Huge")',
        'os:nova:server(_id=x, flavor=f), f in ["m1.tiny", "M1.HUGE"]',
        '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), bad(f).\nbad("M1.huge").\n',
        {
            "r/limits.dl": "relation bad(flavor: string).\nexport bad.\n",
            "r/limits.yaml": "bad: [M1.Huge]\n",
            "r/a.dl": 'import limits.\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), bad(f).\n',
        },
        'heat:resource(id=x, name="Server")',
        'heat:metadata(x, "front", "tier")',
        'heat:parameter(stack=x, name="Key")',
        'heat:output(stack=x, name="Address")',
        'os:nova:server.metadata(_id=x, _key="Public")',
        'os:nova:server.metadata(_id=x, _key="slots", _value=v), is_string(v), int(v, n), n > 4',
        'heat:metadata(id=x, path="critical", value=v), is_string(v), lower(v, "true")',
        'os:neutron:port(_id=x, network="Net1")',
        'heat:resource(id=x, name=n), replace("-", n, "", m), m = "server"',
        'os:nova:server.networks(_id=x, port="port")',
        'os:nova:server(_id=x, name=n), n != null, starts_with(n, "Web")',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "^WEB-[0-9]")',
        'os:nova:server(_id=x, image=i), is_string(i), contains(i, "CirrOS")',
        'os:cinder:volume(_id=x, volume_type="")',
        "os:nova:server.networks(_id=x, port=p), os:neutron:port(name=p)",
        'os:neutron:security_group.rules(_id=x, remote_ip_prefix="0.0.0.0")',
        'os:cinder:volume(_id=x, _stack="web.yaml")',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "^web*$")',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "/web/")',
        Mistake(
            "os:nova:server(_id=x, flavor=f), nova:flavors(name=f)",
            files={"i.jsonl": FLAVORS["i.jsonl"].replace("m1.huge", "M1.Huge")},
        ),
        'banned("m1.huge, m1.large").\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n',
        'os:nova:server(_id=x, name="server")',
        'os:nova:server(_id=x), heat:resource(id=x, name="web-1")',
        Mistake('os:cinder:volume(_id=x, _stack="disks")', files={"web.yaml": GROUP}),
        "os:nova:server(_id=x, availability_zone=z), os:cinder:volume(availability_zone=z)",
        'os:neutron:security_group_rule(_id=x, remote_ip_prefix="0.0.0.0/0")',
        "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a != null, b != null, "
        "a <= 80, b >= 80",
        Mistake("os:nova:server(_id=x, flavor=f), nova:flavors(id=f)", files=FLAVORS),
        Mistake(
            '@deny("a", "{x}")\n'
            "p(x, n) :- heat:root(stack=x), n = count{ v : os:cinder:volume(_id=v, _stack=x) }, n > 9.\n",
            files={"web.yaml": GROUP},
        ),
        Mistake('heat:stack(id=x), gate:service("edge")', other_command=f"{CHECK} --services Edge"),
        'heat:resource(x, "server")',
        'heat:resource(id=x, stack="web/server")',
        'heat:output("address", name=x)',
        Mistake('os:neutron:subnet(_id=x, cidr="10.0.0.0/8")', files={"web.yaml": SUBNET}),
        Mistake('os:nova:server(_id=x), heat:metadata(id=x, path="labels", value="front")', files={"web.yaml": LABELS}),
        'os:nova:server(_id=x, flavor="m1.hgue")',
        Mistake('os:nova:server(_id=x), heat:metadata(id=x, path="labels/0")', files={"web.yaml": LABELS}),
        'os:nova:server(_id=x, name=n), n ?? "none" = "Web-1"',
        'os:nova:server(_id=x, flavor="m1 .huge")',
        'os:nova:server(_id=x, flavor="m1huge")',
    ),
    "Two forms of one thing": (
        "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a ?? 0 <= 22, b ?? 65535 >= 22",
        "os:neutron:security_group_rule(_id=x, port_range_min=a, port_range_max=b), a ?? 0 <= 22, b ?? 65535 >= 22",
        Mistake('os:nova:server(_id=x, flavor="m1.huge")', files={"web.yaml": INSTANCE}),
        Mistake("os:neutron:floating_ip(_id=x, port_id=p), p != null", files={"web.yaml": ASSOCIATED}),
    ),
    "What a run lacks": (
        'relation banned(name: string).\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n',
        Mistake(
            'relation banned(name: string).\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n',
            files=FLAVORS,
        ),
        'heat:stack(id=x), gate:caller(project="p1")',
        'heat:stack(id=x), gate:role("member")',
        Mistake('heat:stack(id=x), gate:role("member")', files={"caller.json": '{"user": "u1"}'}),
        'os:nova:server(_id=x, image=i), glancev2:images(id=i, visibility="public")',
        Mistake('os:nova:server(_id=x, image=i), glancev2:images(id=i, visibility="public")', files=FLAVORS),
        '@unlock("edge") g(x) :- gate:grant(id=x, service="edge").\n'
        '@deny("a", "{x}")\n'
        'p(x) :- heat:stack(id=x), gate:service("edge").\n',
        Mistake('heat:stack(id=x), gate:caller(project="p1")', files={"caller.json": "{}"}),
        Mistake('heat:stack(id=x), gate:now(t), t > "2226-12-24"', other_command=f"{CHECK} --now 2026-12-01"),
        Mistake(
            'heat:stack(id=x), gate:caller(domain="guests")', files={"caller.json": '{"user": "u1", "project": "p1"}'}
        ),
        Mistake('heat:stack(id=x), gate:service("edge")', other_command=f"{CHECK} --services egde"),
        'heat:status(id=x, status="FAILED")',
        Mistake('os:nova:server(_id=x, flavor="tiny")', other_command="check web.yaml --rules rules.dl -P kye=x"),
    ),
    "Policies, waivers and settings": (
        f'@deny("a", "{{x}}", severity="high")\n{HUGE}',
        f'@deny("a", "{{x}}", fix="m1.small")\n{HUGE}',
        f'@deny("a", "{{x}}", on_unknown="warn")\n{HUGE}',
        f'@deny("a", "{{x}}", enforce_from="2027-02-31")\n{HUGE}',
        f'@deny("a", "{{x}}", enforce_from="31/01/2027")\n{HUGE}',
        Mistake(f'@deny("a", "{{x}}", enforce_from="2226-11-01")\n{HUGE}', other_command=f"{CHECK} --now 2026-12-01"),
        f'@deny("a", "{{x}}", on=["delete"])\n{HUGE}',
        f'@Deny("a", "{{x}}")\n{HUGE}',
        f'{POLICY}os:nova:server(_id=x, flavor="tiny").\nP(x) :- os:nova:server(_id=x, flavor="m1.huge").\n',
        f'{POLICY}os:nova:server(_id=x, flavor="tiny").\nq(x) :- os:nova:server(_id=x, flavor="m1.huge").\n',
        Mistake(DENY_HUGE, files={"w.yaml": _waiver("2027-02-31")}),
        Mistake(DENY_HUGE, files={"w.yaml": _waiver("01-02-2027")}),
        Mistake(DENY_HUGE, files={"w.yaml": _waiver("2027-02-01", 'while: "x = x"')}),
        Mistake(
            DENY_HUGE,
            files={"datalog-gate.toml": 'rules = ["rules.dl"]\nfail_on = "warn"\n'},
            other_command="check web.yaml",
        ),
        Mistake(
            DENY_HUGE, files={"datalog-gate.toml": '[check]\nrules = ["rules.dl"]\n'}, other_command="check web.yaml"
        ),
        Mistake(
            files={
                "r/a.dl": DENY_HUGE,
                "r/test.yaml": "cases:\n  - {name: n, stack: ../web.yaml, expect: {violation: []}}\n",
            },
            other_command="test r",
        ),
        Mistake(DENY_HUGE, files={"w.yaml": _waiver("2226-02-01")}),
        Mistake(DENY_HUGE, files={"datalog_gate.toml": 'rules = ["rules.dl"]\n'}, other_command="check web.yaml"),
        Mistake(
            DENY_HUGE,
            files={"pyproject.toml": '[tool.datalog_gate]\nrules = ["rules.dl"]\n'},
            other_command="check web.yaml",
        ),
    ),
    "Files and modules": (
        {"r/a.dl": DENY_TINY, "r/b.datalog": SERVER},
        {"r/a.dl": DENY_TINY, "r/b.dl.txt": SERVER},
        {"r/a.dl": DENY_TINY, "r/b": SERVER},
        {"r/b.pl": SERVER},
        {"r/open-ssh.dl": SERVER},
        {"r/my-net/ssh.dl": SERVER},
        {"r/open ssh.dl": SERVER},
        {"r/10_ssh.dl": SERVER},
        Mistake(other_command="check web.yaml --rules web.yaml"),
        Mistake(files={"t/web.yaml": TEMPLATE}, other_command="check web.yaml --rules t"),
        Mistake("os:nova:server(_id=x)", other_command="check rules.dl --rules rules.dl"),
        Mistake(
            "os:nova:server(_id=x)",
            files={"env.yaml": "parameters: {key: ops}\n"},
            other_command="check env.yaml --rules rules.dl",
        ),
        Mistake("os:nova:server(_id=x)", other_command="check web.yaml -e web.yaml --rules rules.dl"),
        Mistake(files={"test.yaml": "cases: []\n"}, other_command="check web.yaml --rules test.yaml"),
        {
            "r/cap/limits.dl": "relation most(n: number).\nexport most.\n",
            "r/cap/limits.yaml": "most: 1\n",
            "r/cap/a.dl": 'import limits.\n@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), most(n), n < 9.\n',
        },
        {"r/a.dl": 'import net:limits.\n@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), most(n), n < 9.\n'},
        {
            "r/b.dl": "q(1). export q.",
            "r/a.dl": 'import "b.dl".\n@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), q(n), n < 9.\n',
        },
        {
            "r/lists.dl": 'team("web").\n',
            "r/a.dl": '@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), team(n).\n',
        },
        {
            "r/lists.dl": 'team("web").\n',
            "r/a.dl": 'import lists.\n@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), team(n).\n',
        },
        {
            "r/lists.dl": 'team("web").\n',
            "r/a.dl": '@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), lists:team(n).\n',
        },
        {
            "r/lists.dl": 'team("web"). export team.\n',
            "r/a.dl": '@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), team(n).\n',
        },
        {
            "r/lists.dl": 'team("web").\n',
            "r/a.dl": 'export team.\n@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), team(n).\n',
        },
        {
            "r/limits.dl": "relation most(n: number).\nexport most.\n",
            "r/limits.yml": "most: 1\n",
            "r/a.dl": 'import limits.\n@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), most(n), n < 9.\n',
        },
        Mistake(other_command="check web.yaml --rules nothere"),
        Mistake("os:nova:server(_id=x)", other_command="check wbe.yaml --rules rules.dl"),
    ),
    "Signs and words": (
        'os:nova:server(_id=x, flavor=f), f == "m1.huge"',
        'os:nova:server(_id=x, flavor=f) and f = "m1.huge"',
        'os:nova:server(_id=x, flavor=f) && f = "m1.huge"',
        'os:nova:server(_id=x, flavor=f), f <> "m1.huge"',
        'os:nova:server(_id=x, flavor=f), f not in ["m1.tiny"]',
        "os:nova:server(_id=x, flavor=f), g := f",
        'os:nova:server(_id=x, flavor=f), f in ("a", "b")',
        '@deny("a", "{x}")\np(x) if os:nova:server(_id=x).\n',
        '@deny("a", "{x}")\np(x) <- os:nova:server(_id=x).\n',
        'os:nova:server(_id=x, flavor=f), f = "a" or f = "b"',
        'os:nova:server(_id=x, flavor=f), (f = "a" | f = "b")',
        '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f)\n  f = "a".\n',
        '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f),\n',
        "(os:nova:server(_id=x) ; os:cinder:volume(_id=x))",
        "os:nova:server(_id: x)",
        "os:cinder:volume(_id=x, size=s), s ?? 0 > 500GB",
        'os:nova:server(_id=x, name=n), n like "web%"',
        '-- a comment\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n',
        '% a comment\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n',
        "os:nova:server(_id=x), \\+ os:cinder:volume(_id=x)",
        'os:nova:server(_id=x, name=n), n = f"web"',
        "os:nova:server(_id=x, networks.0.port=p)",
        "os:neutron:port(_id=x, port_security_enabled=secured), not secured",
        "os:nova:server(_id=x), Not os:nova:server(_id=x)",
    ),
    "aggregates over equal values": (
        "os:nova:server(_id=x), sum{ n : os:cinder:volume(size=n) } > 1000",
        "os:nova:server(_id=x), sum{ n : os:cinder:volume(_id=v, size=n) } > 1000",
        "os:nova:server(_id=x), avg{ 1 : os:cinder:volume(size=_) } > 1",
        "os:nova:server(_id=x), count{ t : heat:resource(type=t) } > 100",
        "heat:stack(id=x), count{ n, v : os:cinder:volume(_stack=x, _id=v, name=n) } > 1",
        '@deny("a", "{x}") p(x) :- x = sum{ n : r(n) }, x > 1000. r(n) :- os:cinder:volume(size=n).',
    ),
    "values of several kinds": (
        'os:nova:server(_id=x, flavor=f), starts_with(f, "m1.huge")',
        'os:nova:server(_id=x, image=i), contains(i ?? "", "cirros")',
        'os:nova:server.metadata(_id=x, _key="slots", _value=v), v != null, v > 4',
        "os:nova:server(_id=x), max{ v : heat:metadata(id=x, value=v) } > 4",
        "os:nova:server(_id=x, name=n), n != null, max2(n, 5, most), most != null",
    ),
}
"""By kind of mistake: a text is that of rules.dl, and a mapping has the files of the folder `r`."""


def _read(written: Mistake | Mapping[str, str] | str) -> Mistake:
    if isinstance(written, Mistake):
        return written
    return Mistake(written) if isinstance(written, str) else Mistake(files=written)


MISTAKES = {kind: tuple(map(_read, rows)) for kind, rows in _WRITTEN.items()}

MEANT = (
    'heat:deletion_policy(id=x, policy="Retain")',
    'heat:stack(id=x), gate:role(role), own_role(role).\nown_role("operator")',
    'heat:attribute(id=x, target=t, attribute="resource.0.first_address"), os:heat:resource_group(_id=t)',
    'heat:property(id=x, path="networks.0.port")',
    'heat:property(id=x, path="metadata.public", value=true)',
    'heat:property(id=x, path="resource_def.properties.flavor", value="m1")',
    'heat:unknown(id=x, path="networks")',
    'heat:uses_parameter(id=x, path=".metadata.tier", parameter="tier")',
    'heat:parameter_attribute(stack=x, attribute="constraints.0.length.max")',
    'heat:parameter(stack=x, name="count", value="5")',
    'os:nova:server.metadata(_id=x, _key="public", _value=v), v in [true, "true"]',
    'heat:metadata(id=x, path="tier", value="front")',
    "os:nova:server(_id=x, availability_zone=z), os:cinder:volume(availability_zone=z)",
    'os:nova:server(_id=x, image=i), (i = null or bad(i)).\nbad("cirros")',
    "os:cinder:volume(_id=x, size=n), n ?? 0 > 100, n ?? 0 < 200",
    "os:cinder:volume(_id=x, size=n), (n = 1 or n = 2)",
    "os:cinder:volume(_id=x, size=n), n ?? 100 < 10",
    'os:nova:server(_id=x, name=n), not (n = "web" or n = "db")',
    'heat:resource(id=x, name=n), starts_with(n, "web-")',
    'heat:resource(id=x, name=n), prefix(p), starts_with(n, p).\nprefix("web-")',
    'os:neutron:subnet(_id=x, cidr=c), c != null, cidr_contains(c, "10.0.0.1")',
    'os:neutron:subnet(_id=x, cidr=c), c != null, cidr_contains(c, "0.0.0.0/0")',
    'os:neutron:subnet(_id=x, cidr=c), c != null, cidr_contains("10.0.0.0/8", c)',
    'heat:resource(id=x, name=n), matches(n, "^web|^db")',
    'heat:resource(id=x, name=n), matches(n, "^(web|db)$")',
    'heat:resource(id=x, name=n), matches(n, "_int|int_")',
    'heat:resource(id=x, name=n), matches(n, "[|]$")',
    'heat:resource(id=x, name=n), matches(n, "[^]|]$")',
    'heat:resource(id=x, name=n), matches(n, "m1[.].*")',
    'heat:environment(file=x, section="resource_registry", key="resources.*.hooks", value="pre-create")',
    'heat:resource(id=x, name=n), lower(n, "web")',
    'heat:resource(x, _, "web", "OS::Nova::Server")',
    'heat:stack(id=x), gate:now(t), t > "2027-03-01"',
    'heat:change(x, "replace")',
    'heat:stack(id=x), not heat:section(section="outputs")',
    'os:nova:server(_id=x), not os:nova:server.metadata(_id=x, _key="owner")',
    'os:nova:server(_id=x), not heat:resource(type="OS::Nova::ServerGroup")',
    'heat:text(id=x, text=t), contains(t, "curl | sh")',
    'heat:stack(id=x), gate:now(t), starts_with(t, "2026-12-")',
    'heat:condition(stack=x, name="public", value=true)',
    'os:nova:server(_id=x, flavor=f), bad(f).\nbad("m1.huge")',
    'os:nova:server(_id=x), (gate:request("delete") or gate:request("update"))',
    'os:nova:server(_id=x, flavor=f), not os:nova:server(_id=x, flavor="m1.huge"), f != null',
    "os:nova:server(_id=x, name=n), not os:nova:server.networks(_id=x, port=n)",
    "os:nova:server(_id=x, name=n), n != null, not old:os:nova:server(_id=x, name=n)",
    'os:nova:server(_id=x, flavor=f), (f = "a" or f = "b"), not (f = "a", os:nova:server(_id=x, name="a"))',
    'listed(x), not big(x).\nlisted(s) :- os:nova:server(_id=s).\nbig(s) :- os:nova:server(_id=s, flavor="m1.huge")',
    "os:nova:server(_id=x, availability_zone=z), not os:nova:server(_id=x, availability_zone=z, flavor=_, image=null)",
    "heat:stack(id=x), count{ s : os:nova:server(_stack=x, _id=s) } > 3, "
    "count{ s : os:cinder:volume(_stack=x, _id=s) } < 2",
    "heat:stack(id=x), count{ s : os:nova:server(_stack=x, _id=s) } > 3, "
    "count{ s : os:nova:server(_stack=x, _id=s) } < 20",
    "heat:nested(id=h, stack=y), heat:resource(id=h, stack=x), not (count{ s : os:nova:server(_stack=x, _id=s) } > 3, "
    "count{ s : os:nova:server(_stack=y, _id=s) } < 2)",
    "os:cinder:volume(_id=x, size=n), n ?? 0 < 1",
    'os:nova:server(_id=x, flavor=f), f in ["a", "b"], not (f in ["b", "c"])',
    "os:cinder:volume(_id=x, size=n), n ?? 0 > 500, n ?? 10 < 1000",
    "os:cinder:volume(_id=x, size=n), n ?? 5 = 6, n ?? 7 = 6",
    "os:cinder:volume(_id=x, size=n), n != null, n > 10, n * 2 < 100, n - 20 < 0",
    'os:nova:server(_id=x), heat:resource(id=x, type=t), starts_with(t, "OS::Nova")',
    'os:nova:server(_id=x), not heat:resource(id=x, name="web")',
    'heat:resource(id=x, name=n), starts_with(n, "web"), not starts_with(n, "web-1"), ends_with(n, "db")',
    'heat:resource(id=x, name=n), starts_with(n, "web"), starts_with(n, "web-1")',
    'heat:resource(id=x, name=n), starts_with(n, "a"), ends_with(n, "b"), contains(n, "c")',
    "os:neutron:subnet(_id=x, ip_version=4)",
    "os:neutron:subnet(_id=x, ip_version=v), v != 4",
    "os:cinder:volume(_id=x, availability_zone=a), os:cinder:volume(_id=x, availability_zone=b), (a = b or a != b)",
    "os:cinder:volume(_id=x, size=n), n ?? 0 > 2 * 1024",
    'os:cinder:volume(_id=x, size=n), parse_size("500 GB", b), n ?? 0 * 1024 * 1024 * 1024 > b',
    "heat:stack(id=x), sum{ n, v : os:cinder:volume(_stack=x, _id=v, size=n) } > 500 * 1024",
    "heat:stack(id=x), max{ n : os:cinder:volume(_stack=x, size=n) } > min{ n : os:cinder:volume(_stack=x, size=n) }",
    "heat:stack(id=x), count{ s : os:nova:server(_stack=x, _id=s) } > "
    'count{ s : os:nova:server(_stack=x, _id=s, flavor="m1.huge") }',
    "heat:stack(id=x), min{ n : os:cinder:volume(_stack=x, size=n), n ?? 0 > 50 } < 100",
    'os:nova:server(_id=x, name=n), n != null, contains(n, "-"), split(n, "-", 1, part), part = "2"',
    'os:nova:server(_id=x, name=n), n != null, split(n, "-", 0, part), part = "web"',
    "big(x, n), n > 5.\nbig(x, 1) :- os:nova:server(_id=x).\nbig(x, n) :- os:cinder:volume(_id=x, size=n), n != null",
    'heat:resource(id=x, declared="servers.yaml")',
    'heat:resource(id=x, declared=d), ends_with(d, ".yaml")',
    "os:neutron:security_group.rules(_id=x, direction=d), os:neutron:security_group_rule(direction=d)",
    'os:neutron:subnet(_id=x, cidr=c), c != null, starts_with(c, "10.0.")',
    'heat:property(id=x, path=p), starts_with(p, "networks.")',
    'heat:property(id=x, path=p), starts_with(p, "net")',
    'heat:stack(id=x), list{ f, s : os:nova:server(_stack=x, _id=s, flavor=f) } = "m1.huge,m1.tiny"',
    "heat:nested(id=x, stack=_), os:heat:resource_group(_id=x)",
    'heat:stack(id=x), days_until("2027-3-1", n), n < 30',
    "os:nova:server(_id=x), count{ i : os:nova:server.networks(_id=x, _index=i) } > 1",
    "os:nova:server(_id=x), count{ s, i : os:nova:server.networks(_id=s, _index=i) } > 1",
    'heat:parameter_attribute(stack=x, attribute="constraints.0.allowed_values.0")',
    'os:neutron:floating_ip(_id=x, port_id=p), p ?? "none" = "none"',
    "near(x, y), x != y.\nnear(x, y) :- heat:requires(id=x, required=y).\nnear(x, z) :- near(x, y), near(y, z)",
    'heat:resource(id=x, type=t), lower(t, low), low = "os::nova::server"',
    'heat:property(id=x, path=p), at(p).\nat("flavor"). at("networks.0.port")',
    'os:cinder:volume(_id=x, size=n), parse_size("500gib", b), n ?? 0 * 1024 * 1024 * 1024 > b',
    'os:cinder:volume(_id=x, size=n), m = n ?? "none", is_number(m), m > 5',
    'os:cinder:volume(_id=x, size=n), m = n ?? "none", is_string(m)',
    'sized(x, _).\nsized(x, shown) :- os:cinder:volume(_id=x, size=n), shown = n ?? "none"',
    'sized(x, _).\nsized(x, n ?? "none") :- os:cinder:volume(_id=x, size=n)',
)
"""Rules that look like a mistake and are none: nothing is said of them when they are loaded."""
