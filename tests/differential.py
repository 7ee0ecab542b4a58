"""Engines against the oracle over many generated programs with facts.

python -m tests.differential COUNT [SEED]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from datalog_gate.analysis.lowering import Draft
from datalog_gate.analysis.program import (
    Call,
    CheckedLiteral,
    CheckedProgram,
    CheckedRule,
    Const,
    Fold,
    Match,
    Pattern,
    Var,
    Without,
)
from datalog_gate.analysis.program import Compare as Comparison
from datalog_gate.analysis.safety import order
from datalog_gate.analysis.strata import stratify
from datalog_gate.diagnostics import Span
from datalog_gate.engine import native
from datalog_gate.engine.model import Model
from datalog_gate.values import Row, Unknown
from tests import naive
from tests.programs import Facts, draw_facts, draw_program

Answer = tuple[dict[str, set[Row]], set[tuple[str, Row, Span, str]]]
Case = tuple[CheckedProgram, Facts]
T = TypeVar("T")


def main(count: int, seed: int) -> int:
    """Compare the engines on that many programs. Prints what they were like; 1 after a difference, which it prints
    made as small as possible."""
    tally: Counter[str] = Counter()
    for number in range(seed, seed + count):
        case = draw_case(number)
        if case is None:
            tally["refused by the analysis"] += 1
        elif different(case):
            case = smallest(case, different)
            print(f"seed {number}: {written(*case)}\n{different(case)}")
            return 1
        else:
            tally.update(set(features(case)))
    for feature, found in tally.most_common():
        print(f"{found:8} {feature}")
    return 0


def answer(model: Model) -> Answer:
    """The rows and errors of a model."""
    errors = {(one.relation, one.row, one.span, one.message) for one in model.errors}
    return {name: set(table.rows) for name, table in model.tables.items()}, errors


def oracle(case: Case) -> Answer:
    """The rows and errors that there should be."""
    rows, wrong = naive.evaluate(*case)
    return rows, {(name, row, *cause) for name, found in wrong.items() for row, cause in found}


def different(case: Case) -> str:
    """What the native engine gives too much and too little."""
    found, expected = answer(native.evaluate(*case)), oracle(case)
    more = [(name, *found[0][name] - rows) for name, rows in expected[0].items() if found[0][name] - rows]
    less = [(name, *rows - found[0][name]) for name, rows in expected[0].items() if rows - found[0][name]]
    errors = found[1] ^ expected[1]
    return f"native has too much {more}, lacks {less}, errors differ in {errors}" if more or less or errors else ""


def draw_case(seed: int) -> Case | None:
    """A program with its facts."""
    choose = Random(seed).randrange
    program = draw_program(choose)
    return (program, draw_facts(choose)) if program else None


def smallest(case: Case, fails: Callable[[Case], object]) -> Case:
    """A case that fails no more if any rule, literal or fact is left out."""
    while smaller := next((one for one in _smaller(case) if fails(one)), None):
        case = smaller
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """The case with one thing left out."""
    program, facts = case
    for at, stratum in enumerate(program.strata):
        for rules in _less(stratum.rules, _shorter):
            if not stratify(rules)[1]:
                strata = (*program.strata[:at], replace(stratum, rules=rules), *program.strata[at + 1 :])
                yield replace(program, strata=strata), facts
    for name, rows in facts.items():
        yield from ((program, {**facts, name: list(less)}) for less in _less(tuple(rows)))


def _shorter(rule: CheckedRule) -> Iterator[CheckedRule]:
    for body in _less(rule.body, _inside):
        ordered = order(Draft(rule.relation, rule.arguments, body, rule.span, {}), [])
        if ordered:
            yield ordered


def _inside(literal: CheckedLiteral) -> Iterator[CheckedLiteral]:
    if isinstance(literal, Without | Fold):
        yield from (replace(literal, body=body) for body in _less(literal.body, _inside) if body)


def _less(items: tuple[T, ...], smaller: Callable[[T], Iterator[T]] = lambda _: iter(())) -> Iterator[tuple[T, ...]]:
    """The items without one of them, or with one made smaller."""
    for at, item in enumerate(items):
        yield from ((*items[:at], *instead, *items[at + 1 :]) for instead in ((), *((one,) for one in smaller(item))))


def features(case: Case) -> Iterator[str]:
    """What of the language the program uses, and whether anything comes of it."""
    program, facts = case
    model = native.evaluate(program, facts)
    yield "programs"
    yield from ("derive something in the last stratum" for one in program.strata[-1].relations if model.rows(one))
    yield from ("errors" for _ in model.errors)
    yield from ("several strata" for _ in program.strata[1:])
    for one in (value for rows in model.tables.values() for row in rows.rows for value in row):
        if one is None or isinstance(one, Unknown):
            yield "nulls in rows" if one is None else "unknowns in rows"
    for stratum in program.strata:
        for rule in stratum.rules:
            yield from _features(rule.body)
            yield f"arity {len(rule.arguments)}"
            yield from ("constants in heads" for one in rule.arguments if isinstance(one, Const))
            own = [one.relation for one in rule.body if isinstance(one, Match) and one.relation in stratum.relations]
            if own:
                yield "recursion"
                some = any(model.rows(one) for one in own)
                yield f"recursion, {'linear' if len(own) == 1 else 'not linear'}{', of some rows' if some else ''}"
                yield from ("recursion, mutual" for one in own if one != rule.relation)


def _features(body: Sequence[CheckedLiteral], within: str = "") -> Iterator[str]:
    for literal in body:
        match literal:
            case Match(_, arguments):
                variables = [one for one in arguments if isinstance(one, Var)]
                yield from ("a variable twice in an atom" for one in variables if variables.count(one) > 1)
            case Without(inner):
                yield f"negation{within}"
                yield from ("negation of several literals" for _ in inner[1:])
                yield from _features(inner, " in negation")
            case Fold(_, _, inner):
                yield f"aggregates{within}"
                yield from _features(inner, " in aggregates")
            case _:
                yield "builtins and comparisons"


def written(program: CheckedProgram, facts: Facts) -> str:
    """The program and its facts much as one would write them, with the place of each literal that has one."""
    rules = [f"{rule.span.line}: {_rule(rule)}" for stratum in program.strata for rule in stratum.rules]
    return "\n".join(["", *rules, *(f"{name}{row}" for name, rows in facts.items() for row in rows)])


def _rule(rule: CheckedRule) -> str:
    return f"{rule.relation}({_terms(rule.arguments)}) :- {_body(rule.body)}."


def _body(body: Sequence[CheckedLiteral]) -> str:
    return ", ".join(map(_literal, body))


def _literal(literal: CheckedLiteral) -> str:
    match literal:
        case Match(relation, arguments):
            return f"{relation}({_terms(arguments)})"
        case Comparison(comparator, left, right):
            return f"{_terms([left])} {comparator} {_terms([right])}{'  # ?' if literal.when_unknown else ''}"
        case Call(builtin, inputs, outputs):
            return f"{_terms(outputs)} = {builtin}({_terms(inputs)})"
        case Without(body):
            return f"not ({_body(body)})"
        case Fold(function, terms, body, target):
            return f"{target.name} = {function}{{ {_terms(terms)} : {_body(body)} }}"


def _terms(terms: Sequence[Pattern]) -> str:
    return ", ".join("_" if one is None else one.name if isinstance(one, Var) else repr(one.value) for one in terms)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
