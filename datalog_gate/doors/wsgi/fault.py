"""Refusals in the shapes of Heat's own faults (layer 6), which every client prints.

In: a status and a message. Out: a whole answer, for heat-api (heat/api/middleware/fault.py) or for heat-api-cfn
(heat/api/aws/exception.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from xml.sax.saxutils import escape

TITLES = {400: "Bad Request", 403: "Forbidden", 503: "Service Unavailable"}
_TYPES = {400: "HTTPBadRequest", 403: "Forbidden", 503: "ServiceUnavailable"}
_CODES = {400: "InvalidParameterValue", 403: "AccessDenied", 503: "ServiceUnavailable"}


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer to a request."""

    status: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def accepted(self) -> bool:
        """Whether the request was taken."""
        return int(self.status[:3]) < 400


def heat_fault(code: int, message: str) -> Response:
    """The refusal as heat-api says it."""
    fault = {
        "code": code,
        "title": TITLES[code],
        "explanation": message,
        "error": {"type": _TYPES[code], "message": message, "traceback": None},
    }
    return _answer(code, "application/json", json.dumps(fault))


def cfn_fault(code: int, message: str, as_json: bool) -> Response:
    """The refusal as heat-api-cfn says it: XML, unless the client asked for JSON."""
    error = {"Type": "Server" if code >= 500 else "Sender", "Code": _CODES[code], "Message": message}
    if as_json:
        return _answer(code, "application/json", json.dumps({"ErrorResponse": {"Error": error}}))
    inner = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in error.items())
    return _answer(code, "application/xml", f"<ErrorResponse><Error>{inner}</Error></ErrorResponse>")


def _answer(code: int, kind: str, text: str) -> Response:
    body = text.encode()
    headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
    return Response(f"{code} {TITLES[code]}", headers, body)
