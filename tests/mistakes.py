"""Mistakes of new authors of rules, which tests/test_mistakes.py tries."""

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

VERSION = "heat_template_version: 2018-08-31\nresources:\n"
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

HUGE = 'p(x) :- os:nova:server(_id=x, flavor="m1.huge").\n'
DENY_HUGE = f'@deny("a", "{{x}}")\n{HUGE}'
DENY_TINY = '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor="tiny").\n'


def waiver_text(expires: str, bound: str = "subject: server") -> str:
    return f"waivers:\n  - {{id: W-1, policy: a, owner: o, reason: r, expires: '{expires}', {bound}}}\n"


Written = Mapping[str, Sequence[Mistake | Mapping[str, str] | str]]


def read_mistakes(written: Written) -> dict[str, tuple[Mistake, ...]]:
    """Mistakes by kind: a text is that of rules.dl, and a mapping has the files of the folder `r`."""
    return {kind: tuple(map(_read, rows)) for kind, rows in written.items()}


def _read(written: Mistake | Mapping[str, str] | str) -> Mistake:
    if isinstance(written, Mistake):
        return written
    return Mistake(written) if isinstance(written, str) else Mistake(files=written)
