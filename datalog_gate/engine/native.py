"""The engine of this package (layer 3): bottom up, stratum by stratum, semi-naive within a recursive one.

In: a checked program and the facts of its inputs. Out: the model. A rule runs fast over the rows; only one that meets
an error, or that reads a relation in error, is gone through carefully to tell which rows are true and which in error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from datalog_gate.analysis.program import CheckedProgram, CheckedRule, Match, Stratum
from datalog_gate.analysis.strata import reads
from datalog_gate.engine.assignments import Assignments, Errors, head_row
from datalog_gate.engine.builtins import EvaluationError
from datalog_gate.engine.model import Model, ModelError, Table
from datalog_gate.engine.solve import NEW, Watch, prepare
from datalog_gate.values import Row, row_key

Run = Callable[[], Iterable[Row]]


def evaluate(program: CheckedProgram, facts: Mapping[str, Collection[Row]], deadline: float | None = None) -> Model:
    """All rows and errors of the program over the facts.

    Errors: EngineError past the deadline, naming the rule at work.
    """
    work = _Evaluation(Watch(deadline))
    for relation in program.relations:
        work.tables[relation] = Table(facts.get(relation, ()) if relation in program.inputs else ())
    for stratum in program.strata:
        work.derive(stratum, {})
        work.find_errors(stratum)
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
    failed: set[CheckedRule] = field(default_factory=set)
    """The rules that met an error."""

    def derive(self, stratum: Stratum, reached: dict[tuple[str, Row], int]) -> None:
        """Derive the rows of a stratum. `reached` is told the round of each row if the stratum is recursive."""
        own = frozenset(stratum.relations)
        rules = [rule for rule in stratum.rules if not self._idle(rule, own)]
        news = self._round([(rule, self._run(rule, rule)) for rule in rules])
        again: list[tuple[CheckedRule, Run]] = []
        turn = 1
        while news and stratum.recursive:
            reached.update((one, turn) for one in news)
            turn += 1
            for relation in own:
                self.tables[NEW + relation] = Table(row for name, row in news if name == relation)
            again = again or [(rule, self._run(rule, part)) for rule in rules for part in _parts(rule, own)]
            news = self._round(again)
        for relation in own:
            self.tables.pop(NEW + relation, None)

    def _idle(self, rule: CheckedRule, own: Collection[str]) -> bool:
        """Whether a relation that the rule must match is empty for good."""
        return any(
            isinstance(one, Match) and one.relation not in own and not self.tables[one.relation].rows
            for one in rule.body
        )

    def _run(self, rule: CheckedRule, part: CheckedRule) -> Run:
        """How to run a part of a rule: fast, but carefully if it fails, or if a negation or an aggregate in it reads an
        error."""
        search = Assignments(self.tables, self.errors, self.watch)

        def carefully() -> list[Row]:
            self.failed.add(rule)
            return [head_row(rule, binding) for binding, cause in search.of_rule(part) if cause is None]

        def run() -> list[Row]:
            try:
                return fast()
            except EvaluationError:
                return carefully()

        if any(through and match.relation in self.errors for through, match in reads(rule.body)):
            return carefully
        fast = prepare(part, self.tables, self.watch)
        return run

    def _round(self, runs: Iterable[tuple[CheckedRule, Run]]) -> list[tuple[str, Row]]:
        """The rows that the runs derive anew, added after the last of them."""
        found: dict[tuple[str, Row], None] = {}
        for rule, run in runs:
            known = self.tables[rule.relation].rows
            found.update(((rule.relation, row), None) for row in run() if row not in known)
        for relation, row in found:
            self.tables[relation].add(row)
        return list(found)

    def find_errors(self, stratum: Stratum) -> None:
        """Collect the rows in error, those that follow from others included. A row that is derived is not in error."""
        search = Assignments(self.tables, self.errors, self.watch)
        grown = True
        while grown:
            grown = False
            for rule in stratum.rules:
                if rule not in self.failed and not any(match.relation in self.errors for _, match in reads(rule.body)):
                    continue
                for binding, cause in list(search.of_rule(rule)):
                    row = head_row(rule, binding)
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


def _parts(rule: CheckedRule, own: Collection[str]) -> Iterator[CheckedRule]:
    """For each match of its own stratum the rule that reads only the new rows there."""
    for at, one in enumerate(rule.body):
        if isinstance(one, Match) and one.relation in own:
            new = replace(one, relation=NEW + one.relation)
            yield replace(rule, body=(*rule.body[:at], new, *rule.body[at + 1 :]))
