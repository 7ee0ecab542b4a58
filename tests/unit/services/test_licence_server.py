"""The service `licence_server` against a server."""

from __future__ import annotations

import gzip
import logging
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import datalog_gate as dg
from datalog_gate.decision_point.grant_requests import build_operation_request
from datalog_gate.decision_point.operation import Operation
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.plugins.plugin_errors import RefusedError, UnavailableError
from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.consultation import consult, finish
from datalog_gate.services.contract import Held, Request
from datalog_gate.services.journal import Journal
from datalog_gate.services.licence_server import ANSWER_LIMIT, LicenceServer
from tests import licence_server as answers
from tests.licence_server import Answer, Server, licence_server, says

TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "parameters": {
        "image": {"type": "string"},
        "count": {"type": "number"},
        "hidden": {"type": "string", "hidden": True, "default": "s3cret"},
    },
    "resources": {
        "web": {"type": "OS::Nova::Server", "properties": {"image": "debian", "flavor": "small"}},
        "db": {
            "type": "OS::Nova::Server",
            "properties": {"image": {"get_param": "image"}, "flavor": {"get_param": "hidden"}},
        },
        "vol": {"type": "OS::Cinder::Volume", "properties": {"size": 1, "image": {"get_resource": "img"}}},
        "img": {"type": "OS::Glance::WebImage", "properties": {}},
        "many": {
            "type": "OS::Heat::ResourceGroup",
            "properties": {
                "count": {"get_param": "count"},
                "resource_def": {"type": "OS::Nova::Server", "properties": {"image": "debian", "flavor": "small"}},
            },
        },
    },
}
OVERLOADED = says(b"later", 503, Retry_After="86400")
SAYS_NOTHING = "the licence server gave an unreadable answer, with status {}"
UNREACHED = "the licence server can't be reached, or broke off its answer"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[Server]:
    with licence_server() as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


STACK = dg.read_stack(template=TEMPLATE, stack_name="s")


def unread() -> StackDefinition:
    raise AssertionError("the stack was read before")


def taken(action: str = "create", stack_name: str = "s", project: str = "p", request_id: str = "") -> Request:
    """The request of an operation that the decision `d1` allows."""
    operation = Operation("api", action, stack_name, project, unread, {}, request_id=request_id)
    return build_operation_request(operation, "d1", STACK)


def read_answer(service: LicenceServer, request: Request | None = None) -> str:
    """The end of a consultation: passed, or its error."""
    try:
        service.reserve(request or taken())
    except RefusedError as error:
        return f"refused: {error.reason}"
    except UnavailableError as error:
        return f"unavailable: {error.reason}"
    return "passed"


def make_broker(folder: Path, settings: dict[str, str], clock: Clock) -> Broker:
    """A broker of the service."""
    services = {"licences": LicenceServer(settings)}
    return Broker(Journal(str(folder / "journal")), services, clock, clock, Limits(20.0, 25.0, 30.0))


def test_the_server_gets_request_and_outcome_with_the_same_key(server: Server, tmp_path: Path, clock: Clock) -> None:
    broker = make_broker(tmp_path, {"url": f"{server.url}/"}, clock)
    finish(broker, consult(broker, taken()), "complete")
    finish(broker, consult(broker, taken("update", request_id="r1")), "failed")
    about = {"action": "create", "project": "p", "stack": "s"}
    kinds = {"web": "OS::Nova::Server", "db": "OS::Nova::Server"}
    kinds |= {"vol": "OS::Cinder::Volume", "img": "OS::Glance::WebImage", "many": "OS::Heat::ResourceGroup"}
    kinds |= {"many/0": "OS::Nova::Server"}
    small: dict[str, object] = {"image": "debian", "flavor": "small"}
    known: dict[str, dict[str, object]] = {"web": small, "many": {"open": True}, "many/0": small}
    resources = [
        {"id": f"s/{name}", "type": kind, "image": None, "flavor": None, "open": False, **known.get(name, {})}
        for name, kind in kinds.items()
    ]
    key, other = server.keys[0], server.keys[2]
    asked = {**about, "decision": "d1", "resources": resources}
    assert server.requests == [
        ("/licences", key, None, None, asked),
        ("/licences/outcome", key, None, None, {**about, "outcome": "complete"}),
        ("/licences", other, None, None, {**asked, "action": "update"}),
        ("/licences/outcome", other, None, None, {**about, "action": "update", "outcome": "failed"}),
    ]
    assert (len(key), key == other) == (64, False)


def test_only_the_same_request_has_the_same_key() -> None:
    requests = [
        *(taken(), taken("update"), taken(stack_name="t"), taken(project="q"), taken(request_id="r1"), taken()),
        *(replace(taken(request_id="r1"), stack="1", scope=(), decision_id="d2"), taken(request_id="r2")),
    ]
    keys = [request.key for request in requests]
    assert [keys.index(key) for key in keys] == [0, 1, 2, 3, 4, 0, 4, 7]


@pytest.mark.parametrize(
    ("answer", "ends"),
    [
        (answers.allow, "passed"),
        (answers.allow_packed, "passed"),
        (says(b' {"allowed"\n:true}\n'), "passed"),
        (answers.refuse("2 of 2 licences are taken"), "refused: 2 of 2 licences are taken"),
        (answers.refuse(""), "refused: the licence server refuses without a reason"),
        *(
            (says(body), f"unavailable: {SAYS_NOTHING.format(200)}")
            for body in (
                b"",
                b"<html>",
                b"\xff\xfe",
                b"[" * 5000,
                b'{"allowed": 1}',
                b'{"allowed": true, "reason": "no"}',
                b'{"allowed": false}',
                b'{"allowed": true}' + b" " * ANSWER_LIMIT,
            )
        ),
        *(
            (says(b'{"allowed": true}', status), f"unavailable: {SAYS_NOTHING.format(status)}")
            for status in (201, 204, 400, 401, 403, 404, 429, 500)
        ),
        (says(b'{"allowed": true}', 302, Location="/elsewhere"), f"unavailable: {SAYS_NOTHING.format(302)}"),
        (says(b'{"allowed": true}', 307, Location="/elsewhere"), f"unavailable: {SAYS_NOTHING.format(307)}"),
        (
            says(gzip.compress(b'{"allowed": true}'), Content_Encoding="gzip"),
            f"unavailable: {SAYS_NOTHING.format(200)}",
        ),
        (answers.break_off, f"unavailable: {SAYS_NOTHING.format(200)}"),
    ],
)
def test_only_a_plain_yes_passes_and_only_a_plain_no_refuses(server: Server, answer: Answer, ends: str) -> None:
    server.answers = [answer]
    assert read_answer(LicenceServer({"url": server.url})) == ends
    assert [path for path, *_ in server.requests] == ["/licences"]


@pytest.mark.parametrize(
    ("answers", "ends", "times"),
    [
        ([OVERLOADED, OVERLOADED], "passed", 3),
        ([says(b"", 502), says(b"", 504), answers.refuse("no")], "refused: no", 3),
        ([answers.slam, answers.slam], "passed", 3),
        ([OVERLOADED] * 3, f"unavailable: {SAYS_NOTHING.format(503)}", 3),
        ([answers.slam] * 3, f"unavailable: {UNREACHED}", 3),
    ],
)
def test_what_may_be_tried_again_is_with_its_key(server: Server, answers: list[Answer], ends: str, times: int) -> None:
    server.answers = [*answers]
    assert read_answer(LicenceServer({"url": server.url})) == ends
    assert (len(server.keys), len(set(server.keys))) == (times, 1)


@pytest.mark.parametrize(
    ("settings", "asked"),
    [({}, ["create", "update", "adopt", "restore"]), ({"actions": "create, delete"}, ["create", "delete"])],
)
def test_only_configured_actions_are_asked_about(
    server: Server, tmp_path: Path, clock: Clock, settings: dict[str, str], asked: list[str]
) -> None:
    broker = make_broker(tmp_path, {"url": server.url, **settings}, clock)
    for action in ("create", "update", "adopt", "restore", "delete", "suspend", "resume", "check", "snapshot"):
        finish(broker, consult(broker, taken(action)), "complete")
    assert [(path, data["action"]) for path, _, _, _, data in server.requests if isinstance(data, dict)] == [
        (path, action) for action in asked for path in ("/licences", "/licences/outcome")
    ]


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (200, ""),
        (204, ""),
        (299, ""),
        (300, "the licence server answered 300"),
        (500, "the licence server answered 500"),
    ],
)
def test_an_outcome_that_the_server_refuses_is_a_problem(server: Server, status: int, problem: str) -> None:
    held = Held(key="k", project="p", uuid="u", decision={}, outcome="complete")
    server.answers = [says(b"", status)]
    seen = ""
    try:
        LicenceServer({"url": server.url}).commit(held)
    except UnavailableError as error:
        seen = str(error)
    assert seen == problem


def test_the_token_is_read_each_time_and_never_logged(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "token"
    file.write_text("t0ken-one\n")
    service = LicenceServer({"url": server.url, "token_file": str(file)})
    ends = [read_answer(service)]
    for text in ("t0ken-two", "t0ken three", "t0ken\r\nX: 1", ""):
        file.write_text(text)
        ends.append(read_answer(service))
    file.unlink()
    server.answers = [answers.slam] * 3
    ends.append(read_answer(service))
    assert ends == ["passed", "passed", *[f"unavailable: {UNREACHED}"] * 4]
    assert [sent for _, _, sent, _, _ in server.requests] == ["Bearer t0ken-one", "Bearer t0ken-two"]
    assert [line for line in caplog.text.splitlines() if "t0ken" in line] == []


def test_nothing_of_the_environment_is_sent_and_cookies_are_forgotten(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password t0ken\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    server.answers = [says(b'{"allowed": true}', Set_Cookie="a=b; Path=/")]
    service = LicenceServer({"url": server.url})
    assert [read_answer(service), read_answer(service)] == ["passed", "passed"]
    assert [sent for _, _, *sent, _ in server.requests] == [[None, None], [None, None]]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_client_and_server_trust_each_others_certificates_only(tmp_path: Path) -> None:
    def certificate(name: str) -> Path:
        path = tmp_path / name
        command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=licences"
        files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(path), "-out", f"{path}.crt"]
        subprocess.run([*command.split(), *files], check=True, capture_output=True)
        path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
        return path

    own, other = certificate("own"), certificate("other")
    with licence_server(own, clients=Path(f"{other}.crt")) as server:
        trusting = {"url": server.url, "retries": "0"}
        for more, ends in (
            ({}, f"unavailable: {UNREACHED}"),
            ({"cafile": str(other)}, f"unavailable: {UNREACHED}"),
            ({"cafile": f"{own}.crt"}, f"unavailable: {UNREACHED}"),
            ({"cafile": f"{own}.crt", "cert": str(other)}, "passed"),
        ):
            assert read_answer(LicenceServer({**trusting, **more})) == ends
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "url must be the address of a server, with http or https"),
        ({"url": "ftp://h/"}, "url must be the address of a server, with http or https"),
        ({"url": "http://licences.example/"}, "url must begin with https"),
        ({"url": "https://me:pw@licences.example/"}, "url must not contain a user, query or fragment"),
        ({"url": "https://licences.example/?a"}, "url must not contain a user, query or fragment"),
        ({"actions": "create,craete"}, "actions: services are not consulted before craete"),
        ({"actions": ""}, "actions: services are not consulted before "),
        ({"actions": "create,rollback"}, "actions: services are not consulted before rollback"),
        ({"connect_timeout": "0"}, "connect_timeout must be more than 0 seconds, and 300 at most"),
        ({"read_timeout": "inf"}, "read_timeout must be more than 0 seconds, and 300 at most"),
        ({"connect_timeout": "soon"}, "could not convert string to float: 'soon'"),
        ({"retries": "-1"}, "retries must be 0 to 10"),
        ({"retries": "11"}, "retries must be 0 to 10"),
        ({"cafile": "/none"}, "cafile: there is no /none"),
        ({"cert": "/none"}, "cert: there is no /none"),
        ({"token_file": "/dev/null"}, "/dev/null contains no token"),
        ({"tokenfile": "x", "verify": "no"}, "there is no setting tokenfile, verify"),
    ],
)
def test_settings_that_are_wrong_are_refused_at_the_start(settings: dict[str, str], message: str) -> None:
    options = {"url": "https://licences.example/", **settings} if settings else {}
    with pytest.raises(ValueError, match=r".") as error:
        LicenceServer(options)
    assert str(error.value) == message
