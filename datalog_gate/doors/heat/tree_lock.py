"""A lock on the tree of a stack during a judgement.

It is held until the template is stored. Without it two operations on nested stacks of one tree, such as two signals,
would each be judged without the other.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from heat.common.exception import ActionInProgress
from heat.common.service_utils import engine_alive
from heat.objects.stack_lock import StackLock

from datalog_gate.base.failures import log_failure
from datalog_gate.doors.heat.live_stack import LiveStack, comes_from_heat

LOG = logging.getLogger(__name__)
PREFIX = "datalog-gate-"
"""The beginning of the holders of these locks, which Heat takes for ids of engines. It has room for 36 characters."""
PATIENCE = 20.0
"""Seconds after which the holder of a lock counts as stopped, unless it is an engine that answers."""
PAUSE = 0.02
"""Seconds between two attempts."""


@contextmanager
def hold_tree(stack: Any, template: Any, action: str) -> Iterator[None]:
    """Hold Heat's lock on the root of the stack, which convergence does not need to build, across all engines.

    A new root needs no lock. Other errors of the lock stop nothing. Errors: ActionInProgress if Heat keeps the lock, as
    for a snapshot. A rollback, and what an operation on the owner began, waits instead: nobody would repeat it.
    """
    release = None
    try:
        release = _acquire(stack, template, action)
    except ActionInProgress:
        raise
    except Exception:  # noqa: BLE001 - the operation is judged all the same
        log_failure(LOG, "%s of %s is judged without a lock on its tree", action, stack.name)
    try:
        yield
    finally:
        if release:
            StackLock.release(stack.context, *release)


def _acquire(stack: Any, template: Any, action: str) -> tuple[str, str] | None:
    """The ids of the locked root and of the holder; None without a lock."""
    live = LiveStack(stack)
    root = live.owners[0] if live.owners else stack
    if not root.convergence or (root is stack and action in ("CREATE", "ADOPT")):
        return None
    waits = action == "ROLLBACK" or (live.is_begun_by_owner() and comes_from_heat(stack, template, action.lower()))
    holder, began = f"{PREFIX}{uuid4().hex[:20]}", time.monotonic()
    while other := StackLock.create(stack.context, root.id, holder):
        if time.monotonic() - began > PATIENCE:
            if not other.startswith(PREFIX) and engine_alive(stack.context, other):
                if not waits:
                    raise ActionInProgress(stack_name=root.name, action=root.action)
            elif StackLock.steal(stack.context, root.id, other, holder) is None:
                break
        time.sleep(PAUSE)
    return root.id, holder
