"""The pull of a cloud's tables, merged with the previous ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import quote

from datalog_gate.base.diagnostics import closest, suggest_name
from datalog_gate.base.errors import UsageError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.inventory.cloud_api import CloudApi, ForbiddenError, MissingError, PartialError
from datalog_gate.inventory.collector import load_collectors
from datalog_gate.inventory.snapshot import JsonRow, Snapshot, Table
from datalog_gate.inventory.table_sources import ApiList, ReadingError, TableSource, extract_rows, look_up
from datalog_gate.schema import cloud

WORKERS = 8
"""The number of concurrent requests."""
OVERLAP = timedelta(seconds=60)
"""How long before the last reading changes are requested, since clocks differ."""
WHOLE = timedelta(minutes=30)
"""The time after which all servers are read again. Nova does not report a new address or tag as a change."""
GONE = ("DELETED", "SOFT_DELETED")
"""The states of deleted servers, among changed ones."""


@dataclass(frozen=True, slots=True)
class PullResult:
    """The tables that a pull read, and those it could not read."""

    snapshot: Snapshot
    problems: Mapping[str, str]
    """Why the last reading of tables failed, by relation."""
    missing: Mapping[str, str]
    """Why this cloud does not have some tables, by relation."""

    @property
    def unread(self) -> tuple[str, ...]:
        """The tables that could not be read and have no older rows."""
        tables = self.snapshot.tables
        return tuple(name for name in self.problems if not (tables[name].read or tables[name].rows))


def pull(
    api: CloudApi,
    sources: Sequence[TableSource],
    older: Snapshot | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> PullResult:
    """Read the tables. Tables that can't be read, and all others, keep their older rows and ages."""
    older, began = older or Snapshot(), clock()
    by_list: dict[ApiList, list[TableSource]] = {}
    for source in sources:
        by_list.setdefault(source.api, []).append(source)
    parents = {listed.parents: _Reading(listed.parents) for listed in by_list if listed.parents}
    run = partial(_Reading.run, api=api)
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(run, parents.values()))
        readings = {
            listed: _plan(listed, of_list, parents, _find_since(of_list, older, began))
            for listed, of_list in by_list.items()
        }
        list(pool.map(run, chain.from_iterable(readings.values())))
    return _merge(readings, by_list, older, began)


def select_sources(patterns: Sequence[str] = ()) -> list[TableSource]:
    """The descriptions of the tables that match the names or patterns, or of all, with those that they look up. Errors:
    UsageError for a name without a match; PluginLoadError."""
    sources = {source.relation: source for collector in load_collectors().values() for source in collector.tables}
    for pattern in patterns:
        if not any(fnmatchcase(relation, pattern) for relation in sources):
            hint = suggest_name(closest(pattern, sources))
            raise UsageError(f"no collector fills {pattern}" + (f": {hint}" if hint else ""))
    names = {name for name in sources if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)}
    names |= {lookup.relation for name in names for lookup in sources[name].lookups.values()}
    return [source for name, source in sources.items() if name in names]


@dataclass(slots=True)
class _Reading:
    """The reading of a list, as a whole or for one parent, with the rows of each of its tables. Without tables its
    items are the rows of one without a name."""

    listed: ApiList
    sources: Sequence[TableSource] = ()
    parent: Mapping[str, Any] = field(default_factory=dict)
    since: datetime | None = None
    """If set, only changes since then are read."""
    rows: dict[str, list[JsonRow]] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    """The ids of the changed and deleted items."""
    problems: dict[str, str] = field(default_factory=dict)
    """Why a table can't be read, by relation."""
    missing: str = ""
    """Why the cloud lacks the list."""
    partial: str = ""
    """Why only a part of the list was read."""

    def run(self, api: CloudApi) -> None:
        """Read the list, unless an error is already known."""
        names = [source.relation for source in self.sources] or [""]
        self.rows = {name: [] for name in names}
        if self.problems or self.missing:
            return
        try:
            path = self.listed.path.format_map(_Quoted({"project": api.project, **self.parent}))
            since = f"&changes-since={self.since:%Y-%m-%dT%H:%M:%SZ}" if self.since else ""
            for item in _items(api, self.listed, path + since):
                self._extract(item)
        except MissingError as error:
            self.missing = str(error)
        except PartialError as error:
            self.partial = str(error)
        except ReadingError as error:
            self.problems = dict.fromkeys(names, str(error))

    def _extract(self, item: Any) -> None:
        if not self.sources:
            self.rows[""].append(item)
        if self.since:
            self.changed.add(str(item.get("id")))
            if item.get("status") in GONE:
                return
        for source in self.sources:
            if source.relation not in self.problems:
                try:
                    self.rows[source.relation] += extract_rows(source, item, self.parent)
                except ReadingError as error:
                    self.problems[source.relation] = str(error)


class _Quoted(dict[str, Any]):
    """The values of a path."""

    def __getitem__(self, key: str) -> str:
        return quote(str(super().__getitem__(key)), safe="")

    def __missing__(self, key: str) -> str:
        raise ReadingError(f"the answer has no {key}, which is part of the path of other requests")


def _items(api: CloudApi, listed: ApiList, path: str) -> Iterator[Any]:
    """The items of a list. Errors: ReadingError; PartialError at the end if the service returned only a part."""
    try:
        yield from _objects(api, listed, path)
    except ForbiddenError as error:
        if not listed.fallback:
            raise
        yield from _objects(api, listed, listed.fallback)
        raise PartialError(f"{error}: only the objects of project {api.project}") from None


def _objects(api: CloudApi, listed: ApiList, path: str) -> Iterator[Any]:
    """The items of all pages."""
    for page in api.pages(listed, path):
        for item in page:
            if not isinstance(item, dict):
                raise ReadingError(f"the answer of {listed.service.name} has {item!r:.100} in a list of objects")
            yield item


def _plan(
    listed: ApiList, sources: Sequence[TableSource], parents: Mapping[ApiList, _Reading], since: datetime | None
) -> list[_Reading]:
    """The readings of a list: one, or one for each parent."""
    if listed.parents is None:
        return [_Reading(listed, sources, since=since)]
    above = parents[listed.parents]
    if above.problems or above.missing:
        problems = {source.relation: above.problems[""] for source in sources} if above.problems else {}
        return [_Reading(listed, sources, problems=problems, missing=above.missing)]
    return [_Reading(listed, sources, parent, partial=above.partial) for parent in above.rows[""]]


def _find_since(sources: Sequence[TableSource], older: Snapshot, began: datetime) -> datetime | None:
    """When a list was last read, if reading only the changes since then is enough: its tables of elements, whose
    changes the service does not report, were read recently."""
    tables = [older.tables.get(source.relation) for source in sources]
    times = [table.read for table in tables if table and table.read and not table.problem]
    if not sources[0].api.changes or len(times) < max(2, len(sources)) or began - min(times) >= WHOLE:
        return None
    return max(times) - OVERLAP


def _merge(
    readings: Mapping[ApiList, Sequence[_Reading]],
    by_list: Mapping[ApiList, Sequence[TableSource]],
    older: Snapshot,
    began: datetime,
) -> PullResult:
    tables, problems, missing = dict(older.tables), dict[str, str](), dict[str, str]()
    for listed, several in readings.items():
        gone = next((reading.missing for reading in several if reading.missing), "")
        if not all(reading.missing for reading in several):
            gone = ""  # the parent was deleted since it was listed
        for source in by_list[listed]:
            name, before = source.relation, older.tables.get(source.relation)
            problem = gone or next((reading.problems[name] for reading in several if name in reading.problems), "")
            if gone and not (before and before.read):
                missing[name] = gone
            elif problem:
                tables[name] = replace(before or Table(name, (), None), problem=problem)
                problems[name] = problem
            else:
                tables[name] = _merge_table(source, several, before, began)
                if tables[name].problem:
                    problems[name] = tables[name].problem
    for source in (source for of_list in by_list.values() for source in of_list if source.lookups):
        if source.relation in tables and source.relation not in problems:
            others = {name: table.rows for name, table in tables.items()}
            rows = tuple(look_up(source, tables[source.relation].rows, others))
            tables[source.relation] = replace(tables[source.relation], rows=rows)
    return PullResult(replace(older, tables=dict(sorted(tables.items()))), problems, missing)


def _merge_table(source: TableSource, readings: Sequence[_Reading], before: Table | None, began: datetime) -> Table:
    """The rows that were read, without duplicate keys, and the older rows of items that did not change."""
    relation = cloud.relation(source.relation)
    assert relation is not None
    key = relation.key or tuple(relation.positions)
    rows: dict[tuple[object, ...], JsonRow] = {}
    changes = [reading for reading in readings if reading.since]
    read = began
    if changes and before:
        column, changed = source.item_column, set().union(*(reading.changed for reading in changes))
        kept = (row for row in before.rows if row.get(column or "") not in changed)
        rows.update((tuple(map(row.get, key)), row) for row in kept)
        read = before.read if source.each and before.read else began
    for reading in readings:
        rows.update((tuple(map(row.get, key)), row) for row in reading.rows[source.relation])
    partial_reading = next((reading.partial for reading in readings if reading.partial), "")
    return Table(source.relation, tuple(rows.values()), read, partial_reading)
