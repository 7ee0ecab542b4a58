"""Templates for the tests of the doors that need no cloud."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests

from tests.heat.doors.rig import Heat


def string(length: object = 8, salt: object = "") -> dict[str, Any]:
    """A resource that is created at once."""
    return {"type": "OS::Heat::RandomString", "properties": {"length": length, "salt": salt}}


def template(**resources: Any) -> dict[str, Any]:
    """A template of resources."""
    return {"heat_template_version": "2018-08-31", "resources": resources}


def denial(reason: str) -> dict[str, Any]:
    """A resource that records a denial."""
    return {"type": "DatalogGate::Denial", "properties": {"reason": reason}}


CLEAN = template(s=string())
LONG = template(s=string(64))
OF_PARAMETER: dict[str, Any] = {
    "heat_template_version": "2018-08-31",
    "parameters": {"length": {"type": "number", "default": 8}},
    "resources": {"s": string({"get_param": "length"})},
}
GROUP: dict[str, Any] = {
    "type": "OS::Heat::AutoScalingGroup",
    "properties": {"min_size": 1, "max_size": 3, "desired_capacity": 1, "resource": string()},
}
UP: dict[str, Any] = {
    "type": "OS::Heat::ScalingPolicy",
    "properties": {
        "adjustment_type": "change_in_capacity",
        "auto_scaling_group_id": {"get_resource": "group"},
        "scaling_adjustment": 1,
    },
}


def scaled(length: int, **size: int) -> dict[str, Any]:
    """A group of strings of that length, which the signal `up` makes larger."""
    return template(group={**GROUP, "properties": {**size, "resource": string(length)}}, up=UP)


def adopted(kind: str, **data: Any) -> dict[str, Any]:
    """A resource in the data of a stack that is adopted."""
    common = {"name": "r", "type": kind, "action": "CREATE", "status": "COMPLETE", "resource_id": "r"}
    return {**common, "resource_data": {}, "metadata": {}, **data}


def adoption(
    name: str, body: Any, resources: Mapping[str, Any], files: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The request to adopt a stack."""
    data = {"name": name, "action": "CREATE", "status": "COMPLETE", "template": body, "resources": resources}
    text = json.dumps({**data, "environment": {}, "files": files or {}})
    return {"stack_name": name, "timeout_mins": 5, "adopt_stack_data": text, "files": files or {}}


def why(finding: str = "length: s has 64 characters", hint: str = " (32 are enough)", resource: str = "s") -> str:
    """The reason of the policies, before the decision's id; by default against LONG."""
    return f"The policies deny this stack: {finding} at resources.{resource}.properties.length{hint}"


def refusal(answer: requests.Response) -> tuple[int, str]:
    """The status and reason of an answer that is a refusal in Heat's own shape."""
    titles = {
        400: ("Bad Request", "HTTPBadRequest"),
        403: ("Forbidden", "Forbidden"),
        409: ("Conflict", "HTTPConflict"),
    }
    title, kind = titles.get(answer.status_code, ("Service Unavailable", "ServiceUnavailable"))
    fault = answer.json()
    explanation = fault.get("explanation", "")
    error = {"type": kind, "message": explanation, "traceback": None}
    assert fault == {"code": answer.status_code, "title": title, "explanation": explanation, "error": error}
    match = re.fullmatch(r"(.*) \[decision [0-9a-f]+\]", explanation)
    assert match
    return answer.status_code, match[1]


@contextmanager
def without_policies(heat: Heat) -> Iterator[None]:
    """Deny nothing for the time of the context. The rules of the Heat must be writable."""
    path = heat.folder / "rules" / "doors.dl"
    text = path.read_text()
    path.write_text('@deny("none", "{string}")\nnone(string) :- os:heat:random_string(_id=string, length=99).\n')
    yield
    path.write_text(text)
