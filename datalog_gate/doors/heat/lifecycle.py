"""The lifecycle plugin for Heat's legacy engine.

It judges operations, and stops them with a `VetoError`. Heat ignores a plugin that it cannot import or create. So the
modules it imports at module level need only the standard library, and an import that fails later stops the operation.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from datalog_gate.base.failures import log_failure
from datalog_gate.doors.heat.status_reason import storable

if TYPE_CHECKING:
    from datalog_gate.decision_point.operation import Answer

LOG = logging.getLogger(__name__)
STOPPED = frozenset({"CREATE", "UPDATE", "ADOPT", "RESTORE", "ROLLBACK"})
"""The actions that fail closed, as in `decision_point.operation.CLOSED`, and rollbacks that are judged."""


class VetoError(Exception):
    """Stops an operation. Heat stores its argument as the status reason of the stack.

    Heat never releases a stack whose reason it cannot store, so the reason is one line of characters that MySQL stores
    in three bytes.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(storable(reason))


class LifecyclePlugin:
    """The plugin. Each engine worker creates one and calls it from several threads."""

    def __init__(self) -> None:
        self._pending: dict[str, Answer] = {}
        self._lock = Lock()

    def get_ordinal(self) -> int:
        """The position among Heat's plugins: Heat's default."""
        return 100

    def do_pre_op(self, cnxt: Any, stack: Any, current_stack: Any = None, action: str | None = None) -> None:
        """Judge the operation. Errors: VetoError."""
        if action == "ROLLBACK" and current_stack is None:  # the rollback of a creation deletes
            return
        try:
            self._judge(cnxt, stack, current_stack, action)
        except VetoError as veto:
            _keep_stack(stack)
            raise veto from None
        except Exception as error:  # noqa: BLE001 - any failure must stop an operation that builds, with a reason that Heat can store
            log_failure(LOG, "no decision on %s", action)
            if action not in STOPPED:
                return
            from datalog_gate.base.errors import EngineError

            with suppress(ImportError):  # the decision point may be broken
                from datalog_gate.decision_point.point import count_failure

                count_failure("plugin", action.lower())
            _keep_stack(stack)
            # other errors may quote rules, so the user sees only their type
            shown = error if isinstance(error, EngineError) else f"{type(error).__name__}, see the log of heat-engine"
            raise VetoError(f"The policies could not be evaluated: {shown}") from None

    def find_refusal(self, stack: Any, template: Any, action: str, tags: list[str]) -> str | None:
        """Why a Heat with `contrib/heat.patch` must not converge the stack to the template and tags; None if it may."""
        from datalog_gate.doors.heat.engine_door import find_refusal

        return find_refusal(stack, template, action, tags)

    def do_post_op(
        self,
        cnxt: Any,
        stack: Any,
        current_stack: Any = None,
        action: str | None = None,
        is_stack_failure: bool = False,
    ) -> None:
        """Report the outcome of the operation to the decision point.

        Heat sets `is_stack_failure` only if a later plugin stopped it. An update that is rolled back ends with the call
        for the rollback (heat/engine/stack.py:1830).
        """
        del cnxt, current_stack
        with self._lock:
            answer = self._pending.pop(stack.id, None)
        if answer is None:
            return
        try:
            from datalog_gate.decision_point.point import shared_point

            failed = action == "ROLLBACK" or is_stack_failure or stack.status == "FAILED"
            shared_point().finish(answer, "failed" if failed else "complete")
        except Exception:  # noqa: BLE001 - Heat would skip the post-operations of the plugins after this one
            log_failure(LOG, "the end of %s on stack %s was lost", action, stack.id)

    def _judge(self, cnxt: Any, stack: Any, current_stack: Any, action: str | None) -> None:
        """Judge the operation. Errors: VetoError, or any other exception."""
        from datalog_gate.doors.heat.heat_objects import check_shape

        new = stack if current_stack is None else current_stack
        check_shape(cnxt, stack, new)
        from datalog_gate.doors.heat.leftovers import judge
        from datalog_gate.doors.heat.live_stack import read_operation

        operation = read_operation("plugin", cnxt, stack, new.t, str(action).lower(), new.tags)
        if operation is None:
            return
        from datalog_gate.decision_point.point import shared_point  # what is not judged needs no point

        point = shared_point()
        answer = point.judge(operation) if action == "ROLLBACK" else judge(point, operation, stack)
        if not answer.allowed:
            prefix = "On delete or abandon: " if action == "DELETE" else ""
            raise VetoError(f"{prefix}{answer.reason or 'The policies deny this.'}")
        with self._lock:
            lost, self._pending[operation.stack_id] = self._pending.get(operation.stack_id), answer
        if lost is not None:  # Heat did not end the previous operation, as when its engine was stopped
            point.finish(lost, "failed")


def _keep_stack(stack: Any) -> None:
    """Keep a vetoed stack and its reason, with the option `keep_vetoed_stack`: the only write to an object of Heat."""
    from oslo_config import cfg

    if getattr(getattr(cfg.CONF, "datalog_gate", None), "keep_vetoed_stack", False):
        stack.disable_rollback = True
