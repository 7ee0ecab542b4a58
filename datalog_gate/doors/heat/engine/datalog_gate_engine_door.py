"""The door in Heat's convergence engine, for `plugin_dirs` of heat.conf.

An error in this module stops Heat's engine, so it imports only Heat. The judgement is in
`datalog_gate.doors.heat.engine_door`. Everything that builds calls `Stack.converge_stack` (heat/engine/service.py:928,
1113 and 2342, heat/engine/stack.py:1585), and each engine loads this module before its first stack
(heat/engine/stack.py:242).
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from heat.common import exception
from heat.engine.stack import Stack
from heat.objects.stack import Stack as StackObject

LOG = logging.getLogger(__name__)
PARAMETERS = ("self", "template", "action", "new_stack", "pre_converge", "new_traversal_id", "abandon")
JUDGED = (Stack.CREATE, Stack.UPDATE, Stack.ADOPT, Stack.RESTORE, Stack.ROLLBACK)


def install() -> None:
    """Wrap `Stack.converge_stack` with the door. Errors: RuntimeError for a Heat in which it has other parameters."""
    converge = Stack.converge_stack
    if hasattr(converge, "datalog_gate"):
        return
    parameters = tuple(inspect.signature(converge).parameters)
    if parameters != PARAMETERS:
        raise RuntimeError(
            f"datalog_gate: openstack-heat {version('openstack-heat')} is not known to the engine's door: "
            f"Stack.converge_stack takes {', '.join(parameters)} instead of {', '.join(PARAMETERS)}"
        )
    Stack.converge_stack = _wrap(converge)
    try:
        from datalog_gate.doors.heat.engine_door import announce

        announce(hashlib.sha256(inspect.getsource(converge).encode()).hexdigest())
    except Exception:  # the door is installed; if the gate is broken it stops each stack
        LOG.exception("datalog_gate: the engine's door is in place, but this could not be recorded in the decision log")


def _wrap(converge: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(converge)
    def judge_and_converge(
        self: Any, template: Any, action: str = Stack.UPDATE, new_stack: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        if action not in JUDGED:
            return converge(self, template, action, new_stack, *args, **kwargs)
        from datalog_gate.doors.heat.engine_door import find_refusal
        from datalog_gate.doors.heat.tree_lock import hold_tree

        new_template = new_stack.t if new_stack else template
        with hold_tree(self, new_template, action):
            tags = (self if new_stack is None else new_stack).tags
            reason = find_refusal(self, new_template, action, tags)
            if action == Stack.ROLLBACK and StackObject.get_status(self.context, self.id)[1] == Stack.COMPLETE:
                LOG.info("%s is not rolled back: its update completed, so Heat deleted the older template", self.name)
                return None
            if reason is None:
                return converge(self, template, action, new_stack, *args, **kwargs)
        if action in (Stack.UPDATE, Stack.RESTORE):
            raise exception.StackValidationFailed(message=reason)
        self.action = action
        self.disable_rollback = True  # Heat would delete the stack, and the reason with it
        return self.mark_failed(reason)

    judge_and_converge.datalog_gate = True  # type: ignore[attr-defined]
    return judge_and_converge


def resource_mapping() -> dict[str, Any]:
    """This module has no resource type."""
    return {}


install()
