"""The WSGI application: routes, authentication, errors and records of writes."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, unquote

import falcon
from jsonschema import Draft202012Validator
from oslo_context.context import RequestContext
from oslo_middleware import HTTPProxyToWSGI, RequestId

from datalog_gate.base.diagnostics import closest, printable, shorten, suggest_name
from datalog_gate.base.errors import DiagnosticsError, EngineError, UsageError
from datalog_gate.base.failures import format_failure
from datalog_gate.doors.server.access import (
    WSGI,
    Client,
    Environ,
    KeystoneAuthentication,
    TokenAuthentication,
    list_domain_projects,
)
from datalog_gate.doors.server.api_table import ENDPOINTS
from datalog_gate.doors.server.endpoint import ANYBODY, ApiCall, ApiError, Endpoint, Reply
from datalog_gate.doors.server.json_body import read_json
from datalog_gate.doors.server.pages.sessions import PageSessions, SessionFiles
from datalog_gate.doors.server.pages.site import add_pages, send_problem
from datalog_gate.doors.server.policy_server import PolicyServer
from datalog_gate.doors.server.schemas import Schema
from datalog_gate.doors.server.server_options import find_folder
from datalog_gate.pages.rendering import part
from datalog_gate.store.api_records import Write
from datalog_gate.store.transaction import StoreError

LOG = logging.getLogger(__name__)
KEY = re.compile(r"[!-~]{1,255}")
STACK = re.compile(r"(/(?:v2|pages)/stacks/)(.+?)(/decisions)?", re.DOTALL)
REPEATED = ("code", "message", "suggestion", "diagnostics")
"""The members of an error that are stored for repeated requests."""
MOST_WRITTEN = 512 * 1024
"""The maximum length of an answer that is stored for repeated requests."""


def create_app(conf: Any, server: PolicyServer, authenticate: Callable[[WSGI], WSGI]) -> WSGI:
    """Create the application. `authenticate` wraps it and identifies the caller: `trust_token` or `trust_keystone`."""
    app = falcon.App(middleware=[_StackNames()])
    app.req_options.strip_url_path_trailing_slash = True
    for path in dict.fromkeys(endpoint.path for endpoint in ENDPOINTS):
        app.add_route(path, _create_resource(conf, server, path))
    add_pages(app, conf, server, partial(identify, conf, server))
    for kind in (Exception, falcon.HTTPError):  # Falcon has handlers of its own for the latter
        app.add_error_handler(kind, _answer_error)
    observed = partial(_observe, app, server)
    sessions = SessionFiles(find_folder(server.options) / "sessions")
    application = PageSessions(observed, authenticate(observed), sessions)
    outermost: WSGI = RequestId(HTTPProxyToWSGI(application, conf))
    return outermost


def trust_token(token: str) -> Callable[[WSGI], WSGI]:
    """Authenticate by the token of the server, which permits everything."""
    return partial(TokenAuthentication, token=token)


def trust_keystone(conf: Any) -> Callable[[WSGI], WSGI]:
    """Authenticate by Keystone."""
    public = frozenset(endpoint.path.rstrip("/") for endpoint in ENDPOINTS if endpoint.allowed == ANYBODY)
    return partial(KeystoneAuthentication, conf=conf, public=public, format_error=_format_refusal)


def _create_resource(conf: Any, server: PolicyServer, path: str) -> SimpleNamespace:
    """The endpoints of a path, as Falcon takes them."""
    endpoints = [endpoint for endpoint in ENDPOINTS if endpoint.path == path]
    responders = {f"on_{endpoint.method.lower()}": _Responder(conf, server, endpoint) for endpoint in endpoints}
    if "on_get" in responders:
        responders["on_head"] = responders["on_get"]
    return SimpleNamespace(**responders)


class _StackNames:
    """Keeps the name of a stack, which may have slashes, in one part of the path."""

    def process_request(self, req: falcon.Request, _resp: falcon.Response) -> None:
        if match := STACK.fullmatch(req.path):
            req.path = f"{match[1]}{part(match[2])}{match[3] or ''}"


class _Responder:
    """Answers requests to an endpoint."""

    def __init__(self, conf: Any, server: PolicyServer, endpoint: Endpoint) -> None:
        self._conf, self._server, self._endpoint = conf, server, endpoint
        self._body = Draft202012Validator(endpoint.body) if endpoint.body is not None else None
        self._query = {name: Draft202012Validator(schema) for name, schema in endpoint.query.items()}

    def __call__(self, req: falcon.Request, resp: falcon.Response, **path: str) -> None:
        environ: Environ = req.env
        environ["datalog_gate.operation"] = self._endpoint.name
        client = self._identify(environ)
        body = None
        if self._endpoint.method not in ("GET", "DELETE"):
            body = read_json(environ)
        if self._body:
            _check(self._body, body, "the body")
        elif body is not None:
            raise ApiError(400, "unexpected_body", "this operation takes no body")
        path = {name: unquote(value) if name == "stack" else value for name, value in path.items()}
        for name, value in path.items():
            if not value.isprintable() or len(value) > 255:
                raise ApiError(404, "not_found", f"there is no {name} of that name")
        query = self._read_query(environ.get("QUERY_STRING", ""))
        call = ApiCall(self._server, client, path, query, body, _request_id(environ), req.path)
        key = req.get_header("Idempotency-Key")
        if self._endpoint.method != "GET" and (self._endpoint.writes or key is not None):
            reply = self._write(call, key)
        else:
            reply = self._endpoint.handler(call)
        _send(reply, self._endpoint.media_type, resp)

    def _identify(self, environ: Environ) -> Client:
        """Identify the caller and check permissions. Errors: ApiError."""
        client = identify(self._conf, self._server, environ)
        if client.may(self._endpoint.rule):
            return client
        if client.credentials:
            raise ApiError(403, "forbidden", f"the policy {self._endpoint.rule} does not allow you this operation")
        raise ApiError(401, "unauthorized", "send a token in X-Auth-Token", headers={"WWW-Authenticate": "Token"})

    def _read_query(self, text: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        try:
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError as error:
            raise ApiError(400, "malformed_query", f"the query can't be read: {error}") from None
        for name, value in pairs:
            validator = self._query.get(name)
            if validator is None:
                known = suggest_name(closest(name, self._query))
                message = f"there is no parameter {shorten(printable(name), 100)}"
                raise ApiError(400, "unknown_parameter", message, known or "")
            if name in values:
                raise ApiError(400, "repeated_parameter", f"the parameter {name} is given twice")
            values[name] = _read_value(validator.schema, value)
            _check(validator, values[name], f"the parameter {name}")
            if isinstance(values[name], str) and not values[name].isprintable():
                raise ApiError(400, "invalid", f"the parameter {name} contains characters that can't be printed")
        defaults = {name: schema["default"] for name, schema in self._endpoint.query.items() if "default" in schema}
        return defaults | values

    def _write(self, call: ApiCall, key: str | None) -> Reply:
        """Do a write once, and store its answer. A repeated write gets the stored answer."""
        if key is not None and not KEY.fullmatch(key):
            raise ApiError(400, "invalid_key", "Idempotency-Key must have 1 to 255 characters of ASCII, without spaces")
        digest = hashlib.sha256(json.dumps([call.query, call.body], sort_keys=True).encode()).hexdigest()
        write = Write(
            operation=self._endpoint.name,
            path=call.url,
            user=call.client.user,
            project=call.client.project,
            request_id=call.request_id,
            digest=digest,
            key=key or "",
        )
        records, outcomes = self._server.records, list[Reply | Exception]()

        def work() -> tuple[int, object]:
            outcomes.append(self._try(call))
            return _to_record(outcomes[-1])

        if self._endpoint.writes:
            known = records.write(write, work)
        elif (known := records.find(write)) is None:
            record = work()  # it changes nothing that must be undone, and may take long
            known = records.write(write, lambda: record)
        if known:
            return _repeat(known, digest)
        outcome = outcomes[-1]
        if isinstance(outcome, Exception):
            raise outcome
        if outcome.after:
            outcome.after()
        return outcome

    def _try(self, call: ApiCall) -> Reply | Exception:
        """The reply, or the refusal, which is an answer too. Errors: what may succeed when it is repeated."""
        try:
            return self._endpoint.handler(call)
        except (ApiError, DiagnosticsError, UsageError, EngineError) as error:
            if _to_api_error(error).status >= 500:
                raise
            return error


def _to_record(outcome: Reply | Exception) -> tuple[int, object]:
    """The status and the answer that are stored for repeated requests."""
    if isinstance(outcome, Reply):
        status, answer = outcome.status, {"body": outcome.body, "headers": dict(outcome.headers)}
    else:
        refusal = _to_api_error(outcome)
        status, answer = refusal.status, {name: getattr(refusal, name) for name in REPEATED}
    return status, answer if len(json.dumps(answer)) <= MOST_WRITTEN else {}


def identify(conf: Any, server: PolicyServer, environ: Environ) -> Client:
    """The caller, as verified by Keystone or by the server's token."""
    context = RequestContext.from_environ(environ)  # from which the log takes the request id
    confirmed = environ.get("HTTP_X_IDENTITY_STATUS") == "Confirmed"
    values = dict(context.to_policy_values()) if confirmed else {}
    return Client(values, server.point.entitlements, partial(list_domain_projects, environ, conf))


def _repeat(known: Mapping[str, Any], digest: str) -> Reply:
    """The answer to a repeated write. Errors: ApiError."""
    if known["digest"] != digest:
        raise ApiError(422, "key_reused", "the Idempotency-Key was used for a request with another body")
    answer = known["answer"]
    if not answer:
        raise ApiError(
            409,
            "answered",
            "the request with this Idempotency-Key was answered, but the answer was too long to be kept",
        )
    if "code" in answer:
        raise ApiError(known["status"], **answer)
    return Reply(answer["body"], known["status"], {**answer["headers"], "Idempotency-Replayed": "true"})


def _send(reply: Reply, media_type: str, resp: falcon.Response) -> None:
    for name, value in reply.headers.items():
        resp.set_header(name, value)
    resp.set_header("X-Content-Type-Options", "nosniff")
    resp.set_header("Cache-Control", "no-cache, private")
    resp.status, resp.content_type = reply.status, media_type
    resp.text = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)


def _check(validator: Any, data: Any, what: str) -> None:
    """Refuse data that does not fit its schema. Errors: ApiError with the first error."""
    for error in validator.iter_errors(data):
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        where = f"{what} at {shorten(printable(place.lstrip('.')), 200)}" if place else what
        if data is None and not place:
            raise ApiError(400, "no_body", "send a body of JSON")
        raise ApiError(400, "invalid", f"{where}: {shorten(printable(error.message), 300)}")


def _read_value(schema: Schema, text: str) -> Any:
    """The value of a parameter in the type of its schema; the text if it can't be converted."""
    if schema.get("type") == "integer" and re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    if schema.get("type") == "boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return text


def _to_api_error(error: Exception) -> ApiError:
    """The API error for an error of the gate or of Falcon."""
    match error:
        case ApiError():
            return error
        case DiagnosticsError():
            details = [diagnostic.to_json() for diagnostic in error.diagnostics]
            message = "; ".join(diagnostic.message for diagnostic in error.diagnostics[:5])
            return ApiError(400, "diagnostics", message, error.diagnostics[0].suggestion or "", details)
        case UsageError():
            return ApiError(400, "invalid", str(error))
        case EngineError():
            return ApiError(422, "evaluation", str(error))
        case StoreError():
            return ApiError(503, "store", str(error), headers={"Retry-After": "5"})
        case falcon.HTTPNotFound():
            return ApiError(404, "not_found", "there is nothing at this path", "see /v2/openapi.json")
        case falcon.HTTPMethodNotAllowed():
            headers = dict(error.headers or ())
            return ApiError(
                405, "method", "this path does not have this method", f"use {headers['Allow']}", headers=headers
            )
        case falcon.HTTPError():
            return ApiError(error.status_code, "request", error.title or "the request can't be read")
    LOG.error("the server failed\n%s", format_failure(error))
    return ApiError(500, "failure", f"the server failed ({type(error).__name__})")


def _answer_error(req: falcon.Request, resp: falcon.Response, error: Exception, _params: Any) -> None:
    refusal = _to_api_error(error)
    if req.path.startswith("/pages/"):
        send_problem(req, resp, refusal)
        return
    resp.status = refusal.status
    for name, value in refusal.headers.items():
        resp.set_header(name, value)
    resp.content_type = "application/json"
    resp.text = json.dumps(format_error(refusal, _request_id(req.env)))


def format_error(error: ApiError, request_id: str) -> Mapping[str, Any]:
    """The body of an error."""
    content: dict[str, Any] = {
        "status": error.status,
        "code": error.code,
        "title": HTTPStatus(error.status).phrase,
        "detail": error.message,
        "request_id": request_id,
    }
    if error.suggestion:
        content["suggestion"] = error.suggestion
    if error.diagnostics:
        content["diagnostics"] = list(error.diagnostics)
    return {"errors": [content]}


def _format_refusal(environ: Environ, status: int, message: str) -> Mapping[str, Any]:
    code = "unauthorized" if status == 401 else "keystone"
    return format_error(ApiError(status, code, message), _request_id(environ))


def _request_id(environ: Environ) -> str:
    return str(environ.get("openstack.request_id", ""))


def _observe(
    app: Callable[..., Iterable[bytes]], server: PolicyServer, environ: Environ, start_response: Callable[..., Any]
) -> Iterable[bytes]:
    """Log and count a request, without its query and headers, which may be confidential."""
    server.point.metrics.start()
    began, statuses = time.monotonic(), list[str]()

    def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        statuses.append(status[:3])
        return start_response(status, headers, *more)

    body = app(environ, start)
    seconds = time.monotonic() - began
    operation, status = environ.get("datalog_gate.operation", "none"), statuses[0] if statuses else "500"
    numbers = server.point.metrics.numbers
    numbers.count("datalog_gate_api_requests_total", operation, status)
    numbers.observe("datalog_gate_api_seconds", seconds, operation)
    path = shorten(printable(environ.get("PATH_INFO", "")), 200)
    LOG.info("%s %s %s %s %.3f s", environ.get("REQUEST_METHOD"), path, operation, status, seconds)
    return body
