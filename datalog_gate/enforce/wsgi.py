"""The API filter (layer 6): judges the creation of stacks in front of Heat's API, over plain WSGI.

In: a request. Out: Heat's own answer to exactly the bytes that were judged, or a refusal in Heat's fault shape. Only
``POST .../stacks`` is judged so far; every other request passes. What a creation holds that can't be judged is refused.
"""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from datalog_gate.analysis.check import matches
from datalog_gate.api import Rules, load_rules
from datalog_gate.collection import paused
from datalog_gate.diagnostics import Diagnostic, Span
from datalog_gate.errors import EngineError, InputError, RulesError
from datalog_gate.gate.decision import Decision
from datalog_gate.gate.reason import printable, reason
from datalog_gate.sources import default_rules, read_stack

LOG = logging.getLogger(__name__)
Environ = MutableMapping[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

BODY_LIMIT = 1024 * 1024
"""Heat's own `max_json_body_size`, in bytes."""
REASON_LIMIT = 2000
"""Characters of a reason in an answer, and of the warnings in its header."""
CREATE = re.compile(r"(?:.*/)?stacks[/\s]*\Z", re.DOTALL)
"""The path of a creation, ``/v1/<project>/stacks``, and whatever else Heat's router takes for it: any text that begins
with v1 is a version, a line break may follow, and none of Heat's other paths to post to ends so."""
NOT_JUDGED = ("adopt_stack_data", "template_url", "files_container", "environment_files")
"""Fields whose stack lies elsewhere than in the body (heat/api/openstack/v1/stacks.py:74-140): refused for now."""
TITLES = {400: "Bad Request", 403: "Forbidden", 503: "Service Unavailable"}
TYPES = {400: "HTTPBadRequest", 403: "Forbidden", 503: "ServiceUnavailable"}


class RefusalError(Exception):
    """An answer instead of Heat's: an HTTP status and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True, slots=True)
class Gate:
    """The WSGI application around `application`. `services` are enabled for everybody."""

    application: Application
    rules: Rules
    services: frozenset[str] = frozenset()
    body_limit: int = BODY_LIMIT

    def __post_init__(self) -> None:
        _check_answerable(self.rules)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if not _creates(environ):
            return self.application(environ, start_response)
        try:
            body = _body(environ, self.body_limit)
            decision = _judge(self.rules, self.services, body)
        except RefusalError as refusal:
            return _refuse(refusal, start_response)
        LOG.info("decision %s: %s", decision.id, decision.outcome)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        return self.application(environ, _with_decision(start_response, decision))


def filter_factory(_global: Mapping[str, str], rules: str = "", services: str = "") -> Callable[[Application], Gate]:
    """The paste filter. `rules` is a path (default: those that the command line takes), `services` a comma-separated
    list. Errors: RulesError, which keeps the pipeline from starting: a gate without rules must not look like one."""
    loaded = load_rules(rules or default_rules())
    enabled = frozenset(name.strip() for name in services.split(",") if name.strip())
    return lambda application: Gate(application, loaded, enabled)


def _check_answerable(rules: Rules) -> None:
    """This door does not know the caller yet: rules that ask for one would be judged as if nobody asked."""
    found = [
        Diagnostic("unsupported", f"{match.relation} is not known at this door yet", match.span)
        for stratum in rules.program.strata
        for rule in stratum.rules
        for match in matches(rule.body)
        if match.relation in ("gate:caller", "gate:role")
    ]
    if found:
        raise RulesError(found, rules.sources)


def _creates(environ: Environ) -> bool:
    """Whether Heat may take the request for a creation. Its router lets ``_method`` in a query replace the method."""
    posted = environ["REQUEST_METHOD"] == "POST" or "_method" in environ.get("QUERY_STRING", "")
    return posted and CREATE.match(environ.get("PATH_INFO", "")) is not None


@paused()
def _judge(rules: Rules, services: frozenset[str], body: bytes) -> Decision:
    """The decision on a creation that may go on. Errors: RefusalError."""
    try:
        stack = read_stack(**_stack_arguments(_parsed(body)))
        decision = rules.decide(stack, action="create", services=services)
    except InputError as error:
        raise RefusalError(400, _shown(error)) from None
    except EngineError as error:
        LOG.error("no decision: %s", error)
        raise RefusalError(503, f"The policies could not be evaluated: {error}") from None
    findings = [one for one in decision.undetermined if one.enforced and one.on_unknown != "allow"]
    if unread := [unknown for one in findings for unknown in one.because if unknown.unread]:
        raise RefusalError(400, f"The policies can't judge what depends on {unread[0].expression} yet.")
    if decision.outcome == "deny":
        LOG.info("decision %s: deny", decision.id)
        raise RefusalError(403, f"The policies deny this stack: {reason(decision, REASON_LIMIT)}")
    if decision.outcome == "indeterminate":
        LOG.error("decision %s: indeterminate", decision.id)
        raise RefusalError(503, f"The policies could not be evaluated: {reason(decision, REASON_LIMIT)}")
    return decision


def _body(environ: Environ, limit: int) -> bytes:
    """The whole body. A missing length is that of a chunked body, which the server ends."""
    length = environ.get("CONTENT_LENGTH") or ""
    if length and not re.fullmatch("[0-9]{1,15}", length):
        raise RefusalError(400, "The Content-Length is no number.")
    if not length and not environ.get("wsgi.input_terminated"):
        raise RefusalError(400, "The request has no Content-Length.")
    wanted = min(int(length), limit + 1) if length else limit + 1
    body = b""
    while len(body) < wanted:
        part = environ["wsgi.input"].read(wanted - len(body))
        if not part:
            break
        body += part
    if len(body) > limit:
        raise RefusalError(400, f"The body is larger than the {limit} bytes that can be judged.")
    if length and len(body) != int(length):
        raise RefusalError(400, "The body is shorter than its Content-Length.")
    return body


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body.decode(), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise RefusalError(400, f"The body is not JSON that can be judged: {error}") from None
    if not isinstance(data, dict):
        raise RefusalError(400, "The body is no JSON object.")
    return data


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key is there twice")
    return data


def _stack_arguments(data: dict[str, Any]) -> dict[str, Any]:
    """The stack that Heat would read from the body, as arguments of `read_stack`. Errors: RefusalError."""
    for name in NOT_JUDGED:
        if name in data and not (name == "environment_files" and not data[name]):
            raise RefusalError(400, f"The policies can't judge a stack given by {name} yet: send it in the body.")
    shapes: dict[str, tuple[type, ...]] = {
        "stack_name": (str,),
        "template": (dict, str),
        "environment": (dict, str, type(None)),
        "parameters": (dict, type(None)),
        "files": (dict, type(None)),
    }
    for name, types in shapes.items():
        if not isinstance(data.get(name), types):
            raise RefusalError(400, f"{name} is missing or of a wrong type.")
    files = data.get("files") or {}
    if not all(isinstance(text, str) for text in files.values()):
        raise RefusalError(400, "files holds something that is no text.")
    return {
        "template": data["template"],
        "environment": data.get("environment"),
        "parameters": data.get("parameters"),
        "files": files,
        "stack_name": data["stack_name"],
    }


def _shown(error: InputError) -> str:
    def line(one: Diagnostic) -> str:
        at: Span | None = one.span
        return (f"{at}: " if at else "") + one.message + (f" ({one.suggestion})" if one.suggestion else "")

    return f"The stack can't be read: {'; '.join(map(line, error.diagnostics))}"[:REASON_LIMIT]


def _refuse(refusal: RefusalError, start_response: StartResponse) -> list[bytes]:
    """The refusal in the shape of Heat's faults (heat/api/middleware/fault.py), which every client prints."""
    fault = {
        "code": refusal.status,
        "title": TITLES[refusal.status],
        "explanation": refusal.message,
        "error": {"type": TYPES[refusal.status], "message": refusal.message, "traceback": None},
    }
    body = json.dumps(fault).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response(f"{refusal.status} {TITLES[refusal.status]}", headers)
    return [body]


def _with_decision(start_response: StartResponse, decision: Decision) -> StartResponse:
    """A start_response that adds the decision and its warnings to Heat's headers."""
    said = [f"{one.policy}: {one.message}" for one in decision.violations if one.level != "record"]
    said += [f"{one.policy}: undetermined: {one.message}" for one in decision.undetermined]
    for one in said:
        LOG.warning("decision %s: %s", decision.id, printable(one))
    value = "; ".join([f"{decision.outcome} {decision.id}", *said])[:REASON_LIMIT]
    header = ("Datalog-Gate", "".join(char if " " <= char <= "~" else "?" for char in value))

    def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
        return start_response(status, [*headers, header], *rest)

    return start
