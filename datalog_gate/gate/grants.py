"""Grants (layer 4): which of the template's grants can unlock anything, and what became of each.

In: the facts of the template's ``DatalogGate::Policy`` resources, the services that are enabled and that the caller may
use, and the time. Out: the rows that tell the rules which grants are in effect, and a reason for every grant.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from datalog_gate.facts.factset import FactSet
from datalog_gate.gate.finding import Grant, instant
from datalog_gate.values import ResourceId, Row, Value, row_key, show


def effective(facts: FactSet, services: Collection[str], now: datetime) -> list[ResourceId]:
    """The grants that are surely there, of a service that is enabled and that the caller may use, and not expired."""
    return [grant for grant, _, reason in _judge(facts, services, now) if not reason]


def grants_of(facts: FactSet, services: Collection[str], now: datetime, unlocked: Collection[Row]) -> tuple[Grant, ...]:
    """Every grant of the facts with its reason. `unlocked` are the rows (service, resource) of ``gate:unlocked``."""
    scopes: dict[Value, set[Value]] = {}
    for grant, resource in facts.rows.get("gate:grant_scope", ()):
        scopes.setdefault(grant, set()).add(resource)
    open_to = {(service, resource) for service, resource in unlocked}
    found = []
    for grant, service, reason in _judge(facts, services, now):
        unlocks = not reason and any((service, one) in open_to for one in scopes.get(grant, ()))
        why = reason or ("unlocked" if unlocks else "no rule unlocks it")
        found.append(Grant(grant, show(service), unlocks, why))
    return tuple(found)


def _judge(facts: FactSet, services: Collection[str], now: datetime) -> list[tuple[ResourceId, Value, str]]:
    """Each grant with its service and the reason why it is not in effect, empty if it is; sorted."""
    maybe = facts.maybe.get("gate:grant", ())
    judged = []
    for row in sorted(facts.rows.get("gate:grant", ()), key=row_key):
        grant, service, expires = row
        if not isinstance(grant, ResourceId):
            continue
        if row in maybe:
            reason = "whether the grant is in the template is not known yet"
        elif service not in services:
            reason = f"the service {show(service)} is not enabled here, or not for this caller"
        else:
            reason = _expiry(expires, now)
        judged.append((grant, service, reason))
    return judged


def _expiry(expires: Value, now: datetime) -> str:
    """Why the date of expiry ends the grant, or nothing. A date is good through the day before it, in UTC."""
    if expires is None:
        return ""
    try:
        until = instant(str(expires))
    except ValueError:
        return f"expires is no date: {show(expires)}"
    return f"expired {show(expires)}" if now >= until else ""
