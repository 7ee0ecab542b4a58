"""Sets of facts with their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import SECRET, ResourceId, Row, Unknown
from datalog_gate.schema.declaration import RelationRef, relation_name
from datalog_gate.stack.model import Locate, Path


class Located(Protocol):
    """A resource, stack or file that knows the places of its parts."""

    @property
    def locate(self) -> Locate: ...


Origin = tuple[Located, Path]
"""The source of a row: a resource, stack or file, and the path in it."""
StoredOrigin = Origin | Callable[[str], Located] | None
"""An origin as a fact set stores it. A function returns the resource named by the row's first value, and the path
follows from the relation and the row. Storing one function for all rows is faster than one origin for each row."""


def place_of(origin: Origin, column: str | None = None) -> Span | None:
    """The place of a row, or of one of its columns."""
    located, path = origin
    return located.locate(path if column is None else (*path, column))


@dataclass(slots=True)
class FactSet:
    """Rows by relation."""

    rows: dict[RelationRef, dict[Row, StoredOrigin]] = field(default_factory=dict)
    """Each row with its origin."""
    maybe: dict[RelationRef, dict[Row, Unknown]] = field(default_factory=dict)
    """The uncertain rows, each with the unknown that decides whether it exists.

    Such a row belongs to a resource under an undecided condition, or is the wildcard of a list of unknown extent.
    """
    hidden: dict[RelationRef, dict[Row, frozenset[int]]] = field(default_factory=dict)
    """The rows that hold values from a hidden parameter, with the columns of these values."""

    def add(self, relation: RelationRef, row: Row, origin: StoredOrigin = None, maybe: Unknown | None = None) -> None:
        """Add a row. A row keeps its first origin, and is certain if it was ever added as certain."""
        self.extend(relation, ((row, origin, maybe),))

    def extend(self, relation: RelationRef, added: Iterable[tuple[Row, StoredOrigin, Unknown | None]]) -> None:
        """Add rows, each with its origin and, if it is uncertain, the unknown that decides it."""
        rows = self.rows.setdefault(relation, {})
        uncertain = self.maybe.setdefault(relation, {})
        for row, origin, maybe in added:
            if maybe is None:
                rows.setdefault(row, origin)
                if uncertain:
                    uncertain.pop(row, None)
            elif row not in rows:
                rows[row] = origin
                uncertain[row] = maybe
        if not rows:
            del self.rows[relation], self.maybe[relation]

    def fill(self, relation: RelationRef, rows: dict[Row, StoredOrigin]) -> None:
        """Add certain rows at once."""
        if relation in self.rows:
            self.extend(relation, ((row, origin, None) for row, origin in rows.items()))
        elif rows:
            self.rows[relation], self.maybe[relation] = rows, {}

    def origin(self, relation: RelationRef, row: Row) -> Origin | None:
        """The origin of a row; None if it has none, or if there is no such row."""
        stored = self.rows.get(relation, {}).get(row)
        if stored is None or isinstance(stored, tuple):
            return stored
        assert isinstance(row[0], ResourceId)
        return stored(row[0].name), _path_of(relation, row)

    def hide(self, relation: RelationRef, row: Row, columns: Iterable[int]) -> None:
        """Mark columns of a row that hold values of a hidden parameter. References and nulls are not secrets."""
        secret = frozenset(at for at in columns if row[at] is not None and not isinstance(row[at], ResourceId))
        if secret:
            rows = self.hidden.setdefault(relation, {})
            rows[row] = rows.get(row, frozenset()) | secret

    def shown(self, relation: RelationRef, row: Row) -> Row:
        """The row with its hidden values masked, for printing."""
        columns = self.hidden.get(relation, {}).get(row)
        return tuple(SECRET if at in columns else value for at, value in enumerate(row)) if columns else row

    def __iter__(self) -> Iterator[tuple[RelationRef, Row, Origin | None]]:
        for relation, rows in self.rows.items():
            for row in rows:
                yield relation, row, self.origin(relation, row)

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.rows.values())


def _path_of(relation: RelationRef, row: Row) -> Path:
    """The path of a row whose origin is stored as a function: a resource, its properties, or an item of a list."""
    full_name = relation_name(relation)
    if full_name == "heat:resource":
        return ()
    _, _, name = full_name.partition(".")
    return ("properties", name, row[1]) if name and isinstance(row[1], int) else ("properties",)
