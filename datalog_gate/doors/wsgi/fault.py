"""Refusals in the formats of Heat's faults, which every client can print."""

from __future__ import annotations

import json
from xml.sax.saxutils import escape

from datalog_gate.base.records import dataclass

TITLES = {400: "Bad Request", 403: "Forbidden", 409: "Conflict", 503: "Service Unavailable"}
_TYPES = {400: "HTTPBadRequest", 403: "Forbidden", 409: "HTTPConflict", 503: "ServiceUnavailable"}
_CODES = {400: "InvalidParameterValue", 403: "AccessDenied", 503: "ServiceUnavailable"}


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response to a request."""

    status: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def accepted(self) -> bool:
        """Whether the request was accepted."""
        return int(self.status[:3]) < 400


def heat_fault(code: int, message: str) -> Response:
    """Build a refusal of heat-api (heat/api/middleware/fault.py)."""
    fault = {
        "code": code,
        "title": TITLES[code],
        "explanation": message,
        "error": {"type": _TYPES[code], "message": message, "traceback": None},
    }
    return _response(code, "application/json", json.dumps(fault))


def deletion_fault(code: int, message: str) -> Response:
    """Build a refusal of a deletion. For a 403 `openstack stack delete` prints only the name of the stack, but for a
    409 the message (heatclient/osc/v1/stack.py, 5.3)."""
    return heat_fault(409 if code == 403 else code, message)


def cfn_fault(code: int, message: str, as_json: bool) -> Response:
    """Build a refusal of heat-api-cfn (heat/api/aws/exception.py): XML, unless the client asked for JSON."""
    error = {"Type": "Server" if code >= 500 else "Sender", "Code": _CODES[code], "Message": message}
    if as_json:
        return _response(code, "application/json", json.dumps({"ErrorResponse": {"Error": error}}))
    inner = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in error.items())
    return _response(code, "application/xml", f"<ErrorResponse><Error>{inner}</Error></ErrorResponse>")


def _response(code: int, kind: str, text: str) -> Response:
    body = text.encode()
    headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
    return Response(f"{code} {TITLES[code]}", headers, body)
