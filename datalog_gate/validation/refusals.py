"""What Heat's own validation would refuse about a stack, all at once.

Source: heat/engine/stack.py (validate) and resource.py. What Heat finds only when it creates a resource is a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from datalog_gate.base.diagnostics import Diagnostic, Severity, Span, closest, in_order, slip, suggest_name
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.secrecy import MASK
from datalog_gate.base.unknown import undecided
from datalog_gate.base.values import ResourceId
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import ResourceType
from datalog_gate.stack.model import CHAIN, NESTING, RESOURCE_GROUP, SCALING_GROUP, Data, Path, Resource, Stack
from datalog_gate.template.dialect import Dialect, dialect_of
from datalog_gate.template.environment import TEMPLATE_ENDINGS
from datalog_gate.validation.properties import (
    Mistake,
    Moves,
    check_properties,
    check_update_policy,
    find_moves,
    format_path,
    format_value,
)
from datalog_gate.validation.texts import find_reason

LATER = "Heat finds this only when it creates the resource"
_SERVER = "OS::Nova::Server"
_SINK, _OF_SINK = "zaqar-queue", frozenset({"type", "target", "ttl"})
"""The type of event sinks that Heat has, and its keys (heat/engine/clients/os/zaqar.py)."""
_SHOW = "show"
"""The attribute that all types have."""
_MAYBE_EMPTY = ("0", "[]", "{}", "False")
"""Texts of values that are empty for Heat, whose constraints look at what was given."""
_PARAMETERS = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "list": "comma_delimited_list",
    "map": "json",
}
"""The type of a template's parameter for each kind of property."""
_OF_MEMBERS = (RESOURCE_GROUP, CHAIN, SCALING_GROUP)
"""The groups whose attributes are those of their members."""
_REFERENCES = frozenset({"get_resource", "get_attr", "Fn::GetAtt"})


def find_refusals(stack: Stack, catalogue: Catalogue) -> tuple[Diagnostic, ...]:
    """What Heat would refuse about the stack and those that it nests, without asking a service: errors, and warnings
    of what it finds only later or what its plugins may know."""
    search = _RefusalSearch(catalogue, stack)
    for part in stack.walk():
        if not part.hidden & {()}:
            search.check_stack(part)
    search.check_sinks()
    return in_order(search.found)


def find_further_refusals(error: InputError, catalogue: Catalogue) -> tuple[Diagnostic, ...]:
    """What Heat would refuse of a template besides what could not be read, in so far as it was read."""
    if not isinstance(error.stack, Stack):
        return ()
    found = find_refusals(error.stack, catalogue)
    return tuple(refusal for refusal in found if not any(_is_said(refusal, problem) for problem in error.diagnostics))


def _is_said(refusal: Diagnostic, problem: Diagnostic) -> bool:
    """Whether two places share a part: what is wrong there was said. But of a resource more may be, and a list or map
    of the wrong kind is wrong whatever it holds."""
    span, other = refusal.span, problem.span
    if span is None or other is None or span.file != other.file:
        return False
    if refusal.code == problem.code == "newer-version":
        return refusal.suggestion == problem.suggestion
    if refusal.code in ("missing-property", "duplicate-name") and refusal.suggestion != problem.suggestion:
        return False
    is_whole = refusal.code == "unknown-property" or refusal.message.endswith((", not a map", ", not a list"))
    if not span.line:
        below = span.path.startswith(f"{other.path}.") and other.path.count(".") > 2
        return span.path == other.path or below or (not is_whole and other.path.startswith(f"{span.path}."))
    if is_whole:
        return other[1:3] <= span[1:3] < other[3:5]
    return max(span[1:3], other[1:3]) < min(span[3:5], other[3:5])


class _Lack(NamedTuple):
    """An attribute that a resource does not have, and those that it has."""

    owner: Resource
    attribute: str
    names: tuple[str, ...]
    step: int
    """Its place in the arguments of the call."""
    now: bool
    """Whether Heat's validation finds it."""


@dataclass(slots=True)
class _RefusalSearch:
    """The mistakes in a stack and those that it nests."""

    catalogue: Catalogue
    root: Stack
    found: list[Diagnostic] = field(default_factory=list)
    moves: dict[str, Moves] = field(default_factory=dict)
    newer: set[tuple[Span | None, str]] = field(default_factory=set)
    """The templates, and the newer versions that they would need, that were said."""

    def check_stack(self, stack: Stack) -> None:
        """Check one stack."""
        self._check_values(stack)
        for resource in stack.resources:
            self._check_resource(stack, resource)
        self._check_names(stack)
        self._check_attributes(stack)

    def check_sinks(self) -> None:
        """Check the event sinks of the environments (heat/engine/environment.py:776)."""
        for file in self.root.environments:
            sinks = file.data.get("event_sinks")
            for at, sink in enumerate(sinks if isinstance(sinks, list) else ()):
                kind, place = sink.get("type") if isinstance(sink, dict) else None, file.locate(("event_sinks", at))
                if not isinstance(kind, str):
                    self._add("bad-environment", "an event sink is a map with a `type`", place, f"write type: {_SINK}")
                elif kind != _SINK:
                    near = closest(kind, [_SINK])
                    advice = suggest_name(near, "a plugin of Heat may have it", "`")
                    severity: Severity = "error" if near else "warning"
                    message = f"Heat has no event sink of type `{kind}`"
                    self.found.append(Diagnostic("bad-environment", message, place, advice, severity))
                elif "target" not in sink or sink.keys() - _OF_SINK:
                    self._add("bad-environment", f"a {_SINK} takes a `target`, the queue, and a `ttl`", place, None)

    def _check_values(self, stack: Stack) -> None:
        """Heat decides the custom constraints of parameters by the value that it takes (heat/engine/parameters.py)."""
        for parameter in stack.parameters:
            constraints = parameter.attributes.get("constraints")
            parts = constraints if isinstance(constraints, list) else []
            names = [part.get("custom_constraint") for part in parts if isinstance(part, dict)]
            value = parameter.value
            if not any(names) or undecided(value) or isinstance(value, ResourceId) or value in _MAYBE_EMPTY:
                continue
            locate = stack.template.given.get(parameter.name) if stack.template else None
            place = (locate and locate(())) or stack.locate(("parameters", parameter.name))
            hidden = ("parameters", parameter.name) in stack.hidden
            known = self.catalogue.constraints()
            for name in map(str, filter(None, names)):
                near = slip(name, known) or next((other for other in sorted(known) if other.endswith(f".{name}")), None)
                if name not in known and near:
                    message, declared = f"there is no custom constraint `{name}`", ("parameters", parameter.name)
                    self._add("bad-template", message, stack.locate(declared), suggest_name(near, mark="`"))
            for reason in filter(None, (find_reason(str(name), value) for name in names)):
                shown = "a hidden value" if hidden else f"{format_value(value)}: it {reason}"
                message = f"parameter `{parameter.name}` can't be {shown}"
                self._add("bad-text", message, place, None, stack.depth == 0)

    def _check_resource(self, stack: Stack, resource: Resource) -> None:
        if (resource.external or resource.nested) and not resource.requires:
            written = resource.written(("external_id", "depends_on"), frozenset())
            if written.get("external_id") and written.get("depends_on"):  # rsrc_defn.py:263
                message, place = (
                    "a resource with `external_id` can't depend on others",
                    resource.locate(("depends_on",)),
                )
                self._add("not-allowed", message, place, "leave out `depends_on`")
        kind = self._type(resource.type)
        if kind is None or kind.name != resource.type:
            self._check_type(resource)
            self._check_parameters(stack, resource)
            if resource.type.endswith(TEMPLATE_ENDINGS):
                self._check_policies(stack, resource, None)
                self._check_facade(resource)
        if kind and not resource.external and not kind.is_placeholder:
            self._add_mistakes(stack, resource, self._mistakes(kind, resource.properties))
            self._check_policies(stack, resource, kind)
        elif kind and kind.name == _SERVER:
            mistakes = [mistake for mistake in self._mistakes(kind, resource.properties) if _is_of_format(mistake)]
            self._add_mistakes(stack, resource, mistakes)

    def _type(self, name: str) -> ResourceType | None:
        """The type with that name, or the one that is a letter, the case of letters or its service away."""
        kind = self.catalogue.type(name)
        near = None if kind else _closest_type(name, self.catalogue.types())
        if near and (near.lower() == name.lower() or _own(near) == _own(name) or slip(name, [near])):
            return self.catalogue.type(near)
        return kind

    def _name_type(self, resource: Resource) -> str:
        """The type that was meant, else the one that is written; a mask if it came from a hidden parameter."""
        if resource.hides(("type",), True):
            return MASK
        kind = self._type(resource.type)
        return kind.name if kind else resource.type

    def _is_unread(self, resource: Resource) -> bool:
        """Whether Heat looks at no property of a resource."""
        kind = self._type(resource.type)
        return bool(resource.external) or (kind is not None and kind.is_placeholder)

    def _mistakes(self, kind: ResourceType, properties: Mapping[str, Data]) -> Iterator[Mistake]:
        if kind.name not in self.moves:
            self.moves[kind.name] = find_moves(kind)
        return iter(()) if kind.is_placeholder else check_properties(kind, properties, self.moves[kind.name])

    def _add_mistakes(self, stack: Stack, resource: Resource, mistakes: Iterable[Mistake]) -> None:
        for mistake in mistakes:
            path = (mistake.section, *mistake.path)
            is_name = mistake.code in ("unknown-property", "missing-property")
            place = resource.locate_key(path if mistake.path else ()) if is_name else resource.locate(path)
            is_call = not resource.hides(path, False)
            if newer := _find_newer(stack, mistake.value) if is_call else None:
                name, since = newer
                message = f"`{name}` is there from version {since}; this template is {stack.version}"
                help_ = f"write `heat_template_version: {since}`"
                if (stack.place, since) not in self.newer:
                    self.newer.add((stack.place, since))
                    self._add("newer-version", message, place, help_, self._is_found_now(stack, resource, mistake))
                continue
            if mistake.code == "bad-text" and any((was.code, was.span) == (mistake.code, place) for was in self.found):
                continue  # it was said of the parameter
            message = self._tell_name(resource, mistake) if is_name else self._tell_value(resource, mistake)
            hidden = resource.hides(path[:-1], False) if is_name else resource.hides(path, True)
            near = None if hidden else suggest_name(mistake.near, mark="`")
            advice = near or mistake.help or (_suggest_function(stack, mistake.value) if is_call else None)
            self._add(mistake.code, message, place, advice, self._is_found_now(stack, resource, mistake))

    def _tell_name(self, resource: Resource, mistake: Mistake) -> str:
        """The message of a property that does not exist, or is missing."""
        path = _shown_path(resource, mistake)
        if mistake.code == "missing-property":
            owner, message = path, mistake.message
        else:
            owner, message = path[:-1], f"{mistake.message} `{path[-1]}`"
        return f"{f'`{format_path(owner)}`' if owner else self._name_section(resource, mistake)} {message}"

    def _tell_value(self, resource: Resource, mistake: Mistake) -> str:
        """The message of a value that a property can't have, without the value if some of it is hidden."""
        hidden = resource.hides((mistake.section, *mistake.path), True)
        shown, reason = ("a hidden value", "") if hidden else (format_value(mistake.value), mistake.reason)
        path = format_path(_shown_path(resource, mistake))
        return f"`{path}` of {self._name_section(resource, mistake)} {mistake.message.replace('{}', shown)}{reason}"

    def _name_section(self, resource: Resource, mistake: Mistake) -> str:
        """The type, which has the properties, or its update policy."""
        name = self._name_type(resource)
        return name if mistake.section == "properties" else f"the update policy of {name}"

    def _is_found_now(self, stack: Stack, resource: Resource, mistake: Mistake) -> bool:
        """Whether Heat's validation finds a mistake. It does not look at the properties' values in a nested stack, and
        at most at the kind of a value that refers to resources which do not exist yet (heat/engine/properties.py:506).
        """
        if stack.depth > 0 and mistake.section == "properties":
            return mistake.code == "unknown-property" and len(mistake.path) == 1
        if mistake.at_once or not mistake.path:
            return True
        template = stack.template
        if template is None:
            return True
        written = resource.written((mistake.section,), template.functions).get(mistake.section)
        data = written.get(mistake.path[0]) if isinstance(written, dict) else written
        return not _refers(data, template.resources)

    def _add(self, code: str, message: str, place: Span | None, help_: str | None, now: bool = True) -> None:
        severity: Severity = "error" if now else "warning"
        self.found.append(Diagnostic(code, message if now else f"{message} ({LATER})", place, help_, severity))

    def _check_type(self, resource: Resource) -> None:
        name = resource.type
        if resource.nested or name.endswith(TEMPLATE_ENDINGS):
            return
        place = self._mapping_place(resource) or resource.locate(("type",))
        near = _closest_type(name, self.catalogue.types())
        if hidden := resource.hides(("type",), True):
            name = MASK
        if near:
            advice = None if hidden else suggest_name(near, mark="`")
            self._add("unknown-type", f"there is no resource type {name}", place, advice)
            return
        if "/" in name or name.endswith((".yml", ".json")):
            help_ = f"the name of a template ends with {' or '.join(TEMPLATE_ENDINGS)}"
            self._add("unknown-type", f"there is no resource type {name}", place, help_)
            return
        message = f"the resource type {name} is not in the catalogue: its properties are not checked"
        help_ = "map it in an environment, or give the catalogue of its plugin with --catalogue"
        if shorter := [known for known in self.catalogue.types() if name.startswith(known) and known.count("::") == 2]:
            help_ = f"did you mean `{shorter[-1]}`? If not, {help_}"
        self.found.append(Diagnostic("unknown-type", message, place, help_, "warning"))

    def _mapping_place(self, resource: Resource) -> Span | None:
        """Where an environment maps a resource's type to another."""
        if resource.type == resource.declared:
            return None
        for file in self.root.environments:
            mappings = file.data.get("resource_registry")
            for key, target in mappings.items() if isinstance(mappings, dict) else ():
                if target == resource.type or (key.endswith("*") and resource.declared.startswith(key[:-1])):
                    return file.locate(("resource_registry", key))
        return None

    def _check_parameters(self, stack: Stack, resource: Resource) -> None:
        """A template used as a type needs those of its parameters that have no default. Of a misspelt one the reader
        says what was meant."""
        parameters = {parameter.name: parameter for parameter in resource.nested.parameters} if resource.nested else {}
        meant = {closest(name, parameters) for name in resource.properties if name not in parameters}
        for parameter in parameters.values():
            if parameter.origin == "none" and parameter.name not in (*resource.properties, *meant):
                owner = MASK if resource.hides(("type",), True) else resource.type
                message = f"{owner} needs the property `{parameter.name}`"
                help_ = f"add `{parameter.name}`, a parameter of type {parameter.type}"
                self._add("missing-property", message, resource.locate(()), help_, stack.depth == 0)

    def _check_facade(self, resource: Resource) -> None:
        """A template to which an environment maps a type of Heat must have its properties and attributes, and need no
        other property (heat/engine/resources/template_resource.py:200)."""
        kind, nested = self.catalogue.type(resource.declared), resource.nested
        external = resource.written(("external_id",), frozenset())
        if kind is None or nested is None or external or resource.hides(("type",), True):
            return
        types = {parameter.name: parameter.type for parameter in nested.parameters}
        lacks = [f"the output `{name}`" for name in kind.attributes if name not in (*nested.outputs, _SHOW)]
        for part in kind.properties:
            wanted = _PARAMETERS.get(part.kind, "any, which no parameter has")
            if types.get(part.name, "" if part.required else wanted) != wanted:
                lacks.append(f"the parameter `{part.name}` of type {wanted}")
        given = {*kind.parts, *self._list_defaults()}
        needed = (parameter for parameter in nested.parameters if "default" not in parameter.attributes)
        lacks += [f"a default of its parameter `{other.name}`" for other in needed if other.name not in given]
        if lacks:
            message = f"{resource.type} takes the place of {resource.declared} and lacks {', '.join(lacks)}"
            place = self._mapping_place(resource) or resource.locate(("type",))
            self._add("missing-property", message, place, "add what it lacks, or map a type that Heat does not have")

    def _list_defaults(self) -> Iterator[str]:
        """The parameters to which an environment gives a default."""
        for file in self.root.environments:
            defaults = file.data.get("parameter_defaults")
            if isinstance(defaults, dict):
                yield from (name for name, value in defaults.items() if value is not None)

    def _check_policies(self, stack: Stack, resource: Resource, kind: ResourceType | None) -> None:
        if resource.deletion_policy == "Snapshot" and not (kind and kind.snapshot):
            message = f"{self._name_type(resource)} has no deletion policy Snapshot"
            self._add("not-allowed", message, resource.locate(("deletion_policy",)), "use Delete or Retain")
        if isinstance(resource.update_policy, dict):
            self._add_mistakes(stack, resource, check_update_policy(kind, resource.update_policy))

    def _check_names(self, stack: Stack) -> None:
        resources = stack.named
        for parameter in stack.parameters:
            resource = resources.get(parameter.name)
            if resource and not resource.maybe:
                message = f"`{parameter.name}` is a parameter and a resource"
                self._add("duplicate-name", message, resource.locate(()), "give one of them another name")

    def _check_attributes(self, stack: Stack) -> None:
        template = stack.template
        if template is None or template.stack != stack.id:
            return
        resources = stack.named
        for path, (name, keys) in template.attributes.items():
            resource = resources.get(name)
            reader = resources.get(str(path[1])) if path[0] in ("resources", "Resources") else None
            lack = self._find_lack(resource, keys) if resource and not (reader and self._is_unread(reader)) else None
            if lack is None:
                continue
            message = f"{self._name_type(lack.owner)} has no attribute `{lack.attribute}`"
            near = closest(lack.attribute.rpartition(".")[2], lack.names)
            others = f"it has {', '.join(sorted(lack.names))}" if lack.names else None
            place = stack.locate((*path, lack.step))
            self._add("unknown-attribute", message, place, suggest_name(near, others, "`"), lack.now)

    def _find_lack(self, resource: Resource, keys: Sequence[Data], step: int = 1, now: bool = True) -> _Lack | None:
        """The attribute read by the keys, of which the first is at that step of the call, if there is none. Groups pass
        on to their members what is not their own."""
        key = keys[0] if keys else None
        if not isinstance(key, str):
            return None
        kind = self._type(resource.type)
        by_template = kind is None and resource.nested is not None and resource.type not in NESTING
        if resource.nested and (resource.type in _OF_MEMBERS or (by_template and key.startswith("resource."))):
            members, rest = _pick_members(resource, resource.nested.named, keys, kind.attributes if kind else {})
            at = step + len(keys) - len(rest)
            lacks = (self._find_lack(member, rest, at, now and not by_template) for member in members)
            return next(filter(None, lacks), None)
        names: tuple[str, ...]
        if by_template and resource.nested:
            names, now = (*resource.nested.outputs, "OS::stack_id"), False
        elif kind and not kind.any_attribute:
            names = tuple(kind.attributes)
        else:
            return None
        return None if key in (*names, _SHOW) else _Lack(resource, key, names, step, now)


def _pick_members(
    group: Resource, resources: Mapping[str, Resource], keys: Sequence[Data], own: Collection[str]
) -> tuple[list[Resource], Sequence[Data]]:
    """The resources in a group whose attributes Heat reads for the keys, of those that are alike one; and the keys that
    it reads of them. `own` are the attributes of the group (`_nested_output_defns`, heat/engine/resources/openstack/
    heat/resource_group.py)."""
    first, *rest = keys
    scaling = group.type == SCALING_GROUP
    chosen = [*resources]
    if str(first).startswith("resource."):
        name, *attributes = str(first).split(".", 2)[1:]
        keys = [*attributes, *rest]
        chosen = chosen if scaling else [name]
    elif first in own or scaling:
        keys = rest if first in ("attributes", "outputs", "outputs_list") else []
    members = map(resources.get, chosen)
    return [member for member in members if member and not member.maybe], keys


def _shown_path(resource: Resource, mistake: Mistake) -> Path:
    """The path of a value, with a mask for what is below one that came from a hidden parameter."""
    path = mistake.path
    ends = (end for end in range(len(path)) if resource.hides((mistake.section, *path[:end]), False))
    end = next(ends, None)
    return path if end is None else (*path[:end], MASK)


def _is_of_format(mistake: Mistake) -> bool:
    """Whether it is one that Heat finds when it makes the object of a server, even one that it only takes over
    (heat/engine/resources/openstack/nova/server.py:825)."""
    return (mistake.code, mistake.path) == ("wrong-kind", ("user_data_format",))


def _find_newer(stack: Stack, value: Data) -> tuple[str, str] | None:
    """The function that a wrong value calls and the version of HOT that has it, if the stack's has not."""
    dialect = dialect_of({"heat_template_version": stack.version})
    if not isinstance(value, dict) or len(value) != 1 or not isinstance(dialect, Dialect):
        return None
    [name] = value
    since = dialect.newer(name)
    return (str(name), since) if since else None


def _suggest_function(stack: Stack, value: Data) -> str | None:
    """A suggestion for a wrong value that is the call of a misspelt function."""
    name = next(iter(value)) if isinstance(value, dict) and len(value) == 1 else None
    near = closest(str(name), stack.template.functions) if name and stack.template else None
    return suggest_name(near, mark="`")


def _refers(data: Data, resources: Mapping[str, Data]) -> bool:
    """Whether a part of a template reads other resources."""
    if isinstance(data, dict):
        if len(data) == 1:
            [(function, arguments)] = data.items()
            if function in _REFERENCES or (function == "Ref" and arguments in resources):
                return True
        data = list(data.values())
    return isinstance(data, list) and any(_refers(part, resources) for part in data)


@lru_cache(maxsize=1024)
def _letters(name: str) -> str:
    """The letters and digits of a type's name, without their case: all that OS:Neutron:Net has of OS::Neutron::Net."""
    return "".join(filter(str.isalnum, name)).lower()


def _own(name: str) -> str:
    """The name of a type without its service."""
    return name.rpartition("::")[2]


@lru_cache(maxsize=256)
def _closest_type(name: str, types: tuple[str, ...]) -> str | None:
    """The type that was probably meant: of the same service with a similar name, of a similar service with the same
    name, or with the same letters."""
    service, _, own = name.rpartition("::")
    if same := next((known for known in types if _letters(known) == _letters(name)), slip(name, types)):
        return same
    parts = [known.rpartition("::") for known in types]
    if near := closest(own, [word for part, _, word in parts if part == service]):
        return f"{service}::{near}"
    near = closest(service, [part for part, _, word in parts if word == own])
    return f"{near}::{own}" if near else None
