"""The engine of this package (layer 3): bottom up, stratum by stratum, semi-naive within a recursive one.

In: a checked program and the facts of its inputs. Out: the model. A rule runs fast over the rows; only one that met an
error, or that reads a relation in error, is gone through again to tell which rows are in error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from datalog_gate.analysis.program import CheckedProgram, CheckedRule, Const, Fold, Match, Stratum, Without
from datalog_gate.engine.assignments import Assignments, Binding, Errors, mentioned
from datalog_gate.engine.model import Model, ModelError, Table
from datalog_gate.engine.solve import Watch, prepare
from datalog_gate.values import Row, row_key

Run = Callable[[], tuple[Iterable[Row], bool]]


def evaluate(program: CheckedProgram, facts: Mapping[str, Collection[Row]], deadline: float | None = None) -> Model:
    """All rows and errors of the program over the facts.

    Errors: EngineError past the deadline, naming the rule at work.
    """
    work = _Evaluation(Watch(deadline))
    for relation in program.relations:
        work.tables[relation] = Table(facts.get(relation, ()) if relation in program.inputs else ())
    for stratum in program.strata:
        work.find_errors(stratum, work.derive(stratum, {}))
    return Model(work.tables, work.model_errors())


def rounds(stratum: Stratum, model: Model, errors: Errors) -> dict[tuple[str, Row], int]:
    """The round, from 1, in which each row of a recursive stratum is derived first: it has a derivation from rows of
    earlier rounds and of other strata."""
    work = _Evaluation(Watch(None), dict(model.tables), errors)
    for relation in stratum.relations:
        work.tables[relation] = Table()
    reached: dict[tuple[str, Row], int] = {}
    work.derive(stratum, reached)
    return reached


@dataclass(slots=True)
class _Evaluation:
    watch: Watch
    tables: dict[str, Table] = field(default_factory=dict)
    errors: Errors = field(default_factory=dict)

    def derive(self, stratum: Stratum, reached: dict[tuple[str, Row], int]) -> set[CheckedRule]:
        """Derive the rows of a stratum; the rules that met an error. `reached` is told the round of each row if the
        stratum is recursive."""
        own = frozenset(stratum.relations)
        failed: set[CheckedRule] = set()
        rules = [rule for rule in stratum.rules if not self._idle(rule, own)]
        news = self._round([(rule, self._run(rule, None)) for rule in rules], failed)
        again: list[tuple[CheckedRule, Run]] = []
        for rule in rules if stratum.recursive and news else ():
            places = [at for at, one in enumerate(rule.body) if isinstance(one, Match) and one.relation in own]
            again += [(rule, self._run(rule, at)) for at in places]
        turn = 1
        while news and stratum.recursive:
            reached.update((one, turn) for one in news)
            turn += 1
            for relation in own:
                self.tables["+" + relation] = Table(row for name, row in news if name == relation)
            news = self._round(again, failed)
        for relation in own:
            self.tables.pop("+" + relation, None)
        return failed

    def _idle(self, rule: CheckedRule, own: Collection[str]) -> bool:
        """Whether a relation that the rule must match is empty for good."""
        return any(
            isinstance(one, Match) and one.relation not in own and not self.tables[one.relation].rows
            for one in rule.body
        )

    def _run(self, rule: CheckedRule, delta: int | None) -> Run:
        """How to run a rule: fast, but carefully if an error decides on what a negation or an aggregate in it says."""
        search = Assignments(self.tables, self.errors, self.watch)

        def carefully() -> tuple[list[Row], bool]:
            return [_row(rule, binding) for binding, cause in search.of_rule(rule) if cause is None], True

        def run() -> tuple[list[Row], bool]:
            rows, trouble = fast()
            return carefully() if trouble else (rows, False)

        if any(inside and name in self.errors for name, inside in mentioned(rule.body)):
            return carefully
        fast = prepare(rule, self.tables, self.watch, delta)
        return run if any(isinstance(one, Without | Fold) for one in rule.body) else fast

    def _round(self, runs: Iterable[tuple[CheckedRule, Run]], failed: set[CheckedRule]) -> list[tuple[str, Row]]:
        """The rows that the runs derive anew, added after the last of them."""
        found: dict[tuple[str, Row], None] = {}
        for rule, run in runs:
            rows, trouble = run()
            known = self.tables[rule.relation].rows
            found.update(((rule.relation, row), None) for row in rows if row not in known)
            if trouble:
                failed.add(rule)
        for relation, row in found:
            self.tables[relation].add(row)
        return list(found)

    def find_errors(self, stratum: Stratum, failed: Collection[CheckedRule]) -> None:
        """Collect the rows in error, those that follow from others included. A row that is derived is not in error."""
        search = Assignments(self.tables, self.errors, self.watch)
        grown = True
        while grown:
            grown = False
            for rule in stratum.rules:
                if rule not in failed and not any(name in self.errors for name, _ in mentioned(rule.body)):
                    continue
                for binding, cause in list(search.of_rule(rule)):
                    row = _row(rule, binding)
                    derived = None not in row and row in self.tables[rule.relation].rows
                    if cause is None or derived:
                        continue
                    causes = self.errors.setdefault(rule.relation, {}).setdefault(row, set())
                    grown |= cause not in causes
                    causes.add(cause)
            grown &= stratum.recursive

    def model_errors(self) -> tuple[ModelError, ...]:
        errors = [
            ModelError(relation, cause.span, cause.message, row)
            for relation, rows in self.errors.items()
            for row, causes in rows.items()
            for cause in causes
        ]

        def place(error: ModelError) -> tuple[object, ...]:
            return error.span.file, error.span.line, row_key(error.row), error.span, error.relation, error.message

        return tuple(sorted(errors, key=place))


def _row(rule: CheckedRule, binding: Binding) -> Row:
    """The head's row, None for what the binding does not know."""
    return tuple(one.value if isinstance(one, Const) else binding.get(one) for one in rule.arguments)
