"""Compare the engines with the oracle over many generated programs.

Programs with functions as terms are compared with their relational form too: on native, on pyDatalog, in SQL, and over
values that are not known.

python -m tests.differential COUNT [SEED]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from math import inf
from multiprocessing import get_context
from multiprocessing.connection import Connection

from hypothesis import HealthCheck, given, note, reject, seed, settings

from datalog_gate.analysis.check import check
from datalog_gate.analysis.lifting import lift
from datalog_gate.analysis.modern_form import modernize
from datalog_gate.analysis.program import CheckedProgram, find_input
from datalog_gate.analysis.unknowns import possible, split
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import EngineError, RulesError
from datalog_gate.base.values import Kind, Row, Unknown
from datalog_gate.engine import native
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.least_model import Model
from datalog_gate.engine.sql.database import Database, open_database
from datalog_gate.language import ast
from datalog_gate.language.parser import parse
from datalog_gate.language.printer import print_module
from datalog_gate.language.walk import nodes
from datalog_gate.schema.declaration import certain_version
from tests import oracle
from tests.expressions import worded
from tests.programs import Facts
from tests.relational_form import relational
from tests.rule_texts import DECLARED, INPUTS, GivenRows, cases
from tests.sql_answers import answer as answer_in_sql
from tests.sql_answers import difference, stack_facts

Rows = dict[str, set[Row]]
Answer = tuple[Rows, dict[str, set[tuple[Row, Span]]]]
MOST = 5000
"""How many assignments the oracle tries: more would take it seconds."""
ENDING = Budget(facts=100_000)
"""What native may take: some that shrinking makes would never end."""
TEXTS = Kind.STRING | Kind.NUMBER
"""The kinds of the values that are made unknown."""
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
    with Apart() as apart, open_database() as database:

        @drawn(count, number)
        @given(cases())
        def compare(case: tuple[str, GivenRows]) -> None:
            text, rows = case
            note(f"{text}\n{rows}")
            loaded = load(text)
            if loaded is None:
                tally["refused when loaded"] += 1
                reject()
            tally.update(compared(*loaded, rows, apart, database))
            tally.update(f"with {shape}" for shape, sign in SHAPES.items() if sign in text.removeprefix(DECLARED))

        compare()
    for verdict, times in tally.most_common():
        print(f"{times:8} {verdict}")


def drawn(count: int, number: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator of a check of `count` generated cases, drawn by the seed `number`."""
    every = settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    return lambda check: every(seed(number)(check))


def compared(
    module: ast.Module, program: CheckedProgram, rows: GivenRows, apart: Apart, database: Database
) -> Iterator[str]:
    """Run the oracle and the engines, and say what was compared. Errors: AssertionError for a difference."""
    try:
        expected = expected_answer(module, rows, MOST)
    except oracle.TooMuchError:
        yield "left out: too much for the oracle"
        return
    derived, errors = expected
    facts = filled(program, rows)
    assert parse(print_module(module), "m.dl", "m") == (module, ()), "printed and parsed it is another"
    assert answer(native.evaluate(program, facts, ENDING), module) == expected, "native"
    assert answer(native.evaluate_once(program, facts, ENDING), module) == expected, "native, once"
    modern = check([modernize(module)]).program
    assert answer(native.evaluate(modern, facts, ENDING), module) == expected, "native, in modern form"
    yield compared_apart(program, facts, expected, apart)
    if has_functions(module):
        yield from compared_as_relations(module, program, rows, apart, database)
    yield from ["with recursion"] * any(stratum.recursive for stratum in program.strata)
    yield from ["with rows"] * any(derived.values()) + ["with errors"] * any(errors.values())


def compared_apart(program: CheckedProgram, facts: Facts, expected: Answer, apart: Apart) -> str:
    """Compare what pyDatalog answers with what is expected."""
    answered = apart.answer(program, facts)
    if isinstance(answered, str):
        assert answered.startswith("pyDatalog refuses"), answered
        return "refused by pyDatalog"
    derived, errors = expected
    assert not any(errors.values()), "pyDatalog finds no error"
    assert {name: answered[f"m:{name}"] for name in derived} == derived, "pyDatalog"
    return "answered by pyDatalog too"


def has_functions(module: ast.Module) -> bool:
    """Whether a function is a term of a rule."""
    return any(isinstance(node, ast.Function) for rule in module.rules for node in nodes((rule.head, *rule.body)))


def compared_as_relations(
    module: ast.Module, program: CheckedProgram, rows: GivenRows, apart: Apart, database: Database
) -> Iterator[str]:
    """Compare a program that native evaluates well with its relational form, and both with what SQL settles."""
    written = relational(module)
    form = check([written]).program
    facts = filled(program, rows)
    expected = answer(native.evaluate(program, facts, ENDING), module)
    assert parse(print_module(written), "m.dl", "m") == (written, ()), "the relational form, printed and parsed"
    assert expected_answer(written, rows, MOST) == expected, "the oracle, in relational form"
    assert answer(native.evaluate(form, facts, ENDING), module) == expected, "native, in relational form"
    yield f"{compared_apart(form, facts, expected, apart)}, in relational form"
    unknown = unknown_rows(rows)
    assert answer_of_unknowns(form, module, unknown) == answer_of_unknowns(program, module, unknown), "unknowns"
    given: GivenRows = {name: [("s", *row) for row in rows[name]] for name in rows}
    for version in (program, form):
        lifted = lift(version, version.inputs)
        stacks = stack_facts(lifted, given)
        assert difference(lifted, stacks, answer_in_sql(lifted, stacks, database)) == ""
    yield "with functions as terms"


def unknown_rows(rows: GivenRows) -> GivenRows:
    """The rows, in every second one with unknowns in place of strings and numbers."""
    return {
        name: [
            tuple(
                worded(f"{name}{number}.{at}", kinds=kinds) if number % 2 and kinds & TEXTS else value
                for at, (value, kinds) in enumerate(zip(row, INPUTS[name].values(), strict=True))
            )
            for number, row in enumerate(given)
        ]
        for name, given in rows.items()
    }


def answer_of_unknowns(program: CheckedProgram, module: ast.Module, rows: GivenRows) -> Answer:
    """The certain and the possible rows of the relations that the module's rules derive, with the errors."""
    facts = filled(program, rows)
    unknown = {
        relation: frozenset(at for row in given for at, value in enumerate(row) if isinstance(value, Unknown))
        for relation, given in facts.items()
    }
    versions = split(program, unknown, ())
    model = native.evaluate(versions, {name: facts.get(certain_version(name), ()) for name in versions.inputs}, ENDING)
    derived, errors = answer(model, module)
    return {**derived, **{f"{name}?": set(model.rows(possible(f"m:{name}", versions))) for name in derived}}, errors


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
