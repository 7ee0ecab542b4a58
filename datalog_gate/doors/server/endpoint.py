"""An operation of the API, a request to it, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

from datalog_gate.base.errors import GateError
from datalog_gate.base.records import dataclass, field
from datalog_gate.doors.server.schemas import Schema

if TYPE_CHECKING:
    from datalog_gate.doors.server.access import Client
    from datalog_gate.doors.server.policy_server import PolicyServer

SCOPES = ("system", "domain", "project")
CLOUD = ("system", "project")
"""Tokens of cloud operators, if their rule allows them."""
ANYBODY = "@"
READER = "role:reader"
MEMBER = "role:member"
OPERATOR = "role:admin"


class ApiError(GateError):
    """An error for a client: the status, a code for programs, and a message."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        suggestion: str = "",
        diagnostics: Sequence[Mapping[str, object]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.suggestion = status, code, message, suggestion
        self.diagnostics, self.headers = tuple(diagnostics), dict(headers or {})


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a handler: JSON data, or a text in the media type of the endpoint."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    after: Callable[[], None] | None = None
    """What follows the effect, outside its transaction: a write may be tried several times."""


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request that is authorized and fits its schemas."""

    server: PolicyServer
    client: Client
    path: Mapping[str, str]
    """The variables of the path."""
    query: Mapping[str, Any]
    """The parameters by name, including defaults."""
    body: Any
    """The JSON data of the body; None without one."""
    request_id: str
    url: str
    """The path as requested."""


Handler = Callable[[ApiCall], Reply]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of a path. Routes, oslo.policy rules and the description are generated from the table of endpoints."""

    method: str
    path: str
    """With variables in braces, as /v2/decisions/{decision}."""
    name: str
    """Its id, and that of its rule: decision:show is datalog_gate:decision:show."""
    summary: str
    handler: Handler
    _: KW_ONLY
    answer: Schema = field(default_factory=lambda: {"type": "object"})
    allowed: str = READER
    """The default rule. `ANYBODY` needs no token."""
    scopes: tuple[str, ...] = SCOPES
    """The permitted scopes of tokens."""
    query: Mapping[str, Schema] = field(default_factory=dict)
    body: Schema | None = None
    status: int = 200
    writes: bool = False
    """Whether it changes something, so that each call is recorded."""
    media_type: str = "application/json"

    @property
    def rule(self) -> str:
        return f"datalog_gate:{self.name}"


class EndpointTable(list[Endpoint]):
    """The endpoints of a module, in the order of their handlers."""

    def add(self, route: str, name: str, summary: str, **more: Any) -> Callable[[Handler], Handler]:
        """Make a function the handler of an endpoint. `route` is the method and the path, as GET /v2/decisions."""
        method, path = route.split()

        def handle(handler: Handler) -> Handler:
            self.append(Endpoint(method, path, name, summary, handler, **more))
            return handler

        return handle
