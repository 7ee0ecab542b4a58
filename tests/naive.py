"""An oracle for engines: evaluate a checked program by brute force.

There is no index, plan or order. It tries every choice of rows for the matches of a body that agrees on its variables.
It shares nothing with the engines but what builtins compute.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import inf

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lower import variables
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import Row, Value
from datalog_gate.engine.builtins import EvaluationError, aggregate, compare, compute, holds
from datalog_gate.schema.declaration import RelationRef

Cause = tuple[Span, str]
Known = dict[ir.Var, Value]
Rows = dict[RelationRef, set[Row]]
Wrong = dict[RelationRef, set[tuple[Row, Cause]]]
Body = tuple[ir.CheckedLiteral, ...]
Chosen = tuple[Row, Cause | None]
Choice = tuple[Chosen, ...]


class TooMuchError(Exception):
    """More assignments than the oracle was to try."""


@dataclass
class World:
    """The rows and the rows in error so far, and how many assignments may still be tried."""

    rows: Rows
    wrong: Wrong
    left: float


def evaluate(
    program: ir.CheckedProgram, facts: Mapping[RelationRef, Collection[Row]], most: float = inf
) -> tuple[Rows, Wrong]:
    """All rows by relation, and by relation the rows in error with their causes.

    Errors: TooMuchError for more than `most` assignments.
    """
    rows: Rows = {name: set(facts.get(name, ())) if name in program.inputs else set() for name in program.relations}
    wrong: Wrong = {name: set() for name in program.relations}
    world = World(rows, wrong, most)
    for stratum in program.strata:
        for collect_errors in (False, True):
            before = -1
            while before != (before := sum(map(len, rows.values())) + sum(map(len, wrong.values()))):
                for rule in stratum.rules:
                    outside = {argument for argument in rule.arguments if isinstance(argument, ir.Var)}
                    for known, cause in list(_assignments(rule.body, {}, outside, world)):
                        row = tuple(
                            argument.value if isinstance(argument, ir.Const) else known.get(argument)
                            for argument in rule.arguments
                        )
                        if cause is None:
                            rows[rule.relation].add(row)
                        elif collect_errors and (None in row or row not in rows[rule.relation]):
                            wrong[rule.relation].add((row, cause))
    return rows, wrong


def replayed(rule: ir.CheckedRule, chosen: Sequence[Row], rows: Rows, wrong: Wrong) -> list[tuple[Row, Known]]:
    """The head's row and the values of all variables if the matches of the rule, in their order, match these rows; none
    if another literal does not hold then."""
    outside = {argument for argument in rule.arguments if isinstance(argument, ir.Var)}
    assignments = _assignments(rule.body, {}, outside, World(rows, wrong, inf), [[(row, None)] for row in chosen])
    return [
        (
            tuple(argument.value if isinstance(argument, ir.Const) else known[argument] for argument in rule.arguments),
            known,
        )
        for known, cause in assignments
        if cause is None
    ]


def _assignments(
    body: Body,
    bound: Known,
    outside: set[ir.Var],
    world: World,
    choices: Sequence[Sequence[tuple[Row, Cause | None]]] | None = None,
) -> Iterator[tuple[Known, Cause | None]]:
    matches = [literal for literal in body if isinstance(literal, ir.Match)]
    rest = [literal for literal in body if not isinstance(literal, ir.Match)]
    if choices is None:
        choices = [
            [*((row, None) for row in world.rows[match.relation]), *world.wrong[match.relation]] for match in matches
        ]
    for choice in _fitting(matches, choices, bound, ()):
        known = _unified(matches, choice, bound)
        assert known is not None
        world.left -= 1
        if world.left < 0:
            raise TooMuchError
        verdicts: dict[int, bool | Cause] = {}
        for _ in rest:
            for at, literal in enumerate(rest):
                others = outside.union(*(variables(other) for other in body if other is not literal))
                if at not in verdicts:
                    verdict = _verdict(literal, body, others, known, bound, world)
                    if verdict is not None:
                        verdicts[at] = verdict
        if False not in verdicts.values():
            causes = [verdict for verdict in verdicts.values() if isinstance(verdict, tuple)]
            causes += [cause for _, cause in choice if cause]
            assert causes or len(verdicts) == len(rest)
            yield known, min(causes, default=None)


def _fitting(
    matches: list[ir.Match], choices: Sequence[Sequence[Chosen]], bound: Known, chosen: Choice
) -> Iterator[Choice]:
    """Each choice of a row for every match that unifies; where the first rows do not, no more are tried with them."""
    if _unified(matches, chosen, bound) is None:
        return
    if len(chosen) == len(matches):
        yield chosen
        return
    for choice in choices[len(chosen)]:
        yield from _fitting(matches, choices, bound, (*chosen, choice))


def _unified(matches: list[ir.Match], choice: Choice, bound: Known) -> Known | None:
    occurrences: dict[ir.Var, list[Value]] = {var: [value] for var, value in bound.items()}
    for match, (row, cause) in zip(matches, choice, strict=False):
        for argument, value in zip(match.arguments, row, strict=True):
            if argument is None or (cause and value is None):
                continue
            if isinstance(argument, ir.Var):
                occurrences.setdefault(argument, []).append(value)
            elif argument.value != value:
                return None
    for values in occurrences.values():
        if len(values) > 1 and (None in values or any(value != values[0] for value in values)):
            return None
    return {var: values[0] for var, values in occurrences.items()}


def _verdict(
    literal: ir.CheckedLiteral, body: Body, others: set[ir.Var], known: Known, bound: Known, world: World
) -> bool | Cause | None:
    """True, false, an error, or None if a value is missing; binds what the literal gives."""

    def missing(operand: ir.Operand) -> bool:
        return isinstance(operand, ir.Var) and operand not in known

    def value(operand: ir.Operand) -> Value:
        return operand.value if isinstance(operand, ir.Const) else known[operand]

    def give(output: ir.Operand | None, result: Value) -> bool:
        if isinstance(output, ir.Var) and output not in known:
            known[output] = result
            return True
        return output is None or (result == value(output) and (result is not None or isinstance(output, ir.Const)))

    try:
        match literal:
            case ir.Compare("=", left, right):
                null = ir.Const(None) in (left, right)
                unbound = [term for term in (left, right) if isinstance(term, ir.Var) and term not in known]
                if len(unbound) == 2 or (unbound and unbound[0] in _bindable(body, literal, bound)):
                    return None
                if unbound:
                    return give(unbound[0], value(right if unbound[0] == left else left))
                return compare("=", value(left), value(right), literal.when_unknown, null)
            case ir.Compare(comparator, left, right):
                if missing(left) or missing(right):
                    return None
                null = ir.Const(None) in (left, right)
                return compare(comparator, value(left), value(right), literal.when_unknown, null)
            case ir.Call(name, inputs, outputs):
                if any(map(missing, inputs)):
                    return None
                if not outputs:
                    return holds(name, [value(term) for term in inputs], literal.when_unknown)
                return give(outputs[0], compute(name, [value(term) for term in inputs]))
            case ir.Without() | ir.Fold():
                target = {literal.target} if isinstance(literal, ir.Fold) else set()
                needs = others & set(variables(literal)) - target
                if not needs <= known.keys():
                    return None
                terms = literal.terms if isinstance(literal, ir.Fold) else ()
                outside = needs | {term for term in terms if isinstance(term, ir.Var)}
                inner = list(_assignments(literal.body, {var: known[var] for var in needs}, outside, world))
                causes = [cause for _, cause in inner if cause]
                if isinstance(literal, ir.Without):
                    return not inner if not causes else None not in [c for _, c in inner] and min(causes)
                if causes:
                    return min(causes)
                tuples = [
                    tuple(term.value if isinstance(term, ir.Const) else values[term] for term in terms)
                    for values, _ in inner
                ]
                result = _folded(literal.function, {row for row in tuples if row[0] is not None})
                return result is not None and give(literal.target, result)
    except EvaluationError as error:
        return literal.span, str(error)
    raise AssertionError(literal)


def _folded(function: str, tuples: set[Row]) -> Value:
    """Count and sum of numbers are computed here, the rest by the engines' function."""
    numbers = [Decimal(row[0]) for row in tuples if isinstance(row[0], int)]
    match function:
        case "count":
            return len(tuples)
        case "sum" if len(numbers) == len(tuples):
            return int(sum(numbers))
        case "sum" | "min" | "max" | "avg" | "list" | "tuples":
            return aggregate(function, tuples)
    raise AssertionError(function)


def _bindable(body: Body, equation: ir.Compare, bound: Known) -> set[ir.Var]:
    """The variables that the equation must not bind: for ``x = null`` those that anything else binds, for an equation
    that holds of unknowns those that anything binds but another such equation, or literal with null."""
    null = ir.Const(None) in (equation.left, equation.right)
    if not null and not equation.when_unknown:
        return set()
    bindable = set(bound)
    equated: set[ir.Var] = set()
    for _ in body:
        for literal in body:
            reached = bindable | equated
            outside = {var for other in body if other is not literal for var in variables(other)} | bound.keys()
            match literal:
                case ir.Compare("=", left, right) if literal is not equation:
                    if any(isinstance(side, ir.Const) or side in reached for side in (left, right)):
                        equated |= set(variables(literal))
                        loose = literal.when_unknown or ir.Const(None) in (left, right)
                        bindable |= set() if loose else set(variables(literal))
                case ir.Match():
                    bindable |= set(variables(literal))
                case ir.Call() if {side for side in literal.inputs if isinstance(side, ir.Var)} <= reached:
                    bindable |= {output for output in literal.outputs if isinstance(output, ir.Var)}
                case ir.Fold() if set(variables(literal)) & outside - {literal.target} <= reached:
                    bindable.add(literal.target)
                case _:
                    pass
    return bindable | equated if null else bindable
