"""A call that may hang (layer 5): in, the call and its seconds; out, what it gives, or that it took too long."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

Answer = TypeVar("Answer")


def within(seconds: float, name: str, call: Callable[[], Answer]) -> Answer:
    """What the call gives, if it does so in time: else TimeoutError, and it is left to itself in its thread, which has
    the name. Timeouts of sockets begin anew with each byte, so they bound nothing in all."""
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            future.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return future.result(seconds)
