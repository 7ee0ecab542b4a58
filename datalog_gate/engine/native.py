"""The native engine: bottom-up evaluation by strata, semi-naive within a recursive stratum.

Evaluations do not change programs, plans or tables of facts, so threads can share these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from datalog_gate.analysis.program import CheckedProgram, CheckedRule, Match, ProgramCache, Stratum
from datalog_gate.analysis.strata import reads
from datalog_gate.base.errors import BudgetError
from datalog_gate.base.gc import paused
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import Row, row_key
from datalog_gate.engine.assignments import Assignments, Cause, Errors, head_row
from datalog_gate.engine.budget import PER_LOOK, UNLIMITED, Budget, Watch
from datalog_gate.engine.builtins import EvaluationError
from datalog_gate.engine.codegen import Compiled, compile_plan
from datalog_gate.engine.least_model import IndexedTable, Model, ModelError
from datalog_gate.engine.plan import TooDeepError, plan
from datalog_gate.schema.declaration import RelationRef

Emit = Callable[[Row], None]
Rounds = Mapping[RelationRef, Mapping[Row, int]]
"""By relation, the round in which each row is first derived, counted from 1."""
MOST_VARIANTS = 64
"""The maximum number of compiled functions for a rule."""
FEW_ROWS, FEW_LOOKS = 64, 1000
"""The maximum number of rows in the tables of a rule that runs once and is searched instead of compiled, and the
maximum number of rows that the search reads."""


@paused()
def evaluate(
    program: CheckedProgram,
    facts: Mapping[RelationRef, Collection[Row]],
    budget: Budget = UNLIMITED,
    before: Model | None = None,
    once: bool = False,
) -> Model:
    """Compute all rows and errors of the program over the facts and the model `before`, which is not changed. `once`
    says that no evaluation follows that could reuse functions, so rules are compiled only if that saves time."""
    tables = dict(before.tables) if before else {}
    evaluation = _Evaluation(Watch(budget), tables, errors_of(before) if before else {}, once=once)
    exceeded = None
    empty = IndexedTable()  # shared, since most relations have no rows
    for name in program.inputs:
        if name not in tables:
            tables[name] = IndexedTable(facts[name]) if name in facts else empty
        if tables[name].rows:
            evaluation.filled.add(name)
    for split in _SPLIT_STRATA.get(program, (), lambda: tuple(map(_SplitStratum.of, program.strata))):
        relations = split.stratum.relations
        if relations[0] not in tables:
            if not evaluation.errors and not any(map(evaluation.filled.issuperset, split.needs)):
                for name in relations:
                    tables[name] = empty
                continue
            try:
                evaluation.derive(split)
                if evaluation.failed or evaluation.errors:
                    evaluation.find_errors(split.stratum)
            except BudgetError as error:
                exceeded = error.with_traceback(None)  # its frames keep every table alive
                for name in relations:
                    del tables[name]
                break
        for name in relations:
            if tables[name].rows:
                evaluation.filled.add(name)
    return Model(tables, evaluation.model_errors(), exceeded)


evaluate_once = partial(evaluate, once=True)


def rounds(stratum: Stratum, model: Model, errors: Errors) -> Rounds:
    """Compute the round in which each row of a recursive stratum is first derived from rows of earlier rounds."""
    filled = {name for name, table in model.tables.items() if table.rows}
    evaluation = _Evaluation(Watch(), dict(model.tables), errors, filled)
    evaluation.derive(_SplitStratum.of(stratum), by_round=True)
    return {name: evaluation.tables[name].rows for name in stratum.relations}


def errors_of(model: Model) -> Errors:
    errors: Errors = {}
    for error in model.errors:
        errors.setdefault(error.relation, {}).setdefault(error.row, set()).add(Cause(error.span, error.message))
    return errors


@dataclass(slots=True)
class _Part:
    """A rule, or the variant of a recursive rule in which one match reads the rows of the last round."""

    rule: CheckedRule
    body: CheckedRule
    """The body to run, with the match of new rows marked."""
    new_relation: RelationRef | None
    """The relation whose new rows are read."""
    needs: frozenset[RelationRef]
    """The relations that must have rows for the part to derive any."""
    read: tuple[RelationRef, ...]
    compiled: dict[tuple[int, ...], Compiled | None] = field(default_factory=dict)
    """The compiled functions, by the sizes of the tables."""

    @staticmethod
    def of(rule: CheckedRule, own: Collection[RelationRef], at: int | None = None) -> _Part:
        """The part for a rule of the stratum with the relations `own`. The match at `at` reads new rows."""
        body = rule if at is None else rule.reading_new(at)
        new = rule.body[at] if at is not None else None
        new_relation = new.relation if isinstance(new, Match) else None
        needs = {literal.relation for literal in rule.body if isinstance(literal, Match)} - set(own)
        read = rule.mentioned
        return _Part(rule, body, new_relation, frozenset(needs), tuple(sorted(read, key=str)))

    def compile(self, tables: Mapping[RelationRef, IndexedTable], emits: bool) -> Compiled | None:
        """The function for tables of about these sizes, rounded to powers of 8; None if the rule is too deep."""
        magnitudes = tuple([(len(tables[name].rows).bit_length() + 2) // 3 * 3 for name in self.read])
        if magnitudes in self.compiled:
            return self.compiled.get(magnitudes)
        if len(self.compiled) >= MOST_VARIANTS:
            self.compiled.clear()
        sizes = dict(zip(self.read, magnitudes, strict=True))
        try:
            compiled = compile_plan(plan(self.body, lambda name: sizes.get(name, 0)), emits)
        except TooDeepError:
            compiled = None
        self.compiled[magnitudes] = compiled
        return compiled


@dataclass(frozen=True, slots=True)
class _SplitStratum:
    """A stratum with its rules as parts: those that run once, and those that run in each round."""

    stratum: Stratum
    once: tuple[_Part, ...]
    each_round: tuple[_Part, ...]
    needs: tuple[frozenset[RelationRef], ...]
    """For each part that runs once, the relations that must have rows. Without such a part nothing is derived."""

    @staticmethod
    def of(stratum: Stratum) -> _SplitStratum:
        own = stratum.relations if stratum.recursive else ()
        once: list[_Part] = []
        each_round: list[_Part] = []
        for rule in stratum.rules:
            literals = enumerate(rule.body)
            recursive = [at for at, literal in literals if isinstance(literal, Match) and literal.relation in own]
            each_round += [_Part.of(rule, own, at) for at in recursive]
            once += [] if recursive else [_Part.of(rule, own)]
        return _SplitStratum(stratum, tuple(once), tuple(each_round), tuple(part.needs for part in once))


_SPLIT_STRATA = ProgramCache[tuple[_SplitStratum, ...]]()
"""The strata of programs with their plans."""


@dataclass(slots=True)
class _Evaluation:
    watch: Watch
    tables: dict[RelationRef, IndexedTable]
    errors: Errors
    filled: set[RelationRef] = field(default_factory=set)
    """The inputs and the relations of earlier strata that have rows."""
    failed: set[int] = field(default_factory=set)
    """The rules that met an error, by id."""
    once: bool = False
    searched: set[int] = field(default_factory=set)
    """The parts that were searched instead of compiled, by id."""

    def derive(self, stratum: _SplitStratum, by_round: bool = False) -> None:
        """Derive the rows of a stratum. With `by_round` rows of a recursive stratum are mapped to their rounds."""
        relations = stratum.stratum.relations
        for relation in relations:
            self.tables[relation] = IndexedTable()
        parts = [part for part in stratum.once if part.needs <= self.filled]
        if not stratum.stratum.recursive:
            for part in parts:
                self._run(part, self.tables[part.rule.relation].rows, None, ())
            return
        each_round = [part for part in stratum.each_round if part.needs <= self.filled]
        # usually a derived row is known and may join at once; separate rounds must not know it yet
        known = {name: {} if by_round else self.tables[name].rows for name in relations}
        last: dict[RelationRef, list[Row]] = {}
        number = 0
        while parts:
            number += 1
            derived: dict[RelationRef, list[Row]] = {name: [] for name in known}
            for part in parts:
                name = part.rule.relation
                news = last.get(part.new_relation, ()) if part.new_relation else ()
                self._run(part, known[name], derived[name].append, news)
            for name, rows in derived.items():
                if by_round:
                    self.tables[name].rows.update(dict.fromkeys(rows, number))
                self.tables[name].extend(rows)
            last = derived
            parts = [part for part in each_round if part.new_relation and last[part.new_relation]]

    def _run(self, part: _Part, known: dict[Row, None], emit: Emit | None, news: Sequence[Row]) -> None:
        """Run a part by its function, or by a search for assignments."""
        self.watch.start(part.rule, known)
        if self.once and self._is_small(part):
            try:
                self._search(part, known, emit, news, Watch(Budget(looks=FEW_LOOKS), left=FEW_LOOKS * PER_LOOK))
                self.watch.stop(self.watch.left)
                return
            except BudgetError:
                pass
        compiled = part.compile(self.tables, emit is not None)
        if compiled and not (self.errors and self._reads_errors(part.rule)):
            try:
                lookups = [access.of(self.tables[access.relation]) for access in compiled.accesses]
                watch = self.watch
                left = compiled.work(lookups, compiled.constants, known, emit, news, watch.left, watch.check)
                watch.stop(left - len(news))
                return
            except EvaluationError:
                pass
        self._search(part, known, emit, news, self.watch)
        self.watch.stop(self.watch.left)

    def _is_small(self, part: _Part) -> bool:
        """Whether the part has not run yet, and its tables have few rows."""
        if id(part) in self.searched:
            return False
        self.searched.add(id(part))
        return all(len(self.tables[name].rows) <= FEW_ROWS for name in part.read)

    def _search(
        self, part: _Part, known: dict[Row, None], emit: Emit | None, news: Sequence[Row], watch: Watch
    ) -> None:
        rows: dict[Row, None] = {}
        search = Assignments(self.tables, self.errors, watch, news=IndexedTable(news))
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

    def _reads_errors(self, rule: CheckedRule) -> bool:
        """Whether a relation inside a literal of the rule has rows in error."""
        return any(nested and match.relation in self.errors for nested, match in reads(rule.body))

    def find_errors(self, stratum: Stratum) -> None:
        """Collect the rows in error, and those that follow from them. A derived row is not in error."""
        search = Assignments(self.tables, self.errors, self.watch)
        grown = True
        while grown:
            grown = False
            for rule in stratum.rules:
                if id(rule) not in self.failed and not any(
                    match.relation in self.errors for _, match in reads(rule.body)
                ):
                    continue
                failures = {(head_row(rule, binding), cause) for binding, cause in search.of_rule(rule) if cause}
                for row, cause in failures:
                    if row in self.tables[rule.relation].rows:
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
            return error.span.file, error.span.line, row_key(error.row), error.span, str(error.relation), error.message

        return tuple(sorted(errors, key=place))
