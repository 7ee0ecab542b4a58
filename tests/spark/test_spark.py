"""Spark finds what native, DuckDB and PostgreSQL find."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.scan import CLOUD_RULES, VARIANTS, template
from datalog_gate.decision.policy_set import PolicySet, load
from datalog_gate.engine.sql.database import Database, open_database
from datalog_gate.files.rules import read_rules
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.scan.batch import ScanRequest, judge_batch
from datalog_gate.scan.cloud_judgement import judge_cloud
from datalog_gate.scan.doubtful_stacks import StoredRow, counted
from datalog_gate.scan.feed import StackEntry
from datalog_gate.scan.scan_run import Judges, run
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.scan.spark_judgement import ExportedStore, judge_cloud_stored, judge_stacks
from datalog_gate.scan.spark_judgement import rejudge as rejudge_on_spark
from datalog_gate.scan.stored_judgement import Forecast, rejudge, sum_by_project
from datalog_gate.schema.catalogue import SHIPPED
from tests.stores.database_servers import DatabaseServer
from tests.unit.doors.cli.test_scan_command import RULES, write
from tests.unit.scan.test_rejudge import NOW, pack_stacks
from tests.unit.scan.test_scan import HUGE, NAMELESS, SMALL, ListFeed, entry, policy_set

PACKS = load(read_rules([Path("rules")]))
IS_FULL = os.environ.get("DATALOG_GATE_SPARK") == "full"
STACKS = 10_000 if IS_FULL else 200
SCALE = Path(__file__).parents[2] / "docs" / "scale.md"
NEW_RULES = """
@warn("bench.large", "{server} is large")
large(server) :- os:nova:server(_id=server, flavor="m1.large").

@warn("bench.open", "{group} is open")
open(group) :- os:neutron:security_group.rules(_id=group, remote_ip_prefix=prefix), is_string(prefix),
    cidr_host_count(prefix, n), n > 65536.
"""


def digest(rows: Sequence[object]) -> str:
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def forecasts(rows: Sequence[StoredRow], entries: Sequence[StackEntry]) -> list[Forecast]:
    """What is counted of rows by project and policy."""
    projects = {entry.root: entry.project or "" for entry in entries}
    groups: dict[tuple[str, str], Counter[str]] = {}
    for root, policy, _ in rows:
        groups.setdefault((projects.get(root, ""), policy), Counter())[root] += 1
    return [Forecast(group[0] or None, group[1], roots.total(), len(roots)) for group, roots in sorted(groups.items())]


def digests(
    entries: Sequence[StackEntry], rules: PolicySet, spark: Any, server: DatabaseServer, folder: Path
) -> dict[str, str]:
    """The digests of what each engine finds in stacks, of which each has a project of its own."""
    first, asked = ScanRequest(policy_set(), NOW), ScanRequest(rules, NOW)
    results = {}
    for name, url in (("duckdb", ":memory:"), ("postgresql", server.database("scan"))):
        with open_database(url) as database:
            store = ScanStore(database)
            run(ListFeed(entries), "test", store, Judges(first, 1), first)
            results[name] = digest(sum_by_project(rejudge(store, asked, Judges(asked, 1)), store.stacks()))
            if name == "duckdb":
                own = [finding for result in judge_batch(entries, asked).results for finding in result.findings]
                native = [*counted(judge_cloud(store, asked)), *counted(own)]
                store.export(folder)
    exported = ExportedStore(str(folder), spark, SHIPPED)
    local = [StoredRow(row.root, row.policy, row.row) for row in judge_stacks(exported, asked).collect()]
    rows = [*judge_cloud_stored(exported, asked), *local]
    assert digest(sorted(rows)) == digest(sorted(native))
    assert native
    return results | {"native": digest(forecasts(native, entries)), "spark": digest(forecasts(rows, entries))}


def test_all_engines_find_the_same_in_the_cases_of_packs(
    database: Database, server: DatabaseServer, tmp_path: Path
) -> None:
    results = digests(list(pack_stacks())[:: 1 if IS_FULL else 30], PACKS, database, server, tmp_path)
    assert results == dict.fromkeys(results, results["native"])


def test_all_engines_find_the_same_in_generated_stacks(
    database: Database, server: DatabaseServer, tmp_path: Path
) -> None:
    entries = []
    for number in range(STACKS):
        text = json.dumps(template(number % VARIANTS)).replace("NUMBER", f"{number}").replace("PAIR", f"{number // 2}")
        definition = StackDefinition(json.loads(text))
        entries.append(StackEntry(f"root-{number}", f"stack-{number // 2}", f"p{number}", definition))
    results = digests(entries, policy_set(NEW_RULES + CLOUD_RULES), database, server, tmp_path)
    assert results == dict.fromkeys(results, results["native"])


def test_a_forecast_is_that_of_the_store(database: Database, tmp_path: Path) -> None:
    asked = ScanRequest(policy_set(), NOW)
    with open_database() as duckdb:
        store = ScanStore(duckdb)
        entries = [entry("a", HUGE), entry("b", SMALL, "p2"), entry("c", NAMELESS, "p2"), entry("d", HUGE)]
        run(ListFeed(entries), "test", store, Judges(asked, 1), asked)
        store.export(tmp_path)
        expected = sum_by_project(rejudge(store, asked, Judges(asked, 1)), store.stacks())
    exported = ExportedStore(str(tmp_path), database, SHIPPED)  # type: ignore[arg-type]
    assert rejudge_on_spark(exported, asked) == expected
    assert len(expected) == 2


def test_the_commands_of_the_page_run(session: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del session  # Spark is there; the command has one of its own
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").mkdir()
    (tmp_path / "stacks").mkdir()
    (tmp_path / "rules" / "size.dl").write_text(RULES)
    write(tmp_path, "big", "huge", "vm")
    write(tmp_path, "plain", "small", "null")
    commands = re.findall(r"^datalog-gate .*", SCALE.read_text("utf-8"), re.M)
    outputs = []
    for command in commands:
        arguments = [sys.executable, "-m", "datalog_gate.doors.cli.main", *shlex.split(command)[1:]]
        result = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert result.returncode in (0, 1), result.stderr
        outputs.append(result.stdout)
    table = "project  policy  findings  stacks\n-        named          1       1\n-        size           1       1\n"
    assert outputs[1:] == [table, "", table]
