"""Safety: every variable is bound before it is needed.

A least fixpoint over a body's literals, so their order in the text makes no difference. Engines use the needs too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.program import variables
from datalog_gate.analysis.strata import close
from datalog_gate.base.diagnostics import Diagnostic, Slips, Span, suggest_name
from datalog_gate.base.records import dataclass, replace

if TYPE_CHECKING:
    from datalog_gate.analysis.lower import Conjunction, Spans


def order(rule: ir.CheckedRule, spans: Spans, diagnostics: list[Diagnostic]) -> ir.CheckedRule | None:
    """Order the body of a rule; None, with diagnostics, if nothing binds some variable."""
    head = {argument for argument in rule.arguments if isinstance(argument, ir.Var)}
    body, unbound = _order(scope(rule), set(), head)
    if unbound:
        slips = Slips(var.name for var in spans)
        folds = [literal for literal in rule.body if isinstance(literal, ir.Fold)]
        groups = {var for fold in folds for var in variables(fold) if var in unbound} - {fold.target for fold in folds}
        for var in groups or _named(unbound) or unbound:  # the result of an aggregate is missing because its groups are
            diagnostics.append(_report(var, spans.get(var, rule.span), body, slips, var in groups))
        return None
    return ir.CheckedRule(rule.relation, rule.arguments, body, rule.span)


@dataclass(frozen=True, slots=True)
class ScopedLiteral:
    """A literal of a body, the variables that must have a value before it, those that have one after it, and the
    literals of its own body."""

    literal: ir.CheckedLiteral
    needs: frozenset[ir.Var]
    binds: frozenset[ir.Var]
    body: Scoped = ()

    def ready(self, bound: Container[ir.Var]) -> bool:
        """Whether the literal can run. An equation needs at least one side."""
        if self.needs and not all(map(bound.__contains__, self.needs)):
            return False
        if isinstance(self.literal, ir.Compare):
            return any(isinstance(term, ir.Const) or term in bound for term in (self.literal.left, self.literal.right))
        return True


Scoped = tuple[ScopedLiteral, ...]
_NEEDS_NOTHING: tuple[frozenset[ir.Var], Scoped] = frozenset(), ()


def scope(rule: ir.CheckedRule) -> Scoped:
    """The literals of a rule's body with what they need, computed once: the rule keeps them."""
    scoped = rule.scoped
    if scoped is None:
        scoped = _scope(rule.body, rule.arguments)
        object.__setattr__(rule, "scoped", scoped)
    return scoped


def _scope(
    body: Sequence[ir.CheckedLiteral], outside: Iterable[ir.Operand], given: frozenset[ir.Var] = frozenset()
) -> Scoped:
    """What the literals of a body need. `outside` are the operands around it, `given` the variables among them that
    have a value: those that the literal of an inner body needs.

    If another literal can bind x, ``x = null`` is a test and needs x. So is an equation that unknowns satisfy: a lookup
    by the other side's value would miss rows with an unknown x.
    """
    around = frozenset(outside)
    has_inner = any(isinstance(literal, ir.Nesting) for literal in body)
    occurrences = Counter(var for literal in body for var in set(variables(literal))) if has_inner else {}
    by_binding = []
    for literal in body:
        needs, inner = _NEEDS_NOTHING
        if isinstance(literal, ir.Call):
            needs = frozenset(term for term in literal.inputs if isinstance(term, ir.Var))
        elif isinstance(literal, ir.Nesting):
            shared = (var for var in variables(literal) if var in around or occurrences[var] > 1)
            needs = frozenset(shared) - binds(literal)
            inner = _scope(literal.body, (*needs, *_terms(literal)), needs)
        elif isinstance(literal, ir.Compare) and literal.comparator != "=":
            needs = frozenset(variables(literal))
        by_binding.append(ScopedLiteral(literal, needs, frozenset(binds(literal)), inner))
    equations = [literal for literal in body if isinstance(literal, ir.Compare) and literal.comparator == "="]
    tests = [literal for literal in equations if literal.when_unknown or literal.null_test]
    if not tests:
        return tuple(by_binding)
    matched = given.union(var for literal in body if isinstance(literal, ir.Match) for var in variables(literal))
    result = []
    for scoped in by_binding:
        if any(scoped.literal is test for test in tests):
            own = frozenset(variables(scoped.literal))
            if not own <= matched:
                own &= _find_bindable(given, [other for other in by_binding if other is not scoped])
            scoped = ScopedLiteral(scoped.literal, own, scoped.binds)
        result.append(scoped)
    return tuple(result)


def _find_bindable(given: frozenset[ir.Var], body: Sequence[ScopedLiteral]) -> frozenset[ir.Var]:
    return close(given, body, lambda literal, bound: literal.binds if literal.ready(bound) else ())


def _terms(literal: ir.Without | ir.Fold) -> tuple[ir.Operand, ...]:
    return literal.terms if isinstance(literal, ir.Fold) else ()


def binds(literal: ir.CheckedLiteral) -> set[ir.Var]:
    """The variables that have a value after the literal."""
    match literal:
        case ir.Match() | ir.Compare(comparator="="):
            return set(variables(literal))
        case ir.Call():
            return {output for output in literal.outputs if isinstance(output, ir.Var)}
        case ir.Fold():
            return {literal.target}
        case ir.Compare() | ir.Without():
            return set()


def _order(body: Iterable[ScopedLiteral], bound: set[ir.Var], wanted: set[ir.Var]) -> tuple[Conjunction, set[ir.Var]]:
    """The literals in a safe order, and the variables, including `wanted` ones, that stay unbound."""
    ordered: list[ir.CheckedLiteral] = []
    pending = list(body)
    bound, unbound = set(bound), set[ir.Var]()
    while pending and not unbound:
        at = next((at for at, candidate in enumerate(pending) if candidate.ready(bound)), None)
        if at is None:
            needed = {var for scoped in pending for var in (scoped.needs or variables(scoped.literal))} - bound
            unbound = _named(needed) or needed
            break
        ready = pending.pop(at)
        literal = ready.literal
        if isinstance(literal, ir.Nesting):
            own = {term for term in _terms(literal) if isinstance(term, ir.Var)}
            inside, unbound = _order(ready.body, set(ready.needs), own)
            if inside != literal.body:
                literal = replace(literal, body=inside)
        ordered.append(literal)
        bound |= ready.binds
    return tuple(ordered), unbound | (wanted - bound)


def _named(unbound: Iterable[ir.Var]) -> set[ir.Var]:
    return {var for var in unbound if var.name}


def _report(var: ir.Var, span: Span, ordered: Conjunction, slips: Slips, is_group: bool) -> Diagnostic:
    name = var.name or "the result"
    steps, bound = [], set[ir.Var]()
    for literal in ordered:
        if new := sorted({bind.name for bind in binds(literal) - bound} - {""}):
            label = literal.relation if isinstance(literal, ir.Match) else "the condition"
            steps.append(f"{label} ({literal.span}) binds {', '.join(new)}")
        bound |= binds(literal)
    near = next(iter(slips.of(name)), None)
    quotes = f'use {name} in a relation that is not negated, or write "{name}" if it is a text'
    if is_group:
        quotes = f"an aggregate does not bind the variables that group it: also use {name} in a relation beside it"
    message = f"nothing binds {name}" + (f"; {', then '.join(steps)}" if steps else "")
    suggestion = suggest_name(None if is_group else near, quotes)
    return Diagnostic("unsafe-variable", message, span, suggestion)
