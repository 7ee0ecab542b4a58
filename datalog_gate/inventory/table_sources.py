"""Descriptions of tables: which API fills each column, and how.

Descriptions are data, from which docs/inventory.md is generated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite
from typing import Any

from datalog_gate.base.errors import GateError
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import from_python, kind_of
from datalog_gate.inventory.snapshot import JsonRow
from datalog_gate.schema import cloud
from datalog_gate.schema.declaration import Relation


class ReadingError(GateError):
    """The reason why a table can't be read, for operators."""


@dataclass(frozen=True, slots=True)
class ApiService:
    """A service in the catalogue of a cloud."""

    name: str
    """The name that people use."""
    type: str
    """The type in the catalogue; Keystone's libraries know its aliases."""
    version: str = ""
    microversion: str = ""
    """The microversion of each request, since answers of others have other fields."""


@dataclass(frozen=True, slots=True)
class ApiList:
    """A list in a service's API."""

    service: ApiService
    path: str
    """The path below the endpoint. `{name}` is a field of an item of `parents`, with one request for each. A path that
    begins with `..` leads out of the endpoint's project."""
    key: str = ""
    """The key of the list in the answer; without one the answer is the list, or its only item."""
    paging: str = ""
    """How to request the next page: `links` by the link in the answer, `offset` by the number of items so far, `marker`
    by the last name."""
    parents: ApiList | None = None
    fallback: str = ""
    """The path to use if the service refuses the other: only the project's own items."""
    changes: bool = False
    """Whether the service reports changes since a time."""


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """The source of a column's value."""

    column: str
    path: tuple[str, ...]
    """The keys that lead to it; empty for the element itself."""
    origin: str = ""
    """Where the path starts: the element of the table, `^` its item, `$` the parent of the request, or `@` the
    element's key with a number."""
    optional: bool = False
    """Whether it is null if the answer lacks it, which depends on API extensions and permissions."""
    conversion: str = ""


@dataclass(frozen=True, slots=True)
class Lookup:
    """The value of a column in another table, from the only row that agrees in some columns."""

    relation: str
    column: str
    agreeing: Mapping[str, str]
    """Columns of this table, by the equal columns of the other."""


@dataclass(frozen=True, slots=True)
class TableSource:
    """How a table is filled: one row for each element of each item of a list."""

    relation: str
    api: ApiList
    columns: tuple[ColumnSource, ...]
    each: tuple[str, ...] = ()
    """The keys that lead from an item to its elements: `*` is each entry of a list or map, `{}` each entry that is a
    map. If empty, the item is the element."""
    lookups: Mapping[str, Lookup] = field(default_factory=dict)

    @property
    def item_column(self) -> str | None:
        """The column with the id of the item."""
        wanted = ("^", ("id",)) if self.each else ("", ("id",))
        return next((source.column for source in self.columns if (source.origin, source.path) == wanted), None)


def table(relation: str, api: ApiList, columns: str, each: str = "", **lookups: Lookup) -> TableSource:
    """Describe a table. `columns` are separated by blanks, ``zone=OS-EXT-AZ:availability_zone``: a column with its
    path, or one word if they are the same. A path has keys separated by ``/``, an origin ``^``, ``$`` or ``@`` before
    it, and after it ``?`` if the API may lack it and ``|boolean`` for a conversion. ``.`` is the element itself."""
    return TableSource(relation, api, tuple(map(_column, columns.split())), _keys(each), lookups)


def extract_rows(source: TableSource, item: Any, parent: Mapping[str, Any]) -> Iterator[JsonRow]:
    """The rows of an item of the list. Errors: ReadingError, which names the field."""
    relation = cloud.relation(source.relation)
    assert relation is not None, source.relation
    for element, keys in _elements(item, source.each, ()):
        starts = {"": element, "^": item, "$": parent}
        row = {}
        for column in source.columns:
            name = f"{column.column} of {source.relation}"
            if column.origin == "@":
                value: Any = keys[int(column.path[0])]
            else:
                value = _value(starts[column.origin], column, name)
            if column.conversion:
                value = CONVERSIONS[column.conversion][1](value)
            if value is not None:
                row[column.column] = value
        _check(relation, row, item)
        yield row


def look_up(source: TableSource, rows: Iterable[JsonRow], others: Mapping[str, Iterable[JsonRow]]) -> list[JsonRow]:
    """The rows completed with values of other tables."""
    filled = [dict(row) for row in rows]
    for column, lookup in source.lookups.items():
        values: dict[tuple[object, ...], set[object]] = {}
        for other in others.get(lookup.relation, ()):
            values.setdefault(tuple(map(other.get, lookup.agreeing)), set()).add(other[lookup.column])
        for row in filled:
            candidates = values.get(tuple(map(row.get, lookup.agreeing.values())), set())
            row.pop(column, None)
            if len(candidates) == 1:
                [row[column]] = candidates
    return list(filled)


CONVERSIONS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "boolean": ("as a boolean", lambda value: {"true": True, "false": False}.get(str(value).lower(), value)),
    "limit": ("null for -1, which means no limit", lambda value: None if value == -1 else value),
    "state": (
        "`available` or `unavailable`",
        lambda value: ("available" if value else "unavailable") if isinstance(value, bool) else value,
    ),
}
"""Conversions of API values to those that rules read: in words, and as functions."""


def _column(text: str) -> ColumnSource:
    match = re.fullmatch(r"([^=]+?)(?:=([$@^]?)([^?|]+))?(\?)?(?:\|(\w+))?", text)
    assert match, text
    name, origin, path, optional, conversion = match.groups()
    return ColumnSource(name, _keys(path or name), origin or "", bool(optional), conversion or "")


def _keys(path: str) -> tuple[str, ...]:
    return tuple(key for key in path.split("/") if key not in ("", "."))


def _elements(value: Any, each: tuple[str, ...], keys: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The elements at the keys, each with the keys of the entries on the way. Null and missing values have none."""
    if not each:
        if value is not None:
            yield value, keys
    elif value is not None:
        key, *rest = each
        if key in ("*", "{}"):
            if not isinstance(value, dict | list):
                raise ReadingError(f"the answer has {_show(value)} instead of a list")
            for at, entry in value.items() if isinstance(value, dict) else enumerate(value):
                if key == "*" or isinstance(entry, dict):
                    yield from _elements(entry, tuple(rest), (*keys, str(at)))
        elif not isinstance(value, dict):
            raise ReadingError(f"the answer has {_show(value)} in the place of an object with {key}")
        else:
            yield from _elements(value.get(key), tuple(rest), keys)


def _value(start: Any, column: ColumnSource, name: str) -> Any:
    value = start
    for key in column.path:
        if value in (None, ""):
            return None
        if not isinstance(value, dict):
            raise ReadingError(f"{name}: the answer has {_show(value)} instead of an object with {key}")
        if key not in value:
            if column.optional:
                return None
            raise ReadingError(f"{name}: the answer has no {'.'.join(column.path)}")
        value = value[key]
    return value


def _check(relation: Relation, row: JsonRow, item: Any) -> None:
    for column in relation.columns:
        value = row.get(column.name)
        try:
            finite = not isinstance(value, float) or isfinite(value)
            fits = finite and bool(kind_of(from_python(value)) & column.kinds)
        except (TypeError, ValueError):
            fits = False
        if not fits:
            name = item.get("id", item.get("uuid", item.get("name"))) if isinstance(item, dict) else item
            message = f"{column.name} of {relation.name} is {_show(value)}, not {column.kinds.describe()}"
            raise ReadingError(f"{message}, for {_show(name)}")


def _show(value: Any) -> str:
    return repr(value)[:100]
