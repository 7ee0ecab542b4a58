"""Flattening: the facts of a stack and of its nested stacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter

from datalog_gate.base.diagnostics import NOWHERE
from datalog_gate.base.errors import InputError
from datalog_gate.base.expression import CONTENT, content
from datalog_gate.base.gc import paused
from datalog_gate.base.records import replace
from datalog_gate.base.unknown import leaves
from datalog_gate.base.values import TooLongError, Unknown, Value
from datalog_gate.facts import stack_relations as of_stack
from datalog_gate.facts.factset import FactSet, place_of
from datalog_gate.facts.lines import FactLine, write, write_text
from datalog_gate.facts.source_relations import SOURCE_ROWS
from datalog_gate.facts.tables import AddRows, Batch, LocatedRow, RelationRows, StackContext, TableRows, wildcard
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import Relation
from datalog_gate.schema.relations import FIXED
from datalog_gate.schema.resource_types import tables_of
from datalog_gate.stack.model import CHAIN, DEPLOYMENTS, GROUPS, RESOURCE_GROUP, EnvironmentFile, Path, Resource, Stack
from datalog_gate.stack.translation import as_heat_reads, to_move

_IDENTITY_COLUMNS = frozenset({"id", "stack", "_id", "_stack", "_index", "_index2"})
"""Columns that identify the resource, or the item of a list."""
_OF_PARENT = frozenset({"id", "stack", "depth", "parent"})
"""Columns of a stack that its own template does not determine."""
_VALUE_COLUMNS = frozenset({"value", "_value"})
"""Columns with the whole value at the path of the row."""

_Wants = Callable[[str], object]
"""Whether a relation is wanted."""


@paused()
def flatten(
    stack: Stack, catalogue: Catalogue, wanted: Collection[str] | None = None, facts: FactSet | None = None
) -> FactSet:
    """Compute the facts of a stack and of all stacks within it, or of the `wanted` relations; add them to `facts`.

    All rows of a resource under an undecided condition, and of its contents, are maybe rows. So are the wildcards for a
    list, map or group of unknown size. A group with unread members adds one wildcard for each relation of its read
    members' types, or for every relation if none was read. Errors: InputError.
    """
    wants: _Wants = (lambda _: True) if wanted is None else frozenset(wanted).__contains__
    facts = FactSet() if facts is None else facts
    try:
        _add_stack(stack, catalogue, wants, facts)
    except TooLongError as error:  # only in parsed data: readers of texts refuse it with its place
        raise InputError.of(f"the stack {stack.id} has {error}", "too-large") from None
    return facts


def list_facts(stack: Stack, catalogue: Catalogue = SHIPPED) -> Iterator[FactLine]:
    """The facts of a stack as lines, with hidden values masked. Errors: InputError."""
    facts = flatten(stack, catalogue)
    for reference, rows in facts.rows.items():
        for row in rows:
            origin = facts.origin(reference, row)
            span = place_of(origin) if origin else None
            yield FactLine(str(reference), facts.shown(reference, row), span or NOWHERE)


def write_facts(
    stack: Stack, form: str = "text", relations: Collection[str] = (), catalogue: Catalogue = SHIPPED
) -> Iterator[str]:
    """Write the facts of a stack, or of some relations, as lines: `text` for people, or `jsonl`. Errors: InputError."""
    facts = flatten(stack, catalogue, relations or None)
    return write(facts, catalogue) if form == "jsonl" else write_text(facts, catalogue)


def _add_stack(stack: Stack, catalogue: Catalogue, wants: _Wants, facts: FactSet) -> None:
    stacks = tuple(_stacks(stack, None))
    batches = tuple(_batches(stack, catalogue, None))
    for name, stack_rows in of_stack.STACK_ROWS.items():
        if wants(name):
            for part, maybe in stacks:
                facts.extend(name, ((row, (part, path), maybe or unsure) for row, path, unsure in stack_rows(part)))
    _add_resource_rows(facts, catalogue, wants, batches)
    unread = [
        resource
        for batch in batches
        for resource in batch.resources
        if not batch.maybe and resource.open_members and resource.open_members.source.function == CONTENT
    ]
    for batch in batches:
        for resource in batch.resources:
            if resource.open_members and all(resource is not other for other in unread):
                _add_member_wildcards(facts, catalogue, wants, resource, batch.maybe)
    if unread:
        _add_member_wildcards(facts, catalogue, wants, _join_unread(unread), None)
    for name, root_rows in of_stack.ROOT_ROWS.items():
        if wants(name):
            facts.extend(name, ((row, (origin, path), maybe) for origin, (row, path, maybe) in root_rows(stack)))
    _hide_secrets(facts, catalogue, [part for part, _ in stacks], batches)


def _join_unread(resources: Sequence[Resource]) -> Resource:
    """The first resource with what the templates of all hold, since a wildcard may stand for all their rows."""
    members = [resource.open_members for resource in resources if resource.open_members]
    names = dict.fromkeys(name for unknown in members for name in unknown.source.templates)
    return replace(resources[0], open_members=replace(members[0], source=content(*names)))


@lru_cache(maxsize=1024)
def _tables(catalogue: Catalogue, type_name: str) -> tuple[TableRows, ...]:
    """The tables of a resource type; none if the catalogue does not have the type."""
    kind = catalogue.type(type_name)
    return tuple(map(TableRows, tables_of(kind) if kind else ()))


def _stacks(stack: Stack, maybe: Unknown | None) -> Iterator[tuple[Stack, Unknown | None]]:
    """Yield the stack and all nested stacks, each with the undecided condition under which it exists."""
    yield stack, maybe
    for resource in stack.resources:
        if resource.nested:
            yield from _stacks(resource.nested, maybe or resource.maybe)


def _batches(
    stack: Stack, catalogue: Catalogue, maybe: Unknown | None, outer: StackContext | None = None
) -> Iterator[Batch]:
    """The batches of the stack and its nested stacks. Resources that are external or conditional are alone."""
    context = StackContext(stack, catalogue.type, outer)
    certain: dict[str, list[Resource]] = defaultdict(list)
    for resource in stack.resources:
        if resource.maybe or resource.external:
            yield _batch((resource,), context, maybe or resource.maybe)
        else:
            certain[resource.type].append(resource)
        if resource.nested:
            yield from _batches(resource.nested, catalogue, maybe or resource.maybe, context)
    for resources in certain.values():
        yield _batch(resources, context, maybe)


def _batch(resources: Sequence[Resource], context: StackContext, maybe: Unknown | None) -> Batch:
    """A batch of resources of one type, with the properties that Heat reads under other names moved."""
    name = resources[0].type
    properties = [resource.properties for resource in resources]
    property_names = set[str]().union(*properties)
    kind = context.type_of(name)
    if to_move(properties, property_names, kind):
        resources = [as_heat_reads(resource, kind) for resource in resources]
        context.translated.update((resource.name, resource) for resource in resources)
        property_names = property_names.union(*[resource.properties for resource in resources])
    return Batch(name, resources, property_names, context, maybe)


def _add_resource_rows(facts: FactSet, catalogue: Catalogue, wants: _Wants, batches: Sequence[Batch]) -> None:
    for name in filter(wants, EVERY_RESOURCE):
        _add_rows(facts, name, EVERY_RESOURCE[name], batches)
    by_type: dict[str, list[Batch]] = defaultdict(list)
    for batch in batches:
        by_type[batch.type].append(batch)
    for type_name, of_type in by_type.items():
        read = [batch for batch in map(_with_read_properties, of_type) if batch]
        for table in _tables(catalogue, type_name):
            if wants(table.relation.name):
                _add_rows(facts, table.relation.name, table.rows, read)
    for name in filter(wants, of_stack.GRANT_ROWS):
        _add_rows(facts, name, _for_each_resource(of_stack.GRANT_ROWS[name]), by_type.get(of_stack.POLICY, ()))


def _with_read_properties(batch: Batch) -> Batch | None:
    """The batch; None if the resources are external, since Heat reads none of their properties
    (heat/engine/resource.py:1187). A resource that may be external is treated as conditional."""
    external = batch.resources[0].external
    if isinstance(external, bool):
        return None if external else batch
    return replace(batch, maybe=batch.maybe or external)


def _add_rows(facts: FactSet, relation: str, add_rows: AddRows, batches: Iterable[Batch]) -> None:
    rows = RelationRows()
    for batch in batches:
        if maybe := batch.maybe:
            conditional = RelationRows()
            add_rows(batch, conditional)
            rows.uncertain += ((row, origin, maybe) for row, origin in conditional.certain.items())
            rows.uncertain += ((row, origin, maybe) for row, origin, _ in conditional.uncertain)
        else:
            add_rows(batch, rows)
    facts.fill(relation, rows.certain)
    facts.extend(relation, rows.uncertain)


def _for_each_resource(
    rows_of: Callable[[Resource, StackContext], Iterable[LocatedRow]], needed: str = "id"
) -> AddRows:
    """Convert a function of one resource to one of a batch. Resources with an empty attribute `needed` are skipped."""
    has_needed = attrgetter(needed)

    def add_rows(batch: Batch, rows: RelationRows) -> None:
        for resource in filter(has_needed, batch.resources):
            rows.add(resource, rows_of(resource, batch.context))

    return add_rows


EVERY_RESOURCE: Mapping[str, AddRows] = {
    "heat:resource": of_stack.add_resources,
    **{
        name: _for_each_resource(rows, of_stack.NEEDED.get(name, "id"))
        for name, rows in (of_stack.RESOURCE_ROWS | SOURCE_ROWS).items()
    },
}
"""The relations in which a resource of any type may have rows."""


def _add_member_wildcards(
    facts: FactSet, catalogue: Catalogue, wants: _Wants, group: Resource, maybe: Unknown | None
) -> None:
    """Add a wildcard for each relation to which unread members may add rows."""
    assert group.open_members
    stacks = tuple(group.nested.walk()) if group.nested else ()
    types = {resource.type for stack in stacks for resource in stack.resources}
    if group.type in DEPLOYMENTS:
        types.add(DEPLOYMENTS[group.type])
    deep = len(stacks) > 1 or not types
    names = [*EVERY_RESOURCE]
    if deep:
        names += of_stack.STACK_ROWS
    kinds: Iterable[str] = sorted(types)
    if not types or group.type == CHAIN or (_leaves_out(stacks[1:]) and not _are_alike(group)):
        types, kinds = set(catalogue.types()), ()
    if of_stack.POLICY in types:
        names += of_stack.GRANT_ROWS
    relations = [FIXED[name] for name in names]
    relations += [table.relation for name in sorted(types) for table in _tables(catalogue, name)]
    for relation in relations:
        if wants(relation.name) and not types.isdisjoint(of_stack.TYPES.get(relation.name, types)):
            nests = not kinds or not types.isdisjoint(GROUPS)
            known = () if relation.name != "heat:member" or nests else (group.id,)
            row, path, unknown = wildcard(relation, known, ("members", group.id.path), group.open_members)
            rows = [row]
            if relation.name == "heat:resource" and kinds:
                at = relation.positions["type"]
                rows = [(*row[:at], kind, *row[at + 1 :]) for kind in kinds]
            for row in rows:
                facts.add(relation.name, row, (group, path), maybe or unknown)


def _leaves_out(stacks: Iterable[Stack]) -> bool:
    """Whether the template has resources that the stack lacks. Other parameters may change their conditions."""
    return any(stack.template and stack.template.resources.keys() - stack.named.keys() for stack in stacks)


def _are_alike(group: Resource) -> bool:
    """Whether the members of a group differ only in their names."""
    if group.type != RESOURCE_GROUP:
        return True
    variable = group.properties.get("index_var", "%index%")
    definition = leaves(group.properties.get("resource_def"), keys=True)
    texts = (leaf.expression if isinstance(leaf, Unknown) else leaf for leaf in definition)
    return isinstance(variable, str) and not any(isinstance(text, str) and variable in text for text in texts)


def _hide_secrets(facts: FactSet, catalogue: Catalogue, stacks: Iterable[Stack], batches: Iterable[Batch]) -> None:
    """Mark the values of hidden parameters. In an environment they are found by name."""
    names, paths, files = set[str](), set[Path](), set[str]()
    for stack in stacks:
        hidden = [("parameters", parameter.name) for parameter in stack.parameters if parameter.hidden]
        files.update(place.file for path in hidden if (place := stack.defined((*path, "default"))))
        names.update(name for _, name in hidden)
        paths.update((stack.id, *path) for path in (*stack.hidden, *hidden))
    built = [resource for batch in batches for resource in batch.resources]
    if not paths and not any(resource.leftover for resource in built):  # these have parameters of older templates
        return
    hidden_resources: dict[Value, Resource] = {resource.id: resource for resource in built if resource.hides((), True)}
    for relation_name, rows in facts.rows.items():
        if relation := catalogue.relation(relation_name):
            for row in rows:
                match facts.origin(relation_name, row):
                    case Resource() as resource, path if resource.id in hidden_resources:
                        if relation_name not in SOURCE_ROWS or resource.hides((), False):  # text is not a value
                            facts.hide(relation_name, row, _secret_columns(relation, path, resource))
                    case Stack() as stack, _ if (stack.id,) in paths:
                        secret = (at for at, name in enumerate(relation.positions) if name not in _OF_PARENT)
                        facts.hide(relation_name, row, secret)
                    case Stack() as stack, () if relation_name == "heat:file" and (stack.id, "files", row[1]) in paths:
                        facts.hide(relation_name, row, range(1, len(row)))
                    case Stack(), () if relation_name == "heat:file" and row[1] in files:
                        facts.hide(relation_name, row, range(2, len(row)))  # a digest would confirm a guess of it
                    case Stack() as stack, path if (stack.id, *path) in paths:
                        facts.hide(relation_name, row, [relation.positions["value"]])
                    case EnvironmentFile(), ("parameters" | "parameter_defaults", name, *keys) if name in names:
                        columns = ("key", "value") if keys else ("value",)
                        facts.hide(relation_name, row, [relation.positions[column] for column in columns])
    _hide_deployments(facts, hidden_resources)


def _hide_deployments(facts: FactSet, hidden: Mapping[Value, Resource]) -> None:
    """Hide secrets in deployments and their digests, since the digest of a short secret would confirm a guess."""
    positions = FIXED[of_stack.DEPLOYMENT].positions
    for row in facts.rows.get(of_stack.DEPLOYMENT, ()):
        deployment, config = hidden.get(row[0]), hidden.get(row[1])
        if any(resource and resource.hides(("properties",), True) for resource in (deployment, config)):
            facts.hide(of_stack.DEPLOYMENT, row, [positions["digest"]])
        for name, column in {"config": "config", "server": "server", "actions": "action"}.items():
            if deployment and deployment.hides(("properties", name), True):
                facts.hide(of_stack.DEPLOYMENT, row, [positions[column]])


def _secret_columns(relation: Relation, path: Path, resource: Resource) -> Iterator[int]:
    """The columns with values of a hidden parameter. The key of a path is one if its whole map is."""
    scaling = of_stack.SCALING.get(resource.type, ()) if relation.name == "heat:scaling" else ()
    written = {"declared": "type", **dict(zip(("min", "max", "desired"), scaling, strict=False))}
    last_key = max((at for at, step in enumerate(path) if isinstance(step, str)), default=0)
    for at, column in enumerate(relation.columns):
        if column.name in ("path", "_key", "_key2"):
            if resource.hides(path[:last_key], False):
                yield at
        elif column.name not in _IDENTITY_COLUMNS:
            name = written.get(column.name, column.name)
            place = path if column.name in _VALUE_COLUMNS else (*path, name)
            if resource.hides(place, True):
                yield at
