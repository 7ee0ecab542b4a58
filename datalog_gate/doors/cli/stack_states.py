"""The states of stacks and operations in Heat, for `reconcile`.

The answer is None wherever Heat's answer is no proof, since `reconcile` releases claims by it. Heat's API shows the
replaced resources of a failed update only by their physical ids (convergence), or not at all (the backup stack of the
legacy engine). So nothing is concluded from such a stack. Heat shows a deleted stack until it is purged.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any
from urllib.parse import quote

from datalog_gate.base.errors import InputError
from datalog_gate.doors.cli.heat_client import Heat
from datalog_gate.preflight.plugin import Outcome
from datalog_gate.services.journal import Journal
from datalog_gate.services.outcomes import Pending
from datalog_gate.services.reconcile import StackState

LOG = logging.getLogger(__name__)
SETTLED = ("CREATE", "UPDATE", "ADOPT", "ROLLBACK", "RESTORE", "IMPORT")
"""Actions after which a complete stack has all its resources. A check or suspend may hide that an update failed."""
LAST_EVENT = "events?sort_dir=desc&limit=1"
OUTCOMES: dict[str, Outcome] = {"COMPLETE": "complete", "FAILED": "failed"}
STACK_EVENTS = "sort_dir=asc&resource_type=OS%3A%3AHeat%3A%3AStack"
EVENT_DELAY = 60.0
"""Seconds after which an accepted operation must show in the events, whose times are whole seconds."""


def find_outcome(heat: Heat, pending: Pending, now: float) -> Outcome | None:
    """Find the outcome of an operation in the events of its stack.

    The events tell what the stack itself does not, after an update that failed. The outcome is "unknown" if another
    operation came in between, and None if it cannot be told yet.
    """
    stack, project = pending.snapshot.stack_id, pending.snapshot.project
    try:
        status, answer = heat.ask(f"/stacks/{quote(stack, safe='')}/events?{STACK_EVENTS}", project)
        if status != 200:
            LOG.warning("Heat answers %s for the events of stack %s: use an admin of all projects", status, stack)
            return None
        events = [
            (datetime.fromisoformat(event["event_time"]).timestamp(), *event["resource_status"].split("_", 1))
            for event in answer["events"]
            if event["physical_resource_id"] == stack
        ]
    except (InputError, KeyError, TypeError, ValueError, AttributeError) as error:
        LOG.warning("the state of stack %s is not clear: %s", stack, error)
        return None
    return _outcome(events, pending, now)


def _outcome(events: list[tuple[float, str, str]], pending: Pending, now: float) -> Outcome | None:
    """The outcome by events of a time, an action and a status, in order.

    An earlier operation may have left events in the second in which this one was requested. An operation that was
    stopped has no event of its beginning.
    """
    expected = pending.snapshot.action.upper()
    earliest = 0.0 if pending.snapshot.action in ("create", "adopt") else int(pending.began)
    own = [index for index, (time, action, _) in enumerate(events) if action == expected and time >= earliest]
    if not own or (events[own[0]][0] == earliest and now - pending.began < EVENT_DELAY):
        return None
    starts = [index for index in own if events[index][2] == "IN_PROGRESS"]
    if len(starts) > 1:
        return "unknown"
    for _, action, state in events[(starts or own)[0] :]:
        if action == expected and state in OUTCOMES:
            return OUTCOMES[state]
        if action != expected and state == "IN_PROGRESS":
            return "failed" if action == "ROLLBACK" else "unknown"
    return None


class HeatStacks:
    """The `Stacks` of a Heat, for `reconcile`.

    `host` is the name under which the engine on this host reports (the option `host` of heat.conf). A Heat without such
    an engine is another Heat, so a stack that it does not know may still exist.
    """

    def __init__(self, heat: Heat, journal: Journal, host: str) -> None:
        self._heat, self._journal, self._host = heat, journal, host
        self._own = False

    def __call__(self, stack: str) -> StackState | None:
        """The state of the stack with this id; None if Heat's answer is no proof."""
        claims = self._journal.claims(stack)
        try:
            return self._read(stack, claims[0].project, [claim.uuid for claim in claims]) if claims else None
        except (InputError, KeyError, TypeError, ValueError, AttributeError) as error:
            LOG.warning("the state of stack %s is not clear: %s", stack, error)
            return None

    def _read(self, stack: str, project: str, uuids: list[str]) -> StackState | None:
        status, answer = self._heat.ask(f"/stacks/{quote(stack, safe='')}?resolve_outputs=False", project)
        if status == 404:
            return StackState("absent") if self._is_own() else None
        if status != 200:
            LOG.warning("Heat answers %s for stack %s: use an admin of all projects", status, stack)
            return None
        shown = answer["stack"]
        if shown["id"] != stack:  # another stack has this id as its name
            return None
        action, _, state = shown["stack_status"].partition("_")
        path = f"/stacks/{quote(shown['stack_name'], safe='')}/{quote(stack, safe='')}"
        if (action, state) == ("DELETE", "COMPLETE"):
            return StackState("absent")
        if state == "IN_PROGRESS" or action == "INIT":
            events = self._get(f"{path}/{LAST_EVENT}", project)["events"]
            last = events[0]["event_time"] if events else shown["creation_time"]
            return StackState("in_progress", since=datetime.fromisoformat(last).timestamp())
        if state == "COMPLETE" and action in SETTLED:
            return StackState("complete", self._resources(path, project, uuids))
        if (action, state) == ("CREATE", "FAILED"):
            return StackState("failed", self._resources(path, project, uuids))
        return None

    def _resources(self, path: str, project: str, uuids: list[str]) -> frozenset[str]:
        """The physical ids of all resources. Heat lists only one of several with the same name."""
        ids = {resource["physical_resource_id"] for resource in self._get(f"{path}/resources", project)["resources"]}
        for uuid in uuids:
            if uuid not in ids:
                hidden = self._get(f"{path}/resources?physical_resource_id={quote(uuid, safe='')}", project)
                ids |= {resource["physical_resource_id"] for resource in hidden["resources"]}
        return frozenset(ids - {None, ""})

    def _get(self, path: str, project: str) -> dict[str, Any]:
        status, answer = self._heat.ask(path, project)
        if status != 200:
            raise ValueError(f"Heat answers {status} for {path}")
        return answer

    def _is_own(self) -> bool:
        """Whether the journal belongs to this Heat, by the engines that an admin can see."""
        if not self._own:
            status, answer = self._heat.ask("/services")
            services = answer["services"] if status == 200 else []
            self._own = any(self._host in (service["host"], service["hostname"]) for service in services)
            if not self._own:
                LOG.warning("Heat shows no engine of host %s, so no stack counts as deleted", self._host)
        return self._own
