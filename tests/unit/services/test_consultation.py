"""Services for every stack around an operation: order, requests, problems and outcomes."""

from __future__ import annotations

import copy
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError
from operator import setitem
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import datalog_gate as dg
from datalog_gate.base.values import SECRET, ResourceId
from datalog_gate.decision_point.grant_requests import build_operation_request
from datalog_gate.decision_point.operation import Operation
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.plugins.plugin_errors import PluginError, PluginLoadError, RefusedError, UnavailableError
from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.consultation import consult, finish, order_services
from datalog_gate.services.contract import Decision, Held, Request, Service, Status
from datalog_gate.services.journal import Journal
from datalog_gate.services.parts import Part
from datalog_gate.services.reconcile import ReconcileResult, reconcile
from datalog_gate.stack.model import Stack
from tests.expressions import unknown_of

NOW = 1_800_000_000.0
LIMITS = Limits(20.0, 25.0, 30.0)
TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "parameters": {
        "pw": {"type": "string", "hidden": True, "default": "s3cret"},
        "size": {"type": "string", "default": "small"},
        "zone": {"type": "string"},
        "key": {"type": "string", "hidden": True},
    },
    "conditions": {"far": {"equals": [{"get_param": "zone"}, "far"]}},
    "resources": {
        "web": {
            "type": "OS::Nova::Server",
            "metadata": {"note": [{"get_param": "pw"}, "plain"]},
            "properties": {
                "flavor": {"get_param": "size"},
                "image": {"get_resource": "image"},
                "admin_pass": {"get_param": "pw"},
                "user_data": {"list_join": ["-", ["a", {"get_param": "pw"}]]},
                "availability_zone": {"get_param": "zone"},
            },
        },
        "image": {"type": "OS::Glance::WebImage", "condition": "far", "properties": {"tags": ["a", "b"]}},
        "group": {
            "type": "OS::Heat::ResourceGroup",
            "condition": "far",
            "properties": {"count": 1, "resource_def": {"type": "OS::Nova::KeyPair", "properties": {"name": "k"}}},
        },
    },
}


def read() -> Stack:
    return dg.read_stack(template=copy.deepcopy(TEMPLATE), stack_name="s")


def unread() -> StackDefinition:
    raise AssertionError("the stack was read before")


def taken(stack: Stack | None = None, action: str = "create", request_id: str = "r", **credentials: object) -> Request:
    """The request of an operation on the stack `s`."""
    operation = Operation("api", action, "s", "p", unread, credentials, "1b" if action != "create" else "", request_id)
    return build_operation_request(operation, "d", stack)


class Recorder(Service):
    """A service for every stack that records its calls, and raises given exceptions by the name of the call."""

    for_every_stack = True

    def __init__(self, name: str, calls: list[str], errors: Mapping[str, BaseException] = {}) -> None:
        self.name, self.calls, self.errors = name, calls, dict(errors)

    def _call(self, text: str) -> None:
        self.calls.append(f"{self.name} {text}")
        if error := self.errors.get(text.partition(" ")[0]):
            raise error

    def reserve(self, request: Request) -> Decision:
        self._call(f"reserve {request.action}")
        return {}

    def commit(self, held: Held) -> None:
        self._call(f"commit {held.action} {held.outcome}")

    def release(self, held: Held) -> None:
        self._call(f"release {held.action}")

    def status(self, held: Held) -> Status:  # noqa: ARG002
        return "unknown"


class Rig:
    """A broker of the services `a`, `b` and `c`, enabled in another order, with errors such as ``b_reserve``."""

    def __init__(self, folder: Path, **errors: BaseException) -> None:
        self.calls, self.now = list[str](), NOW
        mine = {at: {key[2:]: error for key, error in errors.items() if key[0] == at} for at in "abc"}
        self.services: dict[str, Service] = {at: Recorder(at, self.calls, mine[at]) for at in "cab"}
        self.journal = Journal(str(folder / "journal"), late=60.0)
        self.broker = Broker(self.journal, self.services, lambda: self.now, time.monotonic, LIMITS)

    def states(self) -> dict[str, str]:
        """The states of the claims that are not over, by service."""
        return {claim.service: claim.state for claim in self.journal.claims()}

    def reconcile(self, *outcomes: Any) -> list[ReconcileResult]:
        """Settle, where Heat has one outcome after the other."""
        script = iter(outcomes)
        return reconcile(self.broker, unasked, find_outcome=lambda _claim, _now: next(script))


def unasked(stack: str) -> None:
    raise AssertionError(f"nobody asks for the stack {stack} of an operation")


def make_service(order: int = 100, **names: tuple[str, ...]) -> Service:
    service = Service()
    service.for_every_stack, service.order = True, order
    for key, value in names.items():
        setattr(service, key, value)
    return service


CIRCLE = "these services must each come before the other: "


@pytest.mark.parametrize(
    ("services", "message"),
    [
        ({"a": make_service(after=("b",)), "b": make_service(after=("a",))}, f"{CIRCLE}a -> b -> a"),
        (
            {"a": make_service(before=("c",)), "b": make_service(before=("a",)), "c": make_service(before=("b",))},
            f"{CIRCLE}a -> c -> b -> a",
        ),
        ({"a": make_service(before=("a",))}, f"{CIRCLE}a -> a"),
        ({"a": make_service(before="licence")}, "a.before is not a tuple of names"),  # type: ignore[arg-type]
        ({"a": make_service("1")}, "a.order is not a whole number"),  # type: ignore[arg-type]
    ],
)
def test_services_in_no_order_are_an_error_that_names_them(services: Mapping[str, Service], message: str) -> None:
    with pytest.raises(PluginLoadError) as error:
        order_services(services)
    assert str(error.value) == message


@st.composite
def partial_orders(draw: st.DrawFn) -> dict[str, Service]:
    """Services whose names follow a hidden line, so that they have an order."""
    line = draw(st.permutations("abcdefg"))
    services = {name: make_service(draw(st.integers(0, 2))) for name in line}
    for name, service in services.items():
        at = line.index(name)
        earlier, later = st.sampled_from([*line[:at], "gone"]), st.sampled_from([*line[at + 1 :], "gone"])
        service.after = tuple(draw(st.lists(earlier, max_size=2)))
        service.before = tuple(draw(st.lists(later, max_size=2)))
    return services


@given(services=partial_orders(), data=st.data())
def test_any_partial_order_is_kept_least_first_and_whatever_the_order_given(
    services: dict[str, Service], data: st.DataObject
) -> None:
    order = order_services({**services, "for grants alone": Service()})
    pairs = {(other, name) for name, service in services.items() for other in service.after}
    pairs |= {(name, other) for name, service in services.items() for other in service.before}
    expected: list[str] = []
    while len(expected) < len(services):
        left = services.keys() - expected
        free = (name for name in left if not any(later == name and earlier in left for earlier, later in pairs))
        expected.append(min(free, key=lambda name: (services[name].order, name)))
    assert order == expected
    shuffled = data.draw(st.permutations(list(services)))
    assert order_services({name: services[name] for name in shuffled}) == order


@pytest.mark.parametrize(
    ("ending", "later"),
    [
        ("accepted", []),
        ("complete", ["a commit create complete", "b commit create complete", "c commit create complete"]),
        ("failed", ["c release create", "b release create", "a release create"]),
    ],
)
def test_services_are_asked_in_order_and_released_in_reverse(tmp_path: Path, ending: Any, later: list[str]) -> None:
    rig = Rig(tmp_path)
    rig.services["b"].actions = ("create",)
    rig.services["d"] = Recorder("d", rig.calls)
    rig.services["d"].actions = ("delete",)
    finish(rig.broker, consult(rig.broker, taken()), ending, "1b")
    assert rig.calls == ["a reserve create", "b reserve create", "c reserve create", *later]
    held = [(claim.state, claim.stack, claim.stack_name, claim.action) for claim in rig.journal.claims()]
    assert held == ([("reserved", "1b", "s", "create")] * 3 if ending == "accepted" else [])


@pytest.mark.parametrize(
    ("raised", "expected", "reason", "left"),
    [
        (RefusedError("no\nlicence \x1b[31m"), RefusedError, "no licence ?[31m", {}),
        (UnavailableError("nobody there"), UnavailableError, "nobody there", {"c": "releasing"}),
        (KeyError("s3cret"), UnavailableError, "is broken (KeyError)", {"c": "releasing"}),
    ],
)
def test_the_first_service_that_raises_stops_and_earlier_ones_unwind(
    tmp_path: Path, raised: Exception, expected: type[PluginError], reason: str, left: dict[str, str]
) -> None:
    rig = Rig(tmp_path, c_reserve=raised)
    with pytest.raises(PluginError) as error:
        consult(rig.broker, taken())
    assert (type(error.value), vars(error.value)) == (expected, {"reason": reason, "plugin": "c"})
    assert rig.calls == [*(f"{at} reserve create" for at in "abc"), "b release create", "a release create"]
    assert rig.states() == left


def test_a_thread_that_exits_unwinds_first(tmp_path: Path) -> None:
    rig = Rig(tmp_path, b_reserve=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        consult(rig.broker, taken())
    assert rig.calls == ["a reserve create", "b reserve create", "a release create"]
    assert rig.states() == {"b": "intent"}


@pytest.mark.parametrize(
    ("outcomes", "calls"),
    [
        (["complete"], ["commit create complete"]),
        (["unknown"], ["commit create unknown"]),
        (["failed"], ["release create"]),
        ([None, "complete"], ["commit create complete"]),
    ],
)
def test_the_end_of_what_the_host_accepted_is_told_once(tmp_path: Path, outcomes: list[Any], calls: list[str]) -> None:
    rig = Rig(tmp_path)
    del rig.services["b"], rig.services["c"]
    finish(rig.broker, consult(rig.broker, taken()), "accepted", "1b")
    done = [rig.reconcile(outcome) for outcome in outcomes]
    said = "failed" if outcomes[-1] == "failed" else f"is {outcomes[-1]}"
    [uuid] = [result.uuid for results in done for result in results]
    expected = "released" if outcomes[-1] == "failed" else "committed"
    assert done[-1] == [ReconcileResult(uuid, "1b", expected, f"its create {said}")]  # type: ignore[arg-type]
    assert (rig.calls[1:], rig.states(), rig.reconcile()) == ([f"a {call}" for call in calls], {}, [])


@pytest.mark.parametrize("stack", ["", "1b"])
def test_an_outcome_that_nobody_knows_after_a_day_is_unknown(tmp_path: Path, stack: str) -> None:
    rig = Rig(tmp_path)
    del rig.services["b"], rig.services["c"]
    finish(rig.broker, consult(rig.broker, taken()), "accepted", stack)
    rig.now += 86399
    assert rig.reconcile(None) == []
    rig.now += 1
    assert [result.why for result in rig.reconcile(None)] == ["its create is unknown"]
    assert rig.calls == ["a reserve create", "a commit create unknown"]


def test_who_can_not_be_told_is_told_again_and_the_others_are_not(tmp_path: Path) -> None:
    rig = Rig(tmp_path, b_commit=UnavailableError("nobody there"))
    finish(rig.broker, consult(rig.broker, taken()), "complete")
    assert rig.states() == {"b": "reserved"}
    rig.calls.clear()
    assert [(result.done, result.why) for result in rig.reconcile()] == [("failed", "nobody there")]
    rig.services["b"].errors.clear()  # type: ignore[attr-defined]
    assert [(result.done, result.why) for result in rig.reconcile()] == [("committed", "its create is complete")]
    assert (rig.calls, rig.states()) == (["b commit create complete"] * 2, {})


def test_the_same_request_at_two_doors_is_reserved_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    first, second = consult(rig.broker, taken()), consult(rig.broker, taken(read()))
    assert (first, len(rig.calls)) == (second, 3)
    assert first != consult(rig.broker, taken(request_id="other"))


def test_a_service_sees_the_stack_with_what_is_hidden_covered_and_no_tokens() -> None:
    zone = unknown_of("{get_param: zone} in s")
    request = taken(read(), user_id="u", roles=["member"], auth_token="t0ken", password="t0ken")
    fields = ("action", "stack_name", "stack", "project", "decision_id", "grant")
    assert [getattr(request, name) for name in fields] == ["create", "s", "", "p", "d", ""]
    assert request.credentials == {"user_id": "u", "roles": ("member",)}
    assert request.parameters == {"pw": SECRET, "size": "small", "zone": zone, "key": SECRET}
    open_ = {"flavor": "small", "image": ResourceId("s/image"), "availability_zone": zone}
    web = {**open_, "admin_pass": SECRET, "user_data": SECRET}
    group = {"count": 1, "resource_def": {"type": "OS::Nova::KeyPair", "properties": {"name": "k"}}}
    note = {"note": (SECRET, "plain")}
    assert request.scope == (
        Part("s/web", "OS::Nova::Server", web, note, frozenset({"image"}), False, False),
        Part("s/image", "OS::Glance::WebImage", {"tags": ("a", "b")}, None, frozenset(), True, False),
        Part("s/group", "OS::Heat::ResourceGroup", group, None, frozenset(), True, False),
        Part("s/group/0", "OS::Nova::KeyPair", {"name": "k"}, None, frozenset(), True, False),
    )


def test_without_a_stack_there_are_no_parts() -> None:
    request = taken(None, "delete")
    assert (request.action, request.stack, request.scope, dict(request.parameters)) == ("delete", "1b", (), {})


CHANGES: list[Callable[[Any], object]] = [
    lambda request: setattr(request, "action", "delete"),
    lambda request: setattr(request.scope[0], "type", "OS::Heat::None"),
    lambda request: setitem(request.scope[0].properties, "flavor", "huge"),
    lambda request: setitem(request.scope[2].properties["resource_def"]["properties"], "name", "x"),
    lambda request: setitem(request.credentials, "roles", ["admin"]),
    lambda request: request.scope[1].properties["tags"].append("x"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_no_service_can_change_what_the_gate_judged_or_others_see(change: Callable[[Any], object]) -> None:
    stack, roles = read(), ["member"]
    request = taken(stack, roles=roles)
    before = repr((stack, roles, request))
    with pytest.raises((FrozenInstanceError, TypeError, AttributeError)):
        change(request)
    assert repr((stack, roles, request)) == before


def test_a_request_shares_nothing_that_changes_with_its_stack() -> None:
    stack = read()
    request = taken(stack)
    before = repr(request)
    stack.resources[1].properties["tags"].append("c")  # type: ignore[attr-defined]
    stack.resources[0].type = "OS::Heat::None"
    assert repr(request) == before


def test_a_point_without_services_does_without_their_libraries() -> None:
    """Who enables none pays for none."""
    code = "import sys, datalog_gate.decision_point.enabled_plugins as enabled; "
    code += "from datalog_gate.decision_point.settings import Settings; enabled.create_broker(Settings()); "
    code += "sys.exit(bool({'stevedore', 'requests', 'urllib3', 'sqlalchemy'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
