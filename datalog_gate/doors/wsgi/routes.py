"""The routes of heat-api whose requests are judged (heat/api/openstack/v1/__init__.py:90-330).

Heat's router is lenient: it compares a method as a substring (``PO`` and ``OST`` are a POST), ``_method`` in a query or
a form replaces the method, and a line break may end a path. On a path with a judged method, a request with such a
method is "unclear". No client sends one.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import unquote_plus

from datalog_gate.base.records import dataclass

Environ = MutableMapping[str, Any]

VALIDATE = {"POST": "validate"}
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_ANY = "*"
_ROUTES: dict[tuple[str, ...], dict[str, str]] = {
    (): {"POST": "create"},
    ("preview",): {"POST": "preview"},
    (_ANY, _ANY): {"PUT": "update", "PATCH": "update", "DELETE": "delete"},
    (_ANY, _ANY, "preview"): {"PUT": "preview_update", "PATCH": "preview_update"},
    (_ANY, _ANY, "abandon"): {"DELETE": "abandon"},
    (_ANY, _ANY, "actions"): {"POST": "actions"},
    (_ANY, _ANY, "snapshots"): {"POST": "snapshot"},
    (_ANY, _ANY, "snapshots", _ANY, "restore"): {"POST": "restore"},
}
"""The kind of operation for each method, by the path after ``stacks``."""


@dataclass(frozen=True, slots=True)
class Route:
    """The route of a request."""

    kind: str
    tenant: str
    stack_name: str = ""
    stack_id: str = ""
    snapshot_id: str = ""
    path: str = ""
    """The path of the stack, below which are ``/template`` and others."""


def match_route(environ: Environ) -> Route | None:
    """Match the path and method of a request; None if it is not judged."""
    segments = [part for segment in environ.get("PATH_INFO", "").split("/") if (part := segment.strip())]
    method = environ["REQUEST_METHOD"]
    for at, segment in enumerate(segments):
        if segment != "stacks":
            continue
        rest = segments[at + 1 :]
        methods = next((methods for route, methods in _ROUTES.items() if _fits(route, rest)), {})
        tenant = segments[at - 1] if at else ""
        if kind := _kind(environ, method, methods):
            if len(rest) < 2:
                return Route(kind, tenant)
            path = "/" + "/".join(segments[: at + 3])
            return Route(kind, tenant, rest[0], rest[1], "".join(rest[3:4]), path)
    if segments[-1:] == ["validate"] and "stacks" not in segments and (kind := _kind(environ, method, VALIDATE)):
        return Route(kind, "".join(segments[-2:-1]))
    return None


def _fits(route: tuple[str, ...], rest: list[str]) -> bool:
    return len(route) == len(rest) and all(name in (_ANY, part) for name, part in zip(route, rest, strict=True))


def _kind(environ: Environ, method: str, methods: dict[str, str]) -> str | None:
    if methods and (method not in METHODS or _replaces_method(environ)):
        return "unclear"
    return methods.get(method)


def _replaces_method(environ: Environ) -> bool:
    """Whether Routes may replace the method (routes/middleware.py:55-95)."""
    query = environ.get("QUERY_STRING", "")
    named = (unquote_plus(part.partition("=")[0]) for part in re.split("[&;]", query))
    form = environ["REQUEST_METHOD"] == "POST" and content_type(environ) in FORMS
    return "_method" in named or form


def content_type(environ: Environ) -> str:
    """The media type of the body, without parameters."""
    return str(environ.get("CONTENT_TYPE") or "").partition(";")[0].strip().lower()
