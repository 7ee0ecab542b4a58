"""A stack as Heat would build it.

Data is plain (None, bool, int, float, str, list, dict), with `ResourceId` for a reference and `Unknown` for what is
not known yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from typing import Protocol

from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import ResourceId, Unknown

Data = object
Path = tuple[str | int, ...]
Locate = Callable[[Path], Span | None]
"""Returns where the user wrote the part of a resource's definition at a path such as ``("properties", "rules", 0,
"port")``: the deepest place in the text; ``()`` is the resource's name."""


class Definition(Protocol):
    """The text of a template about a resource. Called with a path it is a `Locate`."""

    def __call__(self, path: Path, /) -> Span | None: ...

    def key_place(self, path: Path) -> Span | None:
        """The place of the key at the end of a path."""
        ...

    def hides(self, path: Path, partly: bool) -> bool:
        """Whether the value at a path came from a hidden parameter: completely, or with the flag also in part."""

    def written(self, keys: Sequence[str], functions: frozenset[str]) -> Mapping[str, Data]:
        """The text at those of the keys that it has, by HOT's names (`properties`), before functions are resolved. A
        key whose definition one of the functions makes has the call."""


RESOURCE_GROUP = "OS::Heat::ResourceGroup"
CHAIN = "OS::Heat::ResourceChain"
SCALING_GROUP = "OS::Heat::AutoScalingGroup"
INSTANCE_GROUPS = ("OS::Heat::InstanceGroup", "AWS::AutoScaling::AutoScalingGroup")
DEPLOYMENTS = {
    f"OS::Heat::{name}Deployment{form}": f"OS::Heat::{name}Deployment"
    for name in ("Software", "Structured")
    for form in ("Group", "s")
}
"""The groups of deployments, with the type of their members."""
GROUPS = frozenset((RESOURCE_GROUP, CHAIN, SCALING_GROUP, *INSTANCE_GROUPS, *DEPLOYMENTS))
"""The types whose nested stack holds members; the nested stack of other types is a template."""
STACK = "OS::Heat::Stack"
ELSEWHERE = ("AWS::ElasticLoadBalancing::LoadBalancer", "AWS::CloudFormation::Stack")
"""The types with a nested stack whose template is not available: the operator may choose it
(heat/engine/resources/aws/lb/loadbalancer.py:525), or Heat's engine fetches it from a URL
(heat/engine/resources/aws/cfn/stack.py:55)."""
NESTING = frozenset((STACK, *ELSEWHERE, *GROUPS))
"""The types with a nested stack, besides template files."""


def nowhere(_path: Path) -> Span | None:
    """The place of data that is in no user's text."""
    return None


@dataclass(slots=True)
class Resource:
    """One resource of a stack. It is never changed, but not frozen, since frozen objects take five times as long to
    create.

    `type` is after registry mapping, `declared` as in the template.

    `maybe` is the undecided condition under which it exists, if any. `nested` is the stack that it holds (template
    resource or group, whose members are that stack's resources, named by index). `requires` maps each required
    resource's name in the same stack to why: explicit, reference, attribute or implicit.
    `open_members` says that the group has members whose number is not known. `hooks` and `restricted` are the
    breakpoints and the restricted actions that the environments set for it. `external` says that Heat takes what its
    `external_id` names as it is and reads no property, or what decides whether it does. `leftover` says that a failed
    update left it in Heat, and that the template does not have it. `defined` gives the definition
    by the name, so that all resources of a template share it: None if no user's text holds one.
    """

    id: ResourceId
    name: str
    type: str
    declared: str
    properties: Mapping[str, Data]
    requires: Mapping[str, str] = field(default_factory=dict)
    defined: Callable[[str], Definition] | None = field(default=None, compare=False, repr=False)
    metadata: Data = None
    deletion_policy: str | None = None
    update_policy: Data = None
    maybe: Unknown | None = None
    nested: Stack | None = None
    open_members: Unknown | None = None
    hooks: tuple[str, ...] = ()
    restricted: tuple[str, ...] = ()
    external: bool | Unknown = False
    leftover: bool = False

    def locate(self, path: Path) -> Span | None:
        """Where the user wrote the part of the definition, as a `Locate`."""
        return self.defined(self.name)(path) if self.defined else None

    def locate_key(self, path: Path) -> Span | None:
        """As `Definition.key_place`."""
        return self.defined(self.name).key_place(path) if self.defined else None

    def hides(self, path: Path, partly: bool) -> bool:
        """As `Definition.hides`."""
        return self.defined is not None and self.defined(self.name).hides(path, partly)

    def written(self, keys: Sequence[str], functions: frozenset[str]) -> Mapping[str, Data]:
        """As `Definition.written`."""
        return self.defined(self.name).written(keys, functions) if self.defined else {}


def sizes(resource: Resource) -> Collection[Unknown]:
    """The unknowns that decide the number of members, if the resource is a group."""
    if resource.nested is None or resource.type not in GROUPS:
        return ()
    return dict.fromkeys(member.maybe for member in resource.nested.resources if member.maybe)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter with its effective value. `origin` is default, environment, parameters, parent or none."""

    name: str
    type: str
    value: Data
    origin: str
    hidden: bool
    attributes: Mapping[str, Data]


@dataclass(frozen=True, slots=True)
class EnvironmentFile:
    """An environment as written. `locate` returns the place of a path, ``("parameters", "key")``."""

    file: str
    data: Mapping[str, Data]
    locate: Locate = field(default=nowhere, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Live:
    """Heat's data about an existing resource: the last action, its status, the physical id, and when it was last
    changed, in ISO 8601; empty if unknown."""

    id: ResourceId
    action: str
    status: str
    physical: str
    updated: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """The template that defines a stack's resources. Its names refer to the `stack` with that id. `functions` are those
    of its version, including condition functions. `attributes` are those that it reads, resource and keys by the path
    of the call's arguments; branches of an `if` that are not taken read none. `given` has the places of the parameters'
    values."""

    stack: str
    resources: Mapping[str, Data]
    conditions: Mapping[str, Data]
    functions: frozenset[str]
    outputs: Mapping[str, Data]
    attributes: Mapping[Path, tuple[str, Sequence[Data]]] = field(default_factory=dict)
    given: Mapping[str, Locate] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack: `id` is its path, ``web`` or ``web/db`` for the nested stack of resource ``web/db``.

    `hidden` names the values that came from a hidden parameter: ``("parameters" or "outputs" or "conditions", name)``,
    ``("files", name)`` for the name of a file, and ``()`` if the whole template did.
    `sections` are those of its own template as written; `template` defines the resources, for a group's members the one
    that holds the group. The root has the `environments`, the `warnings` about all texts, and if Heat or a request told
    them, the `tags` and the `live` resources of the whole tree; `source` is what `template.reader` read it from, None
    if nobody may read it again.
    """

    id: str
    name: str
    parent: ResourceId | None
    depth: int
    version: str
    description: str | None
    parameters: tuple[Parameter, ...] = ()
    resources: Sequence[Resource] = ()
    outputs: Mapping[str, Data] = field(default_factory=dict)
    conditions: Mapping[str, Data] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    hidden: Set[Path] = frozenset()
    sections: tuple[str, ...] = ()
    environments: tuple[EnvironmentFile, ...] = ()
    live: tuple[Live, ...] = ()
    tags: tuple[str, ...] = ()
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)
    template: Template | None = field(default=None, compare=False, repr=False)
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    place: Span | None = field(default=None, compare=False)
    defined: Locate = field(default=nowhere, compare=False, repr=False)
    source: object = field(default=None, compare=False, repr=False)

    def locate(self, path: Path) -> Span | None:
        """Where the user wrote the section, or the entry with a name in it; else the place of the stack."""
        return (self.defined(path) if path else None) or self.place

    @property
    def named(self) -> dict[str, Resource]:
        """Its resources by name."""
        return {resource.name: resource for resource in self.resources}

    def walk(self) -> Iterator[Stack]:
        """Yield this stack and every nested stack, parents first."""
        yield self
        for resource in self.resources:
            if resource.nested:
                yield from resource.nested.walk()
