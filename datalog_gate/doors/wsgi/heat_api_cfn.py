"""Reads requests to heat-api-cfn, the API of Amazon's CloudFormation, as `GatedRequest`.

A judged request is forwarded as a form in which each name occurs once, so that Heat cannot read it in another way. An
update is always complete here (heat/api/cfn/v1/stacks.py:265-352: no `existing`), and there are no files and no
environments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote_plus, urlencode

from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.operation import REASON, Operation
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.wsgi.body import put_body, read_body
from datalog_gate.doors.wsgi.fault import cfn_fault
from datalog_gate.doors.wsgi.filter import GatedRequest, UnclearRequestError
from datalog_gate.doors.wsgi.heat_reading import find_difference
from datalog_gate.doors.wsgi.routes import FORMS, Environ, content_type
from datalog_gate.doors.wsgi.stored import Application
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.template.environment import SECTIONS

_ACTIONS = {
    "CreateStack": "create",
    "UpdateStack": "update",
    "ValidateTemplate": "create",
    "DeleteStack": "delete",
    "CancelUpdateStack": "rollback",
}
_PARAMETER = re.compile(r"Parameters\.member\.([0-9]{1,6})\.([A-Za-z]+)")
_KEY, _VALUE = "ParameterKey", "ParameterValue"
_UNCLEAR = "the request is ambiguous: send one form or query in which each name occurs once"


def read_request(_application: Application, environ: Environ, settings: Settings) -> GatedRequest | None:
    """Read a request to heat-api-cfn; None if it is not judged."""
    segments = [part for segment in environ.get("PATH_INFO", "").split("/") if (part := segment.strip())]
    if segments and segments[0].startswith("v1"):
        segments = segments[1:]
    if segments[:1] in (["waitcondition"], ["signal"]):
        return None
    text, problem = _read_form(environ, settings)
    pairs = [*_pairs(environ.get("QUERY_STRING", "")), *_pairs(text)]
    actions = [value for name, value in pairs if name == "Action" and value in _ACTIONS]
    fields = dict(pairs)
    fault = partial(cfn_fault, as_json=fields.get("ContentType") == "JSON")
    stacks = bool(segments) and segments[0].startswith("stacks")  # undocumented REST, heat/api/cfn/v1/__init__.py:62
    ambiguous = ";" in environ.get("QUERY_STRING", "") + text or len(fields) < len(pairs) or problem
    if stacks or (actions and ambiguous) or (problem and not actions):
        unclear = "; ".join(diagnostic.message for diagnostic in problem.diagnostics) if problem else _UNCLEAR
        raise UnclearRequestError(unclear, fault)
    if not actions:
        return None
    name, stack_id, tenant = _parse_stack_name(fields.get("StackName", ""))
    action = _ACTIONS[actions[0]]
    definition = partial(_definition, fields) if action in ("create", "update") else _unreadable_definition
    operation = Operation(
        door="cfn",
        action=action,
        stack_name=name,
        project=tenant,
        definition=definition,
        credentials=None,
        compare=find_difference,
        stack_id=stack_id,
        dry_run=actions[0] == "ValidateTemplate",
    )
    request = GatedRequest(operation, fault)
    if actions[0] == "CreateStack":
        request.record = lambda reason: _put_form(environ, _denial_fields(fields, reason))
    request.forward = lambda: _put_form(environ, fields)
    return request


def _read_form(environ: Environ, settings: Settings) -> tuple[str, InputError | None]:
    """Read the text of a form. Also return the error, if any."""
    kind = content_type(environ)
    length = environ.get("CONTENT_LENGTH") or ""
    if kind not in ("", *FORMS) or (length in ("", "0") and not environ.get("wsgi.input_terminated")):
        return "", None
    try:
        body = read_body(environ, settings.body_limit)
        if body and kind == "multipart/form-data":
            raise InputError.of("a multipart form can't be judged")
        return body.decode(), None
    except (InputError, UnicodeDecodeError) as error:
        return "", error if isinstance(error, InputError) else InputError.of("the form is not UTF-8")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """The names and values of a form. webob also splits at a semicolon."""
    for part in re.split("[&;]", text):
        name, _, value = part.partition("=")
        if part:
            yield unquote_plus(name), unquote_plus(value)


def _put_form(environ: Environ, fields: Mapping[str, str]) -> None:
    put_body(environ, urlencode(fields).encode())
    environ.update({"REQUEST_METHOD": "POST", "QUERY_STRING": "", "CONTENT_TYPE": FORMS[0]})


def _parse_stack_name(name: str) -> tuple[str, str, str]:
    """Parse a name, or ``arn:openstack:heat::PROJECT:stacks/NAME/ID``, into the name, id and project of a stack."""
    arn = re.fullmatch(r"arn:openstack:heat::([^:]*):stacks/([^/]*)/([^/]*)/?", name)
    return (arn[2], arn[3], arn[1]) if arn else (name, "", "")


def _unreadable_definition() -> StackDefinition:
    """Called only if a policy judges a deletion, which must fail since the stack cannot be read here."""
    raise UnclearRequestError("delete the stack over the orchestration API, where the policies can read it")


def _definition(fields: Mapping[str, str]) -> StackDefinition:
    if "TemplateBody" not in fields:
        if "TemplateUrl" in fields or "TemplateURL" in fields:
            message = "the policies can't judge a stack given by TemplateUrl"
            raise InputError.of(message, "unsupported", "send TemplateBody")
        raise InputError.of("TemplateBody is missing")
    members: dict[int, dict[str, str]] = {}
    for name, value in fields.items():
        match = _PARAMETER.fullmatch(name)
        if match and match[2] not in (member := members.setdefault(int(match[1]), {})):
            member[match[2]] = value
        elif match or name.startswith("Parameters."):  # Heat accepts any text after a line break
            raise InputError.of(f"{name[:80]!r} is not a valid name for a part of a parameter", "bad-parameter")
    pairs = [(member[_KEY], member[_VALUE]) for member in members.values() if _KEY in member and _VALUE in member]
    values: dict[str, Any] = dict(pairs)
    if len(values) < len(pairs):
        raise InputError.of("a parameter is given twice", "bad-parameter")
    if reserved := [name for name in values if name in SECTIONS]:  # Heat would read them as an environment
        raise InputError.of(f"a parameter can't be named {reserved[0]}", "bad-parameter")
    return StackDefinition(fields["TemplateBody"], None, values or None)


def _denial_fields(fields: Mapping[str, str], reason: str) -> dict[str, str]:
    """The fields for a stack of the same name that fails with the reason."""
    denial = {"type": "DatalogGate::Denial", "properties": {"reason": reason[:REASON]}}
    kept = {name: fields[name] for name in fields if not name.startswith("Parameters.") and name != "OnFailure"}
    template = {"heat_template_version": "2018-08-31", "resources": {"denial": denial}}
    return {**kept, "DisableRollback": "true", "TemplateBody": json.dumps(template)}
