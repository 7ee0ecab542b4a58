"""Compare the engines with the oracle over many generated programs.

python -m tests.differential COUNT [SEED]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from math import inf
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import NamedTuple

from hypothesis import HealthCheck, given, reject, seed, settings

from datalog_gate.analysis.check import check
from datalog_gate.analysis.modern_form import modernize
from datalog_gate.analysis.program import CheckedProgram, find_input
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import EngineError, RulesError
from datalog_gate.base.values import Row
from datalog_gate.engine import native
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.least_model import Model
from datalog_gate.language import ast
from datalog_gate.language.parser import parse
from tests import oracle
from tests.programs import Facts
from tests.rule_texts import DECLARED, cases

Rows = dict[str, set[Row]]
Answer = tuple[Rows, dict[str, set[tuple[Row, Span]]]]
GivenRows = dict[str, list[Row]]
MOST = 5000
"""How many assignments the oracle tries: more would take it seconds."""
ENDING = Budget(facts=100_000)
"""What native may take: some that shrinking makes would never end."""
SECONDS = 60
"""How long pyDatalog may take for what it does in milliseconds, on a busy machine too."""
SHAPES = {
    "an aggregate": "{", "distinct": "{ distinct ", "not": "not ", "a body under not": "not (", "or": " or ",
    "in": " in [", "??": "??",
}  # fmt: skip


def main(count: int, number: int) -> None:
    """Compare the engines on a number of programs that can be loaded, drawn by the seed, and print how far. The
    smallest case in which they differ is an error."""
    tally: Counter[str] = Counter()
    with Apart() as apart:

        @drawn(count, number)
        @given(cases())
        def compare(case: tuple[str, GivenRows]) -> None:
            comparison = compared(*case, apart)
            if comparison is None:
                tally["refused when loaded"] += 1
                reject()
            assert not comparison.difference, f"{case[0]}{case[1]}\n{comparison.difference}"
            tally.update(comparison.verdicts)

        compare()
    for verdict, times in tally.most_common():
        print(f"{times:8} {verdict}")


def drawn(count: int, number: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator of a check of `count` generated cases, drawn by the seed `number`."""
    every = settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    return lambda check: every(seed(number)(check))


class Compared(NamedTuple):
    """The difference between engines and oracle, if any, and what was compared."""

    difference: str
    verdicts: tuple[str, ...] = ()


def compared(text: str, rows: GivenRows, apart: Apart) -> Compared | None:
    """Run the oracle and the engines; None if the rules are refused when they are loaded."""
    loaded = load(text)
    if loaded is None:
        return None
    module, program = loaded
    try:
        expected = expected_answer(module, rows, MOST)
    except oracle.TooMuchError:
        return Compared("", ("left out: too much for the oracle",))
    facts = filled(program, rows)
    modern = check([modernize(module)]).program
    for form, engine in ((program, native.evaluate), (program, native.evaluate_once), (modern, native.evaluate)):
        actual = answer(engine(form, facts, ENDING), module)
        if actual != expected:
            return Compared(f"native{' of the modern form' * (form is modern)}: {actual}\noracle: {expected}")
    derived, errors = expected
    verdicts = [f"with {shape}" for shape, sign in SHAPES.items() if sign in text.removeprefix(DECLARED)]
    verdicts += ["with recursion"] * any(stratum.recursive for stratum in program.strata)
    verdicts += ["with rows"] * any(derived.values()) + ["with errors"] * any(errors.values())
    second = apart.answer(program, facts)
    if isinstance(second, str):
        if not second.startswith("pyDatalog refuses"):
            return Compared(second)
        return Compared("", ("refused by pyDatalog", *verdicts))
    if any(errors.values()) or any(second[f"m:{name}"] != rows for name, rows in derived.items()):
        return Compared(f"pydatalog: {second}\noracle: {expected}")
    return Compared("", ("answered by pyDatalog too", *verdicts))


def load(text: str) -> tuple[ast.Module, CheckedProgram] | None:
    """The module `m` of this text, parsed and checked; None if it is refused."""
    module, diagnostics = parse(text, "m.dl", "m")
    assert not diagnostics, diagnostics
    try:
        return module, check([module]).program
    except RulesError:
        return None


def filled(program: CheckedProgram, rows: GivenRows) -> Facts:
    """The inputs of a program that take the rows of the module's relations."""
    inputs = ((find_input(program, f"m:{name}"), name) for name in rows)
    return {relation: rows[name] for relation, name in inputs if relation is not None}


def answer(model: Model, module: ast.Module) -> Answer:
    """The rows and errors of the relations that the module's rules derive."""
    names = {rule.head.name for rule in module.statements if isinstance(rule, ast.Rule)}
    errors: dict[str, set[tuple[Row, Span]]] = {name: set() for name in names}
    for error in model.errors:
        errors.get(str(error.relation).removeprefix("m:"), set()).add((error.row, error.span))
    return {name: set(model.rows(f"m:{name}")) for name in names}, errors


def expected_answer(module: ast.Module, rows: GivenRows, most: float = inf) -> Answer:
    """The answer of the oracle. Errors: TooMuchError."""
    derived, wrong = oracle.evaluate(module, rows, most)
    names = {rule.head.name for rule in module.statements if isinstance(rule, ast.Rule)}
    return {name: derived[name] for name in names}, {name: wrong[name] for name in names}


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

    def answer(self, program: CheckedProgram, facts: Facts) -> Rows | str:
        """The rows by the printed names of relations, or why there are none."""
        self._pipe.send((program, facts))
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
            pipe.send({str(name): set(rows) for name, rows in answer_of(program, facts).items()})
        except EngineError as error:
            pipe.send(str(error))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
