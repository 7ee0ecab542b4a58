"""The filter that forwards or refuses requests to Heat.

Heat gets exactly the request that was judged. An error of the gate never becomes a 500: requests that create or change
a stack are answered with 503, and others are forwarded, with an ERROR in the log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from datalog_gate.base.diagnostics import printable
from datalog_gate.base.errors import InputError
from datalog_gate.base.failures import log_failure
from datalog_gate.base.records import dataclass, replace
from datalog_gate.decision.decision import SHORT
from datalog_gate.decision_point.operation import CLOSED, REASON, Answer, Operation, refuse, truncate_reason
from datalog_gate.decision_point.point import DecisionPoint
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.wsgi.fault import Response
from datalog_gate.doors.wsgi.routes import Environ
from datalog_gate.doors.wsgi.stored import Application, HeatAnswerError, StartResponse, call_application
from datalog_gate.services.consultation import Ending

LOG = logging.getLogger(__name__)
_CODES = {"denied": 403, "unreadable": 400, "undecided": 503}
_OUTCOMES = {"allowed": "allow", "denied": "deny", "unreadable": "unreadable", "undecided": "indeterminate"}
"""The outcome in the header if the policies did not decide."""
_STACK_ID = re.compile(rb"stacks/[^/]+/([0-9a-f-]{36})")
"""The id of a stack in the addresses and ARNs of Heat's answers."""


class UnclearRequestError(Exception):
    """It is not clear how Heat would read a request, so it must not be forwarded in any mode. `fault` builds the
    refusal if it differs from the filter's."""

    def __init__(self, why: str, fault: Callable[[int, str], Response] | None = None) -> None:
        super().__init__(f"The request can't be judged: {why}")
        self.fault = fault


@dataclass(slots=True)
class GatedRequest:
    """A request that is judged."""

    operation: Operation
    """The requested operation, in the project of its path. The filter adds the caller."""
    fault: Callable[[int, str], Response]
    """Builds a refusal of the API from a code and a message."""
    abandons: bool = False
    """Whether Heat keeps the resources of the deleted stack."""
    problem: InputError | None = None
    """Why the request must not be forwarded at all."""
    forward: Callable[[], None] = lambda: None
    """Replaces the request by the judged one, once it is allowed."""
    after: Callable[[], None] = lambda: None
    """Called once Heat has accepted the request."""
    record: Callable[[str], None] | None = None
    """Replaces the request by one for a stack that fails with the reason."""


RequestReader = Callable[[Application, Environ, Settings], GatedRequest | None]
"""Reads a request; None if it is not judged. Errors: UnclearRequestError."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The WSGI application that stands in front of `application`."""

    application: Application
    point: DecisionPoint
    read_request: RequestReader
    fault: Callable[[int, str], Response]
    settings: Settings

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        self.point.metrics.start()
        try:
            request = self.read_request(self.application, environ, self.settings)
        except UnclearRequestError as error:
            return _send(_reject(error.fault or self.fault, refuse("unreadable", str(error))), start_response)
        except Exception as error:  # noqa: BLE001 - the edge of the door: nobody can say what the request is
            self.point.count_failure("filter", "request")
            return _send(self.fault(503, _message(_gate_failure("a request", error))), start_response)
        if request is None:
            return self.application(environ, start_response)
        try:
            response = self._answer(request, environ)
        except HeatAnswerError as heat:
            if isinstance(heat.answer, Exception):
                raise heat.answer from None  # the filter around this one makes Heat's own fault of it
            return _send(heat.answer, start_response)
        return _send(response, start_response)

    def _answer(self, request: GatedRequest, environ: Environ) -> Response:
        """Judge the request; return Heat's answer or a refusal. Errors: HeatAnswerError, and what Heat raises."""
        answer: Answer | None = None
        try:
            answer = self.point.judge(self._operation(request, environ))
            if (refusal := _refusal(request, answer)) is None:
                request.forward()
            elif answer.allowed:
                self._finish(answer, "failed")
        except HeatAnswerError:
            raise
        except UnclearRequestError as error:
            return _reject(request.fault, refuse("unreadable", str(error)))
        except Exception as error:  # noqa: BLE001 - the edge of the door: Heat must neither be open nor answer 500
            if answer and answer.allowed:
                self._finish(answer, "failed")
            self.point.count_failure(request.operation.door, request.operation.action)
            failure, answer = _gate_failure(request.operation.action, error), None
            refusal = failure if request.operation.action in CLOSED else None
        if refusal is None:
            return self._forward(request, environ, answer)
        if refusal.verdict == "denied" and request.record and self.settings.create_denial == "failed_stack":
            return self._record(request, environ, refusal)
        return _reject(request.fault, refusal)

    def _operation(self, request: GatedRequest, environ: Environ) -> Operation:
        return replace(
            request.operation,
            project=getattr(_find_context(environ), "project_id", None) or request.operation.project,
            credentials=_read_credentials(environ, self.settings.allow_unverified_context),
            request_id=str(environ.get("openstack.request_id", "")),
        )

    def _forward(self, request: GatedRequest, environ: Environ, answer: Answer | None) -> Response:
        accepted, stack_id = False, ""
        try:
            response = call_application(self.application, environ)
            accepted = response.accepted
            if accepted and not request.operation.stack_id and (match := _STACK_ID.search(response.body)):
                stack_id = match[1].decode()
        finally:
            if answer:
                self._finish(answer, "accepted" if accepted else "failed", stack_id)
        if accepted:
            try:
                if request.abandons:
                    operation = self._operation(request, environ)
                    self.point.abandon(operation.stack_id, operation.project, operation.stack_name)
                request.after()
            except Exception:  # noqa: BLE001 - Heat accepted the request, and the user gets its answer
                log_failure(LOG, "decision %s: the work after Heat's answer failed", answer.id if answer else "")
        return _with_decision(response, answer) if answer else response

    def _record(self, request: GatedRequest, environ: Environ, answer: Answer) -> Response:
        """Have Heat create a stack that fails with the reason. Refuse the request if Heat does not, for example for an
        existing name."""
        assert request.record
        request.record(_message(answer))
        try:
            response = call_application(self.application, environ)
            if response.accepted:
                LOG.info("decision %s: denied, recorded as a stack", answer.id)
                return _with_decision(response, answer)
            refusal = response.status
        except Exception as error:  # noqa: BLE001 - whatever Heat says about the record, the user asked for a stack
            refusal = printable(str(error))
        LOG.warning("decision %s: Heat does not accept a stack that records the denial: %s", answer.id, refusal)
        return _reject(request.fault, answer)

    def _finish(self, answer: Answer, ending: Ending, stack_id: str = "") -> None:
        try:
            self.point.finish(answer, ending, stack_id)
        except Exception:  # noqa: BLE001 - Heat has answered, and the user gets its answer
            log_failure(LOG, "decision %s: the work after Heat's answer failed", answer.id)


def _read_credentials(environ: Environ, allow_unverified: bool) -> Mapping[str, object] | None:
    """Read the credentials for oslo.policy from Heat's context; None if they are not verified.

    They are verified if keystonemiddleware's authtoken filter read a valid token before the context was created:
    clients cannot write `keystone.token_info`, and an earlier context does not hold the same object. In the `noauth`
    and `custombackend` pipelines the context only repeats the client's headers.
    """
    context, token = _find_context(environ), environ.get("keystone.token_info")
    verified = bool(token) and getattr(context, "auth_token_info", None) is token
    if context is None or not (verified or allow_unverified):
        return None
    values = context.to_policy_values()
    return {name: values[name] for name in values if name not in ("auth_token_info", "user", "tenant")}


def _find_context(environ: Environ) -> Any:
    """Find Heat's RequestContext (heat/common/context.py), which webob keeps in the environ; None if there is none."""
    return environ.get("webob.adhoc_attrs", {}).get("context")


def _refusal(request: GatedRequest, answer: Answer) -> Answer | None:
    """The answer that stops the operation, if any. Rollbacks are never stopped."""
    if request.problem and answer.allowed:
        problems = "; ".join(diagnostic.message for diagnostic in request.problem.diagnostics)
        return refuse("unreadable", f"The request can't be judged: {problems}")
    return None if answer.allowed or request.operation.action == "rollback" else answer


def _gate_failure(action: str, error: Exception) -> Answer:
    answer = refuse("undecided", f"The gate failed ({type(error).__name__}).")
    log_failure(LOG, "decision %s: the gate failed at %s", answer.id, action)
    return answer


def _reject(fault: Callable[[int, str], Response], answer: Answer) -> Response:
    LOG.info("decision %s: %s: %s", answer.id, answer.verdict, answer.reason)
    return _with_decision(fault(_CODES[answer.verdict], _message(answer)), answer)


def _message(answer: Answer) -> str:
    """The reason, with the id of the decision."""
    end = "" if answer.names_decision else f" [decision {answer.id[:SHORT]}]"
    return truncate_reason(answer.reason, REASON - len(end)) + end


def _with_decision(response: Response, answer: Answer) -> Response:
    """Add the gate's header, which proves that a door is active: the outcome, the decision id, and the warnings."""
    outcome = answer.decision.outcome if answer.decision else _OUTCOMES[answer.verdict]
    if not answer.allowed and outcome.startswith("allow"):  # a service or a plugin refused it
        outcome = _OUTCOMES[answer.verdict]
    for warning in answer.warnings:
        LOG.warning("decision %s: %s", answer.id, printable(warning))
    value = "; ".join([f"{outcome} {answer.id}".rstrip(), *answer.warnings])[:REASON]
    header = ("Datalog-Gate", "".join(char if " " <= char <= "~" else "?" for char in value))
    return replace(response, headers=[*response.headers, header])


def _send(response: Response, start_response: StartResponse) -> list[bytes]:
    start_response(response.status, response.headers)
    return [response.body]
