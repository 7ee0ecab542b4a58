"""The description of the API: its examples are what a server answers."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from jsonschema import validate

from datalog_gate.doors.server.api_table import ENDPOINTS
from datalog_gate.doors.server.openapi import EXAMPLES, describe
from datalog_gate.services.approval import Approvals
from tests.ledger import request
from tests.unit.doors.server.test_server import RULES, Api, scan, template

STACK = {"template": template(99)}
BODIES: dict[str, dict[str, Any]] = {
    "decision:create": {**STACK, "stack_name": "web"},
    "query:create": {**STACK, "query": "os:heat:random_string(_id=r, length=n)"},
    "waiver:create": {"policy": "length", "key": {"r": "web/word"}, "reason": "until May", "expires": "2127-05-01"},
    "trial:create": {**STACK, "rules": RULES},
    "approval:answer": {"verdict": "approved", "why": "for March"},
}
FIRST = ("decision:create", "trial:create", "waiver:create")
"""The operations that make what others show."""
VARYING = {
    r"\d{4}-\d\d-\d\dT[\d:.]+": "2027-03-01T12:00:00",
    r"\b[0-9a-f]{16,64}\b": "5f3a9c0d1e2b4a67",
    r"req-[0-9a-f-]{36}": "req-0f6d2c1e-7a54-4b1b-9a3e-5d0c8e1f2a3b",
}
"""The texts that differ from run to run."""


def test_each_operation_has_an_example_that_a_server_answered(tmp_path: Path) -> None:
    examples = ask_each(tmp_path)
    if "REGENERATE" in os.environ:
        EXAMPLES.write_text(json.dumps(examples, indent=1, ensure_ascii=False) + "\n")
    assert json.loads(EXAMPLES.read_text()) == examples


def test_each_example_fits_its_schema() -> None:
    for methods in describe(ENDPOINTS)["paths"].values():
        for operation in methods.values():
            assert "" not in (operation["summary"], operation["description"])
            answer = next(iter(operation["responses"].values()))
            for part in (answer, operation.get("requestBody", {"content": {}})):
                for content in part["content"].values():
                    if operation["operationId"] != "openapi_show":
                        validate(content["example"], content["schema"])


def ask_each(folder: Path) -> dict[str, dict[str, Any]]:
    """The body and the answer of each operation."""
    api = Api(folder, scan_store=scan(folder))
    Approvals(api.server.point.settings.store).use(request("u", "seat", project="p1", stack="web"), 1.8e9, 1e9)
    made = {"policy": "length", "stack": "r1", "waiver": "S-1", "approval": "A-1"}
    examples = {}
    for endpoint in sorted(ENDPOINTS, key=lambda endpoint: endpoint.name not in FIRST):
        if endpoint.name == "openapi:show":
            continue
        body = BODIES.get(endpoint.name)
        answer = api.ask(endpoint.method, endpoint.path.format(**made), body)
        assert answer.status_code == endpoint.status, answer.text
        is_json = endpoint.media_type == "application/json"
        data: Any = answer.json if is_json else answer.text.splitlines()[0]
        if endpoint.name in FIRST:
            made.setdefault(endpoint.name.partition(":")[0], data["id"])
        examples[endpoint.name] = {"body": body, "answer": _settle(data, folder)}
    return examples


def _settle(data: Any, folder: Path) -> Any:
    """An answer without what differs from run to run."""
    match data:
        case dict():
            return {name: _settle(part, folder) for name, part in data.items()}
        case list():
            return [_settle(part, folder) for part in data]
        case float():
            return 1803902400.0  # a time
        case str():
            for pattern, value in VARYING.items():
                data = re.sub(pattern, value, data.replace(f"{folder}/", ""))
    return data
