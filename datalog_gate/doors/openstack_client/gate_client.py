"""Functions that ask the policy server, over an adapter of keystoneauth.

`connect` creates the adapter. Writes have a key, so that repeating one after a lost answer does not do it twice. Errors
of all functions: GateRequestError, and those of keystoneauth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from datalog_gate.base.errors import GateError

SERVICE_TYPE = "policy"
"""The type of the server in the catalogue of services."""
KINDS = ("decisions", "policies", "findings", "stacks", "approvals", "waivers")
REPEATS = 3
"""How often a request is repeated after a lost connection, or while the store is unreachable."""


class GateRequestError(GateError):
    """A refusal by the server: the status, a code for programs, what is wrong, and what to write."""

    def __init__(self, status: int, code: str, message: str, suggestion: str, request_id: str) -> None:
        super().__init__(f"{message}: {suggestion}" if suggestion else message)
        self.status, self.code, self.message, self.suggestion = status, code, message, suggestion
        self.request_id = request_id

    def __str__(self) -> str:
        return f"{super().__str__()} (HTTP {self.status}, {self.request_id})"


def connect(session: Session, url: str | None = None, **adapter: Any) -> Adapter:
    """Create an adapter for the server in the catalogue, or at a URL. Takes the arguments of keystoneauth's Adapter."""
    repeats = {"connect_retries": REPEATS, "status_code_retries": REPEATS, "retriable_status_codes": [503]}
    return Adapter(session, service_type=SERVICE_TYPE, endpoint_override=url, **{**repeats, **adapter})


def judge(gate: Adapter, template: Any, **question: Any) -> dict[str, Any]:
    """Judge a stack; returns the decision. Other keyword arguments are members of the body of POST /v2/decisions."""
    return _write(gate, "POST", "/v2/decisions", {"template": template, **_without_none(question)})


def show(gate: Adapter, kind: str, identity: str) -> dict[str, Any]:
    """Show one of `KINDS` by its id."""
    return _send(gate, "GET", f"/v2/{kind}/{quote(identity, safe='')}")


def walk(gate: Adapter, kind: str, **filters: Any) -> Iterator[dict[str, Any]]:
    """Yield all of `KINDS` that match the filters, page by page."""
    marker = None
    while True:
        answer = _send(gate, "GET", f"/v2/{kind}", params=_without_none({**filters, "marker": marker}))
        yield from answer[kind]
        marker = answer.get("next")
        if marker is None:
            return


def answer_approval(gate: Adapter, identity: str, verdict: str, why: str = "") -> dict[str, Any]:
    """Answer a request with "approved" or "refused"."""
    path = f"/v2/approvals/{quote(identity, safe='')}/verdicts"
    return _write(gate, "POST", path, {"verdict": verdict, "why": why})


def create_waiver(gate: Adapter, policy: str, reason: str, expires: str, **entry: Any) -> dict[str, Any]:
    """Waive what a policy finds until a day. Takes the other members of a waiver by name."""
    return _write(
        gate, "POST", "/v2/waivers", _without_none({"policy": policy, "reason": reason, "expires": expires, **entry})
    )


def delete_waiver(gate: Adapter, identity: str) -> dict[str, Any]:
    """End a waiver that was given at the server."""
    return _write(gate, "DELETE", f"/v2/waivers/{quote(identity, safe='')}", None)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _write(gate: Adapter, method: str, path: str, body: Any) -> dict[str, Any]:
    return _send(gate, method, path, json=body, headers={"Idempotency-Key": uuid4().hex})


def _send(gate: Adapter, method: str, path: str, **request: Any) -> dict[str, Any]:
    answer = gate.request(path, method, raise_exc=False, **request)
    try:
        content = answer.json()
    except ValueError:
        content = None
    if answer.status_code < 400 and isinstance(content, dict):
        return content
    [error, *_] = (isinstance(content, dict) and content.get("errors")) or [{}]
    raise GateRequestError(
        status=answer.status_code,
        code=error.get("code", "unknown"),
        message=error.get("detail", "the answer does not come from a policy server"),
        suggestion=error.get("suggestion", ""),
        request_id=answer.headers.get("X-OpenStack-Request-Id", "without a request id"),
    )
