"""A set of facts with their places (layer 2): what an engine evaluates rules over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import SECRET, ResourceId, Row, Unknown
from datalog_gate.schema.declaration import RelationRef, relation_name
from datalog_gate.stack.model import Locate, Path


class Located(Protocol):
    """A resource, stack or file that knows where its parts were written."""

    @property
    def locate(self) -> Locate: ...


class Holder(Protocol):
    """What holds resources by name."""

    def resource(self, name: str, /) -> Located: ...


Origin = tuple[Located, Path]
"""Where a row comes from, and the path there that the row stands for."""
Kept = Origin | Holder | None
"""What is kept of a row's origin. A holder stands for one of its resources, which the row's first value names, and for
the path that the relation and the row tell."""


def place_of(origin: Origin, column: str | None = None) -> Span | None:
    """The place of a row, or of one of its columns."""
    of, path = origin
    return of.locate(path if column is None else (*path, column))


@dataclass(slots=True)
class FactSet:
    """Rows by relation. `rows` maps each row to what is kept of its origin, `maybe` the rows that may turn out not
    to be there (a row under an undecided condition, or the wildcard row of a list whose extent is unknown) to the
    unknown that decides. `hidden` maps the rows that hold what came from a hidden parameter to the columns that do."""

    rows: dict[RelationRef, dict[Row, Kept]] = field(default_factory=dict)
    maybe: dict[RelationRef, dict[Row, Unknown]] = field(default_factory=dict)
    hidden: dict[RelationRef, dict[Row, frozenset[int]]] = field(default_factory=dict)

    def add(self, relation: RelationRef, row: Row, origin: Kept = None, maybe: Unknown | None = None) -> None:
        """Add a row. A row that is there already keeps its first origin, and is certain if it was ever added so."""
        self.extend(relation, ((row, origin, maybe),))

    def extend(self, relation: RelationRef, found: Iterable[tuple[Row, Kept, Unknown | None]]) -> None:
        """Add many rows, each with its origin and what decides whether it is there."""
        rows = self.rows.setdefault(relation, {})
        uncertain = self.maybe.setdefault(relation, {})
        for row, origin, maybe in found:
            if maybe is None:
                rows.setdefault(row, origin)
                if uncertain:
                    uncertain.pop(row, None)
            elif row not in rows:
                rows[row] = origin
                uncertain[row] = maybe
        if not rows:
            del self.rows[relation], self.maybe[relation]

    def fill(self, relation: RelationRef, rows: dict[Row, Kept]) -> None:
        """Add certain rows, as `add` does, all at once."""
        if relation in self.rows:
            self.extend(relation, ((row, origin, None) for row, origin in rows.items()))
        elif rows:
            self.rows[relation], self.maybe[relation] = rows, {}

    def origin(self, relation: RelationRef, row: Row) -> Origin | None:
        """The origin of a row; None if it has none, or is not there."""
        kept = self.rows.get(relation, {}).get(row)
        if kept is None or isinstance(kept, tuple):
            return kept
        assert isinstance(row[0], ResourceId)
        return kept.resource(row[0].name), _path_of(relation, row)

    def hide(self, relation: RelationRef, row: Row, columns: Iterable[int]) -> None:
        """Note columns of a row that hold what came from a hidden parameter. A reference is the template's own, and a
        null says that there is nothing."""
        found = frozenset(at for at in columns if row[at] is not None and not isinstance(row[at], ResourceId))
        if found:
            rows = self.hidden.setdefault(relation, {})
            rows[row] = rows.get(row, frozenset()) | found

    def shown(self, relation: RelationRef, row: Row) -> Row:
        """The row as it may be printed."""
        columns = self.hidden.get(relation, {}).get(row)
        return tuple(SECRET if at in columns else value for at, value in enumerate(row)) if columns else row

    def __iter__(self) -> Iterator[tuple[RelationRef, Row, Origin | None]]:
        for relation, rows in self.rows.items():
            for row in rows:
                yield relation, row, self.origin(relation, row)

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.rows.values())


def _path_of(relation: RelationRef, row: Row) -> Path:
    """The path of a row of which a holder alone is kept: the whole resource, its properties, or an item of a list."""
    full = relation_name(relation)
    if full == "heat:resource":
        return ()
    _, _, name = full.partition(".")
    return ("properties", name, row[1]) if name and isinstance(row[1], int) else ("properties",)
