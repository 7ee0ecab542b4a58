"""Safety (layer 2): what each literal of a body needs, and an order in which every variable is bound before that.

In: a draft. Out: a checked rule, whose order proves it safe, or a diagnostic for each variable that nothing binds.
Binding is a least fixpoint, so the order in which the author wrote the literals changes nothing. The engines, which
order bodies by cost, ask here too what a literal needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from datalog_gate.analysis.lower import Conjunction, Draft, variables
from datalog_gate.analysis.program import Call, CheckedLiteral, CheckedRule, Compare, Const, Fold, Match, Var, Without
from datalog_gate.base.diagnostics import Diagnostic, Slips


def order(draft: Draft, diagnostics: list[Diagnostic]) -> CheckedRule | None:
    """The draft as a checked rule; None, and diagnostics, if a variable of it is bound by nothing."""
    head = {argument for argument in draft.arguments if isinstance(argument, Var)}
    body, unbound = _order(scoped(draft.body, head), set(), head)
    if unbound:
        slips = Slips(var.name for var in draft.spans)
        diagnostics.extend(_report(var, draft, body, slips) for var in _written(unbound) or unbound)
        return None
    return CheckedRule(draft.relation, draft.arguments, body, draft.span)


@dataclass(frozen=True, slots=True)
class Scoped:
    """A literal of a body and the variables that must have a value before it."""

    literal: CheckedLiteral
    needs: frozenset[Var]

    def ready(self, bound: Container[Var]) -> bool:
        """Whether the literal can run; an equation needs one side at least."""
        if not all(need in bound for need in self.needs):
            return False
        if isinstance(self.literal, Compare):
            return any(isinstance(term, Const) or term in bound for term in (self.literal.left, self.literal.right))
        return True


def scoped(
    body: Sequence[CheckedLiteral], outside: Iterable[Var], given: frozenset[Var] = frozenset()
) -> tuple[Scoped, ...]:
    """The literals with what they need. `outside` are the variables that occur around the body, `given` those of them
    that have a value.

    ``x = null`` is a test, and needs x, wherever something else can bind x. So is an equation that holds of unknowns
    where x has a value of its own: a row with an unknown x would not be found by the other side's value.
    """
    around = frozenset(outside)
    occurrences = Counter(var for literal in body for var in set(variables(literal)))
    first = []
    for literal in body:
        needs: frozenset[Var] = frozenset()
        match literal:
            case Compare() if literal.comparator != "=":
                needs = frozenset(variables(literal))
            case Call():
                needs = frozenset(term for term in literal.inputs if isinstance(term, Var))
            case Without() | Fold():
                shared = (var for var in variables(literal) if var in around or occurrences[var] > 1)
                needs = frozenset(shared) - binds(literal)
            case _:
                pass
        first.append(Scoped(literal, needs))
    matched = given.union(var for literal in body if isinstance(literal, Match) for var in variables(literal))
    result = []
    for one in first:
        literal = one.literal
        if isinstance(literal, Compare) and literal.comparator == "=" and (literal.when_unknown or literal.null_test):
            own = frozenset(variables(literal))
            if not own <= matched:
                own &= _bindable([other for other in first if other is not one], given, literal.null_test)
            one = Scoped(literal, own)
        result.append(one)
    return tuple(result)


def inner(literal: Without | Fold, needs: frozenset[Var]) -> tuple[Scoped, ...]:
    """The literal's own body, scoped. What the literal needs has a value there."""
    terms = literal.terms if isinstance(literal, Fold) else ()
    return scoped(literal.body, needs.union(term for term in terms if isinstance(term, Var)), needs)


def binds(literal: CheckedLiteral) -> set[Var]:
    """The variables that have a value after the literal."""
    match literal:
        case Match():
            return set(variables(literal))
        case Compare():
            return set(variables(literal)) if literal.comparator == "=" else set()
        case Call():
            return {output for output in literal.outputs if isinstance(output, Var)}
        case Without():
            return set()
        case Fold():
            return {literal.target}


def _bindable(body: Iterable[Scoped], given: frozenset[Var], by_equations: bool) -> frozenset[Var]:
    """The variables that the literals can bind; without `by_equations` those that something does but an equation with
    null, or one that holds of unknowns."""
    bound, otherwise = given, given
    before = -1
    while before != (before := len(bound)):
        for one in body:
            if one.ready(bound):
                bound |= binds(one.literal)
                loose = isinstance(one.literal, Compare) and (one.literal.when_unknown or one.literal.null_test)
                otherwise |= frozenset() if loose else binds(one.literal)
    return bound if by_equations else otherwise


def _order(body: Iterable[Scoped], bound: set[Var], wanted: set[Var]) -> tuple[Conjunction, set[Var]]:
    """The literals in a safe order, and the variables, those `wanted` in the end among them, that stay unbound."""
    ordered: list[CheckedLiteral] = []
    pending = list(body)
    bound, unbound = set(bound), set[Var]()
    while pending and not unbound:
        one = next((one for one in pending if one.ready(bound)), None)
        if one is None:
            unbound = _blocking(pending, bound)
            break
        pending.remove(one)
        literal = one.literal
        if isinstance(literal, Without | Fold):
            terms = {term for term in literal.terms if isinstance(term, Var)} if isinstance(literal, Fold) else set()
            inside, unbound = _order(inner(literal, one.needs), set(one.needs), terms)
            literal = replace(literal, body=inside)
        ordered.append(literal)
        bound |= binds(literal)
    return tuple(ordered), unbound | (wanted - bound)


def _blocking(pending: Iterable[Scoped], bound: set[Var]) -> set[Var]:
    """The variables to name: those that some literal needs, the author's own if there are any."""
    needed = {var for one in pending for var in (one.needs or variables(one.literal))} - bound
    return _written(needed) or needed


def _written(unbound: Iterable[Var]) -> set[Var]:
    """Those that the author wrote; others have no name, and follow from them."""
    return {var for var in unbound if var.name}


def _report(var: Var, draft: Draft, ordered: Conjunction, slips: Slips) -> Diagnostic:
    """What is not bound, after the steps that the order got to: ``q (a.dl:1:9) binds x``."""
    name = var.name or "the result"
    steps, bound = [], set[Var]()
    for literal in ordered:
        if new := sorted({bind.name for bind in binds(literal) - bound} - {""}):
            steps.append(f"{_what(literal)} ({literal.span}) binds {', '.join(new)}")
        bound |= binds(literal)
    near = next(iter(slips.of(name)), None)
    quotes = f'use {name} in a relation that is not negated, or write "{name}" if it is a text'
    message = f"nothing binds {name}" + (f"; {', then '.join(steps)}" if steps else "")
    suggestion = f"did you mean {near}?" if near else quotes
    return Diagnostic("unsafe-variable", message, draft.spans.get(var, draft.span), suggestion)


def _what(literal: CheckedLiteral) -> str:
    match literal:
        case Match():
            return str(literal.relation)
        case Call():
            return literal.builtin
        case Compare():
            return literal.comparator
        case Fold():
            return literal.function
        case Without():
            return "not"
