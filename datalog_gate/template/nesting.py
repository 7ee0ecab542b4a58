"""The members of groups, at the creation of the stack.

Source: heat/engine/resources/openstack/heat/*_group.py and resource_chain.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from math import inf
from typing import Literal, NamedTuple

from datalog_gate.base.diagnostics import Span, closest, suggest_name
from datalog_gate.base.expression import phrase
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.unknown import at_member, derived, resources_read
from datalog_gate.base.values import ResourceId, Unknown, bases, hidden_value
from datalog_gate.stack import model
from datalog_gate.stack.model import Data, Locate, Path, Resource
from datalog_gate.template.dialect import Dialect, dialect_of
from datalog_gate.template.document import Document
from datalog_gate.template.tree import MAX_RESOURCES, Hidden, Tree

LISTED = 64
"""The maximum number of listed members that may exist."""
ROOM = 250
"""The number of resources of a tree from which such members are no longer listed."""

_PER_UNKNOWN = 40
"""The steps of an expression that each member of a group sees in its own form."""

_VERSIONS: Mapping[str, tuple[str, str]] = {
    group: ("HeatTemplateFormatVersion", "2012-12-12")
    if group in model.INSTANCE_GROUPS
    else ("heat_template_version", "2015-04-30")
    for group in model.GROUPS
}
"""The version of Heat's template for a group's members (heat/scaling/template.py:60,
engine/resources/openstack/heat/instance_group.py:268)."""

_TAKES: Mapping[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("properties", "metadata", "update_policy"), ((dict,), "a map")),
    **dict.fromkeys(("deletion_policy", "external_id"), ((str, dict), "a text")),
    "description": ((str,), "a text"),
    "depends_on": ((str, list, tuple, dict), "a name or a list of names"),
    "condition": ((str, bool, dict), "a condition"),
}
"""What a key of a resource takes: the types of its data, a call of a function among them, and their name. Heat takes no
null (heat/engine/template_common.py:36)."""


@dataclass(slots=True)
class Where:
    """A resource's `Definition` in a text. `prefix` is its path, `names` has the names of its keys, `given` the places
    of parameter values: data from a parameter has the place of its value."""

    document: Document
    prefix: Path
    names: Mapping[str, str]
    hidden: Hidden
    given: Mapping[str, Locate]

    def __call__(self, path: Path) -> Span | None:
        if not path:
            return self.document.key_place(self.prefix)
        whole = self.hidden.shown(self._whole(path))
        if place := self._of_parameter(whole):
            return place
        place = self.document.place(whole)
        return self.document.key_place(self.prefix) if place == self.document.place(self.prefix) else place

    def key_place(self, path: Path) -> Span | None:
        """As `Definition.key_place`."""
        return self.document.key_place(self.hidden.shown(self._whole(path)))

    def below(self, path: Path) -> Locate:
        """Return a function for the places below `path`."""
        return lambda steps: self((*path, *steps))

    def _of_parameter(self, path: Path) -> Span | None:
        """The place of the value of the parameter at or above the path."""
        data = self.document.data
        for at, step in enumerate((*path, None) if self.given else ()):
            if at > len(self.prefix) and isinstance(data, dict) and len(data) == 1:
                argument = data.get("get_param", data.get("Ref"))
                name, *steps = argument if isinstance(argument, list) and argument else [argument]
                if isinstance(name, str) and name in self.given:
                    return self.given[name]((*(step for step in steps if isinstance(step, str | int)), *path[at:]))
            if isinstance(data, dict):
                data = data.get(step)
            elif isinstance(data, list) and isinstance(step, int) and step < len(data):
                data = data[step]
            else:
                return None
        return None

    def written(self, keys: Sequence[str], functions: frozenset[str]) -> Mapping[str, Data]:
        """As `Definition.written`."""
        data = self.document.data
        for step in self.prefix:
            if not isinstance(data, dict) or (step not in data and _is_call(data, functions)):
                return dict.fromkeys(keys, data)
            data = data.get(step)
        if not isinstance(data, dict):
            return dict.fromkeys(keys, data)
        is_call = _is_call(data, functions)
        names = self.names
        named = ((key, names.get(key, key)) for key in keys)
        return {key: data.get(name, data) for key, name in named if name and (name in data or is_call)}

    def within(self, *steps: str, **names: str) -> Where:
        """The place of a definition in the properties of this one."""
        return Where(
            self.document,
            (*self.prefix, self.names.get("properties", "properties"), *steps),
            names,
            self.hidden,
            self.given,
        )

    def hides(self, path: Path, partly: bool) -> bool:
        """As `Definition.hides`."""
        return self.hidden.holds(self._whole(path), partly)

    def show(self, path: Path, value: object) -> str:
        """As `Hidden.show`."""
        return self.hidden.show(self._whole(path), value)

    def hide(self, path: Path) -> None:
        """Record that the value there is hidden."""
        self.hidden.add(self._whole(path))

    def _whole(self, path: Path) -> Path:
        first = self.names.get(path[0], path[0]) if path and isinstance(path[0], str) else None
        return self.prefix if first is None else (*self.prefix, first, *path[1:])


def _is_call(data: Mapping[str, Data], functions: frozenset[str]) -> bool:
    return len(data) == 1 and not functions.isdisjoint(data)


class Member(NamedTuple):
    """A member's definition. `after` is the member that it waits for, `maybe` decides whether it exists."""

    name: str
    type: str
    properties: Mapping[str, Data] | Unknown
    metadata: Data = None
    after: str | None = None
    maybe: Unknown | None = None
    deletion_policy: Data = None
    update_policy: Data = None


class Size(NamedTuple):
    """The number of a group's members: the minimum, the maximum, and the unknown that decides it if they differ."""

    least: int
    most: float
    unknown: Unknown | None = None


class Numbering(NamedTuple):
    """How the members of a resource group differ: the text in their definition that stands for their number, the
    numbers that were removed, and what leaves open which these are."""

    variable: str | None
    skipped: Collection[str]
    unsure: Unknown | None


UNNUMBERED = Numbering(None, (), None)


@dataclass(frozen=True, slots=True)
class Group:
    """A group's members, including possible ones, the place of their definition, and the unknown that keeps further
    members from being known."""

    members: tuple[Member, ...]
    where: Where
    open: Unknown | None = None


_SCALING = {
    "OS::Heat::AutoScalingGroup": ("min_size", "desired_capacity", "max_size"),
    "AWS::AutoScaling::AutoScalingGroup": ("MinSize", "DesiredCapacity", "MaxSize"),
}
"""The size properties of scaling groups; each is at most the next."""


def find_size_limits(section: Mapping[str, Data]) -> dict[str, tuple[int, float]]:
    """The minimum and maximum number for each parameter that is a size of a scaling group whose other sizes are
    constants, since Heat refuses the group with other values."""
    limits: dict[str, tuple[int, float]] = {}
    for definition in section.values():
        if not isinstance(definition, dict):
            continue
        kind = definition.get("type", definition.get("Type"))
        if not isinstance(kind, str) or kind not in _SCALING:
            continue
        if definition.keys() & {"condition", "Condition", "external_id"}:
            continue
        properties = definition.get("properties", definition.get("Properties"))
        sizes = [properties.get(name) if isinstance(properties, dict) else None for name in _SCALING[kind]]
        for at, size in enumerate(sizes):
            if (parameter := _parameter_of(size)) is not None:
                low, high = limits.get(parameter, (0, inf))
                numbers = [_whole(value) if isinstance(value, int | str) else None for value in sizes]
                below = [number for number in numbers[:at] if number is not None]
                above = [number for number in numbers[at + 1 :] if number is not None and number >= 0]
                limits[parameter] = max([low, *below]), min([high, *above])
    return limits


def _parameter_of(size: Data) -> str | None:
    """The parameter whose value a size is, if any."""
    match size:
        case {"get_param": str(name) | [str(name)], **others} | {"Ref": str(name) | [str(name)], **others}:
            return None if others else name
    return None


def read_group(
    own: ResourceId,
    kind: str,
    properties: Mapping[str, Data],
    where: Where,
    tree: Tree,
    launch: Callable[[Data], Resource | Literal["refused"] | None],
) -> Group:
    """The group `own` of that type. `launch` returns the launch configuration for a property, "refused" for a name that
    Heat refuses, and None if it is not known. Errors: InputError."""
    if kind in model.DEPLOYMENTS:
        return _deployments(kind, properties, where, tree)
    match kind:
        case "OS::Heat::ResourceGroup":
            return _resource_group(properties, where, tree)
        case "OS::Heat::ResourceChain":
            return _chain(properties, where, tree)
        case "OS::Heat::AutoScalingGroup":
            size = _scaling_size(properties, *_SCALING[kind], where, tree)
            resource, place = _definition(properties, "resource", where, tree), where.within("resource")
            if isinstance(resource, dict):
                resource = drop_wrong(tree, find_dialect(kind), "resource", resource, place)
            return _members(resource, size, place, tree)
    if kind == "OS::Heat::InstanceGroup":
        size = _size(properties, "Size", where, tree) or Size(0, 0)
    else:
        size = _scaling_size(properties, *_SCALING["AWS::AutoScaling::AutoScalingGroup"], where, tree)
    source = launch(properties.get("LaunchConfigurationName"))
    if source == "refused":  # heat/engine/resources/openstack/heat/instance_group.py:176
        return Group((), where)
    if source is None:
        members = Unknown(phrase(f"the members of {where.prefix[-1]}"), where(())) if size.most else None
        return Group((), where, size.unknown or members)
    tags = _tags(own, kind, properties.get("Tags"))
    return _instances(source, size, tags, where, tree)


def find_dialect(kind: str) -> Dialect:
    """The dialect of Heat's template for the members of a group of that type."""
    dialect = dialect_of(dict([_VERSIONS[kind]]))
    assert isinstance(dialect, Dialect)
    return dialect


def _instances(source: Resource, size: Size, tags: Data, where: Where, tree: Tree) -> Group:
    """The instances of a group with that launch configuration."""
    definition: Data = {
        "type": "AWS::EC2::Instance",
        "properties": {**source.properties, "Tags": tags},
        "metadata": source.metadata,
    }
    defined = source.defined(source.name) if source.defined else None
    place = defined if isinstance(defined, Where) else where
    if where.hides(("properties", "Tags"), True):
        place.hide(("properties", "Tags"))
    return _members(definition, size, place, tree)


def _tags(group: ResourceId, kind: str, tags: Data) -> Data:
    """The tags of a group's instances. Heat adds those that name the group."""
    if not isinstance(tags, list | None):
        return tags
    keys = [tag.get("Key") for tag in tags or [] if isinstance(tag, dict)]
    metered = any(isinstance(key, str) and key.startswith("metering.") for key in keys)
    names = [] if metered else ["metering.groupname"]
    names += [] if kind == "OS::Heat::InstanceGroup" else ["metering.AutoScalingGroupName"]
    return [*(tags or []), *({"Key": name, "Value": group} for name in names)]


def _scaling_size(
    properties: Mapping[str, Data], least: str, desired: str, most: str, where: Where, tree: Tree
) -> Size:
    """The initial size of an autoscaling group: the desired one, else the minimum. Heat refuses a size that is not
    between minimum and maximum (heat/engine/resources/openstack/heat/autoscaling_group.py:232)."""
    low, high = _size(properties, least, where, tree), _size(properties, most, where, tree)
    size = _size(properties, desired, where, tree) or low or Size(1, 1)
    for lesser, greater, names in (
        (low, high, (least, most)),
        (low, size, (least, desired)),
        (size, high, (desired, most)),
    ):
        if lesser and greater and not lesser.unknown and not greater.unknown and lesser.least > greater.least:
            shown = [
                where.show(("properties", name), number.least)
                for name, number in zip(names, (lesser, greater), strict=True)
            ]
            message = f"`{names[0]}` is {shown[0]}, more than `{names[1]}`, {shown[1]}: Heat refuses the group"
            advice = None if where.hides(("properties", names[1]), True) else f"write at most {greater.least}"
            tree.report("group-size", message, where(("properties", names[0])), advice)
            return size
    if size.unknown is None or _comes_later(size.unknown):
        return size
    limits = [limit for limit in (low, high) if limit and not (limit.unknown and _comes_later(limit.unknown))]
    return _bound_size(
        size.unknown,
        max([size.least, *(limit.least for limit in limits if limit is low)]),
        min([size.most, *(limit.most for limit in limits if limit is high)]),
        tree,
    )


def _comes_later(unknown: Unknown) -> bool:
    """Whether the value is known only when resources are built, when Heat no longer validates the group."""
    return any(True for _ in resources_read(unknown))


def _bound_size(unknown: Unknown, least: int, most: float, tree: Tree) -> Size:
    """The size that an unknown decides within these bounds. If there are few, case analysis can try all of them."""
    most = max(least, most)
    if unknown.domain:
        numbers = {value: number for value in unknown.domain if (number := _whole(value)) is not None}
        values = [value for value, number in numbers.items() if least <= number <= most]
        sizes = sorted({numbers[value] for value in values}) or [least]
        size = replace(unknown, domain=tuple(values))
    elif _are_listed(least, most, tree):
        sizes = list(range(least, int(most) + 1))
        source = derived("the number of members by ", unknown)
        size = replace(unknown, source=source, of=bases([unknown]), domain=tuple(sizes))
    else:
        return Size(least, most, unknown)
    assumed = tree.assumed.of(size)
    if isinstance(assumed, int):
        return Size(assumed, assumed)
    return Size(sizes[0], sizes[-1], size if len(sizes) > 1 else None)


def _are_listed(least: int, most: float, tree: Tree) -> bool:
    """Whether all possible members are listed."""
    return most == least or (most - least <= LISTED and tree.resources + most <= ROOM)


def _size(properties: Mapping[str, Data], name: str, where: Where, tree: Tree) -> Size | None:
    """The number of members in a property; None if it is missing. Numbers are as in heat/engine/properties.py:258,
    which also accepts ``true``, ``2.5`` and ``' +0_2 '``."""
    value, place = properties.get(name), where(("properties", name))
    if value is None:
        return None
    if isinstance(value, Unknown):
        low, high = value.bounds
        return _bound_size(value, int(max(0, low)), float(high), tree)
    number = _whole(value)
    if number is not None and number > MAX_RESOURCES:
        tree.stop("too-large", f"`{name}` is more than {MAX_RESOURCES} members", place)
    if number is not None and number >= 0:
        return Size(number, number)
    if number is not None and name != "Size":  # an instance group starts with any
        message = f"`{name}` is {where.show(('properties', name), number)}: Heat refuses the group"
        tree.report("group-size", message, place, "write 0 or more")
    # Heat refuses it; the size is not known here
    shown = where.show(("properties", name), str(value).strip()[:80])
    return Size(0, inf, Unknown(phrase(f"the number of members {shown}"), place))


def _whole(value: object) -> int | None:
    """Heat's whole number for a value, if there is one."""
    try:
        return int(value) if isinstance(value, str | int | float | Decimal) else None
    except (ValueError, OverflowError):
        return None


def _resource_group(properties: Mapping[str, Data], where: Where, tree: Tree) -> Group:
    size = _size(properties, "count", where, tree) or Size(1, 1)
    policies = properties.get("removal_policies")
    unsure = policies if isinstance(policies, Unknown) else None
    skipped: set[str] = set()
    for policy in policies if isinstance(policies, list) else []:
        removed = policy.get("resource_list") if isinstance(policy, dict) else policy
        for name in removed if isinstance(removed, list) else [removed]:
            unsure = unsure or (name if isinstance(name, Unknown) else None)
            skipped.add(str(name))
    variable = properties.get("index_var")
    variable = "%index%" if variable is None else str(variable) if isinstance(variable, int) else variable
    if not isinstance(variable, str) or not variable:
        tree.report("bad-template", "`index_var` must be a known string", where(("properties", "index_var")))
        variable = "%index%"
    place = where.within("resource_def")
    definition = _definition(properties, "resource_def", where, tree)
    if isinstance(definition, dict) and "properties" not in definition and (near := _near("properties", definition)):
        place.document.misspelt[*place.prefix, "properties"] = near
        definition = {**definition, "properties": definition[near]}
    return _members(definition, size, place, tree, Numbering(variable, skipped, unsure))


def _definition(properties: Mapping[str, Data], name: str, where: Where, tree: Tree) -> Data:
    """The definition of members in the property with that name; None for a wrong one, which is reported."""
    definition = properties.get(name)
    kind = definition.get("type") if isinstance(definition, dict) else None
    if isinstance(definition, Unknown) or isinstance(kind, str | Unknown):
        return definition
    message = "the definition of a group's members must be a map with a `type`"
    if isinstance(definition, dict):
        report_wrong(message, definition, ("properties", name, "type"), where, tree)
    else:
        report_wrong(message, properties, ("properties", name), where, tree)
    return None


def report_wrong(message: str, holder: Mapping[str, Data], path: Path, where: Where, tree: Tree) -> None:
    """Report a part of a resource without which its members can't be read, where Heat's validation finds it: at its
    value, at the key that was probably meant, or else at the `holder`."""
    name = str(path[-1])
    advice: str | None = None
    if holder.get(name) is not None:
        place = where(path)
    elif not where.hides(path[:-1], False) and (near := _near(name, holder)):
        place, advice = where.key_place((*path[:-1], near)), suggest_name(name, mark="`")
        message = f"{f'`{path[-2]}`' if path[2:] else 'the resource'} has no property `{near}`"
    else:
        at = path if name in holder else path[:-1]
        place = where.key_place(at) if at[1:] else where(())
        kinds = {"resources": "a list", "template": "a text", "type": "a text"}
        advice = f"add `{name}`, {kinds.get(name, 'a map')}"
    tree.report("bad-template", message, place, advice)


def drop_wrong(
    tree: Tree, dialect: Dialect, name: str, definition: Mapping[str, Data], where: Where
) -> Mapping[str, Data]:
    """The definition without values of a wrong kind, which are reported."""
    wrong = set()
    for key, value in definition.items():
        types, what = _TAKES.get(dialect.parts.get(key, ""), ((object,), ""))
        if not isinstance(value, (*types, Unknown)):
            wrong.add(key)
            help_ = "leave it out, or give it a value" if value is None else None
            tree.report("bad-template", f"`{key}` of `{name}` must be {what}", where((dialect.parts[key],)), help_)
    return {key: value for key, value in definition.items() if key not in wrong} if wrong else definition


def _near(name: str, keys: Collection[str]) -> str | None:
    """The key that was probably meant to be `name`."""
    return next((key for key in keys if closest(str(key), [name])), None)


def _members(definition: Data, size: Size, where: Where, tree: Tree, numbering: Numbering = UNNUMBERED) -> Group:
    """The members by definition. Possible ones are listed if they are few, otherwise only the first of them."""
    variable, skipped, unsure = numbering.variable, numbering.skipped, numbering.unsure or size.unknown
    if not isinstance(definition, dict):
        return Group((), where, definition if isinstance(definition, Unknown) else unsure)
    if isinstance(definition["type"], Unknown):
        return Group((), where, definition["type"])
    properties, metadata = definition.get("properties") or {}, definition.get("metadata")
    if variable and isinstance(properties, dict):  # heat/engine/resources/openstack/heat/resource_group.py:637
        properties = {key: value for key, value in properties.items() if value is not None}
    if not isinstance(properties, dict | Unknown):
        tree.report("bad-template", "`properties` must be a map", where(("properties",)))
        return Group((), where, unsure)
    number = int(size.most) if _are_listed(size.least, size.most, tree) else size.least + 1
    names = [name for name in map(str, range(number + len(skipped))) if name not in skipped][:number]
    members = []
    policies = (definition.get("deletion_policy"), definition.get("update_policy")) if variable is None else ()
    for at, name in enumerate(names):
        own = _indexed(properties, variable, name, tree) if variable else properties
        assert isinstance(own, dict | Unknown)
        maybe = size.unknown if at >= size.least else None
        members.append(Member(name, definition["type"], own, metadata, None, maybe, *policies))
    return Group(tuple(members), where, unsure if number < size.most or unsure != size.unknown else None)


def _indexed(data: Data, variable: str, index: str, tree: Tree) -> Data:
    match data:
        case str():
            tree.spend(len(data) // 16)
            return data.replace(variable, index)
        case dict():
            tree.spend(1 + len(data))
            return {key: _indexed(value, variable, index, tree) for key, value in data.items()}
        case list():
            tree.spend(1 + len(data))
            return [_indexed(item, variable, index, tree) for item in data]
        case Unknown():
            if data.source.function:
                tree.spend(_PER_UNKNOWN)
                return tree.assumed.of(replace(data, source=at_member(data.source, variable, index)))
    return data


def _chain(properties: Mapping[str, Data], where: Where, tree: Tree) -> Group:
    place = where.within(properties="resource_properties", type="resources")
    types, shared = properties.get("resources"), properties.get("resource_properties") or {}
    for value in (types, shared):
        if isinstance(value, Unknown):
            return Group((), place, value)
    if not isinstance(types, list) or not isinstance(shared, dict):
        name = "resource_properties" if isinstance(types, list) else "resources"
        message = f"a chain takes a {'map' if isinstance(types, list) else 'list of types'} as `{name}`"
        report_wrong(message, properties, ("properties", name), where, tree)
        return Group((), place)
    unsure = next((type_name for type_name in types if isinstance(type_name, Unknown)), None)
    if wrong := [type_name for type_name in types if not isinstance(type_name, str | Unknown)]:
        message = f"`{place.show(('type',), wrong[0])}` can't be the type of a member of a chain"
        tree.report("bad-template", message, place(("type",)))
    concurrent = str(properties.get("concurrent")).lower() == "true"
    members = [
        Member(str(at), kind, shared, None, str(at - 1) if at and not concurrent else None)
        for at, kind in enumerate(types)
        if isinstance(kind, str)
    ]
    return Group(tuple(members), place, unsure)


def _deployments(kind: str, properties: Mapping[str, Data], where: Where, tree: Tree) -> Group:
    """A member for each server, with all properties of the group (heat/.../software_deployment.py:718)."""
    servers = properties.get("servers")
    if isinstance(servers, Unknown):
        return Group((), where, servers)
    if not isinstance(servers, dict):
        report_wrong("`servers` must be a map of names and servers", properties, ("properties", "servers"), where, tree)
        return Group((), where)
    if where.hides(("properties", "servers"), False):  # their names are hidden too
        return Group((), where, hidden_value(f"servers of {where.prefix[-1]}"))
    if where.hides(("properties", "servers"), True):
        where.hide(("properties", "server"))
    known = tree.type_of(kind)
    shared: dict[str, Data] = {schema.name: schema.default for schema in known.properties} if known else {}
    shared |= {name: value for name, value in properties.items() if value is not None}
    del shared["servers"]
    for name in servers:
        if not isinstance(name, str) or "/" in name:
            message = f"a resource's name must be a string without a slash: `{name}`"
            tree.report("bad-template", message, where(("properties", "servers", name)))
    kind = model.DEPLOYMENTS[kind]
    tree.spend(len(servers) * len(shared))
    members = (Member(str(name), kind, {**shared, "server": server}) for name, server in servers.items())
    return Group(tuple(members), where)
