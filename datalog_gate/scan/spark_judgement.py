"""Judges an exported store by other rules, with Apache Spark.

Policies over the whole cloud are evaluated as SQL. The others are judged by the engine `native` on the executors, many
stacks at once, by their stored facts, or by their definitions if tables can't hold the facts.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from itertools import groupby, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from datalog_gate.analysis.lifting import ROOTS
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import Row, Value
from datalog_gate.decision.request import read_caller
from datalog_gate.decision.whole_cloud import CloudProgram, evaluate_together, find_cloud_program
from datalog_gate.engine.sql.evaluation import Unfit, evaluate_lifted
from datalog_gate.engine.sql.spark import Spark, open_session
from datalog_gate.engine.sql.tables import ROOT, RelationTable, Representation
from datalog_gate.scan.batch import ScanRequest, encode_row, finding_of
from datalog_gate.scan.cloud_judgement import judge_cloud
from datalog_gate.scan.code_version import facts_version
from datalog_gate.scan.doubtful_stacks import DoubtfulStack, StoredRow, counted, judge_doubts
from datalog_gate.scan.feed import StackEntry
from datalog_gate.scan.scan_store import TABLES, TEMPORARY, ScanStore, create_table
from datalog_gate.scan.store_file import open_store
from datalog_gate.scan.stored_facts import UNCERTAIN, fact_table
from datalog_gate.scan.stored_judgement import Forecast
from datalog_gate.scan.stored_program import PER_REQUEST, StoredProgram, local_policies, shared_facts
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import RelationRef

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame

FRAME_ROWS = 1000
"""The number of rows in a frame of results."""
TOGETHER = 100
"""The number of stacks in an evaluation."""
DEFINITION, APART = "", " "
"""Used instead of a relation: the definition of a stack, and the mark that tables can't hold its facts. They sort
before all relations."""
RESULT = "root string, project string, policy string, row string"
StreamRow = tuple[str, str, Sequence[str | None]]
"""Root, relation and the column values as texts; null if no rule reads the column."""


class ExportedStore(ScanStore):
    """The files of an export, as tables of Spark. They never change."""

    database: Spark

    def __init__(self, folder: str, database: Spark, catalogue: Catalogue) -> None:
        self.database, self.catalogue, self.folder = database, catalogue, folder
        for name in TABLES.keys() - {"finding"}:
            self._open(name)
        for name, columns in TEMPORARY.items():
            database.execute(create_table(name, columns, temporary=True))
        rows = database.fetch(exp.select("name", "table_name", "columns").from_("relation"))
        self._fact_tables = {name: table for name, table, _ in rows}
        self._written = {name: columns for name, _, columns in rows}

    def open_facts(self, relations: Collection[str]) -> list[str]:
        """Open the tables of relations that exist with the current columns, and return these relations."""
        names = [name for name in sorted(relations) if self.is_current(name, self._written)]
        for name in names:
            table = fact_table(name, self.catalogue)
            types = zip(table.names, (column.representation.type.sql("spark") for column in table.columns), strict=True)
            schema = [*(f"`{column}` {type_}" for column, type_ in types), "_project STRING"]
            self._open(table.name, ", ".join(schema))
        return names

    def filled(self) -> set[str]:
        """All relations with a table, or with values that tables can't hold. Searching for rows would take a job for
        each."""
        return {*self._fact_tables, *(relation for _, relation, _ in self.unfit())}

    def _open(self, name: str, schema: str = "") -> None:
        """Open a file. Unless the columns are given, it is first read to find them."""
        reader = self.database.connection.read
        reader = reader.schema(schema) if schema else reader
        self.database.show(name, reader.parquet(f"{self.folder}/{name}.parquet"))


def rejudge_store(url: str, request: ScanRequest, processes: int) -> list[Forecast]:
    """The findings of a request's rules in the folder of an export, or in a store that is exported for this. Errors:
    InputError; UsageError without PySpark or Java."""
    scheme, has_scheme, _ = url.partition("://")
    with TemporaryDirectory() as folder:
        if not (os.path.isdir(url) or (has_scheme and not scheme.startswith("postgresql"))):
            with open_store(url, request.rules.catalogue) as stored:
                stored.export(Path(folder))
            url = folder
        with open_session(processes) as session, Spark(session) as database:
            return rejudge(ExportedStore(url, database, request.rules.catalogue), request)


def rejudge(store: ExportedStore, request: ScanRequest) -> list[Forecast]:
    """The findings of a request's rules in all stacks of an export, by project and policy."""
    findings: Counter[tuple[str, str]] = Counter()
    stacks: Counter[tuple[str, str]] = Counter()
    rows = judge_cloud_stored(store, request)
    projects = {root: project for root, (_, project) in store.stacks().items()} if rows else {}
    findings.update((projects.get(row.root) or "", row.policy) for row in rows)
    stacks.update((projects.get(root) or "", policy) for root, policy in {row[:2] for row in rows})
    local = judge_stacks(store, request)
    local.createOrReplaceTempView("local")
    text = "SELECT coalesce(project, ''), policy, count(*), count(DISTINCT root) FROM local GROUP BY 1, 2"
    for project, policy, found, roots in local.sparkSession.sql(text).collect():
        findings[project, policy] += found
        stacks[project, policy] += roots
    return [
        Forecast(project or None, policy, findings[project, policy], count)
        for (project, policy), count in sorted(stacks.items())
    ]


def judge_cloud_stored(store: ExportedStore, request: ScanRequest) -> list[StoredRow]:
    """The rows of policies over the whole cloud. Those that SQL leaves open are judged here, from all their facts."""
    program = find_cloud_program(request.rules)
    if not program.policies:
        return []
    lifted, database = program.lifted, store.database
    unfit = _open_cloud_facts(store, program)
    roots = RelationTable.of(ROOTS, lifted.program.relations[ROOTS])
    database.show(roots.name, database.frame("definition").selectExpr(f"root AS `{roots.names[0]}`"))
    shared = {**shared_facts(request), **request.known_inventory.rows}
    given = {name: rows for name, rows in shared.items() if name in lifted.program.inputs}
    wanted = frozenset(policy.relation for policy in program.policies)
    answer = evaluate_lifted(lifted, wanted, database, given, unfit)
    left = {relation for _, relation in answer.unsettled}
    settled = [policy for policy in program.policies if policy.relation not in left]
    stacks = store.stacks() if any(answer.rows.get(policy.relation) for policy in settled) else {}
    asked = request.decision_request
    violations = [
        program.read_violation(policy, row, True, stacks, asked)
        for policy in settled
        for row in answer.rows.get(policy.relation, ())
    ]
    findings = [finding_of(violation, state, root, request.rules) for root, state, violation in violations]
    remaining = tuple(policy for policy in program.policies if policy.relation in left)
    if remaining:
        findings += judge_cloud(store, replace(request, rules=replace(request.rules, policies=remaining)))
    return counted(findings)


def _open_cloud_facts(store: ExportedStore, program: CloudProgram) -> list[Unfit]:
    """Open the tables of the stacks' relations, those of `all:` ones without the root and with the project. Return the
    values that they can't hold."""
    database = store.database
    for name in store.open_facts(program.columns):
        if version := program.whole.get(name):
            columns = (*fact_table(name, store.catalogue).names[1:], "_project")
            frame = database.frame(fact_table(name, store.catalogue).name)
            table = RelationTable.of(version, program.part.relations[version])
            database.show(table.name, frame.select(*columns))
    unfit = []
    for root, name, column in store.unfit():
        if name in program.columns:
            at = None if column == UNCERTAIN else fact_table(name, store.catalogue).names.index(column)
            if version := program.whole.get(name):
                unfit.append(Unfit(None, version, at - 1 if at else at))
            if version := program.own.get(name):
                unfit.append(Unfit(root, version, at))
    return unfit


def judge_stacks(store: ExportedStore, request: ScanRequest) -> DataFrame:
    """The rows of policies that judge each stack by itself, with the project of the stack."""
    from pyspark.sql import functions as f

    stored_program = StoredProgram.of(request)
    stream = store.database.frame("definition").select(
        f.col("root"),
        f.lit(DEFINITION).alias("relation"),
        f.array("name", "project", "judged_by", "entry", "caller").alias("row"),
    )
    stored = store.open_facts(stored_program.tables)
    outdated = stored_program.tables.keys() & set(store.relations()) - set(stored)
    concerned = [
        (name, column)
        for name, table in stored_program.tables.items()
        for column, at in ((UNCERTAIN, None), *zip(table.names, range(len(table.names)), strict=True))
        if name in outdated or at is None or (name, at) in stored_program.read
    ]
    pairs = store.database.connection.createDataFrame(concerned, "relation string, column string")
    apart = store.database.frame("unfit").join(f.broadcast(pairs), ["relation", "column"]).select("root").distinct()
    stream = stream.union(apart.select("root", f.lit(APART), f.array().cast("array<string>")))
    for name in stored:
        table = stored_program.tables[name]
        values = [
            f.col(f"`{column}`").cast("string") if (name, at) in stored_program.read else f.lit(None).cast("string")
            for at, column in enumerate(table.names)
        ]
        facts = store.database.frame(table.name)
        stream = stream.union(facts.select(f.col(f"`{ROOT}`"), f.lit(name), f.array(*values)).distinct())
    judge = _StackJudge(request, stored_program)
    shared = store.database.connection.sparkContext.broadcast(judge)

    def judge_partition(frames: Iterator[pandas.DataFrame]) -> Iterator[pandas.DataFrame]:
        import pandas

        rows = (row for frame in frames for row in zip(frame["root"], frame["relation"], frame["row"], strict=True))
        judged = shared.value.judge(rows)
        while batch := list(islice(judged, FRAME_ROWS)):
            yield pandas.DataFrame(batch, columns=["root", "project", "policy", "row"])

    return stream.repartition("root").sortWithinPartitions("root", "relation").mapInPandas(judge_partition, RESULT)


@dataclass(frozen=True, slots=True)
class _StackJudge:
    """Judges stacks in a worker process of Spark."""

    request: ScanRequest
    stored_program: StoredProgram

    def judge(self, stream: Iterator[StreamRow]) -> Iterator[tuple[str, str | None, str, str]]:
        """The rows of policies, as root, project, policy and row. In the stream, the rows of each stack are
        consecutive."""
        stacks = (self._read(root, list(rows)) for root, rows in groupby(stream, lambda row: row[0]))
        version = facts_version(self.request.rules.catalogue)
        everything = frozenset(local_policies(self.request.rules).values())
        left = everything - set(self.stored_program.policies.values())
        while batch := list(islice(stacks, TOGETHER)):
            known = [stack for stack in batch if stack.is_stored and stack.judged_by.startswith(version)]
            rows, failed = self._judge_together(known)
            done = {stack.root for stack in known}.difference(failed)
            doubts = [
                DoubtfulStack(StackEntry.from_json(json.loads(stack.entry)), left if stack.root in done else everything)
                for stack in batch
                if stack.root not in done or left
            ]
            rows = [row for row in rows if row.root in done] + judge_doubts(doubts, self.request)
            projects = {stack.root: stack.project for stack in batch}
            yield from ((row.root, projects[row.root], row.policy, row.row) for row in rows)

    def _read(self, root: str, rows: Sequence[StreamRow]) -> _StreamedStack:
        (_, _, (name, project, judged_by, entry, caller)), *facts = rows
        assert name is not None
        assert judged_by is not None
        assert entry is not None
        stack = _StreamedStack(root, project, judged_by, entry, True, {})
        for _, relation, values in facts:
            if relation == APART:
                return replace(stack, is_stored=False)
            rooted = self.stored_program.rooted[relation]
            columns = self.stored_program.tables[relation].columns
            row = [
                _decode(column.representation, text)
                for column, text in zip(
                    columns, [_renamed(text, rooted.get(at), root, name) for at, text in enumerate(values)], strict=True
                )
            ]
            stack.facts.setdefault(relation, []).append((root, *row[1:]))
        if self.stored_program.reads_grants and "gate:grant" in stack.facts:
            return replace(stack, is_stored=False)
        if asker := read_caller(json.loads(caller or "null")):
            stack.facts.update({str(name): [(root, *row) for row in rows] for name, rows in asker.facts.items()})
        return stack

    def _judge_together(self, stacks: Sequence[_StreamedStack]) -> tuple[list[StoredRow], Collection[str]]:
        """The rows of stacks by their facts, and the roots for which the facts do not suffice."""
        roots = {stack.root for stack in stacks}
        lifted = self.stored_program.lifted
        facts: dict[RelationRef, Collection[Row]] = {**self.stored_program.shared}
        for name in (*self.stored_program.tables, *PER_REQUEST):
            facts[name] = [row for stack in stacks for row in stack.facts.get(name, ())]
        model, failed = evaluate_together(lifted, facts, roots)
        rows = [
            StoredRow(root, policy, encode_row(own))
            for relation, policy in self.stored_program.policies.items()
            for row_root, own in (lifted.split_root(relation, row) for row in model.rows(relation))
            for root in (roots if row_root is None else (row_root,))
        ]
        return rows, failed


@dataclass(frozen=True, slots=True)
class _StreamedStack:
    root: str
    project: str | None
    judged_by: str
    entry: str
    is_stored: bool
    """Whether the stored facts are all that rules read of it."""
    facts: dict[str, list[Row]]


def _renamed(text: str | None, letter: str | None, root: str, name: str) -> str | None:
    """The text with the stack's name instead of its root, after the column's letter."""
    if text is None or letter is None:
        return text
    rooted = letter + root
    return letter + name + text[len(rooted) :] if text == rooted or text.startswith(f"{rooted}/") else text


def _decode(representation: Representation, text: str | None) -> Value:
    """The value of a column that Spark returned as text."""
    plain: Any = text
    if text is not None and representation is Representation.NUMBER:
        plain = Decimal(text)
    elif text is not None and representation is Representation.BOOLEAN:
        plain = text == "true"
    return representation.decode(plain)
