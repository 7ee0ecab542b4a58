"""What failed updates left in Heat's database.

Heat deletes what a new template no longer has only when the update succeeds. Until then each further update would add
to it: three updates that replace everything and fail leave four generations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from heat.engine.template import Template
from heat.objects.resource import Resource as Row
from heat.objects.stack import Stack as StackRow

from datalog_gate.base.records import dataclass, replace
from datalog_gate.decision_point.operation import Answer, Operation
from datalog_gate.doors.heat.heat_objects import copy_definition
from datalog_gate.doors.heat.live_stack import LiveStack
from datalog_gate.files.stack_definition import Leftovers, StackDefinition
from datalog_gate.template.held import HeldStack

if TYPE_CHECKING:  # the decision point may be broken
    from datalog_gate.decision_point.point import DecisionPoint


def judge(point: DecisionPoint, operation: Operation, stack: Any, template: Any) -> Answer:
    """Judge an operation that converges a stack to a template: if anything is left over, first with that, then alone.

    With leftovers what was there before is tolerated, so that only an operation that adds to it is stopped.
    """
    found = _include_leftovers(operation, stack, template)
    answer = point.judge(found) if found else None
    return answer if answer and not answer.allowed else point.judge(operation)


def _include_leftovers(operation: Operation, stack: Any, template: Any) -> Operation | None:
    """The operation with what is left over; None if there is nothing, or if it was judged with the operation that began
    this one."""
    before, live = operation.against, LiveStack(stack)
    if before is None or live.is_begun_by_owner():
        return None
    after = list(_find_leftovers(live, template))
    if not after:
        return None
    older = list(_find_leftovers(live, stack.t))
    return replace(
        operation,
        definition=lambda: _add(operation.definition(), live, after),
        against=lambda: _add(before(), live, older),
        tolerant=True,
        compare=None,
        asks_services=False,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """Resources of a stack by the name under which each is judged, and the template they were built from."""

    names: Mapping[str, str]
    template: Any
    if_replaced: bool = False
    path: str = ""
    stack_name: str = ""


def _find_leftovers(live: LiveStack, template: Any) -> Iterator[_Found]:
    """What is left over in the tree, with this template for the judged stack."""
    context = live.stack.context
    waiting = [(live.root_name, live.owners[0] if live.owners else live.stack)]
    while waiting:
        path, stack = waiting.pop()
        is_judged = stack.id == live.stack.id
        current = live.stack.t if is_judged else Template.load(context, stack.raw_template_id)
        for found in _find_own(context, stack, current, template if is_judged else current):
            yield replace(found, path=path, stack_name=stack.name)
        for child in StackRow.get_all_by_owner_id(context, stack.id):
            if child.parent_resource_name in current[current.RESOURCES]:  # another one is within a leftover resource
                waiting.append((f"{path}/{child.parent_resource_name}", child))


def _find_own(context: Any, stack: Any, current: Any, template: Any) -> Iterator[_Found]:
    """What is left over in one stack. If nothing is, the new template may replace all; else what it replaces would be
    left over too if the update fails."""
    rows, backup = _read_rows(context, stack)
    newest = {row.name: row for row in rows}

    def is_beyond(row: Any, names: Mapping[str, Any]) -> bool:
        return row is not newest[row.name] or row.name not in names

    if not any(is_beyond(row, current[current.RESOURCES]) for row in rows):
        return
    groups: dict[tuple[Any, bool], dict[str, str]] = {}
    for row in rows:
        is_own = not is_beyond(row, template[template.RESOURCES])
        if not (is_own and template is current):
            name = f"{row.name}*{row.id}" if is_own or row is not newest[row.name] else row.name
            template_id = row.current_template_id or (backup.raw_template_id if row.stack_id != stack.id else None)
            groups.setdefault((template_id, is_own), {})[name] = row.name
    for (template_id, is_own), names in groups.items():
        yield _Found(names, Template.load(context, template_id) if template_id else current, is_own)


def _read_rows(context: Any, stack: Any) -> tuple[list[Any], Any]:
    """The rows of all that a stack has built, the oldest first, and the stack in which the legacy engine keeps what it
    replaced."""
    rows = sorted(Row.get_all_active_by_stack(context, stack.id).values(), key=lambda row: row.id)
    backup = None
    if not stack.convergence:
        backup = StackRow.get_by_name_and_owner_id(context, f"{stack.name}*", owner_id=stack.id)
        rows = [*(Row.get_all_active_by_stack(context, backup.id).values() if backup else ()), *rows]
    return [row for row in rows if row.physical_resource_id], backup


def _add(definition: StackDefinition, live: LiveStack, found: list[_Found]) -> StackDefinition:
    leftovers = tuple(
        Leftovers(part.path, part.names, _define(definition, live, part), part.if_replaced) for part in found
    )
    return replace(definition, leftovers=leftovers)


def _define(definition: StackDefinition, live: LiveStack, found: _Found) -> StackDefinition:
    """The definition of the tree, with the template of leftover resources at their place."""
    built = copy_definition(found.template)
    if found.path == live.root_name:
        return replace(built, held=definition.held)
    assert built.environment is not None
    before = definition.held.stacks.get(found.path)
    metadata = before.metadata if before else None
    stack = HeldStack(found.stack_name, built.template, built.environment, built.files, metadata)
    return replace(definition, held=replace(definition.held, stacks={**definition.held.stacks, found.path: stack}))
