"""A deadline for calls that may hang."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


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
