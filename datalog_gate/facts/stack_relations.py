"""The rows of the relations that every stack and every resource has, ``heat:*`` (layer 2).

In: a stack, or a resource with the stack around it. Out: rows as `Fact` values; `STACK_ROWS` and `RESOURCE_ROWS` name
the function that makes the rows of each relation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import repeat

from datalog_gate.base.values import HIDDEN, ResourceId, Row, Unknown, boolean
from datalog_gate.facts.source_relations import used_parameters
from datalog_gate.facts.tables import Batch, Fact, Found, Home, entries
from datalog_gate.schema.declaration import Property
from datalog_gate.schema.relations import FIXED
from datalog_gate.stack.model import Data, EnvironmentFile, Resource, Stack
from datalog_gate.stack.property_values import Leaf, leaves, path_text, typed

GROUPS = frozenset(
    {"AWS::AutoScaling::AutoScalingGroup", "OS::Heat::ResourceChain", "OS::Heat::ResourceGroup"}
    | {"OS::Heat::AutoScalingGroup", "OS::Heat::InstanceGroup"}
    | {f"OS::Heat::{kind}Deployment{form}" for kind in ("Software", "Structured") for form in ("Group", "s")}
)
"""The types whose nested stack holds members; in any other it is a template."""
SCALING = {
    "OS::Heat::AutoScalingGroup": ("min_size", "max_size", "desired_capacity"),
    "AWS::AutoScaling::AutoScalingGroup": ("MinSize", "MaxSize", "DesiredCapacity"),
}
"""What the types of autoscaling groups call their bounds and the number that they begin with."""


def _parameters(stack: Stack) -> Iterator[Fact]:
    for one in stack.parameters:
        row = stack.id, one.name, one.type, typed("any", one.value), one.origin, boolean(one.hidden)
        yield row, ("parameters", one.name), None


def _parameter_attributes(stack: Stack) -> Iterator[Fact]:
    """The default is taken whole, and that of a hidden parameter is as secret as its value."""
    for one in stack.parameters:
        attributes, path = dict(one.attributes), ("parameters", one.name)
        if "default" in attributes:
            default = Unknown(f"{HIDDEN}{one.name} in {stack.id}") if one.hidden else attributes["default"]
            yield (stack.id, one.name, "default", typed("any", default)), (*path, "default"), None
            del attributes["default"]
        yield from entries(FIXED["heat:parameter_attribute"], (stack.id, one.name), leaves(attributes), path)


def environment_rows(stack: Stack) -> Iterator[tuple[EnvironmentFile, Fact]]:
    """The rows of ``heat:environment`` with their files."""
    for file in stack.environments:
        for leaf in leaves(file.data):
            section, *path = leaf.path
            yield file, ((file.file, str(section), path_text(tuple(path)), leaf.value), leaf.path, None)


def live_rows(stack: Stack) -> Iterator[tuple[str, Resource | Stack, Row]]:
    """The rows of ``heat:status`` and ``heat:physical`` with their relation, and the resource that each is of. Heat may
    have resources that the template does not tell, such as members that were added later: theirs are the stack's."""
    told = {one.id: one for part in stack.walk() for one in part.resources} if stack.live else {}
    for one in stack.live:
        of = told.get(one.id, stack)
        yield "heat:status", of, (one.id, one.action, one.status)
        if one.physical:
            yield "heat:physical", of, (one.id, one.physical)


def _named(stack: Stack, section: str, values: Mapping[str, Data]) -> Iterator[Fact]:
    for name, value in values.items():
        yield (stack.id, name, typed("any", value)), (section, name), None


def _files(stack: Stack) -> Iterator[Fact]:
    for path, text in stack.files.items():
        data = text.encode("utf-8", "surrogatepass")
        yield (stack.id, path, sha256(data).hexdigest(), len(data)), (), None


def identities(batch: Batch, found: Found) -> None:
    """The rows of ``heat:resource``, of many resources at once since most rules read it."""
    alike, home = batch.alike, batch.home
    rows = zip(alike.ids, repeat(home.stack.id), alike.properties, repeat(batch.type), batch.declared, strict=False)
    found.certain |= dict.fromkeys(rows, home)


def _requires(one: Resource, home: Home) -> Iterator[Fact]:
    for name, why in one.requires.items():
        if required := home.own.resource(name):
            path = ("depends_on",) if why == "explicit" else ()
            yield (one.id, required.id, why), path, required.maybe


def _references(one: Resource, home: Home) -> Iterator[Fact]:
    for leaf in _leaves(one, home):
        if isinstance(leaf.value, ResourceId):
            yield (one.id, leaf.text, leaf.value), ("properties", *leaf.path), None


def _unknowns(one: Resource, home: Home) -> Iterator[Fact]:
    for leaf in _leaves(one, home):
        if isinstance(leaf.value, Unknown):
            yield (one.id, leaf.text, leaf.value.expression), ("properties", *leaf.path), None


def _leaves(one: Resource, home: Home) -> Sequence[Leaf]:
    """The scalars of the properties, typed."""
    if one.name not in home.leaves:
        if one.type not in home.schemas:
            kind = home.type_of(one.type)
            home.schemas[one.type] = Property("properties", "map", children=kind.properties) if kind else None
        home.leaves[one.name] = leaves(dict(one.properties), home.schemas[one.type])
    return home.leaves[one.name]


def _members(one: Resource, _home: Home) -> Iterator[Fact]:
    if one.nested and one.type in GROUPS:
        for position, member in enumerate(one.nested.resources):
            index = int(member.name) if member.name.isdecimal() and len(member.name) < 10 else position
            yield (one.id, member.id, index), (), member.maybe


def _scaling(one: Resource, _home: Home) -> Iterator[Fact]:
    """The group begins with the desired number, or else the least."""
    if names := SCALING.get(one.type):
        least, most, desired = (typed("integer", one.properties.get(name)) for name in names)
        yield (one.id, least, most, least if desired is None else desired), ("properties",), None


STACK_ROWS: dict[str, Callable[[Stack], Iterable[Fact]]] = {
    "heat:stack": lambda one: [((one.id, one.name, one.parent, one.depth, one.version, one.description), (), None)],
    "heat:parameter": _parameters,
    "heat:parameter_attribute": _parameter_attributes,
    "heat:used_parameter": used_parameters,
    "heat:output": lambda one: _named(one, "outputs", one.outputs),
    "heat:condition": lambda one: _named(one, "conditions", one.conditions),
    "heat:file": _files,
    "heat:section": lambda one: [((one.id, name), (name,), None) for name in one.sections],
}
NEEDED = {
    "heat:hook": "hooks",
    "heat:member": "nested",
    "heat:metadata": "metadata",
    "heat:nested": "nested",
    "heat:requires": "requires",
    "heat:restricted": "restricted",
    "heat:update_policy": "update_policy",
}
"""What a resource has no rows of the relation without."""
RESOURCE_ROWS: dict[str, Callable[[Resource, Home], Iterable[Fact]]] = {
    "heat:property": lambda one, home: entries(FIXED["heat:property"], (one.id,), _leaves(one, home), ("properties",)),
    "heat:metadata": lambda one, _: entries(FIXED["heat:metadata"], (one.id,), leaves(one.metadata), ("metadata",)),
    "heat:deletion_policy": lambda one, _: [((one.id, one.deletion_policy or "Delete"), ("deletion_policy",), None)],
    "heat:update_policy": lambda one, _: entries(
        FIXED["heat:update_policy"], (one.id,), leaves(one.update_policy), ("update_policy",)
    ),
    "heat:requires": _requires,
    "heat:reference": _references,
    "heat:unknown": _unknowns,
    "heat:nested": lambda one, _: [((one.id, one.nested.id), (), None)] if one.nested else [],
    "heat:member": _members,
    "heat:scaling": _scaling,
    "heat:hook": lambda one, _: [((one.id, hook), (), None) for hook in one.hooks],
    "heat:restricted": lambda one, _: [((one.id, action), (), None) for action in one.restricted],
}
