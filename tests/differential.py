"""Compare the engines with the oracle over many generated programs.

python -m tests.differential COUNT [SEED]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from math import inf
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import NamedTuple

from hypothesis import HealthCheck, given, seed, settings

from datalog_gate.analysis import program as ir
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import EngineError
from datalog_gate.base.values import Row
from datalog_gate.engine import native
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.least_model import Model
from datalog_gate.schema.declaration import RelationRef
from tests import naive
from tests.programs import Facts, facts, programs

Rows = dict[RelationRef, set[Row]]
Answer = tuple[Rows, set[tuple[RelationRef, Row, Span, str]]]
Case = tuple[ir.CheckedProgram, Facts]
MOST = 5000
"""How many assignments the oracle tries: more would take it seconds."""
ENDING = Budget(facts=100_000)
"""What native may take: some that shrinking makes would never end."""
SECONDS = 10
"""How long pyDatalog may take for what it does in milliseconds."""


def main(count: int, number: int) -> None:
    """Compare the engines on a number of programs, drawn by the seed, and print how far. The smallest case in which
    they differ is an error."""
    tally: Counter[str] = Counter()
    with Apart() as apart:

        @drawn(count, number)
        @given(programs(), facts())
        def compare(program: ir.CheckedProgram, given_facts: Facts) -> None:
            comparison = compared((program, given_facts), apart)
            assert not comparison.difference, f"{written(program, given_facts)}\n{comparison.difference}"
            tally[comparison.verdict] += 1

        compare()
    for verdict, times in tally.most_common():
        print(f"{times:8} {verdict}")


def drawn(count: int, number: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator of a check of `count` generated cases, drawn by the seed `number`."""
    every = settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    return lambda check: every(seed(number)(check))


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
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
