"""What stands between grants and services (layer 5): in, what a grant's resource asks; out, the service's decision.

Each step is journalled before its call, and each call has a deadline. Nothing that a service says about a call that was
not answered is believed so far as to forget what it may hold: whatever is not surely reserved is released, and released
again once nothing can arrive late.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from datalog_gate.plugins.breaker import Breaker
from datalog_gate.plugins.deadline import within
from datalog_gate.plugins.errors import PluginError, RefusedError, UnavailableError, format_reason, printable_line
from datalog_gate.services.contract import HOLDING, Decision, Request, Service
from datalog_gate.services.journal import Claim, Journal, LostError, State

LOG = logging.getLogger(__name__)
Answer = TypeVar("Answer")
ANSWER_LIMIT = 64 * 1000
"""Characters of a decision, as JSON, at most: MySQL keeps no longer text for Heat."""
PAUSE = 3600.0
"""Seconds between two attempts at a release at most: they are 2, 4, 8, ... at first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: of one call; of all calls for one step; and of the lease, which must be the longest, since who has lost
    it has asked in vain."""

    call: float = 10.0
    step: float = 25.0
    lease: float = 120.0

    def __post_init__(self) -> None:
        if not 0 < self.call <= self.step < self.lease:
            raise ValueError("a call must take no longer than a step, and a step less than the lease")


class Broker:
    """The services that are enabled, with their journal. `clock` tells the seconds since 1970, `ticks` some that only
    grow."""

    def __init__(
        self,
        journal: Journal,
        services: Mapping[str, Service],
        clock: Callable[[], float],
        ticks: Callable[[], float],
        limits: Limits = Limits(),
    ) -> None:
        self.journal, self.clock, self.ticks, self.limits = journal, clock, ticks, limits
        self._services = {name: (service, Breaker(ticks)) for name, service in services.items()}
        self.sticky = frozenset(name for name, service in services.items() if service.sticky)

    def facts(self, request: Request, end: float) -> None:
        """Ask the service whether it could do what a grant asks, until `end` of the ticks. Nothing is written down: it
        holds nothing. Errors: RefusedError, UnavailableError."""
        _Calls(self, request.service, end)(lambda service: service.facts(request))

    def reserve(self, request: Request, replaces: str = "", expires: float | None = None) -> Decision:
        """What the service decides for a grant, once for each uuid however often it is asked. `replaces` is the uuid of
        the grant's resource that this one is to replace. Errors: PluginError with a reason, and then the service holds
        nothing or will be made to; JournalError."""
        self.service(request.service)
        try:
            claim = self.journal.begin(request, replaces, expires, self.clock(), self.limits.lease)
        except LostError as error:
            raise UnavailableError(str(error), request.service) from error
        if claim.live:
            return claim.decision
        keys = tuple(one.key for one in self.journal.replaced(claim) if one.service == claim.service)
        calls = _Calls(self, claim.service)
        try:
            decision = self._reserve(calls, replace(request, replaces=keys), claim)
        except PluginError as error:
            late = self._late(claim, calls)
            self._moved(claim, "releasing" if late else "failed", error.reason, late=late)
            raise
        self._moved(claim, "reserved", decision=decision, late=self._late(claim, calls))
        return decision

    def waits(self, request: Request) -> str:
        """Why a grant is to be asked for later, and this once more before; empty if it can be reserved or refused now.
        Nothing is held or written down. Errors: PluginError."""
        return printable_line(_Calls(self, request.service)(lambda service: service.waits(request)))

    def commit(self, uuid: str) -> None:
        """The stack is complete, with this grant in it: what the grant replaces is given back. Nothing to do if that is
        known. Errors: PluginError, and then this is to be called again; JournalError."""
        claim = self.journal.lease(uuid, self.clock(), self.limits.lease)
        if claim is None:
            raise UnavailableError("nothing is held for this grant, or it is at work")
        if claim.state == "reserved":
            try:
                _Calls(self, claim.service)(lambda service: service.commit(claim.held))
            except PluginError as error:
                self.journal.again(claim, self.clock(), error.reason)
                raise
            self._moved(claim, "committed")
            return
        self.journal.again(claim, claim.due)
        if claim.state != "committed":
            raise UnavailableError("what this grant asked for was given back", claim.service)

    def release(self, uuid: str, why: str = "it was deleted", state: State | None = None) -> bool:
        """Give back what a grant holds, if it is in this `state` still: whether there is nothing more to do. If there
        is, it is tried again when it is due; a service that does not answer keeps nobody from deleting a stack.
        Errors: JournalError."""
        if self.journal.give_back(uuid, self.clock(), why, state) is None:
            return True
        claim = self.journal.lease(uuid, self.clock(), self.limits.lease)
        try:
            return claim is not None and self._released(claim)
        except LostError:  # somebody else goes on with it
            return False

    def _reserve(self, calls: _Calls, request: Request, claim: Claim) -> Decision:
        """Ask, and where the answer got lost on its way ask for it again."""
        try:
            return calls(lambda service: _checked(service.reserve(request)))
        except UnavailableError:
            with suppress(PluginError):
                if calls(lambda service: service.status(claim.held)) in HOLDING:
                    return calls(lambda service: _checked(service.reserve(request)))
            raise

    def _released(self, claim: Claim) -> bool:
        calls = _Calls(self, claim.service)
        try:
            calls(lambda service: service.release(claim.held))
            if calls(lambda service: service.status(claim.held)) in HOLDING:
                raise UnavailableError("it says that it still holds what it was told to release", claim.service)
        except PluginError as error:
            due = self.clock() + min(2.0 ** (min(claim.attempts, 30) + 1), PAUSE)
            LOG.warning("%s of stack %s is not released: %s", claim.path, claim.stack, error)
            self.journal.again(claim, due, error.reason)
            return False
        if self.clock() < claim.late:
            self.journal.again(claim, claim.late)
            return False
        self.journal.move(claim, "released", self.clock(), claim.why)
        return True

    def _late(self, claim: Claim, calls: _Calls) -> float:
        """Until when a call that was not answered, now or before a crash, may take effect; 0 if there was none."""
        return self.clock() + self.journal.late if claim.attempts or calls.doubtful else 0.0

    def _moved(self, claim: Claim, state: State, why: str = "", **changes: object) -> None:
        """Write down what became of a call. Errors: UnavailableError if the claim was given back meanwhile."""
        try:
            self.journal.move(claim, state, self.clock(), why, **changes)
        except LostError as error:
            with suppress(LostError):
                self.journal.again(claim, claim.due)
            raise UnavailableError(str(error), claim.service) from error

    def service(self, name: str) -> tuple[Service, Breaker]:
        """The service, and what keeps it from being asked in vain. Errors: UnavailableError."""
        if name not in self._services:
            raise UnavailableError("this service is not enabled", name)
        return self._services[name]


class _Calls:
    """The calls of one step for one claim, within its time. `doubtful` is whether any got no answer that counts, so
    that nobody knows what it did."""

    def __init__(self, broker: Broker, name: str, end: float | None = None) -> None:
        self._broker, self._name = broker, name
        self._end = broker.ticks() + broker.limits.step if end is None else end
        self.doubtful = False

    def __call__(self, call: Callable[[Service], Answer]) -> Answer:
        """What the service answers. Errors: PluginError."""
        service, breaker = self._broker.service(self._name)
        seconds = min(self._broker.limits.call, self._end - self._broker.ticks())
        if seconds <= 0:
            raise UnavailableError("has used up its time", self._name)
        if not breaker.admits():
            raise UnavailableError("has not answered for a while and is not asked now", self._name)
        try:
            answer = within(seconds, self._name, lambda: call(service))
        except RefusedError as error:
            breaker.succeeded()
            raise RefusedError(format_reason(error), self._name) from error
        except Exception as error:
            self.doubtful = True
            breaker.failed()
            match error:
                case TimeoutError():
                    why = f"did not answer within {seconds:g} seconds"
                case UnavailableError():
                    why = format_reason(error)
                case _:
                    LOG.exception("the service %s is broken", self._name)
                    why = f"is broken ({type(error).__name__})"
            raise UnavailableError(why, self._name) from error
        breaker.succeeded()
        return answer


def _checked(decision: object) -> Decision:
    """The decision as plain data of its own. Errors: UnavailableError for what can't be kept."""
    try:
        text = json.dumps(decision, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise UnavailableError("its decision is no JSON data") from None
    if len(text) > ANSWER_LIMIT:
        raise UnavailableError(f"its decision takes more than {ANSWER_LIMIT} characters")
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise UnavailableError("its decision holds no attributes by resource")
    return found
