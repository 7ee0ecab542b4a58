"""The check of the grants of a template.

Decides which grants can unlock something, and why not. Grants are the ``DatalogGate::Policy`` resources of a template.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from datalog_gate.base.diagnostics import closest
from datalog_gate.base.values import SECRET, ResourceId, Row, Unknown, Value, row_key, show
from datalog_gate.decision.decision import PERHAPS, Grant, read_instant
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.stack_relations import find_required
from datalog_gate.stack.model import Data, Resource, Stack

PROPERTIES = ("service", "scope", "options", "expires")
LATE = "write the value, or use a parameter that is known and not hidden"


def effective(facts: FactSet, stacks: Sequence[Stack], services: Collection[str], now: datetime) -> list[ResourceId]:
    """The grants that certainly exist and have no problem: see `_problems`."""
    return [grant for grant, _, reason in _judge(facts, stacks, services, now) if not reason]


def grants_of(
    facts: FactSet,
    stacks: Sequence[Stack],
    services: Collection[str],
    now: datetime,
    derived: Collection[Row],
    unlocked: Collection[Row],
) -> tuple[Grant, ...]:
    """Every grant with its reason. `derived` are the rows (service, grant) that rules with ``@unlock`` derive,
    `unlocked` those of ``gate:unlocked`` (service, resource): another grant may have unlocked the resource."""
    scopes: dict[Value, set[Value]] = {}
    maybe = facts.maybe.get("gate:grant_scope", ())
    for row in facts.rows.get("gate:grant_scope", ()):
        grant, resource = row
        scopes.setdefault(grant, set()).update(() if row in maybe else (resource,))
    open_to = {(service, resource) for service, resource in unlocked}
    grants = []
    for grant, service, reason in _judge(facts, stacks, services, now):
        scope = scopes.get(grant)
        unlocks = (
            not reason and (service, grant) in derived and any((service, value) in open_to for value in scope or ())
        )
        why = "no rule unlocks it" if scope else "nothing is in its scope" if scope is None else PERHAPS[1]
        grants.append(Grant(grant, show(service), unlocks, reason or ("unlocked" if unlocks else why)))
    return tuple(grants)


def _judge(
    facts: FactSet, stacks: Sequence[Stack], services: Collection[str], now: datetime
) -> list[tuple[ResourceId, Value, str]]:
    """The grants, sorted, each with its service and the reason why it is not in effect; empty if it is."""
    rows = sorted(facts.rows.get("gate:grant", ()), key=row_key)
    if not rows:
        return []
    maybe = facts.maybe.get("gate:grant", ())
    homes = {resource.id: (resource, home) for root in stacks for home in root.walk() for resource in home.resources}
    # Heat builds nothing unless each parameter has a value
    given = all(parameter.origin != "none" for root in stacks for parameter in root.parameters)
    judged = []
    for row in rows:
        if not isinstance(row[0], ResourceId):
            continue
        grant, home = homes[row[0]]
        service, expires = (
            SECRET if grant.hides(("properties", name), True) else value
            for name, value in zip(("service", "expires"), row[1:], strict=True)
        )
        problems = [PERHAPS[0]] if row in maybe else _problems(grant, home, service, expires, services, now)
        late = [problem for problem in problems if problem.endswith(LATE)]
        if late and not given:
            problems = [problem for problem in problems if problem not in late] or [PERHAPS[2]]
        judged.append((grant.id, service, "; ".join(problems)))
    return judged


def _problems(
    grant: Resource, home: Stack, service: Value, expires: Value, services: Collection[str], now: datetime
) -> list[str]:
    """Why a grant is invalid, whatever the rules say, and what to change. `services` are enabled and allowed for the
    caller."""
    problems = []
    if isinstance(service, Unknown):
        problems.append(f"its service depends on {service.expression}: {LATE}")
    elif service not in services:
        problems.append(
            f"the service {service} is not enabled here, or not for this caller: use --services {service} on the "
            f"command line; at the gate the operator enables it, and the policy datalog_gate:grant:{service} allows it"
        )
    named = {resource.name: resource for resource in home.resources}
    own = home.template if home.template and home.template.stack == home.id else None
    scope = SECRET if grant.hides(("properties", "scope"), True) else grant.properties.get("scope")
    needed = find_required(named, [grant.name]) - {grant.name}
    problems += find_scope_problems(scope, {*named, *(own.resources if own else ())}, needed)
    for name in grant.properties:
        if name not in PROPERTIES:
            near = closest(name, PROPERTIES)
            problems.append(f"it has no property {name}" + (f": did you mean {near}?" if near else ""))
    if expires is not None and (why := _expiry(expires, now)):
        problems.append(why)
    if grant.written(("external_id",), frozenset()).get("external_id") is not None:
        problems.append("its external_id names an existing resource: remove it")
    elif grant.deletion_policy not in (None, "Delete"):
        policy = grant.deletion_policy
        problems.append(f"its deletion_policy is {policy}, which would never release the grant: remove it")
    return problems


def find_scope_problems(scope: Data, names: Collection[str], needed: Collection[str]) -> Iterator[str]:
    """Find problems of a scope. `names` are the resources of the stack; `needed` are those that the grant requires."""
    if isinstance(scope, Unknown):
        yield f"its scope depends on {scope.expression}: {LATE}"
    elif not isinstance(scope, list | None):
        yield "its scope is not a list of names"
    if not isinstance(scope, list):
        return
    for entry in scope:
        name = str(entry) if str(entry) in names else str(entry).partition(".")[0]
        if isinstance(entry, Unknown):
            yield f"its scope depends on {entry.expression}: {LATE}"
        elif isinstance(entry, ResourceId):
            yield f"its scope refers to {entry.name}, so each would wait for the other: write only the name"
        elif name not in names:
            near = closest(name, names)
            yield f"its scope names {entry}, which is not a resource of the stack" + (
                f": did you mean {near}?" if near else ""
            )
        elif name in needed:
            yield f"its scope names {name}, but the grant depends on it: remove one of the two"


def _expiry(expires: Data, now: datetime) -> str:
    """Why the grant has expired; empty if it has not. A date holds through the day before it, in UTC."""
    if isinstance(expires, Unknown):
        return f"its expiry date depends on {expires.expression}: {LATE}"
    try:
        until = read_instant(str(expires))
    except ValueError:
        return f"expires is not a date: {expires}"
    return f"expired {expires}: remove the grant, or set a later date" if now >= until else ""
