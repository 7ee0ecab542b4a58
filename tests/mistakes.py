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
    command."""

    text: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    command: str = CHECK

    @property
    def rules(self) -> str:
        """The text of rules.dl; empty if there is none."""
        return self.text if not self.text or ":-" in self.text or "@" in self.text else f"{POLICY}{self.text}.\n"


FLAVORS = {
    "i.jsonl": '{"relation": "nova:flavors", "row": {"id": "1", "name": "m1.huge", "vcpus": 1, "ram": 1, "disk": 1, '
    '"ephemeral": 0, "rxtx_factor": 1}}\n'
}
WITH_CALLER = f"{CHECK} --caller caller.json"
WITH_INVENTORY = f"{CHECK} --inventory i.jsonl"
WITH_WAIVERS = f"{CHECK} --waivers w.yaml"
FOLDER = "check web.yaml --rules r"
SERVER = '@deny("b", "{x}")\np(x) :- os:nova:server(_id=x).\n'

HUGE = 'p(x) :- os:nova:server(_id=x, flavor="m1.huge").\n'
DENY_HUGE = f'@deny("a", "{{x}}")\n{HUGE}'
DENY_TINY = '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor="tiny").\n'


def _waiver(expires: str, bound: str = "subject: server") -> str:
    return f"waivers:\n  - {{id: W-1, policy: a, owner: o, reason: r, expires: '{expires}', {bound}}}\n"


MISTAKES: dict[str, tuple[Mistake, ...]] = {
    "Names and values": (
        Mistake('heat:deletion_policy(id=x, policy="retain")'),
        Mistake('heat:deletion_policy(id=x, policy="Keep")'),
        Mistake('heat:deletion_policy(id=x, policy=d), d = "snapshot"'),
        Mistake(
            'heat:stack(id=x), gate:role("Admin")', files={"caller.json": '{"roles": ["admin"]}'}, command=WITH_CALLER
        ),
        Mistake(
            'heat:stack(id=x), gate:role("administrator")',
            files={"caller.json": '{"roles": ["admin"]}'},
            command=WITH_CALLER,
        ),
        Mistake('heat:attribute(id=x, target=t, attribute="mac_adress"), os:neutron:port(_id=t)'),
        Mistake('heat:attribute(id=x, target=t, attribute="first_address"), os:neutron:port(_id=t)'),
        Mistake('heat:attribute(id=x, attribute="mac_adress")'),
        Mistake('os:nova:server(_id=x), heat:property(id=x, path="size", value=v), v != null'),
        Mistake('heat:property(id=x, path="networks.port")'),
        Mistake('heat:property(id=x, path=p), p = "networks.port"'),
        Mistake('heat:property(id=x, path="networks[0].port")'),
        Mistake('heat:property(id=x, path="networks.*.port")'),
        Mistake('heat:metadata(id=x, path="disks[0].size")'),
        Mistake('heat:property(id=x, path="networks")'),
        Mistake('heat:property(id=x, path="networks.0.prt")'),
        Mistake('heat:property(id=x, path="networks/0/port")'),
        Mistake('heat:property(id=x, path="properties.flavor", value="m1.huge")'),
        Mistake('heat:reference(id=x, path="network.0.port")'),
        Mistake('heat:function(id=x, path="userdata")'),
        Mistake('heat:function(id=x, function="getparam")'),
        Mistake('heat:nested_function(id=x, function="get_parm")'),
        Mistake('heat:parameter(stack=x, name="key", type="text")'),
        Mistake('heat:parameter(stack=x, name="key", type="integer")'),
        Mistake('heat:parameter(stack=x, origin="env")'),
        Mistake('heat:parameter_attribute(stack=x, attribute="constraint")'),
        Mistake('heat:stack(id=x, version="2018-8-31")'),
        Mistake('heat:section(stack=x, section="output")'),
        Mistake(
            'heat:environment(file=x, section="parameter")',
            files={"env.yaml": "parameters: {key: ops}\n"},
            command="check web.yaml -e env.yaml --rules rules.dl",
        ),
        Mistake('heat:update_policy(id=x, path="batch_creat.max_batch_size")'),
        Mistake('heat:stack(id=x), gate:request("Create")'),
        Mistake('heat:stack(id=x), gate:request(action="modify")'),
        Mistake('heat:status(id=x, status="COMPLETED")'),
        Mistake('heat:change(x, "replaced")'),
        Mistake('heat:requires(id=x, why="depends_on")'),
        Mistake('heat:hook(id=x, hook="precreate")'),
        Mistake('heat:resource(id=x, type="os::nova::server")'),
        Mistake('heat:resource(id=x, type=t), starts_with(t, "OS::Nvoa::")'),
        Mistake('heat:resource(id=x, type=t), contains(t, "Nova:Server")'),
        Mistake('heat:resource(id=x, type=t), t in ["OS::Nova::Server ", "OS::Nova::Svr"]'),
        Mistake('os:neutron:security_group.rules(_id=x, protocol="TCP")'),
        Mistake('os:neutron:security_group.rules(_id=x, ethertype="ipv4")'),
        Mistake('os:neutron:security_group.rules(_id=x, direction="inbound")'),
        Mistake('heat:resource(x, _, "OS::Nova::Server")'),
        Mistake(
            'os:nova:server(_id=x, name=n), nova:servers(_, n, "ACTIVE")', files={"i.jsonl": ""}, command=WITH_INVENTORY
        ),
        Mistake('heat:property(x, "m1.huge", "flavor")'),
        Mistake('os:nova:server(x, "web")'),
        Mistake('heat:resource(id=x, name="web/server")'),
        Mistake(
            "relation Banned(name: string).\n"
            'Banned("m1.huge").\n'
            '@deny("a", "{x}")\n'
            "p(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n"
        ),
        Mistake('os:nova:server(_id=x, flavor=F), f = "m1.huge"'),
        Mistake('os:nova:server(_id=x, Flavor="m1.huge")'),
        Mistake("OS:Nova:Server(_id=x)"),
        Mistake("OS::Nova::Server(_id=x)"),
        Mistake(
            '@unlock("edge") g(x) :- gate:grant(id=x, service="edge").\n'
            '@deny("a", "{x}")\n'
            'p(x) :- os:nova:server(_id=x), not gate:unlocked("Edge", x).\n'
        ),
        Mistake('os:nova:server(_id=x, flavor="m1.huge ")'),
        Mistake('os:nova:server(_id=x, flavor=f), f in [" m1.huge", "m1.large"]'),
        Mistake(
            "relation banned(name: string).\n"
            'banned("m1.huge ").\n'
            '@deny("a", "{x}")\n'
            "p(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n"
        ),
        Mistake("os:nova:server(_id=x, name=n), n != null, lower(n, low), upper(n, up), low = up"),
        Mistake('heat:stack(id=x), gate:now(t), t >= "2026-11-31"'),
        Mistake('heat:stack(id=x), gate:now(t), t >= "2026-24-12"'),
        Mistake(
            '(os:neutron:security_group.rules(_id=x, remote_ip_prefix="any") or '
            'os:neutron:security_group_rule(_id=x, remote_ip_prefix="any"))'
        ),
        Mistake(
            'heat:stack(id=x), gate:inventory_age(table="nova:server", seconds=s), s > 60',
            files={"i.jsonl": ""},
            command=WITH_INVENTORY,
        ),
        Mistake(
            'os:nova:server(_id=x, name=n), nova:servers(name=n, status="RUNNING")',
            files={"i.jsonl": ""},
            command=WITH_INVENTORY,
        ),
        Mistake(
            '@unlock("edge") g(x) :- gate:grant(id=x, service="edge").\n'
            '@deny("a", "{x}")\n'
            'p(x) :- os:nova:server(_id=x), not gate:unlocked("edge", _).\n'
        ),
        Mistake('os:neutron:port.fixed_ips(_id=x, ip_address="10.0.0.0/24")'),
        Mistake('os:neutron:subnet(_id=x, cidr="10.0.0.0")'),
        Mistake('kept("keep").\n@deny("a", "{x}")\np(x) :- heat:deletion_policy(id=x, policy=d), kept(d).\n'),
        Mistake("os:nova:server(_id=x, networks=n), n != null"),
        Mistake(
            'relation kept(policy: string).\nkept("keep").\n'
            '@deny("a", "{x}")\np(x) :- heat:deletion_policy(id=x, policy=d), kept(d).\n'
        ),
        Mistake(
            'wanted("front").\ntier(x, "web") :- os:nova:server(_id=x).\n'
            '@deny("a", "{x}")\np(x) :- tier(x, t), wanted(t).\n'
        ),
        Mistake('tier(x, "web") :- os:nova:server(_id=x).\n@deny("a", "{x}")\np(x) :- tier(x, t), t in ["front"].\n'),
        Mistake('heat:property(id=x, path=p, value="m1.huge"), starts_with(p, "flavour")'),
        Mistake('heat:property(id=x, path=p), starts_with(p, "networks[0]")'),
        Mistake('heat:stack(id=x), list{ f, s : os:nova:server(_stack=x, _id=s, flavor=f) } = "m1.tiny, m1.huge"'),
        Mistake('os:nova:server(_id=x, flavor=f), f in ["m1.tiny m1.huge"]'),
        Mistake('heat:parameter_attribute(stack=x, attribute="constraints.range.max")'),
        Mistake('heat:parameter_attribute(stack=x, attribute="constraints.0.range.maximum")'),
        Mistake('os:nova:server(_id=x), not os:cinder:volume_attachment(instance_uuid="x")'),
        Mistake('heat:resource(id=x, type=t), lower(t, low), low = "os:nova:server"'),
        Mistake("heat:property(x, value, path), value = path"),
        Mistake(
            'after("01.01.2027").\n@deny("a", "{x}")\np(x) :- heat:stack(id=x), gate:now(t), after(day), t > day.\n'
        ),
        Mistake('read("mac_adress").\n@deny("a", "{x}")\np(x) :- heat:attribute(id=x, attribute=a), read(a).\n'),
        Mistake('at("networks[0].port").\n@deny("a", "{x}")\np(x) :- heat:property(id=x, path=p), at(p).\n'),
        Mistake(
            files={
                "r/limits.dl": "relation kept(policy: string).\nexport kept.\n",
                "r/limits.yaml": "kept: [keep]\n",
                "r/a.dl": 'import limits.\n@deny("a", "{x}")\np(x) :- heat:deletion_policy(id=x, policy=d), kept(d).\n',
            },
            command=FOLDER,
        ),
    ),
    "Values of another kind": (
        Mistake('os:nova:server.metadata(_id=x, _key="public", _value="true")'),
        Mistake('os:nova:server.metadata(_id=x, _key="slots", _value="5")'),
        Mistake('heat:metadata(id=x, path="critical", value="true")'),
        Mistake('heat:metadata(id=x, path="critical", value="yes")'),
        Mistake('heat:property(id=x, path="port_security_enabled", value="false")'),
        Mistake('heat:property(id=x, path="size", value="600")'),
        Mistake('os:neutron:port(_id=x, port_security_enabled="false")'),
        Mistake('os:cinder:volume(_id=x, size="600")'),
        Mistake("os:neutron:port(_id=x, port_security_enabled=0)"),
        Mistake("os:neutron:port(_id=x, port_security_enabled=no)"),
        Mistake('heat:parameter(stack=x, hidden="true")'),
        Mistake('heat:condition(stack=x, name="public", value="true")'),
        Mistake('os:cinder:volume(_id=x, size=n), parse_size("500 GB", b), n ?? 0 > b'),
        Mistake('os:cinder:volume(_id=x, size=n), n ?? 0 > "500"'),
        Mistake('os:nova:server(_id=x), x = "server"'),
        Mistake("heat:stack(id=x), os:nova:server(_id=x)"),
        Mistake('@deny("a", "{x}")\np(x, y) :- os:nova:server(_id=x, name=n), y = n ?? "" + "-x", y != "".\n'),
        Mistake('@deny("a", "{x}")\np(x, y) :- heat:resource(id=x, name=n), y = "id-" + n.\n'),
        Mistake('heat:stack(id=x), gate:now(t), t > "2027-3-1"'),
        Mistake('heat:stack(id=x), gate:now("2026-11-23")'),
        Mistake("os:cinder:volume(_id=x, size=n), n ?? 0 > 500 * 1024"),
        Mistake("os:cinder:volume(_id=x, size=n), n ?? 0 in [107374182400, 536870912000]"),
        Mistake("heat:stack(id=x), sum{ n, v : os:cinder:volume(_stack=x, _id=v, size=n) } > 1000 * 1024 * 1024"),
        Mistake('most(524288).\n@deny("a", "{x}")\np(x) :- os:cinder:volume(_id=x, size=n), most(m), n ?? 0 > m.\n'),
        Mistake(
            "size(x, n) :- os:cinder:volume(_id=x, size=n), n != null.\n"
            '@deny("a", "{x}")\np(x) :- size(x, n), n > 500 * 1024.\n'
        ),
        Mistake("os:cinder:volume(_id=x, size=n, volume_type=t), t != n"),
        Mistake('os:cinder:volume(_id=x, size=n), n ?? "0" > 500'),
        Mistake('os:cinder:volume(_id=x, size=n), m = n ?? "none", m != 600'),
        Mistake("os:neutron:port(_id=x, port_security_enabled=s), s ?? 1 = 0"),
        Mistake("heat:deletion_policy(id=x, policy=d), heat:section(section=s), d = s"),
        Mistake(
            "(os:neutron:security_group.rules(_id=x, direction=d, ethertype=d) or "
            "os:neutron:security_group_rule(_id=x, direction=d, ethertype=d))"
        ),
        Mistake(
            'public(v) :- os:nova:server.metadata(_key="public", _value=v).\n'
            '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x), public("true").\n'
        ),
    ),
    "What a template leaves out": (
        Mistake(
            "relation bad(p: string or null).\n"
            'bad("udp").\n'
            "bad(null).\n"
            '@deny("a", "{x}")\n'
            "p(x) :- os:neutron:security_group.rules(_id=x, protocol=p), bad(p).\n"
        ),
        Mistake(
            "zone(s, z) :- os:nova:server(_id=s, availability_zone=z).\n"
            '@deny("a", "{x}")\n'
            "p(x, y) :- zone(x, z), zone(y, z), x != y.\n"
        ),
        Mistake(
            "zone(s, z) :- os:nova:server(_id=s, availability_zone=z).\n"
            "volzone(v, z) :- os:cinder:volume(_id=v, availability_zone=z).\n"
            '@deny("a", "{x}")\n'
            "p(x, y) :- zone(x, z), volzone(y, z).\n"
        ),
        Mistake("os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a <= 22, b >= 22"),
        Mistake(
            "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a ?? 65535 <= 22, b ?? 0 >= 22"
        ),
        Mistake(
            "(os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b) or "
            "os:neutron:security_group_rule(_id=x, port_range_min=a, port_range_max=b)), a ?? 0 > 600, b ?? 65535 < 600"
        ),
        Mistake("os:neutron:security_group.rules(_id=x, port_range_max=a), a ?? 0 >= 22"),
        Mistake("os:neutron:security_group.rules(_id=x, port_range_min=a), low = a ?? 65535, low <= 22"),
        Mistake("os:nova:server(_id=x, availability_zone=z), z = None"),
        Mistake('os:nova:server(_id=x, availability_zone="null")'),
        Mistake("os:nova:server(_id=x, availability_zone=NULL)"),
        Mistake("os:nova:server(_id=x, availability_zone=z), z is null"),
        Mistake("os:nova:server(_id=x, availability_zone=z), z == null"),
        Mistake("os:cinder:volume(_id=x), heat:resource(id=x, name=n), n = null"),
        Mistake('os:nova:server(_id=x, availability_zone=z), z ?? null = "nova"'),
        Mistake(
            "(os:neutron:security_group.rules(_id=x, protocol=p) or "
            'os:neutron:security_group_rule(_id=x, protocol=p)), p ?? "udp" = "tcp"'
        ),
        Mistake(
            "(os:neutron:security_group.rules(_id=x, remote_ip_prefix=c) or "
            'os:neutron:security_group_rule(_id=x, remote_ip_prefix=c)), c ?? "10.0.0.0/8" = "0.0.0.0/0"'
        ),
        Mistake(
            "low(x, n ?? 65535) :- os:neutron:security_group.rules(_id=x, port_range_min=n).\n"
            "low(x, n ?? 65535) :- os:neutron:security_group_rule(_id=x, port_range_min=n).\n"
            '@deny("a", "{x}")\np(x) :- low(x, n), n <= 22.\n'
        ),
        Mistake(
            '@deny("a", "{x}")\n'
            "p(x) :- os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), port(q), "
            "a ?? 65535 <= q, b ?? 0 >= q.\nport(22).\n"
        ),
        Mistake("os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a = 22, b = 22"),
    ),
    "Conditions that hold of nothing, or of everything": (
        Mistake("os:cinder:volume(_id=x, size=n), n ?? 0 > 1000, n ?? 0 < 100"),
        Mistake("os:cinder:volume(_id=x, size=n), n != null, n > 1000, n < 100"),
        Mistake("os:cinder:volume(_id=x, size=n), n != null, n > 1000, n = 600"),
        Mistake("os:cinder:volume(_id=x, size=n), n != null, n < 1"),
        Mistake("os:cinder:volume(_id=x, size=0)"),
        Mistake("os:cinder:volume(_id=x), not os:cinder:volume(_id=x, size=0)"),
        Mistake("os:nova:server(_id=x, flavor=f), f in []"),
        Mistake(
            '@deny("a", "{x}")\n'
            "p(x, n) :- heat:stack(id=x), n = count{ v : os:cinder:volume(_stack=x, _id=v) }, n > 10, n < 2.\n"
        ),
        Mistake('os:nova:server(_id=x, flavor=f), f = "m1.huge", f = "m1.large"'),
        Mistake('os:nova:server(_id=x, flavor="m1.huge"), os:nova:server(_id=x, flavor="m1.large")'),
        Mistake('os:nova:server(_id=x, flavor=f), f in ["m1.huge", "m1.large"], f = "m1.tiny"'),
        Mistake(
            "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a ?? 0 >= 22, b ?? 65535 <= 22"
        ),
        Mistake("os:neutron:security_group.rules(_id=x, port_range_min=22, port_range_max=22)"),
        Mistake('os:nova:server(_id=x, flavor=f), (f != "m1.small" or f != "m1.huge")'),
        Mistake('os:nova:server(_id=x, flavor=f), not (f != "m1.small" or f != "m1.huge")'),
        Mistake(
            '@deny("a", "{x}")\n'
            "p(x, n) :- heat:stack(id=x), n = count{ v : os:cinder:volume(_stack=x, _id=v) }, n < 0.\n"
        ),
        Mistake("os:nova:server(_id=x), x != x"),
        Mistake("os:nova:server(_id=x), os:cinder:volume(_id=x)"),
        Mistake("os:nova:server.networks(_id=x, port=p), os:neutron:net(_id=p)"),
        Mistake('heat:deletion_policy(id=x, policy=p), p != "Delete", p != "Retain", p != "Snapshot"'),
        Mistake('os:nova:server(_id=x), not os:nova:server.metadata(_key="public")'),
        Mistake('os:cinder:volume(_id=x), not heat:deletion_policy(policy="Retain")'),
        Mistake("heat:stack(id=x, depth=d), d < 0"),
        Mistake("os:nova:server(_id=x), not os:nova:server(_id=x)"),
        Mistake('os:nova:server(_id=x, flavor="m1.huge"), not os:nova:server(_id=x, flavor=_)'),
        Mistake("os:cinder:volume(_id=x, size=n), n ?? 1000 < 0"),
        Mistake("os:cinder:volume(_id=x, size=n), n ?? 0 < 0"),
        Mistake(
            "heat:stack(id=x), count{ v : os:cinder:volume(_stack=x, _id=v) } > 3, "
            "count{ v : os:cinder:volume(_stack=x, _id=v) } < 2"
        ),
        Mistake("heat:stack(id=x), sum{ n, v : os:cinder:volume(_stack=x, _id=v, size=n) } < 0"),
        Mistake("heat:stack(id=x), max{ n : os:cinder:volume(_stack=x, size=n) } < 1"),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "^web"), not matches(n, "^web")'),
        Mistake(
            "listed(s) :- os:nova:server(_id=s).\n"
            '@deny("a", "{x}")\n'
            "p(x) :- os:nova:server(_id=x, image=i), i != null, not listed(x).\n"
        ),
        Mistake('os:nova:server(_id=x, flavor=f), f in ["m1.huge"], not (f in ["m1.tiny", "m1.huge"])'),
        Mistake('os:nova:server(_id=x, flavor=f), f in ["m1.huge", "m1.large"], f in ["m1.tiny", "m1.small"]'),
        Mistake(
            "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), "
            "low = a ?? 0, high = b ?? 65535, low > high, low < high"
        ),
        Mistake("heat:stack(id=x), count{ v : os:cinder:volume(_stack=x, _id=v, size=n), n ?? 0 > 9, n ?? 0 < 2 } > 0"),
        Mistake("heat:resource(id=x, name=n), len(n, l), l < 0"),
        Mistake("heat:stack(id=x), os:cinder:volume(_stack=x), count{ v : os:cinder:volume(_stack=x, _id=v) } = 0"),
        Mistake("os:cinder:volume(_id=x), count{ v : os:cinder:volume(_id=v), v = x } > 1"),
        Mistake("os:cinder:volume(_id=x, size=n), n != null, max{ m : os:cinder:volume(size=m) } < n"),
        Mistake("heat:stack(id=x), count{ v : os:cinder:volume(_stack=x, _id=v) } = 1.5"),
        Mistake("heat:stack(id=x), count{ v : os:cinder:volume(_stack=x, _id=v) } = null"),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "^web$"), matches(n, "^db$")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "^web"), starts_with(n, "db")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "^[0-9]+$"), matches(n, "^[a-z-]+$")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, starts_with(n, "web"), not matches(n, "^w")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, lower(n, low), matches(low, "^Web")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "$web")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, not contains(n, "")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, split(n, "-", 0, part), part = "web-1"'),
        Mistake('os:nova:server(_id=x, name=n), n != null, starts_with(n, "web-1"), len(n, l), l < 5'),
        Mistake("os:nova:key_pair(_id=x, name=n), len(n, l), l > 255"),
        Mistake("os:cinder:volume(_id=x, size=a), os:cinder:volume(_id=x, size=b), a = 600, b = 500"),
        Mistake("os:cinder:volume(_id=x, size=a), os:cinder:volume(_id=x, size=b), a ?? 0 > 500, b ?? 0 < 100"),
        Mistake('os:nova:server(_id=x, flavor="m1.huge"), heat:property(id=x, path="flavor", value="m1.tiny")'),
        Mistake("os:cinder:volume(_id=x, size=n), n != null, n > n * 2"),
        Mistake("os:cinder:volume(_id=x, size=n), n != null, n = n + 1"),
        Mistake("os:cinder:volume(_id=x, size=n), n != null, n > 600, n < 601"),
        Mistake("os:cinder:volume(_id=x, size=n), n != null, n % 10 > 10"),
        Mistake("os:cinder:volume(_id=x, size=n), n != null, n / 1000 > 1, n < 500"),
        Mistake("os:cinder:volume(_id=x, size=n), not (n ?? 0 > 500), not (n ?? 0 <= 500)"),
        Mistake("os:cinder:volume(_id=x, _stack=s), not heat:stack(id=s)"),
        Mistake("heat:stack(id=x), gate:now(t), unpack_datetime(t, _, month, _, _, _, _), month = 13"),
        Mistake("os:neutron:port(_id=x, port_security_enabled=s), s != true, s != false, s != null"),
        Mistake("os:cinder:volume(_id=x, size=n), n != null, round(n / 100, m), m > 100, n < 1000"),
        Mistake("os:cinder:volume(_id=x, size=n), n != null, max2(n, 100, m), m < 100"),
        Mistake(
            "os:neutron:subnet(_id=x, cidr=c), c != null, "
            'cidr_contains("10.0.0.0/8", c), cidr_contains("192.0.0.0/8", c)'
        ),
        Mistake('os:neutron:subnet(_id=x, cidr=c), c != null, cidr_contains("10.0.0.0/8", c), c = "192.168.0.0/24"'),
        Mistake("os:cinder:volume(_id=x, size=n), n ?? 0 > 500, n ?? 10 < 100"),
        Mistake("os:cinder:volume(_id=x, size=n), n = null, n ?? 5 = 6"),
        Mistake("os:cinder:volume(_id=x, size=n), n != null, n + 1 < 1"),
        Mistake("os:cinder:volume(_id=x, size=n), n != null, n > 1000, n * 2 < 100"),
        Mistake(
            "heat:stack(id=x), count{ v : os:cinder:volume(_stack=x, _id=v) } > 1, "
            "count{ v : os:cinder:volume(_stack=x, _id=v) } < 2"
        ),
        Mistake('os:nova:server(_id=x), heat:resource(id=x, type="OS::Cinder::Volume")'),
        Mistake('os:nova:server(_id=x), heat:resource(id=x, type=t), starts_with(t, "OS::Neutron")'),
        Mistake("os:nova:server(_id=x), not heat:resource(id=x)"),
        Mistake("os:nova:server.networks(_id=x), not os:nova:server(_id=x)"),
        Mistake("heat:resource(id=x, name=n), heat:resource(id=x, name=m), n != m"),
        Mistake('heat:resource(id=x, name=n), starts_with(n, "web"), starts_with(n, "db")'),
        Mistake('heat:resource(id=x, name=n), starts_with(n, "web"), n = "db"'),
        Mistake('heat:resource(id=x, name=n), n = "server", not starts_with(n, "serv")'),
        Mistake('heat:resource(id=x, name=n), starts_with(n, "web-1"), not starts_with(n, "web")'),
        Mistake("os:neutron:subnet(_id=x, ip_version=5)"),
        Mistake("os:neutron:subnet(_id=x, ip_version=v), v != 4, v != 6"),
        Mistake(
            "heat:stack(id=x), max{ n : os:cinder:volume(_stack=x, size=n) } < "
            "avg{ n, v : os:cinder:volume(_stack=x, _id=v, size=n) }"
        ),
        Mistake(
            '@deny("a", "{x}")\n'
            "p(x, low) :- heat:stack(id=x), low = min{ n : os:cinder:volume(_stack=x, size=n) }, "
            "low > max{ n : os:cinder:volume(_stack=x, size=n) }.\n"
        ),
        Mistake(
            "heat:stack(id=x), count{ s : os:nova:server(_stack=x, _id=s) } < "
            'count{ s : os:nova:server(_stack=x, _id=s, flavor="m1.huge") }'
        ),
        Mistake("heat:stack(id=x), min{ n : os:cinder:volume(_stack=x, size=n), n ?? 0 > 500 } < 100"),
        Mistake(
            '@deny("a", "{x}")\n'
            "p(x, n) :- heat:stack(id=x), n = count{ v : os:cinder:volume(_stack=x, _id=v) }, n > 1, n < 3, n != 2.\n"
        ),
        Mistake(
            'size(x, n) :- os:cinder:volume(_id=x, size=n), n != null.\n@deny("a", "{x}")\np(x) :- size(x, n), n < 0.\n'
        ),
        Mistake(
            "level(x, 1) :- os:cinder:volume(_id=x).\nlevel(x, 2) :- os:nova:server(_id=x).\n"
            '@deny("a", "{x}")\np(x) :- level(x, 3).\n'
        ),
        Mistake(
            'kind(x, "disk") :- os:cinder:volume(_id=x).\nkind(x, "vm") :- os:nova:server(_id=x).\n'
            '@deny("a", "{x}")\np(x) :- kind(x, "disk"), kind(x, "vm").\n'
        ),
        Mistake(
            "open(n) :- os:neutron:net(_id=n, port_security_enabled=false).\n"
            '@deny("a", "{x}")\np(x) :- os:nova:server.networks(_id=x, port=n), open(n).\n'
        ),
        Mistake('heat:reference(id=x, path="networks.0.port", target=t), os:neutron:net(_id=t)'),
        Mistake("os:nova:server(_id=x, _stack=s), heat:stack(id=s, parent=p), os:nova:server(_id=p)"),
        Mistake("heat:nested(id=x, stack=_), os:nova:server(_id=x)"),
        Mistake(
            '@unlock("edge") g(x) :- gate:grant(id=x, service="edge").\n'
            '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x), gate:grant(id=x, service="edge").\n'
        ),
        Mistake(
            '@unlock("edge") g(x) :- os:nova:server(_id=x, flavor="m1.huge").\n'
            '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x), not gate:unlocked("edge", x).\n'
        ),
        Mistake('good(f) :- good(f).\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), good(f).\n'),
    ),
    "Builtins and patterns": (
        Mistake('os:nova:server(_id=x, name=n), n != null, starts_with("web-", n)'),
        Mistake('os:nova:server(_id=x, name=n), n != null, starts_with(n, "web-.*")'),
        Mistake('heat:resource(id=x, type=t), matches(t, "^OS::nova")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, contains("web", n)'),
        Mistake('heat:resource(id=x, name=n), prefix = "web-", starts_with(prefix, n)'),
        Mistake(
            'os:neutron:security_group.rules(_id=x, remote_ip_prefix=c), c != null, not cidr_contains(c, "10.0.0.0/8")'
        ),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches("^web", n)'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "^db|web$")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, not matches(n, "^db|web-1|dns$")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "db-*")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "*.example.com")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "web-[0..9]")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "^web-1$ ")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, ends_with(n, "-[0-9]")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, contains(n, "db|web")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, starts_with(n, "web*")'),
        Mistake(
            '@deny("a", "{x}")\n'
            "p(x) :- os:nova:server(_id=x, name=n), n != null, prefix(p), starts_with(p, n).\n"
            'prefix("web-").\n'
        ),
        Mistake(
            '@deny("a", "{x}")\n'
            "p(x) :- os:nova:server(_id=x, name=n), n != null, good(p), not matches(n, p).\n"
            'good("^db|web").\n'
        ),
        Mistake('@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), bad(f).\nbad("m1.*").\n'),
        Mistake('heat:stack(id=x), gate:now(t), contains(t, "Sunday")'),
        Mistake('heat:stack(id=x), gate:now(t), starts_with(t, "26-12")'),
        Mistake('os:nova:server(_id=x, name="web-*")'),
        Mistake('os:nova:server(_id=x, name="web%")'),
        Mistake('os:nova:server(_id=x, name="^web.*")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "\\d+")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, lower(n, "Web-1")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, lower(n, l), starts_with(l, "Web")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, upper(n, l), l in ["web-1", "DB"]'),
        Mistake(
            'os:neutron:security_group.rules(_id=x, remote_ip_prefix=c), c != null, cidr_contains("10.0.0.0/33", c)'
        ),
        Mistake(
            'os:neutron:security_group.rules(_id=x, remote_ip_prefix=c), c != null, ip_in_network("10.0.0.0/8", c)'
        ),
        Mistake('heat:resource(id=x, name=n), lower(n) = "web"'),
        Mistake("heat:resource(id=x, name=n), len(n) > 3"),
        Mistake('os:nova:server(_id=x, name=n), n != null, split(n, "-", 1, part), part = "2"'),
        Mistake('os:nova:server(_id=x, name=n), n != null, split(n, ".", 2, part), part = "org"'),
        Mistake('os:nova:server(_id=x, name=n), n != null, split(n, "-", -1, part), part = "1"'),
        Mistake('os:nova:server(_id=x, name=n), n != null, split(n, "", 0, part), part = "1"'),
        Mistake(
            'os:neutron:subnet(_id=x, cidr=c), c != null, starts_with(c, "10.0.0.0/8")', files={"web.yaml": SUBNET}
        ),
        Mistake(
            "os:neutron:subnet.allocation_pools(_id=x, start=first, end=last), first < last", files={"web.yaml": SUBNET}
        ),
        Mistake('heat:stack(id=x), cidr_contains("10.0.0.0/24", "10.0.0.0/8")'),
        Mistake('heat:stack(id=x), days_until("01.03.2027", n), n < 0'),
        Mistake('os:cinder:volume(_id=x, size=n), parse_size("500 gigs", b), n ?? 0 * 1073741824 > b'),
        Mistake('os:nova:server(_id=x, name=n), n != null, pattern = "^db|web$", matches(n, pattern)'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "^[A-z]+$")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "^db|^web-1 ")'),
        Mistake(
            'front("web-*").\n@deny("a", "{x}")\n'
            "p(x) :- os:nova:server(_id=x, name=n), n != null, front(f), starts_with(n, f).\n"
        ),
    ),
    "Aggregates": (
        Mistake('@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), n = count(os:nova:server(_stack=x)), n > 0.\n'),
        Mistake("heat:stack(id=x), count(s : os:nova:server(_stack=x, _id=s)) > 0"),
        Mistake("os:nova:server(_id=x), count(x) > 3"),
        Mistake("heat:stack(id=x), count(s, n), n > 0"),
        Mistake("heat:stack(id=x), count(os:nova:server) > 0"),
        Mistake('@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), n = count{ os:nova:server(_stack=x) }, n > 0.\n'),
        Mistake(
            '@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), n = count{ s | os:nova:server(_stack=x, _id=s) }, n > 0.\n'
        ),
        Mistake(
            '@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), n = count{ s: os:nova:server(_stack=x, _id=s) }, n > 0.\n'
        ),
        Mistake('@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), n = sum(z), os:cinder:volume(size=z), n > 0.\n'),
        Mistake(
            '@deny("a", "{x}")\n'
            "p(x, n) :- os:nova:server(_id=x), n = count{ i : os:nova:server.networks(_index=i) }, n > 1.\n"
        ),
    ),
    "Policies": (
        Mistake('os:nova:server(_id=x), gate:request("delete")'),
        Mistake('os:nova:server(_id=x), gate:request(a), a in ["delete", "suspend"]'),
        Mistake('@deny("a", "{x}", on=["create"])\np(x) :- old:os:nova:server(_id=x), not os:nova:server(_id=x).\n'),
        Mistake('@deny("a", "{x}", on=["create"])\np(x) :- heat:change(x, "replace").\n'),
        Mistake(
            'deleting() :- gate:request("delete").\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x), deleting().\n'
        ),
        Mistake('@deny("a", "{x}", on=["delete"])\np(x) :- os:nova:server(_id=x).\n'),
        Mistake('@deny("a", "{x}", on=["create"])\np(x) :- heat:stack(id=x), not gate:request("create").\n'),
        Mistake('@deny("a", "{x}", on=["create"])\np(x) :- heat:stack(id=x), gate:request(a), a != "create".\n'),
        Mistake('@deny("a", "{x}", on=["creat"])\np(x) :- os:nova:server(_id=x).\n'),
        Mistake('@deny("a", "{x}", on=[])\np(x) :- os:nova:server(_id=x).\n'),
        Mistake('@deny("a", "{x}", enforce_from="2029-03-01")\np(x) :- os:nova:server(_id=x).\n'),
        Mistake('@deny("a", "{x}", enforce_from="01.03.2027")\np(x) :- os:nova:server(_id=x).\n'),
        Mistake('deny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n'),
        Mistake('@denny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n'),
        Mistake("p(x) :- os:nova:server(_id=x).\n"),
        Mistake(
            'relation q(a: string).\n@deny("a", "{x}")\nrelation p(x: resource).\np(x) :- os:nova:server(_id=x).\n'
        ),
        Mistake('@deny("a", "{x}", on_unknown="block")\np(x) :- os:nova:server(_id=x).\n'),
        Mistake('@deny("a", "{server}")\np(x) :- os:nova:server(_id=x).\n'),
        Mistake(
            '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n@warn("b", "{x}")\np(x) :- os:cinder:volume(_id=x).\n'
        ),
    ),
    "Rules that just miss what a stack says": (
        Mistake('os:nova:server(_id=x, flavor="M1.Huge")'),
        Mistake('os:nova:server(_id=x, flavor=f), f in ["m1.tiny", "M1.HUGE"]'),
        Mistake('@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), bad(f).\nbad("M1.huge").\n'),
        Mistake(
            files={
                "r/limits.dl": "relation bad(flavor: string).\nexport bad.\n",
                "r/limits.yaml": "bad: [M1.Huge]\n",
                "r/a.dl": 'import limits.\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), bad(f).\n',
            },
            command=FOLDER,
        ),
        Mistake('heat:resource(id=x, name="Server")'),
        Mistake('heat:metadata(x, "front", "tier")'),
        Mistake('heat:parameter(stack=x, name="Key")'),
        Mistake('heat:output(stack=x, name="Address")'),
        Mistake('os:nova:server.metadata(_id=x, _key="Public")'),
        Mistake('os:nova:server.metadata(_id=x, _key="slots", _value=v), is_string(v), int(v, n), n > 4'),
        Mistake('heat:metadata(id=x, path="critical", value=v), is_string(v), lower(v, "true")'),
        Mistake('os:neutron:port(_id=x, network="Net1")'),
        Mistake('heat:resource(id=x, name=n), replace("-", n, "", m), m = "server"'),
        Mistake('os:nova:server.networks(_id=x, port="port")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, starts_with(n, "Web")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "^WEB-[0-9]")'),
        Mistake('os:nova:server(_id=x, image=i), is_string(i), contains(i, "CirrOS")'),
        Mistake('os:cinder:volume(_id=x, volume_type="")'),
        Mistake("os:nova:server.networks(_id=x, port=p), os:neutron:port(name=p)"),
        Mistake('os:neutron:security_group.rules(_id=x, remote_ip_prefix="0.0.0.0")'),
        Mistake('os:cinder:volume(_id=x, _stack="web.yaml")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "^web*$")'),
        Mistake('os:nova:server(_id=x, name=n), n != null, matches(n, "/web/")'),
        Mistake(
            "os:nova:server(_id=x, flavor=f), nova:flavors(name=f)",
            files={"i.jsonl": FLAVORS["i.jsonl"].replace("m1.huge", "M1.Huge")},
            command=WITH_INVENTORY,
        ),
        Mistake(
            'banned("m1.huge, m1.large").\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n'
        ),
        Mistake('os:nova:server(_id=x, name="server")'),
        Mistake('os:nova:server(_id=x), heat:resource(id=x, name="web-1")'),
        Mistake('os:cinder:volume(_id=x, _stack="disks")', files={"web.yaml": GROUP}),
        Mistake("os:nova:server(_id=x, availability_zone=z), os:cinder:volume(availability_zone=z)"),
        Mistake('os:neutron:security_group_rule(_id=x, remote_ip_prefix="0.0.0.0/0")'),
        Mistake(
            "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a != null, b != null, "
            "a <= 80, b >= 80"
        ),
        Mistake("os:nova:server(_id=x, flavor=f), nova:flavors(id=f)", files=FLAVORS, command=WITH_INVENTORY),
        Mistake(
            '@deny("a", "{x}")\n'
            "p(x, n) :- heat:root(stack=x), n = count{ v : os:cinder:volume(_id=v, _stack=x) }, n > 9.\n",
            files={"web.yaml": GROUP},
        ),
        Mistake(
            'heat:stack(id=x), gate:service("edge")',
            command=f"{CHECK} --services Edge",
        ),
        Mistake('heat:resource(x, "server")'),
        Mistake('heat:resource(id=x, stack="web/server")'),
        Mistake('heat:output("address", name=x)'),
        Mistake('os:neutron:subnet(_id=x, cidr="10.0.0.0/8")', files={"web.yaml": SUBNET}),
        Mistake('os:nova:server(_id=x), heat:metadata(id=x, path="labels", value="front")', files={"web.yaml": LABELS}),
        Mistake('os:nova:server(_id=x, flavor="m1.hgue")'),
        Mistake('os:nova:server(_id=x), heat:metadata(id=x, path="labels/0")', files={"web.yaml": LABELS}),
        Mistake('os:nova:server(_id=x, name=n), n ?? "none" = "Web-1"'),
        Mistake('os:nova:server(_id=x, flavor="m1 .huge")'),
        Mistake('os:nova:server(_id=x, flavor="m1huge")'),
    ),
    "Two forms of one thing": (
        Mistake(
            "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a ?? 0 <= 22, b ?? 65535 >= 22"
        ),
        Mistake(
            "os:neutron:security_group_rule(_id=x, port_range_min=a, port_range_max=b), a ?? 0 <= 22, b ?? 65535 >= 22"
        ),
        Mistake('os:nova:server(_id=x, flavor="m1.huge")', files={"web.yaml": INSTANCE}),
        Mistake("os:neutron:floating_ip(_id=x, port_id=p), p != null", files={"web.yaml": ASSOCIATED}),
    ),
    "What a run lacks": (
        Mistake(
            'relation banned(name: string).\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n'
        ),
        Mistake(
            'relation banned(name: string).\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n',
            files=FLAVORS,
            command=WITH_INVENTORY,
        ),
        Mistake('heat:stack(id=x), gate:caller(project="p1")'),
        Mistake('heat:stack(id=x), gate:role("member")'),
        Mistake('heat:stack(id=x), gate:role("member")', files={"caller.json": '{"user": "u1"}'}, command=WITH_CALLER),
        Mistake('os:nova:server(_id=x, image=i), glancev2:images(id=i, visibility="public")'),
        Mistake(
            'os:nova:server(_id=x, image=i), glancev2:images(id=i, visibility="public")',
            files=FLAVORS,
            command=WITH_INVENTORY,
        ),
        Mistake(
            '@unlock("edge") g(x) :- gate:grant(id=x, service="edge").\n'
            '@deny("a", "{x}")\n'
            'p(x) :- heat:stack(id=x), gate:service("edge").\n'
        ),
        Mistake('heat:stack(id=x), gate:caller(project="p1")', files={"caller.json": "{}"}, command=WITH_CALLER),
        Mistake('heat:stack(id=x), gate:now(t), t > "2226-12-24"', command=f"{CHECK} --now 2026-12-01"),
        Mistake(
            'heat:stack(id=x), gate:caller(domain="guests")',
            files={"caller.json": '{"user": "u1", "project": "p1"}'},
            command=WITH_CALLER,
        ),
        Mistake('heat:stack(id=x), gate:service("edge")', command=f"{CHECK} --services egde"),
        Mistake('heat:status(id=x, status="FAILED")'),
        Mistake('os:nova:server(_id=x, flavor="tiny")', command="check web.yaml --rules rules.dl -P kye=x"),
    ),
    "Policies, waivers and settings": (
        Mistake(f'@deny("a", "{{x}}", severity="high")\n{HUGE}'),
        Mistake(f'@deny("a", "{{x}}", fix="m1.small")\n{HUGE}'),
        Mistake(f'@deny("a", "{{x}}", on_unknown="warn")\n{HUGE}'),
        Mistake(f'@deny("a", "{{x}}", enforce_from="2027-02-31")\n{HUGE}'),
        Mistake(f'@deny("a", "{{x}}", enforce_from="31/01/2027")\n{HUGE}'),
        Mistake(f'@deny("a", "{{x}}", enforce_from="2226-11-01")\n{HUGE}', command=f"{CHECK} --now 2026-12-01"),
        Mistake(f'@deny("a", "{{x}}", on=["delete"])\n{HUGE}'),
        Mistake(f'@Deny("a", "{{x}}")\n{HUGE}'),
        Mistake(f'{POLICY}os:nova:server(_id=x, flavor="tiny").\nP(x) :- os:nova:server(_id=x, flavor="m1.huge").\n'),
        Mistake(f'{POLICY}os:nova:server(_id=x, flavor="tiny").\nq(x) :- os:nova:server(_id=x, flavor="m1.huge").\n'),
        Mistake(DENY_HUGE, files={"w.yaml": _waiver("2027-02-31")}, command=WITH_WAIVERS),
        Mistake(DENY_HUGE, files={"w.yaml": _waiver("01-02-2027")}, command=WITH_WAIVERS),
        Mistake(DENY_HUGE, files={"w.yaml": _waiver("2027-02-01", 'while: "x = x"')}, command=WITH_WAIVERS),
        Mistake(
            DENY_HUGE, files={"datalog-gate.toml": 'rules = ["rules.dl"]\nfail_on = "warn"\n'}, command="check web.yaml"
        ),
        Mistake(DENY_HUGE, files={"datalog-gate.toml": '[check]\nrules = ["rules.dl"]\n'}, command="check web.yaml"),
        Mistake(
            files={
                "r/a.dl": DENY_HUGE,
                "r/test.yaml": "cases:\n  - {name: n, stack: ../web.yaml, expect: {violation: []}}\n",
            },
            command="test r",
        ),
        Mistake(DENY_HUGE, files={"w.yaml": _waiver("2226-02-01")}, command=WITH_WAIVERS),
        Mistake(DENY_HUGE, files={"datalog_gate.toml": 'rules = ["rules.dl"]\n'}, command="check web.yaml"),
        Mistake(
            DENY_HUGE, files={"pyproject.toml": '[tool.datalog_gate]\nrules = ["rules.dl"]\n'}, command="check web.yaml"
        ),
    ),
    "Files and modules": (
        Mistake(files={"r/a.dl": DENY_TINY, "r/b.datalog": SERVER}, command=FOLDER),
        Mistake(files={"r/a.dl": DENY_TINY, "r/b.dl.txt": SERVER}, command=FOLDER),
        Mistake(files={"r/a.dl": DENY_TINY, "r/b": SERVER}, command=FOLDER),
        Mistake(files={"r/b.pl": SERVER}, command=FOLDER),
        Mistake(files={"r/open-ssh.dl": SERVER}, command=FOLDER),
        Mistake(files={"r/my-net/ssh.dl": SERVER}, command=FOLDER),
        Mistake(files={"r/open ssh.dl": SERVER}, command=FOLDER),
        Mistake(files={"r/10_ssh.dl": SERVER}, command=FOLDER),
        Mistake(command="check web.yaml --rules web.yaml"),
        Mistake(files={"t/web.yaml": TEMPLATE}, command="check web.yaml --rules t"),
        Mistake("os:nova:server(_id=x)", command="check rules.dl --rules rules.dl"),
        Mistake(
            "os:nova:server(_id=x)",
            files={"env.yaml": "parameters: {key: ops}\n"},
            command="check env.yaml --rules rules.dl",
        ),
        Mistake("os:nova:server(_id=x)", command="check web.yaml -e web.yaml --rules rules.dl"),
        Mistake(files={"test.yaml": "cases: []\n"}, command="check web.yaml --rules test.yaml"),
        Mistake(
            files={
                "r/cap/limits.dl": "relation most(n: number).\nexport most.\n",
                "r/cap/limits.yaml": "most: 1\n",
                "r/cap/a.dl": 'import limits.\n@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), most(n), n < 9.\n',
            },
            command=FOLDER,
        ),
        Mistake(
            files={"r/a.dl": 'import net:limits.\n@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), most(n), n < 9.\n'},
            command=FOLDER,
        ),
        Mistake(
            files={
                "r/b.dl": "q(1). export q.",
                "r/a.dl": 'import "b.dl".\n@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), q(n), n < 9.\n',
            },
            command=FOLDER,
        ),
        Mistake(
            files={
                "r/lists.dl": 'team("web").\n',
                "r/a.dl": '@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), team(n).\n',
            },
            command=FOLDER,
        ),
        Mistake(
            files={
                "r/lists.dl": 'team("web").\n',
                "r/a.dl": 'import lists.\n@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), team(n).\n',
            },
            command=FOLDER,
        ),
        Mistake(
            files={
                "r/lists.dl": 'team("web").\n',
                "r/a.dl": '@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), lists:team(n).\n',
            },
            command=FOLDER,
        ),
        Mistake(
            files={
                "r/lists.dl": 'team("web"). export team.\n',
                "r/a.dl": '@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), team(n).\n',
            },
            command=FOLDER,
        ),
        Mistake(
            files={
                "r/lists.dl": 'team("web").\n',
                "r/a.dl": 'export team.\n@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), team(n).\n',
            },
            command=FOLDER,
        ),
        Mistake(
            files={
                "r/limits.dl": "relation most(n: number).\nexport most.\n",
                "r/limits.yml": "most: 1\n",
                "r/a.dl": 'import limits.\n@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), most(n), n < 9.\n',
            },
            command=FOLDER,
        ),
        Mistake(command="check web.yaml --rules nothere"),
        Mistake("os:nova:server(_id=x)", command="check wbe.yaml --rules rules.dl"),
    ),
    "Signs and words": (
        Mistake('os:nova:server(_id=x, flavor=f), f == "m1.huge"'),
        Mistake('os:nova:server(_id=x, flavor=f) and f = "m1.huge"'),
        Mistake('os:nova:server(_id=x, flavor=f) && f = "m1.huge"'),
        Mistake('os:nova:server(_id=x, flavor=f), f <> "m1.huge"'),
        Mistake('os:nova:server(_id=x, flavor=f), f not in ["m1.tiny"]'),
        Mistake("os:nova:server(_id=x, flavor=f), g := f"),
        Mistake('os:nova:server(_id=x, flavor=f), f in ("a", "b")'),
        Mistake('@deny("a", "{x}")\np(x) if os:nova:server(_id=x).\n'),
        Mistake('@deny("a", "{x}")\np(x) <- os:nova:server(_id=x).\n'),
        Mistake('os:nova:server(_id=x, flavor=f), f = "a" or f = "b"'),
        Mistake('os:nova:server(_id=x, flavor=f), (f = "a" | f = "b")'),
        Mistake('@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f)\n  f = "a".\n'),
        Mistake('@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f),\n'),
        Mistake("(os:nova:server(_id=x) ; os:cinder:volume(_id=x))"),
        Mistake("os:nova:server(_id: x)"),
        Mistake("os:cinder:volume(_id=x, size=s), s ?? 0 > 500GB"),
        Mistake('os:nova:server(_id=x, name=n), n like "web%"'),
        Mistake('-- a comment\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n'),
        Mistake('% a comment\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n'),
        Mistake("os:nova:server(_id=x), \\+ os:cinder:volume(_id=x)"),
        Mistake('os:nova:server(_id=x, name=n), n = f"web"'),
        Mistake("os:nova:server(_id=x, networks.0.port=p)"),
        Mistake("os:neutron:port(_id=x, port_security_enabled=secured), not secured"),
        Mistake("os:nova:server(_id=x), Not os:nova:server(_id=x)"),
    ),
    "aggregates over equal values": (
        Mistake("os:nova:server(_id=x), sum{ n : os:cinder:volume(size=n) } > 1000"),
        Mistake("os:nova:server(_id=x), sum{ n : os:cinder:volume(_id=v, size=n) } > 1000"),
        Mistake("os:nova:server(_id=x), avg{ 1 : os:cinder:volume(size=_) } > 1"),
        Mistake("os:nova:server(_id=x), count{ t : heat:resource(type=t) } > 100"),
        Mistake("heat:stack(id=x), count{ n, v : os:cinder:volume(_stack=x, _id=v, name=n) } > 1"),
        Mistake('@deny("a", "{x}") p(x) :- x = sum{ n : r(n) }, x > 1000. r(n) :- os:cinder:volume(size=n).'),
    ),
    "values of several kinds": (
        Mistake('os:nova:server(_id=x, flavor=f), starts_with(f, "m1.huge")'),
        Mistake('os:nova:server(_id=x, image=i), contains(i ?? "", "cirros")'),
        Mistake('os:nova:server.metadata(_id=x, _key="slots", _value=v), v != null, v > 4'),
        Mistake("os:nova:server(_id=x), max{ v : heat:metadata(id=x, value=v) } > 4"),
        Mistake("os:nova:server(_id=x, name=n), n != null, max2(n, 5, most), most != null"),
    ),
}
"""By kind of mistake."""

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
    'heat:stack(id=x), gate:role(role), own_role(role).\nown_role("operator")',
    'os:cinder:volume(_id=x, size=n), parse_size("500gib", b), n ?? 0 * 1024 * 1024 * 1024 > b',
    'os:cinder:volume(_id=x, size=n), m = n ?? "none", is_number(m), m > 5',
    'os:cinder:volume(_id=x, size=n), m = n ?? "none", is_string(m)',
    'sized(x, _).\nsized(x, shown) :- os:cinder:volume(_id=x, size=n), shown = n ?? "none"',
    'sized(x, _).\nsized(x, n ?? "none") :- os:cinder:volume(_id=x, size=n)',
)
"""Rules that look like a mistake and are none: nothing is said of them when they are loaded."""
