"""What became of stacks (layer 6), asked of Heat as one who may see those of every project.

In: the id of a stack, and the journal's claims for it. Out: what `reconcile` may believe; None wherever Heat's answer
is no proof, since on that word things are given back that somebody may hold.

Heat keeps the replaced resources of an update that failed where its API shows them only to who asks by their physical
id (convergence), or not at all (the backup stack of the legacy engine): so nothing is concluded from such a stack. A
stack that is deleted says so until Heat purges it.
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
from datalog_gate.services.reconcile import Became

LOG = logging.getLogger(__name__)
SETTLED = ("CREATE", "UPDATE", "ADOPT", "ROLLBACK", "RESTORE", "IMPORT")
"""Actions that, complete, leave a stack with the resources that it should have: a check or suspend may hide that an
update failed before."""
EVENTS = "events?sort_dir=desc&limit=1"
ENDS: dict[str, Outcome] = {"COMPLETE": "complete", "FAILED": "failed"}
OWN = "sort_dir=asc&resource_type=OS%3A%3AHeat%3A%3AStack"
BEGUN = 60.0
"""Seconds in which an operation that Heat accepted shows in its events, which name full seconds."""


def ended(heat: Heat, pending: Pending, now: float) -> Outcome | None:
    """What became of an operation, by the events of its stack: an update that failed tells in them what its stack does
    not. Unknown where another operation came in between; None if there is no telling yet."""
    stack, project = pending.snapshot.stack_id, pending.snapshot.project
    try:
        status, answer = heat.ask(f"/stacks/{quote(stack, safe='')}/events?{OWN}", project)
        if status != 200:
            LOG.warning("Heat says %s of the events of stack %s: ask as one who may see every project's", status, stack)
            return None
        events = [
            (datetime.fromisoformat(event["event_time"]).timestamp(), *event["resource_status"].split("_", 1))
            for event in answer["events"]
            if event["physical_resource_id"] == stack
        ]
    except (InputError, KeyError, TypeError, ValueError, AttributeError) as error:
        LOG.warning("there is no telling what became of stack %s: %s", stack, error)
        return None
    return _end(events, pending, now)


def _end(events: list[tuple[float, str, str]], pending: Pending, now: float) -> Outcome | None:
    """By events of a time, an action and a status. In the second in which the operation was asked for, one before it
    may have left its own; a stopped one has no beginning."""
    wanted, first = (
        pending.snapshot.action.upper(),
        0.0 if pending.snapshot.action in ("create", "adopt") else int(pending.began),
    )
    mine = [at for at, (when, action, _) in enumerate(events) if action == wanted and when >= first]
    if not mine or (events[mine[0]][0] == first and now - pending.began < BEGUN):
        return None
    begun = [at for at in mine if events[at][2] == "IN_PROGRESS"]
    if len(begun) > 1:
        return "unknown"
    for _, action, state in events[(begun or mine)[0] :]:
        if action == wanted and state in ENDS:
            return ENDS[state]
        if action != wanted and state == "IN_PROGRESS":
            return "failed" if action == "ROLLBACK" else "unknown"
    return None


class HeatStacks:
    """`Stacks` of a Heat. `host` is the name under which its engine on this host reports (heat.conf's `host`): a Heat
    that has no such engine is another one, and what it does not know may be there all the same."""

    def __init__(self, heat: Heat, journal: Journal, host: str) -> None:
        self._heat, self._journal, self._host = heat, journal, host
        self._own = False

    def __call__(self, stack: str) -> Became | None:
        """What became of the stack with this id."""
        claims = self._journal.claims(stack)
        try:
            return self._became(stack, claims[0].project, [claim.uuid for claim in claims]) if claims else None
        except (InputError, KeyError, TypeError, ValueError, AttributeError) as error:
            LOG.warning("there is no telling what became of stack %s: %s", stack, error)
            return None

    def _became(self, stack: str, project: str, uuids: list[str]) -> Became | None:
        status, answer = self._heat.ask(f"/stacks/{quote(stack, safe='')}?resolve_outputs=False", project)
        if status == 404:
            return Became("absent") if self._is_own() else None
        if status != 200:
            LOG.warning("Heat says %s of stack %s: ask as one who may see every project's", status, stack)
            return None
        shown = answer["stack"]
        if shown["id"] != stack:  # another one has the id for its name
            return None
        action, _, state = shown["stack_status"].partition("_")
        path = f"/stacks/{quote(shown['stack_name'], safe='')}/{quote(stack, safe='')}"
        if (action, state) == ("DELETE", "COMPLETE"):
            return Became("absent")
        if state == "IN_PROGRESS" or action == "INIT":
            events = self._given(f"{path}/{EVENTS}", project)["events"]
            last = events[0]["event_time"] if events else shown["creation_time"]
            return Became("in_progress", since=datetime.fromisoformat(last).timestamp())
        if state == "COMPLETE" and action in SETTLED:
            return Became("complete", self._resources(path, project, uuids))
        if (action, state) == ("CREATE", "FAILED"):
            return Became("failed", self._resources(path, project, uuids))
        return None

    def _resources(self, path: str, project: str, uuids: list[str]) -> frozenset[str]:
        """The physical ids of all resources. Where several have one name the list shows but one of them."""
        found = {one["physical_resource_id"] for one in self._given(f"{path}/resources", project)["resources"]}
        for uuid in uuids:
            if uuid not in found:
                hidden = self._given(f"{path}/resources?physical_resource_id={quote(uuid, safe='')}", project)
                found |= {one["physical_resource_id"] for one in hidden["resources"]}
        return frozenset(found - {None, ""})

    def _given(self, path: str, project: str) -> dict[str, Any]:
        """What Heat has under a path. Errors: ValueError if it does not give it."""
        status, answer = self._heat.ask(path, project)
        if status != 200:
            raise ValueError(f"Heat says {status} of {path}")
        return answer

    def _is_own(self) -> bool:
        """Whether this is the Heat that the journal is of, as far as one may know who is an admin there."""
        if not self._own:
            status, answer = self._heat.ask("/services")
            services = answer["services"] if status == 200 else []
            self._own = any(self._host in (service["host"], service["hostname"]) for service in services)
            if not self._own:
                LOG.warning("Heat shows no engine of %s, so that nothing is believed to be gone from it", self._host)
        return self._own
