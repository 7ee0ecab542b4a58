"""Consults services for every stack before and after an operation.

Each holds a claim for the operation. If one refuses, or the host does not begin the operation, the claims are released
in reverse order, so that dependent services go first. The reconciler ends the claims of what the host accepted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from datalog_gate.plugins.plugin_errors import PluginError, PluginLoadError
from datalog_gate.services.broker import Broker
from datalog_gate.services.contract import Request, Service, digest
from datalog_gate.services.journal_claim import JournalError

LOG = logging.getLogger(__name__)
Ending = Literal["accepted", "complete", "failed"]
"""How an operation went on. `accepted`: the host has begun it; `failed`: it was not begun, or it failed."""


def consult(broker: Broker, request: Request) -> tuple[str, ...]:
    """Have each service for every stack reserve an operation, in order, up to the first that does not. Returns the
    uuids of their claims. Errors: PluginError, JournalError: then all is released."""
    held: list[str] = []
    for name in order_services(broker.services):
        if request.action in broker.services[name].actions:
            own = replace(request, service=name, uuid=digest(request.uuid, name))
            try:
                broker.reserve(own)
            except BaseException:  # the thread must end, but services that reserved something know
                finish(broker, held, "failed")
                raise
            held.append(own.uuid)
    return tuple(held)


def finish(broker: Broker, held: Sequence[str], ending: Ending, stack: str = "") -> None:
    """Tell services how an operation went on. `stack` is the id of a new stack. What fails is left to the
    reconciler."""
    for uuid in reversed(held) if ending == "failed" else held:
        try:
            if ending == "accepted":
                broker.journal.locate(uuid, stack)
            elif ending == "complete":
                broker.commit(uuid, "complete")
            else:
                broker.release(uuid, "its operation failed")
        except (PluginError, JournalError) as error:
            LOG.error("that an operation is %s is left to `datalog-gate services reconcile`: %s", ending, error)


def order_services(services: Mapping[str, Service]) -> list[str]:
    """The names of the services for every stack, in the order that `Service` promises. Errors: PluginLoadError for a
    cycle, and for attributes of wrong types."""
    every = {name: service for name, service in services.items() if service.for_every_stack}
    if problems := [problem for name, service in every.items() for problem in _check_attributes(name, service)]:
        raise PluginLoadError("; ".join(problems))
    earlier = {name: {other for other in service.after if other in every} for name, service in every.items()}
    for name, service in every.items():
        for later in service.before:
            if later in every:
                earlier[later].add(name)
    sorter = TopologicalSorter(earlier)
    try:
        sorter.prepare()
    except CycleError as error:
        cycle = error.args[1][:-1]
        start = cycle.index(min(cycle))
        names = " -> ".join([*cycle[start:], *cycle[: start + 1]])
        raise PluginLoadError(f"these services must each come before the other: {names}") from None
    order, free = list[str](), set(sorter.get_ready())
    while free:
        name = min(free, key=lambda name: (every[name].order, name))
        order.append(name)
        sorter.done(name)
        free = free - {name} | set(sorter.get_ready())
    return order


def _check_attributes(name: str, service: Service) -> list[str]:
    problems = [
        f"{name}.{key} is not a tuple of names"
        for key, names in {"before": service.before, "after": service.after}.items()
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names)
    ]
    return problems if type(service.order) is int else [*problems, f"{name}.order is not a whole number"]
