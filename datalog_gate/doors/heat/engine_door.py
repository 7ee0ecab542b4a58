"""The door in Heat's convergence engine.

It judges stacks as Heat resolved them, when Heat begins to converge them: creations, updates, adoptions and restores,
including those of nested stacks and those by signals.
"""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import Any

from oslo_config import cfg

from datalog_gate.base.errors import EngineError
from datalog_gate.base.failures import log_failure
from datalog_gate.decision_point.config_options import build_settings
from datalog_gate.decision_point.engine_start import record_start
from datalog_gate.decision_point.point import count_failure, shared_point
from datalog_gate.doors.heat.heat_objects import check_shape
from datalog_gate.doors.heat.leftovers import judge
from datalog_gate.doors.heat.live_stack import read_operation
from datalog_gate.doors.heat.status_reason import storable

LOG = logging.getLogger(__name__)


def announce(wrapped: str) -> None:
    """Record that this engine started with the door, and load the rules. `wrapped` is the digest of the wrapped
    function.

    If the rules become invalid later, these stay in force. If they are invalid now, each stack is refused until they
    load.
    """
    record_start(build_settings(cfg.CONF, {}), version("openstack-heat"), wrapped)
    try:
        shared_point().metrics.start()
    except Exception:  # noqa: BLE001 - must not stop the engine
        log_failure(LOG, "the policies can't be loaded, so nothing is built until they can")


def find_refusal(stack: Any, template: Any, action: str, tags: list[str]) -> str | None:
    """Why Heat must not converge the stack to the template and tags; None if it may. If the gate fails, what would be
    judged is refused."""
    try:
        check_shape(stack.context, stack)
        operation = read_operation("engine", stack.context, stack, template, action.lower(), tags)
        if operation is None:
            return None
        point = shared_point()
        answer = point.judge(operation) if action == "ROLLBACK" else judge(point, operation, stack)
    except Exception as error:  # noqa: BLE001 - whatever fails here, nothing may be built without a judgement
        log_failure(LOG, "no decision on %s of %s", action, stack.name)
        count_failure("engine", action.lower())
        reason = str(error) if isinstance(error, EngineError) else f"{type(error).__name__}, see the log of heat-engine"
        return storable(f"The policies could not be evaluated: {reason}")
    return None if answer.allowed else storable(answer.reason or "The policies deny this.")
