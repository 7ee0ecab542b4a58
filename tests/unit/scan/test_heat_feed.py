"""A feed of Heat's API, with scripted answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from datalog_gate.base.errors import InputError
from datalog_gate.facts.flatten import flatten
from datalog_gate.facts.lines import write
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.inventory.cloud_api import CloudApi
from datalog_gate.scan.feed import Item, StackEntry, Unchanged, Unread, read
from datalog_gate.scan.heat_feed import HeatFeed
from datalog_gate.schema.catalogue import SHIPPED
from tests.scripted_cloud import Cloud, with_keystone

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
GROUP = {
    "heat_template_version": "2018-08-31",
    "parameters": {"f": {"type": "string"}, "key": {"type": "string", "hidden": True}},
    "resources": {
        "farm": {
            "type": "OS::Heat::AutoScalingGroup",
            "properties": {"min_size": 1, "max_size": 5, "resource": {"type": "OS::Neutron::Net"}},
        },
        "net": {"type": "OS::Neutron::Net"},
    },
}
MEMBERS = {
    "heat_template_version": "2018-08-31",
    "parameters": {"key": {"type": "string"}},
    "resources": {
        name: {
            "type": "OS::Nova::Server",
            "properties": {"flavor": "huge", "key_name": {"get_param": "key"}, "networks": [{"network": "n-1"}]},
            "metadata": {"of": {"resource_facade": "metadata"}},
        }
        for name in ("a", "b")
    },
}
SMALL = {"heat_template_version": "2018-08-31", "resources": {"net": {"type": "OS::Neutron::Net"}}}
MASKED = {"parameters": {"key": "******"}}
LIST = "GET /v1/p/stacks?show_nested=True&show_hidden=True&global_tenant=True"
PAGE = f"{LIST}&limit=1000"
PROBE = "GET /v1/p/stacks?limit=1"


def row(stack: str, name: str, project: str, **more: object) -> dict[str, object]:
    """A stack as Heat lists it (heat/api/openstack/v1/views/stacks_view.py:20)."""
    fields = {"creation_time": "2027-03-01T09:00:00Z", "updated_time": None, "parent": None}
    return {"id": stack, "stack_name": name, "project": project, "stack_status": "CREATE_COMPLETE", **fields, **more}


ROWS = [
    row("6a", "web", "p1", tags=["front", "blue"]),
    row("7b", "web-farm-x", "p1", parent="6a"),
    row("8c", "db", "p2"),
]


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    with with_keystone(monkeypatch) as server:
        give_list(server, *ROWS)
        server.give(PROBE, {"stacks": []})
        give_stack(server, "p1", "web", "6a", template=GROUP, environment={"parameters": {"f": "x", "key": "******"}})
        give_stack(server, "p1", "web-farm-x", "7b", template=MEMBERS, environment=MASKED)
        give_stack(server, "p2", "db", "8c", template=SMALL)
        server.give("GET /v1/p1/stacks/web/6a/resources/farm/metadata", {"metadata": {"tier": "front"}})
        listed = [
            resource(server, "net", "web/6a", "n-1"),
            resource(server, "farm", "web/6a", "7b", "web-farm-x/7b"),
            resource(server, "a", "web-farm-x/7b", "s-1"),
            resource(server, "b", "web-farm-x/7b", "s-2"),
        ]
        server.give("GET /v1/p1/stacks/web/6a/resources?nested_depth=5", {"resources": listed})
        yield server


def give_list(cloud: Cloud, *rows: Mapping[str, object]) -> None:
    """The list, two stacks a page."""
    link = {"rel": "next", "href": f"{cloud.url}/v1/p/stacks?global_tenant=True&marker=7b"}
    cloud.give(PAGE, {"stacks": rows[:2], "links": [link] if rows[2:] else []})
    cloud.give(f"{LIST}&marker=7b".replace("show_nested=True&show_hidden=True&", ""), {"stacks": rows[2:]})


def give_stack(cloud: Cloud, project: str, name: str, stack: str, template: object, environment: object = None) -> None:
    path = f"GET /v1/{project}/stacks/{name}/{stack}"
    cloud.give(f"{path}/template", template)
    cloud.give(f"{path}/environment", environment or {})
    cloud.give(f"{path}/files", {})
    cloud.give(f"{path}/resources?nested_depth=5", {"resources": []})


def resource(cloud: Cloud, name: str, stack: str, physical: str, nested: str = "") -> dict[str, object]:
    links = [{"rel": "stack", "href": f"{cloud.url}/v1/p1/stacks/{stack}"}]
    links += [{"rel": "nested", "href": f"{cloud.url}/v1/p1/stacks/{nested}"}] if nested else []
    status = "CREATE_COMPLETE"
    return {"resource_name": name, "resource_status": status, "physical_resource_id": physical, "links": links}


def scan(known: Mapping[str, str | None] | None = None, **options: Any) -> list[Item]:
    feed = HeatFeed(CloudApi(pause=0.001), known or {}, clock=NOON.timestamp, **options)
    items = list(feed)
    assert (feed.total, feed.whole) == (len(items), True)
    return items


def listings(items: list[Item]) -> dict[str, str | None]:
    return {item.root: item.listing for item in items if isinstance(item, StackEntry)}


def requests(cloud: Cloud) -> list[str]:
    """The requests to Heat since the last call."""
    sent = [request for request, _ in cloud.requests if "/v1/" in request]
    cloud.requests.clear()
    return sent


@pytest.mark.usefixtures("cloud")
def test_every_stack_of_all_projects_is_read() -> None:
    web, db = (item for item in scan() if isinstance(item, StackEntry))
    assert [(entry.root, entry.name, entry.project, entry.updated) for entry in (web, db)] == [
        ("6a", "web", "p1", "2027-03-01T09:00:00Z"),
        ("8c", "db", "p2", "2027-03-01T09:00:00Z"),
    ]
    facts = flatten(read(web), SHIPPED)
    assert list(facts.rows["heat:tag"]) == [("web", "front"), ("web", "blue")]
    lines = [json.loads(line) for line in write(facts)]
    rows = [(line["row"]["_id"], line["row"]["key_name"]) for line in lines if line["relation"] == "os:nova:server"]
    key = {"$unknown": {"expression": "{get_param: key} in web/farm", "place": None}}
    assert rows == [({"$resource": "web/farm/a"}, key), ({"$resource": "web/farm/b"}, key)]
    values = {tuple(line["row"].values())[1:] for line in lines if line["relation"] == "heat:metadata"}
    networks = [line["row"]["network"] for line in lines if line["relation"] == "os:nova:server.networks"]
    assert (values, networks) == ({("of.tier", "front")}, [{"$resource": "web/net"}] * 2)


def test_a_stack_with_the_same_list_entry_is_not_read_again(cloud: Cloud) -> None:
    known = listings(scan())
    requests(cloud)
    assert scan(known) == [Unchanged("6a"), Unchanged("8c")]
    assert requests(cloud) == [PAGE, f"{LIST}&marker=7b".replace("show_nested=True&show_hidden=True&", "")]
    give_list(cloud, ROWS[0], {**ROWS[1], "updated_time": "2027-03-01T10:00:00Z"}, ROWS[2])
    again, other = scan(known)
    assert (again.root, isinstance(again, StackEntry), other) == ("6a", True, Unchanged("8c"))


@pytest.mark.parametrize("parent", ["6a", "gone"])
def test_a_nested_stack_without_its_resource_is_a_root(cloud: Cloud, parent: str) -> None:
    """Heat leaves such a stack if its resource has the deletion policy Retain."""
    left, inner = row("9d", "web-old-y", "p1", parent=parent), row("9e", "web-old-y-n", "p1", parent="9d")
    give_list(cloud, *ROWS[:2], left, inner, ROWS[2])
    give_stack(cloud, "p1", "web-old-y", "9d", template=SMALL)
    listed = [resource(cloud, "n", "web-old-y/9d", "9e", "web-old-y-n/9e")]
    give_stack(cloud, "p1", "web-old-y-n", "9e", template=SMALL)
    cloud.give("GET /v1/p1/stacks/web-old-y/9d/resources?nested_depth=5", {"resources": listed})
    first = scan()
    roots = ["6a", "8c", "9d"] if parent == "gone" else ["6a", "9d", "8c"]
    assert [item.root for item in first if isinstance(item, StackEntry)] == roots
    assert scan(listings(first)) == [Unchanged(root) for root in roots]


def test_a_root_without_its_resource_is_read_again_if_it_can_not_be_read(cloud: Cloud) -> None:
    give_list(cloud, *ROWS[:2], row("9d", "web-old-y", "p1", parent="6a"), ROWS[2])
    cloud.give("GET /v1/p1/stacks/web-old-y/9d/template", {}, 403)
    first = scan()
    assert [(item.root, type(item)) for item in first] == [("6a", StackEntry), ("9d", Unread), ("8c", StackEntry)]
    assert [(item.root, type(item)) for item in scan(listings(first))] == [
        ("6a", StackEntry), ("9d", Unread), ("8c", Unchanged),
    ]  # fmt: skip


@pytest.mark.parametrize("change", [{"stack_status": "UPDATE_IN_PROGRESS"}, {"updated_time": "2027-03-01T11:59:30Z"}])
def test_a_stack_that_is_changing_is_read_again(cloud: Cloud, change: dict[str, object]) -> None:
    give_list(cloud, ROWS[0], {**ROWS[1], **change}, ROWS[2])
    assert listings(scan())["6a"] is None


def test_only_stacks_updated_since_a_time_are_read(cloud: Cloud) -> None:
    give_list(cloud, ROWS[0], {**ROWS[1], "updated_time": "2027-03-01T10:00:00Z"}, ROWS[2])
    feed = HeatFeed(CloudApi(pause=0.001), {}, clock=NOON.timestamp, since=datetime(2027, 3, 1, 10))
    assert ([item.root for item in feed], feed.total, feed.whole) == (["6a"], 1, False)
    assert not [request for request in requests(cloud) if "/db/" in request]


def test_the_error_names_the_right_to_list_all_stacks(cloud: Cloud) -> None:
    cloud.give(PAGE, {}, 403)
    with pytest.raises(InputError) as error:
        scan()
    assert str(error.value) == (
        "error[unreadable] Heat answers 403 for /stacks: listing all stacks requires the right stacks:global_index\n"
        "  help  give the scan's user a role that Heat's policy.yaml grants it, or the role admin"
    )


def test_stacks_listed_without_a_project_belong_to_that_of_the_user(cloud: Cloud) -> None:
    own = [{name: value for name, value in row("8c", "db", "").items() if name != "project"}]
    cloud.give(PAGE, {"stacks": own})
    give_stack(cloud, "p", "db", "8c", template=SMALL)
    [db] = scan()
    assert isinstance(db, StackEntry)
    assert (db.root, db.source) == ("8c", StackDefinition(SMALL, {}))


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (403, "Heat answers 403 for ../p2/stacks/db/8c/files: it requires the right stacks:files; give the "
        "scan's user a"
         " role that Heat's policy.yaml grants it, or the role admin"),
        (404, "Heat answers 404 for ../p2/stacks/db/8c/files"),
        (500, "Heat answers 500 for ../p2/stacks/db/8c/files"),
    ],
)  # fmt: skip
def test_a_stack_that_cannot_be_read_is_unread_and_the_others_are_read(cloud: Cloud, status: int, reason: str) -> None:
    cloud.give("GET /v1/p2/stacks/db/8c/files", {}, status)
    web, db = scan()
    assert (web.root, isinstance(web, StackEntry), db) == ("6a", True, Unread("8c", reason))


@pytest.mark.parametrize("status", [429, 500, 503])
def test_the_feed_waits_for_a_heat_that_is_down_for_a_minute(cloud: Cloud, status: int) -> None:
    whole = scan()
    broken = [PROBE, PAGE, "GET /v1/p1/stacks/web/6a/template"]
    before = {request: cloud.answers[request] for request in broken}
    for request in broken:
        cloud.give(request, {}, status)
    waited = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if sum(waited) > 60:
            cloud.answers.update(before)

    assert scan(pause=pause) == whole
    assert waited == [1, 2, 4, 8, 15, 15, 15, 15]


def test_a_heat_that_never_answers_ends_the_feed_incomplete(cloud: Cloud) -> None:
    cloud.answers = {name: answer for name, answer in cloud.answers.items() if "stacks?" not in name}
    for request in (PROBE, PAGE):
        cloud.give(request, {}, 500)
    feed = HeatFeed(CloudApi(pause=0.001), {}, clock=NOON.timestamp, pause=lambda _: None, patience=30)
    with pytest.raises(InputError) as error:
        list(feed)
    assert (str(error.value), feed.whole) == (
        "error[unreadable] Heat has not answered for 30 seconds: Heat answers 500 for /stacks\n"
        "  help  run the scan again: it continues where it stopped",
        False,
    )
