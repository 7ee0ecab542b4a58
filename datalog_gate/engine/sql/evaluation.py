"""Evaluates a compiled program over the facts of a database.

The answer has the rows of the wanted relations, and the roots and relations that SQL does not settle, for another
engine. These are the ones where a value did not fit its column or an expression may have failed, and those that depend
on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from sqlglot import exp

from datalog_gate.analysis.lifting import Lifted
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import Row
from datalog_gate.engine.builtins import EvaluationError, compute, holds
from datalog_gate.engine.sql.compiler import (
    NEW,
    NEXT,
    Demand,
    RuleQuery,
    SqlProgram,
    StratumQueries,
    builtin_table,
    compile_program,
)
from datalog_gate.engine.sql.database import Database
from datalog_gate.engine.sql.expressions import place_of
from datalog_gate.engine.sql.tables import ROOT, RelationTable, Representation, SqlRow, SqlValue, identifier, table_name
from datalog_gate.schema.declaration import RelationRef
from datalog_gate.schema.signatures import CALLS

Root = str | None
"""A root, or None for all."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """A value that does not fit its column and is missing in the database. With the column None, a row that may not
    exist. Columns are numbered as in the lifted relation. The root is None in a relation that is not lifted."""

    root: Root
    relation: RelationRef
    column: int | None


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """The settled rows of the wanted relations, with the root first in lifted ones."""

    rows: Mapping[RelationRef, Collection[Row]]
    unsettled: frozenset[tuple[Root, RelationRef]]
    """The roots whose rows of a wanted relation are not settled; None means every root."""
    counts: Mapping[RelationRef, Collection[tuple[Root, int]]] = field(default_factory=dict)
    """The number of rows by root, instead of rows, if only counts are requested. None is the key if not lifted."""


def evaluate(program: SqlProgram, database: Database, unfit: Iterable[Unfit] = (), counted: bool = False) -> SqlAnswer:
    """Evaluate over the tables of the inputs. An input without a table has no rows. Tables of PostgreSQL need an index
    on the root. Only temporary tables are written, and all are dropped. Rows are only counted if that is enough."""
    evaluation = _SqlEvaluation(program, database)
    try:
        evaluation.run()
        return evaluation.answer(unfit, counted)
    finally:
        evaluation.drop(*evaluation.created)


def evaluate_lifted(
    lifted: Lifted,
    wanted: frozenset[RelationRef],
    database: Database,
    facts: Mapping[RelationRef, Collection[Row]],
    unfit: Iterable[Unfit] = (),
    counted: bool = False,
) -> SqlAnswer:
    """Evaluate what these relations depend on. The `facts` hide tables of their relations for as long; see
    `evaluate`."""
    program = compile_program(lifted, wanted, database.dialect)
    with temporary_facts(lifted, facts, database, facts) as more:
        return evaluate(program, database, [*unfit, *more], counted)


def load_facts(
    lifted: Lifted,
    facts: Mapping[RelationRef, Collection[Row]],
    database: Database,
    temporary: bool = False,
    inputs: Collection[RelationRef] | None = None,
) -> list[Unfit]:
    """Store the facts of a lifted program, or of some of its inputs. Return the values that do not fit."""
    unfit: list[Unfit] = []
    for name in lifted.program.inputs if inputs is None else inputs:
        table = RelationTable.of(name, lifted.program.relations[name])
        encoded = table.encode(facts.get(name, ()))
        database.execute(table.create(temporary=temporary))
        database.insert(table.name, table.names, encoded.rows)
        for row, column in encoded.unfit:
            root = encoded.rows[row][0] if name in lifted.relations else None
            unfit.append(Unfit(str(root) if root is not None else None, name, column))
        if name in lifted.relations:
            index_roots(database, table)
    return unfit


@contextmanager
def temporary_facts(
    lifted: Lifted, facts: Mapping[RelationRef, Collection[Row]], database: Database, inputs: Iterable[RelationRef]
) -> Iterator[list[Unfit]]:
    """Store the facts of these inputs in temporary tables, which hide others. Yield the values that do not fit."""
    unfit: list[Unfit] = []
    created: list[exp.Table] = []
    try:
        for name in inputs:
            unfit += load_facts(lifted, facts, database, temporary=True, inputs=(name,))
            created.append(place_of(table_name(name)))
        yield unfit
    finally:
        for table in created:
            database.execute(exp.Drop(kind="TABLE", tables=[table]))


def index_roots(database: Database, table: RelationTable) -> None:
    """Index the roots of a table in PostgreSQL, which otherwise plans the joins badly."""
    if database.dialect == "postgres":
        place = place_of(table.name)
        index = exp.Index(table=place, params=exp.IndexParameters(columns=[exp.column(identifier(ROOT))]))
        database.execute(exp.Create(this=index, kind="INDEX"))
        database.execute(exp.Analyze(tables=[place.copy()]))


@dataclass(slots=True)
class _SqlEvaluation:
    program: SqlProgram
    database: Database
    created: list[str] = field(default_factory=list)
    """The temporary tables."""
    filled: set[RelationRef] = field(default_factory=set)
    """The relations that have rows."""
    errors: set[tuple[Root, RelationRef]] = field(default_factory=set)
    """The roots and relations in which a rule may have failed."""
    computed: dict[str, set[SqlRow]] = field(default_factory=dict)
    """The inputs for which a builtin's table has the result."""

    def run(self) -> None:
        stored = self.database.tables()
        for relation in self.program.program.inputs:
            table = self.program.tables[relation]
            if table.name not in stored:
                self.create(table)
            elif self.has_rows(table.name):
                self.filled.add(relation)
        for stratum in self.program.strata:
            self.derive(stratum)

    def derive(self, stratum: StratumQueries) -> None:
        tables = [self.program.tables[relation] for relation in stratum.relations]
        for table in tables:
            self.create(table)
        once = [query for query in stratum.once if query.needs <= self.filled]
        for query in once:
            self.run_query(query)
        changed = {query.relation for query in once}
        self.filled |= {name for name in changed if self.has_rows(self.program.tables[name].name)}
        if stratum.rounds and not self.filled.isdisjoint(stratum.relations):
            self.derive_rounds(stratum)
        for relation, table in zip(stratum.relations, tables, strict=True):
            if relation in self.filled and relation in self.program.lifted.relations:
                index_roots(self.database, table)
        for query in (*once, *stratum.recursive):
            if query.errors and query.needs <= self.filled:
                self.fill(query.demands)
                self.errors |= {(root, query.relation) for (root,) in self.database.fetch(query.errors)}

    def derive_rounds(self, stratum: StratumQueries) -> None:
        """Run the recursive rules over the new rows until there are none."""
        names = {relation: self.program.tables[relation].name for relation in stratum.relations}
        for relation in names:
            self.create(self.program.tables[relation], NEW)
            self.copy(names[relation], table_name(relation, NEW))
        new = {relation for relation in names if relation in self.filled}
        while new:
            for relation in names:
                self.create(self.program.tables[relation], NEXT)
            for query in stratum.rounds:
                if query.needs <= self.filled and query.new_relation in new:
                    self.run_query(query)
            new = {relation for relation in names if self.has_rows(table_name(relation, NEXT))}
            self.filled |= new
            for relation, name in names.items():
                self.copy(table_name(relation, NEXT), name)
                self.drop(table_name(relation, NEW))
                renamed = exp.AlterRename(this=place_of(table_name(relation, NEW)))
                self.database.execute(
                    exp.Alter(this=place_of(table_name(relation, NEXT)), kind="TABLE", actions=[renamed])
                )

    def run_query(self, query: RuleQuery) -> None:
        self.fill(query.demands)
        self.database.execute(query.insert)

    def fill(self, demands: Iterable[Demand]) -> None:
        """Compute builtins for inputs that their tables lack."""
        for demand in demands:
            table = builtin_table(demand.builtin)
            if demand.builtin not in self.computed:
                self.create(table)
                self.computed[demand.builtin] = set()
            known = self.computed[demand.builtin]
            new = [inputs for inputs in self.database.fetch(demand.query) if inputs not in known]
            if new:
                known.update(new)
                representation = table.columns[-2].representation
                rows = [(*inputs, *_compute(demand.builtin, inputs, representation)) for inputs in new]
                self.database.insert(table.name, table.names, rows)

    def create(self, table: RelationTable, role: str = "") -> None:
        statement = table.create(role, temporary=True)
        self.database.execute(statement)
        self.created.append(statement.this.this.name)

    def copy(self, source: str, target: str) -> None:
        self.database.execute(exp.Insert(this=place_of(target), expression=exp.select("*").from_(place_of(source))))

    def has_rows(self, name: str) -> bool:
        return bool(self.database.fetch(exp.select(exp.Literal.number(1)).from_(place_of(name)).limit(1)))

    def drop(self, *names: str) -> None:
        for name in names:
            self.database.execute(exp.Drop(kind="TABLE", tables=[place_of(name)], exists=True))

    def answer(self, unfit: Iterable[Unfit], counted: bool) -> SqlAnswer:
        program, lifted = self.program, self.program.lifted.relations
        unsettled: set[tuple[Root, RelationRef]] = set()
        causes = {(root, frozenset((relation,))) for root, relation in self.errors}
        causes.update((None, frozenset((relation,))) for relation in program.unsupported)
        reading: dict[tuple[RelationRef, int | None], frozenset[RelationRef]] = {}
        for value in unfit:
            key = value.relation, value.column
            if key not in reading:
                reading[key] = program.readers(*key)
            causes.add((value.root, reading[key]))
        distinct = {relations for _, relations in causes}
        dependants = {relations: program.dependants(relations) for relations in distinct}
        for root, relations in causes:
            for relation in dependants[relations]:
                unsettled.add((root if relation in lifted else None, relation))
        rows: dict[RelationRef, Collection[Row]] = {}
        counts: dict[RelationRef, Collection[tuple[Root, int]]] = {}
        for relation in program.wanted & program.tables.keys():
            if (None, relation) in unsettled:
                continue
            is_lifted = relation in lifted
            if counted:
                fetched = self.count(relation) if relation in self.filled else []
                counts[relation] = [pair for pair in fetched if (pair[0], relation) not in unsettled]
                continue
            table = program.tables[relation]
            query = exp.select(*map(exp.column, map(identifier, table.names)))
            fetched = self.database.fetch(query.from_(place_of(table.name))) if relation in self.filled else []
            decoded = table.decode(fetched)
            rows[relation] = {row for row in decoded if not is_lifted or (row[0], relation) not in unsettled}
        return SqlAnswer(rows, frozenset(unsettled), counts)

    def count(self, relation: RelationRef) -> list[tuple[Root, int]]:
        """The number of rows of each root; None stands for all."""
        table, number = self.program.tables[relation], exp.Count(this=exp.Star())
        if relation not in self.program.lifted.relations:
            return [(None, count) for (count,) in self.database.fetch(exp.select(number).from_(place_of(table.name)))]
        root = exp.column(identifier(table.names[0]))
        return self.database.fetch(exp.select(root, number).from_(place_of(table.name)).group_by(root.copy()))


def _compute(builtin: str, inputs: SqlRow, representation: Representation) -> tuple[SqlValue, bool]:
    """The result of a builtin for inputs in the form of its table, and whether it failed."""
    values = [Representation.TAGGED.decode(text or None) for text in inputs]
    try:
        if CALLS[builtin].outputs:
            return representation.encode(compute(builtin, values)), False
        return holds(builtin, values, when_unknown=False), False
    except (EvaluationError, ValueError):
        return None, True
