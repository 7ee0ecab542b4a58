"""The gate in front of a WSGI application (layer 6): asks the decision point about each request and does what it says.

In: a request, as a `Passage` that one of Heat's two APIs made of it. Out: Heat's own answer to exactly what was judged,
or a refusal in the shape of that API. Nothing in the gate becomes a 500: what should not happen is a 503 for what
creates or changes a stack, and goes on with an ERROR in the log for the rest.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from datalog_gate.base.diagnostics import printable
from datalog_gate.base.errors import InputError
from datalog_gate.decision.decision import SHORT
from datalog_gate.decision_point.operation import CLOSED, REASON, Answer, Door, Operation
from datalog_gate.decision_point.settings import Settings
from datalog_gate.decision_point.stack_definition import StackDefinition
from datalog_gate.doors.wsgi.context import credentials, project
from datalog_gate.doors.wsgi.fault import Response
from datalog_gate.doors.wsgi.routes import Environ
from datalog_gate.doors.wsgi.stored import AnsweredError, Application, StartResponse, call
from datalog_gate.preflight.plugin import Outcome

LOG = logging.getLogger(__name__)
_CODES = {"denied": 403, "unreadable": 400, "undecided": 503}
_WORDS = {"allowed": "allow", "denied": "deny", "unreadable": "unreadable", "undecided": "indeterminate"}
"""What the header says where there is no decision."""
_STACK = re.compile(rb"stacks/[^/]+/([0-9a-f-]{36})")
"""The id in the address, or in the ARN, by which Heat's answers name a stack."""


class PassageRefusedError(Exception):
    """What a passage's definition raises if the operation must not go on whatever the decision point makes of it."""


class Judge(Protocol):
    """What the filter asks of the decision point."""

    def judge(self, asked: Operation, /) -> Answer:
        """Whether the operation may go on."""

    def finish(self, answer: Answer, outcome: Outcome, stack_id: str, /) -> None:
        """Says what Heat made of the operation, and the id of a stack that the request did not name by it."""

    def abandon(self, stack_id: str, project: str, stack_name: str) -> None:
        """Says that Heat lets a stack go, and its resources stay."""


@dataclass(slots=True)
class Passage:
    """A request that is judged. `fault` makes a refusal of its API of a code and a message. `forward` makes what was
    judged the request, once it may go on; `after` is called once Heat accepted it, `record` makes it one for a stack
    that fails with the reason; `against` gives what a stack that is changed was made of. With a `problem` it must not
    go on at all; `unclear` says that nobody can tell what Heat would take it for."""

    door: Door
    action: str
    fault: Callable[[int, str], Response]
    definition: Callable[[], StackDefinition]
    tenant: str = ""
    stack_name: str = ""
    stack_id: str = ""
    dry_run: bool = False
    abandons: bool = False
    problem: InputError | None = None
    unclear: str = ""
    forward: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None
    record: Callable[[str], None] | None = None
    against: Callable[[], StackDefinition] | None = None


Opened = Callable[[Application, Environ, Settings], Passage | None]
"""Makes a passage of a request; None if it is not judged."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The WSGI application around `application`."""

    application: Application
    point: Judge
    opened: Opened
    fault: Callable[[int, str], Response]
    settings: Settings

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        try:
            passage = self.opened(self.application, environ, self.settings)
        except Exception as error:  # noqa: BLE001 - the edge of the door: what the request is, nobody can say any more
            return _give(self.fault(503, _message(_broken("a request", error))), start_response)
        if passage is None:
            return self.application(environ, start_response)
        try:
            response = self._answer(passage, environ)
        except AnsweredError as heat:
            if isinstance(heat.answer, Exception):
                raise heat.answer from None  # the filter around this one makes Heat's own fault of it
            return _give(heat.answer, start_response)
        return _give(response, start_response)

    def _answer(self, passage: Passage, environ: Environ) -> Response:
        """Heat's answer, or the refusal. Errors: AnsweredError, and what Heat raises."""
        answer: Answer | None = None
        try:
            if passage.unclear:
                return _refuse(passage, _unclear(passage.unclear))
            answer = self.point.judge(self._asked(passage, environ))
            if (stopped := _stopped(passage, answer)) is None:
                passage.forward()
            elif answer.allowed:
                self._finish(answer, "failed")
        except AnsweredError:
            raise
        except PassageRefusedError as error:
            return _refuse(passage, _unclear(str(error)))
        except Exception as error:  # noqa: BLE001 - the edge of the door: Heat must neither be open nor answer 500
            if answer and answer.allowed:
                self._finish(answer, "failed")
            broken, answer = _broken(passage.action, error), None
            stopped = broken if passage.action in CLOSED else None
        if stopped is None:
            return self._forwarded(passage, environ, answer)
        if stopped.verdict == "denied" and passage.record and self.settings.create_denial == "failed_stack":
            return self._recorded(passage, environ, stopped)
        return _refuse(passage, stopped)

    def _asked(self, passage: Passage, environ: Environ) -> Operation:
        return Operation(
            passage.door,
            passage.action,
            passage.stack_name,
            project(environ, passage.tenant),
            passage.definition,
            credentials(environ, self.settings.allow_unverified_context),
            passage.stack_id,
            str(environ.get("openstack.request_id", "")),
            passage.dry_run,
            passage.against,
        )

    def _forwarded(self, passage: Passage, environ: Environ, answer: Answer | None) -> Response:
        accepted, stack_id = False, ""
        try:
            response = call(self.application, environ)
            accepted = response.accepted
            if accepted and not passage.stack_id and (found := _STACK.search(response.body)):
                stack_id = found[1].decode()
        finally:
            if answer:
                self._finish(answer, "accepted" if accepted else "failed", stack_id)
        if accepted:
            try:
                if passage.abandons:
                    self.point.abandon(passage.stack_id, project(environ, passage.tenant), passage.stack_name)
                passage.after()
            except Exception:  # Heat took the request, and its answer is the user's
                LOG.exception("decision %s: what follows Heat's answer failed", answer.id if answer else "")
        return _with_decision(response, answer) if answer else response

    def _recorded(self, passage: Passage, environ: Environ, answer: Answer) -> Response:
        """Heat's answer to a stack that only says why it is none; where Heat takes no such stack, the refusal."""
        assert passage.record
        passage.record(_message(answer))
        try:
            response = call(self.application, environ)
        except Exception as error:  # noqa: BLE001 - whatever Heat says against the record, the user asked for a stack
            LOG.error("decision %s: Heat takes no stack that records a denial: %s", answer.id, error)
            return _refuse(passage, answer)
        if not response.accepted:
            LOG.error("decision %s: Heat takes no stack that records a denial: %s", answer.id, response.status)
            return _refuse(passage, answer)
        LOG.info("decision %s: denied, recorded as a stack", answer.id)
        return _with_decision(response, answer)

    def _finish(self, answer: Answer, outcome: Outcome, stack_id: str = "") -> None:
        try:
            self.point.finish(answer, outcome, stack_id)
        except Exception:  # Heat has answered, and the user gets its answer
            LOG.exception("decision %s: what follows Heat's answer failed", answer.id)


def _stopped(passage: Passage, answer: Answer) -> Answer | None:
    """The answer if it stops the operation. Nothing stops a rollback."""
    if passage.problem and answer.allowed:
        return _unclear("; ".join(diagnostic.message for diagnostic in passage.problem.diagnostics))
    return None if answer.allowed or passage.action == "rollback" else answer


def _unclear(why: str) -> Answer:
    return Answer("unreadable", secrets.token_hex(8), f"The request can't be judged: {printable(why)}")


def _broken(what: str, error: Exception) -> Answer:
    answer = Answer("undecided", secrets.token_hex(8), f"The gate failed ({type(error).__name__}).")
    LOG.exception("decision %s: the gate failed at %s", answer.id, what)
    return answer


def _refuse(passage: Passage, answer: Answer) -> Response:
    LOG.info("decision %s: %s: %s", answer.id, answer.verdict, answer.reason)
    return _with_decision(passage.fault(_CODES[answer.verdict], _message(answer)), answer)


def _message(answer: Answer) -> str:
    """Why not, with the decision's id."""
    short = answer.id[:SHORT]
    end = "" if f"[decision {short}" in answer.reason else f" [decision {short}]"
    room, said = REASON - len(end), answer.reason
    return (said if len(said) <= room else said[: room - 3] + "...") + end


def _with_decision(response: Response, answer: Answer) -> Response:
    """The response with a header that says what the gate made of the request, so that a door that is live can be told
    from none: the decision's outcome or the verdict, its id, and the warnings."""
    outcome = answer.decision.outcome if answer.decision else _WORDS[answer.verdict]
    for warning in answer.warnings:
        LOG.warning("decision %s: %s", answer.id, printable(warning))
    value = "; ".join([f"{outcome} {answer.id}".rstrip(), *answer.warnings])[:REASON]
    header = ("Datalog-Gate", "".join(char if " " <= char <= "~" else "?" for char in value))
    return Response(response.status, [*response.headers, header], response.body)


def _give(response: Response, start_response: StartResponse) -> list[bytes]:
    start_response(response.status, response.headers)
    return [response.body]
