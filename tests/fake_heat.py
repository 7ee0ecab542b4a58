"""A heat-api that keeps stacks as Heat's engine does, behind a filter."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from datalog_gate.decision_point.config_options import build_settings
from datalog_gate.decision_point.point import DecisionPoint, create_point
from datalog_gate.decision_point.roles import Entitlements
from datalog_gate.doors.wsgi.filter import Filter
from datalog_gate.doors.wsgi.routes import Environ
from datalog_gate.doors.wsgi.stored import StartResponse
from tests.commands import read_conf

ID = "6a"
TOKEN = {"token": {"user": {"id": "u"}}}
STACK = f"/v1/p/stacks/web/{ID}"


class Context:
    """The context that Heat's filter `context` adds to a request."""

    def __init__(self, token: object = None, project: str = "p") -> None:
        self.auth_token_info, self.project_id = token, project

    def to_policy_values(self) -> dict[str, object]:
        """As RequestContext does."""
        values = {"user_id": "u", "project_id": self.project_id, "roles": ["member"], "user": "u", "tenant": "p"}
        return {**values, "auth_token_info": self.auth_token_info}


class FakeHeat:
    """Answers requests and keeps those that would change something. `stack` is the one stack that it holds; `hidden`
    are its hidden parameters. Before it updates it, `meanwhile` is in it; if it is `legacy` it stores no update yet. It
    answers each request with `answer`, if there is one, and each reading with the exception `reading`."""

    def __init__(self, stack: Mapping[str, Any] | None = None, hidden: Iterable[str] = ()) -> None:
        self.stack: dict[str, Any] = {"tags": None, "snapshots": {}, **(stack or {})}
        self.hidden = set(hidden)
        self.requests: list[tuple[str, str, bytes, str | None]] = []
        self.contexts: list[object] = []
        self.answer: tuple[str, Any] | Exception | None = None
        self.reading: Exception | None = None
        self.meanwhile: dict[str, Any] | None = None
        self.legacy = False

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        body = environ["wsgi.input"].read()
        if method == "GET" and path.startswith(STACK):
            self.contexts.append(environ.get("webob.adhoc_attrs", {}).get("context"))
            return self._read(path.removeprefix(STACK).strip("/"), start_response)
        self.requests.append((method, path, body, environ.get("CONTENT_LENGTH")))
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None and method in ("PUT", "PATCH") and path == STACK:
            self.stack |= self.meanwhile or {}
            if not self.legacy:
                self._update(json.loads(body), method == "PATCH")
        status, data = self.answer or ("201 Created", {"stack": {"id": ID}})
        return _give(start_response, status, data)

    @property
    def bodies(self) -> list[Any]:
        """The bodies of the requests that change something."""
        return [json.loads(body) for _, _, body, _ in self.requests]

    def _read(self, part: str, start_response: StartResponse) -> Iterable[bytes]:
        if self.reading:
            raise self.reading
        if part not in ("", "template", "environment", "files") and part not in self.stack["snapshots"]:
            return _give(start_response, "404 Not Found", {"code": 404})
        if part == "":
            return _give(start_response, "200 OK", {"stack": {"tags": self.stack["tags"]}})
        if part in self.stack["snapshots"]:
            return _give(start_response, "200 OK", {"snapshot": self.stack["snapshots"][part]})
        data = self.stack.get(part, {})
        if part == "environment":
            shown = {name: "******" if name in self.hidden else value for name, value in data["parameters"].items()}
            data = {**data, "parameters": shown}
        return _give(start_response, "200 OK", data)

    def _update(self, body: dict[str, Any], patch: bool) -> None:
        environment: dict[str, Any] = {
            "parameters": {},
            "parameter_defaults": {},
            "resource_registry": {},
            "event_sinks": [],
        }
        merged = {**environment, **body.get("environment", {})}
        if patch or body.get("existing"):
            stored = {**environment, **self.stack["environment"]}
            kept = {k: v for k, v in stored["parameters"].items() if k not in body.get("clear_parameters", ())}
            sections = {name: stored[name] | merged[name] for name in ("parameter_defaults", "resource_registry")}
            merged = {**stored, **sections, "parameters": kept | merged["parameters"]}
            self.stack["files"] |= body.get("files", {})
        else:
            self.stack["files"], self.stack["tags"] = body.get("files", {}), body.get("tags")
        self.stack |= {"template": body.get("template", self.stack["template"]), "environment": merged}


def _give(start_response: StartResponse, status: str, data: object) -> Iterable[bytes]:
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(data).encode()]


def point_of(rules: Path, **options: str) -> DecisionPoint:
    """Create a decision point with these rules and options."""
    conf = read_conf()
    return create_point(conf, {"rules": str(rules), **options})


def point_at(now: datetime, **options: str) -> DecisionPoint:
    """Create a decision point with these options, for which it is always that time. Paths may be relative."""
    conf = read_conf()
    paths = {
        name: str(Path(options[name]).absolute()) for name in ("rules", "decision_log", "waivers") if options.get(name)
    }
    settings = build_settings(conf, options | paths)
    return DecisionPoint(settings, Entitlements(conf, settings.services), clock=lambda: 0.0, now=lambda: now)


class Client:
    """Send requests through a door. A token vouches for each context unless `known` is false."""

    def __init__(self, door: Filter, heat: FakeHeat, known: bool = True) -> None:
        self.door, self.heat = door, heat
        context = {"context": Context(TOKEN)}
        self.base: dict[str, Any] = {"keystone.token_info": TOKEN, "webob.adhoc_attrs": context} if known else {}

    def send(self, body: bytes, **environ: Any) -> tuple[str, dict[str, str], bytes]:
        """Return the status, headers and body. A part of the environ that is None is left out."""
        answers: list[tuple[str, list[tuple[str, str]]]] = []
        whole = {**self.base, "REQUEST_METHOD": "POST", "PATH_INFO": "/v1/p/stacks", "CONTENT_LENGTH": str(len(body)),
                 "wsgi.input": io.BytesIO(body), **environ}  # fmt: skip
        request = {name: value for name, value in whole.items() if value is not None}
        content = b"".join(self.door(request, lambda status, headers, *_: answers.append((status, headers))))
        [(status, headers)] = answers
        return status, dict(headers), content

    def update(self, method: str = "PATCH", path: str = STACK, **body: Any) -> tuple[int, str]:
        """Return the status of an update, and the message of a refusal without its decision and place."""
        return self.ask(method, path, body)

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """As `update`, for any request."""
        text = b"" if body is None else json.dumps(body).encode()
        status, _, content = self.send(text, REQUEST_METHOD=method, PATH_INFO=path)
        return int(status[:3]), re.sub(" at [^ ]+$", "", _message(content))

    def message(self, body: bytes, **environ: Any) -> tuple[int, str]:
        """Return the status and message of a refusal; nothing may have reached Heat."""
        _, _, content = self.send(body, **environ)
        assert self.heat.requests == []
        return int(json.loads(content)["code"]), _message(content)


def _message(content: bytes) -> str:
    message = str(json.loads(content).get("error", {}).get("message", ""))
    begin, separator, rest = message.rpartition(" [decision ")
    assert not message or (separator and len(rest) == 7), message
    return begin
