"""The door in Heat's convergence engine.

It judges what Heat itself resolved, when Heat begins to converge a stack: creations, updates, adoptions and restores,
those of nested stacks and by signals among them.
"""

from __future__ import annotations

import logging
from typing import Any

from heat.common.context import StoredContext

from datalog_gate.base.errors import EngineError
from datalog_gate.decision_point.operation import Operation
from datalog_gate.decision_point.point import shared_point
from datalog_gate.doors.heat.heat_objects import has_built, owner_of
from datalog_gate.doors.heat.lifecycle import storable
from datalog_gate.doors.heat.live_stack import LiveStack

LOG = logging.getLogger(__name__)


def find_refusal(stack: Any, template: Any, action: str) -> str | None:
    """Why Heat must not bring the stack to the template; None if it may.

    A rollback goes on, with all that it changes in nested stacks. Where the gate fails, the stack is refused.
    """
    try:
        live = LiveStack(stack)
        if any((owner.action, owner.status) == ("ROLLBACK", "IN_PROGRESS") for owner in live.owners):
            return None
        answer = shared_point().judge(_read_operation(live, template, action.lower()))
    except Exception as error:  # whatever fails here, nothing may be built that nobody judged
        LOG.exception("no decision on %s of %s", action, stack.name)
        reason = str(error) if isinstance(error, EngineError) else f"{type(error).__name__}, see the log of heat-engine"
        return storable(f"The policies could not be evaluated: {reason}")
    return None if answer.allowed else storable(answer.reason or "The policies deny it.")


def _read_operation(live: LiveStack, template: Any, action: str) -> Operation:
    stack = live.stack
    context = stack.context
    return Operation(
        door="engine",
        action=action,
        stack_name=live.root_name,
        project=stack.tenant_id,
        definition=lambda: live.definition(template),
        credentials=owner_of(context) if isinstance(context, StoredContext) else context.to_policy_values(),
        stack_id=stack.id or "",
        request_id=context.request_id or "",
        against=(lambda: live.definition(stack.t)) if action in ("update", "restore") and has_built(stack) else None,
        compare=lambda judged: live.find_difference(template, judged),
    )
