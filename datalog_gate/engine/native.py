"""The engine of this package (layer 3): bottom up, stratum by stratum, semi-naive within a recursive one.

In: a checked program and the facts of its inputs. Out: the model. A rule runs as a compiled function; one that meets an
error, or reads a relation in error, is gone through carefully to tell which rows are true and which in error. Programs,
plans and tables of facts hold nothing of an evaluation: threads share them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from datalog_gate.analysis.cache import Kept
from datalog_gate.analysis.program import CheckedProgram, CheckedRule, Match, Stratum
from datalog_gate.analysis.strata import reads
from datalog_gate.base.errors import BudgetError
from datalog_gate.base.gc import paused
from datalog_gate.base.values import Row, row_key
from datalog_gate.engine.assignments import Assignments, Cause, Errors, head_row
from datalog_gate.engine.budget import UNLIMITED, Budget, Watch
from datalog_gate.engine.builtins import EvaluationError
from datalog_gate.engine.codegen import Access, Compiled, compile_plan
from datalog_gate.engine.model import IndexedTable, Model, ModelError
from datalog_gate.engine.plan import TooDeepError, plan

Emit = Callable[[Row], None]
Rounds = Mapping[str, Mapping[Row, int]]
"""By relation: the round, from 1, in which each row is derived first."""
MOST_VARIANTS = 64
"""The functions that are kept for one rule."""


@paused()
def evaluate(
    program: CheckedProgram,
    facts: Mapping[str, Collection[Row]],
    budget: Budget = UNLIMITED,
    before: Model | None = None,
) -> Model:
    """All rows and errors of the program over the facts and the model `before`, which stays as it is."""
    tables = dict(before.tables) if before else {}
    work = _Evaluation(Watch(budget), tables, errors_of(before) if before else {})
    exceeded = None
    nothing = IndexedTable()  # most relations have no rows, and share it
    for name in program.inputs:
        if name not in tables:
            tables[name] = IndexedTable(facts[name]) if name in facts else nothing
        if tables[name].rows:
            work.filled.add(name)
    for stratum in _prepared(program):
        if stratum.relations[0] not in tables:
            if not work.errors and not any(map(work.filled.issuperset, stratum.needs)):
                for name in stratum.relations:
                    tables[name] = nothing
                continue
            try:
                work.derive(stratum)
                if work.failed or work.errors:
                    work.find_errors(stratum.stratum)
            except BudgetError as error:
                exceeded = error.with_traceback(None)  # its frames hold every table
                for name in stratum.relations:
                    del tables[name]
                break
        for name in stratum.relations:
            if tables[name].rows:
                work.filled.add(name)
    return Model(tables, work.model_errors(), exceeded)


def rounds(stratum: Stratum, model: Model, errors: Errors) -> Rounds:
    """The round, from 1, in which each row of a recursive stratum is derived first: it has a derivation from rows of
    earlier rounds and of other strata."""
    filled = {name for name, table in model.tables.items() if table.rows}
    work = _Evaluation(Watch(), dict(model.tables), errors, filled)
    work.derive(_Stratum.of(stratum), apart=True)
    return {name: work.tables[name].rows for name in stratum.relations}


def errors_of(model: Model) -> Errors:
    """The errors of a model by relation and row."""
    errors: Errors = {}
    for error in model.errors:
        errors.setdefault(error.relation, {}).setdefault(error.row, set()).add(Cause(error.span, error.message))
    return errors


@dataclass(slots=True)
class _Part:
    """A rule, or the part of one in which one match reads the rows of the last round. It gives nothing unless all that
    it `needs` has rows. What was compiled is kept for each order of magnitude of what it reads."""

    rule: CheckedRule
    body: CheckedRule
    news: str | None
    needs: frozenset[str]
    sized: tuple[str, ...]
    variants: dict[tuple[int, ...], Compiled | None] = field(default_factory=dict)

    @staticmethod
    def of(rule: CheckedRule, own: Collection[str], at: int | None = None) -> _Part:
        body = rule
        news = None
        if at is not None:
            match = rule.body[at]
            assert isinstance(match, Match)
            news = match.relation
            body = replace(rule, body=(*rule.body[:at], replace(match, new=True), *rule.body[at + 1 :]))
        needs = {literal.relation for literal in rule.body if isinstance(literal, Match)} - set(own)
        sized = {match.relation for _, match in reads(rule.body)}
        return _Part(rule, body, news, frozenset(needs), tuple(sorted(sized)))

    @property
    def linear(self) -> bool:
        """Whether it reads its own stratum in one place, and gives rows of that relation."""
        reads_own = [
            literal for literal in self.rule.body if isinstance(literal, Match) and literal.relation not in self.needs
        ]
        return len(reads_own) == 1 and self.news == self.rule.relation

    def compiled(self, tables: Mapping[str, IndexedTable], emits: bool) -> Compiled | None:
        """The function; None if the rule is too deep for one. Sizes are powers of two, rounded up to thirds, so that
        plans serve for more than one evaluation."""
        magnitudes = tuple([(len(tables[name].rows).bit_length() + 2) // 3 * 3 for name in self.sized])
        if magnitudes in self.variants:
            return self.variants.get(magnitudes)
        if len(self.variants) >= MOST_VARIANTS:
            self.variants.clear()
        sizes = dict(zip(self.sized, magnitudes, strict=True))
        try:
            code = compile_plan(plan(self.body, lambda name: sizes.get(name, 0)), emits)
        except TooDeepError:
            code = None
        self.variants[magnitudes] = code
        return code


@dataclass(frozen=True, slots=True)
class _Stratum:
    """A stratum with its rules as parts: those that run once, and those that run in each round of a recursion. It gives
    nothing unless one of the former has all that it `needs`."""

    stratum: Stratum
    relations: tuple[str, ...]
    once: tuple[_Part, ...]
    again: tuple[_Part, ...]
    needs: tuple[frozenset[str], ...]

    @staticmethod
    def of(stratum: Stratum) -> _Stratum:
        own = stratum.relations if stratum.recursive else ()
        once: list[_Part] = []
        again: list[_Part] = []
        for rule in stratum.rules:
            loops = [
                at for at, literal in enumerate(rule.body) if isinstance(literal, Match) and literal.relation in own
            ]
            again += [_Part.of(rule, own, at) for at in loops]
            once += [] if loops else [_Part.of(rule, own)]
        needs = tuple(part.needs for part in once)
        return _Stratum(stratum, stratum.relations, tuple(once), tuple(again), needs)


_PREPARED = Kept[tuple[_Stratum, ...]]()


def _prepared(program: CheckedProgram) -> tuple[_Stratum, ...]:
    """The strata of a program with their plans."""
    return _PREPARED.get(program, (), lambda: tuple(map(_Stratum.of, program.strata)))


def _lookup(table: IndexedTable, access: Access) -> object:
    """What a compiled function looks up rows in."""
    if access.keys is not None:
        return table.index(access.constants, access.keys)
    if access.distinct is not None:
        return table.distinct(access.constants, access.distinct)
    return table.rows


@dataclass(slots=True)
class _Evaluation:
    watch: Watch
    tables: dict[str, IndexedTable]
    errors: Errors
    filled: set[str] = field(default_factory=set)
    """The relations that have rows, inputs and those of earlier strata."""
    failed: set[int] = field(default_factory=set)
    """The rules that met an error, by identity."""

    def derive(self, stratum: _Stratum, apart: bool = False) -> None:
        """Derive the rows of a stratum; if it is recursive and rounds are told `apart`, each row leads to its round."""
        for relation in stratum.stratum.relations:
            self.tables[relation] = IndexedTable()
        if not stratum.stratum.recursive:
            for part in stratum.once:
                if part.needs <= self.filled:
                    self._run(part, self.tables[part.rule.relation].rows, None, ())
            return
        parts = [part for part in stratum.once if part.needs <= self.filled]
        again = [part for part in stratum.again if part.needs <= self.filled]
        alone = len(again) == 1 and again[0].linear and len(stratum.stratum.relations) == 1
        if alone and not apart and self.watch.budget.rounds is None:
            self._chase(parts, again[0])
            return
        # in normal rounds a row is known, and may join, as soon as it is found; to tell rounds apart it must not yet
        known = {name: {} if apart else self.tables[name].rows for name in stratum.stratum.relations}
        news: dict[str, list[Row]] = {}
        turn = 0
        while parts:
            turn += 1
            self.watch.start_round(turn)
            fresh: dict[str, list[Row]] = {name: [] for name in known}
            for part in parts:
                name = part.rule.relation
                self._run(part, known[name], fresh[name].append, news.get(part.news, ()) if part.news else ())
            for name, rows in fresh.items():
                if apart:
                    self.tables[name].rows.update(dict.fromkeys(rows, turn))
                self.tables[name].extend(rows)
            news = fresh
            parts = [part for part in again if part.news and news[part.news]]

    def _chase(self, parts: Sequence[_Part], again: _Part) -> None:
        """All rounds at once: the loop over the new rows comes to those that it appends itself."""
        rows: list[Row] = []
        known = self.tables[again.rule.relation].rows
        for part in parts:
            self._run(part, known, rows.append, ())
        done = 0
        while done < len(rows):  # more than once only after an error
            done += self._run(again, known, rows.append, rows[done:] if done else rows)

    def _run(self, part: _Part, known: dict[Row, None], emit: Emit | None, news: Sequence[Row]) -> int:
        """Run a part of a rule: fast, but carefully if it fails, or if a negation or an aggregate in it reads an
        error. How many of the new rows it came to."""
        self.watch.start(part.rule, known)
        code = part.compiled(self.tables, emit is not None)
        through_error = self.errors and any(
            through and match.relation in self.errors for through, match in reads(part.rule.body)
        )
        if code and not through_error:
            lookups = [_lookup(self.tables[access.relation], access) for access in code.accesses]
            try:
                code.work(lookups, code.constants, known, emit, news, self.watch.check)
                self.watch.stop()
                return len(news)
            except EvaluationError:
                pass
        came_to = len(news)
        rows: dict[Row, None] = {}
        search = Assignments(self.tables, self.errors, self.watch, news=IndexedTable(news) if part.news else None)
        for binding, cause in search.of_rule(part.body):
            if cause:
                self.failed.add(id(part.rule))
            else:
                rows[head_row(part.rule, binding)] = None
        for row in rows:
            if row not in known:
                known[row] = None
                if emit:
                    emit(row)
        self.watch.stop()
        return came_to

    def find_errors(self, stratum: Stratum) -> None:
        """Collect the rows in error, those that follow from others included. A row that is derived is not in error."""
        search = Assignments(self.tables, self.errors, self.watch)
        grown = True
        while grown:
            grown = False
            for rule in stratum.rules:
                if id(rule) not in self.failed and not any(
                    match.relation in self.errors for _, match in reads(rule.body)
                ):
                    continue
                found = {(head_row(rule, binding), cause) for binding, cause in search.of_rule(rule) if cause}
                for row, cause in found:
                    if None not in row and row in self.tables[rule.relation].rows:
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
