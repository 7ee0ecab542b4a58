"""Rows of the relations about stacks, resources and grants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from datalog_gate.base.expression import Expression, phrase
from datalog_gate.base.records import replace
from datalog_gate.base.unknown import derived
from datalog_gate.base.values import ResourceId, Row, Unknown, Value, bases, boolean, hidden_value
from datalog_gate.facts.factset import Located
from datalog_gate.facts.source_relations import used_parameters
from datalog_gate.facts.tables import Batch, LocatedRow, RelationRows, StackContext, entries, wildcard
from datalog_gate.schema.declaration import Property
from datalog_gate.schema.relations import FIXED
from datalog_gate.stack.model import GROUPS, Data, Live, Path, Resource, Stack
from datalog_gate.stack.property_values import Leaf, as_text, coerce, leaves, path_text

POLICY = "DatalogGate::Policy"
DEPLOYMENT = "heat:deployment"
SCALING = {
    "OS::Heat::AutoScalingGroup": ("min_size", "max_size", "desired_capacity"),
    "AWS::AutoScaling::AutoScalingGroup": ("MinSize", "MaxSize", "DesiredCapacity"),
}
"""The properties of autoscaling groups with the minimum, maximum and initial size."""
_DEPLOYMENTS = frozenset({"OS::Heat::SoftwareDeployment", "OS::Heat::StructuredDeployment"})
TYPES: Mapping[str, Collection[str]] = {DEPLOYMENT: _DEPLOYMENTS, "heat:scaling": SCALING}
"""The only types with rows in a relation."""
_CONFIG_BODIES = {
    "OS::Heat::SoftwareConfig": "config",
    "OS::Heat::StructuredConfig": "config",
    "OS::Heat::SoftwareComponent": "configs",
    "OS::Heat::CloudConfig": "cloud_config",
    "OS::Heat::MultipartMime": "parts",
}
"""The property with the configuration body, by type."""


def _parameters(stack: Stack) -> Iterator[LocatedRow]:
    for parameter in stack.parameters:
        value, hidden = coerce("any", parameter.value), boolean(parameter.hidden)
        row = (stack.id, parameter.name, parameter.type, value, parameter.origin, hidden)
        yield row, ("parameters", parameter.name), None


def _parameter_attributes(stack: Stack) -> Iterator[LocatedRow]:
    """The attributes as leaves, except the default, which is a whole. The default of a hidden parameter is hidden."""
    for parameter in stack.parameters:
        attributes, path = dict(parameter.attributes), ("parameters", parameter.name)
        if "default" in attributes:
            default = hidden_value(f"{parameter.name} in {stack.id}") if parameter.hidden else attributes["default"]
            yield (stack.id, parameter.name, "default", coerce("any", default)), (*path, "default"), None
            del attributes["default"]
        yield from entries(FIXED["heat:parameter_attribute"], (stack.id, parameter.name), leaves(attributes), path)


def _environment(stack: Stack) -> Iterator[tuple[Located, LocatedRow]]:
    for file in stack.environments:
        for leaf in leaves(file.data):
            section, *path = leaf.path
            yield file, ((file.file, str(section), path_text(tuple(path)), leaf.value), leaf.path, None)


def _live(stack: Stack, values_of: Callable[[Live], tuple[str, ...]]) -> Iterator[tuple[Located, LocatedRow]]:
    """A row for each live resource with values, located at its resource, or the stack if the template lacks it."""
    read = {resource.id: resource for part in stack.walk() for resource in part.resources} if stack.live else {}
    for live in stack.live:
        if values := values_of(live):
            yield read.get(live.id, stack), ((live.id, *values), (), None)


def _named(stack: Stack, section: str, values: Mapping[str, Data]) -> Iterator[LocatedRow]:
    for name, value in values.items():
        yield (stack.id, name, coerce("any", value)), (section, name), None


def _files(stack: Stack) -> Iterator[LocatedRow]:
    for path, text in stack.files.items():
        data = text.encode("utf-8", "surrogatepass")
        yield (stack.id, path, sha256(data).hexdigest(), len(data)), (), None


def add_resources(batch: Batch, rows: RelationRows) -> None:
    """Add the rows of ``heat:resource`` of many resources at once, since most rules read it."""
    stack, of = batch.context.stack.id, batch.context.resource
    rows.certain |= {(part.id, stack, part.name, part.type, part.declared): of for part in batch.resources}


def _requires(resource: Resource, context: StackContext) -> Iterator[LocatedRow]:
    for name, why in resource.requires.items():
        if required := context.own.get(name):
            path = ("depends_on",) if why == "explicit" else ()
            yield (resource.id, required.id, why), path, required.maybe


def _references(resource: Resource, context: StackContext) -> Iterator[LocatedRow]:
    for leaf in _leaves(resource, context):
        if isinstance(leaf.value, ResourceId):
            yield (resource.id, leaf.text, leaf.value), ("properties", *leaf.path), None


def _unknowns(resource: Resource, context: StackContext) -> Iterator[LocatedRow]:
    for leaf in _leaves(resource, context):
        if isinstance(leaf.value, Unknown):
            yield (resource.id, leaf.text, leaf.value.expression), ("properties", *leaf.path), None


def _leaves(resource: Resource, context: StackContext) -> Sequence[Leaf]:
    if resource.name not in context.leaves:
        if resource.type not in context.schemas:
            kind = context.type_of(resource.type)
            context.schemas[resource.type] = Property("properties", "map", children=kind.properties) if kind else None
        context.leaves[resource.name] = leaves(dict(resource.properties), context.schemas[resource.type])
    return context.leaves[resource.name]


def _members(resource: Resource, _context: StackContext) -> Iterator[LocatedRow]:
    if resource.nested and resource.type in GROUPS:
        for position, member in enumerate(resource.nested.resources):
            index = int(member.name) if member.name.isdecimal() and len(member.name) < 10 else position
            yield (resource.id, member.id, index), (), member.maybe


def _scaling(resource: Resource, _context: StackContext) -> Iterator[LocatedRow]:
    """A group starts with the desired number of members, else the minimum."""
    if names := SCALING.get(resource.type):
        least, most, desired = (coerce("integer", resource.properties.get(name)) for name in names)
        yield (resource.id, least, most, least if desired is None else desired), ("properties",), None


def _deployment(resource: Resource, context: StackContext) -> Iterator[LocatedRow]:
    """The rows of a deployment. The digest is that of the configuration data that Heat derives (heat/engine/resources/
    openstack/heat/software_deployment.py:325-382), without Heat's own inputs `deploy_*`, which repeat other columns."""
    if resource.type not in _DEPLOYMENTS:
        return
    config = resource.properties.get("config")
    source = context.find(config) if isinstance(config, ResourceId) else None
    known: Row = (resource.id, coerce("any", config), coerce("any", resource.properties.get("server")))
    digest = _digest(resource, config, source)
    for action, unread in dict.fromkeys(_actions(resource, source)):
        if unread:
            yield wildcard(FIXED[DEPLOYMENT], known, ("properties",), unread)
        else:
            yield (*known, action, digest), ("properties", "config"), None


def _actions(resource: Resource, source: Resource | None) -> Iterator[tuple[Value, Unknown | None]]:
    """The actions that trigger the deployment, or an unknown. A component lists them in each of its parts."""
    parts: Data = [dict(resource.properties)]
    if source and source.type == "OS::Heat::SoftwareComponent":
        parts = source.properties.get("configs")
        if not isinstance(parts, list):
            yield None, _unread(parts, "configs", source)
    for part in parts if isinstance(parts, list) else []:
        actions = part.get("actions") if isinstance(part, dict) else part
        if actions is None:
            actions = ["CREATE", "UPDATE"]
        if isinstance(actions, list):
            yield from ((coerce("any", action), None) for action in actions)
        else:
            yield None, _unread(actions, "actions", resource)


def _digest(resource: Resource, config: Data, source: Resource | None) -> str | Unknown:
    """The digest; unknown if a part of the data is unknown or known only to the cloud."""
    if config is not None and (source is None or source.type not in _CONFIG_BODIES):
        return _unread_digest(_unread(config, "config", resource), resource)
    if source and source.maybe:
        return _unread_digest(source.maybe, resource)
    config_properties = source.properties if source else {}
    is_component = source is not None and source.type == "OS::Heat::SoftwareComponent"
    declared, values = config_properties.get("inputs") or [], resource.properties.get("input_values") or {}
    inputs: Data = [declared, values]
    if isinstance(declared, list) and isinstance(values, dict):
        inputs = [_input(item, values) for item in declared]
        names = [item.get("name") for item in declared if isinstance(item, dict)]
        inputs += [{"name": name, "value": value} for name, value in values.items() if name not in names]
    data = {
        "group": "component" if is_component else config_properties.get("group") or "Heat::Ungrouped",
        "config": config_properties.get(_CONFIG_BODIES[source.type]) if source else None,
        "options": config_properties.get("options") or {},
        "inputs": inputs,
        "outputs": config_properties.get("outputs") or [],
        "input_key": resource.properties.get("input_key") or "get_input" if "Structured" in resource.type else None,
    }
    text = as_text(data)
    written = text.expression if isinstance(text, Unknown) else text
    digest = sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
    if isinstance(text, Unknown):
        first = next(leaf.value for leaf in leaves(data) if isinstance(leaf.value, Unknown))
        shown = derived(f"digest of {digest}: ", first)
        return replace(text, source=Expression(shown.function, text.source.arguments, shown.stack, shown.text))
    return digest


def _unread_digest(unknown: Unknown, resource: Resource) -> Unknown:
    """The unknown digest for the configuration of a resource that depends on one unknown."""
    source = derived(f"digest of {resource.id.path}: ", unknown)
    return Unknown(source, unread=unknown.unread, of=bases((unknown,)), place=unknown.place)


def _input(declared: Data, values: Mapping[str, Data]) -> Data:
    if not isinstance(declared, dict):
        return declared
    name, default = declared.get("name"), declared.get("default")
    return {**declared, "value": values.get(name, default) if isinstance(name, str) else default}


def _unread(data: Data, name: str, resource: Resource) -> Unknown:
    """The unknown for data that is unknown, known only to the cloud, or not accepted by Heat."""
    if isinstance(data, Unknown):
        return data
    return Unknown(
        phrase(f"what Heat makes of {name} of {resource.id.path}"),
        unread=True,
        place=resource.locate(("properties", name)),
    )


STACK_ROWS: dict[str, Callable[[Stack], Iterable[LocatedRow]]] = {
    "heat:stack": lambda stack: [
        ((stack.id, stack.name, stack.parent, stack.depth, stack.version, stack.description), (), None)
    ],
    "heat:parameter": _parameters,
    "heat:parameter_attribute": _parameter_attributes,
    "heat:used_parameter": used_parameters,
    "heat:output": lambda stack: _named(stack, "outputs", stack.outputs),
    "heat:condition": lambda stack: _named(stack, "conditions", stack.conditions),
    "heat:file": _files,
    "heat:section": lambda stack: [((stack.id, name), (name,), None) for name in stack.sections],
}
ROOT_ROWS: dict[str, Callable[[Stack], Iterable[tuple[Located, LocatedRow]]]] = {
    "heat:root": lambda stack: [(stack, ((stack.id,), (), None))],
    "heat:tag": lambda stack: [(stack, ((stack.id, tag), (), None)) for tag in stack.tags],
    "heat:environment": _environment,
    "heat:status": lambda stack: _live(stack, lambda live: (live.action, live.status)),
    "heat:physical": lambda stack: _live(stack, lambda live: (live.physical,) if live.physical else ()),
    "heat:updated": lambda stack: _live(stack, lambda live: (live.updated,) if live.updated else ()),
}
"""The relations of a whole tree of stacks. Each function takes the root and yields each row with its locator."""
NEEDED = {
    "heat:hook": "hooks",
    "heat:leftover": "leftover",
    "heat:member": "nested",
    "heat:metadata": "metadata",
    "heat:nested": "nested",
    "heat:requires": "requires",
    "heat:restricted": "restricted",
    "heat:update_policy": "update_policy",
}
"""The attribute that a resource must have for rows of the relation."""
RESOURCE_ROWS: dict[str, Callable[[Resource, StackContext], Iterable[LocatedRow]]] = {
    "heat:property": lambda resource, context: entries(
        FIXED["heat:property"], (resource.id,), _leaves(resource, context), ("properties",)
    ),
    "heat:metadata": lambda resource, _: entries(
        FIXED["heat:metadata"], (resource.id,), leaves(resource.metadata), ("metadata",)
    ),
    "heat:deletion_policy": lambda resource, _: [
        ((resource.id, resource.deletion_policy or "Delete"), ("deletion_policy",), None)
    ],
    "heat:update_policy": lambda resource, _: entries(
        FIXED["heat:update_policy"], (resource.id,), leaves(resource.update_policy), ("update_policy",)
    ),
    "heat:requires": _requires,
    "heat:reference": _references,
    "heat:unknown": _unknowns,
    "heat:nested": lambda resource, _: [((resource.id, resource.nested.id), (), None)] if resource.nested else [],
    "heat:member": _members,
    "heat:scaling": _scaling,
    DEPLOYMENT: _deployment,
    "heat:leftover": lambda resource, _: [((resource.id,), (), None)],
    "heat:hook": lambda resource, _: [((resource.id, hook), (), None) for hook in resource.hooks],
    "heat:restricted": lambda resource, _: [((resource.id, action), (), None) for action in resource.restricted],
}


def _grant(resource: Resource, _context: StackContext) -> Iterator[LocatedRow]:
    service, expires = (coerce("string", resource.properties.get(name)) for name in ("service", "expires"))
    yield (resource.id, service, expires), ("properties",), None


def _options(resource: Resource, _context: StackContext) -> Iterator[LocatedRow]:
    path = ("properties", "options")
    yield from entries(FIXED["gate:grant_option"], (resource.id,), leaves(resource.properties.get("options")), path)


def _scope(resource: Resource, context: StackContext) -> Iterator[LocatedRow]:
    """The resources in the scope. A name without a resource gives no row, an unknown name a wildcard."""
    scope = resource.properties.get("scope")
    path = ("properties", "scope")
    if scope is None:
        scope = [resource.id for resource in default_scope(context.own)]
    names: list[tuple[Path, Data]] = [(path, scope)] if isinstance(scope, Unknown) else []
    if isinstance(scope, list):
        names = [((*path, index), name) for index, name in enumerate(scope)]
    for place, name in names:
        if isinstance(name, Unknown):
            yield wildcard(FIXED["gate:grant_scope"], (resource.id,), place, name)
        elif target := find_addressed(name, context.own):
            yield (resource.id, target.id), place, target.maybe


def default_scope(named: Mapping[str, Resource]) -> list[Resource]:
    """The scope of a grant without one: all resources except grants and those that a grant requires."""
    outside = find_required(named, [name for name, resource in named.items() if resource.type == POLICY])
    return [resource for name, resource in named.items() if name not in outside]


def find_addressed(name: Data, named: Mapping[str, Resource]) -> Resource | None:
    """Find a resource of the stack by name or reference. ``tr.srv``, a resource within `tr`, addresses `tr`."""
    if isinstance(name, ResourceId):
        own = named.get(name.name)
        return own if own and own.id == name else None
    text = str(name)
    return named.get(text) or named.get(text.partition(".")[0])


def find_required(named: Mapping[str, Resource], names: Iterable[str]) -> set[str]:
    """Find these names and those of all resources that they require, directly or indirectly."""
    names_required: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in names_required and name in named:
            names_required.add(name)
            waiting.extend(named[name].requires)
    return names_required


GRANT_ROWS: dict[str, Callable[[Resource, StackContext], Iterator[LocatedRow]]] = {
    "gate:grant": _grant,
    "gate:grant_option": _options,
    "gate:grant_scope": _scope,
}
