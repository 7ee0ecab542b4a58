"""The effect of an update on a resource.

Heat compares properties as values, at the top level only (heat/engine/resource.py:646-698). The lines are those of
openstack-heat 27.0.1, under heat/engine: see `needs_replace` and `_needs_update` there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from datalog_gate.base.expression import phrase
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.schema.declaration import Property, ResourceType
from datalog_gate.stack.model import Data, Live, Resource
from datalog_gate.stack.property_values import EMPTY, coerce
from datalog_gate.stack.translation import as_heat_reads

UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
Doubt = Unknown | None
"""The unknown that decides whether something is so; None if it is certain."""


@dataclass(frozen=True, slots=True)
class Difference:
    """`after` has the properties after the change, as Heat reads them. `properties` are those that differ, each with
    its doubt. `same` holds the references and unknowns in others, which may differ although they are written as
    before."""

    after: Mapping[str, Data]
    properties: dict[str, Doubt] = field(default_factory=dict)
    same: dict[str, list[ResourceId | Unknown]] = field(default_factory=dict)


def difference(old: Resource, new: Resource, kind: ResourceType | None) -> Difference:
    """The difference of the properties. For an unknown type only the template's text is known."""
    before, after = (as_heat_reads(resource, kind).properties for resource in (old, new))
    if kind:
        schemas = {schema.name: schema for schema in kind.properties}
    else:
        schemas = {name: Property(name, "any") for name in {**before, **after}}
    result = Difference({name: _given(schema, after) for name, schema in schemas.items()})
    for name, schema in schemas.items():
        if name not in before and name not in after:
            continue
        compared = _Comparison()
        compared.values(_given(schema, before), result.after[name], schema)
        if compared.differ or compared.doubt:
            result.properties[name] = None if compared.differ else compared.doubt
        elif compared.same:
            result.same[name] = compared.same
    return result


def differ(left: Data, right: Data) -> tuple[bool, Doubt]:
    """Whether two pieces of plain data differ, and the doubt if that is unknown."""
    compared = _Comparison()
    compared.values(left, right, None)
    return compared.differ, compared.doubt


@dataclass(slots=True)
class _Comparison:
    """The result of a comparison: values that differ, or may, and the references and unknowns that both have."""

    differ: bool = False
    doubt: Doubt = None
    same: list[ResourceId | Unknown] = field(default_factory=list)

    def values(self, left: Data, right: Data, schema: Property | None) -> None:
        match left, right:
            case dict(), dict():
                self.differ |= left.keys() != right.keys()
                children = {child.name: child for child in schema.children} if schema else {}
                for key in left.keys() & right.keys():
                    self.values(left[key], right[key], children.get(key))
            case list(), list():
                self.differ |= len(left) != len(right)
                item = schema and (replace(schema, kind="map") if schema.children else schema.item)
                for old, new in zip(left, right, strict=False):
                    self.values(old, new, item)
            case (Unknown() | ResourceId(), _) | (_, Unknown() | ResourceId()):
                self._symbols(left, right)
            case _ if left != right:
                looked_up = schema.custom if schema and "." in schema.custom else ""  # Heat accepts a name or an id
                ids = [isinstance(side, str) and UUID.fullmatch(side) is not None for side in (left, right)]
                if looked_up and ids[0] != ids[1]:
                    self.doubt = self.doubt or Unknown(phrase(f"whether the two are one {looked_up}"))
                else:
                    self.differ = True

    def _symbols(self, left: Data, right: Data) -> None:
        """A reference differs from everything but itself, and from an unknown or a text that may be an unknown id."""
        if left == right and isinstance(left, Unknown | ResourceId):
            self.same.append(left)
        elif unknown := next((side for side in (right, left) if isinstance(side, Unknown)), None):
            self.doubt = self.doubt or unknown
        elif isinstance(left, ResourceId) and isinstance(right, ResourceId):
            self.differ = True
        else:
            reference = next(side for side in (left, right) if isinstance(side, ResourceId))
            text = isinstance(left, str) or isinstance(right, str)
            if text:
                self.doubt = self.doubt or Unknown(phrase(f"the id of {reference.path}"))
            self.differ |= not text


def _given(schema: Property, data: Mapping[str, Data]) -> Data:
    """The value of a property (heat/engine/properties.py:514); None if it is missing and has no default."""
    if schema.name not in data and schema.default is None:
        return None
    return _value(schema, data.get(schema.name))


def _value(schema: Property, data: Data) -> Data:
    """The data as a value of the schema (heat/engine/properties.py:350), with null as the default or an empty value."""
    data = schema.default if data is None else data
    match schema.kind, data:
        case "any", _:
            return data
        case _, Unknown() | ResourceId():
            return data
        case "map", None:
            return _value(schema, {})
        case "list", None:
            return []
        case "map", dict() if schema.children:
            return {child.name: _given(child, data) for child in schema.children}
        case "list", list() if schema.children:
            inner = replace(schema, kind="map", default=None)
            return [_value(inner, member) for member in data]
        case "list", list() if schema.item:
            return [_value(schema.item, member) for member in data]
        case "map" | "list", _:
            return data
    return EMPTY[schema.kind] if data is None else coerce(schema.kind, data)


class Effect(NamedTuple):
    """An update or a replacement, its effect on a server that is kept, if any, and its doubt."""

    change: str
    disruption: str = ""
    doubt: Doubt = None


BY_POLICY: Mapping[tuple[str, str], tuple[str, Mapping[str, str]]] = {
    ("OS::Nova::Server", "flavor"): ("flavor_update_policy", {"RESIZE": "resize"}),
    ("OS::Nova::Server", "image"): (
        "image_update_policy",
        {"REBUILD": "rebuild", "REBUILD_PRESERVE_EPHEMERAL": "rebuild"},
    ),
    ("OS::Nova::Server", "user_data"): ("user_data_update_policy", {"REBUILD": "rebuild", "IGNORE": ""}),
}
"""Properties whose change replaces, unless another property has one of these values
(resources/openstack/nova/server.py:1381-1402 and 1431-1452)."""
DISRUPTING = {("AWS::EC2::Instance", "InstanceType"): "resize"}
"""Properties whose update disrupts (resources/aws/ec2/instance.py:741). No update of Heat merely reboots a server."""
DISRUPTED = {type_name for type_name, _ in (*BY_POLICY, *DISRUPTING)}
KINDS = ("rebuild", "resize")
HANDLES = frozenset(
    {"AWS::CloudFormation::WaitConditionHandle", "OS::Heat::SwiftSignalHandle", "OS::Heat::UpdateWaitConditionHandle"}
)
"""Types without properties that still exist. All others are types that Heat has removed, for which an update does
nothing (resources/openstack/heat/none_resource.py:36)."""
SUBSTITUTED = {
    "OS::Heat::SoftwareDeployments": "OS::Heat::SoftwareDeploymentGroup",
    "OS::Heat::StructuredDeployments": "OS::Heat::StructuredDeploymentGroup",
    "OS::Magnum::BayModel": "OS::Magnum::ClusterTemplate",
}
"""Types that may be renamed in a template without a replacement (resource.py:1604)."""
BY_NAME = frozenset(
    {"AWS::S3::Bucket", "OS::Mistral::CronTrigger", "OS::Mistral::Workflow", "OS::Nova::KeyPair"}
    | {"OS::Octavia::AvailabilityZone", "OS::Swift::Container", "OS::Zaqar::Queue"}
)
"""Types whose reference is a name, which a replacement may also have."""
KEPT_MEMBERS = {
    "AWS::AutoScaling::AutoScalingGroup": "AutoScalingRollingUpdate",
    "OS::Heat::InstanceGroup": "RollingUpdate",
}
"""Groups whose members are unchanged unless the update policy has this (heat/scaling/template.py:20,
resources/openstack/heat/instance_group.py:300)."""
ASK_WHEN_FAILED = ("OS::Neutron::", "OS::Nova::Server", "OS::Cinder::Volume", "OS::Mistral::Workflow")
"""The prefixes of types that ask the cloud whether a failed resource can be kept (`needs_replace_failed`)."""


def is_template(resource: Resource) -> bool:
    """Whether a template defines the resource. Heat treats all of these as one type (environment.py:209)."""
    return resource.type.endswith((".yaml", ".template"))


def effects(kind: ResourceType | None, name: str, differing: Difference) -> Iterator[Effect]:
    """The effects of a change of the property. For an unknown type both are possible."""
    if kind is None:
        yield Effect("update")
        yield Effect("replace", doubt=Unknown(phrase(f"whether a change of {name} replaces it")))
    elif (kind.name, name) in BY_POLICY:
        policy, keeping = BY_POLICY[kind.name, name]
        value = differing.after[policy]
        if isinstance(value, Unknown):
            yield from (Effect("update", kept, value) for kept in keeping.values())
            yield Effect("replace", doubt=value)
        else:
            kept = keeping.get(str(value))
            yield Effect("replace") if kept is None else Effect("update", kept)
    elif any(schema.name == name and schema.update_allowed for schema in kind.properties):
        yield Effect("update", DISRUPTING.get((kind.name, name), ""))
    else:
        yield Effect("replace")


def further_effects(old: Resource, new: Resource, differing: Difference) -> Iterator[Effect]:
    """Other reasons for Heat to update or replace a resource of this type."""
    after, changed = differing.after, differing.properties
    match new.type:
        case "OS::Heat::UpdateWaitConditionHandle":  # resources/openstack/heat/wait_condition_handle.py:236
            yield Effect("replace")
        case "OS::Neutron::Port":  # resources/openstack/neutron/port.py:611
            yield from _replace_if(after["replacement_policy"], "REPLACE_ALWAYS")
        case "AWS::AutoScaling::LaunchConfiguration":  # resources/aws/autoscaling/launch_config.py:216
            yield from _replace_if_changed(old.metadata, new.metadata)
        case "OS::Heat::TestResource" if "value" in changed:  # resources/openstack/heat/test_resource.py:179
            yield from (
                effect._replace(doubt=effect.doubt or changed["value"])
                for effect in _replace_if(after["update_replace"], True)
            )
        case "AWS::EC2::EIPAssociation" if changed.keys() & {"EIP", "AllocationId"}:  # resources/aws/ec2/eip.py:352
            for name in ("InstanceId", "NetworkInterfaceId"):
                if name in changed and after[name]:
                    yield Effect("replace", doubt=changed[name])
        case "OS::Heat::Stack":  # resources/openstack/heat/remote_stack.py:353 and 451
            yield Effect("update")
            yield from _replace_if_changed(
                _under(old.properties.get("context"), "region_name"), _under(after["context"], "region_name")
            )
        case "OS::Mistral::ExternalResource":  # resources/openstack/mistral/external_resource.py:220
            inputs = after["replace_on_change_inputs"]
            for name in inputs if isinstance(inputs, list) else ():
                yield from _replace_if_changed(_under(old.properties.get("input"), name), _under(after["input"], name))
            yield from (effect._replace(change="update") for effect in _replace_if(after["always_update"], True))


def status_effects(resource: Resource, live: Live | None) -> Iterator[Effect]:
    """The effect of a live resource's state on an update (resource.py:1369-1386, resources/stack_resource.py:105)."""
    match live and (live.action, live.status):
        case ("CHECK", "FAILED") if resource.nested:
            yield Effect("replace", doubt=Unknown(phrase(f"how the stack of {resource.id.path} is")))
        case (action, "FAILED") if not resource.nested:
            asks = resource.type.startswith(ASK_WHEN_FAILED) and action != "CHECK"
            yield Effect("replace", doubt=Unknown(phrase(f"how {resource.id.path} is in the cloud")) if asks else None)
        case ("DELETE" | "INIT", "COMPLETE"):
            yield Effect("replace")


def _replace_if(value: Data, wanted: object) -> Iterator[Effect]:
    if isinstance(value, Unknown):
        yield Effect("replace", doubt=value)
    elif value == wanted or str(value).lower() == str(wanted).lower():
        yield Effect("replace")


def _replace_if_changed(left: Data, right: Data) -> Iterator[Effect]:
    surely, doubt = differ(left, right)
    if surely or doubt:
        yield Effect("replace", doubt=None if surely else doubt)


def _under(data: Data, key: Data) -> Data:
    return data.get(key) if isinstance(data, dict) else data
