"""Conditions on values while a rule is unfolded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from datalog_gate.analysis.program import NULL, Call, Compare, Const, Operand, Pattern, Var
from datalog_gate.base.values import Value
from datalog_gate.engine import builtins

Bindings = Mapping[Var, Operand]
Term = TypeVar("Term", Operand, Pattern)


class Condition(NamedTuple):
    """A test that must hold, or must not."""

    literal: Compare | Call
    holds: bool = True

    def decide(self, bindings: Bindings) -> bool | None:
        """Whether the condition is met; None if it depends on a free variable. An error is never met."""
        literal = self.literal
        try:
            if isinstance(literal, Compare):
                answer = _decide_comparison(literal, bindings)
            else:
                answer = _decide_call(literal, bindings)
        except builtins.EvaluationError:
            return False
        return None if answer is None else answer == self.holds

    def variables(self, bindings: Bindings) -> Iterator[Var]:
        literal = self.literal
        sides = (literal.left, literal.right) if isinstance(literal, Compare) else (*literal.inputs, *literal.outputs)
        for side in sides:
            term = resolve(side, bindings)
            if isinstance(term, Var):
                yield term


def resolve(term: Term, bindings: Bindings) -> Term:
    """The value or the last variable that a term is bound to."""
    while isinstance(term, Var) and term in bindings:
        term = bindings[term]
    return term


def unify(left: Operand, right: Operand, bindings: Bindings) -> Bindings | None:
    """The bindings under which both are the same; None if there are none."""
    left, right = resolve(left, bindings), resolve(right, bindings)
    if isinstance(left, Var):
        return bindings if left == right else {**bindings, left: right}
    if isinstance(right, Var):
        return {**bindings, right: left}
    return bindings if left == right else None


def propagate(conditions: Iterable[Condition], bindings: Bindings) -> tuple[Bindings, tuple[Condition, ...]] | None:
    """The bindings with the results of calls whose inputs are known, and the conditions that stay open; None if one
    can't be met."""
    waiting, changed = list(conditions), True
    while changed:
        changed, left = False, []
        for condition in waiting:
            answer = condition.decide(bindings)
            if answer is False:
                return None
            if answer is True:
                continue
            result = _compute(condition, bindings)
            if result is None:
                left.append(condition)
            else:
                bindings, changed = {**bindings, **result}, True
        waiting = left
    return bindings, tuple(waiting)


def _compute(condition: Condition, bindings: Bindings) -> Bindings | None:
    """The result of a call by its free output; None if it has none, or an input is free."""
    call = condition.literal
    if not isinstance(call, Call) or not call.outputs or not condition.holds:
        return None
    output, values = resolve(call.outputs[0], bindings), known_inputs(call, bindings)
    if values is None or not isinstance(output, Var):
        return None
    try:
        return {output: Const(builtins.compute(call.builtin, values))}
    except builtins.EvaluationError:
        return None


def known_inputs(call: Call, bindings: Bindings) -> list[Value] | None:
    """The values of the inputs of a call; None if one is free."""
    inputs = [resolve(term, bindings) for term in call.inputs]
    values = [term.value for term in inputs if isinstance(term, Const)]
    return values if len(values) == len(inputs) else None


def _decide_comparison(literal: Compare, bindings: Bindings) -> bool | None:
    left, right = resolve(literal.left, bindings), resolve(literal.right, bindings)
    if left == right and isinstance(left, Var):
        return literal.comparator in ("=", "<=", ">=")
    if isinstance(left, Var) or isinstance(right, Var):
        return None
    null_test = literal.null_test or NULL in (left, right)
    return builtins.compare(literal.comparator, left.value, right.value, False, null_test)


def _decide_call(literal: Call, bindings: Bindings) -> bool | None:
    values = known_inputs(literal, bindings)
    if values is None:
        return None
    if not literal.outputs:
        return builtins.holds(literal.builtin, values, False)
    output = resolve(literal.outputs[0], bindings)
    result = builtins.compute(literal.builtin, values)
    return None if isinstance(output, Var) else output is None or result == output.value
