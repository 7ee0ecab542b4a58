"""Compare the engines with the oracle over many generated programs.

python -m tests.differential COUNT [SEED]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf
from multiprocessing import get_context
from multiprocessing.connection import Connection
from random import Random
from typing import NamedTuple, TypeVar

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lower import Draft
from datalog_gate.analysis.safety import order
from datalog_gate.analysis.strata import stratify
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import EngineError
from datalog_gate.base.values import Row
from datalog_gate.engine import native
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.least_model import Model
from datalog_gate.schema.declaration import RelationRef
from tests import naive
from tests.programs import Facts, draw_facts, draw_program

Rows = dict[RelationRef, set[Row]]
Answer = tuple[Rows, set[tuple[RelationRef, Row, Span, str]]]
Case = tuple[ir.CheckedProgram, Facts]
T = TypeVar("T")
MOST = 5000
"""How many assignments the oracle tries: more would take it seconds."""
ENDING = Budget(facts=100_000)
"""What native may take: some that shrinking makes would never end."""
SECONDS = 10
"""How long pyDatalog may take for what it does in milliseconds."""


def main(count: int, seed: int) -> int:
    """Compare the engines on a number of programs and print how far. Return 1 after a difference, with its smallest
    case."""
    tally: Counter[str] = Counter()
    with Apart() as apart:
        for number in range(seed, seed + count):
            case = draw_case(number)
            if case is None:
                tally["refused by the analysis"] += 1
                continue
            comparison = compared(case, apart)
            if comparison.difference:
                case = smallest(case, lambda candidate: compared(candidate, apart).difference)
                print(f"seed {number}:\n{written(*case)}\n{compared(case, apart).difference}")
                return 1
            tally[comparison.verdict] += 1
    for verdict, times in tally.most_common():
        print(f"{times:8} {verdict}")
    return 0


class Compared(NamedTuple):
    """The difference between engines and oracle, if any, and how far they were compared."""

    difference: str
    verdict: str = ""


def compared(case: Case, apart: Apart) -> Compared:
    """Run the oracle and the engines."""
    try:
        rows, errors = oracle(case, MOST)
    except naive.TooMuchError:
        return Compared("", "left out: too much for the oracle")
    native_rows, found_errors = answer(native.evaluate(*case, ENDING))
    if native_rows != rows or found_errors != errors:
        return Compared(f"native: {_differing(native_rows, rows)}, errors that only one has: {found_errors ^ errors}")
    second = apart.answer(case)
    if isinstance(second, str):
        refusal = second.startswith("pyDatalog refuses")
        return Compared("" if refusal else second, f"refused by pyDatalog{'' if errors else ', though without errors'}")
    if errors or second != rows:
        return Compared(f"pydatalog: {_differing(second, rows)}, errors it did not meet: {errors}")
    return Compared("", "answered by pyDatalog too")


def _differing(actual: Rows, expected: Rows) -> str:
    more = {name: actual[name] - rows for name, rows in expected.items() if actual[name] - rows}
    less = {name: rows - actual[name] for name, rows in expected.items() if rows - actual[name]}
    return f"too much {more}, too little {less}"


def answer(model: Model) -> Answer:
    """The rows and errors of a model."""
    errors = {(error.relation, error.row, error.span, error.message) for error in model.errors}
    return {name: set(table.rows) for name, table in model.tables.items()}, errors


def oracle(case: Case, most: float = inf) -> Answer:
    """The expected rows and errors. Errors: TooMuchError."""
    rows, wrong = naive.evaluate(*case, most)
    return rows, {(name, row, *cause) for name, causes in wrong.items() for row, cause in causes}


class Apart:
    """pyDatalog in a process that answers questions in turn, and is killed when it hangs."""

    def __enter__(self) -> Apart:
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()

    def answer(self, case: Case) -> Rows | str:
        """The rows, or why there are none."""
        self._pipe.send(case)
        if self._pipe.poll(SECONDS):
            answer: Rows | str = self._pipe.recv()
            return answer
        self._process.kill()
        self.__enter__()
        return "pyDatalog does not come back"


def _serve(pipe: Connection) -> None:
    from datalog_gate.engine.pydatalog_worker import answer as answer_of

    while True:
        program, facts = pipe.recv()
        try:
            pipe.send({name: set(rows) for name, rows in answer_of(program, facts).items()})
        except EngineError as error:
            pipe.send(str(error))


def draw_case(seed: int) -> Case | None:
    """Draw a program with its facts."""
    choose = Random(seed).randrange
    program = draw_program(choose)
    return (program, draw_facts(choose)) if program else None


def smallest(case: Case, fails: Callable[[Case], object]) -> Case:
    """Reduce a failing case until no rule, literal or fact can be left out."""
    while smaller := next((candidate for candidate in _smaller(case) if fails(candidate)), None):
        case = smaller
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Yield the case with one thing left out."""
    program, facts = case
    for at, stratum in enumerate(program.strata):
        for rules in _less(stratum.rules, _shorter):
            if not stratify(rules)[1]:
                strata = (*program.strata[:at], replace(stratum, rules=rules), *program.strata[at + 1 :])
                yield replace(program, strata=strata), facts
    for name, rows in facts.items():
        yield from ((program, {**facts, name: list(less)}) for less in _less(tuple(rows)))


def _shorter(rule: ir.CheckedRule) -> Iterator[ir.CheckedRule]:
    for body in _less(rule.body, _inside):
        ordered = order(Draft(rule.relation, rule.arguments, body, rule.span, {}), [])
        if ordered:
            yield ordered


def _inside(literal: ir.CheckedLiteral) -> Iterator[ir.CheckedLiteral]:
    if isinstance(literal, ir.Without | ir.Fold):
        yield from (replace(literal, body=body) for body in _less(literal.body, _inside) if body)


def _less(items: tuple[T, ...], smaller: Callable[[T], Iterator[T]] = lambda _: iter(())) -> Iterator[tuple[T, ...]]:
    """Yield the items with one left out or made smaller."""
    for at, item in enumerate(items):
        yield from (
            (*items[:at], *instead, *items[at + 1 :])
            for instead in ((), *((smaller_item,) for smaller_item in smaller(item)))
        )


def written(program: ir.CheckedProgram, facts: Facts) -> str:
    """Write the program and its facts as text, with the place of each literal."""
    rules = [f"{rule.span.line}: {_rule(rule)}" for stratum in program.strata for rule in stratum.rules]
    return "\n".join(["", *rules, *(f"{name}{row}" for name, rows in facts.items() for row in rows)])


def _rule(rule: ir.CheckedRule) -> str:
    return f"{rule.relation}({_terms(rule.arguments)}) :- {_body(rule.body)}."


def _body(body: Sequence[ir.CheckedLiteral]) -> str:
    return ", ".join(map(_literal, body))


def _literal(literal: ir.CheckedLiteral) -> str:
    match literal:
        case ir.Match(relation, arguments):
            return f"{relation}({_terms(arguments)})"
        case ir.Compare(comparator, left, right):
            return f"{_terms([left])} {comparator} {_terms([right])}{'  # ?' if literal.when_unknown else ''}"
        case ir.Call(builtin, inputs, outputs):
            return f"{_terms(outputs)} = {builtin}({_terms(inputs)})"
        case ir.Without(body):
            return f"not ({_body(body)})"
        case ir.Fold(function, terms, body, target):
            return f"{target.name} = {function}{{ {_terms(terms)} : {_body(body)} }}"


def _terms(terms: Sequence[ir.Pattern]) -> str:
    return ", ".join(
        "_" if term is None else term.name if isinstance(term, ir.Var) else repr(term.value) for term in terms
    )


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
