"""A pull writes what APIs answer, and keeps what they don't."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import isfinite
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stevedore.extension import ExtensionManager

from datalog_gate.base.errors import UsageError
from datalog_gate.base.values import from_python, to_json
from datalog_gate.doors.cli.main import main
from datalog_gate.inventory.cloud_api import CloudApi
from datalog_gate.inventory.pull import PullResult, pull, select_sources
from datalog_gate.inventory.snapshot import TABLES, Snapshot, Table, parse_snapshot, snapshot_lines, write_snapshot
from datalog_gate.inventory.table_sources import ReadingError, extract_rows
from tests.inventory_cloud import read_answers, with_services
from tests.inventory_rules import derive_rows, sort_rows
from tests.pages import GOLDEN, assert_written
from tests.scripted_cloud import Cloud

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)
SERVERS = "GET /compute/v2.1/servers/detail?all_tenants=1"
PORTS = "GET /network/v2.0/ports"
PROJECTS = "GET /identity/v3/projects"
OF_SERVERS = ("nova:servers", "nova:servers.addresses", "nova:tags")


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Any:
    with with_services(monkeypatch) as running:
        yield running


def pulled(*tables: str, older: Snapshot | None = None, at: datetime = NOON, rate: float | None = None) -> PullResult:
    return pull(CloudApi(rate=rate, pause=0.001), select_sources(tables), older, lambda: at)


def rows_of(result: PullResult, relation: str) -> list[Any]:
    return [*result.snapshot.tables[relation].rows]


@pytest.mark.usefixtures("cloud")
def test_each_table_has_the_rows_of_its_list() -> None:
    result = pulled()
    assert (dict(result.problems), dict(result.missing)) == ({}, {})
    assert_written(GOLDEN / "inventory.jsonl", "".join(f"{line}\n" for line in snapshot_lines(result.snapshot)))


@pytest.mark.usefixtures("cloud")
def test_a_rule_over_each_table_derives_its_rows(tmp_path: Path) -> None:
    result = pulled()
    write_snapshot(tmp_path / "cloud.jsonl", result.snapshot)
    derived = derive_rows(tmp_path / "cloud.jsonl")
    read = {name: [dict(row) for row in table.rows] for name, table in result.snapshot.tables.items()}
    assert sorted(row["table"] for row in derived.pop(TABLES)) == sorted(read)
    assert sort_rows(derived) == sort_rows({name: rows for name, rows in read.items() if rows})


@pytest.mark.parametrize(
    ("key", "link"),
    [
        ("ports_links", [{"rel": "next", "href": "https://proxy/x/ports?limit=1000&marker=po-1"}]),
        ("next", "/v2.0/ports?limit=1000&marker=po-1"),
        ("links", {"next": "https://proxy/x/ports?limit=1000&marker=po-1", "self": "x"}),
    ],
)
def test_pages_follow_the_query_of_their_links(cloud: Cloud, key: str, link: object) -> None:
    ports = read_answers()["network/v2.0/ports"]["ports"]
    cloud.give(PORTS, {"ports": ports, key: link})
    cloud.give(f"{PORTS}?limit=1000&marker=po-1".replace("?limit=1000&", "?"), {"ports": [{**ports[0], "id": "po-2"}]})
    assert rows_of(pulled("neutronv2_qos:ports"), "neutronv2_qos:ports") == [{"id": "po-1"}, {"id": "po-2"}]


def test_what_is_busy_is_asked_again(cloud: Cloud) -> None:
    ports = read_answers()["network/v2.0/ports"]
    cloud.give(PORTS, ((503, {}, {}), (429, {}, {}), ports))
    result = pulled("neutronv2_qos:ports")
    assert (rows_of(result, "neutronv2_qos:ports"), dict(result.problems)) == ([{"id": "po-1"}], {})


def test_a_table_that_cannot_be_read_keeps_its_rows_with_their_age(cloud: Cloud) -> None:
    first = pulled("neutronv2:networks", "neutronv2_qos:ports")
    cloud.give(PORTS, {}, 500)
    second = pulled("neutronv2:networks", "neutronv2_qos:ports", older=first.snapshot, at=LATER)
    problem = "Neutron answers 500 for /ports"
    network = first.snapshot.tables["neutronv2:networks"]
    assert second == PullResult(
        Snapshot({
            "neutronv2:networks": Table("neutronv2:networks", network.rows, LATER),
            "neutronv2_qos:ports": Table("neutronv2_qos:ports", ({"id": "po-1"},), NOON, problem),
        }),
        {"neutronv2_qos:ports": problem},
        {},
    )  # fmt: skip
    assert (second.unread, pulled("neutronv2_qos:ports").unread) == ((), ("neutronv2_qos:ports",))


def test_tables_that_are_not_asked_for_stay(cloud: Cloud) -> None:
    older = Snapshot(
        {"nova:tags": Table("nova:tags", ({"server_id": "s", "tag": "t"},), NOON)}, {"limits:most": ([1],)}
    )
    result = pulled("neutronv2_qos:ports", older=older, at=LATER).snapshot
    ports = Table("neutronv2_qos:ports", ({"id": "po-1"},), LATER)
    assert result == Snapshot({"neutronv2_qos:ports": ports, **older.tables}, older.others)
    assert [request for request, _ in cloud.requests if "compute" in request] == []


def test_what_the_cloud_does_not_have_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with with_services(monkeypatch, "object-store") as cloud:
        del cloud.answers["GET /network/v2.0/qos/policies"]
        tables = ("swift:*", "neutronv2_qos:policies")
        older = Snapshot({"swift:containers": Table("swift:containers", ({"name": "logs"},), NOON)})
        new, kept = pulled(*tables), pulled(*tables, older=older, at=LATER)
    absent, policies = "the catalogue has no object-store", "Neutron answers 404 for /qos/policies"
    left_out = {"swift:objects": absent, "neutronv2_qos:policies": policies}
    assert new == PullResult(Snapshot(), {}, {"swift:containers": absent, **left_out})
    table = Table("swift:containers", ({"name": "logs"},), NOON, absent)
    assert kept == PullResult(Snapshot({"swift:containers": table}), {"swift:containers": absent}, left_out)


def test_a_member_that_went_meanwhile_has_no_rows(cloud: Cloud) -> None:
    projects = [{"id": name, "name": name, "domain_id": "d", "enabled": True} for name in ("p", "gone")]
    cloud.give(PROJECTS, {"projects": projects})
    result = pulled("nova:quotas")
    row = {"project_id": "p", "resource": "cores", "in_use": 1, "reserved": 0}
    assert (rows_of(result, "nova:quotas"), dict(result.problems)) == ([row], {})


def test_what_hangs_on_a_list_that_fails_fails_with_it(cloud: Cloud) -> None:
    cloud.give(PROJECTS, {}, 403)
    problem = "Keystone answers 403 for /projects"
    assert pulled("nova:quotas").problems == {"nova:quotas": problem}


def _as_read(number: float) -> object:
    """What a file gives again: 36028797018963970 for 3.602879701896397e+16, which as a double is two less."""
    return to_json(from_python(number)) if isfinite(number) else number


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats().map(_as_read) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
SOURCES = select_sources()
LISTS = read_answers()


@settings(deadline=None)
@given(st.data())
def test_no_field_of_any_value_is_more_than_a_problem(data: st.DataObject) -> None:
    source = data.draw(st.sampled_from(SOURCES))
    bodies = [body for path, body in LISTS.items() if source.api.key in body and source.api.key]
    entries = [entry for body in bodies for entry in body[source.api.key] if isinstance(entry, dict)]
    item = dict(data.draw(st.sampled_from(entries or [{}])))
    keys = [*item, *(key for column in source.columns for key in column.path), *source.each]
    item[data.draw(st.sampled_from(keys or [""]))] = data.draw(JSON)
    with suppress(ReadingError):
        rows = tuple(extract_rows(source, item, {"id": "p", "uuid": "rp-1", "name": "logs"}))
        snapshot = Snapshot({source.relation: Table(source.relation, rows, NOON)})
        lines = "".join(f"{line}\n" for line in snapshot_lines(snapshot)).encode()
        assert parse_snapshot(lines.decode(), "pulled") == snapshot


SERVER = read_answers()["compute/v2.1/servers/detail?all_tenants=1"]["servers"][0]


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ({**SERVER, "name": 7}, "name of nova:servers is 7, not string or null, for 's-1'"),
        ({**SERVER, "name": ["web"]}, "name of nova:servers is ['web'], not string or null, for 's-1'"),
        ({**SERVER, "id": None}, "id of nova:servers is None, not string, for None"),
        (
            {key: value for key, value in SERVER.items() if key != "hostId"},
            "host_id of nova:servers: the answer has no hostId",
        ),
        (
            {**SERVER, "flavor": "small"},
            "flavor_name of nova:servers: the answer has 'small' instead of an object with original_name",
        ),
        ("web", "the answer of Nova has 'web' in a list of objects"),
    ],
)
def test_an_unexpected_answer_is_a_problem_of_its_table(cloud: Cloud, server: object, problem: str) -> None:
    cloud.give(SERVERS, {"servers": [server]})
    result = pulled("nova:servers")
    assert (dict(result.problems), result.unread) == ({"nova:servers": problem}, ("nova:servers",))


def test_a_bad_part_of_an_item_leaves_its_other_tables_alone(cloud: Cloud) -> None:
    cloud.give(SERVERS, {"servers": [{**SERVER, "addresses": "none"}]})
    result = pulled(*OF_SERVERS)
    problem = "the answer has 'none' instead of a list"
    assert (dict(result.problems), rows_of(result, "nova:tags")) == (
        {"nova:servers.addresses": problem},
        [{"server_id": "s-1", "tag": "front"}],
    )


NO_SERVERS = "the answer of Nova for /servers/detail?all_tenants=1 has no list servers"
SAME_PAGE = {"ports": [], "ports_links": [{"rel": "next", "href": "http://x/ports?limit=1000"}]}


@pytest.mark.parametrize(
    ("asked", "body", "table", "problem"),
    [
        (SERVERS, b"<html>", "nova:tags", "Nova does not answer /servers/detail with JSON"),
        (SERVERS, [], "nova:tags", NO_SERVERS),
        (SERVERS, {"servers": {}}, "nova:tags", NO_SERVERS),
        (PORTS, SAME_PAGE, "neutronv2_qos:ports", "Neutron answers /ports with the same page again and again"),
        (PROJECTS, {"projects": [{"name": "p"}]}, "nova:quotas",
         "the answer has no id, which is part of the path of other requests"),
    ],
)  # fmt: skip
def test_a_list_that_cannot_be_read_is_a_problem(
    cloud: Cloud, asked: str, body: object, table: str, problem: str
) -> None:
    cloud.give(asked, body)
    assert pulled(table).problems == {table: problem}


def test_a_service_that_hangs_up_is_a_problem(cloud: Cloud) -> None:
    cloud.give(SERVERS, {}, 307, Location="http://127.0.0.1:9/x")
    assert pulled("nova:tags").problems.keys() == {"nova:tags"}


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({"image": ""}, {"image_id": None}),
        ({"flavor": {**SERVER["flavor"], "ram": 9}}, {"flavor_id": None, "ram": 9}),
        ({"flavor": {**SERVER["flavor"], "original_name": "gone"}}, {"flavor_id": None, "flavor_name": "gone"}),
    ],
)
def test_a_server_has_no_image_or_flavor_that_is_not_its_own(
    cloud: Cloud, server: dict[str, Any], expected: dict[str, Any]
) -> None:
    [usual] = rows_of(pulled("nova:servers"), "nova:servers")
    cloud.give(SERVERS, {"servers": [{**SERVER, **server}]})
    [row] = rows_of(pulled("nova:servers"), "nova:servers")
    assert row == {column: value for column, value in {**usual, **expected}.items() if value is not None}


def test_the_next_pull_asks_nova_for_changes_alone(cloud: Cloud) -> None:
    servers = [{**SERVER, "id": name, "name": name} for name in ("s-1", "s-2", "s-3")]
    cloud.give(SERVERS, {"servers": servers})
    first = pulled(*OF_SERVERS)
    edited = Table("nova:tags", ({"tag": "by hand"}, *rows_of(first, "nova:tags")), NOON)
    older = Snapshot({**first.snapshot.tables, "nova:tags": edited})
    changes = [{**servers[0], "name": "new", "tags": []}, {**servers[1], "status": "DELETED"}]
    cloud.give(f"{SERVERS}&changes-since=2027-03-01T11:59:00Z", {"servers": changes})
    second = pulled(*OF_SERVERS, older=older, at=LATER).snapshot
    third, first_row = rows_of(first, "nova:servers")[2], rows_of(first, "nova:servers")[0]
    addresses = rows_of(first, "nova:servers.addresses")
    tables = {
        "nova:flavors": Table("nova:flavors", tuple(rows_of(first, "nova:flavors")), LATER),
        "nova:servers": Table("nova:servers", (third, {**first_row, "name": "new"}), LATER),
        "nova:servers.addresses": Table("nova:servers.addresses", (addresses[2], addresses[0]), NOON),
        "nova:tags": Table("nova:tags", ({"tag": "by hand"}, {"server_id": "s-3", "tag": "front"}), NOON),
    }
    assert second == Snapshot(tables)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda tables: {**tables, "nova:tags": Table("nova:tags", (), NOON, "Nova answers 500")},
        lambda tables: {**tables, "nova:tags": Table("nova:tags", (), NOON - timedelta(minutes=30))},
        lambda tables: {**tables, "nova:tags": Table("nova:tags", (), None)},
        lambda tables: {name: table for name, table in tables.items() if name != "nova:servers.addresses"},
    ],
)
@pytest.mark.usefixtures("cloud")
def test_servers_are_read_whole_where_an_older_table_is_not_enough(spoil: Any) -> None:
    first = pulled(*OF_SERVERS)
    older = Snapshot(spoil(first.snapshot.tables))
    result = pulled(*OF_SERVERS, older=older, at=LATER)
    assert result == pulled(*OF_SERVERS, at=LATER)


def test_heat_gives_the_project_where_it_refuses_the_cloud(cloud: Cloud) -> None:
    stacks = read_answers()["orchestration/v1/p/stacks?show_nested=True&global_tenant=True"]["stacks"]
    own = [{key: value for key, value in stack.items() if key != "project"} for stack in stacks]
    cloud.give("GET /orchestration/v1/p/stacks?show_nested=True&global_tenant=True", {}, 403)
    cloud.give("GET /orchestration/v1/p/stacks?show_nested=True", {"stacks": own})
    cloud.give("GET /orchestration/v1/p/stacks/web/st-1/resources", {"resources": []})
    result = pulled("heat:stacks_links", "heat:resources")
    problem = "Heat answers 403 for /stacks: only the objects of project p"
    link = {"parent_key": "st-1", "href": "http://heat/v1/p2/stacks/web/st-1", "rel": "self"}
    tables = {
        "heat:resources": Table("heat:resources", (), NOON, problem),
        "heat:stacks_links": Table("heat:stacks_links", (link,), NOON, problem),
    }
    assert result == PullResult(Snapshot(tables), dict.fromkeys(("heat:stacks_links", "heat:resources"), problem), {})
    assert result.unread == ()


@pytest.mark.usefixtures("cloud")
def test_requests_keep_to_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=waits.append)
    monkeypatch.setattr("datalog_gate.inventory.cloud_api.time", clock)
    pulled("nova:services", "nova:hypervisors", "nova:aggregates", rate=2)
    assert sorted(waits) == [0.0, 0.5, 1.0]


def test_a_package_without_its_entry_points_reads_no_empty_cloud(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Any
) -> None:
    monkeypatch.setattr("sys.path", [path for path in sys.path if "-packages" not in path])
    path = tmp_path / "cloud.jsonl"
    assert main(["inventory", "pull", "--output", str(path)]) == 3
    assert (capfd.readouterr(), path.exists()) == (
        ("", "error[unreadable] nothing is installed as datalog_gate.inventory: reinstall datalog-gate\n"),
        False,
    )


def test_a_table_that_no_collector_fills_is_wrong_usage() -> None:
    with pytest.raises(UsageError) as caught:
        select_sources(["nova:server"])
    assert str(caught.value) == "no collector fills nova:server: did you mean nova:servers?"


def test_a_collector_of_what_no_inventory_has_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Any
) -> None:
    installed = tmp_path / "acme_budget-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-budget\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[datalog_gate.inventory]\nacme = acme_budget:Budget\n")
    (tmp_path / "acme_budget.py").write_text(
        "from datalog_gate.inventory.collector import Collector\n"
        "from datalog_gate.inventory.table_sources import ApiList, ApiService, table\n\n"
        "LISTED = ApiList(ApiService('Acme', 'acme'), '/list')\n\n\n"
        "class Budget(Collector):\n"
        "    tables = (table('budget:left', LISTED, 'amount'), table('nova:tags', LISTED, 'server_id label'))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", {})
    assert main(["inventory", "pull", "--output", str(tmp_path / "cloud.jsonl")]) == 3
    assert capfd.readouterr() == (
        "",
        "error[unreadable] the collector acme can't fill budget:left: it is no table of docs/inventory.md; "
        "the collector acme can't fill nova:tags: it has no column label; "
        "the collector acme can't fill nova:tags: its key tag is missing\n",
    )


def test_the_command_writes_the_file_and_names_what_it_left_out(cloud: Cloud, tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "cloud.jsonl"
    command = ["inventory", "pull", "--tables", "neutronv2_qos:*", "--output", str(path)]
    del cloud.answers["GET /network/v2.0/qos/policies"]
    assert main(command) == 0
    left_out = "left out: neutronv2_qos:policies, neutronv2_qos:rules: Neutron answers 404 for /qos/policies"
    assert capfd.readouterr() == ("", f"datalog-gate: {left_out}\n")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    [read] = {line["row"]["read"] for line in lines if line["relation"] == "gate:inventory"}
    assert [line for line in lines if line["relation"] != "gate:inventory"] == [
        {"relation": "neutronv2_qos:ports", "row": {"id": "po-1"}},
        {"relation": "neutronv2_qos:qos_policy_port_bindings", "row": {"port_id": "po-1", "qos_policy_id": "q-1"}},
    ]
    cloud.give(PORTS, {}, 403)
    assert main(command) == 0
    ages = f"neutronv2_qos:ports (of {read}), neutronv2_qos:qos_policy_port_bindings (of {read})"
    assert capfd.readouterr().err.splitlines()[1] == f"datalog-gate: {ages}: Neutron answers 403 for /ports"
    assert main([*command[:3], "neutronv2_qos:ports"]) == 3
    failed = {"table": "neutronv2_qos:ports", "read": None, "problem": "Neutron answers 403 for /ports"}
    printed = capfd.readouterr()
    assert (json.loads(printed.out), printed.err) == (
        {"relation": "gate:inventory", "row": failed},
        "datalog-gate: neutronv2_qos:ports (never read): Neutron answers 403 for /ports\n",
    )


def test_a_user_who_is_no_admin_is_warned_that_lists_may_be_short(cloud: Cloud, tmp_path: Path, capfd: Any) -> None:
    command = ["inventory", "pull", "--tables", "neutronv2:networks", "--output", str(tmp_path / "cloud.jsonl")]
    status, body, headers = cloud.answers["POST /v3/auth/tokens"]
    told = []
    for names in (["reader", "member"], ["member", "Admin"]):
        token = {**body["token"], "roles": [{"id": name, "name": name} for name in names]}  # type: ignore[index]
        cloud.answers["POST /v3/auth/tokens"] = status, {"token": token}, headers
        assert main(command) == 0
        told.append(capfd.readouterr().err)
    short = "the user has the roles member, reader, but not admin: tables may only have the objects of one project"
    assert told == [f"datalog-gate: {short}\n", ""]


def test_without_credentials_the_command_says_what_to_set(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [variable for variable in os.environ if variable.startswith("OS_")]:
        monkeypatch.delenv(name)
    assert main(["inventory", "pull"]) == 3
    assert capsys.readouterr() == (
        "",
        "error[unreadable] the cloud can't be reached with these credentials: Auth plugin requires parameters which "
        "were not given: auth_url\n  help  set OS_*, or name an entry of clouds.yaml with --cloud\n",
    )
    assert cloud.requests == []


def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "openstack.config", None)
    assert main(["inventory", "pull"]) == 3
    message = "import of openstack.config halted; None in sys.modules: install datalog-gate[inventory]"
    assert capsys.readouterr() == ("", f"error[unreadable] {message}\n")
