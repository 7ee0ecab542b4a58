"""The store of a scan: stacks, and their findings with history.

Times are texts in ISO 8601, UTC. A finding is open while `resolved_at` is null; one that comes back is a new row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from sqlglot import exp, parse_one

from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass, fields
from datalog_gate.base.values import Row
from datalog_gate.engine.sql.database import Database, Statement
from datalog_gate.engine.sql.tables import ROOT, RelationTable, SqlValue
from datalog_gate.files.discovery import FileRecord
from datalog_gate.scan.batch import BatchResult, Finding, StackResult, storable
from datalog_gate.scan.feed import StackEntry
from datalog_gate.scan.stored_facts import OWN, UNCERTAIN, fact_table
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import MAYBE

INCOMING = ("root", "policy", "key", "row", "level", "state", "denies", "message", "hint", "resource", "place", "cloud")
"""The columns of the findings of a run."""
_DEFINITION = (
    "root", "name", "project", "digest", "updated", "listing", "feed", "entry", "caller", "judged_by", "decision",
    "outcome", "unread", "seen",
)  # fmt: skip
_FLAGS = {"denies": "BOOLEAN", "cloud": "BOOLEAN"}
TABLES = {
    "definition": dict.fromkeys(_DEFINITION, "TEXT"),
    "finding": dict.fromkeys((*INCOMING, "first_seen", "last_seen", "resolved_at"), "TEXT") | _FLAGS,
    "relation": dict.fromkeys(("name", "table_name", "columns"), "TEXT"),
    "unfit": dict.fromkeys(("root", "relation", "column", "digest"), "TEXT"),
}
"""The tables with the types of their columns."""
FILE_TABLE = {"folder_file": dict.fromkeys(("feed", "path", "state", "digest", "names"), "TEXT") | {"own": "BOOLEAN"}}
"""The table with what a folder's files held when they were read, which is no result."""
TEMPORARY = {
    "incoming": {name: TABLES["finding"][name] for name in INCOMING},
    "named": {"root": "TEXT"},
    "listed": {"root": "TEXT", "listing": "TEXT"},
    "batch": {"root": "TEXT", "name": "TEXT"},
}
CHANGING = tuple(name for name in INCOMING if name not in ("root", "policy", "key"))
"""The columns in which a finding may change and stay the same finding."""
_ROOT_COLUMN = exp.column(ROOT, quoted=True)


@dataclass(frozen=True, slots=True)
class KnownStack:
    """The stored data of a stack."""

    digest: str
    judged_by: str
    listing: str | None


@dataclass(frozen=True, slots=True)
class StoredFinding(Finding):
    """A finding with its history."""

    stack: str | None
    """The name of the stack; None if it no longer exists, or for the whole cloud."""
    project: str | None
    first_seen: str
    last_seen: str
    resolved_at: str | None
    """When it was no longer found; None while it is open."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a long answer: rows after `after`, of some projects, or of all with None. By default everything."""

    projects: Collection[str] | None = None
    limit: int | None = None
    after: tuple[str, ...] = ()
    """The sort columns of the previous page's last row; empty for the first page."""
    root: str | None = None
    """The only root to include."""
    policy: str | None = None
    """The only policy whose findings count in a list of stacks, which has those alone that have any."""


STACK_ORDERS = {
    "root": "definition.root",
    "name": "definition.name, definition.root",
    "findings": "findings DESC, definition.root",
    "updated": "definition.updated DESC NULLS LAST, definition.root",
}
"""The orders of stacks."""
WHOLE = Page()
"""Everything, over all projects."""


class ScanStore:
    """The tables of a scan in a database. Errors of all methods: those of the database. Missing tables are created,
    unless the database is `read_only`. Then only findings and stacks are read from PostgreSQL, which has no temporary
    tables then."""

    def __init__(self, database: Database, catalogue: Catalogue = SHIPPED, read_only: bool = False) -> None:
        self.database = database
        self.catalogue = catalogue
        self._filled: set[str] = set()
        if not read_only:
            for name, columns in (TABLES | FILE_TABLE).items():
                self.database.execute(create_table(name, columns))
        if not read_only or database.dialect == "duckdb":
            for name, columns in TEMPORARY.items():
                self.database.execute(create_table(name, columns, temporary=True))
        self._fact_tables: dict[str, str] = dict(self._fetch("SELECT name, table_name FROM relation"))

    def known(self, feed: str) -> dict[str, KnownStack]:
        """The stacks of a feed by root."""
        rows = self._fetch("SELECT root, digest, judged_by, listing FROM definition WHERE feed = :feed", feed=feed)
        return {root: KnownStack(*values) for root, *values in rows}

    def file_records(self, feed: str) -> dict[str, FileRecord]:
        """The records of a folder's files by path."""
        rows = self._fetch("SELECT path, state, digest, own, names FROM folder_file WHERE feed = :feed", feed=feed)
        read = {text: json.loads(text) for text in {text for *_, text in rows}}
        names = {text: value and tuple(value) for text, value in read.items()}
        return {path: FileRecord(state, digest, own, names[text]) for path, state, digest, own, text in rows}

    def write_file_records(self, feed: str, changed: Mapping[str, FileRecord | None]) -> None:
        """Replace the records of a folder's files at these paths, or remove them."""
        changed = {path: record for path, record in changed.items() if storable(path) == path}
        with self.database.transaction():
            self._name_roots(changed)
            self._execute("DELETE FROM folder_file WHERE feed = :feed AND path IN (SELECT root FROM named)", feed=feed)
            rows = [
                (feed, path, record.state, record.digest, json.dumps(record.names), record.is_template)
                for path, record in changed.items()
                if record
            ]
            self.database.insert("folder_file", tuple(FILE_TABLE["folder_file"]), rows)

    def other_feeds(self, feed: str) -> dict[str, str]:
        """The feed of each stack of other feeds by root."""
        return dict(self._fetch("SELECT root, feed FROM definition WHERE feed <> :feed", feed=feed))

    def stacks(self) -> dict[str, tuple[str, str | None]]:
        """The name and project of each stack by root."""
        return {
            root: (name, project) for root, name, project in self._fetch("SELECT root, name, project FROM definition")
        }

    def entries(self, roots: Iterable[str]) -> list[StackEntry]:
        """The stored stacks with these roots, in order of root."""
        self._name_roots(roots)
        rows = self._fetch("SELECT entry FROM definition WHERE root IN (SELECT root FROM named) ORDER BY root")
        return [StackEntry.from_json(json.loads(entry)) for (entry,) in rows]

    def write(self, batch: BatchResult, feed: str, judged_by: str, now: str) -> None:
        """Write the result of a batch, all or nothing. Stacks that could not be judged keep their findings and
        facts."""
        with self.database.transaction():
            self._name_roots(result.entry.root for result in batch.results)
            known = self._fetch("SELECT root FROM definition WHERE root IN (SELECT root FROM named) LIMIT 1")
            self._execute("DELETE FROM definition WHERE root IN (SELECT root FROM named)")
            rows = [_definition_row(result, feed, judged_by, now) for result in batch.results]
            self.database.insert("definition", tuple(TABLES["definition"]), rows)
            judged = [result for result in batch.results if not result.unread]
            self._name_roots(result.entry.root for result in judged)
            self._merge((finding for result in judged for finding in result.findings), now, cloud=False)
            if known:  # a first run would search all tables in vain, longer with each batch
                self._delete_facts()
            for relation, facts in batch.facts.rows.items():
                table = self._fact_table(relation)
                self.database.insert(table.name, table.names, facts)
            self.database.insert(
                "unfit", tuple(TABLES["unfit"]), sorted((*place, digest) for place, digest in batch.facts.unfit.items())
            )

    def finish(self, seen: Iterable[str], gone: Iterable[str], listed: Mapping[str, str | None], now: str) -> None:
        """Write the end of a run. Findings in `seen` stacks get the current time, those in `gone` stacks are resolved.
        `listed` has the current listings of unchanged stacks."""
        with self.database.transaction():
            self._name_roots(seen)
            failing = "failing.root = finding.root AND failing.policy = finding.policy AND failing.resolved_at IS NULL"
            self._execute(
                "UPDATE finding SET last_seen = :now WHERE resolved_at IS NULL AND NOT cloud AND last_seen < :now "
                "AND root IN (SELECT root FROM named) AND (state = 'error' OR NOT EXISTS "
                f"(SELECT 1 FROM finding AS failing WHERE {failing} AND failing.state = 'error'))",
                now=now,
            )
            self._execute("UPDATE definition SET seen = :now WHERE root IN (SELECT root FROM named)", now=now)
            self._name_roots(gone)
            resolve = "UPDATE finding SET resolved_at = :now WHERE resolved_at IS NULL AND NOT cloud"
            self._execute(f"{resolve} AND root IN (SELECT root FROM named)", now=now)
            self._execute("DELETE FROM definition WHERE root IN (SELECT root FROM named)")
            self._delete_facts()
            self._execute("DELETE FROM listed")
            self.database.insert("listed", ("root", "listing"), list(listed.items()))
            self._execute(
                "UPDATE definition SET listing = listed.listing FROM listed WHERE definition.root = listed.root"
            )

    def write_cloud(self, findings: Iterable[Finding], now: str) -> None:
        """Write all findings of policies over the whole cloud."""
        with self.database.transaction():
            self._merge(findings, now, cloud=True)

    def findings(
        self, page: Page = WHOLE, policy: str | None = None, since: str | None = None, everything: bool = False
    ) -> list[StoredFinding]:
        """The open findings of a page, or with `everything` also resolved ones: of a policy, first seen `since` a time,
        in the order of policy, root, key and first time."""
        order = """policy, finding.root, finding."key", first_seen"""
        columns = ", ".join(f'finding."{column.name}"' for column in fields(Finding))
        chosen = [
            "TRUE" if everything else "resolved_at IS NULL",
            "TRUE" if policy is None else "policy = :policy",
            "TRUE" if since is None else "first_seen >= :since",
            "TRUE" if page.root is None else "finding.root = :root",
            f"({order}) > (:after_policy, :after_root, :after_key, :after_time)" if page.after else "TRUE",
        ]
        names = "after_policy", "after_root", "after_key", "after_time"
        query = _sql(
            f"SELECT {columns}, definition.name, project, first_seen, last_seen, resolved_at FROM finding "
            f"LEFT JOIN definition ON definition.root = finding.root WHERE {' AND '.join(chosen)} "
            f"ORDER BY {order}{'' if page.limit is None else ' LIMIT :number'}",
            policy=policy,
            since=since,
            root=page.root,
            number=page.limit,
            **dict(zip(names, page.after, strict=False)),
        )
        return [StoredFinding(*row) for row in self.database.fetch(filter_projects(query, page.projects))]

    def stacks_page(
        self, page: Page, outcome: str | None = None, search: str = "", sort: str = "root", skip: int = 0
    ) -> list[dict[str, Any]]:
        """The stacks of a page with the numbers of their open findings, in one of `STACK_ORDERS`, without the first
        ones. `search` is a part of their name or root, in any case."""
        names = ("root", "name", "project", "updated", "seen", "decision", "outcome", "unread")
        number = (
            "(SELECT count(*) FROM finding WHERE finding.root = definition.root AND resolved_at IS NULL "
            f"AND {'TRUE' if page.policy is None else 'policy = :policy'})"
        )
        chosen = [
            "TRUE" if page.policy is None else f"{number} > 0",
            "TRUE" if outcome is None else "outcome = :outcome",
            "TRUE" if page.root is None else "definition.root = :root",
            "strpos(lower(definition.name || ' ' || definition.root), :search) > 0" if search else "TRUE",
        ]
        query = _sql(
            f"SELECT {', '.join(f'definition.{name}' for name in names)}, {number} AS findings FROM definition "
            f"WHERE {' AND '.join(chosen)} ORDER BY {STACK_ORDERS[sort]} LIMIT :number OFFSET :skip",
            outcome=outcome,
            root=page.root,
            policy=page.policy,
            number=page.limit,
            skip=skip,
            search=search.lower(),
        )
        rows = self.database.fetch(filter_projects(query, page.projects))
        return [dict(zip((*names, "findings"), row, strict=True)) for row in rows]

    def counts(self) -> dict[tuple[str, str, bool], int]:
        """The number of open findings by level, state, and whether they deny."""
        rows = self._fetch(
            "SELECT level, state, denies, count(*) FROM finding WHERE resolved_at IS NULL GROUP BY level, state, denies"
        )
        return {(level, state, denies): count for level, state, denies, count in rows}

    def facts(self, relation: str, roots: Iterable[str] | None = None) -> Iterator[tuple[str, str | None, Row]]:
        """The rows of a relation that fit its table, for all stacks or these: root, project, row."""
        if relation not in self._fact_tables:
            return
        table = fact_table(relation, self.catalogue)
        columns = [exp.column(name, table="facts", quoted=True) for name in table.names]
        query = exp.select(*columns, exp.column("project", table="definition"))
        query = query.from_(_place(table.name).as_("facts"))
        query = query.join("definition", on=exp.column("root", table="definition").eq(columns[0]))
        if roots is not None:
            self._name_roots(roots)
            query = query.where(columns[0].isin(query=exp.select("root").from_("named")))
        rows = self.database.fetch(query)
        for row, (*_, project) in zip(table.decode(row[:-1] for row in rows), rows, strict=True):
            yield str(row[0]), project, row[1:]

    def facts_named(self, texts: Sequence[str]) -> dict[str, list[Row]]:
        """The rows of the `all:` relations that are named in texts, with the project of each stack."""
        names = {relation: f"all:{relation}" for relation in self.relations()}
        return {
            name: [(*row, project) for _, project, row in self.facts(relation)]
            for relation, name in names.items()
            if any(name in text for text in texts)
        }

    def filled(self) -> set[str]:
        """The relations in which a stack has a row, or may have one that tables can't hold."""
        filled = {relation for (relation,) in self._fetch("SELECT DISTINCT relation FROM unfit")}
        for relation, table in self._fact_tables.items():
            if relation not in filled:
                query = exp.select("1").from_(_place(table)).limit(1)
                filled |= {relation for _ in self.database.fetch(query)}
        return filled

    @contextmanager
    def with_stack_names(
        self, columns: Mapping[str, Mapping[int, str]], roots: Iterable[str], name: str | None = None
    ) -> Iterator[set[str]]:
        """Let queries see only the facts of these stacks, each as it has them by itself: by relation, these
        `rooted_columns` have its name instead of its root, or the one `name` of all. Yields the relations that are
        stored with the current columns."""
        written = dict(self._fetch("SELECT name, columns FROM relation"))
        tables = {name: fact_table(name, self.catalogue) for name in columns}
        stored = {name for name in tables if self.is_current(name, written)}
        [place] = self._fetch("SELECT current_schema(), current_database()")
        self._name_roots(roots)
        self._execute("DELETE FROM batch")
        given = "name" if name is None else ":name"
        self._execute(
            f"INSERT INTO batch SELECT root, {given} FROM definition WHERE root IN (SELECT root FROM named)", name=name
        )
        views: list[exp.Table] = []
        try:
            for name in sorted(stored):
                view = _place(tables[name].name)
                query = _with_names(tables[name], columns[name], *place)
                properties = exp.Properties(expressions=[exp.TemporaryProperty()])
                self.database.execute(exp.Create(this=view, kind="VIEW", expression=query, properties=properties))
                views.append(view)
            yield stored
        finally:
            for view in views:
                self.database.execute(exp.Drop(kind="VIEW", tables=[view.copy()]))

    def callers(self, roots: Iterable[str]) -> list[tuple[str, dict[str, object] | None]]:
        """The users who requested these stacks, or else their projects, as `read_caller` reads them."""
        self._name_roots(roots)
        rows = self._fetch("SELECT root, caller FROM definition WHERE root IN (SELECT root FROM named)")
        return [(root, json.loads(caller)) for root, caller in rows]

    def is_current(self, relation: str, written: Mapping[str, str]) -> bool:
        """Whether a relation is stored with the current columns."""
        return written.get(relation) == _format_columns(fact_table(relation, self.catalogue))

    def outdated(self, version: str) -> set[str]:
        """The stacks whose facts were stored by another version."""
        rows = self._fetch("SELECT root FROM definition WHERE NOT starts_with(judged_by, :version)", version=version)
        return {root for (root,) in rows}

    def relations(self) -> list[str]:
        """The relations that have tables."""
        return sorted(name for name in self._fact_tables if not name.endswith(MAYBE))

    def export(self, folder: Path) -> list[str]:
        """Write each table as a Parquet file, facts with the project and the last update of their stack. Returns the
        names. Errors: InputError for a store that is not DuckDB; those of the database."""
        if self.database.dialect != "duckdb":
            raise InputError.of("only a store of DuckDB can be exported")
        folder.mkdir(parents=True, exist_ok=True)
        queries: dict[str, exp.Select] = {name: exp.select("*").from_(name) for name in TABLES}
        for name in self._fact_tables.values():
            facts = _place(name).as_("facts")
            project, updated = (exp.column(column, table="definition") for column in ("project", "updated"))
            same = exp.column("root", table="definition").eq(exp.column(ROOT, table="facts", quoted=True))
            query = exp.select("facts.*", project.as_("_project"), updated.as_("_updated"))
            queries[name] = query.from_(facts).join("definition", on=same)
        for name, query in queries.items():
            target = exp.Literal.string(str(folder / f"{name}.parquet"))
            form = exp.CopyParameter(this=exp.var("FORMAT"), expression=exp.var("PARQUET"))
            self.database.execute(exp.Copy(this=query.subquery(), kind=False, files=[target], params=[form]))
        return sorted(queries)

    def unfit(self, relations: Collection[str] | None = None) -> set[tuple[str, str, str]]:
        """Root, relation and column of values that tables can't hold, in these relations or in all. The column is empty
        for rows that may not exist."""
        query = exp.select("root", "relation", exp.column("column", quoted=True)).from_("unfit")
        if relations is not None:
            query = query.where(exp.column("relation").isin(*relations) if relations else exp.false())
        return set(self.database.fetch(query))

    def facts_alike(
        self, columns: Mapping[str, Collection[int]], rooted: Mapping[str, Mapping[int, str]], roots: Iterable[str]
    ) -> dict[str, list[tuple[object, ...]]]:
        """What these stacks have in columns of relations, by root, so that stacks whose facts differ in their names
        alone have the same: values with "" instead of the root, and the digests of those that tables can't hold. Stacks
        without such a digest are left out."""
        alike: dict[str, list[tuple[object, ...]]] = {root: [] for root in roots}
        tables = {name: fact_table(name, self.catalogue) for name in columns}
        with self.with_stack_names(rooted, alike, "") as stored:
            for name in stored:
                chosen = [exp.column(tables[name].names[at], quoted=True) for at in (0, *columns[name])]
                for root, *values in self.database.fetch(exp.select(*chosen).from_(_place(tables[name].name))):
                    alike[root].append((name, *values))
            read = {(name, tables[name].names[at]) for name in columns for at in columns[name]}
            unfit = exp.select("root", "relation", exp.column("column", quoted=True), "digest").from_("unfit")
            unfit = unfit.where(exp.column("root").isin(query=exp.select("root").from_("named")))
            for root, name, column, digest in self.database.fetch(unfit):
                if root in alike and ((name, column) in read or (name in columns and column == UNCERTAIN)):
                    alike[root].append((name, column, digest))
                    if digest == OWN:
                        del alike[root]
        return alike

    def digest(self) -> str:
        """The digest of all stored data, in any order."""
        parts = []
        for name in (*TABLES, *sorted(self._fact_tables.values())):
            rows = self.database.fetch(exp.select("*").from_(_place(name)))
            parts.append(sorted(json.dumps(row, default=str) for row in map(list, rows)))
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _name_roots(self, roots: Iterable[str]) -> None:
        """Select these roots for the next statements."""
        self._execute("DELETE FROM named")
        self.database.insert("named", ("root",), [(root,) for root in dict.fromkeys(roots)])

    def _delete_facts(self) -> None:
        """Delete the facts of the stacks in `named`."""
        for name in self._fact_tables.values():
            self.database.execute(_deletion(self.database.dialect, name))
        self._execute("DELETE FROM unfit WHERE root IN (SELECT root FROM named)")

    def _fact_table(self, relation: str) -> RelationTable:
        """The table of a relation. A run creates it, or adds missing columns, when it first fills it."""
        table = fact_table(relation, self.catalogue)
        if relation in self._filled:
            return table
        written = _format_columns(table)
        [(present,)] = self._fetch("SELECT max(columns) FROM relation WHERE name = :name", name=relation) or [(None,)]
        if present is None:
            self.database.execute(table.create())
            if self.database.dialect == "postgres":
                parameters = exp.IndexParameters(columns=[exp.Ordered(this=_ROOT_COLUMN)])
                index = exp.Index(table=_place(table.name), params=parameters)
                self.database.execute(exp.Create(this=index, kind="INDEX"))
        elif present != written:
            self._widen(table, json.loads(present))
        self._execute("DELETE FROM relation WHERE name = :name", name=relation)
        self.database.insert("relation", tuple(TABLES["relation"]), [(relation, table.name, written)])
        self._fact_tables[relation] = table.name
        self._filled.add(relation)
        return table

    def _widen(self, table: RelationTable, present: Mapping[str, str]) -> None:
        """Add missing columns to the table. A column of another type is created anew: a run with another catalogue
        reads all stacks again."""
        for column in table.columns:
            type_ = column.representation.type
            name = exp.to_identifier(column.name, quoted=True)
            actions: list[exp.Expression] = []
            if present.get(column.name) not in (None, type_.sql()):
                actions.append(exp.Drop(this=exp.Column(this=name), kind="COLUMN"))
            if present.get(column.name) != type_.sql():
                actions.append(exp.ColumnDef(this=name, kind=type_))
            for action in actions:
                alter = exp.Alter(this=_place(table.name), kind="TABLE", actions=[action])
                self.database.execute(alter)

    def _merge(self, findings: Iterable[Finding], now: str, cloud: bool) -> None:
        """Merge the findings in the stacks of `named`, or in the cloud, with the open ones."""
        values = attrgetter(*INCOMING[:-1])
        rows = [(*values(finding), cloud) for finding in findings]
        self._execute("DELETE FROM incoming")
        self.database.insert("incoming", INCOMING, rows)
        changes = ", ".join(f'"{name}" = incoming."{name}"' for name in CHANGING)
        open_ = "finding.resolved_at IS NULL AND finding.cloud = :cloud"
        equal = " AND ".join(f'incoming."{name}" = finding."{name}"' for name in ("root", "policy", "key"))
        equal = f"{open_} AND {equal}"
        self._execute(
            f"UPDATE finding SET last_seen = :now, {changes} FROM incoming WHERE {equal}", now=now, cloud=cloud
        )
        columns = ", ".join(f'incoming."{name}"' for name in INCOMING)
        self._execute(
            f"INSERT INTO finding SELECT {columns}, :now, :now, NULL FROM incoming "
            f"WHERE NOT EXISTS (SELECT 1 FROM finding WHERE {equal})",
            now=now,
            cloud=cloud,
        )
        where = "" if cloud else "AND root IN (SELECT root FROM named)"
        failing = "incoming.policy = finding.policy AND incoming.state = 'error'"
        failing += "" if cloud else " AND incoming.root = finding.root"
        self._execute(
            f"UPDATE finding SET resolved_at = :now WHERE {open_} {where} "
            f"AND NOT EXISTS (SELECT 1 FROM incoming WHERE ({equal}) OR ({failing}))",
            now=now,
            cloud=cloud,
        )

    def _execute(self, text: str, **values: SqlValue) -> None:
        self.database.execute(_statement(self.database.dialect, text, **values))

    def _fetch(self, text: str, **values: SqlValue) -> list[tuple[Any, ...]]:
        return self.database.fetch(_statement(self.database.dialect, text, **values))


def filter_projects(query: exp.Expr, projects: Collection[str] | None) -> exp.Expr:
    """The query restricted to rows of these projects."""
    assert isinstance(query, exp.Select)
    if projects is None:
        return query
    column = exp.column("project", table="definition")
    return query.where(column.isin(*projects) if projects else exp.false())


def _place(name: str) -> exp.Table:
    return exp.table_(name, quoted=True)


def _format_columns(table: RelationTable) -> str:
    """The columns of a table with their types, as the store records them."""
    return json.dumps({column.name: column.representation.type.sql() for column in table.columns})


def _with_names(table: RelationTable, columns: Mapping[int, str], schema: str, catalog: str) -> exp.Select:
    """The rows of a stored table, with the stack's name instead of its root in some columns, after the column's
    letter."""
    root, name = exp.column(ROOT, table="facts", quoted=True), exp.column("name", table="batch")
    chosen: list[exp.Expr] = []
    for at, column in enumerate(table.names):
        value = exp.column(column, table="facts", quoted=True)
        if at in columns:
            letter = exp.Literal.string(columns[at])
            rooted = exp.DPipe(this=letter, expression=root)
            length = exp.Length(this=rooted)
            begin = exp.Substring(this=value, start=exp.Literal.number(1), length=length + 1)
            own = value.eq(rooted).or_(begin.eq(exp.DPipe(this=rooted, expression=exp.Literal.string("/"))))
            rest = exp.Substring(this=value, start=length + 1)
            named = exp.DPipe(this=exp.DPipe(this=letter, expression=name), expression=rest)
            chosen.append(exp.Case().when(own, named).else_(value).as_(column, quoted=True))
        else:
            chosen.append(value)
    facts = exp.table_(table.name, db=schema, catalog=catalog, quoted=True)
    same = exp.column("root", table="batch").eq(root)
    return exp.select(*chosen).from_(facts.as_("facts")).join("batch", on=same)


def _definition_row(result: StackResult, feed: str, judged_by: str, now: str) -> tuple[SqlValue, ...]:
    entry = result.entry
    return (
        entry.root,
        entry.name,
        entry.project,
        entry.digest,
        entry.updated,
        entry.listing,
        feed,
        json.dumps(entry.to_json(), default=str),
        json.dumps(entry.asker),
        "" if result.unread else judged_by,
        result.decision,
        result.outcome,
        result.unread,
        now,
    )


def create_table(name: str, columns: Mapping[str, str], temporary: bool = False) -> exp.Expression:
    """The statement that creates a table if it does not exist."""
    definitions = [
        exp.ColumnDef(this=exp.to_identifier(column, quoted=True), kind=exp.DataType.build(of))
        for column, of in columns.items()
    ]
    properties = exp.Properties(expressions=[exp.TemporaryProperty()]) if temporary else None
    schema = exp.Schema(this=exp.to_table(name), expressions=definitions)
    return exp.Create(this=schema, kind="TABLE", exists=True, properties=properties)


def _sql(text: str, **values: SqlValue) -> exp.Expression:
    """A statement from the code, with values for `:name` parameters."""
    statement = exp.replace_placeholders(_parsed(text).copy(), **values)
    assert isinstance(statement, exp.Expression)
    return statement


@lru_cache(500, typed=True)
def _statement(dialect: str, text: str, /, **values: SqlValue) -> Statement:
    """A statement of `_sql` prepared for the database. Cached, since a run repeats most of them with each batch."""
    tree = _sql(text, **values)
    return Statement(tree.sql(dialect), tree)


@lru_cache(2000)
def _deletion(dialect: str, table: str) -> Statement:
    """The statement that deletes the facts of the stacks in `named`."""
    tree = exp.delete(_place(table)).where(_ROOT_COLUMN.isin(query=exp.select("root").from_("named")))
    return Statement(tree.sql(dialect), tree)


@cache
def _parsed(text: str) -> exp.Expr:
    return parse_one(text, read="duckdb")
