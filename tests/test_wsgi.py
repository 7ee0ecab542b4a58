"""The API filter over plain WSGI: what it refuses and how, and that it forwards exactly the bytes that it judged."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from datalog_gate.api import Rules, load_rules
from datalog_gate.diagnostics import Diagnostic, Span
from datalog_gate.enforce.wsgi import Environ, Gate, StartResponse, filter_factory
from datalog_gate.errors import RulesError
from datalog_gate.gate.reason import reason
from datalog_gate.sources import read_stack

RULES = """
@deny("flavor", "{server} takes {flavor}", hint="take a small one")
huge(server, flavor) :- os:nova:server(_id=server, flavor=flavor), flavor = "huge".
@warn("image", "{server} runs {image}")
old(server, image) :- os:nova:server(_id=server, image=image), image = "old".
@deny("count", "{server} has a bad count", on_unknown="deny")
bad(server) :- os:nova:server.metadata(_id=server, _key="count", _value=text), int(text ?? "0", count), count > 3.
"""
ANSWER = b'{"stack": {"id": "1"}}'
DENIAL = "The policies deny this stack: flavor: web takes huge at {} (take a small one) [decision {}]"


class Heat:
    """An application that answers every request alike and keeps what came."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bytes, str | None]] = []

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        body = environ["wsgi.input"].read()
        length = environ.get("CONTENT_LENGTH")
        self.seen.append((environ["REQUEST_METHOD"], environ.get("PATH_INFO", ""), body, length))
        start_response("201 Created", [("Content-Type", "application/json")])
        return [ANSWER]


def template(**properties: object) -> dict[str, Any]:
    web = {"type": "OS::Nova::Server", "properties": {"image": "debian", "flavor": "small", **properties}}
    return {"heat_template_version": "2018-08-31", "parameters": {"f": {"type": "string", "default": "small"}},
            "resources": {"web": web}}  # fmt: skip


def body_of(stack_template: object = None, **fields: object) -> bytes:
    return json.dumps({"stack_name": "s", "template": stack_template or template(), **fields}).encode()


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Rules:
    path = tmp_path_factory.mktemp("rules") / "m.dl"
    path.write_text(RULES)
    return load_rules(path)


class Door:
    """The gate in front of a `Heat`: posts requests and keeps the answers."""

    def __init__(self, rules: Rules) -> None:
        self.heat = Heat()
        self.gate = Gate(self.heat, rules, body_limit=5000)

    def send(self, body: bytes, **environ: Any) -> tuple[str, dict[str, str], bytes]:
        """The status, headers and body that the client gets. A part of the environ that is None is left out."""
        answers: list[tuple[str, list[tuple[str, str]]]] = []
        whole = {"REQUEST_METHOD": "POST", "PATH_INFO": "/v1/p/stacks", "CONTENT_LENGTH": str(len(body)),
                 "wsgi.input": io.BytesIO(body), **environ}  # fmt: skip
        given = {name: value for name, value in whole.items() if value is not None}
        content = b"".join(self.gate(given, lambda status, headers, *_: answers.append((status, headers))))
        [(status, headers)] = answers
        return status, dict(headers), content

    def message(self, body: bytes, **environ: Any) -> tuple[int, str]:
        """The code and message of a refusal, after which nothing may have reached Heat."""
        _, _, content = self.send(body, **environ)
        assert self.heat.seen == []
        fault = json.loads(content)
        return fault["code"], fault["error"]["message"]


@pytest.fixture
def door(rules: Rules) -> Door:
    return Door(rules)


def test_a_denial_has_the_shape_of_heats_faults_and_heat_sees_nothing(door: Door) -> None:
    status, headers, content = door.send(body_of(template(flavor="huge")))
    fault = json.loads(content)
    message = DENIAL.format("s/web", fault["explanation"][-7:-1])
    assert (status, fault, door.heat.seen) == (
        "403 Forbidden",
        {"code": 403, "title": "Forbidden", "explanation": message,
         "error": {"type": "Forbidden", "message": message, "traceback": None}},
        [],
    )  # fmt: skip
    assert headers == {"Content-Type": "application/json", "Content-Length": str(len(content))}


def test_what_is_allowed_goes_on_byte_for_byte_and_the_answer_names_the_decision(door: Door, rules: Rules) -> None:
    body = b' {"template" :\t' + json.dumps(json.dumps(template())).encode() + b', "stack_name":"\\u0073", "x": 1e2}\n'
    decision = rules.decide(read_stack(template=template(), stack_name="s"))
    assert door.send(body) == (
        "201 Created",
        {"Content-Type": "application/json", "Datalog-Gate": f"allow {decision.id}"},
        ANSWER,
    )
    assert door.heat.seen == [("POST", "/v1/p/stacks", body, str(len(body)))]


def test_warnings_go_into_the_header_and_the_log_in_plain_characters(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    web = template(image="old")
    web["resources"] = {"w\u00e9\r\nb": web["resources"]["web"]}
    _, headers, content = door.send(body_of(web))
    start, _, rest = headers["Datalog-Gate"].partition(";")
    assert (start.split()[0], rest, content) == ("allow_with_warnings", " image: w???b runs old", ANSWER)
    warning = f"decision {start.split()[1]}: image: w\u00e9\ufffd\ufffdb runs old"
    assert [one.getMessage() for one in caplog.records if one.levelname == "WARNING"] == [warning]


@pytest.mark.parametrize(
    "fields",
    [
        {"template": template(flavor="huge")},
        {"template": json.dumps(template(flavor="huge"))},
        {"template": json.dumps(template(flavor="huge"), indent=2).replace('"', "'")},
        {"template": template(flavor={"get_param": "f"}), "parameters": {"f": "huge"}},
        {"template": template(flavor={"get_param": "f"}), "environment": {"parameters": {"f": "huge"}}},
        {"template": template(flavor={"get_param": "f"}), "environment": "parameters: {f: huge}"},
        {"template": template(flavor={"get_param": "f"}), "environment": {"parameter_defaults": {"f": "huge"}}},
        {"template": template(flavor={"get_param": "f"}), "environment": {"parameters": {"f": "small"}},
         "parameters": {"f": "huge"}},
        {"template": template(flavor={"get_file": "f.txt"}), "files": {"f.txt": "huge"}},
        {"template": json.loads(json.dumps(template(flavor="huge")).replace("OS::Nova::Server", "My::Server")),
         "environment": {"resource_registry": {"My::*": "OS::Nova::*"}}},
        {"template": {"heat_template_version": "2018-08-31", "resources": {"n": {"type": "n.yaml"}}},
         "files": {"n.yaml": json.dumps(template(flavor="huge"))}},
        {"template": template(flavor="huge"), "environment_files": [], "environment": None, "files": None},
    ],
)  # fmt: skip
def test_the_stack_is_judged_as_heat_would_build_it(door: Door, fields: dict[str, object]) -> None:
    code, message = door.message(json.dumps({"stack_name": "s", **fields}).encode())
    at = message.partition(" at ")[2].partition(" (")[0]
    assert (code, message) == (403, DENIAL.format(at, message[-7:-1]))


def test_what_can_not_be_evaluated_is_neither_denied_nor_let_through(door: Door) -> None:
    code, message = door.message(body_of(template(metadata={"count": "many"})))
    begin = "The policies could not be evaluated: count could not be evaluated: "
    assert (code, message[: len(begin)]) == (503, begin)


def test_an_undetermined_finding_stops_the_stack_only_if_its_policy_says_so(door: Door) -> None:
    unknown = {"get_attr": ["other", "name"]}
    both = template(metadata={"count": unknown}, flavor="small")
    both["resources"]["other"] = {"type": "OS::Nova::Server", "properties": {"flavor": "tiny", "image": "debian"}}
    code, message = door.message(body_of(both))
    assert (code, message[:-8]) == (403, "The policies deny this stack: count: web has a bad count at s/web [decision")
    both["resources"]["web"]["properties"] = {"image": "debian", "flavor": unknown}
    _, headers, content = door.send(body_of(both))
    assert (headers["Datalog-Gate"].partition(";")[2], content) == (" flavor: undetermined: web takes ?", ANSWER)


UNJUDGED = "The policies can't judge a stack given by {} yet: send it in the body."
UNTYPED = "{} is missing or of a wrong type."
UNREAD = (
    "The stack can't be read: <template>:2:1: this is not YAML: while parsing a flow sequence, did not find expected "
    "',' or ']'"
)


CHOSEN = {"heat_template_version": "2018-08-31", "conditions": {
    "id": {"not": {"equals": [{"get_param": "OS::stack_id"}, "x"]}},
    "project": {"equals": [{"get_param": "OS::project_id"}, "p"]},
    "yaql": {"yaql": {"expression": "now() = 1", "data": {}}},
}}  # fmt: skip


@pytest.mark.parametrize(
    ("resource", "unread"),
    [
        ({"condition": "id"}, "{not: {equals: [{get_param: OS::stack_id}, x]}} in s"),
        ({"condition": "project"}, "{equals: [{get_param: OS::project_id}, p]} in s"),
        ({"condition": "yaql"}, '{yaql: {data: {}, expression: "now() = 1"}} in s'),
        ({"properties": {"flavor": {"yaql": {"expression": "str([1])"}}}}, '{yaql: {"expression": "str([1])"}} in s'),
        ({"type": "http://example.org/web.yaml"}, "what http://example.org/web.yaml holds"),
    ],
)
def test_a_user_can_not_choose_to_be_unknown(door: Door, resource: dict[str, Any], unread: str) -> None:
    web = {"type": "OS::Nova::Server", "properties": {"image": "debian", "flavor": "huge"}, **resource}
    said = f"The policies can't judge what depends on {unread} yet."
    assert door.message(body_of({**CHOSEN, "resources": {"web": web}})) == (400, said)
    assert door.heat.seen == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        *[(body_of(**{name: value}), UNJUDGED.format(name))
          for name in ("adopt_stack_data", "template_url", "files_container") for value in ("x", None)],
        (body_of(environment_files=["env.yaml"]), UNJUDGED.format("environment_files")),
        (b'{"stack_name": "s"}', UNTYPED.format("template")),
        (b'{"template": {}}', UNTYPED.format("stack_name")),
        (body_of(["x"]), UNTYPED.format("template")),
        (body_of(environment=["x"]), UNTYPED.format("environment")),
        (body_of(parameters="f=huge"), UNTYPED.format("parameters")),
        (body_of(files=["x"]), UNTYPED.format("files")),
        (body_of(files={"a": {"b": 1}}), "files holds something that is no text."),
        (b"[]", "The body is no JSON object."),
        (b'{"a": 1, "a": 2}', "The body is not JSON that can be judged: a key is there twice"),
        (body_of().replace(b'"debian"', b'"debian", "flavor": "huge"'),
         "The body is not JSON that can be judged: a key is there twice"),
        (b"", "The body is not JSON that can be judged: Expecting value: line 1 column 1 (char 0)"),
        (body_of("a: [b"), UNREAD),
        (body_of("x"), None), (body_of({"resources": {}}), None), (body_of().decode().encode("utf-16-le"), None),
        (b'\xff{"a": 1}', None), (b"[" * 5000, None), (body_of(environment={"resources": {}}), None),
        (body_of(parameters={"nothing": "x"}), None), (body_of({"heat_template_version": "2018-08-31",
         "resources": {"n": {"type": "n.yaml"}}}), None),
    ],
)  # fmt: skip
def test_a_body_that_can_not_be_judged_is_refused(door: Door, body: bytes, message: str | None) -> None:
    code, said = door.message(body)
    assert (code, said) == (400, message or said)


@pytest.mark.parametrize("files", [{}, {"/etc/hostname": "debian"}])
def test_a_request_never_reads_a_file_of_the_server(door: Door, files: dict[str, str]) -> None:
    read = {"get_file": "/etc/hostname"}
    status, _, _ = door.send(body_of(template(image=read), files=files))
    assert status == ("201 Created" if files else "400 Bad Request")


class Slow(io.BytesIO):
    """A body that arrives in small pieces, as chunks do."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(size if size is None or size < 0 else min(size, 7))


def test_a_chunked_body_is_judged_whole_and_forwarded_with_its_length(door: Door) -> None:
    body = body_of()
    chunked = {"CONTENT_LENGTH": None, "HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
    assert door.send(body, **chunked, **{"wsgi.input": Slow(body)})[2] == ANSWER
    assert door.heat.seen == [("POST", "/v1/p/stacks", body, str(len(body)))]


def test_what_follows_the_length_is_neither_judged_nor_forwarded(door: Door) -> None:
    body = body_of()
    assert door.send(body, **{"wsgi.input": Slow(body + b'{"more": 1}')})[2] == ANSWER
    assert door.heat.seen == [("POST", "/v1/p/stacks", body, str(len(body)))]


LARGE = "The body is larger than the 5000 bytes that can be judged."


@pytest.mark.parametrize(
    ("body", "environ", "message"),
    [
        (body_of(), {"CONTENT_LENGTH": None}, "The request has no Content-Length."),
        (body_of(), {"CONTENT_LENGTH": ""}, "The request has no Content-Length."),
        (body_of(), {"CONTENT_LENGTH": "-1"}, "The Content-Length is no number."),
        (body_of(), {"CONTENT_LENGTH": "1_0"}, "The Content-Length is no number."),
        (body_of(), {"CONTENT_LENGTH": "\u0661"}, "The Content-Length is no number."),
        (body_of(), {"CONTENT_LENGTH": "4000"}, "The body is shorter than its Content-Length."),
        (body_of(), {"CONTENT_LENGTH": "9" * 5000}, "The Content-Length is no number."),
        (b" " * 5001, {}, LARGE),
        (b" " * 5001, {"CONTENT_LENGTH": None, "wsgi.input_terminated": True}, LARGE),
    ],
)
def test_a_body_without_a_true_length_is_refused(
    door: Door, body: bytes, environ: dict[str, Any], message: str
) -> None:
    assert door.message(body, **environ) == (400, message)


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("POST", "/v1/p/stacks", ""), ("POST", "/p/stacks", "a=b"), ("POST", "//v1//p//stacks/", ""),
        ("POST", "/v1.0/p/stacks", ""), ("POST", "/v1x/p/stacks//", ""), ("POST", "/stacks", ""),
        ("POST", "stacks", ""), ("POST", "/p\n/stacks", ""),
        ("POST", "/p/stacks\n", ""),  # Heat's router compares with `$`, and lets a query replace the method
        ("PUT", "/p/stacks", "_method=POST"), ("GET", "/p/stacks", "a=1&_method=post"),
        ("POST", "/p/stacks", "_method=GET"),
    ],
)  # fmt: skip
def test_whatever_heat_may_take_for_a_creation_is_judged(door: Door, method: str, path: str, query: str) -> None:
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
    assert door.message(body_of(template(flavor="huge")), **environ)[0] == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/p/stacks"), ("PUT", "/v1/p/stacks/s/1"), ("PATCH", "/v1/p/stacks/s/1"), ("POST", ""),
     ("DELETE", "/v1/p/stacks/s/1"), ("POST", "/v1/p/stacks/preview"), ("POST", "/v1/p/stacks/s/1/actions"),
     ("POST", "/v1/p/validate"), ("POST", "/v1/p/mystacks")],
)  # fmt: skip
def test_every_other_request_passes_untouched(door: Door, method: str, path: str) -> None:
    body = body_of(template(flavor="huge"))
    answer = door.send(body, REQUEST_METHOD=method, PATH_INFO=path, CONTENT_LENGTH=None)
    assert answer == ("201 Created", {"Content-Type": "application/json"}, ANSWER)
    assert door.heat.seen == [(method, path, body, None)]


GRANTED = """
@unlock("edge")
edge(grant) :- gate:grant(id=grant).
@deny("address", "{ip} needs the service edge")
address(ip) :- os:neutron:floating_ip(_id=ip), not gate:unlocked("edge", ip).
"""


@pytest.mark.parametrize(("services", "status"), [("", "403 Forbidden"), ("rack, edge", "201 Created")])
def test_the_paste_filter_reads_rules_and_services(tmp_path: Path, services: str, status: str) -> None:
    (tmp_path / "m.dl").write_text(GRANTED)
    door = Door(load_rules(tmp_path))
    door.gate = filter_factory({}, rules=str(tmp_path), services=services)(door.heat)
    resources = {
        "ip": {"type": "OS::Neutron::FloatingIP", "properties": {"floating_network": "public"}},
        "grant": {"type": "DatalogGate::Policy", "properties": {"service": "edge"}},
    }
    assert door.send(body_of({"heat_template_version": "2018-08-31", "resources": resources}))[0] == status


@pytest.mark.parametrize("asked", ["gate:caller(user=user)", "gate:role(user)"])
def test_rules_that_ask_for_the_caller_do_not_start(tmp_path: Path, asked: str) -> None:
    text = f'@deny("p", "{{user}} is bad")\np(user) :- not (heat:stack(depth=9), user != null), {asked}.\n'
    (tmp_path / "m.dl").write_text(text.replace("not (heat:stack(depth=9), user != null), ", ""))
    with pytest.raises(RulesError) as error:
        filter_factory({}, rules=str(tmp_path))(Heat())
    name = asked.partition("(")[0]
    assert error.value.diagnostics == (
        Diagnostic("unsupported", f"{name} is not known at this door yet",
                   Span(str(tmp_path / "m.dl"), 2, 12, 2, 12 + len(asked))),
    )  # fmt: skip


def _said(names: str) -> list[str]:
    return [part for one in names for part in ("flavor: ", f" takes huge at stack/{one} (take a small one)")]


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        (999, "{}a{}; {}b{}; {}c{}"),
        (100, "{}a{}; and 2 more"),
        (60, "flavor: a takes huge at stack/a (take a..."),
        (50, "flavor: a takes huge at stack..."),
    ],
)
def test_a_reason_keeps_its_bound_and_counts_what_it_leaves_out(rules: Rules, limit: int, shown: str) -> None:
    whole = template(flavor="huge")
    whole["resources"] = dict.fromkeys("abc", whole["resources"]["web"])
    decision = rules.decide(read_stack(template=whole))
    said = reason(decision, limit)
    assert said == shown.format(*_said("abc")) + f" [decision {decision.id[:6]}]"
