"""A guard of calls to plugins: a deadline and a circuit breaker."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import TypeVar

from datalog_gate.plugins.plugin_errors import RefusedError, UnavailableError

Result = TypeVar("Result")
FAILURES = 5
"""The number of failed calls in a row after which a plugin is left alone."""
PAUSE = 30.0
"""Seconds for which it is."""


def within(seconds: float, name: str, call: Callable[[], Result]) -> Result:
    """Return the result of the call. Errors: UnavailableError if it takes longer; then the call continues in its
    thread, which has the name. Socket timeouts restart with each byte, so they don't bound a whole call."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
            return
        if future.set_running_or_notify_cancel():
            future.set_result(result)

    Thread(target=run, name=name, daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.cancel():
            raise UnavailableError(f"did not answer within {seconds:g} seconds") from None
        return future.result()  # it ended just now, or the call itself raised the error


class NotAskedError(UnavailableError):
    """A plugin is not called, since its last calls failed."""


class Guard:
    """The calls to one plugin: after `FAILURES` in a row it makes none for `PAUSE` seconds, and then one each `PAUSE`,
    until one succeeds. `ticks` returns monotonic seconds."""

    def __init__(self, name: str, ticks: Callable[[], float]) -> None:
        self._name, self._ticks = name, ticks
        self._lock = Lock()
        self._failures = 0
        self._until = 0.0

    def __call__(self, seconds: float, call: Callable[[], Result]) -> Result:
        """Return the result of a call, as `within`. Errors: NotAskedError, UnavailableError, those of the call."""
        if not self._admits():
            raise NotAskedError("has not answered for a while, and is not asked for now", self._name)
        try:
            result = within(seconds, self._name, call)
        except RefusedError:
            self._count(failed=False)
            raise
        except Exception:
            self._count(failed=True)
            raise
        if result != "unknown":  # a service that can't tell its status has not answered
            self._count(failed=False)
        return result

    def _admits(self) -> bool:
        with self._lock:
            if self._failures < FAILURES:
                return True
            now = self._ticks()
            if now < self._until:
                return False
            self._until = now + PAUSE
            return True

    def _count(self, failed: bool) -> None:
        with self._lock:
            self._failures = self._failures + 1 if failed else 0
            self._until = self._ticks() + PAUSE
