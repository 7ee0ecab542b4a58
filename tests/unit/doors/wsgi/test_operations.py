"""The operations that the API filter submits to the decision point."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from datalog_gate.api import load_rules
from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.metrics_port import MetricsPort
from datalog_gate.decision_point.operation import REASON, Answer, Operation
from datalog_gate.decision_point.point import DecisionPoint
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.wsgi import cfn_filter_factory, filter_factory, wrap
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.files.templates import read_stack
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.services.consultation import Ending
from tests.fake_heat import ID, STACK, TOKEN, Client, Context, FakeHeat

WEB = {"type": "OS::Nova::Server", "properties": {"image": "debian", "flavor": "small"}}
TEMPLATE = {"heat_template_version": "2018-08-31", "resources": {"web": WEB}}
UUID = "6a6a6a6a-0000-4000-8000-000000000001"
STORED = {"template": TEMPLATE, "environment": {"parameters": {}}, "files": {}}
NEW = {"stack_name": "web", "template": TEMPLATE}
ALLOWED = Answer("allowed", "0123456789")
DENIED = Answer("denied", "0123456789", "The policies deny this stack: too big")


@dataclass
class Point(DecisionPoint):
    """A decision point with one answer that records the operations."""

    answer: Answer | Exception = ALLOWED
    operations: list[Operation] = field(default_factory=list)
    finished: list[tuple[str, Ending]] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    left: list[tuple[str, str, str]] = field(default_factory=list)
    look: bool = False
    metrics: MetricsPort = field(default_factory=lambda: MetricsPort("", 0, "", lambda: None, list))

    def judge(self, operation: Operation) -> Answer:
        self.operations.append(operation)
        if self.look:
            operation.definition()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def finish(self, answer: Answer, ending: Ending, stack_id: str = "") -> None:
        self.finished.append((answer.id, ending))
        self.created.append(stack_id)

    def abandon(self, stack_id: str, project: str, stack_name: str) -> None:
        self.left.append((stack_id, project, stack_name))


def client(point: Point, **settings: Any) -> Client:
    heat = FakeHeat(STORED)
    return Client(wrap(heat, point=point, settings=Settings(**settings)), heat, known=False)


OPERATIONS: list[tuple[str, str, object, tuple[str, bool, str, str]]] = [
    ("POST", "/v1/p/stacks", NEW, ("create", False, "web", "")),
    ("POST", "/v1/p/stacks", {**NEW, "adopt_stack_data": "{}"}, ("adopt", False, "web", "")),
    ("POST", "/v1/p/stacks/preview", NEW, ("create", True, "web", "")),
    ("POST", "/p/stacks/preview\n", {**NEW, "adopt_stack_data": "{}"}, ("adopt", True, "web", "")),
    ("POST", "/v1/p/validate", {"template": TEMPLATE}, ("create", True, "", "")),
    ("POST", "/p/validate", {"template": TEMPLATE}, ("create", True, "", "")),
    ("PUT", STACK, NEW, ("update", False, "web", ID)),
    ("PUT", STACK + "\n", NEW, ("update", False, "web", ID)),
    ("PATCH", "/p/stacks/stacks/stacks", {}, ("update", False, "stacks", "stacks")),
    ("PUT", STACK + "/preview", NEW, ("update", True, "web", ID)),
    ("PATCH", STACK + "/preview", {}, ("update", True, "web", ID)),
    ("DELETE", STACK, None, ("delete", False, "web", ID)),
    ("DELETE", STACK + "/abandon", None, ("delete", False, "web", ID)),
    ("POST", STACK + "/snapshots", {"name": "x"}, ("snapshot", False, "web", ID)),
    ("POST", STACK + "/snapshots/2/restore", None, ("restore", False, "web", ID)),
    ("POST", STACK + "/actions", {"suspend": None}, ("suspend", False, "web", ID)),
    ("POST", STACK + "/actions", {"resume": None}, ("resume", False, "web", ID)),
    ("POST", STACK + "/actions", {"check": ""}, ("check", False, "web", ID)),
    ("POST", STACK + "/actions", {"cancel_update": None}, ("rollback", False, "web", ID)),
]


@pytest.mark.parametrize(("method", "path", "body", "expected"), OPERATIONS)
def test_each_operation_is_asked_for_and_forwarded_as_it_came(
    method: str, path: str, body: object, expected: tuple[str, bool, str, str]
) -> None:
    point = Point()
    door = client(point)
    assert door.ask(method, path, body) == (201, "")
    [operation] = point.operations
    assert (operation.action, operation.dry_run, operation.stack_name, operation.stack_id) == expected
    assert (operation.door, operation.project, operation.credentials, operation.request_id) == ("api", "p", None, "")
    text = b"" if body is None else json.dumps(body).encode()
    assert door.heat.requests == [(method, path, text, str(len(text)))]
    assert (door.heat.contexts, point.finished) == ([], [(ALLOWED.id, "accepted")])


@pytest.mark.parametrize(
    ("method", "path", "body", "tags", "old"),
    [
        ("POST", "/v1/p/stacks", {**NEW, "tags": "a,b,a"}, ("a", "b"), None),
        ("PATCH", STACK, {"files": {"b": "b"}}, ("x", "y"), ("x", "y")),
        ("PATCH", STACK, {"tags": "z"}, ("z",), ("x", "y")),
        ("PUT", STACK, {**NEW, "tags": None}, (), ("x", "y")),
        ("PUT", STACK, {**NEW, "existing": True, "tags": None}, ("x", "y"), ("x", "y")),
        ("DELETE", STACK, None, ("x", "y"), None),
        ("POST", STACK + "/snapshots/2/restore", None, (), ("x", "y")),
    ],
)
def test_tags_are_those_that_heat_will_store(
    method: str, path: str, body: object, tags: tuple[str, ...], old: tuple[str, ...] | None
) -> None:
    point, snapshots = Point(), {"snapshots/2": {"status": "COMPLETE", "data": STORED}}
    heat = FakeHeat({**STORED, "tags": ["x", "y"], "snapshots": snapshots})
    point.look = True  # before Heat stores the update
    assert Client(wrap(heat, point=point, settings=Settings()), heat, known=False).ask(method, path, body)[0] == 201
    [operation] = point.operations
    heat.stack["tags"] = ["x", "y"]
    definition = StackDefinition.from_json(operation.definition().to_json())
    assert definition.stack("web", SHIPPED).tags == tags
    assert (operation.against and operation.against().tags) == old


@pytest.mark.parametrize(("method", "path", "body", "expected"), OPERATIONS)
@pytest.mark.parametrize(("verdict", "code"), [("denied", 403), ("unreadable", 400), ("undecided", 503)])
def test_each_operation_is_stopped_in_heats_shape_but_a_rollback(
    method: str, path: str, body: object, expected: tuple[str, bool, str, str], verdict: Any, code: int
) -> None:
    point = Point(Answer(verdict, "0123456789", "x"))
    door = client(point)
    rollback = expected[0] == "rollback"
    code = 409 if (method, path, verdict) == ("DELETE", STACK, "denied") else code
    assert door.ask(method, path, body) == ((201, "") if rollback else (code, "x"))
    assert (len(door.heat.requests), point.finished) == ((1, [("0123456789", "accepted")]) if rollback else (0, []))


@pytest.mark.parametrize(
    ("method", "path", "judged", "answer", "left"),
    [
        ("DELETE", STACK + "/abandon", ALLOWED, None, [(ID, "p", "web")]),
        ("DELETE", STACK + "/abandon", RuntimeError("the gate is broken"), None, [(ID, "p", "web")]),
        ("DELETE", STACK + "/abandon", DENIED, None, []),
        ("DELETE", STACK + "/abandon", ALLOWED, ("404 Not Found", {}), []),
        ("DELETE", STACK, ALLOWED, None, []),
    ],
)
def test_the_point_is_notified_of_abandoned_stacks_only(
    method: str, path: str, judged: Answer | Exception, answer: Any, left: list[tuple[str, str, str]]
) -> None:
    point = Point(judged)
    door = client(point)
    door.heat.answer = answer
    door.ask(method, path)
    assert point.left == left


def test_a_stack_is_abandoned_even_where_that_can_not_be_noted(caplog: pytest.LogCaptureFixture) -> None:
    class Full(Point):
        def abandon(self, stack_id: str, project: str, stack_name: str) -> None:
            raise OSError(f"no room to note {stack_id} {stack_name} of {project}")

    assert client(Full()).ask("DELETE", STACK + "/abandon") == (201, "")
    assert [record.getMessage().split("\n")[0] for record in caplog.records if record.levelname == "ERROR"] == [
        "decision 0123456789: the work after Heat's answer failed"
    ]


@pytest.mark.parametrize(
    "body", [{"cancel_without_rollback": None}, {"nothing": 1}, {}, {"check": None, "suspend": None}]
)
def test_other_actions_are_heats_own(body: object) -> None:
    point = Point(DENIED)
    assert client(point).ask("POST", STACK + "/actions", body) == (201, "")
    assert point.operations == []


@pytest.mark.parametrize("body", [b"[]", b'{"check": null, "check": null}', b" " * 2_000_000])
def test_an_action_that_can_not_be_read_is_refused(body: bytes) -> None:
    point = Point()
    assert client(point).message(body, PATH_INFO=STACK + "/actions")[0] == 400
    assert point.operations == []


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (("409 Conflict", {"code": 409}), "failed"),
        (("202 Accepted", {}), "accepted"),
        (LookupError("a fault of Heat's"), "failed"),
    ],
)
def test_the_decision_point_gets_the_answer_of_heat(answer: Any, ending: Ending) -> None:
    point = Point()
    door = client(point)
    door.heat.answer = answer
    if isinstance(answer, Exception):
        with pytest.raises(LookupError):
            door.ask("DELETE", STACK)
    else:
        assert door.ask("DELETE", STACK)[0] == int(answer[0][:3])
    assert (point.finished, point.created) == ([(ALLOWED.id, ending)], [""])


@pytest.mark.parametrize(
    ("status", "href", "stack_id"),
    [
        ("201 Created", f"http://cloud/heat/v1/p/stacks/stacks/{UUID}", UUID),
        ("201 Created", "http://cloud/v1/p/stacks/web/6a", ""),
        ("409 Conflict", f"http://cloud/v1/p/stacks/web/{UUID}", ""),
    ],
)
def test_the_decision_point_gets_the_id_of_the_created_stack(status: str, href: str, stack_id: str) -> None:
    point = Point()
    door = client(point)
    door.heat.answer = status, {"stack": {"id": UUID, "links": [{"href": href, "rel": "self"}]}}
    door.ask("POST", "/v1/p/stacks", {"stack_name": "web", "template": STORED["template"]})
    assert point.created == [stack_id]


def test_the_header_holds_the_decision_and_its_warnings(caplog: pytest.LogCaptureFixture) -> None:
    point = Point(Answer("allowed", "0123456789", warnings=("net: w\u00e9b\r\nis open", "x" * REASON)))
    _, headers, _ = client(point).send(json.dumps(NEW).encode())
    assert headers["Datalog-Gate"] == ("allow 0123456789; net: w?b??is open; " + "x" * REASON)[:REASON]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "decision 0123456789: net: w\u00e9b\ufffd\ufffdis open", "decision 0123456789: " + "x" * REASON]  # fmt: skip


def test_the_header_of_a_refusal_does_not_say_that_the_policies_allow() -> None:
    decision = load_rules("rules/licence").decide(read_stack(template=TEMPLATE))
    refusal = Answer("denied", decision.id, "edge refuses the grant", decision=decision)
    status, headers, _ = client(Point(refusal)).send(json.dumps(NEW).encode())
    assert (decision.outcome, status, headers["Datalog-Gate"]) == ("allow", "403 Forbidden", f"deny {decision.id}")


def test_a_long_reason_keeps_its_bound_and_the_decision() -> None:
    _, _, content = client(Point(Answer("denied", "0123456789", "x" * REASON))).send(json.dumps(NEW).encode())
    message = json.loads(content)["explanation"]
    assert (len(message), message[-24:]) == (REASON, "xxx... [decision 012345]")


@pytest.mark.parametrize("names_decision", [True, False])
def test_a_reason_that_names_the_decision_is_the_whole_message(names_decision: bool) -> None:
    answer = Answer("denied", "0123456789", "x [decision 012345]", names_decision=names_decision)
    _, _, content = client(Point(answer)).send(json.dumps(NEW).encode())
    end = "" if names_decision else " [decision 012345]"
    assert json.loads(content)["explanation"] == f"x [decision 012345]{end}"


# Who asks


VALUES = {"user_id": "u", "project_id": "own", "roles": ["member"]}


@pytest.mark.parametrize(
    ("context", "token", "unverified", "credentials"),
    [
        (Context(TOKEN, "own"), TOKEN, False, VALUES),
        (Context(TOKEN, "own"), TOKEN, True, VALUES),
        (Context(None, "own"), None, False, None),  # noauth, custombackend: what the client's headers say
        (Context(None, "own"), None, True, VALUES),
        (Context(None, "own"), TOKEN, False, None),  # made before the token was read
        (Context(dict(TOKEN), "own"), TOKEN, False, None),
        (Context({}, "own"), {}, False, None),
        (None, TOKEN, True, None),
    ],
)
def test_only_a_context_from_a_valid_token_is_trusted(
    context: Context | None, token: object, unverified: bool, credentials: Mapping[str, object] | None
) -> None:
    point = Point()
    environ: dict[str, Any] = {"keystone.token_info": token, "openstack.request_id": "req-1"}
    if context:
        environ["webob.adhoc_attrs"] = {"context": context}
    client(point, allow_unverified_context=unverified).send(json.dumps(NEW).encode(), **environ)
    [operation] = point.operations
    project = "own" if context else "p"
    assert (operation.credentials, operation.project, operation.request_id) == (credentials, project, "req-1")


# A denied creation as a stack


RECORD = {
    "stack_name": "web",
    "disable_rollback": True,
    "template": {"heat_template_version": "2018-08-31", "resources": {"denial": {
        "type": "DatalogGate::Denial",
        "properties": {"reason": "The policies deny this stack: too big [decision 012345]"}}}},
}  # fmt: skip


def test_a_denied_creation_may_become_a_stack_that_fails_with_the_reason() -> None:
    point = Point(DENIED)
    door = client(point, create_denial="failed_stack")
    more = {"timeout_mins": 5, "tags": "a,b", "parameters": {"x": 1}, "disable_rollback": False}
    status, headers, _ = door.send(json.dumps({**NEW, **more}).encode())
    assert (status, headers["Datalog-Gate"]) == ("201 Created", "deny 0123456789")
    assert (door.heat.bodies, point.finished) == ([{**RECORD, "timeout_mins": 5, "tags": "a,b"}], [])


@pytest.mark.parametrize("answer", [("409 Conflict", {"code": 409}), LookupError("Stack s\nexists")])
def test_where_heat_takes_no_such_stack_the_denial_is_a_refusal(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    door = client(Point(DENIED), create_denial="failed_stack")
    door.heat.answer = answer
    assert door.ask("POST", "/v1/p/stacks", NEW) == (403, "The policies deny this stack: too big")
    assert door.heat.bodies == [RECORD]
    why = answer[0] if isinstance(answer, tuple) else "Stack s\ufffdexists"
    line = f"decision 0123456789: Heat does not accept a stack that records the denial: {why}"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("WARNING", line)]


@pytest.mark.parametrize(
    ("path", "body", "verdict"),
    [
        ("/v1/p/stacks", NEW, "unreadable"), ("/v1/p/stacks", NEW, "undecided"),
        ("/v1/p/stacks", {**NEW, "adopt_stack_data": "{}"}, "denied"),
        ("/v1/p/stacks/preview", NEW, "denied"), ("/v1/p/validate", NEW, "denied"),
        (STACK + "/snapshots/2/restore", {}, "denied"),
    ],
)  # fmt: skip
def test_only_a_denied_creation_becomes_a_stack(path: str, body: object, verdict: Any) -> None:
    door = client(Point(Answer(verdict, "0123456789", "x")), create_denial="failed_stack")
    assert door.ask("POST", path, body)[0] in (400, 403, 503)
    assert door.heat.requests == []


# What should not happen


@pytest.mark.parametrize(("method", "path", "body", "expected"), OPERATIONS)
def test_a_failure_within_the_gate_is_never_a_500(
    method: str, path: str, body: object, expected: tuple[str, bool, str, str], caplog: pytest.LogCaptureFixture
) -> None:
    point = Point(ZeroDivisionError("a bug"))
    door = client(point)
    closed = expected[0] in ("create", "update", "adopt", "restore")
    reason = "The gate failed (ZeroDivisionError)."
    assert door.ask(method, path, body) == ((503, reason) if closed else (201, ""))
    assert (len(door.heat.requests), point.finished) == (0 if closed else 1, [])
    errors = [
        record.getMessage().split("\n")[0].partition(": ")[2]
        for record in caplog.records
        if record.levelname == "ERROR"
    ]
    assert errors[0] == f"the gate failed at {expected[0]}"


def test_a_body_that_breaks_off_is_never_a_500() -> None:
    class Broken:
        def read(self, _size: int) -> bytes:
            raise OSError("the client went away")

    point = Point()
    code, reason = client(point).message(b"x", **{"wsgi.input": Broken()})
    assert (code, reason) == (503, "The gate failed (OSError).")


def test_a_body_that_was_not_read_whole_never_goes_on() -> None:
    point = Point()
    code, reason = client(point, body_limit=10).message(json.dumps(NEW).encode())
    assert (code, reason) == (
        400,
        "The request can't be judged: the body is larger than the 10 bytes that can be judged",
    )
    assert point.finished == [(ALLOWED.id, "failed")]


def test_a_failure_after_heats_answer_changes_nothing_for_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    point = Point()
    monkeypatch.setattr(point, "finish", fails)
    assert client(point).ask("DELETE", STACK) == (201, "")


def test_the_decision_point_is_notified_of_forwarding_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    point = Point(look=True)
    monkeypatch.setattr("datalog_gate.doors.wsgi.heat_api.put_body", fails)
    assert client(point).ask("PATCH", STACK, {"files": {"a": "b"}}) == (503, "The gate failed (ZeroDivisionError).")
    assert point.finished == [(ALLOWED.id, "failed")]


def test_who_does_not_look_forwards_what_came(caplog: pytest.LogCaptureFixture) -> None:
    """A project that is exempt: nothing is read, and nothing is merged before Heat."""
    door = client(Point())
    body = {"template_url": "http://example.org/web.yaml", "existing": True}
    assert door.ask("PUT", STACK, body) == (201, "")
    assert (door.heat.bodies, door.heat.contexts) == ([body], [])
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


# What the filter itself refuses to read


def looked(body: dict[str, Any], method: str = "POST", path: str = "/v1/p/stacks") -> InputError | None:
    """The diagnostics of the definition that a request gives."""
    point = Point()
    door = client(point)
    door.heat.answer = ("202 Accepted", {})
    door.ask(method, path, body)
    try:
        point.operations[0].definition()
    except InputError as error:
        return error
    return None


def _mapped(key: str, value: object = "OS::Heat::None") -> dict[str, Any]:
    return {"resource_registry": {key: value}}


def _as_text(environment: object) -> str:
    return environment if isinstance(environment, str) else json.dumps(environment)


AWAY = {
    "exact": (_mapped("DatalogGate::Policy"), "DatalogGate::Policy"),
    "template": (_mapped("DatalogGate::Policy", "x.yaml"), "DatalogGate::Policy"),
    "empty": (_mapped("DatalogGate::Policy", ""), "DatalogGate::Policy"),
    "namespace": (_mapped("DatalogGate::*"), "DatalogGate::*"),
    "prefix": (_mapped("Data*"), "Data*"),
    "everything": (_mapped("*"), "*"),
    "longer": (_mapped("DatalogGate::Pol*"), "DatalogGate::Pol*"),
    "single": (_mapped("resources", {"grant": {"DatalogGate::Policy": "OS::Heat::None"}}), "DatalogGate::Policy"),
    "nested": (_mapped("resources", {"a": {"b*": {"DatalogGate::*": "OS::Heat::None"}}}), "DatalogGate::*"),
    "text": ("resource_registry:\n  DatalogGate::Policy: OS::Heat::None\n", "DatalogGate::Policy"),
}
KEPT: list[dict[str, Any]] = [
    _mapped("My::Grant", "DatalogGate::Policy"), _mapped("DatalogGate::Policy", None),
    _mapped("DatalogGate::Policy", "DatalogGate::Policy"), _mapped("OS::*", "My::*"),
    _mapped("Datalog", "x"), _mapped("resources", {"DatalogGate::x": {"hooks": "pre-create"}}),
]  # fmt: skip
WAYS: dict[str, Callable[[Any], tuple[dict[str, Any], str, str]]] = {
    "create": lambda environment: ({**NEW, "environment": environment}, "POST", "/v1/p/stacks"),
    "validate": lambda environment: ({**NEW, "environment": environment}, "POST", "/v1/p/validate"),
    "file": lambda environment: (
        {**NEW, "environment_files": ["e"], "files": {"e": _as_text(environment)}},
        "POST", "/v1/p/stacks"),
    "update": lambda environment: ({**NEW, "environment": environment}, "PUT", STACK),
    "patch": lambda environment: ({"environment": environment}, "PATCH", STACK),
    "patched file": lambda environment: (
        {"environment_files": ["e"], "files": {"e": _as_text(environment)}},
        "PATCH", STACK),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("environment", "key"), AWAY.values(), ids=AWAY)
def test_no_environment_maps_the_types_of_the_gate_away(way: str, environment: Any, key: str) -> None:
    error = looked(*WAYS[way](environment))
    assert error
    assert [(diagnostic.code, diagnostic.message, diagnostic.suggestion) for diagnostic in error.diagnostics] == [(
        "bad-environment", f"`{key}` maps the types DatalogGate::* to others, which is not allowed",
        "exclude them from the pattern")]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("environment", KEPT)
def test_other_mappings_are_none_of_the_filters(way: str, environment: Any) -> None:
    assert looked(*WAYS[way](environment)) is None


@pytest.mark.parametrize("way", WAYS)
def test_no_user_chooses_the_values_that_heat_decrypts(way: str) -> None:
    environment = {"parameters": {"f": ["get_valid_encryption_key", "huge"]}, "encrypted_param_names": ["f"]}
    error = looked(*WAYS[way](environment))
    assert error
    assert [(diagnostic.code, diagnostic.message) for diagnostic in error.diagnostics] == [
        ("bad-environment", "only Heat may set encrypted_param_names")]  # fmt: skip
    assert looked(*WAYS[way]({"encrypted_param_names": [], "event_sinks": []})) is None


ADOPTED = {"template": TEMPLATE, "environment": {"parameters": {"a": "adopted", "b": "adopted", "c": "adopted"}}}


def test_adopted_data_are_the_stack_beside_whatever_template() -> None:
    point = Point()
    other = {"heat_template_version": "2018-08-31", "resources": {}}
    body = {"stack_name": "web", "template": other, "adopt_stack_data": json.dumps(ADOPTED), "files": {"f": "x"},
            "environment": "parameters: {b: body, c: body}", "parameters": {"c": "given"}}  # fmt: skip
    client(point).ask("POST", "/v1/p/stacks", body)
    assert point.operations[0].definition() == StackDefinition(
        TEMPLATE, "parameters: {b: body, c: body}", {"a": "adopted", "b": "body", "c": "given"}, {"f": "x"}
    )


# The options of the paste section


@pytest.mark.parametrize("factory", [filter_factory, cfn_filter_factory])
def test_a_wrong_option_keeps_the_pipeline_from_starting(factory: Any) -> None:
    with pytest.raises(ValueError, match="there is no option create_denail"):
        factory({}, create_denail="refuse")


@pytest.mark.parametrize("factory", [filter_factory, cfn_filter_factory])
def test_the_options_of_the_paste_section_are_taken(factory: Any) -> None:
    gate = factory({}, create_denial="failed_stack", allow_unverified_context="True", body_limit="10")(FakeHeat())
    assert gate.settings == Settings(create_denial="failed_stack", allow_unverified_context=True, body_limit=10)
    assert gate.point.settings is gate.settings


def test_filters_without_options_share_the_point_of_the_process() -> None:
    assert filter_factory({})(FakeHeat()).point is cfn_filter_factory({})(FakeHeat()).point


def test_what_needs_no_decision_shows_that_there_is_a_door() -> None:
    _, headers, _ = client(Point(Answer("allowed", ""))).send(b"", REQUEST_METHOD="DELETE", PATH_INFO=STACK)
    assert headers == {"Content-Type": "application/json", "Datalog-Gate": "allow"}
