"""What an evaluation gives (layer 3): all rows of all relations, indexed on demand, and the errors it met.

The protocol of engines: a function ``evaluate(program, facts, deadline) -> Model``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.diagnostics import Span
from datalog_gate.values import Row


class Table:
    """The rows of one relation in order of arrival, with one hash index for each set of columns that was asked for."""

    __slots__ = ("_indexes", "rows")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows: dict[Row, None] = dict.fromkeys(rows)
        self._indexes: dict[tuple[int, ...], dict[Row, list[Row]]] = {}

    def add(self, row: Row) -> bool:
        """Add a row; False if it was there."""
        if row in self.rows:
            return False
        self.rows[row] = None
        for columns, index in self._indexes.items():
            index.setdefault(tuple(row[at] for at in columns), []).append(row)
        return True

    def lookup(self, columns: tuple[int, ...], key: Row) -> Collection[Row]:
        """The rows that hold `key` in `columns` (ascending positions), in order of arrival."""
        if not columns:
            return self.rows
        index = self._indexes.get(columns)
        if index is None:
            index = self._indexes[columns] = {}
            for row in self.rows:
                index.setdefault(tuple(row[at] for at in columns), []).append(row)
        return index.get(key, ())


@dataclass(frozen=True, slots=True)
class ModelError:
    """An error of one assignment: the relation and rule (place) it happened in, the message, and the head's row as far
    as it was known (None where not)."""

    relation: str
    span: Span
    message: str
    row: Row


@dataclass(slots=True)
class Model:
    """All rows by relation, and the errors in order of (file, line, row)."""

    tables: dict[str, Table] = field(default_factory=dict)
    errors: tuple[ModelError, ...] = ()

    def rows(self, relation: str) -> Collection[Row]:
        """The rows of a relation; none if it has none."""
        table = self.tables.get(relation)
        return table.rows if table else ()


class Engine(Protocol):
    """An engine. `facts` holds the rows of the program's inputs; `deadline` is a time of `time.monotonic`, or None.

    Errors: EngineError if it can't give the answer.
    """

    def __call__(
        self, program: CheckedProgram, facts: Mapping[str, Collection[Row]], deadline: float | None = None
    ) -> Model: ...
