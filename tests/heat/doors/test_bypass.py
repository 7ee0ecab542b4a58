"""Ways round the filters before Heat's convergence engine, over HTTP: each is refused with its reason, or judged as
Heat builds it, and what Heat holds afterwards violates nothing."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from tests.heat.doors.rig import PATIENCE, PROJECT, Heat
from tests.heat.doors.stacks import CLEAN, LONG, denial, refusal, string, template, why, without_policies

TYPE = "OS::Heat::RandomString"
NONE = "OS::Heat::None"
OF_PARAMETER = {
    "heat_template_version": "2018-08-31",
    "parameters": {"length": {"type": "number", "default": 8}},
    "resources": {"s": string({"get_param": "length"})},
}
SALTED = {
    "heat_template_version": "2018-08-31",
    "parameters": {
        "salt": {"type": "string", "default": "", "hidden": True},
        "length": {"type": "number", "default": 8},
    },
    "resources": {"s": string({"get_param": "length"}, {"get_param": "salt"})},
}
UNSALTED = {**SALTED, "resources": {"s": string({"get_param": "length"})}}
YAML = "heat_template_version: 2018-08-31\nresources:\n  s:\n    type: OS::Heat::RandomString\n    properties: {length: 64}\n"
CANNOT = "The stack can't be read: "
REQUEST = "The request can't be judged: "
REPLACED = (
    f"{REQUEST}the method is replaced or cut short, so that nobody can tell what is asked for: send it as the method"
)
LENGTH = "The policies deny this stack: length: {} has 64 characters at {} (32 are enough)"
ENCRYPTED = f"{CANNOT}encrypted_param_names is for Heat alone to say (leave it out)"


def typed(kind: str) -> dict[str, Any]:
    """LONG, with another name for its type."""
    return template(s={**string(64), "type": kind})


def registry(**entries: Any) -> dict[str, Any]:
    return {"resource_registry": entries}


@dataclass(frozen=True)
class Try:
    """The body of a creation, or of an update of a clean stack, and what becomes of it. `{}` in a reason is the stack's
    name. Of what Heat would merge the reason may be `merged`: what was merged has no place any more."""

    body: dict[str, Any]
    reason: str = LENGTH.format("s", "{}/s")
    code: int = 403
    merged: str = ""


def group(kind: str, **properties: Any) -> dict[str, Any]:
    return template(g={"type": kind, "properties": properties})


TRIES: dict[str, Try] = {
    "alias": Try({"template": typed("My::Thing"), "environment": registry(**{"My::Thing": TYPE})}),
    "alias of an alias": Try({"template": typed("A::B"), "environment": registry(**{"A::B": "C::D", "C::D": TYPE})}),
    "wildcard": Try({"template": typed("My::Heat::RandomString"), "environment": registry(**{"My::*": "OS::*"})}),
    "mapping of one resource": Try({"template": typed(NONE), "environment": registry(resources={"s": {NONE: TYPE}})}),
    "mapping of a nested resource by pattern": Try(
        {"template": template(n={"type": "n.yaml"}), "files": {"n.yaml": json.dumps(typed(NONE))}, "environment": registry(resources={"[mn]*": {"s": {NONE: TYPE}}})},
        LENGTH.format("s", "n.yaml:1:112")),
    "nested template": Try(
        {"template": template(n={"type": "n.yaml"}), "files": {"n.yaml": json.dumps(LONG)}}, LENGTH.format("s", "n.yaml:1:120")),
    "nested template by an alias": Try(
        {"template": template(n={"type": "My::N"}), "environment": registry(**{"My::N": "n.yaml"}), "files": {"n.yaml": YAML}},
        LENGTH.format("s", "n.yaml:5:26")),
    "member of a group": Try(
        {"template": group("OS::Heat::ResourceGroup", count=1, resource_def=string(64))}, LENGTH.format("0", "{}/g/0")),
    **{f"member of a group of {count!r}": Try({"template": group("OS::Heat::ResourceGroup", count=count, resource_def=string(64))}, LENGTH.format("0", "{}/g/0"))
       for count in (True, "+1", " 01 ", "\uff11", 1.5)},
    "member of an autoscaling group": Try(
        {"template": group("OS::Heat::AutoScalingGroup", min_size=1, max_size=2, resource=string(64))}, LENGTH.format("0", "{}/g/0")),
    "echo attribute": Try(
        {"template": template(v={"type": "OS::Heat::Value", "properties": {"value": 64}}, s=string({"get_attr": ["v", "value"]}))}),
    **{f"length as {text!r}": Try({"template": template(s=string(text))}) for text in ("6_4", " +064 ", "\uff16\uff14", 64.5)},
    **{f"length in YAML as {text}": Try({"template": YAML.replace("length: 64", text)}, LENGTH.format("s", "<template>:5:26"))
       for text in ("length: 0x40", "length: 0100", "length: 1:04", "length: !!int '64'")},
    "length twice in YAML": Try(
        {"template": YAML.replace("length: 64", "length: 8, length: 64")}, f"{CANNOT}<template>:5:29: `length` is already a key of this mapping", 400),
    "template of another format": Try(
        {"template": {"HeatTemplateFormatVersion": "2012-12-12", "Resources": {"s": {"Type": TYPE, "Properties": {"length": {"Fn::Select": ["1", ["8", "64"]]}}}}}}),
    "parameter": Try({"template": OF_PARAMETER, "parameters": {"length": 64}}),
    "parameter in the environment": Try({"template": OF_PARAMETER, "environment": {"parameters": {"length": 64}}}),
    "environment as text": Try(
        {"template": OF_PARAMETER, "environment": "parameters: {length: 64}"}, LENGTH.format("s", "<environment>:1:22"), merged=LENGTH.format("s", "{}/s")),
    "parameter_defaults": Try({"template": OF_PARAMETER, "environment": {"parameter_defaults": {"length": 64}}}),
    "environment_files over parameters": Try(
        {"template": OF_PARAMETER, "parameters": {"length": 8}, "environment": {"parameters": {"length": 8}},
         "environment_files": ["e"], "files": {"e": "parameters: {length: 64}"}},
        LENGTH.format("s", "e:1:22"), merged=LENGTH.format("s", "{}/s")),
    "YAML text": Try({"template": YAML}, LENGTH.format("s", "<template>:5:26")),
    "JSON text": Try({"template": json.dumps(LONG)}, LENGTH.format("s", "<template>:1:120")),
    "template_url": Try({"template_url": "http://127.0.0.1:1/t"}, f"{CANNOT}the policies can't judge a stack given by template_url (send the template itself: heat stack create -t FILE reads an address for you)", 400),
    "template_url beside template": Try({"template": CLEAN, "template_url": "http://127.0.0.1:1/t"}, f"{CANNOT}the policies can't judge a stack given by template_url (send the template itself: heat stack create -t FILE reads an address for you)", 400),
    "files_container": Try({"template": CLEAN, "files_container": "c"}, f"{CANNOT}the policies can't judge a stack given by files_container (send the files themselves, in `files`)", 400),
    "look-alike letters, mapped": Try({"template": typed("OS::Heat::R\u0430ndomString"), "environment": registry(**{"OS::Heat::R\u0430ndomString": TYPE})}),
    "ours mapped away": Try({"template": template(d=denial("x")), "environment": registry(**{"DatalogGate::Denial": NONE})}, f"{CANNOT}`DatalogGate::Denial` maps the types DatalogGate::* to others, which no stack may (leave them out of the pattern)", 400),
    "ours mapped away by a wildcard": Try({"template": template(d=denial("x")), "environment": registry(**{"DatalogGate::*": "OS::Heat::*"})}, f"{CANNOT}`DatalogGate::*` maps the types DatalogGate::* to others, which no stack may (leave them out of the pattern)", 400),
    "ours mapped away by a wide wildcard": Try({"template": template(d=denial("x")), "environment": registry(**{"Data*": NONE})}, f"{CANNOT}`Data*` maps the types DatalogGate::* to others, which no stack may (leave them out of the pattern)", 400),
    "ours mapped away for one resource": Try({"template": template(d=denial("x")), "environment": registry(resources={"d": {"DatalogGate::Denial": NONE}})}, f"{CANNOT}`DatalogGate::Denial` maps the types DatalogGate::* to others, which no stack may (leave them out of the pattern)", 400),
    "ours mapped away in an environment file": Try({"template": CLEAN, "environment_files": ["e"], "files": {"e": "resource_registry: {'DatalogGate::*': x.yaml}"}}, f"{CANNOT}e:1:21: `DatalogGate::*` maps the types DatalogGate::* to others, which no stack may (leave them out of the pattern)", 400),
    "encrypted_param_names": Try({"template": OF_PARAMETER, "environment": {"parameters": {"length": ["heat_decrypt", "x"]}, "encrypted_param_names": ["length"]}}, ENCRYPTED, 400),
}  # fmt: skip


@pytest.fixture(scope="module")
def held(filtered: Heat) -> str:
    """A clean stack that the refused updates would change."""
    name, _ = filtered.create(OF_PARAMETER, tags="x")
    assert filtered.ended(name)[0] == "CREATE_COMPLETE"
    return name


@contextmanager
def unchanged(heat: Heat) -> Iterator[None]:
    """Nothing appears in Heat, and nothing is changed."""
    before = heat.held()
    yield
    assert heat.held() == before


@pytest.mark.parametrize("case", TRIES)
def test_no_creation_gets_round(filtered: Heat, case: str) -> None:
    one, name = TRIES[case], filtered.name()
    with unchanged(filtered):
        answer = filtered.ask("POST", "stacks", stack_name=name, **one.body)
        assert refusal(answer) == (one.code, one.reason.replace("{}", name))


@pytest.mark.parametrize("case", TRIES)
def test_no_update_gets_round(filtered: Heat, held: str, case: str) -> None:
    one = TRIES[case]
    expected = one.code, one.reason.replace("{}", held)
    merged = one.code, (one.merged or one.reason).replace("{}", held)
    with unchanged(filtered):
        assert refusal(filtered.on(held, "PUT", **one.body)) == expected
        assert refusal(filtered.on(held, "PUT", converge=True, **one.body)) == expected
        assert refusal(filtered.on(held, "PATCH", **one.body)) == merged
    assert (filtered.on(held, "GET", "/template").json(), filtered.lengths(held)) == (OF_PARAMETER, [8])


LIMIT = 1024 * 1024
MANY = f"{CANNOT}the body is larger than the {LIMIT} bytes that can be judged"
JSON = {"Content-Type": "application/json"}
CREATE = f"/v1/{PROJECT}/stacks"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def sent(
    heat: Heat, method: str, path: str, body: bytes | Iterator[bytes], headers: dict[str, str]
) -> requests.Response:
    """The answer to exactly that request, whose path nothing makes better."""
    request = requests.Request(method, heat.url, headers=headers, data=body).prepare()
    request.method, request.url = method, heat.url + path
    with requests.Session() as session:
        return session.send(request, timeout=PATIENCE, allow_redirects=False)


def long_body(name: str, **fields: Any) -> bytes:
    return json.dumps({"stack_name": name, "template": LONG, **fields}).encode()


def twice(name: str) -> bytes:
    return b'{"template": %s, %s' % (json.dumps(CLEAN).encode(), long_body(name)[1:])


def not_json(said: str) -> str:
    return f"{CANNOT}the body is not JSON that can be judged: {said}"


WIRE: dict[str, tuple[str, str, Any, dict[str, str], tuple[int, str]]] = {
    "chunked": ("POST", CREATE, lambda name: iter([long_body(name)]), JSON, (400, f"{CANNOT}the request has no Content-Length")),
    "gzip": ("POST", CREATE, lambda name: gzip.compress(long_body(name), mtime=0), {**JSON, "Content-Encoding": "gzip"},
             (400, not_json("'utf-8' codec can't decode byte 0x8b in position 1: invalid start byte"))),
    "called gzip": ("POST", CREATE, long_body, {**JSON, "Content-Encoding": "gzip"}, (403, "{}")),
    "called a text": ("POST", CREATE, long_body, {"Content-Type": "text/plain"}, (403, "{}")),
    "of no type": ("POST", CREATE, long_body, {}, (403, "{}")),
    "duplicate keys": ("POST", CREATE, twice, JSON, (400, not_json("a key is there twice"))),
    "UTF-16": ("POST", CREATE, lambda name: long_body(name).decode().encode("utf-16"), JSON,
               (400, not_json("'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"))),
    "1.1 MB": ("POST", CREATE, lambda name: long_body(name, files={"f": "x" * 1_100_000}), JSON, (400, MANY)),
    "trailing slash": ("POST", f"{CREATE}/", long_body, JSON, (403, "{}")),
    "line break": ("POST", f"{CREATE}%0a", long_body, JSON, (403, "{}")),
    "many slashes": ("POST", f"/v1/{PROJECT}//stacks//", long_body, JSON, (403, "{}")),
    "no version": ("POST", f"/{PROJECT}/stacks", long_body, {**JSON, "Accept": "application/vnd.openstack.orchestration-v1"}, (403, "{}")),
    "format": ("POST", f"{CREATE}.json", long_body, JSON, (404, "")),
    "encoded letters": ("POST", f"/v1/{PROJECT}/st%61cks", long_body, JSON, (403, "{}")),
    "method cut at its end": ("PO", CREATE, long_body, JSON, (400, REPLACED)),
    "method cut at its start": ("OST", CREATE, long_body, JSON, (400, REPLACED)),
    "small method": ("post", CREATE, long_body, JSON, (400, REPLACED)),
    "_method in the query": ("POST", f"{CREATE}?_method=POST", long_body, JSON, (400, REPLACED)),
    "_method in the query of a GET": ("GET", f"{CREATE}?_method=POST", long_body, JSON, (400, REPLACED)),
    "_method in a form": ("POST", CREATE, lambda _: b"_method=POST", FORM, (400, REPLACED)),
    "_method in a header": ("GET", CREATE, long_body, {**JSON, "X-HTTP-Method-Override": "POST"}, (400, "")),
}  # fmt: skip


@pytest.mark.parametrize("case", WIRE)
def test_no_creation_gets_round_on_the_wire(filtered: Heat, case: str) -> None:
    method, path, body, headers, (code, reason) = WIRE[case]
    name = filtered.name()
    with unchanged(filtered):
        answer = sent(filtered, method, path, body(name), headers)
    assert (refusal(answer) if reason else (answer.status_code, "")) == (code, reason.replace("{}", why(name)))


@pytest.mark.parametrize(("method", "end", "expected"), [
    ("PUT", "/", 403), ("PUT", "%0a", 403), ("PATCH", "/", 403), ("PATCH", "%0a", 403), ("PU", "", 400), ("UT", "", 400),
    ("P", "", 400), ("ATCH", "", 400), ("PUT", "?_method=PATCH", 400), ("DELETE", "?_method=PUT", 400), ("GET", "?_method=PUT", 400),
])  # fmt: skip
def test_no_update_gets_round_on_the_wire(filtered: Heat, held: str, method: str, end: str, expected: int) -> None:
    path = f"{CREATE}/{held}/{filtered.stack(held)['id']}{end}"
    with unchanged(filtered):
        answer = sent(filtered, method, path, json.dumps({"template": LONG}).encode(), JSON)
    assert refusal(answer) == (expected, why(held) if expected == 403 else REPLACED)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_stack_that_is_looked_up_by_name_is_judged_at_its_own_address(filtered: Heat, held: str, method: str) -> None:
    with unchanged(filtered):
        body = json.dumps({"template": LONG}).encode()
        found = sent(filtered, method, f"{CREATE}/{held}", body, JSON)
        assert found.status_code in (302, 404)
        if found.status_code == 302:
            answer = sent(filtered, method, urlsplit(found.headers["Location"]).path, body, JSON)
            assert refusal(answer) == (403, why(held))


ADOPTED = json.dumps({"name": "x", "template": LONG, "environment": {}, "resources": {}})
ELSEWHERE = f"{CANNOT}adopt_stack_data belongs to the creation of a stack"


def test_an_adopted_stack_is_judged_and_not_the_template_beside_it(filtered: Heat) -> None:
    given = json.dumps({"template": OF_PARAMETER, "environment": {"parameters": {"length": 64}}})
    mapped = json.dumps({"template": typed("My::S"), "environment": registry(**{"My::S": TYPE})})
    with unchanged(filtered):
        for data in (ADOPTED, given):
            name, answer = filtered.create(CLEAN, adopt_stack_data=data)
            assert refusal(answer) == (403, why(name))
        _, answer = filtered.create(CLEAN, adopt_stack_data=mapped)  # Heat takes its parameters alone
        said = "The Resource Type (My::S) could not be found."
        assert (answer.status_code, answer.json()["error"]["message"]) == (400, said)


def test_an_update_adopts_nothing(filtered: Heat, held: str) -> None:
    with unchanged(filtered):
        for method, path in (("PUT", ""), ("PATCH", ""), ("PUT", "/preview"), ("PATCH", "/preview")):
            answer = filtered.on(held, method, path, template=CLEAN, adopt_stack_data=ADOPTED)
            assert refusal(answer) == (400, ELSEWHERE)
        assert refusal(filtered.ask("POST", "validate", template=CLEAN, adopt_stack_data=ADOPTED)) == (400, ELSEWHERE)


def test_a_template_elsewhere_that_changes_between_readings_is_never_read(filtered: Heat, held: str) -> None:
    with _changing() as (url, read), unchanged(filtered):
        said = 400, TRIES["template_url"].reason
        name = filtered.name()
        assert refusal(filtered.ask("POST", "stacks", stack_name=name, template_url=url)) == said
        assert refusal(filtered.on(held, "PUT", template_url=url)) == said
        assert refusal(filtered.on(held, "PATCH", template_url=url)) == said
        asked = {"Action": "CreateStack", "StackName": name, "TemplateUrl": url}
        assert filtered.cfn(asked).status_code == filtered.cfn({}, **asked).status_code == 400
    assert read == []


def test_types_of_other_letters_are_no_types(filtered: Heat) -> None:
    with unchanged(filtered):
        for kind in ("OS::Heat::R\u0430ndomString", "OS\uff1a\uff1aHeat::RandomString", f"{TYPE} ", TYPE.lower()):
            _, answer = filtered.create(typed(kind))
            said = f"The Resource Type ({kind}) could not be found."
            assert (answer.status_code, answer.json()["error"]["message"]) == (400, said)


def test_what_heat_maps_for_a_pattern_of_names_in_the_stack_itself_is_nothing(filtered: Heat) -> None:
    name, answer = filtered.create(typed(NONE), environment=registry(resources={"*": {NONE: TYPE}}))
    assert (answer.status_code, filtered.ended(name)[0], filtered.lengths(name)) == (201, "CREATE_COMPLETE", [])


def salted(heat: Heat, **parameters: Any) -> str:
    """A stack with a hidden parameter that nothing depends on."""
    name, answer = heat.create(UNSALTED, parameters=parameters, tags="x")
    assert (answer.status_code, heat.ended(name)[0]) == (201, "CREATE_COMPLETE")
    return name


def test_a_hidden_value_is_judged_when_it_is_sent_and_never_moved_to_where_a_policy_looks(filtered: Heat) -> None:
    name = salted(filtered, salt="odd one")
    unread = 400, f"The policies can't judge what depends on {{get_param: salt}} in {name} yet."
    denied = 403, f"The policies deny this stack: salt: s is salted with *** at {name}/s"
    with unchanged(filtered):
        assert refusal(filtered.on(name, "PATCH", template=SALTED)) == unread
        assert refusal(filtered.on(name, "PUT", template=SALTED, existing=True)) == unread
        assert refusal(filtered.on(name, "PATCH", template=SALTED, parameters={"salt": "odd two"})) == denied
        assert refusal(filtered.on(name, "PATCH", parameters={"length": 64})) == (403, why(name))
    assert filtered.on(name, "PATCH", parameters={"length": 9}).status_code == 202
    assert (filtered.ended(name)[0], filtered.lengths(name)) == ("UPDATE_COMPLETE", [9])


def test_a_literal_mask_is_a_text_like_any_other(filtered: Heat) -> None:
    name = salted(filtered, salt="odd one")
    assert filtered.on(name, "PATCH", template=SALTED, parameters={"salt": "******"}).status_code == 202
    assert filtered.ended(name)[0] == "UPDATE_COMPLETE"
    shown = filtered.on(name, "GET", "/resources/s").json()["resource"]["attributes"]["value"]
    assert len(shown) == 8
    open_, answer = filtered.create(OF_PARAMETER, parameters={"length": "******"})
    assert (answer.status_code, filtered.stack(open_)) == (400, {})


def test_an_update_of_tags_alone_keeps_the_stack_and_is_judged_with_it(filtered: Heat) -> None:
    name = salted(filtered)
    assert filtered.on(name, "PATCH", tags="a,b").status_code == 202
    assert filtered.ended(name)[0] == "UPDATE_COMPLETE"
    assert (filtered.stack(name)["tags"], filtered.on(name, "GET", "/template").json()) == (["a", "b"], UNSALTED)
    with unchanged(filtered):
        assert refusal(filtered.on(name, "PATCH", tags="c", parameters={"length": 64})) == (403, why(name))


def test_what_held_a_violation_before_the_policy_passes_no_update_that_keeps_it(recorded: Heat) -> None:
    with without_policies(recorded):
        name, _ = recorded.create(LONG)
        recorded.ended(name)
    with unchanged(recorded):
        bodies: list[dict[str, Any]] = [{"tags": "c"}, {"converge": True}, {"existing": True}, {"parameters": {}}]
        for body in bodies:
            assert refusal(recorded.on(name, "PATCH", **body)) == (403, why(name))


BOTH = {
    "heat_template_version": "2018-08-31",
    "parameters": {one: {"type": "boolean", "default": False} for one in "xy"},
    "conditions": {"both": {"and": [{"get_param": "x"}, {"get_param": "y"}]}},
    "resources": {"s": string({"if": ["both", 64, 8]})},
}


def test_two_updates_at_once_that_are_clean_alone_never_make_a_violating_stack(filtered: Heat) -> None:
    name, _ = filtered.create(BOTH)
    filtered.ended(name)

    def switch(one: str) -> int:
        return filtered.on(name, "PATCH", parameters={one: True}).status_code

    codes = set()
    with ThreadPoolExecutor(2) as threads:
        for _ in range(5):
            codes |= set(threads.map(switch, "xy"))
            assert filtered.ended(name)[0] == "UPDATE_COMPLETE"
            given = filtered.on(name, "GET", "/environment").json()["parameters"]
            assert (sorted(given.values()), filtered.lengths(name)) in (([False, True], [8]), ([True], [8]))
            assert filtered.on(name, "PUT", template=BOTH).status_code == 202
            filtered.ended(name)
    assert codes <= {202, 403, 409}


CALLS: dict[str, dict[str, str]] = {
    "CreateStack": {"Action": "CreateStack", "StackName": "formed", "TemplateBody": json.dumps(LONG)},
    "UpdateStack": {"Action": "UpdateStack", "TemplateBody": json.dumps(LONG)},
    "a parameter": {"Action": "UpdateStack", "TemplateBody": json.dumps(OF_PARAMETER),
                    "Parameters.member.1.ParameterKey": "length", "Parameters.member.1.ParameterValue": "64"},
    "ValidateTemplate": {"Action": "ValidateTemplate", "TemplateBody": json.dumps(LONG)},
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("way", ["query", "form", "both"])
def test_the_other_api_is_no_way_round(filtered: Heat, held: str, call: str, way: str) -> None:
    given = {"StackName": held, **CALLS[call]}
    query = {} if way == "form" else given if way == "query" else {"Action": given["Action"]}
    form = {} if way == "query" else {name: one for name, one in given.items() if name not in query}
    with unchanged(filtered):
        answer = filtered.cfn(query, **form)
    assert (answer.status_code, answer.headers["Content-Type"]) == (403, "application/xml")
    assert answer.text.startswith("<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>The pol")


def test_the_other_api_builds_what_is_clean_and_refuses_what_is_said_twice(filtered: Heat) -> None:
    name = filtered.name()
    asked = {"Action": "CreateStack", "StackName": name, "TemplateBody": json.dumps(CLEAN)}
    with unchanged(filtered):
        assert filtered.cfn({"TemplateBody": json.dumps(LONG)}, **asked).status_code == 400
        assert filtered.cfn({"Action": "ListStacks"}, **asked).status_code == 400
    assert filtered.cfn({}, **asked).status_code == 200
    assert (filtered.ended(name)[0], filtered.lengths(name)) == ("CREATE_COMPLETE", [8])
    assert filtered.cfn({**asked, "Action": "UpdateStack", "TemplateBody": json.dumps(OF_PARAMETER)}).status_code == 200
    assert (filtered.ended(name)[0], filtered.lengths(name)) == ("UPDATE_COMPLETE", [8])
    with unchanged(filtered):  # a policy is on deletion, and this API does not tell what is deleted
        assert filtered.cfn({"Action": "DeleteStack", "StackName": name}).status_code == 400


def test_a_context_that_a_client_writes_itself_builds_nothing(custom: Heat) -> None:
    own = {f"X-{name}": "admin" for name in ("User-Id", "User-Name", "Project-Id", "Project-Name", "Roles")}
    claims = {**JSON, **own, "X-Identity-Status": "Confirmed", "X-Auth-Token": "t"}
    for path, body in ((CREATE, {"template": CLEAN}), (f"{CREATE}/preview", {"template": CLEAN}),
                       (CREATE, {"adopt_stack_data": ADOPTED})):  # fmt: skip
        answer = sent(custom, "POST", path, json.dumps({"stack_name": "own", **body}).encode(), claims)
        assert refusal(answer) == (503, "Nobody vouches for who asks: no authtoken came before the gate.")
    listed = sent(custom, "GET", CREATE, b"", own)
    assert (listed.status_code, listed.json()) == (200, {"stacks": []})


@contextmanager
def _changing() -> Iterator[tuple[str, list[str]]]:
    """The address of a template that is clean at every other reading, and what was read."""
    read: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            read.append(self.path)
            body = json.dumps(CLEAN if len(read) % 2 else LONG).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/t.json", read
        server.shutdown()
