"""The OpenAPI description, generated from the endpoints."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datalog_gate import __version__
from datalog_gate.doors.server.endpoint import ANYBODY, Endpoint
from datalog_gate.doors.server.schemas import describe_object

EXAMPLES = Path(__file__).with_name("examples.json")
"""The body and the answer of each operation, as a test got them."""
VARIABLE = re.compile(r"{(\w+)}")
ERROR = describe_object(
    "status",
    "code",
    "title",
    "detail",
    "request_id",
    status={"type": "integer"},
    code={"type": "string", "description": "for programs"},
    title={"type": "string"},
    detail={"type": "string", "description": "what is wrong"},
    suggestion={"type": "string", "description": "what to write"},
    diagnostics={"type": "array", "items": {"type": "object"}},
    request_id={"type": "string"},
)
ERRORS = describe_object("errors", errors={"type": "array", "minItems": 1, "items": ERROR})
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A request with a key of an earlier one, and the same body, gets the same answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Describe the endpoints as OpenAPI 3.1."""
    examples = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _describe(
            endpoint, examples.get(endpoint.name, {})
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "datalog_gate policy server",
            "version": __version__,
            "description": "Decisions on stacks, and what the gate knows of a cloud.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": ERRORS},
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    }


def _describe(endpoint: Endpoint, example: Mapping[str, Any]) -> dict[str, Any]:
    path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1, "maxLength": 255}}
        for name in VARIABLE.findall(endpoint.path)
    ]
    query = [
        {"name": name, "in": "query", "required": False, "description": schema["description"], "schema": schema}
        for name, schema in endpoint.query.items()
    ]
    error = {
        "description": "refused",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    operation: dict[str, Any] = {
        "operationId": endpoint.name.replace(":", "_"),
        "summary": endpoint.summary,
        "description": _describe_access(endpoint),
        "tags": [endpoint.name.partition(":")[0]],
        "parameters": [*path, *query, *([KEY] if endpoint.method != "GET" else [])],
        "responses": {
            str(endpoint.status): {
                "description": endpoint.summary,
                "content": {endpoint.media_type: _describe_content(endpoint.answer, example.get("answer"))},
            },
            "4XX": error,
            "5XX": error,
        },
        "security": [] if endpoint.allowed == ANYBODY else [{"token": []}],
    }
    if endpoint.body is not None:
        content = {"application/json": _describe_content(endpoint.body, example.get("body"))}
        operation["requestBody"] = {"required": True, "content": content}
    if endpoint.name == "health:show":
        operation["responses"]["503"] = operation["responses"]["200"]
    return operation


def _describe_content(schema: Any, example: Any) -> dict[str, Any]:
    """The schema of a body or answer, with its example if there is one: the description itself has none."""
    return {"schema": schema} if example is None else {"schema": schema, "example": example}


def _describe_access(endpoint: Endpoint) -> str:
    """Who may call an endpoint."""
    if endpoint.allowed == ANYBODY:
        return "Needs no token."
    scopes = " or ".join(endpoint.scopes)
    return f"Needs a token of a {scopes}. Its rule is `{endpoint.rule}`, by default `{endpoint.allowed}`."
