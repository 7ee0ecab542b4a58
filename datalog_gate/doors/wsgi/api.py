"""The requests to heat-api (layer 6): what each asks for, as a `Passage`.

In: a request. Out: its passage, None if it is not judged. Sub-requests are made only when somebody looks.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.operation import REASON
from datalog_gate.decision_point.settings import Settings
from datalog_gate.decision_point.stack_definition import StackDefinition
from datalog_gate.doors.wsgi.body import parsed, put_body, read_body, wrong
from datalog_gate.doors.wsgi.fault import heat_fault
from datalog_gate.doors.wsgi.filter import Passage
from datalog_gate.doors.wsgi.request_definition import Merged, changes, differs, merged, merges, new_definition
from datalog_gate.doors.wsgi.request_definition import stored_definition as definition_of
from datalog_gate.doors.wsgi.routes import Environ, Route, match_route
from datalog_gate.doors.wsgi.stored import Application, Stored, snapshot, stored, tags

LOG = logging.getLogger(__name__)
_ACTIONS = {"suspend": "suspend", "resume": "resume", "check": "check", "cancel_update": "rollback"}
"""What the actions of a stack are to policies. `cancel_without_rollback` only stops, so that nothing new appears."""
_UNCLEAR = "the method is replaced or cut short, so that nobody can tell what is asked for: send it as the method"


def opened(application: Application, environ: Environ, settings: Settings) -> Passage | None:
    """The passage of a request to heat-api."""
    operation = match_route(environ)
    if operation is None:
        return None
    before = dict(environ)  # Heat's router writes into the environ, and a request may be forwarded as another

    def held() -> StackDefinition:
        return definition_of(stored(application, before, operation.path))

    def kept() -> StackDefinition:
        return definition_of(snapshot(application, before, operation.path, operation.snapshot_id), masked=False)

    match operation.kind:
        case "unclear":
            return _passage(operation, "", _nothing, unclear=_UNCLEAR)
        case "delete" | "abandon":
            return _passage(operation, "delete", held, abandons=operation.kind == "abandon")
        case "snapshot":
            return _passage(operation, "snapshot", held)
        case "restore":
            return _passage(operation, "restore", kept, against=held)
    body, whole, wrongly = _body(environ, settings.body_limit)
    if operation.kind == "actions" and wrongly:
        return _passage(
            operation, "", _nothing, unclear="; ".join(diagnostic.message for diagnostic in wrongly.diagnostics)
        )
    if operation.kind == "actions":
        action = _ACTIONS.get(next(iter(body))) if len(body) == 1 else None  # else Heat says what is wrong
        return _passage(operation, action, held) if action else None
    if operation.kind in ("update", "preview_update"):
        update = _Update(application, before, operation, body, settings.body_limit)
        passage = _passage(operation, "update", update.definition, dry_run=operation.kind == "preview_update")
        passage.against = update.older
        if not passage.dry_run:
            passage.forward, passage.after = partial(update.forward, environ), update.compare
    else:
        action, name = "adopt" if "adopt_stack_data" in body else "create", str(body.get("stack_name") or "")
        define = partial(_creation, operation.kind, body)
        passage = _passage(operation, action, define, dry_run=operation.kind != "create", stack_name=name)
        if action == "create" and not passage.dry_run:
            passage.record = lambda reason: put_body(environ, json.dumps(_record(body, reason)).encode())
    if wrongly:
        passage.definition, passage.problem = partial(_raise, wrongly), None if whole else wrongly
    return passage


def _passage(operation: Route, action: str, definition: Callable[[], StackDefinition], **more: Any) -> Passage:
    named = {"stack_name": operation.stack_name, "stack_id": operation.stack_id, "tenant": operation.tenant}
    return Passage("api", action, heat_fault, definition, **{**named, **more})


def _body(environ: Environ, limit: int) -> tuple[dict[str, Any], bool, InputError | None]:
    """The body, whether it was read to its end, and what is wrong with it."""
    try:
        text = read_body(environ, limit)
    except InputError as error:
        return {}, False, error
    try:
        return parsed(text), True, None
    except InputError as error:
        return {}, True, error


def _raise(error: InputError) -> StackDefinition:
    raise error


def _nothing() -> StackDefinition:
    raise wrong("there is no stack to judge")


def _creation(kind: str, body: dict[str, Any]) -> StackDefinition:
    if kind != "validate" and not isinstance(body.get("stack_name"), str):
        raise wrong("stack_name is missing or of a wrong type")
    if kind == "validate" and "adopt_stack_data" in body:
        raise wrong("adopt_stack_data belongs to the creation of a stack")
    return new_definition(body)


def _record(body: dict[str, Any], reason: str) -> dict[str, Any]:
    """The body of a stack that fails with the reason, under the name that was asked for."""
    denial = {"type": "DatalogGate::Denial", "properties": {"reason": reason[:REASON]}}
    kept: dict[str, Any] = {name: body[name] for name in ("stack_name", "timeout_mins", "tags") if name in body}
    template = {"heat_template_version": "2018-08-31", "resources": {"denial": denial}}
    return {**kept, "disable_rollback": True, "template": template}


@dataclass(slots=True)
class _Update:
    """An update, which Heat may merge with what it holds. Then what is forwarded is what was judged: the whole stack.
    Where the whole can't be said (values that Heat masks, or a body larger than Heat takes) Heat merges after all, and
    an update between the reading and the merge shows in a comparison afterwards, as an ERROR in the log.
    """

    application: Application
    environ: Environ
    operation: Route
    body: dict[str, Any]
    limit: int
    merged: Merged | None = None
    held: Stored | None = None
    tags: list[str] = field(default_factory=list)
    open: bool = False

    def definition(self) -> StackDefinition:
        """What the stack would be made of. Errors: InputError, AnsweredError."""
        patch = self.environ["REQUEST_METHOD"] == "PATCH"
        if not merges(self.body, patch):
            if "adopt_stack_data" in self.body:
                raise wrong("adopt_stack_data belongs to the creation of a stack")
            return new_definition(self.body)
        if not patch and self.body.get("template") is None:
            raise wrong("template is missing or of a wrong type")
        self.held = stored(self.application, self.environ, self.operation.path)
        self.merged = merged(self.body, self.held)
        if self.merged.whole and self.body.get("tags") is None and self.operation.kind == "update":
            self.tags = tags(self.application, self.environ, self.operation.path)  # a whole update takes them away
        return self.merged.definition

    def older(self) -> StackDefinition:
        """What the stack is made of until then. Errors: InputError, AnsweredError."""
        return definition_of(self.held or stored(self.application, self.environ, self.operation.path))

    def forward(self, environ: Environ) -> None:
        """Makes the request the whole stack, or all of it but what is masked. What changes nothing stays as it is: it
        builds what another update left, which was judged, and Heat has a rule of access of its own for it."""
        if self.merged is None or not changes(self.body):
            return
        more = {"tags": ",".join(self.tags)} if self.tags else {}
        body = json.dumps({**self.merged.body, **more}, separators=(",", ":")).encode()
        large = len(body) > self.limit
        self.open = large or not self.merged.whole
        if large:
            return
        put_body(environ, body)
        if self.merged.whole:
            environ["REQUEST_METHOD"] = "PUT"  # Heat merges every PATCH

    def compare(self) -> None:
        """Says so if Heat holds another stack than the one that was judged."""
        if not (self.open and self.merged and self.held):
            return
        found = stored(self.application, self.environ, self.operation.path)
        if not differs(self.merged.expected, found):
            return
        if not differs(self.held, found):  # the legacy engine stores an update at its end
            LOG.info("stack %s: the update is not stored yet", self.operation.stack_id)
        else:
            LOG.error("stack %s: another update slipped in: what Heat holds was not judged", self.operation.stack_id)
