"""The lifecycle plugin (layer 6): judges an operation of Heat's legacy engine, and stops it by one short exception.

In: what Heat hands to a plugin. Out: nothing, or a `VetoError`. Heat passes over a plugin that it can't import or make
and goes on without it; so all but the standard library is imported where it is used, and what is broken then stops the
operation.
"""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datalog_gate.decision_point.operation import Answer

LOG = logging.getLogger(__name__)
STOPPED = frozenset({"CREATE", "UPDATE", "ADOPT", "RESTORE"})
"""The actions that stop where the gate can't decide, as `point.asked.CLOSED` names them."""
ROOM = 2000
"""Characters of a veto at most, as `point.asked.REASON`."""


class VetoError(Exception):
    """Stops an operation. Heat shows its argument alone as the stack's status reason, and never frees a stack whose
    reason it can't store: so that is one line of plain text, of characters that MySQL stores in three bytes."""

    def __init__(self, reason: str) -> None:
        super().__init__("".join(one if one.isprintable() and one <= "\uffff" else "?" for one in reason[:ROOM]))


class LifecyclePlugin:
    """Made once in each worker of the engine, and called from many threads at once."""

    def __init__(self) -> None:
        self._going_on: dict[str, Answer] = {}
        self._lock = Lock()

    def get_ordinal(self) -> int:
        """Where the plugin stands among Heat's plugins: where those stand that don't say."""
        return 100

    def do_pre_op(self, cnxt: Any, stack: Any, current_stack: Any = None, action: str | None = None) -> None:
        """Judge the operation. A rollback always goes on: stopped, it leaves half of an update. Errors: VetoError."""
        if action == "ROLLBACK":
            return
        try:
            self._judge(cnxt, stack, current_stack, action)
        except VetoError as veto:
            _keep(stack)
            raise veto from None
        except Exception as error:  # whatever is broken must stop what would build, and in words that Heat can store
            LOG.exception("no decision on %s", action)
            if action in STOPPED:
                _keep(stack)
                raise VetoError(f"The policies could not be evaluated: {_said(error)}") from None

    def do_post_op(
        self,
        cnxt: Any,
        stack: Any,
        current_stack: Any = None,
        action: str | None = None,
        is_stack_failure: bool = False,
    ) -> None:
        """Say what became of the operation. Heat gives `is_stack_failure` only where a later plugin stopped it; an
        update that is rolled back ends with the rollback's call (heat/engine/stack.py:1830)."""
        del cnxt, current_stack
        with self._lock:
            answer = self._going_on.pop(stack.id, None)
        if answer is None:
            return
        try:
            from datalog_gate.decision_point.point import shared_point

            failed = action == "ROLLBACK" or is_stack_failure or stack.status == "FAILED"
            shared_point().finish(answer, "failed" if failed else "complete")
        except Exception:  # Heat would pass over the post-operations of the plugins after this one
            LOG.exception("the end of %s on stack %s was lost", action, stack.id)

    def _judge(self, cnxt: Any, stack: Any, current_stack: Any, action: str | None) -> None:
        """Errors: VetoError, and anything at all."""
        from datalog_gate.decision_point.point import shared_point
        from datalog_gate.doors.heat.heat_objects import asked

        question = asked(cnxt, stack, current_stack, action)
        if question is None:
            return
        point = shared_point()
        answer = point.judge(question)
        if not answer.allowed:
            may_be = "On delete or abandon: " if action == "DELETE" else ""
            raise VetoError(f"{may_be}{answer.reason or 'The policies deny it.'}")
        with self._lock:
            lost, self._going_on[question.stack_id] = self._going_on.get(question.stack_id), answer
        if lost is not None:  # Heat told no end of the operation before, as where its engine was stopped
            point.finish(lost, "failed")


def _said(error: Exception) -> str:
    """What a user may read of it: errors in rules quote them."""
    from datalog_gate.base.errors import EngineError

    return str(error) if isinstance(error, EngineError) else f"{type(error).__name__}, see the log of heat-engine"


def _keep(stack: Any) -> None:
    """With the option `keep_vetoed_stack` a vetoed stack stays, and its reason with it, where the user asked for a
    rollback. The one write to what Heat hands over; Heat does not store it."""
    from oslo_config import cfg

    if getattr(getattr(cfg.CONF, "datalog_gate", None), "keep_vetoed_stack", False):
        stack.disable_rollback = True
