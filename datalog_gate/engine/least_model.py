"""Least models, the results of evaluations, and the protocol of engines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Protocol

from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import BudgetError
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import Row, Value
from datalog_gate.engine.budget import UNLIMITED, Budget
from datalog_gate.schema.declaration import RelationRef

Constants = tuple[tuple[int, Value], ...]
"""Columns with their required values."""
Index = dict[Any, list[Row]]
"""Rows by the values of some columns: a plain value for one column, a tuple for several. Keys contain no nulls."""


class IndexedTable:
    """The rows of a relation in order of arrival, the keys of `rows`, with an index for each kind of lookup."""

    __slots__ = ("_distinct", "_groups", "_indexes", "rows")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows: dict[Row, Any] = rows if isinstance(rows, dict) else dict.fromkeys(rows)
        self._groups: dict[tuple[int, ...], Index] = {}
        self._distinct: dict[tuple[Constants, tuple[int, ...]], dict[Any, None]] = {}
        self._indexes: dict[tuple[Constants, tuple[int, ...]], Index | list[Row]] = {}

    def index(self, constants: Constants, keys: tuple[int, ...]) -> Index | list[Row]:
        """The rows with these constants by the columns `keys`, without nulls; a list if there are no keys."""
        index = self._indexes.get((constants, keys))
        if index is None:
            if constants or len(keys) != 1:
                rows = self._group(constants)
                index = _fill_index({}, keys, rows) if keys else list(rows)
            else:  # reuses the groups made by lookups of a constant in this column
                index = self._grouped(keys)
                if None in index:
                    index = {key: rows for key, rows in index.items() if key is not None}
            self._indexes[constants, keys] = index
        return index

    def distinct(self, constants: Constants, columns: tuple[int, ...]) -> dict[Any, None]:
        """The distinct values of these columns in the rows with these constants; tuples for several columns."""
        if (constants, columns) not in self._distinct:
            self._distinct[constants, columns] = dict.fromkeys(map(itemgetter(*columns), self._group(constants)))
        return self._distinct[constants, columns]

    def extend(self, rows: Sequence[Row]) -> None:
        """Add rows, which are already in `rows`, to the indexes."""
        self._groups.clear()
        self._distinct.clear()
        for (constants, keys), index in self._indexes.items():
            fitting = [row for row in rows if all(row[at] == value for at, value in constants)]
            if isinstance(index, list):
                index += fitting
            else:
                _fill_index(index, keys, fitting)

    @property
    def indexed(self) -> frozenset[tuple[Constants, tuple[int, ...]]]:
        return frozenset(self._indexes)

    def index_like(self, other: IndexedTable) -> None:
        for constants, keys in other.indexed:
            self.index(constants, keys)

    def lookup(self, columns: tuple[int, ...], key: Row) -> Collection[Row]:
        """The rows that hold `key` in `columns` (ascending positions), in order of arrival."""
        if not columns:
            return self.rows
        nulls: Constants = ()
        if None in key:
            nulls = tuple((at, value) for at, value in zip(columns, key, strict=True) if value is None)
            columns = tuple(at for at, value in zip(columns, key, strict=True) if value is not None)
            key = tuple(value for value in key if value is not None)
        index = self.index(nulls, columns)
        if isinstance(index, list):
            return index
        return index.get(key[0] if len(key) == 1 else key, ())

    def _group(self, constants: Constants) -> Collection[Row]:
        if not constants:
            return self.rows
        columns, values = zip(*constants, strict=True)
        return self._grouped(columns).get(values[0] if len(values) == 1 else values, ())

    def _grouped(self, columns: tuple[int, ...]) -> Index:
        """All rows by their values in these columns, including nulls."""
        if columns not in self._groups:
            self._groups[columns] = _fill_index({}, columns, self.rows, nulls=True)
        return self._groups[columns]


def _fill_index(index: Index, keys: tuple[int, ...], rows: Collection[Row], nulls: bool = False) -> Index:
    """Add rows to the index. Rows with a null in `keys` are added only with `nulls`."""
    single = len(keys) == 1
    for key, row in zip(map(itemgetter(*keys), rows), rows, strict=True):
        if key in index:
            index[key].append(row)
        elif nulls or (key is not None if single else None not in key):
            index[key] = [row]
    return index


@dataclass(frozen=True, slots=True)
class ModelError:
    """An error of an assignment."""

    relation: RelationRef
    span: Span
    message: str
    row: Row
    """The row of the head, with `NO_VALUE` for what has no value."""


@dataclass(slots=True)
class Model:
    """The rows of all relations, without those that a budget left unfinished, and the errors in order of place."""

    tables: dict[RelationRef, IndexedTable] = field(default_factory=dict)
    errors: tuple[ModelError, ...] = ()
    exceeded: BudgetError | None = None

    def rows(self, relation: RelationRef) -> Collection[Row]:
        """The rows of a relation; empty for a missing relation."""
        table = self.tables.get(relation)
        return table.rows if table else ()


class Engine(Protocol):
    """A function that evaluates a program over the `facts` of its inputs.

    Other facts are ignored. All relations of the model `before`, inputs and derived ones, are reused unchanged. If the
    budget is exceeded, the model holds the finished relations. Errors: EngineError if the engine has no answer.
    """

    def __call__(
        self,
        program: CheckedProgram,
        facts: Mapping[RelationRef, Collection[Row]],
        budget: Budget = UNLIMITED,
        before: Model | None = None,
    ) -> Model: ...
