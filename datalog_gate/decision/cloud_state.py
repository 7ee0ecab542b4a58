"""An inventory, loaded for a policy set: the state of the cloud.

It is immutable and shared by decisions. When rows change, a new one is built from the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from datalog_gate.analysis.column_reads import read_columns
from datalog_gate.analysis.program import CheckedProgram, Const
from datalog_gate.analysis.slices import slice_over
from datalog_gate.analysis.strata import reads
from datalog_gate.base.diagnostics import Diagnostic, Span, closest, suggest_name
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import Row
from datalog_gate.decision.decision import read_instant
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.engine.budget import BUDGET
from datalog_gate.engine.least_model import Engine, IndexedTable, Model
from datalog_gate.engine.native import evaluate
from datalog_gate.facts.digests import Summary, summarize
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.lines import FactLine
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.cloud import relation
from datalog_gate.schema.declaration import RelationRef, certain_version, current_version, relation_name
from datalog_gate.schema.relations import EFFECTIVE, TIMELESS

Rows = Mapping[Row, Span]
READINGS, AGES = "gate:inventory", "gate:inventory_age"


class Reading(NamedTuple):
    """The state of one table in an inventory."""

    read: datetime | None
    """When its rows were read, in UTC; None if never."""
    problem: str
    """Why the last reading failed; empty if it did not."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """`rows` are rows of relations that only an inventory fills, with their places. `model` holds their tables, and
    relations that depend only on them. `added` are rows of relations that stacks also fill."""

    rules: str
    rows: Mapping[RelationRef, Rows]
    added: Mapping[RelationRef, Rows]
    model: Model
    summary: Summary
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """By table; empty for an inventory written by hand."""
    warnings: tuple[Diagnostic, ...] = ()
    """Warnings about columns that are null in every row and tables that were not read, if a rule reads them."""

    def ages(self, now: datetime) -> Iterator[tuple[str, int]]:
        """The tables, and the seconds since they were read."""
        return list_ages(self.readings, now)

    def bare(self) -> Inventory:
        """The same inventory without derived relations, for an engine that derives them itself."""
        return replace(self, model=Model({name: self.model.tables[name] for name in self.rows}))


def read_readings(lines: Iterable[FactLine]) -> dict[str, Reading]:
    """Read the state of tables from lines of facts; the older of two readings of a table counts. Errors: InputError."""
    declared = relation(READINGS)
    assert declared
    readings: dict[str, Reading] = {}
    for line in lines:
        if line.relation != READINGS:
            continue
        table, read, problem = line.typed(declared)
        try:
            time = read_instant(read) if isinstance(read, str) else None
        except ValueError:
            raise InputError([Diagnostic("bad-facts", f"{read} is not a time", line.span)]) from None
        other = readings.get(str(table))
        if other is None or (time and other.read and time < other.read):
            readings[str(table)] = Reading(time, problem if isinstance(problem, str) else "")
    return readings


def list_ages(readings: Mapping[str, Reading], now: datetime) -> Iterator[tuple[str, int]]:
    """The tables that were read, and the seconds since then."""
    return ((table, (now - time) // timedelta(seconds=1)) for table, (time, _) in readings.items() if time)


def loaded(
    rules: PolicySet,
    rows: Mapping[RelationRef, Rows],
    before: Inventory | None = None,
    readings: Mapping[str, Reading] = MappingProxyType({}),
    engine: Engine = evaluate,
) -> Inventory:
    """The inventory of these rows. Unchanged tables are shared with the one `before` it, of the same policy set;
    changed ones get the same indexes. Relations that exceed the budget are left to the decisions."""
    program = rules.program
    own = {name: rows.get(name, {}) for name in program.inputs if _fills(rules.catalogue, name)}
    added = {name: table_rows for name, table_rows in rows.items() if table_rows and name not in own}
    old = before.model if before and before.rules == rules.digest else Model()
    tables = {
        name: old.tables[name]
        if name in old.tables and old.tables[name].rows.keys() == table_rows.keys()
        else IndexedTable(dict.fromkeys(table_rows))
        for name, table_rows in own.items()
    }
    known = summarize(FactSet({name: table.rows for name, table in tables.items() if table.rows}))
    model = Model(tables)
    if not known.unknown:
        part = slice_over(program, frozenset(own))
        unchanged = _unchanged(part, tables, old)
        errors = tuple(error for error in old.errors if error.relation in unchanged)
        model = engine(part, {}, BUDGET, Model({**tables, **unchanged}, errors))
    for name, table in model.tables.items():
        if name in old.tables:
            table.index_like(old.tables[name])
    warnings = (*_null_columns(program, own), *_unread_tables(program, readings))
    return Inventory(rules.digest, own, added, model, known, readings, warnings)


def _null_columns(program: CheckedProgram, tables: Mapping[RelationRef, Rows]) -> Iterator[Diagnostic]:
    if not any(tables.values()):
        return
    for (name, at), span in read_columns(program).items():
        rows = tables.get(name)
        if not rows or any(row[at] is not None for row in rows):
            continue
        columns = [column.name for column in program.relations[relation_name(name)].columns]
        filled = [column for place, column in enumerate(columns) if any(row[place] is not None for row in rows)]
        word = columns[at].partition("_")[0]
        near = next((column for column in filled if column.partition("_")[0] == word), None)
        message = f"{name}.{columns[at]} is null in every row of the inventory: no condition on it holds"
        otherwise = f'give it a default, `{columns[at]} ?? "none"`, or collect it'
        yield Diagnostic("unfilled", message, span, f"read {near}" if near else otherwise, "warning")


def _unread_tables(program: CheckedProgram, readings: Mapping[str, Reading]) -> Iterator[Diagnostic]:
    """Warn about rules that read when a table was read, if the inventory says so only for other tables."""
    if not readings:
        return
    for match in (match for rule in program.rules for through, match in reads(rule.body) if not through):
        table = match.arguments[0] if match.relation in (AGES, READINGS) else None
        if isinstance(table, Const) and table.value not in readings:
            message = f"the inventory does not say when {table.value} was read"
            suggestion = suggest_name(closest(str(table.value), readings)) or "pull that table too"
            yield Diagnostic("unfilled", message, match.span, suggestion, "warning")


def _fills(catalogue: Catalogue, name: RelationRef) -> bool:
    """Whether only an inventory fills the relation: one of the cloud, or one that the rules declare."""
    declared = catalogue.relation(name)
    return declared is relation(str(name)) if declared else current_version(name) != EFFECTIVE.name


def comes_from_stack(catalogue: Catalogue, name: RelationRef) -> bool:
    """Whether stacks fill the relation, rather than an inventory or the request."""
    from_request = relation_name(name) in TIMELESS and relation_name(name).startswith("gate:")
    return not _fills(catalogue, certain_version(name)) and not from_request


def _unchanged(
    part: CheckedProgram, tables: Mapping[RelationRef, IndexedTable], old: Model
) -> dict[RelationRef, IndexedTable]:
    """The derived tables of the old model that depend only on unchanged tables."""
    same = {name for name, table in tables.items() if old.tables.get(name) is table}
    unchanged: dict[RelationRef, IndexedTable] = {}
    for stratum in part.strata:
        read = {match.relation for rule in stratum.rules for _, match in reads(rule.body)}
        if read <= same.union(stratum.relations) and old.tables.keys() >= set(stratum.relations):
            same.update(stratum.relations)
            unchanged.update((name, old.tables[name]) for name in stratum.relations)
    return unchanged
