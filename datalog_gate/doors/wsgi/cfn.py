"""The requests to heat-api-cfn (layer 6): what each asks for, as a `Passage`.

In: a request in query or form, as Amazon's CloudFormation takes it. Out: its passage, None if it is not judged. What is
judged is forwarded as one form in which each name stands once, so that Heat can't read it in another way. An update is
whole here (heat/api/cfn/v1/stacks.py:265-352: no `existing`), and there are neither files nor environments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote_plus, urlencode

from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.operation import REASON
from datalog_gate.decision_point.settings import Settings
from datalog_gate.decision_point.stack_definition import StackDefinition
from datalog_gate.doors.wsgi.body import put_body, read_body, wrong
from datalog_gate.doors.wsgi.fault import cfn_fault
from datalog_gate.doors.wsgi.filter import Passage, PassageRefusedError
from datalog_gate.doors.wsgi.routes import FORMS, Environ, content_type
from datalog_gate.doors.wsgi.stored import Application
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
_UNCLEAR = "nobody can tell what the request asks for: send one form or query in which each name stands once"


def opened(_application: Application, environ: Environ, settings: Settings) -> Passage | None:
    """The passage of a request to heat-api-cfn."""
    segments = [part for segment in environ.get("PATH_INFO", "").split("/") if (part := segment.strip())]
    if segments and segments[0].startswith("v1"):
        segments = segments[1:]
    if segments[:1] in (["waitcondition"], ["signal"]):
        return None
    text, problem = _form(environ, settings)
    pairs = [*_pairs(environ.get("QUERY_STRING", "")), *_pairs(text)]
    asked = [value for name, value in pairs if name == "Action" and value in _ACTIONS]
    given = dict(pairs)
    fault = partial(cfn_fault, as_json=given.get("ContentType") == "JSON")
    stacks = bool(segments) and segments[0].startswith("stacks")  # heat/api/cfn/v1/__init__.py:62: REST, undocumented
    loose = ";" in environ.get("QUERY_STRING", "") + text or len(given) < len(pairs) or problem
    if stacks or (asked and loose) or (problem and not asked):
        said = "; ".join(diagnostic.message for diagnostic in problem.diagnostics) if problem else _UNCLEAR
        return Passage("cfn", "", fault, _nothing, unclear=said)
    if not asked:
        return None
    action = _ACTIONS[asked[0]]
    name, stack_id, tenant = _identity(given.get("StackName", ""))
    passage = Passage("cfn", action, fault, _nothing, tenant, name, stack_id, dry_run=asked[0] == "ValidateTemplate")
    if action in ("create", "update"):
        passage.definition = partial(_definition, given)
    elif action == "delete":
        passage.definition = _elsewhere
    if asked[0] == "CreateStack":
        passage.record = lambda reason: _put(environ, _record(given, reason))
    passage.forward = lambda: _put(environ, given)
    return passage


def _form(environ: Environ, settings: Settings) -> tuple[str, InputError | None]:
    """The text of a form, and what keeps it from being read."""
    kind = content_type(environ)
    length = environ.get("CONTENT_LENGTH") or ""
    if kind not in ("", *FORMS) or (length in ("", "0") and not environ.get("wsgi.input_terminated")):
        return "", None
    try:
        body = read_body(environ, settings.body_limit)
        if body and kind == "multipart/form-data":
            raise wrong("a form in several parts can't be judged")
        return body.decode(), None
    except (InputError, UnicodeDecodeError) as error:
        return "", error if isinstance(error, InputError) else wrong("the form is not UTF-8")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """The names and values: what webob parts at a semicolon is parted here, too."""
    for part in re.split("[&;]", text):
        name, _, value = part.partition("=")
        if part:
            yield unquote_plus(name), unquote_plus(value)


def _put(environ: Environ, given: Mapping[str, str]) -> None:
    put_body(environ, urlencode(given).encode())
    environ.update({"REQUEST_METHOD": "POST", "QUERY_STRING": "", "CONTENT_TYPE": FORMS[0]})


def _identity(name: str) -> tuple[str, str, str]:
    """The name, id and project of a stack that is named so, or by ``arn:openstack:heat::PROJECT:stacks/NAME/ID``."""
    arn = re.fullmatch(r"arn:openstack:heat::([^:]*):stacks/([^/]*)/([^/]*)/?", name)
    return (arn[2], arn[3], arn[1]) if arn else (name, "", "")


def _nothing() -> StackDefinition:
    raise wrong("this API does not say what the stack is made of")


def _elsewhere() -> StackDefinition:
    """Called only if a policy would judge the deletion, which must not pass here because nobody can read the stack."""
    raise PassageRefusedError("delete the stack over the orchestration API, where the policies can read it")


def _definition(given: Mapping[str, str]) -> StackDefinition:
    if "TemplateBody" not in given:
        if "TemplateUrl" in given or "TemplateURL" in given:
            raise wrong("the policies can't judge a stack given by TemplateUrl", "unsupported", "send TemplateBody")
        raise wrong("TemplateBody is missing")
    members: dict[int, dict[str, str]] = {}
    for name, value in given.items():
        found = _PARAMETER.fullmatch(name)
        if found and found[2] not in (member := members.setdefault(int(found[1]), {})):
            member[found[2]] = value
        elif found or name.startswith("Parameters."):  # Heat takes any text after a line break
            raise wrong(f"{name[:80]!r} can't be judged as the name of a parameter's part", "bad-parameter")
    pairs = [(member[_KEY], member[_VALUE]) for member in members.values() if _KEY in member and _VALUE in member]
    values: dict[str, Any] = dict(pairs)
    if len(values) < len(pairs):
        raise wrong("a parameter is there twice", "bad-parameter")
    if wrongly := [name for name in values if name in SECTIONS]:
        raise wrong(f"a parameter can't be named {wrongly[0]}", "bad-parameter")  # Heat takes it for an environment
    return StackDefinition(given["TemplateBody"], None, values or None)


def _record(given: Mapping[str, str], reason: str) -> dict[str, str]:
    denial = {"type": "DatalogGate::Denial", "properties": {"reason": reason[:REASON]}}
    kept = {name: given[name] for name in given if not name.startswith("Parameters.") and name != "OnFailure"}
    template = {"heat_template_version": "2018-08-31", "resources": {"denial": denial}}
    return {**kept, "DisableRollback": "true", "TemplateBody": json.dumps(template)}
