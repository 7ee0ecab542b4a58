"""Ways round the filters by the form or address of a request.

Each is sent over HTTP before Heat's convergence engine, is refused with its reason and leaves nothing in Heat.
"""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

import gzip
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.heat.doors.rig import PROJECT, Heat
from tests.heat.doors.templates import CLEAN, LONG, OF_PARAMETER, refusal, why

CANNOT = "The stack can't be read: "
REPLACED = "The request can't be judged: the method is overridden or truncated, so the operation is not clear: send it as the method of the request"
LIMIT = 1024 * 1024
MANY = f"{CANNOT}the body is larger than the {LIMIT} bytes that can be judged"
JSON = {"Content-Type": "application/json"}
CREATE = f"/v1/{PROJECT}/stacks"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def long_body(name: str, **fields: Any) -> bytes:
    return json.dumps({"stack_name": name, "template": LONG, **fields}).encode()


def twice(name: str) -> bytes:
    return b'{"template": %s, %s' % (json.dumps(CLEAN).encode(), long_body(name)[1:])


def not_json(problem: str) -> str:
    return f"{CANNOT}the body is not JSON that can be judged: {problem}"


WIRE: dict[str, tuple[str, str, Any, dict[str, str], tuple[int, str]]] = {
    "chunked": ("POST", CREATE, lambda name: iter([long_body(name)]), JSON, (400, f"{CANNOT}the request has no Content-Length")),
    "gzip": ("POST", CREATE, lambda name: gzip.compress(long_body(name), mtime=0), {**JSON, "Content-Encoding": "gzip"},
             (400, not_json("'utf-8' codec can't decode byte 0x8b in position 1: invalid start byte"))),
    "called gzip": ("POST", CREATE, long_body, {**JSON, "Content-Encoding": "gzip"}, (403, "{}")),
    "called a text": ("POST", CREATE, long_body, {"Content-Type": "text/plain"}, (403, "{}")),
    "of no type": ("POST", CREATE, long_body, {}, (403, "{}")),
    "duplicate keys": ("POST", CREATE, twice, JSON, (400, not_json("it contains a key twice"))),
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
    with filtered.unchanged():
        answer = filtered.sent(method, path, body(name), headers)
    assert (refusal(answer) if reason else (answer.status_code, "")) == (code, reason.replace("{}", why()))


@pytest.mark.parametrize(("method", "end", "expected"), [
    ("PUT", "/", 403), ("PUT", "%0a", 403), ("PATCH", "/", 403), ("PATCH", "%0a", 403), ("PU", "", 400), ("UT", "", 400),
    ("P", "", 400), ("ATCH", "", 400), ("PUT", "?_method=PATCH", 400), ("DELETE", "?_method=PUT", 400), ("GET", "?_method=PUT", 400),
])  # fmt: skip
def test_no_update_gets_round_on_the_wire(filtered: Heat, existing: str, method: str, end: str, expected: int) -> None:
    path = f"{CREATE}/{existing}/{filtered.stack(existing)['id']}{end}"
    with filtered.unchanged():
        answer = filtered.sent(method, path, json.dumps({"template": LONG}).encode(), JSON)
    assert refusal(answer) == (expected, why() if expected == 403 else REPLACED)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_stack_that_is_looked_up_by_name_is_judged_at_its_own_address(
    filtered: Heat, existing: str, method: str
) -> None:
    with filtered.unchanged():
        body = json.dumps({"template": LONG}).encode()
        redirect = filtered.sent(method, f"{CREATE}/{existing}", body, JSON)
        assert redirect.status_code == 302
        answer = filtered.sent(method, urlsplit(redirect.headers["Location"]).path, body, JSON)
        assert refusal(answer) == (403, why())


CALLS: dict[str, dict[str, str]] = {
    "CreateStack": {"Action": "CreateStack", "StackName": "formed", "TemplateBody": json.dumps(LONG)},
    "UpdateStack": {"Action": "UpdateStack", "TemplateBody": json.dumps(LONG)},
    "a parameter": {"Action": "UpdateStack", "TemplateBody": json.dumps(OF_PARAMETER),
                    "Parameters.member.1.ParameterKey": "length", "Parameters.member.1.ParameterValue": "64"},
    "ValidateTemplate": {"Action": "ValidateTemplate", "TemplateBody": json.dumps(LONG)},
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("way", ["query", "form", "both"])
def test_the_other_api_is_no_way_round(filtered: Heat, existing: str, call: str, way: str) -> None:
    fields = {"StackName": existing, **CALLS[call]}
    query = {} if way == "form" else fields if way == "query" else {"Action": fields["Action"]}
    form = {} if way == "query" else {name: value for name, value in fields.items() if name not in query}
    with filtered.unchanged():
        answer = filtered.cfn(query, **form)
    assert (answer.status_code, answer.headers["Content-Type"]) == (403, "application/xml")
    assert answer.text.startswith("<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>The pol")


def test_the_cfn_api_builds_clean_stacks_and_refuses_repeated_fields(filtered: Heat) -> None:
    name = filtered.name()
    fields = {"Action": "CreateStack", "StackName": name, "TemplateBody": json.dumps(CLEAN)}
    with filtered.unchanged():
        assert filtered.cfn({"TemplateBody": json.dumps(LONG)}, **fields).status_code == 400
        assert filtered.cfn({"Action": "ListStacks"}, **fields).status_code == 400
    assert filtered.cfn({}, **fields).status_code == 200
    assert (filtered.ended(name)[0], filtered.lengths(name)) == ("CREATE_COMPLETE", [8])
    assert (
        filtered.cfn({**fields, "Action": "UpdateStack", "TemplateBody": json.dumps(OF_PARAMETER)}).status_code == 200
    )
    assert (filtered.ended(name)[0], filtered.lengths(name)) == ("UPDATE_COMPLETE", [8])
    with filtered.unchanged():  # a policy is on deletion, and this API does not tell what is deleted
        assert filtered.cfn({"Action": "DeleteStack", "StackName": name}).status_code == 400


def test_a_context_that_a_client_writes_itself_builds_nothing(custom: Heat) -> None:
    own = {f"X-{name}": "admin" for name in ("User-Id", "User-Name", "Project-Id", "Project-Name", "Roles")}
    claims = {**JSON, **own, "X-Identity-Status": "Confirmed", "X-Auth-Token": "t"}
    for path, body in ((CREATE, {"template": CLEAN}), (f"{CREATE}/preview", {"template": CLEAN}),
                       (CREATE, {"adopt_stack_data": json.dumps({"template": LONG})})):  # fmt: skip
        answer = custom.sent("POST", path, json.dumps({"stack_name": "own", **body}).encode(), claims)
        assert refusal(answer) == (503, "The caller is not authenticated: no authtoken comes before the gate.")
    listed = custom.sent("GET", CREATE, b"", own)
    assert (listed.status_code, listed.json()) == (200, {"stacks": []})
