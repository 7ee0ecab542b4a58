"""A scan stores what `check` says, and goes on where it ended."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlglot

import datalog_gate as dg
from datalog_gate.api import Rules
from datalog_gate.base.errors import EngineError, InputError
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.policy_set import PolicySet, RuleFile, load
from datalog_gate.engine.sql.database import Database, open_database
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.scan.batch import ScanRequest, judge_entry, judge_stack
from datalog_gate.scan.cloud_judgement import judge_cloud
from datalog_gate.scan.feed import Gone, Item, StackEntry, Unchanged, Unread, read
from datalog_gate.scan.folder_feed import FolderFeed
from datalog_gate.scan.scan_run import Judges, RunReport, run
from datalog_gate.scan.scan_store import ScanStore, StoredFinding
from datalog_gate.scan.stored_judgement import Forecast, RowDifference, rejudge, sum_by_project, verify
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Live

RULES = """
@deny("size", "{server} is {flavor}", hint="take a small one")
huge(server, flavor) :- os:nova:server(_id=server, flavor=flavor), is_string(flavor), starts_with(flavor, "huge").

@warn("named", "{server} has no name")
nameless(server) :- os:nova:server(_id=server, name=null).
"""
DAY = datetime(2027, 3, 1, tzinfo=UTC)


def server(**properties: object) -> StackDefinition:
    resources = {"vm": {"type": "OS::Nova::Server", "properties": {"name": "vm", **properties}}}
    return StackDefinition({"heat_template_version": "2018-08-31", "resources": resources})


HUGE, SMALL, NAMELESS = server(flavor="huge"), server(flavor="small"), server(flavor="small", name=None)
BROKEN = StackDefinition("resources: [")


def entry(root: str, definition: StackDefinition, project: str = "p1") -> StackEntry:
    return StackEntry(root, f"stack-{root}", project, definition, updated="2027-02-01T00:00:00", listing=f"l-{root}")


@dataclass
class ListFeed:
    """A feed of these items, which then fails if it is to."""

    items: Sequence[Item]
    whole: bool = True
    failure: Exception | None = None
    total: int | None = None

    def __iter__(self) -> Iterator[Item]:
        yield from self.items
        if self.failure:
            raise self.failure


@pytest.fixture
def database() -> Iterator[Database]:
    with open_database() as database:
        yield database


@pytest.fixture
def store(database: Database) -> ScanStore:
    return ScanStore(database)


def policy_set(text: str = RULES) -> PolicySet:
    return load([RuleFile("m", "m.dl", text)])


def request(day: int = 1, text: str = RULES) -> ScanRequest:
    return ScanRequest(policy_set(text), DAY.replace(day=day))


def scan(store: ScanStore, *items: Item, day: int = 1, text: str = RULES, **more: Any) -> RunReport:
    asked = request(day, text)
    return run(ListFeed(items, **more), "test", store, Judges(asked, 1), asked)


def columns(store: ScanStore, relation: str, *names: str) -> list[tuple[object, ...]]:
    """Root, project and these columns of the stored rows of a relation."""
    declared = SHIPPED.relation(relation)
    assert declared
    positions = [declared.positions[name] for name in names]
    return sorted((root, project, *(row[at] for at in positions)) for root, project, row in store.facts(relation))


def history(store: ScanStore) -> list[tuple[object, ...]]:
    """Each finding: root, policy, row, state, and the days on which it was first seen, last seen and resolved."""
    rows = store.findings(everything=True)
    return [
        (
            row.root,
            row.policy,
            row.row,
            row.state,
            *(day and int(day[8:10]) for day in (row.first_seen, row.last_seen, row.resolved_at)),
        )
        for row in rows
    ]


def test_findings_are_kept_with_their_history(store: ScanStore) -> None:
    scan(store, entry("a", HUGE), entry("b", NAMELESS), day=1)
    scan(store, entry("a", HUGE), entry("b", SMALL), day=2)
    scan(store, entry("a", HUGE), entry("b", NAMELESS), day=3)
    assert history(store) == [
        ("b", "named", '[{"$resource": "stack-b/vm"}]', "holds", 1, 1, 2),
        ("b", "named", '[{"$resource": "stack-b/vm"}]', "holds", 3, 3, None),
        ("a", "size", '[{"$resource": "stack-a/vm"}, "huge"]', "holds", 1, 3, None),
    ]


def test_a_stack_is_judged_as_check_judges_it() -> None:
    rules, stack = request(), entry("a", HUGE)
    decision = Rules(rules.rules).decide(
        dg.read_stack(template=HUGE.template, stack_name="stack-a"), caller={"project": "p1"}, now=rules.now
    )
    assert judge_stack(read(stack), stack, rules).decision.to_json() == decision.to_json()
    result = judge_entry(stack, rules)
    assert (result.decision, result.outcome, result.unread) == (decision.id, "deny", "")


def test_a_finding_has_the_words_of_the_decision(store: ScanStore) -> None:
    scan(store, entry("a", HUGE))
    assert store.findings() == [
        StoredFinding(
            root="a",
            policy="size",
            key='[{"$resource": "stack-a/vm"}, "huge"]',
            row='[{"$resource": "stack-a/vm"}, "huge"]',
            level="deny",
            state="holds",
            denies=True,
            message="vm is huge",
            hint="take a small one",
            resource="stack-a/vm",
            place='{"file": "<template>", "line": null, "column": null, "path": "resources.vm.properties.flavor"}',
            stack="stack-a",
            project="p1",
            first_seen="2027-03-01T00:00:00+00:00",
            last_seen="2027-03-01T00:00:00+00:00",
            resolved_at=None,
        )
    ]


def test_only_what_changed_is_judged(store: ScanStore) -> None:
    first = scan(store, entry("a", HUGE), entry("b", SMALL))
    again = scan(store, entry("a", SMALL), Unchanged("b"))
    assert first == RunReport(judged=2)
    assert again == RunReport(judged=1, unchanged=1)


def test_other_rules_judge_all_again_what_did_not_change_too(store: ScanStore) -> None:
    scan(store, entry("a", HUGE), entry("b", SMALL))
    report = scan(store, Unchanged("a"), entry("b", SMALL), day=1, text=RULES.replace('"huge"', '"small"'))
    assert report == RunReport(judged=2)
    assert [(row.root, row.row) for row in store.findings()] == [("b", '[{"$resource": "stack-b/vm"}, "small"]')]


@pytest.mark.parametrize("item", [Unread("a", "Heat gives 500"), entry("a", BROKEN)])
def test_what_can_not_be_read_resolves_nothing(store: ScanStore, item: Item) -> None:
    scan(store, entry("a", HUGE), day=1)
    report = scan(store, item, day=2)
    assert (list(report.unread), report.judged, report.gone) == (["a"], 0, 0)
    assert history(store) == [("a", "size", '[{"$resource": "stack-a/vm"}, "huge"]', "holds", 1, 1, None)]
    scan(store, entry("a", HUGE), day=3)
    assert history(store) == [("a", "size", '[{"$resource": "stack-a/vm"}, "huge"]', "holds", 1, 3, None)]


def test_a_policy_that_fails_resolves_nothing_of_it(store: ScanStore) -> None:
    scan(store, entry("a", HUGE), day=1)
    failing = RULES.replace('starts_with(flavor, "huge")', "cidr_host_count(flavor, n), n > 1")
    scan(store, entry("a", HUGE), day=2, text=failing)
    assert [row[1:] for row in history(store)] == [
        ("size", "", "error", 2, 2, None),
        ("size", '[{"$resource": "stack-a/vm"}, "huge"]', "holds", 1, 1, None),
    ]


def test_what_is_gone_has_no_open_finding(store: ScanStore) -> None:
    scan(store, entry("a", HUGE), entry("b", HUGE), entry("c", HUGE), day=1)
    report = scan(store, entry("a", HUGE), Gone("b"), day=2, whole=False)
    assert (report.gone, [row.root for row in store.findings()]) == (1, ["a", "c"])
    report = scan(store, entry("a", HUGE), day=3)
    assert (report.gone, [row.root for row in store.findings()]) == (1, ["a"])


def test_a_feed_that_fails_loses_nothing(store: ScanStore) -> None:
    scan(store, entry("a", HUGE), entry("b", HUGE), day=1)
    with pytest.raises(InputError):
        scan(store, entry("a", SMALL), day=2, failure=InputError.of("Heat gives 500"))
    assert [row.root for row in store.findings()] == ["a", "b"]
    scan(store, entry("a", SMALL), entry("b", HUGE), day=2)
    assert [row.root for row in store.findings()] == ["b"]


def test_a_stored_finding_is_waived_by_a_new_waiver_until_that_expires(store: ScanStore) -> None:
    """Nothing else changes: neither a stack nor a rule."""
    entries = [entry("a", HUGE), entry("b", HUGE, "p2")]
    waiver = {"id": "W-1", "policy": "size", "owner": "net", "reason": "old", "expires": "2027-03-04", "project": "p1"}
    seen = []
    for day, waivers in ((1, []), (2, [waiver]), (3, [waiver]), (4, [waiver]), (5, [])):
        asked = request(day=day)
        asked = replace(asked, waivers=Rules(asked.rules).waivers(waivers))
        report = run(ListFeed(entries), "test", store, Judges(asked, 1), asked)
        seen.append((report.judged, [(row.root, row.state, row.denies) for row in store.findings()]))
    holds, other = ("a", "holds", True), ("b", "holds", True)
    waived = ("a", "waived", False)
    assert seen == [
        (2, [holds, other]),
        (2, [waived, other]),
        (0, [waived, other]),
        (2, [holds, other]),
        (2, [holds, other]),
    ]


def kill(*_: object) -> None:
    """Be killed while judging."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_ends_the_run() -> None:
    with Judges(request(), 2) as judges, pytest.raises(EngineError, match="was killed"):
        judges.start(kill, [entry("a", HUGE)])()


def test_processes_find_the_same(store: ScanStore) -> None:
    entries = [entry(str(number), (HUGE, SMALL, NAMELESS)[number % 3]) for number in range(60)]
    asked = request()
    with Judges(asked, 2) as judges:
        run(ListFeed(entries), "test", store, judges, asked)
    with open_database() as database:
        alone = ScanStore(database)
        run(ListFeed(entries), "test", alone, Judges(asked, 1), asked)
        assert store.digest() == alone.digest()


def test_facts_are_stored_where_a_relation_has_capitals_in_its_name(store: ScanStore) -> None:
    rule = {"IpProtocol": "tcp", "CidrIp": "10.0.0.0/8"}
    group = {"GroupDescription": "web", "SecurityGroupIngress": [rule]}
    resources = {"group": {"Type": "AWS::EC2::SecurityGroup", "Properties": group}}
    template = StackDefinition({"HeatTemplateFormatVersion": "2012-12-12", "Resources": resources})
    for day in (1, 2):
        assert scan(store, entry("a", template), day=day, text=RULES + "\n" * day).unread == {}
    relation = "aws:ec2:security_group.SecurityGroupIngress"
    assert columns(store, relation, "CidrIp") == [("a", "p1", "10.0.0.0/8")]


def test_facts_are_stored_under_the_root_as_far_as_they_fit(store: ScanStore) -> None:
    image = {"get_param": "image"}
    hidden = server(flavor="small", image=image)
    assert isinstance(hidden.template, dict)
    template = {**hidden.template, "parameters": {"image": {"type": "string", "hidden": True, "default": "secret"}}}
    scan(store, entry("a", StackDefinition(template)), entry("b", server()))
    assert columns(store, "os:nova:server", "_id", "_stack", "flavor", "image") == [
        ("a", "p1", ResourceId("a/vm"), "a", "small", None),
        ("b", "p1", ResourceId("b/vm"), "b", None, None),
    ]
    assert {row for row in store.unfit() if row[1] == "os:nova:server"} == {("a", "os:nova:server", "image")}
    scan(store, entry("a", SMALL))
    assert store.unfit() == set()
    assert columns(store, "heat:stack", "id", "name") == [("a", "p1", "a", "stack-a")]


def test_rows_of_an_inventory_are_no_facts_of_a_stack(store: ScanStore) -> None:
    text = '@warn("tagged", "{x}")\np(x) :- os:nova:server.tags(_id=x).'
    rows = {"os:nova:server.tags": [[ResourceId("other/vm"), 0, "web"]]}
    asked = Rules(policy_set(text)).scan_request(DAY, inventory=rows)
    run(ListFeed([entry("a", server(tags=["db"])), entry("b", SMALL)]), "test", store, Judges(asked, 1), asked)
    assert list(store.facts("os:nova:server.tags")) == [("a", "p1", (ResourceId("a/vm"), 0, "db"))]
    assert columns(store, "os:nova:server", "_id", "flavor") == [
        ("a", "p1", ResourceId("a/vm"), None),
        ("b", "p1", ResourceId("b/vm"), "small"),
    ]


SHARED = """
@deny("shared", "{one} has the name {name} of {other}")
shared(one, name, other) :-
  all:os:nova:server(_id=one, name=name), all:os:nova:server(_id=other, name=name), one != other, name != null.

@warn("crowd", "{stack} is one of {n}")
crowd(stack, n) :- heat:root(stack=stack), n = count{ s : all:os:nova:server(_id=s) }, n > 1.
"""


def test_policies_over_the_cloud_judge_what_is_stored(store: ScanStore) -> None:
    unknown = server(name={"get_param": "name"})
    assert isinstance(unknown.template, dict)
    unknown = StackDefinition({**unknown.template, "parameters": {"name": {"type": "string"}}})
    scan(store, entry("a", SMALL), entry("b", HUGE), entry("c", server(name="other")), text=SHARED, day=1)
    assert [(row.root, row.policy, row.state, row.message, row.stack) for row in store.findings()] == [
        ("a", "crowd", "holds", "a is one of 3", "stack-a"),
        ("b", "crowd", "holds", "b is one of 3", "stack-b"),
        ("c", "crowd", "holds", "c is one of 3", "stack-c"),
        ("a", "shared", "holds", "stack-a/vm has the name vm of stack-b/vm", "stack-a"),
        ("b", "shared", "holds", "stack-b/vm has the name vm of stack-a/vm", "stack-b"),
    ]
    scan(store, entry("a", SMALL), entry("c", unknown), text=SHARED, day=2)
    assert [(row.root, row.policy, row.state, row.message) for row in store.findings()] == [
        ("a", "crowd", "holds", "a is one of 2"),
        ("c", "crowd", "holds", "c is one of 2"),
        ("a", "shared", "undetermined", "stack-a/vm has the name vm of stack-c/vm"),
        ("c", "shared", "undetermined", "stack-c/vm has the name ? of stack-a/vm"),
    ]


def test_a_value_that_no_table_holds_is_not_asked_for_where_no_rule_reads_it(store: ScanStore, tmp_path: Path) -> None:
    """The template is gone by then: who read it again would miss a row."""
    unknown = server(flavor={"get_param": "flavor"}).template
    assert isinstance(unknown, dict)
    for name in ("a", "b"):
        template = tmp_path / f"{name}.json"
        template.write_text(json.dumps({**unknown, "parameters": {"flavor": {"type": "string"}}}))
    asked = request(1, SHARED)
    run(FolderFeed(tmp_path, {}), "test", store, Judges(asked, 1), asked)
    findings = judge_cloud(store, asked)
    for template in tmp_path.iterdir():
        template.unlink()
    assert [(finding.policy, finding.message) for finding in findings] == [
        ("crowd", "a.json is one of 2"),
        ("crowd", "b.json is one of 2"),
        ("shared", "a/vm has the name vm of b/vm"),
        ("shared", "b/vm has the name vm of a/vm"),
    ]
    assert judge_cloud(store, asked) == findings


TIMED = """
@warn("late", "{stack} after {day}")
late(stack, day) :- heat:root(stack=stack), gate:now(time=now), extract_date(now, day).
"""
OLD_TABLES = """
@warn("stuck", "{name} is {status}", key=["root"])
stuck(root, name, status) :- all:heat:root(stack=root), heat:stacks(id=root, stack_name=name, stack_status=status).
@warn("old", "{table} is {days} days old")
old_table(table, days) :-
  all:heat:root(stack=_), gate:inventory_age(table=table, seconds=s), gate:now(time=now), s > 0, days = s / 86400.
"""


def test_relations_are_filled_that_a_stack_has_a_row_of_or_may_have_one_of(store: ScanStore) -> None:
    scan(store, entry("a", SMALL))
    before = store.filled()
    assert {"os:nova:server", "os:nova:server.tags", "os:neutron:port", "heat:root"} & before == {
        "os:nova:server",
        "heat:root",
    }
    unknown = server(flavor="small", tags=[{"get_param": "tag"}])
    assert isinstance(unknown.template, dict)
    unknown = StackDefinition({**unknown.template, "parameters": {"tag": {"type": "string"}}})
    scan(store, entry("a", unknown))
    assert "os:nova:server.tags" in store.filled() - before


def test_the_time_counts_only_where_a_stack_is_judged_by_itself(store: ScanStore) -> None:
    def judged(text: str, day: int, status: str = "CREATE_FAILED") -> int:
        rows = {
            "heat:stacks": [{"id": "a", "stack_name": "web", "stack_status": status}],
            "gate:inventory": [{"table": "heat:stacks", "read": "2027-03-01T00:00:00Z"}],
        }
        asked = Rules(policy_set(text)).scan_request(DAY.replace(day=day), inventory=rows)
        return run(ListFeed([entry("a", SMALL)]), "test", store, Judges(asked, 1), asked).judged

    assert [judged(text, day) for text in (RULES + TIMED, RULES + OLD_TABLES) for day in (1, 2)] == [1, 1, 1, 0]
    assert judged(RULES + OLD_TABLES, 3, "UPDATE_FAILED") == 0
    assert [(row.root, row.policy, row.message, row.first_seen[8:10]) for row in store.findings()] == [
        ("", "old", "heat:stacks is 2 days old", "02"),
        ("a", "stuck", "web is UPDATE_FAILED", "01"),
    ]


def test_other_rules_are_tried_on_what_is_stored(store: ScanStore) -> None:
    scan(store, entry("a", HUGE, "p1"), entry("b", HUGE, "p2"), entry("c", NAMELESS, "p2"), entry("d", NAMELESS, "p2"))
    before = store.digest()
    other = request(text=RULES.replace('"huge"', '"small"') + SHARED)
    assert sum_by_project(rejudge(store, other, Judges(other, 1)), store.stacks()) == [
        Forecast("p1", "crowd", 1, 1),
        Forecast("p1", "shared", 1, 1),
        Forecast("p2", "crowd", 3, 3),
        Forecast("p2", "named", 2, 2),
        Forecast("p2", "shared", 1, 1),
        Forecast("p2", "size", 2, 2),
    ]
    assert store.digest() == before


DRIFT = """
@warn("off", "{server} is {status}")
off(server, status) :- live:os:nova:server(_id=server, status=status), status != "ACTIVE".
@warn("gone", "{server} is gone")
gone(server) :- heat:updated(id=server, time=time), time < "2027-02-01", not live:os:nova:server(_id=server).
"""


def test_live_stacks_give_the_same_findings_from_a_run_and_from_the_store(store: ScanStore) -> None:
    rows = {"nova:servers": [{"id": "s-a", "status": "SHUTOFF"}, {"id": "s-c", "status": "ACTIVE"}]}
    asked = Rules(policy_set(DRIFT)).scan_request(DAY, inventory=rows)
    stacks = [
        replace(
            entry(root, SMALL), live=(Live(ResourceId(f"stack-{root}/vm"), "CREATE", "COMPLETE", f"s-{root}", time),)
        )
        for root, time in (("a", "2027-01-01"), ("b", "2027-01-01"), ("c", "2027-01-01"), ("d", "2027-02-02"))
    ]
    run(ListFeed(stacks), "test", store, Judges(asked, 1), asked)
    assert [(row.root, row.message) for row in store.findings()] == [("b", "vm is gone"), ("a", "vm is SHUTOFF")]
    assert sum_by_project(rejudge(store, asked, Judges(asked, 1)), store.stacks()) == [
        Forecast("p1", "gone", 1, 1),
        Forecast("p1", "off", 1, 1),
    ]
    assert verify(store, asked, 9, Random(1)) == []


def test_two_ways_to_judge_agree(store: ScanStore) -> None:
    stacks = [entry(str(number), (HUGE, SMALL, NAMELESS)[number % 3]) for number in range(30)]
    scan(store, *stacks)
    assert verify(store, request(), 20, Random(1)) == []
    changed = sqlglot.exp.update("os__nova__server", {"flavor": "Shuger"}, where="_root = '1'")
    store.database.execute(changed)
    row = '[{"$resource": "stack-1/vm"}, "huger"]'
    assert verify(store, request(), 30, Random(1)) == [RowDifference("1", "size", row, stored=True)]


def test_what_facts_do_not_settle_and_changed_files_are_not_compared(store: ScanStore, tmp_path: Path) -> None:
    text, unknown = json.dumps(HUGE.template), server(flavor={"get_param": "flavor"}).template
    assert isinstance(unknown, dict)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.yaml").write_text(text)
    run(FolderFeed(tmp_path, {}), "folder", store, Judges(request(), 1), request())
    scan(store, entry("d", StackDefinition({**unknown, "parameters": {"flavor": {"type": "string"}}})))
    (tmp_path / "b.yaml").unlink()
    (tmp_path / "c.yaml").write_text(text.replace("huge", "small"))
    assert verify(store, request(), 9, Random(1)) == []
    changed = sqlglot.exp.update("os__nova__server", {"flavor": "Ssmall"}, where="_root <> 'd'")
    store.database.execute(changed)
    row = '[{"$resource": "a/vm"}, "huge"]'
    assert verify(store, request(), 9, Random(1)) == [RowDifference("a.yaml", "size", row, stored=False)]
