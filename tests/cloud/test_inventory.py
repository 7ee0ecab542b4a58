"""A pull of a real cloud has the rows of its APIs.

`DATALOG_GATE_SERVERS` says how many servers there shall be, each with ten ports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import datalog_gate as dg
from tests.cloud.templates import NET, server, template
from tests.cloud_contents import contents
from tests.cloud_reader import BEATS, read_nova, read_tables
from tests.inventory_rules import derive_rows, sort_rows
from tests.sources import ROOT

if TYPE_CHECKING:
    from tests.cloud.rig import Cloud

SERVERS = int(os.environ.get("DATALOG_GATE_SERVERS", "20"))
MEASURED = """
import resource, sys
from datalog_gate.doors.cli.main import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def servers(cloud: Cloud) -> Iterator[list[Any]]:
    """The servers of this test."""
    with contents(cloud.admin, SERVERS) as servers:
        yield servers


def pulled(path: Path, *options: str) -> dict[str, list[dict[str, Any]]]:
    """Pull, and say what it cost. The rows by relation."""
    begin = time.monotonic()
    command = [sys.executable, "-c", MEASURED, "inventory", "pull", "--output", str(path), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    seconds, megabytes = time.monotonic() - begin, int(done.stdout)
    tables: dict[str, list[dict[str, Any]]] = {}
    for line in map(json.loads, path.read_text("utf-8").splitlines()):
        tables.setdefault(line["relation"], []).append(line["row"])
    rows = sum(map(len, tables.values()))
    print(f"pull {' '.join(options)}: {rows} rows, {seconds:.1f} s, {megabytes} MB at most")
    return tables


def differences(table: str, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[str]:
    """The rows that one side alone has."""
    skipped = BEATS if table.endswith(":services") else ()
    mine, other = (
        {json.dumps({key: value for key, value in row.items() if key not in skipped}, sort_keys=True) for row in rows}
        for rows in (ours, theirs)
    )
    return [f"{table}: {row} is not in the inventory" for row in sorted(other - mine)] + [
        f"{table}: {row} is in the inventory alone" for row in sorted(mine - other)
    ]


@pytest.mark.usefixtures("servers")
def test_each_row_is_what_the_api_says(cloud: Cloud, tmp_path: Path) -> None:
    path = tmp_path / "cloud.jsonl"
    for _ in range(3):  # a service may tell other numbers between the two readings, as Cinder of its pools each minute
        ours, theirs = pulled(path), read_tables(cloud.admin)
        wrong = [line for table, rows in theirs.items() for line in differences(table, ours.get(table, []), rows)]
        if not wrong:
            break
    assert wrong[:20] == []
    assert sorted(ours.keys() - theirs.keys()) in (["gate:inventory"], ["gate:inventory", "heat:deployments"])
    assert [table for table in theirs.keys() - ours.keys() if theirs[table]] == []
    assert sort_rows(derive_rows(path)) == sort_rows(ours)
    text = '@record("all", "{s}")\nall(s) :- nova:servers(id=s), gate:inventory(table="nova:servers").'
    policies = dg.load_rules(write_rules(tmp_path / "all.dl", text))
    assert len(policies.inventory(path).rows["nova:servers"]) == len(ours["nova:servers"])


def write_rules(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_the_next_pull_of_servers_reads_what_changed_alone(cloud: Cloud, servers: list[Any], tmp_path: Path) -> None:
    path, tables = tmp_path / "cloud.jsonl", "nova:servers,nova:servers.addresses,nova:tags"
    pulled(path, "--tables", tables)
    for changed in servers[: max(1, SERVERS // 100)]:
        cloud.admin.compute.update_server(changed.id, name=f"{changed.name}-renamed")
    ours = pulled(path, "--tables", tables)
    theirs = read_nova(cloud.admin)
    assert [line for table in tables.split(",") for line in differences(table, ours[table], theirs[table])] == []


QUOTA = """
@deny("tests.quota", "{wanted} cores are more than the {left} that the project has left")
short(wanted, left) :-
  gate:caller(project=project), nova:quotas(project_id=project, resource="cores", limit=limit, in_use=used),
  wanted = sum{ cores, server, f :
    os:nova:server(_id=server, flavor=name), nova:flavors(id=f, name=name, vcpus=cores) },
  limit != null, left = limit - used, wanted > left.
"""


def test_a_quota_in_the_inventory_denies(own_cloud: Cloud, tmp_path: Path) -> None:
    ann, path = own_cloud.users["ann"], tmp_path / "cloud.jsonl"
    assert own_cloud.folder
    rules = own_cloud.folder / "rules" / "quota.dl"
    own_cloud.admin.set_compute_quotas(ann.project, cores=3)
    try:
        pulled(path, "--tables", "nova:flavors,nova:quotas")
        rules.write_text(QUOTA)
        with own_cloud.options(f"[datalog_gate]\ninventory = {path}\n", "heat-api"):
            name, answer = ann.create(template(**NET, web=server(flavor="m1.large")))
            assert (answer.status_code, name in ann.names()) == (403, False)
            assert "tests.quota: 4 cores are more than the 3 that the project has left" in answer.text
    finally:
        rules.unlink(missing_ok=True)
        own_cloud.admin.delete_compute_quotas(ann.project)
