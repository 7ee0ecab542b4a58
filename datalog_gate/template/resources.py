"""Resources read from their definitions, with the stacks that they nest.

A definition is in a template, or is created by a group for its members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Literal, NamedTuple

from datalog_gate.base.diagnostics import Span, closest
from datalog_gate.base.errors import InputError
from datalog_gate.base.expression import content
from datalog_gate.base.records import replace as with_changes
from datalog_gate.base.unknown import call, derived
from datalog_gate.base.values import OPEN, ResourceId, Unknown
from datalog_gate.stack.model import ELSEWHERE, GROUPS, NESTING, STACK, Data, Path, Resource, Stack
from datalog_gate.template.dialect import RESOURCE_KEYS, Dialect
from datalog_gate.template.document import Document, data_document
from datalog_gate.template.environment import SECTIONS, TEMPLATE_ENDINGS, Resolved, WorkAccount, read_environments
from datalog_gate.template.held import HeldStack, label_of
from datalog_gate.template.nesting import Group, Member, Where, drop_wrong, find_dialect, read_group, report_wrong
from datalog_gate.template.parameters import Given, declared_types, pseudo_parameters
from datalog_gate.template.resolver import Nesting, Scope
from datalog_gate.template.tree import Tree, is_remote

_PER_RESOURCE, _PER_STACK, _PER_PROPERTY, _PER_PART, _PER_NAME = 10, 100, 10, 8, 4
"""The steps of a resource, a nested stack, a property passed to one, one of unknown properties, a name depended on."""
MAX_NESTING = 5
MAX_CIRCLES = 20
_RESOLVED = frozenset({"properties", "metadata", "deletion_policy", "update_policy", "external_id"})

Text = str | Mapping[str, Data]
"""A text of YAML or JSON, or the data in a request's body."""


def parsed(tree: Tree, file: str, text: Text, as_json: bool = True) -> Document:
    """The document of a text or of data. Errors: InputError. Data that is not a template has no places, so values from
    it have the place where the template uses them."""
    return tree.document(file, text, as_json) if isinstance(text, str) else data_document(text, file, has_paths=as_json)


def read_resources(scope: Scope) -> tuple[Resource, ...]:
    """The resources of a template, in order. Circular requirements are reported."""
    registry = scope.inside.registry
    if registry.resources:
        scope.inside = with_changes(scope.inside, registry=registry.spread(_loaded(scope), scope.tree.spend))
    resources = {name: resource for name in scope.definitions if (resource := scope.read(scope, name))}
    for circle in _circles(resources):
        message = f"resources depend on each other: {' -> '.join(circle)}"
        scope.tree.report("bad-reference", message, resources[circle[0]].locate(()))
    return tuple(resources.values())


def _loaded(scope: Scope) -> Iterator[tuple[str, str]]:
    """The names and types of the resources that Heat loads."""
    for name, definition in scope.definitions.items():
        kind = definition.get(scope.dialect.key("type")) if isinstance(definition, dict) else None
        if isinstance(kind, str) and scope.exists(name) is not False:
            yield name, kind


def read_resource(scope: Scope, name: str) -> Resource | None:
    """The resource, read once. None if its condition is false, or while it is being read."""
    if name in scope.done:
        return scope.done[name]
    scope.done[name] = None
    path = (scope.dialect.resources, name)
    where = Where(scope.document, path, {} if scope.dialect.hot else RESOURCE_KEYS, scope.hidden, scope.given)
    outer = scope.requires, scope.tree.here  # what refers to another reads that meanwhile
    scope.requires, scope.tree.here = {}, where
    scope.reading += 1
    scope.done[name] = _read_definition(scope, name, path, where)
    scope.reading -= 1
    scope.requires, scope.tree.here = outer
    return scope.done[name]


def _read_definition(scope: Scope, name: str, path: Path, where: Where) -> Resource | None:
    tree, dialect, definition = scope.tree, scope.dialect, scope.definitions[name]
    if not isinstance(definition, dict):
        tree.report("bad-template", f"the resource `{name}` must be a map", where(()))
        return None
    exists = True if scope.sure(name) else scope.exists(name)
    definition = tree.as_meant(definition, scope.document, path, dialect, _known_keys(definition, dialect))
    definition = drop_wrong(tree, dialect, name, definition, where)
    content = _resolve_parts(scope, definition, path, exists is not False)
    kind = content.get("type")
    if not isinstance(kind, str) or (not kind and exists is not False):
        tree.report("bad-template", f"the resource `{name}` needs a `{dialect.key('type')}`", where(()))
        return None
    if exists is False:  # Heat looks at its keys all the same (heat/engine/hot/template.py:272)
        if isinstance(policy := content.get("deletion_policy"), str):
            _deletion_policy(tree, dialect, policy, where)
        return None
    if "/" in name:
        tree.report("bad-template", f"a resource's name can't contain a slash: `{name}`", where(()))
    tree.spend(_PER_RESOURCE)
    tree.count(1, where)
    if "depends_on" in content:
        _depends_on(scope, content["depends_on"], path)
    properties = _read_properties(tree, name, content.get("properties"), where)
    policy = _deletion_policy(tree, dialect, content.get("deletion_policy"), where)
    member = Member(
        name,
        kind,
        properties,
        content.get("metadata"),
        maybe=None if exists is True else exists,
        update_policy=content.get("update_policy"),
    )
    policy = "Retain" if "external_id" in content else policy
    result = _resource(scope, scope.inside, member, policy, where, scope.requires)
    _mark_external(result, content.get("external_id"))
    return result


def _resolve_parts(scope: Scope, definition: Mapping[str, Data], path: Path, exists: bool) -> dict[str, Data]:
    """The values of a definition by HOT's names. Heat resolves none in a resource that does not exist."""
    parts: dict[str, Data] = {}
    for key, value in definition.items():
        part = scope.dialect.parts.get(key)
        if part is not None:
            parts[part] = scope.resolve(value, (*path, key)) if exists and part in _RESOLVED else value
    return parts


def _read_properties(tree: Tree, name: str, properties: Data, where: Where) -> dict[str, Data]:
    """The properties of a resource; none, which is reported, if they are no map."""
    if isinstance(properties, dict):
        return properties
    if isinstance(properties, Unknown):
        tree.report("unsupported", f"the properties of `{name}` are not known", where(("properties",)))
    elif properties is not None:
        tree.report("bad-template", f"`properties` of `{name}` must be a map", where(("properties",)))
    return {}


def _mark_external(resource: Resource, external: Data) -> None:
    """Note that the resource is what the `external_id` names."""
    if isinstance(external, str | Unknown) and not (
        resource.nested or resource.open_members
    ):  # Heat creates nested stacks anyhow
        resource.external = external if isinstance(external, Unknown) else True
    if isinstance(external, str) and external:
        resource.requires = {}  # rsrc_defn.py:263


def _known_keys(definition: Mapping[str, Data], dialect: Dialect) -> Collection[str]:
    """The keys that a resource may have: in CFN any, but one that is meant to be a missing type."""
    if dialect.hot:
        return dialect.parts
    return ["Type", *(key for key in definition if "Type" in definition or not closest(str(key), ["Type"]))]


def _deletion_policy(tree: Tree, dialect: Dialect, written: Data, where: Where) -> str | None:
    policy = dialect.deletion_policy(written)
    if written is not None and policy is None and not isinstance(written, Unknown):
        message = f"`{where.show(('deletion_policy',), written)}` is not a deletion policy"
        tree.report("bad-template", message, where(("deletion_policy",)), "use Delete or Retain")
    return policy


def _depends_on(scope: Scope, data: Data, path: Path) -> None:
    at = (*path, scope.dialect.key("depends_on"))
    names = [data] if isinstance(data, str) else data if isinstance(data, list | tuple) else [None]
    scope.tree.spend(_PER_NAME * len(names))
    for index, name in enumerate(names):
        place = scope.document.place((*at, index) if isinstance(data, list | tuple) else at)
        if not isinstance(name, str):  # Heat resolves no function here (heat/engine/template_common.py:93)
            scope.tree.report("bad-template", f"`{at[-1]}` takes a name or a list of names, not a function", place)
        elif name not in scope.definitions:
            near = scope.tree.near(name, scope.definitions)
            scope.tree.report("bad-reference", f"there is no resource `{name}`", place, near)
        elif scope.exists(name) is not False:
            scope.requires[name] = "explicit"


def _resource(
    scope: Scope, inside: Nesting, member: Member, policy: str | None, where: Where, requires: Mapping[str, str]
) -> Resource:
    """The resource for a definition, with its nested stack."""
    tree = scope.tree
    own = ResourceId(f"{inside.id}/{member.name}")
    tree.spend(len(own.path) // 16)
    resolved = _resolve_type(tree, inside, member, where)
    nested: Stack | None = None
    unsure: Unknown | None = None
    properties = member.properties
    if isinstance(properties, Unknown):
        names = _property_names(tree, resolved.type, resolved.file or inside.base)
        tree.spend(_PER_PART * len(names or ()))
        unsure = properties if names is None else None
        properties = {name: _part(properties, name) for name in names or ()}
    if resolved.type in NESTING or resolved.type.endswith(TEMPLATE_ENDINGS):
        below = _position_within(inside, member, resolved, policy, where, tree)
        if own.path in tree.held.stacks:
            nested = _of_held(tree, tree.held.stacks[own.path], below, where)
        else:
            nested, unsure = _nested(scope, resolved, below, properties, where)
    return Resource(
        id=own,
        name=member.name,
        type=resolved.type,
        declared=member.type,
        properties=properties,
        requires=requires,
        defined=lambda _: where,
        metadata=member.metadata,
        deletion_policy=policy,
        update_policy=member.update_policy,
        maybe=member.maybe,
        nested=nested,
        open_members=unsure,
        hooks=inside.registry.read_option(member.name, "hooks", tree.spend),
        restricted=inside.registry.read_option(member.name, "restricted_actions", tree.spend),
    )


def _position_within(
    inside: Nesting, member: Member, resolved: Resolved, deletion_policy: str | None, where: Where, tree: Tree
) -> Nesting:
    """The position of the stack that is nested in a resource."""
    own = ResourceId(f"{inside.id}/{member.name}")
    facade = {
        "metadata": (member.metadata or {}, where.hides(("metadata",), True)),
        "deletion_policy": (deletion_policy or "Delete", where.hides(("deletion_policy",), True)),
        "update_policy": (member.update_policy or {}, where.hides(("update_policy",), True)),
    }
    # a stack of its own gets the whole registry (heat/engine/resources/openstack/heat/remote_stack.py:286)
    is_own = resolved.type == STACK
    return with_changes(
        inside,
        id=own.path,
        name=f"{inside.name}-{member.name}",
        parent=own,
        depth=inside.depth + 1,
        registry=inside.registry if is_own else inside.registry.child(member.name, resolved.key, tree.spend),
        facade=facade,
    )


def _resolve_type(tree: Tree, inside: Nesting, member: Member, where: Where) -> Resolved:
    """The type that the registry gives for that of the definition; a wrong entry, which is reported, gives none."""
    try:
        return inside.registry.resolve(member.type, member.name, tree.type_of, tree.spend)
    except ValueError:
        _, file = inside.registry.types.entries.get(member.type, ("", None))
        place = _place_of_mapping(tree, Resolved(member.type, file, member.type), member.name)
        message = f"the registry maps `{where.show(('type',), member.type)}` in a circle"
        tree.report("bad-environment", message, place or where(("type",)))
        return Resolved(member.type)


def _nested(scope: Scope, resolved: Resolved, below: Nesting, properties: Mapping[str, Data], where: Where) -> Nested:
    """The stack nested in a resource, and what leaves its content open."""
    tree, kind = scope.tree, resolved.type
    if kind == STACK:
        is_hidden = where.hides(("properties", "template"), True)
        with tree.hiding(is_hidden, f"the template of {below.id}", where(("properties", "template"))):
            return _of_text(tree, below, properties, where)
    if kind in GROUPS:
        return _of_group(scope, kind, below, properties, where)
    if kind in ELSEWHERE:
        return None, Unknown(content(below.id), where(("type",)), unread=True)
    with tree.hiding(where.hides(("type",), True), f"the type of {below.id}", where(("type",))):
        return _of_file(tree, resolved, below, properties, where)


def _property_names(tree: Tree, kind: str, base: str) -> Collection[str] | None:
    """The names of the properties of the resource type; None if unknown."""
    if known := tree.type_of(kind):
        return [schema.name for schema in known.properties]
    fetched = tree.fetch(kind, base) if kind.endswith(TEMPLATE_ENDINGS) else None
    return declared_types(parsed(tree, *fetched).data) if fetched else None


def _part(properties: Unknown, name: str) -> Unknown:
    """The property with that name, if the type is unknown: it may be missing."""
    return with_changes(properties, source=derived(f"{name} of ", properties), scalar=False, domain=(), bounds=OPEN)


Nested = tuple[Stack | None, Unknown | None]


def _place_of_mapping(tree: Tree, resolved: Resolved, name: str) -> Span | None:
    """The place in an environment of the mapping that led to the type of the resource with that name."""
    document = tree.environments.get(resolved.file or "")
    way = (resolved.key,) if resolved.key else ("resources", name)
    return document.place(("resource_registry", *way)) if document else None


def _of_file(tree: Tree, resolved: Resolved, below: Nesting, given: Mapping[str, Data], where: Where) -> Nested:
    name = resolved.type
    place = _place_of_mapping(tree, resolved, ResourceId(below.id).name)
    named = tree.file(name, resolved.file or below.base, place or where(("type",)))
    if named is None:
        return None, Unknown(content(name), where(("type",)), unread=True) if is_remote(name) else None
    file, text = named
    label = label_of(below.id) if where.hides(("type",), True) else file
    return _below(tree, _Source(label, file, text), below, given, where, "properties"), None


def _of_held(tree: Tree, held: HeldStack, below: Nesting, where: Where) -> Stack | None:
    """The stack that Heat holds there. If something passed to it is hidden, all of it is: parts are not marked."""
    file = label_of(below.id)
    document = parsed(tree, file, held.template)
    types = declared_types(document.data)
    body = parsed(tree, f"<environment of {below.id}>", held.environment, as_json=False)
    environment = read_environments(body, {}, (), types, WorkAccount(tree.add, tree.spend), has_base_url=False)
    given = {}
    for name, parameter in environment.parameters.items():
        if name in types:
            value = tree.held.refer(parameter.value)
            given[name] = with_changes(parameter, value=value, facade=value != parameter.value)
    for section, name in held.masked:
        unknown = with_changes(call("get_param", name, below.id, {}, None), unread=True)
        (given if section == "parameters" else environment.defaults)[name] = Given(unknown, "environment")
    assert below.facade is not None
    facade = dict(below.facade)
    if held.metadata is not None:  # maybe that of an older namesake, as Heat reads it (heat/engine/parent_rsrc.py:71)
        facade["metadata"] = tree.held.refer(held.metadata), facade["metadata"][1]
    inside = with_changes(
        below,
        facade=facade,
        name=held.name,
        base=file,
        registry=environment.registry,
        environment=environment,
        ancestors=(*below.ancestors, file),
        hidden=below.hidden or where.hides(("properties",), True),
    )
    return inside.read_stack(tree, with_changes(document, data=tree.held.refer(document.data)), inside, given)


def _of_text(tree: Tree, below: Nesting, properties: Mapping[str, Data], where: Where) -> Nested:
    text, given = properties.get("template"), properties.get("parameters") or {}
    for value in (text, given):
        if isinstance(value, Unknown):
            return None, value
    if not isinstance(text, str) or not isinstance(given, dict):
        name = "parameters" if isinstance(text, str) else "template"
        message = "a nested stack needs a template and a map of parameters"
        report_wrong(message, properties, ("properties", name), where, tree)
        return None, None
    label = f"<template of {below.id}>"
    base, text = tree.sent.get(text, (below.ancestors[0], text))
    if base != below.ancestors[0] and not where.hides(("properties", "template"), True):
        label = base
    return _below(tree, _Source(label, base, text), below, given, where, "parameters"), None


class _Source(NamedTuple):
    """A nested template: the name of its file in places, the file that its names are relative to, and its text."""

    file: str
    base: str
    text: Text


def _below(
    tree: Tree, source: _Source, below: Nesting, given: Mapping[str, Data], where: Where, at: str
) -> Stack | None:
    if below.depth > MAX_NESTING:  # where Heat notices a circle, too
        place = where(("type",) if at == "properties" else ("properties", "template"))
        circular = source.file in below.ancestors
        deep = f"{source.file} nests itself" if circular else f"stacks are nested more than {MAX_NESTING} deep"
        tree.report("nesting", deep, place if circular else where(()))
        return None
    tree.spend(_PER_STACK + _PER_PROPERTY * len(given))
    path: Path = ("properties",) if at == "properties" else ("properties", at)
    passed = _pass(tree, below.id, given, where, path)
    for name in SECTIONS:
        if given.get(name) is not None:  # the parameters would be an environment (heat/engine/environment.py:805)
            message = f"Heat reads the parameter `{name}` of a nested template as that section of an environment"
            tree.report("bad-template", message, where((*path, name)), "give the parameter another name")
    written = where.hides(("properties", "template") if at == "parameters" else ("type",), True)
    ancestors = (*below.ancestors, source.file)
    inside = with_changes(below, base=source.base, ancestors=ancestors, hidden=below.hidden or written)
    try:
        stack = inside.read_stack(tree, parsed(tree, source.file, source.text), inside, passed)
        for parameter in stack.parameters if stack else ():
            if parameter.hidden:  # its parameters are secret here too, and so are defaults in its template
                where.hide((*path, parameter.name))
                where.hide(("properties", "template"))
        return stack
    except InputError as error:
        if any(problem in error.diagnostics for problem in tree.problems):  # reading has ended
            raise
        for diagnostic in error.diagnostics:
            tree.add(diagnostic)
        return None


def _pass(tree: Tree, stack: str, given: Mapping[str, Data], where: Where, path: Path) -> dict[str, Given]:
    """The parameters of a nested stack: what its resource gives at that path, else those that it was adopted with."""
    passed = {}
    for name, value in given.items():
        place, is_hidden = where((*path, name)), where.hides((*path, name), True)
        passed[name] = Given(
            value,
            "parent",
            place,
            written=() if is_hidden else (place,),
            hidden=is_hidden,
            locate=where.below((*path, name)),
            facade=path == ("properties",),
            named_by_hidden=where.hides(path, False),
        )
    for name, value in tree.held.adopted.get(stack, {}).items():
        if given.get(name) is None:
            passed[name] = Given(value, "parent", where(()))
    return passed


def _of_group(scope: Scope, kind: str, below: Nesting, properties: Mapping[str, Data], where: Where) -> Nested:
    tree = scope.tree
    if below.depth > MAX_NESTING:
        tree.report("nesting", f"stacks are nested more than {MAX_NESTING} deep", where(()))
        return None, None
    group = read_group(
        ResourceId(below.id), kind, properties, where, tree, partial(_find_launch, scope, scope.requires)
    )
    tree.count(len(group.members), where)
    loaded = ((member.name, member.type) for member in group.members)
    below = with_changes(below, registry=below.registry.spread(loaded, tree.spend))
    dialect = find_dialect(kind)  # plain data in the template may be a function there
    inner = Scope(
        tree,
        group.where.document,
        dialect,
        below,
        {member.name: {} for member in group.members},
        lambda _scope, _name: None,
        parameters=pseudo_parameters(dialect, below.id, None, below.environment.defaults),
        hidden=group.where.hidden,
    )
    stack = Stack(
        id=below.id,
        name=below.name,
        parent=below.parent,
        depth=below.depth,
        version=inner.dialect.version,
        description=None,
        resources=tuple(_read_members(scope, inner, group)),
        files=inner.files,
        template=scope.template({}),
        sources=tree.sources,
    )
    return stack, group.open


def _find_launch(scope: Scope, requires: Mapping[str, str], reference: Data) -> Resource | Literal["refused"] | None:
    """The launch configuration that a group names, which it must require if it is named by a text."""
    if isinstance(reference, ResourceId) and reference.path == f"{scope.inside.id}/{reference.name}":
        return scope.read(scope, reference.name)
    if isinstance(reference, str) and reference in requires:
        return scope.read(scope, reference)
    return "refused" if isinstance(reference, str) and reference and not requires else None


def _read_members(scope: Scope, inner: Scope, group: Group) -> Iterator[Resource]:
    """The resources for the members of a group, whose definitions the inner scope resolves."""
    at = group.where.prefix
    for member in group.members:
        inner.requires = {member.after: "explicit"} if member.after else {}
        properties = inner.resolve(member.properties, (*at, "properties"))
        metadata = inner.resolve(member.metadata, (*at, "metadata"))
        if isinstance(properties, dict | Unknown):
            policy = _deletion_policy(scope.tree, inner.dialect, member.deletion_policy, group.where)
            update_policy = inner.resolve(member.update_policy, (*at, "update_policy"))
            read = member._replace(properties=properties, metadata=metadata, update_policy=update_policy)
            yield _resource(scope, inner.inside, read, policy, group.where, inner.requires)
        else:
            scope.tree.report("bad-template", "the properties of a group's members must be a map", group.where(()))


def _circles(resources: Mapping[str, Resource]) -> list[list[str]]:
    """The first cycles of resources that require each other, each with its first name repeated at the end."""
    circles: list[list[str]] = []
    done: set[str] = set()
    for start, resource in resources.items():
        if start in done or not resource.requires:
            continue
        path: dict[str, None] = {}
        pending: list[tuple[str, bool]] = [(start, False)]
        while pending:
            name, left = pending.pop()
            if left:
                del path[name]
                done.add(name)
            elif name in path:
                if len(circles) < MAX_CIRCLES:
                    circles.append([*list(path)[list(path).index(name) :], name])
            elif name not in done:
                path[name] = None
                pending.append((name, True))
                pending += [(required, False) for required in resources[name].requires if required in resources]
    return circles
