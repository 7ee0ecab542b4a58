"""Mistakes of new authors, and texts that only look like one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

SUBNET = """\
heat_template_version: 2018-08-31
resources:
  net:
    type: OS::Neutron::Net
  subnet:
    type: OS::Neutron::Subnet
    properties:
      network: {get_resource: net}
      cidr: 10.0.0.0/24
      allocation_pools: [{start: 10.0.0.9, end: 10.0.0.100}]
"""
"""A template of its own for mistakes that need other resources."""


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
DENY_HUGE = '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor="m1.huge").\n'


def waiver_text(expires: str, bound: str = "subject: server") -> str:
    return f"waivers:\n  - {{id: W-1, policy: a, owner: o, reason: r, expires: '{expires}', {bound}}}\n"


_WRITTEN: Mapping[str, Sequence[Mistake | Mapping[str, str] | str]] = {
    "Names and values": (
        'heat:deletion_policy(id=x, policy="Keep")',
        'heat:attribute(id=x, target=t, attribute="mac_adress"), os:neutron:port(_id=t)',
        'os:nova:server(_id=x), heat:property(id=x, path="size", value=v), v != null',
        'heat:property(id=x, path=p), p = "networks.port"',
        'heat:property(id=x, path="networks[0].port")',
        'heat:property(id=x, path="networks.*.port")',
        'heat:metadata(id=x, path="disks[0].size")',
        'heat:property(id=x, path="networks")',
        'heat:property(id=x, path="networks.0.prt")',
        'heat:property(id=x, path="properties.flavor", value="m1.huge")',
        'heat:reference(id=x, path="network.0.port")',
        'heat:function(id=x, path="userdata")',
        'heat:resource(id=x, type=t), starts_with(t, "OS::Nvoa::")',
        'os:neutron:security_group.rules(_id=x, protocol="TCP")',
        'heat:resource(x, _, "OS::Nova::Server")',
        'heat:property(x, "m1.huge", "flavor")',
        'os:nova:server(x, "web")',
        'heat:resource(id=x, name="web/server")',
        'os:nova:server(_id=x, flavor=F), f = "m1.huge"',
        'os:nova:server(_id=x, flavor=f), f in [" m1.huge", "m1.large"]',
        "relation banned(name: string).\n"
        'banned("m1.huge ").\n'
        '@deny("a", "{x}")\n'
        "p(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n",
        'heat:stack(id=x), gate:now(t), t >= "2026-11-31"',
        '@unlock("edge") g(x) :- gate:grant(id=x, service="edge").\n'
        '@deny("a", "{x}")\n'
        'p(x) :- os:nova:server(_id=x), not gate:unlocked("edge", _).\n',
        'os:neutron:port.fixed_ips(_id=x, ip_address="10.0.0.0/24")',
        'os:neutron:subnet(_id=x, cidr="10.0.0.0")',
        "os:nova:server(_id=x, networks=n), n != null",
        'read("mac_adress").\n@deny("a", "{x}")\np(x) :- heat:attribute(id=x, attribute=a), read(a).\n',
        {
            "r/limits.dl": "relation kept(policy: string).\nexport kept.\n",
            "r/limits.yaml": "kept: [keep]\n",
            "r/a.dl": 'import limits.\n@deny("a", "{x}")\np(x) :- heat:deletion_policy(id=x, policy=d), kept(d).\n',
        },
    ),
    "Values of another kind": (
        'os:nova:server.metadata(_id=x, _key="public", _value="true")',
        'os:nova:server.metadata(_id=x, _key="slots", _value="5")',
        'heat:property(id=x, path="port_security_enabled", value="false")',
        'os:neutron:port(_id=x, port_security_enabled="false")',
        'os:cinder:volume(_id=x, size=n), parse_size("500 GB", b), n ?? 0 > b',
        '@deny("a", "{x}")\np(x, y) :- os:nova:server(_id=x, name=n), y = n ?? "" + "-x", y != "".\n',
        'heat:stack(id=x), gate:now(t), t > "2027-3-1"',
        'heat:stack(id=x), gate:now("2026-11-23")',
        "os:cinder:volume(_id=x, size=n), n ?? 0 > 500 * 1024",
        "os:cinder:volume(_id=x, size=n), n ?? 0 in [107374182400, 536870912000]",
        "os:cinder:volume(_id=x, size=n, volume_type=t), t != n",
    ),
    "What a template leaves out": (
        "zone(s, z) :- os:nova:server(_id=s, availability_zone=z).\n"
        '@deny("a", "{x}")\n'
        "p(x, y) :- zone(x, z), zone(y, z), x != y.\n",
        "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a ?? 65535 <= 22, b ?? 0 >= 22",
        "os:neutron:security_group.rules(_id=x, port_range_min=a), low = a ?? 65535, low <= 22",
        "os:nova:server(_id=x, availability_zone=z), z = None",
        "os:nova:server(_id=x, availability_zone=z), z is null",
        "(os:neutron:security_group.rules(_id=x, protocol=p) or "
        'os:neutron:security_group_rule(_id=x, protocol=p)), p ?? "udp" = "tcp"',
    ),
    "Conditions that hold of nothing, or of everything": (
        "os:cinder:volume(_id=x, size=n), n != null, n > 1000, n = 600",
        "os:cinder:volume(_id=x, size=0)",
        "os:nova:server(_id=x, flavor=f), f in []",
        '@deny("a", "{x}")\n'
        "p(x, n) :- heat:stack(id=x), n = count{ v : os:cinder:volume(_stack=x, _id=v) }, n > 10, n < 2.\n",
        "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a ?? 0 >= 22, b ?? 65535 <= 22",
        'os:nova:server(_id=x, flavor=f), (f != "m1.small" or f != "m1.huge")',
        'os:nova:server(_id=x), not os:nova:server.metadata(_key="public")',
        'os:nova:server(_id=x, flavor=f), f in ["m1.huge", "m1.large"], f in ["m1.tiny", "m1.small"]',
        "os:neutron:subnet(_id=x, ip_version=5)",
        "os:neutron:subnet(_id=x, ip_version=v), v != 4, v != 6",
    ),
    "Builtins and patterns": (
        'os:nova:server(_id=x, name=n), n != null, starts_with("web-", n)',
        'heat:resource(id=x, type=t), matches(t, "^OS::nova")',
        'os:neutron:security_group.rules(_id=x, remote_ip_prefix=c), c != null, not cidr_contains(c, "10.0.0.0/8")',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "db-*")',
        'os:nova:server(_id=x, name=n), n != null, contains(n, "db|web")',
        '@deny("a", "{x}")\n'
        "p(x) :- os:nova:server(_id=x, name=n), n != null, good(p), not matches(n, p).\n"
        'good("^db|web").\n',
        '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), bad(f).\nbad("m1.*").\n',
        'os:nova:server(_id=x, name=n), n != null, lower(n, l), starts_with(l, "Web")',
        'os:neutron:security_group.rules(_id=x, remote_ip_prefix=c), c != null, ip_in_network("10.0.0.0/8", c)',
        'heat:resource(id=x, name=n), matches(n, "^web") = true',
        'os:nova:server(_id=x, name=n), n != null, split(n, ".", 2, part), part = "org"',
        'os:nova:server(_id=x, name=n), n != null, split(n, "-", -1, part), part = "1"',
        Mistake(
            'os:neutron:subnet(_id=x, cidr=c), c != null, starts_with(c, "10.0.0.0/8")', files={"web.yaml": SUBNET}
        ),
        Mistake(
            "os:neutron:subnet.allocation_pools(_id=x, start=first, end=last), first < last", files={"web.yaml": SUBNET}
        ),
        'heat:stack(id=x), days_until("01.03.2027", n), n < 0',
        'os:cinder:volume(_id=x, size=n), parse_size("500 gigs", b), n ?? 0 * 1073741824 > b',
        'os:nova:server(_id=x, name=n), n != null, pattern = "^db|web$", matches(n, pattern)',
        'os:nova:server(_id=x, name=n), n != null, matches(n, "^[A-z]+$")',
    ),
    "Aggregates": (
        "os:nova:server(_id=x), sum{ n : os:cinder:volume(_id=v, size=n) } > 1000",
        "heat:stack(id=x), count{ n, v : os:cinder:volume(_stack=x, _id=v, name=n) } > 1",
        '@deny("a", "{x}") p(x) :- x = sum{ n : r(n) }, x > 1000. r(n) :- os:cinder:volume(size=n).',
        "heat:stack(id=x), count(s : os:nova:server(_stack=x, _id=s)) > 0",
        "heat:stack(id=x), count(s, n), n > 0",
        '@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), n = count{ s | os:nova:server(_stack=x, _id=s) }, n > 0.\n',
        '@deny("a", "{x}")\n'
        "p(x, n) :- os:nova:server(_id=x), n = count{ i : os:nova:server.networks(_index=i) }, n > 1.\n",
    ),
    "Policies": (
        'os:nova:server(_id=x), gate:request("delete")',
        'os:nova:server(_id=x), gate:request(a), a in ["delete", "suspend"]',
        '@deny("a", "{x}", on=["create"])\np(x) :- heat:stack(id=x), not gate:request("create").\n',
        '@deny("a", "{x}", on=["create"])\np(x) :- heat:stack(id=x), gate:request(a), a != "create".\n',
        'deny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n',
        '@deny("a", "{server}")\np(x) :- os:nova:server(_id=x).\n',
    ),
    "Rules that just miss what a stack says": (
        'os:nova:server(_id=x, flavor="M1.Huge")',
        'os:nova:server.metadata(_id=x, _key="slots", _value=v), is_string(v), int(v, n), n > 4',
        'heat:resource(id=x, name=n), replace("-", n, "", m), m = "server"',
        'os:nova:server.networks(_id=x, port="port")',
        "os:nova:server.networks(_id=x, port=p), os:neutron:port(name=p)",
        'os:neutron:security_group.rules(_id=x, remote_ip_prefix="0.0.0.0")',
        Mistake(
            "os:nova:server(_id=x, flavor=f), nova:flavors(name=f)",
            files={"i.jsonl": FLAVORS["i.jsonl"].replace("m1.huge", "M1.Huge")},
        ),
        Mistake('heat:stack(id=x), gate:service("edge")', other_command=f"{CHECK} --services Edge"),
    ),
    "What a run lacks": (
        'relation banned(name: string).\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n',
        'heat:stack(id=x), gate:caller(project="p1")',
        Mistake('heat:stack(id=x), gate:role("member")', files={"caller.json": '{"user": "u1"}'}),
        'os:nova:server(_id=x, image=i), glancev2:images(id=i, visibility="public")',
        '@unlock("edge") g(x) :- gate:grant(id=x, service="edge").\n'
        '@deny("a", "{x}")\n'
        'p(x) :- heat:stack(id=x), gate:service("edge").\n',
        Mistake('heat:stack(id=x), gate:caller(project="p1")', files={"caller.json": "{}"}),
        Mistake('heat:stack(id=x), gate:now(t), t > "2226-12-24"', other_command=f"{CHECK} --now 2026-12-01"),
    ),
    "Policies, waivers and settings": (
        Mistake(DENY_HUGE, files={"w.yaml": waiver_text("2027-02-01", 'while: "x = x"')}),
        Mistake(
            files={
                "r/a.dl": DENY_HUGE,
                "r/test.yaml": "cases:\n  - {name: n, stack: ../web.yaml, expect: {violation: []}}\n",
            },
            other_command="test r",
        ),
        Mistake(DENY_HUGE, files={"w.yaml": waiver_text("2226-02-01")}),
        Mistake(DENY_HUGE, files={"datalog_gate.toml": 'rules = ["rules.dl"]\n'}, other_command="check web.yaml"),
        Mistake(
            DENY_HUGE,
            files={"pyproject.toml": '[tool.datalog_gate]\nrules = ["rules.dl"]\n'},
            other_command="check web.yaml",
        ),
    ),
    "Files and modules": (
        {"r/open-ssh.dl": SERVER},
        Mistake("os:nova:server(_id=x)", other_command="check rules.dl --rules rules.dl"),
        Mistake("os:nova:server(_id=x)", other_command="check web.yaml -e web.yaml --rules rules.dl"),
        Mistake(files={"test.yaml": "cases: []\n"}, other_command="check web.yaml --rules test.yaml"),
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
            "r/a.dl": '@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), lists:team(n).\n',
        },
        {
            "r/limits.dl": "relation most(n: number).\nexport most.\n",
            "r/limits.yml": "most: 1\n",
            "r/a.dl": 'import limits.\n@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), most(n), n < 9.\n',
        },
    ),
    "Signs and words": (
        'os:nova:server(_id=x, flavor=f) and f = "m1.huge"',
        "os:nova:server(_id: x)",
        '-- a comment\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n',
        "os:neutron:port(_id=x, port_security_enabled=secured), not secured",
        "os:nova:server(_id=x), Not os:nova:server(_id=x)",
    ),
}
"""The mistakes by kind: a text is that of rules.dl, and a mapping has the files of the folder `r`."""


def _read(written: Mistake | Mapping[str, str] | str) -> Mistake:
    if isinstance(written, Mistake):
        return written
    return Mistake(written) if isinstance(written, str) else Mistake(files=written)


MISTAKES = {kind: tuple(map(_read, rows)) for kind, rows in _WRITTEN.items()}
MEANT = (
    'heat:stack(id=x), gate:role(role), own_role(role).\nown_role("operator")',
    'heat:unknown(id=x, path="networks")',
    'heat:uses_parameter(id=x, path=".metadata.tier", parameter="tier")',
    'os:nova:server.metadata(_id=x, _key="public", _value=v), v in [true, "true"]',
    'os:nova:server(_id=x, image=i), (i = null or bad(i)).\nbad("cirros")',
    'os:neutron:subnet(_id=x, cidr=c), c != null, cidr_contains(c, "10.0.0.1")',
    'heat:resource(id=x, name=n), matches(n, "[^]|]$")',
    "os:nova:server(_id=x, name=n), n != null, not old:os:nova:server(_id=x, name=n)",
    "heat:stack(id=x), max{ n : os:cinder:volume(_stack=x, size=n) } > min{ n : os:cinder:volume(_stack=x, size=n) }",
    'os:nova:server(_id=x, name=n), n != null, contains(n, "-"), split(n, "-", 1, part), part = "2"',
    'os:neutron:subnet(_id=x, cidr=c), c != null, starts_with(c, "10.0.")',
    'heat:stack(id=x), days_until("2027-3-1", n), n < 30',
)
