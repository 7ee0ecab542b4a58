"""The filter before heat-api-cfn."""

from __future__ import annotations

import io
import json
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest

from datalog_gate.decision_point.operation import Answer
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.wsgi import wrap_cfn
from datalog_gate.files.stack_definition import StackDefinition
from tests.fake_heat import Client, FakeHeat
from tests.refusals import refusals
from tests.unit.doors.wsgi.test_operations import ALLOWED, DENIED, Point

FORM = "application/x-www-form-urlencoded"
TEMPLATE = '{"heat_template_version": "2018-08-31", "resources": {}}'
NEW = {"Action": "CreateStack", "StackName": "web", "TemplateBody": TEMPLATE}
ARN = "arn:openstack:heat::own:stacks/web/6a"
UNCLEAR = "the request is ambiguous: send one form or query in which each name occurs once"


class Door:
    """The cfn filter before a heat-api-cfn."""

    def __init__(self, point: Point, **settings: Any) -> None:
        self.heat, self.point = FakeHeat(), point
        self.client = Client(wrap_cfn(self.heat, point=point, settings=Settings(**settings)), self.heat, known=False)

    def send(self, query: str = "", form: str = "", **environ: Any) -> tuple[int, str, str]:
        """The code, content type and body of the answer."""
        base = {"PATH_INFO": "/", "QUERY_STRING": query, "CONTENT_TYPE": FORM, **environ}
        status, headers, content = self.client.send(form.encode(), **base)
        return int(status[:3]), headers["Content-Type"], content.decode()

    @property
    def forms(self) -> list[dict[str, str]]:
        """The forms that reached Heat."""
        return [dict(parse_qsl(body.decode(), keep_blank_values=True)) for _, _, body, _ in self.heat.requests]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (NEW, ("create", False, "web", "", "")),
        ({**NEW, "Action": "UpdateStack"}, ("update", False, "web", "", "")),
        ({**NEW, "Action": "UpdateStack", "StackName": ARN}, ("update", False, "web", "6a", "own")),
        ({"Action": "ValidateTemplate", "TemplateBody": TEMPLATE}, ("create", True, "", "", "")),
        ({"Action": "DeleteStack", "StackName": "web"}, ("delete", False, "web", "", "")),
        ({"Action": "CancelUpdateStack", "StackName": "web"}, ("rollback", False, "web", "", "")),
    ],
)
@pytest.mark.parametrize("way", ["query", "form", "both"])
def test_each_action_is_asked_for_and_forwarded_as_one_form(
    form: dict[str, str], expected: tuple[str, bool, str, str, str], way: str
) -> None:
    point = Point()
    door = Door(point)
    action = {"Action": form["Action"]}
    rest = {name: value for name, value in form.items() if name != "Action"}
    match way:
        case "query":
            answer = door.send(urlencode(form), CONTENT_TYPE="", REQUEST_METHOD="GET", CONTENT_LENGTH="")
        case "form":
            answer = door.send("", urlencode(form), CONTENT_TYPE=f"{FORM}; charset=utf-8")
        case _:
            answer = door.send(urlencode(action), urlencode(rest), PATH_INFO="/v1/")
    [operation] = point.operations
    assert (
        operation.door,
        operation.action,
        operation.dry_run,
        operation.stack_name,
        operation.stack_id,
        operation.project,
    ) == ("cfn", *expected)
    assert (answer[0], door.forms, [request[0] for request in door.heat.requests]) == (201, [form], ["POST"])
    assert point.finished == [(ALLOWED.id, "accepted")]


def test_the_parameters_of_a_stack_are_its_members() -> None:
    point = Point()
    members = {"Parameters.member.1.ParameterKey": "f", "Parameters.member.1.ParameterValue": "huge",
               "Parameters.member.02.ParameterKey": "g", "Parameters.member.2.ParameterValue": "x;y",
               "Parameters.member.3.ParameterKey": "alone"}  # fmt: skip
    Door(point).send("", urlencode({**NEW, **members}))
    assert point.operations[0].definition() == StackDefinition(TEMPLATE, None, {"f": "huge", "g": "x;y"})


P1 = {"Parameters.member.1.ParameterKey": "f", "Parameters.member.1.ParameterValue": "x"}


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"Action": "CreateStack"}, "TemplateBody is missing"),
        ({"Action": "CreateStack", "TemplateUrl": "http://example.org/x"},
         "the policies can't judge a stack given by TemplateUrl"),
        ({**NEW, **P1, "Parameters.member.01.ParameterKey": "g"},
         "'Parameters.member.01.ParameterKey' is not a valid name for a part of a parameter"),
        ({**NEW, **P1, "Parameters.member.1.ParameterKey\nx": "g"},
         "'Parameters.member.1.ParameterKey\\nx' is not a valid name for a part of a parameter"),
        ({**NEW, **P1, "Parameters.member.2.ParameterKey": "f", "Parameters.member.2.ParameterValue": "y"},
         "a parameter is given twice"),
        ({**NEW, **P1, "Parameters.member.1.ParameterKey": "resource_registry"},
         "a parameter can't be named resource_registry"),
    ],
)  # fmt: skip
def test_what_can_not_be_read_in_one_way_is_no_definition(form: dict[str, str], message: str) -> None:
    point = Point()
    Door(point).send("", urlencode(form))
    assert refusals(point.operations[0].definition, "message") == [message]


@pytest.mark.parametrize(
    ("query", "form", "environ"),
    [
        (urlencode(NEW) + "&Action=ListStacks", "", {}),
        ("Action=ListStacks&" + urlencode(NEW), "", {}),
        ("Action=ListStacks", urlencode(NEW), {}),
        ("StackName=x;Action=CreateStack", "", {}),
        ("StackName=x%26Action;" + urlencode(NEW), "", {}),
        (urlencode(NEW), urlencode({"TemplateBody": "x"}), {}),
        ("", urlencode(NEW), {"PATH_INFO": "/stacks"}),
        ("", "", {"PATH_INFO": "/v1/stacks/web", "REQUEST_METHOD": "DELETE"}),
        ("_method=POST", "", {"PATH_INFO": "/stacks.xml", "REQUEST_METHOD": "GET"}),
    ],
)
def test_what_heat_might_read_in_another_way_is_refused(query: str, form: str, environ: dict[str, str]) -> None:
    door = Door(Point())
    code, _, content = door.send(query, form, **environ)
    assert (code, UNCLEAR in content, door.heat.requests, door.point.operations) == (400, True, [], [])


@pytest.mark.parametrize(
    ("form", "environ", "message"),
    [
        (b"x", {"CONTENT_TYPE": "multipart/form-data; boundary=x"}, "a multipart form can't be judged"),
        (b"\xff", {}, "the form is not UTF-8"),
        (b"x" * 99, {}, "the body is larger than the 50 bytes that can be judged"),
        (b"x", {"CONTENT_LENGTH": "x"}, "the Content-Length is not a number"),
    ],
)
def test_a_form_that_can_not_be_read_is_refused(form: bytes, environ: dict[str, str], message: str) -> None:
    door = Door(Point(), body_limit=50)
    length = {"CONTENT_LENGTH": str(len(form)), "wsgi.input": io.BytesIO(form)}
    code, _, content = door.send("", "", **{**length, **environ})
    assert (code, message in content.replace("&apos;", "'"), door.heat.requests) == (400, True, [])


@pytest.mark.parametrize(
    ("query", "environ"),
    [
        ("Action=DescribeStacks", {}), ("", {}), ("Action=GetTemplate&StackName=web", {"CONTENT_TYPE": "text/plain"}),
        ("Action=CreateStack", {"PATH_INFO": "/waitcondition/arn:x", "REQUEST_METHOD": "PUT"}),
        ("x", {"PATH_INFO": "/v1/signal/arn:x"}),
    ],
)  # fmt: skip
def test_every_other_request_passes(query: str, environ: dict[str, str]) -> None:
    door = Door(Point(DENIED))
    assert door.send(query, "a=b", **environ)[0] == 201
    assert ([request[2] for request in door.heat.requests], door.point.operations) == ([b"a=b"], [])


@pytest.mark.parametrize(
    ("verdict", "code", "name", "kind"),
    [
        ("denied", 403, "AccessDenied", "Sender"),
        ("unreadable", 400, "InvalidParameterValue", "Sender"),
        ("undecided", 503, "ServiceUnavailable", "Server"),
    ],
)
def test_a_refusal_has_the_shape_of_that_apis_errors(verdict: Any, code: int, name: str, kind: str) -> None:
    door = Door(Point(Answer(verdict, "0123456789", "a < b & c")))
    inner = f"<Type>{kind}</Type><Code>{name}</Code><Message>a &lt; b &amp; c [decision 012345]</Message>"
    body = f"<ErrorResponse><Error>{inner}</Error></ErrorResponse>"
    assert door.send("", urlencode(NEW)) == (code, "application/xml", body)
    code_, type_, text = door.send("", urlencode({**NEW, "ContentType": "JSON"}))
    error = {"Type": kind, "Code": name, "Message": "a < b & c [decision 012345]"}
    assert (code_, type_, json.loads(text)) == (code, "application/json", {"ErrorResponse": {"Error": error}})
    assert door.heat.requests == []


def test_a_deletion_is_refused_if_a_policy_needs_a_stack_that_can_not_be_read() -> None:
    door = Door(Point(look=True))
    code, _, content = door.send("Action=DeleteStack&StackName=web")
    message = "delete the stack over the orchestration API, where the policies can read it"
    assert (code, message in content, door.heat.requests) == (400, True, [])


def test_a_denied_creation_may_become_a_stack_that_fails_with_the_reason() -> None:
    door = Door(Point(DENIED), create_denial="failed_stack")
    assert door.send("", urlencode({**NEW, **P1, "OnFailure": "DELETE", "TimeoutInMinutes": "5"}))[0] == 201
    [form] = door.forms
    reason = "The policies deny this stack: too big [decision 012345]"
    denial = {"type": "DatalogGate::Denial", "properties": {"reason": reason}}
    assert json.loads(form.pop("TemplateBody")) == {
        "heat_template_version": "2018-08-31", "resources": {"denial": denial}}  # fmt: skip
    assert form == {"Action": "CreateStack", "StackName": "web", "TimeoutInMinutes": "5", "DisableRollback": "true"}
    door = Door(Point(DENIED), create_denial="failed_stack")
    assert door.send("", urlencode({**NEW, "Action": "UpdateStack"}))[0] == 403
