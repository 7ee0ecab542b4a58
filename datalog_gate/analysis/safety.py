"""Safety (layer 2): an order of a body in which every variable is bound before it is needed.

In: a draft. Out: a checked rule, whose order proves it safe, or a diagnostic for each variable that nothing binds.
Binding is a least fixpoint, so the order in which the author wrote the literals changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from datalog_gate.analysis.lowering import Conjunction, Draft, variables
from datalog_gate.analysis.program import Call, CheckedLiteral, CheckedRule, Compare, Const, Fold, Match, Var, Without
from datalog_gate.diagnostics import Diagnostic, Span


def order(draft: Draft, diagnostics: list[Diagnostic]) -> CheckedRule | None:
    """The draft as a checked rule; None, and diagnostics, if a variable of it is bound by nothing."""
    head = {one for one in draft.arguments if isinstance(one, Var)}
    body, unbound = _order(draft.body, set(), head)
    bound = {var for literal in body for var in binds(literal)}
    unbound |= head - bound
    if unbound:
        diagnostics.extend(_report(var, draft.spans, draft.span) for var in unbound)
        return None
    return CheckedRule(draft.relation, draft.arguments, body, draft.span)


def binds(literal: CheckedLiteral) -> set[Var]:
    """The variables that have a value after the literal."""
    match literal:
        case Match():
            return set(variables(literal))
        case Compare():
            return set(variables(literal)) if literal.comparator == "=" else set()
        case Call():
            return {one for one in literal.outputs if isinstance(one, Var)}
        case Without():
            return set()
        case Fold():
            return {literal.target}


def _order(body: Conjunction, bound: set[Var], outside: set[Var]) -> tuple[Conjunction, set[Var]]:
    """The literals in a safe order, and the variables that stay unbound. `outside` occur around this body."""
    ordered: list[CheckedLiteral] = []
    pending = list(body)
    bound = set(bound)
    while pending:
        around = {id(one): _around(one, [*ordered, *pending], outside) for one in pending}
        ready = next(
            (one for one in pending if not _needs(one, around[id(one)]) - bound and _can_bind(one, bound, pending)),
            None,
        )
        if ready is None:
            return tuple(ordered), _blocking(pending, bound, around)
        pending = [one for one in pending if one is not ready]
        others = around[id(ready)]
        if isinstance(ready, Without | Fold):
            terms = {one for one in ready.terms if isinstance(one, Var)} if isinstance(ready, Fold) else set()
            inner, unbound = _order(ready.body, bound & set(variables(ready)), others | terms)
            unbound |= terms - bound - {var for one in inner for var in binds(one)}
            if unbound:
                return tuple(ordered), unbound
            ready = replace(ready, body=inner)
        ordered.append(ready)
        bound.update(binds(ready))
    return tuple(ordered), set()


def _needs(literal: CheckedLiteral, others: Iterable[Var]) -> set[Var]:
    """The variables that must be bound before the literal; `others` occur elsewhere in the rule."""
    match literal:
        case Match():
            return set()
        case Compare():
            both = {one for one in (literal.left, literal.right) if isinstance(one, Var)}
            return both if literal.comparator != "=" else set()
        case Call():
            return {one for one in literal.inputs if isinstance(one, Var)}
        case Without():
            return set(variables(literal)) & set(others)
        case Fold():
            return (set(variables(literal)) - {literal.target}) & set(others)


def _can_bind(literal: CheckedLiteral, bound: set[Var], pending: list[CheckedLiteral]) -> bool:
    """Whether an equation has a side to take its value from. ``x = null`` is a test wherever something else binds x,
    since a join with a null that it bound would never match."""
    if not isinstance(literal, Compare) or literal.comparator != "=":
        return True
    sides = (literal.left, literal.right)
    if Const(None) in sides:
        free = set(variables(literal)) - bound
        return not any(free & binds(one) for one in pending if one is not literal)
    return any(isinstance(one, Const) or one in bound for one in sides)


def _around(literal: CheckedLiteral, body: list[CheckedLiteral], outside: set[Var]) -> set[Var]:
    """The variables that occur in the rule outside the literal."""
    return outside.union(*(variables(one) for one in body if one is not literal))


def _blocking(pending: list[CheckedLiteral], bound: set[Var], around: Mapping[int, set[Var]]) -> set[Var]:
    """The variables to name: those that some literal needs, the author's own if there are any."""
    needed: set[Var] = set()
    for literal in pending:
        needed |= _needs(literal, around[id(literal)]) - bound
        if not _can_bind(literal, bound, pending):
            needed |= set(variables(literal)) - bound
    return {var for var in needed if not var.name.startswith("#")} or needed


def _report(var: Var, spans: Mapping[Var, Span], rule: Span) -> Diagnostic:
    name = var.name.partition("#")[0] or "the result"
    return Diagnostic(
        "unsafe-variable",
        f"nothing binds {name}",
        spans.get(var, rule),
        f"use {name} in a relation that is not negated",
    )
