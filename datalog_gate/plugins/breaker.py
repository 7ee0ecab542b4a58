"""A circuit breaker: a failing server is left alone for a while."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class Breaker:
    """Closed until `limit` calls in a row fail. Then it admits nothing for `pause` seconds, and after them one call
    each `pause`, until one succeeds. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float], limit: int = 5, pause: float = 30.0) -> None:
        self._clock, self._limit, self._pause = clock, limit, pause
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
            self._until = now + self._pause
            return True

    def succeeded(self) -> None:
        """Report that a call was answered."""
        with self._lock:
            self._failures = 0

    def failed(self) -> None:
        """Report that a call was not answered."""
        with self._lock:
            self._failures += 1
            self._until = self._clock() + self._pause
