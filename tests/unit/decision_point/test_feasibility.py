"""Answers about grants before anything is reserved."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from datalog_gate.decision_point.config_options import build_settings
from datalog_gate.decision_point.enabled_plugins import create_broker
from datalog_gate.decision_point.operation import CLOSED, Operation
from datalog_gate.decision_point.point import DecisionPoint
from datalog_gate.decision_point.roles import Entitlements
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.plugins.plugin_errors import RefusedError, UnavailableError
from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.contract import Decision, Held, Request, Service, Status
from datalog_gate.services.journal import Journal
from tests.commands import read_conf
from tests.waiting import wait

RULES = """
@unlock("edge")
edge(g) :- gate:grant(id=g, service="edge"), not gate:grant_option(id=g, path="locked").
@unlock("seats")
seats(g) :- gate:grant(id=g, service="seats").
@deny("bad", "{k} is bad")
bad(k) :- os:nova:key_pair(_id=k, name="bad").
"""
MEMBER = {"user_id": "u", "project_id": "p", "roles": ["member"]}
ADMIN = {"user_id": "u", "project_id": "p", "roles": ["admin"]}
KEY = {"type": "OS::Nova::KeyPair", "properties": {"name": "k"}}
AB = {"a": KEY, "b": KEY}


def grant(service: object = "edge", **properties: Any) -> dict[str, Any]:
    return {"type": "DatalogGate::Policy", "properties": {"service": service, **properties}}


class ScriptedService(Service):
    """A service with scripted answers that records the requests."""

    def __init__(self) -> None:
        self.facts_say: Callable[[Request], object] = lambda _request: None
        self.requests: list[Request] = []

    def facts(self, request: Request) -> None:
        self.requests.append(request)
        self.facts_say(request)

    def reserve(self, request: Request) -> Decision:
        names = [part.id.rpartition("/")[2] for part in request.scope]
        return {} if request.options.get("blind") else {name: {"at": "x"} for name in names}

    def release(self, held: Held) -> None:
        """Nothing is held."""

    def status(self, held: Held) -> Status:  # noqa: ARG002 - the same for all
        return "absent"


class Rig:
    """A decision point with two services: edge, and seats."""

    def __init__(self, folder: Path, sticky: bool = False, **options: str) -> None:
        (folder / "rules").mkdir()
        (folder / "rules" / "m.dl").write_text(RULES)
        conf = read_conf()
        own = {"rules": str(folder / "rules"), "services": "edge", "store": str(folder / "journal"),
               "service_option": f"edge.file={folder}/edge"}  # fmt: skip
        chosen = build_settings(conf, own | options)
        self.point = DecisionPoint(
            chosen, Entitlements(conf, ["edge", "seats"]), now=lambda: datetime(2027, 3, 1, tzinfo=UTC)
        )
        self.edge, self.seats = ScriptedService(), ScriptedService()
        self.seats.sticky = sticky
        self.journal = Journal(str(folder / "journal"))
        limits = Limits(20.0, 25.0, 30.0)
        self.broker = Broker(self.journal, {"edge": self.edge, "seats": self.seats}, time.time, time.monotonic, limits)
        self.point.broker = self.broker

    def ask(
        self, resources: dict[str, Any], action: str = "create", files: dict[str, str] | None = None, **more: Any
    ) -> tuple[str, str]:
        """Judge an operation; return the verdict and the reason."""
        parameters = {"f": {"type": "string"}} if "get_param" in str(resources) else {}
        template = {"heat_template_version": "2018-08-31", "parameters": parameters}
        definition = StackDefinition({**template, "resources": resources}, files=files or {})
        own = {"stack_id": "id"} if action in ("update", "restore") else {}
        fields = {"door": "api", "credentials": MEMBER} | own | more
        operation = Operation(action=action, stack_name="s", project="p", definition=lambda: definition, **fields)
        answer = self.point.judge(operation)
        return answer.verdict, answer.reason or "; ".join(answer.warnings)

    def hold(self, uuid: str, grant: str, *names: str, service: str = "edge", **more: Any) -> str:
        """Begin a claim of a grant that holds these resources; return its key."""
        request = Request(
            service=service, project="p", stack="id", stack_name="s", grant=grant, uuid=uuid, options={}, scope=()
        )
        claimed = replace(request, **more)
        claim = self.journal.begin(claimed, "", None, 5.0, 1.0)
        self.journal.move(claim, "reserved", 5.0, decision={name: {} for name in names})
        return claimed.key


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def raises(error: Exception) -> Callable[[Request], None]:
    def say(_request: Request) -> None:
        raise error

    return say


NO = "the grant s/g does not unlock "
LATE = "depends on {get_attr: [a, name]} in s: write the value, or use a parameter that is known and not hidden"
REFUSED = [
    (grant(scope=["nothing"]), f"{NO}edge: its scope names nothing, which is not a resource of the stack"),
    (grant("egde"), f"{NO}egde: the service egde is not enabled here, or not for this caller: use --services egde"
     " on the command line, or ask the operator to enable it, and to allow it in the policy datalog_gate:grant:egde"),
    (grant(options={"locked": 1}), f"{NO}edge: no rule unlocks it"),
    (grant({"get_attr": ["a", "name"]}), f"{NO}?({{get_attr: [a, name]}} in s): its service {LATE}"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "reason"), REFUSED)
def test_a_grant_that_can_not_be_is_refused_before_any_service_is_asked(
    rig: Rig, wrong: dict[str, Any], reason: str
) -> None:
    resources = {"g": wrong, "h": grant(scope=["a"]), **AB}
    for action in sorted(CLOSED):
        for dry_run in (False, True):
            assert rig.ask(resources, action, dry_run=dry_run) == ("denied", reason)
    assert rig.ask(resources, "suspend") == ("allowed", "")
    assert rig.edge.requests == []


def test_a_caller_who_may_not_use_the_service_is_refused(rig: Rig) -> None:
    verdict, reason = rig.ask({"g": grant(), **AB}, credentials=MEMBER | {"roles": ["reader"]})
    assert (verdict, reason[:80]) == (
        "denied",
        f"{NO}edge: the service edge is not enabled here, or not for this caller"[:80],
    )


PERHAPS = {"condition": {"equals": [{"get_param": "f"}, "x"]}}


@pytest.mark.parametrize(
    "resources",
    [
        {"g": grant() | PERHAPS, **AB},
        {"g": grant(scope=["a"]), "a": KEY | PERHAPS},
        # as where a client asks which parameters there are
        {"g": grant(scope=[{"get_param": "f"}]), **AB},
    ],
)
def test_an_unknown_grant_unlocks_nothing_and_passes(rig: Rig, resources: dict[str, Any]) -> None:
    assert (rig.ask(resources), rig.edge.requests) == (("allowed", ""), [])


def test_the_engine_s_door_leaves_grants_to_their_own_resource(rig: Rig) -> None:
    rig.edge.facts_say = raises(RefusedError("full"))
    for door in ("engine", "plugin"):
        for policy in (grant(), grant(scope=["nothing"])):
            assert rig.ask({"g": policy, **AB}, door=door) == ("allowed", "")
    assert rig.ask({"g": grant()}, door="cfn") == ("denied", f"{NO}edge: nothing is in its scope")


def test_without_services_a_grant_is_refused_where_policies_judge(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.point.broker = None
    assert rig.ask({"g": grant(scope=["nothing"]), **AB})[0] == "denied"
    assert rig.ask({"g": grant(), **AB}) == ("allowed", "")


ANSWERS = [
    (lambda _request: None, "allowed", ""),
    (raises(RefusedError("the edge\nis full")), "denied", "edge refuses the grant s/g: the edge is full"),
    (raises(UnavailableError("down")), "undecided", "edge could not be consulted on the grant s/g: down"),
    (raises(KeyError("s3cret")), "undecided", "edge could not be consulted on the grant s/g: is broken (KeyError)"),
    (None, "undecided", "edge could not be consulted on the grant s/g: did not answer within 0.001 seconds"),
]
"""What a service says, or None if it hangs; the verdict, and the reason."""


@pytest.mark.parametrize(("say", "verdict", "reason"), ANSWERS)
def test_what_a_service_would_refuse_is_refused_at_the_door(
    rig: Rig, say: Callable[[Request], object] | None, verdict: str, reason: str
) -> None:
    over, requests = Event(), []
    rig.edge.facts_say = say or (lambda _request: over.wait())
    rig.broker.limits = Limits(20.0 if say else 0.001, 25.0, 30.0)
    resources = {"g": grant(scope=["a"]), **AB}
    for action, dry_run in (*((action, False) for action in sorted(CLOSED)), ("create", True)):
        assert rig.ask(resources, action, dry_run=dry_run) == (verdict, reason)
        wait(lambda: rig.edge.requests)  # what hangs may be answered for before it has begun
        requests.append(rig.edge.requests.pop())
    over.set()
    assert (rig.ask(resources, "suspend"), rig.edge.requests) == (("allowed", ""), [])
    assert [
        (request.grant, request.uuid, request.project, request.stack, request.stack_name) for request in requests
    ] == [("s/g", "", "p", stack, "s" if stack else "") for stack in ("", "", "id", "id", "")]
    assert rig.journal.claims() == ()


def test_no_service_is_asked_without_a_grant_nor_of_a_stack_that_policies_deny(rig: Rig) -> None:
    bad = {"type": "OS::Nova::KeyPair", "properties": {"name": "bad"}}
    verdicts = [rig.ask(AB)[0], rig.ask({"g": grant(), "a": bad})[0], rig.ask({"g": grant("seats"), **AB})[0]]
    assert (verdicts, rig.edge.requests, len(rig.seats.requests)) == (["allowed", "denied", "allowed"], [], 1)


def test_all_services_of_a_request_are_asked_within_one_step(rig: Rig) -> None:
    rig.broker.ticks = lambda: 20.0 * len(rig.edge.requests)
    answer = rig.ask({**{f"g{at}": grant(scope=["a"]) for at in range(3)}, **AB})
    assert answer == ("undecided", "edge could not be consulted on the grant s/g2: has used up its time")


@pytest.mark.parametrize(
    ("mode", "credentials", "glass", "verdict"),
    [("warn", MEMBER, False, "allowed"), ("enforce", MEMBER, True, "denied"), ("enforce", ADMIN, True, "allowed")],
)
def test_modes_and_break_glass_lift_the_refusal_of_a_service(
    tmp_path: Path, mode: str, credentials: dict[str, Any], glass: bool, verdict: str
) -> None:
    (tmp_path / "glass").write_text("2027-03-01T10:00 storage outage" if glass else "")
    rig = Rig(tmp_path, mode=mode, break_glass=str(tmp_path / "glass"))
    rig.edge.facts_say = raises(RefusedError("full"))
    assert rig.ask({"g": grant(), **AB}, credentials=credentials) == (verdict, "edge refuses the grant s/g: full")


NESTED = """
heat_template_version: 2018-08-31
resources:
  own: {type: DatalogGate::Policy, properties: {service: edge, scope: [c]}}
  c: {type: OS::Nova::KeyPair, properties: {name: k}}
"""


def test_what_the_stack_holds_counts_as_free_when_it_changes(rig: Rig) -> None:
    resources = {"g": grant(scope=["a"]), "h": grant(scope=["b"]), "tr": {"type": "tr.yaml"}, **AB}
    old, new = rig.hold("1", "s/g", "a"), rig.hold("2", "s/g", "a", options={"new": True})
    within = rig.hold("3", "s/tr/own", "c", stack="id-tr")
    rig.hold("4", "s/g", project="other")
    rig.hold("5", "s/g", stack="one before it")
    rig.hold("6", "t/tr/own", "c", stack="id-t-tr")
    rig.hold("7", "s/h", "b")
    rig.journal.give_back("7", 6.0, "gone")
    rig.hold("8", "s/h", "b", service="seats")
    free = {"s/g": tuple(sorted({old, new})), "s/h": (), "s/tr/own": (within,)}
    for action, expected in (("create", dict.fromkeys(free, ())), ("update", free), ("restore", free)):
        rig.edge.requests.clear()
        assert rig.ask(resources, action, files={"tr.yaml": NESTED}) == ("allowed", "")
        assert {request.grant: tuple(sorted(request.replaces)) for request in rig.edge.requests} == expected
        for request in rig.edge.requests:
            assert {other.grant: tuple(sorted(other.replaces)) for other in request.together} == {
                path: keys for path, keys in expected.items() if path != request.grant
            }


def test_what_an_abandoned_stack_held_counts_as_free_for_one_of_its_name_that_is_adopted(rig: Rig) -> None:
    key = rig.hold("1", "s/g", "a")
    rig.point.abandon("id", "p", "s")
    rig.hold("2", "s/g", "a", stack="one after it")
    resources = {"g": grant(scope=["a"]), **AB}
    answers = [rig.ask(resources, action) for action in ("create", "adopt", "update")]
    assert (answers, [request.replaces for request in rig.edge.requests]) == ([("allowed", "")] * 3, [(), (key,), ()])


@pytest.mark.parametrize(("action", "count"), [("update", 1), ("restore", 1), ("adopt", 2), ("create", 2)])
def test_an_unchanged_grant_asks_no_service(rig: Rig, action: str, count: int) -> None:
    rig.ask({"g": grant(scope=["a"]), "h": grant(scope=["b"]), **AB})
    first, second = rig.edge.requests
    rig.hold("1", "s/g", "a", scope=first.scope, options=first.options)
    rig.hold("2", "s/h", "b", scope=first.scope, options=first.options)
    rig.hold("3", "s/g", "b", scope=second.scope, options=second.options)
    rig.edge.requests.clear()
    rig.ask({"g": grant(scope=["a"]), "h": grant(scope=["b"]), **AB}, action)
    assert [request.grant for request in rig.edge.requests] == ["s/g", "s/h"][2 - count :]
    assert second.scope != first.scope


def test_a_stack_that_is_known_by_its_name_alone_has_its_claims_too(rig: Rig) -> None:
    key = rig.hold("1", "s/g", "a")
    rig.hold("2", "t/g", "a")
    rig.ask({"g": grant(scope=["a"]), **AB}, "update", stack_id="")
    assert [request.replaces for request in rig.edge.requests] == [(key,)]


STAYS = "the grant s/g of seats can't be removed while s/a stays"
SEATS = grant("seats", scope=["a"])
CHANGED: list[tuple[dict[str, Any], tuple[str, ...], tuple[str, str]]] = [
    ({"g": SEATS, **AB}, ("a",), ("allowed", "")),
    ({"other": SEATS, **AB}, ("a",), ("allowed", "")),
    ({"b": KEY}, ("a",), ("allowed", "")),
    (AB, ("a",), ("denied", STAYS)),
    (AB, ("a.0",), ("denied", STAYS)),
    ({"g": grant("seats", scope=["b"]), **AB}, ("a", "b"), ("denied", STAYS)),
    ({"g": grant("edge", scope=["a"]), **AB}, ("a",), ("denied", STAYS)),
    ({"g": SEATS, **AB}, (), ("allowed", "")),
    ({"other": SEATS, **AB}, (), ("denied", "the grant s/g of seats can't be removed while s stays")),
    (AB, (), ("denied", "the grant s/g of seats can't be removed while s stays")),
]


@pytest.mark.parametrize(("resources", "held", "expected"), CHANGED)
def test_a_grant_of_a_sticky_service_stays_with_what_it_was_for(
    tmp_path: Path, resources: dict[str, Any], held: tuple[str, ...], expected: tuple[str, str]
) -> None:
    rig = Rig(tmp_path, sticky=True)
    rig.hold("1", "s/g", *held, service="seats")
    assert [rig.ask(resources, action) for action in ("update", "restore")] == [expected, expected]
    assert rig.ask(resources, "create") == ("allowed", "")
    rig.journal.give_back("1", 6.0, "gone")
    assert rig.ask(resources, "update") == ("allowed", "")


def test_a_grant_of_any_other_service_may_go(rig: Rig) -> None:
    rig.hold("1", "s/g", "a", service="seats")
    rig.hold("2", "s/h", "a", service="gone")
    assert rig.ask(AB, "update") == ("allowed", "")


def test_a_journal_that_can_not_be_read_leaves_the_update_undecided(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("no journal at all, but long enough to be one" * 50)
    verdict, reason = rig.ask({"g": grant(), **AB}, "update")
    assert (verdict, reason) == (
        "undecided",
        "the contents of the stack can't be read: journal: file is not a database",
    )


def test_a_store_that_can_not_be_reached_stops_grants_alone(tmp_path: Path) -> None:
    rig = Rig(tmp_path, store="mysql+pymysql://gate:hush@127.0.0.1:1/gate")
    rig.point.broker = create_broker(rig.point.settings)
    unreachable = ("undecided", "the contents of the stack can't be read: the store can't be reached")
    granted = {"g": grant(), **AB}
    assert [rig.ask(granted, action) for action in ("create", "update", "adopt")] == [unreachable] * 3
    assert [rig.ask(AB), rig.ask(AB, "update"), rig.ask(granted, "delete")] == [("allowed", "")] * 3


def test_an_abandoned_stack_is_marked_in_the_journal_with_all_within_it(rig: Rig) -> None:
    places = {"1": ("s/g", "id"), "2": ("s/tr/own", "id-tr"), "3": ("s/g", "before"), "4": ("t/g", "id-t")}
    for uuid, (path, stack) in places.items():
        rig.hold(uuid, path, stack=stack)
    rig.hold("5", "s/tr/own", stack="elsewhere", project="other")
    rig.point.abandon("id", "p", "s")
    abandoned = {claim.uuid: claim.abandoned for claim in rig.journal.claims()}
    assert abandoned == {"1": True, "2": True, "3": False, "4": False, "5": False}


def test_a_point_without_services_notes_no_abandoned_stack(rig: Rig) -> None:
    rig.hold("1", "s/g")
    rig.point.broker = None
    rig.point.abandon("id", "p", "s")
    assert [claim.abandoned for claim in rig.journal.claims()] == [False]
