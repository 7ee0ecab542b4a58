"""A deadline for calls, and a circuit breaker for servers that fail."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import TypeVar

Result = TypeVar("Result")
PAUSE = 30.0
"""Seconds."""


def within(seconds: float, name: str, call: Callable[[], Result]) -> Result:
    """Return what the call returns. Errors: TimeoutError if it takes longer; the call then goes on in its thread, which
    has the name. Timeouts of sockets start again with each byte, so they don't bound a whole call."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            future.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return future.result(seconds)


class Breaker:
    """Closed until `limit` calls in a row fail. Then it admits nothing for `PAUSE` seconds, and after them one call
    each `PAUSE`, until one succeeds. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float], limit: int = 5) -> None:
        self._clock, self._limit = clock, limit
        self._lock = Lock()
        self._failures = 0
        self._until = 0.0

    def admits(self) -> bool:
        """Whether a call may be made. The caller reports how an admitted call ended."""
        with self._lock:
            if self._failures < self._limit:
                return True
            now = self._clock()
            if now < self._until:
                return False
            self._until = now + PAUSE
            return True

    def succeeded(self) -> None:
        """Report that a call was answered."""
        with self._lock:
            self._failures = 0

    def failed(self) -> None:
        """Report that a call was not answered."""
        with self._lock:
            self._failures += 1
            self._until = self._clock() + PAUSE
