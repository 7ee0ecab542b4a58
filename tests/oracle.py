"""An oracle for engines: what parsed rules mean, by brute force.

It is written from docs/language.md, docs/truth.md and docs/builtins.md. It shares the syntax tree and the classes of
values with the package, and nothing else: scopes, alternatives, order, strata, errors, builtins and aggregates are its
own. It is slow, and reads no kinds: programs that are refused when they are loaded have no meaning here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import Literal

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import NO_VALUE, Row, Value
from datalog_gate.language import ast
from tests.oracle_values import (
    BUILTINS,
    MISSING,
    OPERATORS,
    ORDERS,
    Missing,
    NoValueError,
    aggregate,
    interpolated,
    ordered,
)

Known = dict[str, Value]
Rows = dict[str, set[Row]]
Wrong = dict[str, set[tuple[Row, Span]]]
Body = Sequence[ast.Literal]
Trouble = list[Literal[False] | Span]
"""Why a term has no value: places of errors, and False for the least of nothing."""


class TooMuchError(Exception):
    """More assignments than the oracle was to try."""


def evaluate(module: ast.Module, facts: Mapping[str, Collection[Row]], most: float = inf) -> tuple[Rows, Wrong]:
    """The rows by relation, and by relation the rows in error with the place of the first error of each assignment.

    A row in error holds `NO_VALUE` for what has no value. Errors: TooMuchError for more than `most` assignments.
    """
    rules = [statement for statement in module.statements if isinstance(statement, ast.Rule)]
    columns = {
        statement.name: [column.name for column in statement.columns]
        for statement in module.statements
        if isinstance(statement, ast.Declaration)
    }
    names = {rule.head.name for rule in rules} | columns.keys() | facts.keys()
    world = World({name: set(facts.get(name, ())) for name in names}, {name: set() for name in names}, columns, most)
    for level in _levels(rules):
        for with_errors in (False, True):
            before = -1
            while before != (before := world.size()):
                for rule in level:
                    _derive(rule, world, with_errors)
    return world.rows, world.wrong


@dataclass
class World:
    """What holds so far, and how many assignments may still be tried."""

    rows: Rows
    wrong: Wrong
    columns: Mapping[str, list[str]]
    left: float

    def size(self) -> int:
        return sum(map(len, self.rows.values())) + sum(map(len, self.wrong.values()))

    def terms(self, atom: ast.Atom) -> list[ast.Term]:
        """The arguments of an atom of a relation, one for each column."""
        columns = self.columns.get(atom.name, [])
        terms = list(atom.arguments) + [ast.Wildcard()] * (len(columns) - len(atom.arguments))
        for named in atom.named:
            terms[columns.index(named.column)] = named.term
        return terms


def _levels(rules: list[ast.Rule]) -> Iterator[list[ast.Rule]]:
    """Rules after all that they negate or aggregate over, in the rounds in which that is complete."""
    level = {rule.head.name: 0 for rule in rules}
    changed = True
    while changed:
        changed = False
        for rule in rules:
            for name, strictly in _reads((*rule.head.arguments, *rule.body)):
                least = level.get(name, 0) + strictly
                if level[rule.head.name] < least:
                    level[rule.head.name], changed = least, True
    for number in range(max(level.values(), default=-1) + 1):
        yield [rule for rule in rules if level[rule.head.name] == number]


def _derive(rule: ast.Rule, world: World, with_errors: bool) -> None:
    rows, wrong = world.rows[rule.head.name], world.wrong[rule.head.name]
    for row, place in _tuples(rule.head.arguments, rule.body, {}, frozenset(), world):
        if place is None:
            rows.add(row)
        elif with_errors and row not in rows:
            wrong.add((row, place))


def _tuples(
    terms: Sequence[ast.Term], body: Body, known: Known, scope: frozenset[str], world: World
) -> list[tuple[Row, Span | None]]:
    """The values of the terms in each assignment of the body, `NO_VALUE` where there is none, with the place of its
    error."""
    results = [ast.Variable(f"result {at}") for at in range(len(terms))]
    equations = [ast.Comparison("=", *sides) for sides in zip(results, terms, strict=True)]
    assignments = _assignments([*body, *equations], known, scope, world)
    return [(tuple(values.get(result.name, NO_VALUE) for result in results), place) for values, place in assignments]


def _assignments(body: Body, known: Known, scope: frozenset[str], world: World) -> list[tuple[Known, Span | None]]:
    """The assignments that make the body true or an error. `scope` are the names of the bodies around it."""
    scope |= _own_names(body)
    results = []
    for literals in _alternatives(body):
        matches = []
        rest = []
        for literal in literals:
            if isinstance(literal, ast.Atom) and literal.name in world.rows:
                terms, equations = _flat(literal, world)
                matches.append((literal.name, terms))
                rest += equations
            else:
                rest.append(literal)
        matchable = {*known, *_deep_names(term for _, terms in matches for term in terms)}
        for values, places in _matched(matches, known, (), world):
            outcome = _settled(rest, values, places, matchable, scope, world)
            if outcome:
                results.append(outcome)
    return results


def _alternatives(body: Body) -> Iterator[tuple[ast.Literal, ...]]:
    """The conjunctions that a body means: `or`, `in`, `true` and `false` are written out."""
    choices: list[list[tuple[ast.Literal, ...]]] = []
    for literal in body:
        match literal:
            case ast.Truth():
                choices.append([()] * literal.truth)
            case ast.Membership():
                choices.append(
                    [(ast.Comparison("=", literal.term, item, span=literal.span),) for item in literal.items]
                )
            case ast.Disjunction():
                choices.append([conjunction for branch in literal.branches for conjunction in _alternatives(branch)])
            case _:
                choices.append([(literal,)])
    for chosen in product(*choices):
        yield tuple(literal for conjunction in chosen for literal in conjunction)


def _flat(atom: ast.Atom, world: World) -> tuple[list[ast.Term], list[ast.Literal]]:
    """The terms of an atom with a variable for each that is computed, and equations that compute these."""
    terms = world.terms(atom)
    equations: list[ast.Literal] = []
    for at, term in enumerate(terms):
        if isinstance(term, ast.BinaryOperation | ast.Aggregate | ast.Function | ast.Interpolation):
            terms[at] = ast.Variable(f"argument {at} at {atom.span}")
            equations.append(ast.Comparison("=", terms[at], term))
    return terms, equations


def _matched(
    matches: Sequence[tuple[str, list[ast.Term]]], known: Known, places: tuple[Span, ...], world: World
) -> Iterator[tuple[Known, tuple[Span, ...]]]:
    """Each choice of a row for every atom, with what it binds and the places of rows in error."""
    if not matches:
        world.left -= 1
        if world.left < 0:
            raise TooMuchError
        yield known, places
        return
    (name, terms), *others = matches
    for row in world.rows[name]:
        values = _fitted(terms, row, known)
        if values is not None:
            yield from _matched(others, values, places, world)
    for row, place in world.wrong[name]:
        values = _fitted(terms, row, known)
        if values is not None:
            yield from _matched(others, values, (*places, place), world)


def _fitted(terms: list[ast.Term], row: Row, known: Known) -> Known | None:
    """What is known where a row fits; None if it does not. `NO_VALUE` stands for any."""
    values = dict(known)
    for term, value in zip(terms, row, strict=True):
        if isinstance(term, ast.Wildcard) or value == NO_VALUE:
            continue
        if isinstance(term, ast.Constant):
            if term.value != value:
                return None
            continue
        assert isinstance(term, ast.Variable)
        if term.name in values and (value is None or values[term.name] != value):
            return None
        values[term.name] = value
    return values


def _settled(
    literals: Sequence[ast.Literal],
    known: Known,
    places: Sequence[Span],
    matchable: Collection[str],
    scope: frozenset[str],
    world: World,
) -> tuple[Known, Span | None] | None:
    """The values of all variables, and the first error if there is any; None if a literal is false."""
    tests = {id(literal) for literal in literals if _only_tests(literal, literals, matchable, scope)}
    pending = list(literals)
    values = dict(known)
    before = -1
    while before != (before := len(pending)):
        for literal in list(pending):
            truth = _truth(literal, values, scope, world, [], id(literal) in tests)
            if truth is False:
                return None
            if truth:
                pending = [other for other in pending if other is not literal]
    trouble: Trouble = list(places)
    for literal in pending:
        _truth(literal, values, scope, world, trouble, id(literal) in tests)
    if False in trouble:
        return None
    errors = [place for place in trouble if isinstance(place, Span)]
    assert errors or not pending
    return values, min(errors, default=None)


def _only_tests(
    literal: ast.Literal, literals: Sequence[ast.Literal], matchable: Collection[str], scope: frozenset[str]
) -> bool:
    """Whether it is ``x = null`` where something else can bind x."""
    if not isinstance(literal, ast.Comparison) or not _is_null_test(literal):
        return False
    bound = set(matchable)
    before = -1
    while before != (before := len(bound)):
        for other in literals:
            match other:
                case ast.Comparison("=", left, right) if other is not literal:
                    for side, opposite in ((left, right), (right, left)):
                        if isinstance(side, ast.Variable) and _needs(opposite, scope) <= bound:
                            bound.add(side.name)
                case ast.Atom():
                    inputs, outputs = _arguments(other)
                    if all(_needs(term, scope) <= bound for term in inputs):
                        bound |= {term.name for term in outputs if isinstance(term, ast.Variable)}
                case _:
                    pass
    return all(side.name in bound for side in (literal.left, literal.right) if isinstance(side, ast.Variable))


def _is_null_test(comparison: ast.Comparison) -> bool:
    sides = (comparison.left, comparison.right)
    return any(isinstance(side, ast.Constant) and side.value is None for side in sides)


def _truth(
    literal: ast.Literal, known: Known, scope: frozenset[str], world: World, trouble: Trouble, only_tests: bool
) -> bool | None:
    """True or false, or None for an error and where a value is missing. Binds what the literal gives."""

    def value(term: ast.Term) -> Value | Missing:
        return _value(term, known, scope, world, trouble)

    match literal:
        case ast.Comparison("=", left, right):
            sides = value(left), value(right)
            for term, own, other in ((left, sides[0], sides[1]), (right, sides[1], sides[0])):
                if own is MISSING and not isinstance(other, Missing) and isinstance(term, ast.Variable):
                    if only_tests:
                        return None
                    known[term.name] = other
                    return True
            if MISSING in sides:
                return False if False in trouble else None
            return sides[0] == sides[1] and (sides[0] is not None or _is_null_test(literal))
        case ast.Comparison(comparator, left, right):
            low, high = value(left), value(right)
            if isinstance(low, Missing) or isinstance(high, Missing):
                return False if False in trouble else None
            if comparator == "!=":
                return low != high or (low is None and not _is_null_test(literal))
            try:
                return ORDERS[comparator](*ordered(low, high))
            except NoValueError:
                trouble.append(literal.span)
                return None
        case ast.Atom():
            return _call(literal, known, scope, world, trouble)
        case ast.Negation(body):
            if not _deep_names(body) & scope <= known.keys():
                return None
            inside = {name: known[name] for name in known.keys() & _deep_names(body) & scope}
            inner = [place for _, place in _assignments(body, inside, scope, world)]
            if None in inner or not inner:
                return not inner
            trouble.append(min(place for place in inner if place))
            return None
    raise AssertionError(literal)


def _arguments(atom: ast.Atom) -> tuple[tuple[ast.Term, ...], tuple[ast.Term, ...]]:
    """The inputs and the outputs of a builtin."""
    count, _ = BUILTINS[atom.name.removeprefix("builtin:")]
    count = len(atom.arguments) - 1 if atom.name == "capture" else count
    return atom.arguments[:count], atom.arguments[count:]


def _call(atom: ast.Atom, known: Known, scope: frozenset[str], world: World, trouble: Trouble) -> bool | None:
    inputs, outputs = _arguments(atom)
    values = [_value(term, known, scope, world, trouble) for term in inputs]
    targets = [
        term if isinstance(term, ast.Wildcard) else _value(term, known, scope, world, trouble) for term in outputs
    ]
    if MISSING in values:
        return False if False in trouble else None
    try:
        result = BUILTINS[atom.name.removeprefix("builtin:")][1](*values)
    except NoValueError:
        trouble.append(atom.span)
        return None
    if isinstance(result, Missing):
        return False
    if isinstance(result, bool):
        return result
    truths: list[bool | None] = []
    for term, target, given in zip(outputs, targets, result, strict=True):
        if isinstance(term, ast.Variable) and target is MISSING:
            known[term.name] = given
            truths.append(True)
        elif isinstance(term, ast.Wildcard):
            truths.append(True)
        else:
            truths.append(None if target is MISSING else target == given)
    return False if False in (*truths, *trouble) else None if None in truths else True


def _value(term: ast.Term, known: Known, scope: frozenset[str], world: World, trouble: Trouble) -> Value | Missing:
    """The value of a term. What it lacks one for, but a variable, is added to `trouble`."""

    def computed(
        function: Callable[..., bool | tuple[Value, ...] | Missing], arguments: Iterable[ast.Term]
    ) -> Value | Missing:
        values = [_value(argument, known, scope, world, trouble) for argument in arguments]
        if MISSING in values:
            return MISSING
        try:
            result = function(*values)
        except NoValueError:
            trouble.append(term.span)
            return MISSING
        if isinstance(result, Missing):
            trouble.append(False)
            return result
        assert isinstance(result, tuple)
        return result[0]

    match term:
        case ast.Constant(value):
            return value
        case ast.Variable(name):
            return known.get(name, MISSING)
        case ast.BinaryOperation(operator, left, right):
            return computed(lambda *sides: (OPERATORS[operator](*sides),), (left, right))
        case ast.Function(name, arguments):
            return computed(BUILTINS[name.removeprefix("builtin:")][1], arguments)
        case ast.Interpolation(parts):
            return computed(interpolated, (ast.Constant(part) if isinstance(part, str) else part for part in parts))
        case ast.Aggregate(function, terms, body):
            names = _deep_names((term,)) & scope
            if not names <= known.keys():
                return MISSING
            tuples = _tuples(terms, body, {name: known[name] for name in names}, scope, world)
            certain = {row for row, place in tuples if place is None}
            places = [place for row, place in tuples if place and row not in certain]
            try:
                result = aggregate(function, {row for row in certain if row[0] is not None})
            except NoValueError:
                places = places or [term.span]
            if places:
                trouble.append(min(places))
                return MISSING
            if result is MISSING:
                trouble.append(False)
            return result
    raise AssertionError(term)


# names


def _children(node: ast.Literal | ast.Term) -> tuple[ast.Literal | ast.Term, ...]:
    match node:
        case ast.Atom():
            return (*node.arguments, *(named.term for named in node.named))
        case ast.Comparison() | ast.BinaryOperation():
            return (node.left, node.right)
        case ast.Membership():
            return (node.term, *node.items)
        case ast.Function():
            return node.arguments
        case ast.Interpolation():
            return tuple(part for part in node.parts if isinstance(part, ast.Variable))
        case ast.Negation():
            return node.body
        case ast.Disjunction():
            return tuple(literal for branch in node.branches for literal in branch)
        case ast.Aggregate():
            return (*node.terms, *node.body)
        case _:
            return ()


def _deep_names(nodes: Iterable[ast.Literal | ast.Term]) -> frozenset[str]:
    """The variables of these nodes, and of all sets and negations in them."""
    names = frozenset[str]()
    for node in nodes:
        names |= {node.name} if isinstance(node, ast.Variable) else _deep_names(_children(node))
    return names


def _own_names(nodes: Iterable[ast.Literal | ast.Term]) -> frozenset[str]:
    """The variables that are written outside of sets and negations."""
    names = frozenset[str]()
    for node in nodes:
        if isinstance(node, ast.Variable):
            names |= {node.name}
        elif not isinstance(node, ast.Negation | ast.Aggregate):
            names |= _own_names(_children(node))
    return names


def _needs(term: ast.Term, scope: frozenset[str]) -> frozenset[str]:
    """The variables without which a term has no value."""
    match term:
        case ast.BinaryOperation(_, left, right):
            return _needs(left, scope) | _needs(right, scope)
        case ast.Function(_, arguments):
            return frozenset[str]().union(*(_needs(argument, scope) for argument in arguments))
    return _deep_names((term,)) & scope if isinstance(term, ast.Aggregate) else _deep_names((term,))


def _reads(nodes: Iterable[ast.Literal | ast.Term], strictly: bool = False) -> Iterator[tuple[str, bool]]:
    """The relations that are read, and whether under `not` or in a set."""
    for node in nodes:
        if isinstance(node, ast.Atom):
            yield node.name, strictly
        yield from _reads(_children(node), strictly or isinstance(node, ast.Negation | ast.Aggregate))
