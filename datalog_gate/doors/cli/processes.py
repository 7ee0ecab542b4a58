"""Work on many items in several processes."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from datalog_gate.base.errors import EngineError

CHUNK = 8
"""The number of items that a process takes at a time."""
Item = TypeVar("Item")
Answer = TypeVar("Answer")
_work: Callable[[Any], object]


def map_in_processes(work: Callable[[Item], Answer], items: Sequence[Item], jobs: int) -> Iterator[Answer]:
    """Yield the answer for each item, in order. With several processes, items and answers are pickled.

    The first item is processed here, so that the worker processes, which are forked, share what it loads and compiles.
    Errors: EngineError if a process ends.
    """
    yield from map(work, items[:1])
    rest = items[1:]
    if jobs == 1 or len(rest) < 2:
        yield from map(work, rest)
        return
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    gc.collect()
    gc.freeze()  # in a fork, the collector would copy the pages that it visits
    pool = ProcessPoolExecutor(min(jobs, len(rest)), get_context("fork"), partial(_start, work))
    try:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a fork hook would lose Ctrl-C
        try:
            answers: Iterator[Any] = pool.map(_do, rest, chunksize=CHUNK)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield from answers
    except BrokenProcessPool:
        raise EngineError("a process was killed, probably because memory ran out: use fewer --jobs") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        gc.unfreeze()


def _start(work: Callable[[Any], object]) -> None:
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends the others
    _work = work


def _do(item: object) -> object:
    return _work(item)
