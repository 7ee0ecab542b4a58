"""A deadline for calls, and a circuit breaker for failing servers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import TypeVar

Result = TypeVar("Result")
PAUSE = 30.0
"""Seconds during which an open breaker permits no calls."""


def within(seconds: float, name: str, call: Callable[[], Result]) -> Result:
    """Return the result of the call. Errors: TimeoutError if it takes longer; then the call continues in its thread,
    which has the name. Socket timeouts restart with each byte, so they don't bound a whole call."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            future.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return future.result(seconds)


class Breaker:
    """Closed until `limit` calls in a row fail. Then it permits nothing for `PAUSE` seconds, and after them one call
    each `PAUSE`, until one succeeds. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float], limit: int = 5) -> None:
        self._clock, self._limit = clock, limit
        self._lock = Lock()
        self._failures = 0
        self._until = 0.0

    def admits(self) -> bool:
        """Whether a call is permitted. The caller reports the result of a permitted call."""
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
