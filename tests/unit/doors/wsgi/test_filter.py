"""The API filter over plain WSGI.

It forwards exactly the bytes that it judged.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import socket
from pathlib import Path
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from oslo_config import cfg

from datalog_gate.api import load_rules
from datalog_gate.decision.causes import URL_HINT
from datalog_gate.decision.decision import format_denial
from datalog_gate.decision_point.operation import format_warnings
from datalog_gate.decision_point.point import DecisionPoint
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.wsgi import filter_factory, wrap
from datalog_gate.files.templates import read_stack
from tests.fake_heat import Client, FakeHeat

RULES = """
@deny("flavor", "{server} takes {flavor}", hint="take a small one")
huge(server, flavor) :- os:nova:server(_id=server, flavor=flavor), flavor = "huge".
@warn("image", "{server} runs {image}")
old(server, image) :- os:nova:server(_id=server, image=image), image = "old".
@deny("zone", "{server} stands in {zone}", on_unknown="allow")
far(server, zone) :- os:nova:server(_id=server, availability_zone=zone), zone = "far".
@deny("count", "{server} has a bad count", on_unknown="deny")
bad(server) :- os:nova:server.metadata(_id=server, _key="count", _value=text), is_string(text),
  int(text, count), count > 3.
"""
ANSWER = b'{"stack": {"id": "6a"}}'
DENIAL = "The policies deny this stack: flavor: web takes huge at {} (take a small one)"


def template(**properties: object) -> dict[str, Any]:
    web = {"type": "OS::Nova::Server", "properties": {"image": "debian", "flavor": "small", **properties}}
    return {"heat_template_version": "2018-08-31", "parameters": {"f": {"type": "string", "default": "small"}},
            "resources": {"web": web}}  # fmt: skip


def body_of(stack_template: object = None, **fields: object) -> bytes:
    return json.dumps({"stack_name": "s", "template": stack_template or template(), **fields}).encode()


class Quiet(WSGIRequestHandler):
    """A handler that logs nothing."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def door(point: DecisionPoint) -> Client:
    heat = FakeHeat()
    return Client(wrap(heat, point=point, settings=Settings(body_limit=5000)), heat)


def test_a_denial_has_the_shape_of_heats_faults_and_heat_sees_nothing(door: Client) -> None:
    status, headers, content = door.send(body_of(template(flavor="huge")))
    fault = json.loads(content)
    message = f"{DENIAL.format('resources.web.properties.flavor')} [decision {fault['explanation'][-7:-1]}]"
    assert (status, fault, door.heat.requests) == (
        "403 Forbidden",
        {"code": 403, "title": "Forbidden", "explanation": message,
         "error": {"type": "Forbidden", "message": message, "traceback": None}},
        [],
    )  # fmt: skip
    decision = headers.pop("Datalog-Gate").split("; ")
    assert headers == {"Content-Type": "application/json", "Content-Length": str(len(content))}
    assert (decision[0][:11], decision[1:]) == (f"deny {message[-7:-1]}", ["flavor: web takes huge"])


def test_what_is_allowed_goes_on_byte_for_byte_and_the_answer_names_the_decision(door: Client) -> None:
    body = b' {"template" :\t' + json.dumps(json.dumps(template())).encode() + b', "stack_name":"\\u0073", "x": 1e2}\n'
    status, headers, content = door.send(body)
    assert (status, headers["Content-Type"], content) == ("201 Created", "application/json", ANSWER)
    assert re.fullmatch("allow [0-9a-f]{16}", headers["Datalog-Gate"])
    assert door.heat.requests == [("POST", "/v1/p/stacks", body, str(len(body)))]


@pytest.mark.parametrize(
    "fields",
    [
        {"template": template(flavor="huge")},
        {"template": json.dumps(template(flavor="huge"))},
        {"template": template(flavor={"get_param": "f"}), "parameters": {"f": "huge"}},
        {"template": template(flavor={"get_param": "f"}), "environment": {"parameters": {"f": "huge"}}},
        {"template": template(flavor={"get_param": "f"}), "environment": "parameters: {f: huge}"},
        {"template": template(flavor={"get_param": "f"}), "environment": {"parameters": {"f": "small"}},
         "parameters": {"f": "huge"}},
        {"template": template(flavor={"get_file": "f.txt"}), "files": {"f.txt": "huge"}},
        {"template": template(flavor={"get_param": "f"}), "environment_files": ["a", "b"], "parameters": {"f": "small"},
         "files": {"a": "parameters: {f: small}", "b": "parameters: {f: huge}"},
         "environment": {"parameters": {"f": "small"}}},
        {"template": template(), "adopt_stack_data": json.dumps({"template": template(flavor="huge")})},
        {"template": {"heat_template_version": "2018-08-31", "resources": {"n": {"type": "n.yaml"}}},
         "files": {"n.yaml": json.dumps(template(flavor="huge"))}},
        {"template": template(flavor="huge"), "environment_files": [], "environment": None, "files": None},
    ],
)  # fmt: skip
def test_the_stack_is_judged_as_heat_would_build_it(door: Client, fields: dict[str, object]) -> None:
    code, message = door.message(json.dumps({"stack_name": "s", **fields}).encode())
    at = message.partition(" at ")[2].partition(" (")[0]
    assert (code, message) == (403, DENIAL.format(at))


@pytest.mark.parametrize(
    ("flavor", "at"),
    [("huge", "file:///n.yaml:resources.web.properties.flavor"), ({"get_param": "f"}, "resources.n.properties.f")],
)
def test_values_of_a_template_on_one_line_have_their_paths_as_places(door: Client, flavor: object, at: str) -> None:
    nested = {"type": "file:///n.yaml", "properties": {"f": "huge"}}
    root = {"heat_template_version": "2018-08-31", "resources": {"n": nested}}
    files = {"file:///n.yaml": json.dumps(template(flavor=flavor))}
    code, message = door.message(json.dumps({"stack_name": "s", "template": root, "files": files}).encode())
    assert (code, message) == (403, DENIAL.format(at))


MANY = template(metadata={"count": "many"})


PATH = "resources.web.properties.metadata.count"


@pytest.mark.parametrize(
    ("text", "place"), [(MANY, PATH), (json.dumps(MANY), PATH), (json.dumps(MANY, indent=1), "<template>:16:15")]
)
def test_a_value_that_no_policy_can_compute_with_is_the_user_s_to_change(
    door: Client, text: object, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    code, message = door.message(body_of(text))
    reason = f"count could not be evaluated: int('many'): the text is not a number at {place}"
    assert (code, message) == (400, f"The policies can't judge this stack: {reason}")
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_an_undetermined_finding_stops_the_stack_only_if_its_policy_says_so(door: Client) -> None:
    unknown = {"get_attr": ["other", "name"]}
    both = template(metadata={"count": unknown}, flavor="small")
    both["resources"]["other"] = {"type": "OS::Nova::Server", "properties": {"flavor": "tiny", "image": "debian"}}
    code, message = door.message(body_of(both))
    hangs = "depends on name of `other`"
    assert (code, message) == (403, f"The policies deny this stack: count: web has a bad count: {hangs} at {PATH}")
    both["resources"]["web"]["properties"] = {"image": "debian", "flavor": unknown}
    _, headers, content = door.send(body_of(both))
    assert (headers["Datalog-Gate"].partition(";")[2], content) == (
        f" flavor: undetermined: web takes ?: {hangs}",
        ANSWER,
    )


READ = "The stack can't be read: "
UNTYPED = "{} is of a wrong type"
UNNAMED = "{} is missing or of a wrong type"
JSON = "the body is not JSON that can be judged: "
PACKED = "'utf-8' codec can't decode byte 0x8b in position 1: invalid start byte"
UNREAD = "<template>:2:1: this is not YAML: while parsing a flow sequence, did not find expected ',' or ']'"


ALONE = "do not use OS::{}_id here, which only Heat knows"
GIVES = "write its result, or use other functions"
CHOSEN = {"heat_template_version": "2018-08-31", "conditions": {
    "id": {"not": {"equals": [{"get_param": "OS::stack_id"}, "x"]}},
    "project": {"equals": [{"get_param": "OS::project_id"}, "p"]},
    "yaql": {"yaql": {"expression": "now() = 1", "data": {}}},
}}  # fmt: skip


@pytest.mark.parametrize(
    ("resource", "unread", "advice"),
    [
        ({"condition": "id"}, "{equals: [{get_param: OS::stack_id}, x]} in s", ALONE.format("stack")),
        ({"condition": "project"}, "{equals: [{get_param: OS::project_id}, p]} in s", ALONE.format("project")),
        ({"condition": "yaql"}, '{yaql: {data: {}, expression: "now() = 1"}} in s', GIVES),
        ({"properties": {"flavor": {"yaql": {"expression": "str([1])"}}}}, '{yaql: {"expression": "str([1])"}} in s',
         GIVES),
        ({"properties": {"flavor": {"list_join": ["", ["h", {"yaql": {"expression": "str([1])"}}]]}}},
         '{list_join: ["", [h, {yaql: {"expression": "str([1])"}}]]} in s', GIVES),
    ],
)  # fmt: skip
def test_a_user_can_not_choose_to_be_unknown(door: Client, resource: dict[str, Any], unread: str, advice: str) -> None:
    web = {"type": "OS::Nova::Server", "properties": {"image": "debian", "flavor": "huge"}, **resource}
    reason = f"The policies can't judge what depends on {unread}: {advice}"
    assert door.message(body_of({**CHOSEN, "resources": {"web": web}})) == (400, reason)
    fetched = {**CHOSEN, "resources": {"web": {"type": "http://example.org/web.yaml"}}}
    unread = "the template at http://example.org/web.yaml was not read: 4 policies may depend on what it holds"
    denied = f"The policies deny this stack: count: {unread} at resources.web ({URL_HINT})"
    assert door.message(body_of(fetched)) == (403, denied)
    assert door.heat.requests == []


def test_a_default_that_heat_may_ignore_is_refused(door: Client) -> None:
    inner = template(flavor={"get_param": "f"})
    inner["parameters"]["f"]["default"] = "huge"
    named = {
        "a": "parameter_defaults: {x: 1}",
        "b": "parameter_defaults: {f: small}",
    }  # Heat ignores f
    resources = {"in": {"type": "OS::Heat::Stack", "properties": {"template": json.dumps(inner)}}}
    body = body_of({**CHOSEN, "resources": resources}, files=named, environment_files=["a", "b"])
    reason = "The policies can't judge what depends on the value of f by several environment files: "
    assert door.message(body) == (400, f"{reason}write it out in the template")


def test_what_only_heat_knows_passes_a_policy_that_allows_what_is_unknown(door: Client) -> None:
    zone = {"yaql": {"expression": "str([1])"}}
    status, headers, _ = door.send(body_of(template(availability_zone=zone)))
    assert (status, headers["Datalog-Gate"].split(" ")[0], len(door.heat.requests)) == ("201 Created", "allow", 1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (body_of(template_url="x"), "the policies can't judge a stack given by template_url (send the template itself: "
         "heat stack create -t FILE reads an address for you)"),
        (body_of(files_container="x"),
         "the policies can't judge a stack given by files_container (send the files themselves, in `files`)"),
        (body_of(environment_files=["env.yaml"]), "env.yaml of environment_files is missing in files"),
        (body_of(environment_files="env.yaml"), "environment_files is not a list of names"),
        (b'{"stack_name": "s"}', UNNAMED.format("template")),
        (b'{"stack_name": "s", "template": null, "template_url": null}', UNNAMED.format("template")),
        (b'{"template": {}}', UNNAMED.format("stack_name")),
        (body_of(["x"]), UNNAMED.format("template")),
        (body_of(environment=["x"]), UNTYPED.format("environment")),
        (body_of(parameters="f=huge"), UNTYPED.format("parameters")),
        (body_of(files=["x"]), UNTYPED.format("files")),
        (body_of(files={"a": {"b": 1}}), "files contains something that is not a string"),
        (body_of(adopt_stack_data=None), "adopt_stack_data is not a string"),
        (body_of(adopt_stack_data="[]"), "adopt_stack_data is not a map of a stack"),
        (body_of(adopt_stack_data='{"template": "x"}'), UNNAMED.format("template")),
        (b"[]", "the body is not a JSON object"),
        (b'{"a": ' + b"1" * 401 + b"}", JSON + "it has a number of more than 400 digits"),
        (b'{"a": 1, "a": 2}', JSON + "it contains a key twice"),
        (body_of().replace(b'"debian"', b'"debian", "flavor": "huge"'), JSON + "it contains a key twice"),
        (gzip.compress(body_of(), mtime=0), JSON + PACKED),
        (b"", JSON + "Expecting value: line 1 column 1 (char 0)"),
        (body_of("a: [b"), UNREAD),
        (body_of("x"), None), (body_of({"resources": {}}), None), (body_of().decode().encode("utf-16-le"), None),
        (b'\xff{"a": 1}', None), (b"[" * 5000, None), (body_of(environment={"resources": {}}), None),
        (body_of(parameters={"nothing": "x"}), None), (body_of({"heat_template_version": "2018-08-31",
         "resources": {"n": {"type": "n.yaml"}}}), None),
    ],
)  # fmt: skip
def test_a_body_that_can_not_be_judged_is_refused(door: Client, body: bytes, message: str | None) -> None:
    code, text = door.message(body)
    assert (code, text) == (400, text if message is None else READ + message)


@pytest.mark.parametrize("files", [{}, {"/etc/hostname": "debian"}])
def test_a_request_never_reads_a_file_of_the_server(door: Client, files: dict[str, str]) -> None:
    read = {"get_file": "/etc/hostname"}
    status, _, _ = door.send(body_of(template(image=read), files=files))
    assert status == ("201 Created" if files else "400 Bad Request")


class Slow(io.BytesIO):
    """A body that arrives in small pieces, as chunks do."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(size if size is None or size < 0 else min(size, 7))


def test_a_chunked_body_is_judged_whole_and_forwarded_with_its_length(door: Client) -> None:
    body = body_of()
    chunked = {"CONTENT_LENGTH": None, "HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
    assert door.send(body, **chunked, **{"wsgi.input": Slow(body)})[2] == ANSWER
    assert door.heat.requests == [("POST", "/v1/p/stacks", body, str(len(body)))]


def test_what_follows_the_length_is_neither_judged_nor_forwarded(door: Client) -> None:
    body = body_of()
    assert door.send(body, **{"wsgi.input": Slow(body + b'{"more": 1}')})[2] == ANSWER
    assert door.heat.requests == [("POST", "/v1/p/stacks", body, str(len(body)))]


LARGE = "the body is larger than the 5000 bytes that can be judged"


@pytest.mark.parametrize(
    ("body", "environ", "message"),
    [
        (body_of(), {"CONTENT_LENGTH": None}, "the request has no Content-Length"),
        (body_of(), {"CONTENT_LENGTH": "-1"}, "the Content-Length is not a number"),
        (body_of(), {"CONTENT_LENGTH": "\u0661"}, "the Content-Length is not a number"),
        (body_of(), {"CONTENT_LENGTH": "4000"}, "the body is shorter than its Content-Length"),
        (body_of(), {"CONTENT_LENGTH": "9" * 5000}, "the Content-Length is not a number"),
        (b" " * 5001, {}, LARGE),
        (b" " * 5001, {"CONTENT_LENGTH": None, "wsgi.input_terminated": True}, LARGE),
    ],
)
def test_a_body_without_a_true_length_is_refused(
    door: Client, body: bytes, environ: dict[str, Any], message: str
) -> None:
    assert door.message(body, **environ) == (400, READ + message)


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("POST", "/v1/p/stacks", ""), ("POST", "/p/stacks", "a=b"), ("POST", "//v1//p//stacks/", ""),
        ("POST", "/v1.0/p/stacks", ""), ("POST", "/v1x/p/stacks//", ""), ("POST", "/stacks", ""),
        ("POST", "stacks", ""), ("POST", "/p\n/stacks", ""),
        ("POST", "/p/stacks\n", ""), ("POST", "/stacks/stacks", ""),  # Heat's router compares with `$`
    ],
)  # fmt: skip
def test_whatever_heat_may_take_for_a_creation_is_judged(door: Client, method: str, path: str, query: str) -> None:
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
    assert door.message(body_of(template(flavor="huge")), **environ)[0] == 403


@pytest.mark.parametrize(
    ("method", "path", "query", "kind"),
    [
        ("PUT", "/p/stacks", "_method=POST", ""), ("GET", "/p/stacks", "a=1&_method=post", ""),
        ("POST", "/p/stacks", "_method=GET", ""), ("GET", "/p/stacks/s/1", "a;%5fmethod=PUT&b=_method", ""),
        ("POST", "/p/stacks/s/1", "", "application/x-www-form-urlencoded; charset=x"),
        ("POST", "/p/stacks/s/1/abandon", "", "Multipart/Form-Data"),
        ("OST", "/p/stacks", "", ""), ("PO", "/p/stacks", "", ""), ("", "/p/stacks", "", ""),
        ("P", "/p/stacks/s/1", "", ""),
        ("ELETE", "/p/stacks/s/1/abandon", "", ""), ("O", "/p/validate", "", ""),
    ],
)  # fmt: skip
def test_a_method_that_only_heats_router_understands_is_refused(
    door: Client, method: str, path: str, query: str, kind: str
) -> None:
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query, "CONTENT_TYPE": kind}
    code, text = door.message(body_of(), **environ)
    assert (code, text.partition(", ")[0]) == (
        400,
        "The request can't be judged: the method is overridden or truncated",
    )


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [("GET", "/v1/p/stacks", "name=_method"), ("POST", "", ""), ("POST", "/v1/p/mystacks", ""),
     ("PUT", "/v1/p/stacks/s", ""), ("POST", "/v1/p/stacks/s", ""), ("DELETE", "/v1/p/stacks/s", ""),
     ("DELETE", "/v1/p/stacks/s/1/snapshots/2", ""), ("PATCH", "/v1/p/stacks/s/1/resources/stacks", ""),
     ("POST", "/v1/p/stacks/s/1/resources/r/signal", ""), ("POST", "/p/stacks/s/1/resources/validate/signal", ""),
     ("PUT", "/p/software_configs/1", ""), ("POST", "/p/stacks/arn:x:stacks/s/1/2", "")],
)  # fmt: skip
def test_every_other_request_passes_untouched(door: Client, method: str, path: str, query: str) -> None:
    body = body_of(template(flavor="huge"))
    answer = door.send(body, REQUEST_METHOD=method, PATH_INFO=path, QUERY_STRING=query, CONTENT_LENGTH=None)
    assert answer == ("201 Created", {"Content-Type": "application/json"}, ANSWER)
    assert door.heat.requests == [(method, path, body, None)]


GRANTED = """
@unlock("edge")
edge(grant) :- gate:grant(id=grant).
@deny("address", "{ip} needs the service edge")
address(ip) :- os:neutron:floating_ip(_id=ip), not gate:unlocked("edge", ip).
"""


@pytest.mark.parametrize(("services", "status"), [("", "403 Forbidden"), ("edge", "201 Created")])
def test_the_paste_filter_takes_rules_and_services(tmp_path: Path, services: str, status: str) -> None:
    (tmp_path / "m.dl").write_text(GRANTED)
    cfg.CONF([], project="heat", default_config_files=[])  # as Heat does before it loads the pipeline
    heat = FakeHeat()
    more = {"store": f"{tmp_path}/j", "service_option": f"edge.file={tmp_path}/e"} if services else {}
    door = Client(filter_factory({}, rules=str(tmp_path), services=services, **more)(heat), heat)
    resources = {
        "ip": {"type": "OS::Neutron::FloatingIP", "properties": {"floating_network": "public"}},
        "grant": {"type": "DatalogGate::Policy", "properties": {"service": "edge"}},
    }
    assert door.send(body_of({"heat_template_version": "2018-08-31", "resources": resources}))[0] == status


def _describe(names: str) -> list[str]:
    return [
        part
        for name in names
        for part in ("flavor: ", f" takes huge at resources.{name}.properties.flavor (take a small one)")
    ]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (999, "{}a{}; {}b{}; {}c{}"),
        (110, "{}a{}; and 2 more"),
        (60, "flavor: a takes huge at resources.a.pro..."),
        (50, "flavor: a takes huge at resou..."),
    ],
)
def test_a_reason_keeps_its_bound_and_counts_what_it_leaves_out(
    point: DecisionPoint, limit: int, expected: str
) -> None:
    whole = template(flavor="huge")
    whole["resources"] = dict.fromkeys("abc", whole["resources"]["web"])
    decision = point.reloader.current().ruleset.rules.decide(read_stack(template=whole))
    text = format_denial(decision, limit)
    assert text == expected.format(*_describe("abc")) + f" [decision {decision.id[:6]}]"


CROWD = "".join(
    f'@deny("{name}", "{{server}} is {name}")\n{name}(server) :- os:nova:server(_id=server, flavor="huge").\n'
    for name in ("big", "dear", "rare")
)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (2000, "big: s0 is big at resources.s0; and 299 more of big; "
         "dear: s0 is dear at resources.s0; and 299 more of dear; "
         "rare: s0 is rare at resources.s0; and 299 more of rare"),
        (150, "big: s0 is big at resources.s0; and 299 more of big; "
         "dear: s0 is dear at resources.s0; and 299 more of dear; "
         "and rare (300)"),
        (100, "big: s0 is big at resources.s0; and 299 more of big; and dear (300), rare (300)"),
    ],
)  # fmt: skip
def test_a_reason_names_each_policy_where_all_findings_have_no_room(tmp_path: Path, limit: int, expected: str) -> None:
    (tmp_path / "m.dl").write_text(CROWD)
    servers = {f"s{at}": template(flavor="huge")["resources"]["web"] for at in range(300)}
    stack = read_stack(template={"heat_template_version": "2018-08-31", "resources": servers}, stack_name="W")
    decision = load_rules(tmp_path).decide(stack)
    assert format_denial(decision, limit) == f"{expected} [decision {decision.id[:6]}]"


@pytest.mark.parametrize(("count", "warnings"), [(10, 20), (11, 2)])
def test_many_warnings_are_one_for_each_policy(tmp_path: Path, count: int, warnings: int) -> None:
    (tmp_path / "m.dl").write_text(CROWD.replace("@deny", "@warn").replace('@warn("rare"', '@record("rare"'))
    servers = {f"s{at:02}": template(flavor="huge")["resources"]["web"] for at in range(count)}
    stack = read_stack(template={"heat_template_version": "2018-08-31", "resources": servers})
    texts = format_warnings(load_rules(tmp_path).decide(stack))
    more = "" if warnings == 20 else "; and 10 more"
    assert (len(texts), texts[0], texts[warnings // 2]) == (
        warnings,
        f"big: s00 is big{more}",
        f"dear: s00 is dear{more}",
    )


def test_a_reason_says_why_a_grant_does_not_count_though_a_policy_denies_too(tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text(GRANTED)
    resources = {
        "ip": {"type": "OS::Neutron::FloatingIP", "properties": {"floating_network": "public"}},
        "port": {"type": "OS::Neutron::Port", "properties": {"network": "own"}},
        "grant": {"type": "DatalogGate::Policy", "properties": {"service": "edge", "scope": ["port", "ipp"]}},
    }
    stack = read_stack(template={"heat_template_version": "2018-08-31", "resources": resources})
    decision = load_rules(tmp_path).decide(stack, services=["edge"])
    assert format_denial(decision, 2000) == (
        "address: ip needs the service edge at resources.ip; the grant stack/grant does not unlock edge: its scope "
        f"names ipp, which is not a resource of the stack: did you mean ip? [decision {decision.id[:6]}]"
    )


def test_a_reason_names_each_grant_that_does_not_count_once(tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text(GRANTED)
    grants = {
        name: {"type": "DatalogGate::Policy", "properties": {"service": service, "expires": "2026-01-01"}}
        for name, service in (("one", "edge"), ("two", "cdn"))
    }
    ip = {"type": "OS::Neutron::FloatingIP", "properties": {"floating_network": "public"}}
    stack = read_stack(template={"heat_template_version": "2018-08-31", "resources": {"ip": ip, **grants}})
    decision = load_rules(tmp_path).decide(stack, services=["edge", "cdn"])
    why = "expired 2026-01-01: remove the grant, or set a later date"
    assert format_denial(decision, 2000) == (
        f"address: ip needs the service edge at resources.ip (the grant one does not count: {why}); "
        f"the grant stack/two does not unlock cdn: {why} [decision {decision.id[:6]}]"
    )


def test_a_client_that_sends_too_much_sees_the_answer(point: DecisionPoint) -> None:
    limit, size = 2_000_000, 20_000_000
    door = wrap(FakeHeat(), point=point, settings=Settings(body_limit=limit))
    known = Client(door, FakeHeat()).base
    with make_server(
        "127.0.0.1", 0, lambda environ, start: door(environ | known, start), handler_class=Quiet
    ) as server:
        serving = Thread(target=server.handle_request)
        serving.start()
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as client:
            head = f"POST /v1/p/stacks HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n"
            client.sendall(head.encode() + b"x" * size)
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        serving.join()
    message = f"The stack can't be read: the body is larger than the {limit} bytes that can be judged"
    assert (answer[:26], message.encode() in answer) == (b"HTTP/1.0 400 Bad Request\r\n", True)
