"""What failed updates left in Heat's database.

Heat deletes what a new template no longer has only when the update succeeds. Until then each further update would add
to it: three updates that replace everything and fail leave four generations.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from heat.common.exception import NotFound
from heat.engine.template import Template
from heat.objects.resource import Resource as Row
from heat.objects.stack import Stack as StackRow

from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.decision_point.operation import Answer, Operation
from datalog_gate.doors.heat.heat_objects import copy_definition
from datalog_gate.doors.heat.live_stack import BUILDING, LiveStack, read_events
from datalog_gate.files.stack_definition import Leftovers, StackDefinition
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.update import outcomes
from datalog_gate.template.held import HeldStack, HeldStacks

if TYPE_CHECKING:  # the decision point may be broken
    from datalog_gate.decision_point.point import DecisionPoint

SECTIONS = (
    ("resources", "properties", "condition", "parameters", "hidden"),
    ("Resources", "Properties", "Condition", "Parameters", "NoEcho"),
)
"""The names of sections and keys in HOT and in CloudFormation templates."""
REFERENCES = frozenset({"get_resource", "get_attr", "Fn::GetAtt"})
"""The functions that refer to other resources; `Ref` may."""


def judge(point: DecisionPoint, operation: Operation, stack: Any) -> Answer:
    """Judge an operation that converges a stack: if anything is left over, first with that, then alone.

    With leftovers what lives is tolerated, so that only an operation that adds to it is stopped.
    """
    found = _include_leftovers(point, operation, stack)
    answer = point.judge(found) if found else None
    return answer if answer and not answer.allowed else point.judge(operation)


def _include_leftovers(point: DecisionPoint, operation: Operation, stack: Any) -> Operation | None:
    """The operation with all that it takes away, which lives until it succeeds. None if nothing is left over, or if
    that was judged with the operation that began this one.

    An update that failed, or goes on, also leaves what it did not reach. This counts if what lives violates the
    policies.
    """
    before, live = operation.against, LiveStack(stack)
    if before is None or live.is_begun_by_owner():
        return None
    tree = list(_walk(live))
    is_beyond = any(built.is_beyond for built in tree)
    stacks = {built.stack.id: built.stack for built in tree}.values()
    if not is_beyond and all(_is_complete(stack.context, built_stack) for built_stack in stacks):
        return None

    @cache
    def split() -> tuple[tuple[Leftovers, ...], tuple[Leftovers, ...]]:
        return _split(live.root_name, tree, operation.definition(), point.current().ruleset.rules.catalogue)

    living = replace(
        operation,
        definition=lambda: replace(before(), leftovers=split()[0], only_leftovers=True),
        against=None,
    )
    if not is_beyond and point.allows(living):
        return None
    return replace(
        operation,
        definition=lambda: replace(operation.definition(), leftovers=split()[1]),
        against=living.definition,
        tolerant=True,
        compare=None,
        asks_services=False,
    )


def _is_complete(context: Any, stack: Any) -> bool:
    """Whether the last operation that built something of a stack is known to be complete."""
    if stack.action in BUILDING:
        return bool(stack.status == "COMPLETE")
    return [event.resource_status for event in read_events(context, stack.id)][-1:] == ["COMPLETE"]


@dataclass(frozen=True, slots=True, eq=False)
class _Generation:
    """The stacks of a tree as some of its resources were built, by path. Few trees need them read."""

    stacks: ChainMap[str, Callable[[], HeldStack]]
    _older: dict[int, _Generation] = field(default_factory=dict)

    def older(self, depth: int) -> _Generation:
        """The generation before, in which stacks at that depth have resources of older templates."""
        return self._older.setdefault(depth, _Generation(self.stacks.new_child()))

    def define(self, root: str, held: HeldStacks) -> StackDefinition:
        """The definition of the tree."""
        stacks = {path: read() for path, read in self.stacks.items()}
        top = stacks.pop(root)
        return StackDefinition(top.template, top.environment, files=top.files, held=replace(held, stacks=stacks))


@dataclass(frozen=True, slots=True)
class _Built:
    """A resource that Heat has built. `holder` is the id of the row of the resource that its stack is in."""

    row: Any
    stack: Any
    path: str
    holder: int | None
    generation: _Generation
    is_newest: bool
    """Whether no newer resource has its name."""
    is_beyond: bool
    """Whether the template in force does not have it."""


def _walk(live: LiveStack) -> Iterator[_Built]:
    """What lives in the tree, outer resources first."""
    root = live.owners[0] if live.owners else live.stack
    waiting: list[tuple[str, Any, int | None, _Generation]] = [(live.root_name, root, None, _Generation(ChainMap()))]
    metadata: dict[int | None, Any] = {}
    for path, stack, holder, generation in waiting:
        context = live.stack.context
        current = live.stack.t if stack.id == live.stack.id else Template.load(context, stack.raw_template_id)
        names = current[current.RESOURCES]
        children = {child.id: child for child in StackRow.get_all_by_owner_id(context, stack.id)}
        seen: set[str] = set()
        generation.stacks[path] = partial(_hold, stack.name, current, (), metadata.get(holder))
        for template, rows in _read_rows(context, stack, current):
            generation.stacks[path] = partial(_hold, stack.name, template, rows, metadata.get(holder))
            for row in rows:
                is_newest, below = row.name not in seen, f"{path}/{row.name}"
                yield _Built(row, stack, below, holder, generation, is_newest, not is_newest or row.name not in names)
                seen.add(row.name)
                if child := children.get(row.physical_resource_id):
                    metadata[row.id] = row.rsrc_metadata
                    waiting.append((below, child, row.id, generation))
            generation = generation.older(path.count("/"))


def _read_rows(context: Any, stack: Any, current: Any) -> Iterator[tuple[Any, Sequence[Any]]]:
    """The rows of what a stack has built by the template that it was built from, the newest first. The legacy engine
    keeps what it replaced in another stack, and one template for all.

    An operation that ends meanwhile deletes the template before it, which the rows that were read may still name. What
    they stand for is then as the current template has it.
    """
    rows = [*Row.get_all_active_by_stack(context, stack.id).values()]
    templates = {stack.id: current, current.id: current}
    if not stack.convergence:
        backup = StackRow.get_by_name_and_owner_id(context, f"{stack.name}*", owner_id=stack.id)
        if backup:
            templates[backup.id] = Template.load(context, backup.raw_template_id)
            rows += Row.get_all_active_by_stack(context, backup.id).values()
    groups: dict[Any, list[Any]] = {}
    for row in sorted(rows, key=lambda row: (row.stack_id == stack.id, row.id), reverse=True):
        if row.physical_resource_id:
            groups.setdefault(row.current_template_id or row.stack_id, []).append(row)
    for origin, alike in groups.items():
        if origin not in templates:
            try:
                templates[origin] = Template.load(context, origin)
            except NotFound:
                templates[origin] = current
        yield templates[origin], alike


def _hold(name: str, template: Any, rows: Iterable[Any], metadata: Any) -> HeldStack:
    """A stack as these resources were built. After a failed update the legacy engine stores other parameters, files and
    mappings beside their definitions, so they get the properties that they have (heat/engine/resource.py:614)."""
    definition = copy_definition(template)
    source, environment = definition.template, definition.environment
    assert isinstance(source, dict)
    assert environment is not None
    for section, properties, condition, parameters, hidden in SECTIONS:
        declared, resources = source.get(parameters) or {}, source.get(section) or {}
        secret = {key for key, schema in declared.items() if isinstance(schema, dict) and schema.get(hidden)}
        for row in rows:
            written = resources.get(row.name)
            if row.current_template_id or written is None:
                continue
            written.pop(condition, None)
            stored, old = row.properties_data or {}, written.get(properties)
            if isinstance(old, dict):
                known = {key for key in old if key in stored and not _reads(old[key], resources, secret)}
                written[properties] = {key: stored[key] if key in known else value for key, value in old.items()}
    return HeldStack(name, source, environment, definition.files, metadata)


def _reads(part: Any, resources: Collection[str], secret: Collection[str]) -> bool:
    """Whether a part of a template refers to a resource or a hidden parameter."""
    match part:
        case {"Ref": str(name), **others} if not others:
            return name in resources or name in secret
        case dict():
            return not REFERENCES.isdisjoint(part) or any(_reads(value, resources, secret) for value in part.values())
        case list():
            return any(_reads(item, resources, secret) for item in part)
    return part in secret


def _split(
    name: str, tree: Sequence[_Built], definition: StackDefinition, catalogue: Catalogue
) -> tuple[tuple[Leftovers, ...], tuple[Leftovers, ...]]:
    """What lives, and what of it an update to that definition takes away. Both have it under the same names."""
    new = definition.stack(name, catalogue)
    paths: dict[int | None, str] = {None: name}
    changes: dict[_Generation, Mapping[str, Collection[str]]] = {}
    lives: dict[_Generation, dict[str, dict[str, str]]] = {}
    taken: dict[_Generation, dict[str, dict[str, str]]] = {}
    gone = set[int | None]()
    definitions: dict[_Generation, StackDefinition] = {}
    for built in tree:
        key = built.generation
        if key not in definitions:
            definitions[key] = key.define(name, definition.held)
            old = definitions[key].stack(name, catalogue, undeclared=True)
            changes[key] = {outcome.of.id.path: outcome.changes for outcome in outcomes([old], [new], catalogue)}
        change = changes[key].get(built.path, ())
        is_within = built.holder in gone
        is_starred = not built.is_newest or (not is_within and "replace" in change)
        own = f"{built.row.name}*{built.row.id}" if is_starred else built.row.name
        path = paths[built.holder]
        paths[built.row.id] = f"{path}/{own}"
        lives.setdefault(key, {}).setdefault(path, {})[own] = built.path
        if is_within or is_starred or "delete" in change:
            gone.add(built.row.id)
            taken.setdefault(key, {}).setdefault(path, {})[own] = built.path
    living, left = ([Leftovers(part[key], definitions[key]) for key in part] for part in (lives, taken))
    return tuple(living), tuple(left)
