"""A reader of requests to heat-api."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.operation import REASON, Operation
from datalog_gate.decision_point.settings import Settings
from datalog_gate.decision_point.stack_definition import StackDefinition
from datalog_gate.doors.wsgi import request_definition
from datalog_gate.doors.wsgi.body import input_error, parse_object, put_body, read_body
from datalog_gate.doors.wsgi.fault import heat_fault
from datalog_gate.doors.wsgi.filter import GatedRequest
from datalog_gate.doors.wsgi.request_definition import MergedUpdate, new_definition, stored_definition
from datalog_gate.doors.wsgi.routes import Environ, Route, match_route
from datalog_gate.doors.wsgi.stored import Application, StoredStack, read_snapshot, read_stored_stack, read_tags

LOG = logging.getLogger(__name__)
_ACTIONS = {"suspend": "suspend", "resume": "resume", "check": "check", "cancel_update": "rollback"}
"""The actions of policies for actions of Heat. `cancel_without_rollback` builds nothing, so it is not judged."""
_UNCLEAR = "the method is replaced or cut short, so that nobody can tell what is asked for: send it as the method"


def read_request(application: Application, environ: Environ, settings: Settings) -> GatedRequest | None:
    """Read a request to heat-api; None if it is not judged."""
    route = match_route(environ)
    if route is None:
        return None
    original = dict(environ)  # Heat's router writes into the environ, and a request may be forwarded as another

    def read_stored() -> StackDefinition:
        return stored_definition(read_stored_stack(application, original, route.path))

    def read_stored_snapshot() -> StackDefinition:
        return stored_definition(read_snapshot(application, original, route.path, route.snapshot_id), masked=False)

    match route.kind:
        case "unclear":
            return _gated(route, "", _no_definition, unclear=_UNCLEAR)
        case "delete" | "abandon":
            return _gated(route, "delete", read_stored, abandons=route.kind == "abandon")
        case "snapshot":
            return _gated(route, "snapshot", read_stored)
        case "restore":
            return _gated(route, "restore", read_stored_snapshot, against=read_stored)
    body, complete, error = _read_object(environ, settings.body_limit)
    if route.kind == "actions":
        if error:
            message = "; ".join(diagnostic.message for diagnostic in error.diagnostics)
            return _gated(route, "", _no_definition, unclear=message)
        action = _ACTIONS.get(next(iter(body))) if len(body) == 1 else None  # else Heat rejects the request
        return _gated(route, action, read_stored) if action else None
    if route.kind in ("update", "preview_update"):
        update = _Update(application, original, route, body, settings.body_limit)
        definition = partial(_raise, error) if error else update.read_definition
        dry_run = route.kind == "preview_update"
        request = _gated(route, "update", definition, dry_run=dry_run, against=update.read_old_definition)
        if not dry_run:
            request.forward, request.after = partial(update.forward, environ), update.compare
    else:
        action, name = "adopt" if "adopt_stack_data" in body else "create", str(body.get("stack_name") or "")
        definition = partial(_raise, error) if error else partial(_new_definition, route.kind, body)
        request = _gated(route, action, definition, dry_run=route.kind != "create", stack_name=name)
        if action == "create" and route.kind == "create":
            request.record = lambda reason: put_body(environ, json.dumps(_denial_body(body, reason)).encode())
    request.problem = None if complete else error
    return request


def _gated(
    route: Route,
    action: str,
    definition: Callable[[], StackDefinition],
    abandons: bool = False,
    unclear: str = "",
    **fields: Any,
) -> GatedRequest:
    names = {"stack_name": route.stack_name, "stack_id": route.stack_id, **fields}
    operation = Operation("api", action, project=route.tenant, definition=definition, credentials=None, **names)
    return GatedRequest(operation, heat_fault, abandons=abandons, unclear=unclear)


def _read_object(environ: Environ, limit: int) -> tuple[dict[str, Any], bool, InputError | None]:
    """Read the JSON object in the body, whether the body was read to its end, and what is wrong with it."""
    try:
        text = read_body(environ, limit)
    except InputError as error:
        return {}, False, error
    try:
        return parse_object(text), True, None
    except InputError as error:
        return {}, True, error


def _raise(error: InputError) -> StackDefinition:
    raise error


def _no_definition() -> StackDefinition:
    raise input_error("there is no stack to judge")


def _new_definition(kind: str, body: dict[str, Any]) -> StackDefinition:
    if kind != "validate" and not isinstance(body.get("stack_name"), str):
        raise input_error("stack_name is missing or of a wrong type")
    if kind == "validate" and "adopt_stack_data" in body:
        raise input_error("adopt_stack_data belongs to the creation of a stack")
    return new_definition(body)


def _denial_body(body: dict[str, Any], reason: str) -> dict[str, Any]:
    """The body for a stack of the same name that fails with the reason."""
    denial = {"type": "DatalogGate::Denial", "properties": {"reason": reason[:REASON]}}
    kept: dict[str, Any] = {name: body[name] for name in ("stack_name", "timeout_mins", "tags") if name in body}
    template = {"heat_template_version": "2018-08-31", "resources": {"denial": denial}}
    return {**kept, "disable_rollback": True, "template": template}


@dataclass(slots=True)
class _Update:
    """An update, which Heat may merge with the stored stack.

    The gate judges and forwards the merged stack as a whole. Where it cannot be sent (it has values that Heat masks, or
    the body is too large), Heat merges it; then another update in between shows in a comparison afterwards, as an ERROR
    in the log.
    """

    application: Application
    environ: Environ
    route: Route
    body: dict[str, Any]
    limit: int
    """Maximum bytes of a body."""
    merged: MergedUpdate | None = None
    stored: StoredStack | None = None
    tags: Sequence[str] = ()
    heat_merges: bool = False

    def read_definition(self) -> StackDefinition:
        """Read what the stack would be made of. Errors: InputError, HeatAnswerError."""
        patch = self.environ["REQUEST_METHOD"] == "PATCH"
        if "adopt_stack_data" in self.body:
            raise input_error("adopt_stack_data belongs to the creation of a stack")
        if not patch and not self.body.get("existing"):
            return new_definition(self.body)
        if not patch and self.body.get("template") is None:
            raise input_error("template is missing or of a wrong type")
        self.stored = read_stored_stack(self.application, self.environ, self.route.path)
        self.merged = request_definition.merge_update(self.body, self.stored)
        if self.merged.whole and self.body.get("tags") is None and self.route.kind == "update":
            self.tags = read_tags(self.application, self.environ, self.route.path)  # a whole update would remove them
        return self.merged.definition

    def read_old_definition(self) -> StackDefinition:
        """Read what the stack is made of before the update. Errors: InputError, HeatAnswerError."""
        return stored_definition(self.stored or read_stored_stack(self.application, self.environ, self.route.path))

    def forward(self, environ: Environ) -> None:
        """Replace the request by the whole stack, without masked values.

        An update that changes nothing stays as it is: it builds what another update left, which was judged, and Heat
        has an access rule of its own for it.
        """
        if self.merged is None or not request_definition.has_changes(self.body):
            return
        more = {"tags": ",".join(self.tags)} if self.tags else {}
        body = json.dumps({**self.merged.body, **more}, separators=(",", ":")).encode()
        too_large = len(body) > self.limit
        self.heat_merges = too_large or not self.merged.whole
        if too_large:
            return
        put_body(environ, body)
        if self.merged.whole:
            environ["REQUEST_METHOD"] = "PUT"  # Heat merges every PATCH

    def compare(self) -> None:
        """Log an ERROR if Heat has stored another stack than the one that was judged."""
        if not (self.heat_merges and self.merged and self.stored):
            return
        stored = read_stored_stack(self.application, self.environ, self.route.path)
        if not request_definition.differs(self.merged.expected, stored):
            return
        if not request_definition.differs(self.stored, stored):  # the legacy engine stores an update at its end
            LOG.info("stack %s: the update is not stored yet", self.route.stack_id)
        else:
            LOG.error("stack %s: another update slipped in: what Heat holds was not judged", self.route.stack_id)
