"""The check of the grants of a template.

Decides which grants can unlock something, and why not. Grants are the ``DatalogGate::Policy`` resources of a template.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from datalog_gate.base.diagnostics import closest
from datalog_gate.base.values import SECRET, ResourceId, Row, Unknown, Value, row_key, show
from datalog_gate.decision.decision import Grant, read_instant
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.stack_relations import find_required
from datalog_gate.stack.model import Data, Resource, Stack

PROPERTIES = ("service", "scope", "options", "expires")
LATE = "write the value, or use a parameter that is known and not hidden"
MAY_BE_MISSING = "whether the grant is in the template is not known yet"
MAY_LACK_SCOPE = "whether the resources in its scope are in the template is not known yet"
MAY_GET_VALUES = "it depends on parameters, and not all of them have a value yet"


class GrantProblem(NamedTuple):
    """Why a grant is not in effect, and what to change."""

    text: str
    late: bool = False
    """Whether a value of the grant is not known yet."""


def effective(facts: FactSet, stacks: Sequence[Stack], services: Collection[str], now: datetime) -> list[ResourceId]:
    """The grants that certainly exist and have no problem: see `_problems`."""
    return [grant for grant, _, reason, _ in _judge(facts, stacks, services, now) if not reason]


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
    grants = []
    for grant, service, reason, undecided in _judge(facts, stacks, services, now):
        scope = scopes.get(grant)
        unlocks = False
        if not reason:
            unlocks = (service, grant) in derived and any((service, value) in unlocked for value in scope or ())
            undecided = scope == set()
            otherwise = "no rule unlocks it" if scope else "nothing is in its scope"
            reason = "unlocked" if unlocks else MAY_LACK_SCOPE if undecided else otherwise
        grants.append(Grant(grant, show(service), unlocks, reason, undecided))
    return tuple(grants)


def _judge(
    facts: FactSet, stacks: Sequence[Stack], services: Collection[str], now: datetime
) -> list[tuple[ResourceId, Value, str, bool]]:
    """The grants, sorted, each with its service, the reason why it is not in effect (empty if it is), and whether
    it may be once more is known."""
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
        if row in maybe:
            judged.append((grant.id, service, MAY_BE_MISSING, True))
            continue
        problems = _problems(grant, home, service, expires, services, now)
        certain = [problem.text for problem in problems if given or not problem.late]
        undecided = bool(problems) and not certain
        judged.append((grant.id, service, MAY_GET_VALUES if undecided else "; ".join(certain), undecided))
    return judged


def _problems(
    grant: Resource, home: Stack, service: Value, expires: Value, services: Collection[str], now: datetime
) -> list[GrantProblem]:
    """Why a grant is invalid, whatever the rules say. `services` are enabled and allowed for the caller."""
    problems: list[GrantProblem] = []
    if isinstance(service, Unknown):
        problems.append(_late("service", service))
    elif service not in services:
        problems.append(
            GrantProblem(
                f"the service {service} is not enabled here, or not for this caller: use --services {service} on the "
                "command line, or ask the operator to enable it, and to allow it in the policy "
                f"datalog_gate:grant:{service}"
            )
        )
    named = {resource.name: resource for resource in home.resources}
    own = home.template if home.template and home.template.stack == home.id else None
    scope = SECRET if grant.hides(("properties", "scope"), True) else grant.properties.get("scope")
    needed = find_required(named, [grant.name]) - {grant.name}
    problems += find_scope_problems(scope, {*named, *(own.resources if own else ())}, needed)
    for name in grant.properties:
        if name not in PROPERTIES:
            near = closest(name, PROPERTIES)
            problems.append(GrantProblem(f"it has no property {name}" + (f": did you mean {near}?" if near else "")))
    if expires is not None and (why := _expiry(expires, now)):
        problems.append(why)
    if grant.written(("external_id",), frozenset()).get("external_id") is not None:
        problems.append(GrantProblem("its external_id names an existing resource: remove it"))
    elif grant.deletion_policy not in (None, "Delete"):
        policy = grant.deletion_policy
        message = f"its deletion_policy is {policy}, which would never release the grant: remove it"
        problems.append(GrantProblem(message))
    return problems


def _late(what: str, value: Unknown) -> GrantProblem:
    return GrantProblem(f"its {what} depends on {value.expression}: {LATE}", late=True)


def find_scope_problems(scope: Data, names: Collection[str], needed: Collection[str]) -> Iterator[GrantProblem]:
    """Find problems of a scope. `names` are the resources of the stack; `needed` are those that the grant requires."""
    if isinstance(scope, Unknown):
        yield _late("scope", scope)
    elif not isinstance(scope, list | None):
        yield GrantProblem("its scope is not a list of names")
    if not isinstance(scope, list):
        return
    for entry in scope:
        name = str(entry) if str(entry) in names else str(entry).partition(".")[0]
        if isinstance(entry, Unknown):
            yield _late("scope", entry)
        elif isinstance(entry, ResourceId):
            message = f"its scope refers to {entry.name}, so each would wait for the other: write only the name"
            yield GrantProblem(message)
        elif name not in names:
            near = closest(name, names)
            message = f"its scope names {entry}, which is not a resource of the stack"
            yield GrantProblem(message + (f": did you mean {near}?" if near else ""))
        elif name in needed:
            yield GrantProblem(f"its scope names {name}, but the grant depends on it: remove one of the two")


def _expiry(expires: Data, now: datetime) -> GrantProblem | None:
    """Why the grant has expired; None if it has not. A date holds through the day before it, in UTC."""
    if isinstance(expires, Unknown):
        return _late("expiry date", expires)
    try:
        until = read_instant(str(expires))
    except ValueError:
        return GrantProblem(f"expires is not a date: {expires}")
    if now < until:
        return None
    return GrantProblem(f"expired {expires}: remove the grant, or set a later date")
