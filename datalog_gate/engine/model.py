"""What an evaluation gives (layer 3): all rows of all relations, indexed on demand, and the errors it met.

The protocol of engines: a function ``evaluate(program, facts, budget, before) -> Model``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Protocol

from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import BudgetError
from datalog_gate.base.values import Row, Value
from datalog_gate.engine.budget import UNLIMITED, Budget

Constants = tuple[tuple[int, Value], ...]
"""Columns and what they hold."""
Index = dict[Any, list[Row]]
"""Rows by the values of some columns: one value as it is, several as a tuple. No key holds a null."""


class Table:
    """The rows of one relation in order of arrival, with an index for each way in which they are looked up. The keys of
    `rows` are the rows; what they lead to is of no concern here."""

    __slots__ = ("_distinct", "_groups", "_indexes", "rows")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows: dict[Row, Any] = rows if isinstance(rows, dict) else dict.fromkeys(rows)
        self._groups: dict[tuple[int, ...], Index] = {}
        self._distinct: dict[tuple[Constants, tuple[int, ...]], dict[Any, None]] = {}
        self._indexes: dict[tuple[Constants, tuple[int, ...]], Index | list[Row]] = {}

    def index(self, constants: Constants, keys: tuple[int, ...]) -> Index | list[Row]:
        """The rows with these constants by their `keys`, without those that hold a null there; a list if there are no
        keys. Threads may ask at the same time: two make the same."""
        found = self._indexes.get((constants, keys))
        if found is None:
            rows = self._group(constants)
            if not keys:
                found = list(rows)
            elif constants or len(keys) > 1:
                found = _filled({}, keys, rows)
            else:
                whole = self._grouped(keys)
                found = {key: some for key, some in whole.items() if key is not None} if None in whole else whole
            self._indexes[constants, keys] = found
        return found

    def distinct(self, constants: Constants, columns: tuple[int, ...]) -> dict[Any, None]:
        """What the rows with these constants hold in some columns, each once: one value as it is, several a tuple."""
        found = self._distinct.get((constants, columns))
        if found is None:
            found = dict.fromkeys(map(itemgetter(*columns), self._group(constants)))
            self._distinct[constants, columns] = found
        return found

    def extend(self, rows: Sequence[Row]) -> None:
        """Put rows that are among `rows` already into the indexes too."""
        self._groups.clear()
        self._distinct.clear()
        for (constants, keys), index in self._indexes.items():
            some = [row for row in rows if all(row[at] == value for at, value in constants)]
            if isinstance(index, list):
                index += some
            else:
                _filled(index, keys, some)

    @property
    def indexed(self) -> frozenset[tuple[Constants, tuple[int, ...]]]:
        """The indexes that there are: constants, and columns."""
        return frozenset(self._indexes)

    def index_like(self, other: Table) -> None:
        """Make the indexes that the other table has."""
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

    def _group(self, constants: Constants) -> Iterable[Row]:
        """The rows with these constants."""
        if not constants:
            return self.rows
        values = tuple(value for _, value in constants)
        return self._grouped(tuple(at for at, _ in constants)).get(values[0] if len(values) == 1 else values, ())

    def _grouped(self, columns: tuple[int, ...]) -> Index:
        """All rows by what they hold in these columns, nulls too."""
        found = self._groups.get(columns)
        if found is None:
            found = self._groups[columns] = _filled({}, columns, self.rows, nulls=True)
        return found


def _filled(index: Index, keys: tuple[int, ...], rows: Iterable[Row], nulls: bool = False) -> Index:
    """The index with these rows too; those that hold a null in `keys` only with `nulls`."""
    if len(keys) == 1:
        (at,) = keys
        for row in rows:
            key = row[at]
            if key in index:
                index[key].append(row)
            elif nulls or key is not None:
                index[key] = [row]
        return index
    take = itemgetter(*keys)
    for row in rows:
        key = take(row)
        if key in index:
            index[key].append(row)
        elif nulls or None not in key:
            index[key] = [row]
    return index


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
    """All rows by relation, and the errors in order of (file, line, row). `exceeded` says that the budget ended the
    evaluation: relations are missing then, and none has but a part of its rows."""

    tables: dict[str, Table] = field(default_factory=dict)
    errors: tuple[ModelError, ...] = ()
    exceeded: BudgetError | None = None

    def rows(self, relation: str) -> Collection[Row]:
        """The rows of a relation; none if it has none."""
        table = self.tables.get(relation)
        return table.rows if table else ()


class Engine(Protocol):
    """An engine. `facts` holds the rows of the program's inputs, and maybe of others that nobody reads. What the model
    `before` has, inputs and derived relations, is taken over as it is. Past the budget the model holds what is whole.

    Errors: EngineError if the engine can't give the answer.
    """

    def __call__(
        self,
        program: CheckedProgram,
        facts: Mapping[str, Collection[Row]],
        budget: Budget = UNLIMITED,
        before: Model | None = None,
    ) -> Model: ...
