"""The service `approval` (layer 5): what is in the scope of a grant is made only once a person has approved it.

A grant that nobody has answered fails with ``awaiting approval A-12``: once A-12 is approved, an update of the stack
goes on. What was approved is what is made: another scope, or other options, are to be approved anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from datalog_gate.plugins.errors import RefusedError, UnavailableError
from datalog_gate.services.approvals import ApprovalError, Approvals, Asked
from datalog_gate.services.contract import Decision, Held, Request, Service, Status

Answer = TypeVar("Answer")
MODES = ("stop", "wait")
DEFAULTS = {"file": "", "ask": "", "mode": "stop", "days": "7", "wait_seconds": "3600", "wait_number": "8"}


@dataclass(frozen=True, slots=True)
class _Settings:
    ask: str
    mode: str
    valid: float
    wait_seconds: float
    wait_number: int


class Approval(Service):
    """Its settings: `file`, where requests stand; `ask`, whom users are told to ask; `mode`, what a grant does that has
    no option `mode`; `days`, for which a request and the answer to it count; `wait_seconds` and `wait_number`, how long
    a grant of the mode `wait` waits, and how many may at once. A grant's options: `mode`, and `reason`, for who is to
    approve it."""

    def __init__(self, settings: Mapping[str, str], clock: Callable[[], float] = time.time) -> None:
        if unknown := sorted(settings.keys() - DEFAULTS.keys()):
            raise ValueError(f"approval has no setting {', '.join(unknown)}")
        given = {**DEFAULTS, **settings}
        if not given["file"]:
            raise ValueError("approval needs the setting file, where requests stand")
        if given["mode"] not in MODES:
            raise ValueError(f"approval.mode is {given['mode']}, and not one of {', '.join(MODES)}")
        seconds = {name: _positive(name, given[name]) for name in ("days", "wait_seconds", "wait_number")}
        self._settings = _Settings(
            given["ask"], given["mode"], seconds["days"] * 86400, seconds["wait_seconds"], int(seconds["wait_number"])
        )
        self._file, self._clock = Approvals(given["file"]), clock

    def facts(self, request: Request) -> None:
        """Refuses what was refused; what is to be approved yet can be asked for only by trying."""
        self._mode(request)
        asked = self._done(lambda: self._file.find(request, self._clock()))
        if asked and asked.state == "refused":
            raise RefusedError(_said(asked))

    def waits(self, request: Request) -> str:
        if self._mode(request) != "wait":
            return ""
        now, chosen = self._clock(), self._settings
        asked = self._done(lambda: self._file.ask(request, now, chosen.valid))
        if asked.state == "awaiting" and self._done(
            lambda: self._file.wait(asked, request.uuid, now, chosen.wait_seconds, chosen.wait_number)
        ):
            return self._awaiting(asked)
        return ""

    def reserve(self, request: Request) -> Decision:
        self._mode(request)
        held, asked = self._done(lambda: self._file.use(request, self._clock(), self._settings.valid))
        if asked is None:
            raise RefusedError("this was given back before")
        if held:
            told = {"approval": asked.name, "approved_by": asked.said[-1].who}
            return {part.id.rpartition("/")[2]: told for part in request.scope}
        raise RefusedError(_said(asked) if asked.state == "refused" else self._awaiting(asked))

    def release(self, held: Held) -> None:
        self._done(lambda: self._file.release(held.key))

    def status(self, held: Held) -> Status:
        return "held" if self._done(lambda: self._file.holds(held.key)) else "absent"

    def _mode(self, request: Request) -> str:
        """Whether the grant stops or waits. Errors: RefusedError for wrong options."""
        if unknown := sorted(map(str, request.options.keys() - {"mode", "reason"})):
            raise RefusedError(f"there is no option {', '.join(unknown)}, only mode and reason")
        mode = request.options.get("mode", self._settings.mode)
        if mode not in MODES:
            raise RefusedError("mode is stop or wait")
        return str(mode)

    def _awaiting(self, asked: Asked) -> str:
        return f"awaiting approval {asked.name}" + (f" of {self._settings.ask}" if self._settings.ask else "")

    def _done(self, step: Callable[[], Answer]) -> Answer:
        try:
            return step()
        except ApprovalError as error:
            raise UnavailableError(str(error)) from error


def _said(asked: Asked) -> str:
    return f"{asked.name} was {asked.answer}"


def _positive(name: str, text: str) -> float:
    """A number above zero. Errors: ValueError."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError(f"approval.{name} is {text}, and no number above zero")
    return number
