"""A pull of a real cloud has what its APIs list.

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


def listed_ids(cloud: Any) -> dict[str, set[Any]]:
    """The ids of all objects as openstacksdk lists them, by table."""
    compute, network, volumes, identity = cloud.compute, cloud.network, cloud.block_storage, cloud.identity
    lists = {
        "nova:servers": compute.servers(details=True, all_projects=True),
        "nova:flavors": compute.flavors(details=True, is_public=None),
        "nova:aggregates": compute.aggregates(),
        "nova:server_groups": compute.server_groups(all_projects=True),
        "neutronv2:networks": network.networks(),
        "neutronv2:ports": network.ports(),
        "neutronv2:subnets": network.subnets(),
        "neutronv2:routers": network.routers(),
        "neutronv2:security_groups": network.security_groups(),
        "neutronv2:security_group_rules": network.security_group_rules(),
        "neutronv2:address_groups": network.address_groups(),
        "neutronv2:floating_ips": network.ips(),
        "cinder:volumes": volumes.volumes(all_projects=True),
        "cinder:snapshots": volumes.snapshots(all_projects=True),
        "cinder:types": volumes.types(is_public=None),
        "keystonev3:projects": identity.projects(),
        "keystonev3:users": identity.users(),
        "keystonev3:groups": identity.groups(),
        "glancev2:images": cloud.image.images(),
        "nova_placement:resource_providers": cloud.placement.resource_providers(),
    }
    return {table: {item.id for item in items} for table, items in lists.items()}


WITHIN = (
    "nova:servers.addresses", "nova:tags", "nova:flavors.extra_specs", "nova:aggregates.hosts",
    "nova:aggregates.metadata", "nova:server_groups.members", "nova:quotas", "neutronv2:fixed_ips",
    "neutronv2:security_group_port_bindings", "neutronv2:allocation_pools", "neutronv2:dns_nameservers",
    "neutronv2:host_routes", "neutronv2:address_groups.addresses", "neutronv2:quotas", "cinder:attachments",
    "cinder:types.extra_specs", "cinder:pools", "cinder:quotas", "keystonev3:group_users",
    "keystonev3:role_assignments", "glancev2:tags", "nova_placement:inventories", "heat:stacks", "heat:stacks_links",
    "heat:resources",
)  # fmt: skip
"""Tables of what is within those objects, which this test fills."""


@pytest.mark.usefixtures("servers")
def test_each_list_is_read_whole(cloud: Cloud, tmp_path: Path) -> None:
    path = tmp_path / "cloud.jsonl"
    ours, theirs = pulled(path), listed_ids(cloud.admin)
    assert {table: {row["id"] for row in ours.get(table, ())} for table in theirs} == theirs
    assert [table for table in WITHIN if not ours.get(table)] == []
    assert [row for row in ours["gate:inventory"] if row["table"] in theirs and row.get("problem")] == []
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
    for renamed in servers[: max(1, SERVERS // 100)]:
        cloud.admin.compute.update_server(renamed.id, name=f"{renamed.name}-renamed")
    changed, whole = (pulled(file, "--tables", tables) for file in (path, tmp_path / "whole.jsonl"))
    assert sort_rows({table: changed[table] for table in tables.split(",")}) == sort_rows(
        {table: whole[table] for table in tables.split(",")}
    )


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
