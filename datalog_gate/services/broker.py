"""The broker between grants and services.

It writes each step to the journal before it calls a service, and each call has a deadline. Claims that are not
certainly reserved are released, and released again when no late call can arrive.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from datalog_gate.base.failures import log_failure
from datalog_gate.plugins import plugin_errors
from datalog_gate.plugins.breaker import Guard, NotAskedError
from datalog_gate.plugins.plugin_errors import PluginError, RefusedError, UnavailableError
from datalog_gate.services.contract import HOLDING, Decision, Outcome, Request, Service
from datalog_gate.services.journal_claim import Claim, LostError, State

if TYPE_CHECKING:  # SQLAlchemy takes a while, and many enable no service
    from datalog_gate.services.journal import Journal

LOG = logging.getLogger(__name__)
Result = TypeVar("Result")
ANSWER_LIMIT = 64 * 1000
"""The maximum length of a decision as JSON: Heat's MySQL column holds no longer text."""
PAUSE = 3600.0
"""The maximum seconds between two attempts at a release. They begin with 2, 4, 8."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds of one call, of all calls of a step, and of a lease. The latter is the longest, since a step without its
    lease has no effect."""

    call: float = 10.0
    step: float = 25.0
    lease: float = 120.0

    def __post_init__(self) -> None:
        if not 0 < self.call <= self.step < self.lease:
            raise ValueError(
                "service_call_seconds must not exceed service_step_seconds, which must be less than "
                "service_lease_seconds"
            )


class Broker:
    """The enabled services with their journal. `clock` gives seconds since 1970, `ticks` monotonic seconds."""

    def __init__(
        self,
        journal: Journal,
        services: Mapping[str, Service],
        clock: Callable[[], float],
        ticks: Callable[[], float],
        limits: Limits = Limits(),
    ) -> None:
        self.journal, self.clock, self.ticks, self.limits = journal, clock, ticks, limits
        self.services = services
        self.guards = {name: Guard(name, ticks) for name in services}
        """The guards of the calls to each service."""
        self.sticky = frozenset(name for name, service in services.items() if service.sticky)

    def consults(self, action: str) -> bool:
        """Whether a service for every stack is consulted before an operation."""
        return any(service.for_every_stack and action in service.actions for service in self.services.values())

    def facts(self, request: Request, end: float) -> None:
        """Ask the service whether it could reserve a request, until the ticks reach `end`. Nothing is held, so nothing
        is recorded. Errors: RefusedError, UnavailableError."""
        _Calls(self, request.service, end)(lambda service: service.facts(request))

    def reserve(self, request: Request, replaces: str = "", expires: float | None = None) -> Decision:
        """Have the service decide on a request, once for each uuid however often this is called. `replaces` is the uuid
        of the grant's resource that this one replaces. Errors: PluginError: then the service holds nothing, or it will
        be released; JournalError."""
        self.service(request.service)
        try:
            claim = self.journal.begin(request, replaces, expires, self.clock(), self.limits.lease)
        except LostError as error:
            raise UnavailableError(str(error), request.service) from error
        if claim.live:
            return claim.decision
        keys = tuple(old.key for old in self.journal.replaced(claim) if old.service == claim.service)
        calls = _Calls(self, claim.service)
        try:
            decision = self._reserve(calls, replace(request, replaces=keys), claim)
        except PluginError as error:
            late = self._late(claim, calls)
            self._record_move(claim, "releasing" if late else "failed", error.reason, late=late)
            raise
        self._record_move(claim, "reserved", decision=decision, late=self._late(claim, calls))
        return decision

    def waits(self, request: Request) -> str:
        """Why the grant has to wait and call this again; empty if `reserve` can decide now. Nothing is held or
        recorded. Errors: PluginError."""
        return plugin_errors.printable_line(_Calls(self, request.service)(lambda service: service.waits(request)))

    def commit(self, uuid: str, outcome: Outcome | Literal[""] = "") -> None:
        """Commit the claim of a complete stack, and release the claim that it replaces, or end that of an operation
        with this outcome. Does nothing for a committed claim. Errors: PluginError: then this must be called again;
        JournalError."""
        claim = self.journal.lease(uuid, self.clock(), self.limits.lease, outcome)
        if claim is None:
            raise UnavailableError("there is nothing to commit, or it is being processed")
        if claim.state == "reserved":
            try:
                _Calls(self, claim.service)(lambda service: service.commit(claim))
            except PluginError as error:
                self.journal.postpone(claim, self.clock(), error.reason)
                raise
            self._record_move(claim, "committed" if claim.path else "ended")
            return
        self.journal.postpone(claim, claim.due)
        if claim.state != "committed":
            raise UnavailableError("what this grant asked for was released", claim.service)

    def compare(self, uuid: str, members: Mapping[str, str], due: float) -> str:
        """Have the service compare the places of a complete stack's members with its decision. The result is recorded
        as the claim's problem, until it is `due` again. Errors: PluginError, JournalError."""
        claim = self.journal.lease(uuid, self.clock(), self.limits.lease)
        if claim is None:
            return ""
        problem = claim.problem
        try:
            texts = _Calls(self, claim.service)(lambda service: service.misplaced(claim, members))
            problem = "; ".join(map(plugin_errors.printable_line, texts))
        finally:
            with suppress(LostError):
                self.journal.postpone(claim, due, problem)
        return problem

    def note(self, uuid: str, problem: str) -> None:
        """Record a problem of a claim. Errors: JournalError."""
        claim = self.journal.lease(uuid, self.clock(), self.limits.lease)
        if claim is not None:
            self.journal.postpone(claim, claim.due, problem)

    def release(self, uuid: str, why: str = "it was deleted", state: State | None = None) -> bool:
        """Release a grant's claim if it is still in this `state`; return whether that is done. Otherwise it is tried
        again when due: a service that does not answer must not prevent the deletion of a stack. Errors:
        JournalError."""
        if self.journal.give_back(uuid, self.clock(), why, state) is None:
            return True
        claim = self.journal.lease(uuid, self.clock(), self.limits.lease)
        try:
            return claim is not None and self._try_release(claim)
        except LostError:  # somebody else continues with it
            return False

    def _reserve(self, calls: _Calls, request: Request, claim: Claim) -> Decision:
        """Call the service, and call it once more if it holds the claim but its answer was lost."""
        try:
            return calls(lambda service: _check_decision(service.reserve(request)))
        except UnavailableError:
            with suppress(PluginError):
                if calls(lambda service: service.status(claim)) in HOLDING:
                    return calls(lambda service: _check_decision(service.reserve(request)))
            raise

    def _try_release(self, claim: Claim) -> bool:
        calls = _Calls(self, claim.service)
        try:
            calls(lambda service: service.release(claim))
            if calls(lambda service: service.status(claim)) in HOLDING:
                raise UnavailableError("it still holds what it was told to release", claim.service)
        except PluginError as error:
            due = self.clock() + min(2.0 ** (min(claim.attempts, 30) + 1), PAUSE)
            LOG.warning("%s of stack %s is not released: %s", claim.path, claim.stack, error)
            self.journal.postpone(claim, due, error.reason)
            return False
        if self.clock() < claim.late:
            self.journal.postpone(claim, claim.late)
            return False
        self.journal.move(claim, "released", self.clock(), claim.why)
        return True

    def _late(self, claim: Claim, calls: _Calls) -> float:
        """The time until which an unanswered call, now or before a crash, may take effect; 0 without one."""
        return self.clock() + self.journal.late if claim.attempts or calls.doubtful else 0.0

    def _record_move(self, claim: Claim, state: State, why: str = "", **changes: object) -> None:
        """Record the result of a call. Errors: UnavailableError if the claim was released meanwhile."""
        try:
            self.journal.move(claim, state, self.clock(), why, **changes)
        except LostError as error:
            with suppress(LostError):
                self.journal.postpone(claim, claim.due)
            raise UnavailableError(str(error), claim.service) from error

    def service(self, name: str) -> Service:
        """An enabled service. Errors: UnavailableError."""
        if name not in self.services:
            raise UnavailableError("this service is not enabled", name)
        return self.services[name]


class _Calls:
    """The calls of one step for one claim, within its time. `doubtful` says that a call was not answered, so that its
    effect is unknown."""

    def __init__(self, broker: Broker, name: str, end: float | None = None) -> None:
        self._broker, self._name = broker, name
        self._end = broker.ticks() + broker.limits.step if end is None else end
        self.doubtful = False

    def __call__(self, call: Callable[[Service], Result]) -> Result:
        service = self._broker.service(self._name)
        seconds = min(self._broker.limits.call, self._end - self._broker.ticks())
        if seconds <= 0:
            raise UnavailableError("has used up its time", self._name)
        try:
            return self._broker.guards[self._name](seconds, lambda: call(service))
        except NotAskedError as error:
            raise UnavailableError(error.reason, self._name) from error
        except RefusedError as error:
            raise RefusedError(plugin_errors.format_reason(error), self._name) from error
        except Exception as error:
            self.doubtful = True
            if not isinstance(error, UnavailableError):
                log_failure(LOG, "the service %s is broken", self._name)
            raise UnavailableError(plugin_errors.format_reason(error), self._name) from error


def _check_decision(decision: object) -> Decision:
    """A copy of a decision as plain data. Errors: UnavailableError for data that Heat can't store."""
    try:
        text = json.dumps(decision, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise UnavailableError("its decision is not JSON data") from None
    if len(text) > ANSWER_LIMIT:
        raise UnavailableError(f"its decision takes more than {ANSWER_LIMIT} characters")
    copy = json.loads(text)
    if not isinstance(copy, dict) or not all(isinstance(attributes, dict) for attributes in copy.values()):
        raise UnavailableError("its decision holds no attributes by resource")
    return copy
