"""A run, which judges the changes of a feed in batches.

Each batch is one transaction. A run that ends early, because it was killed, the disk was full or the feed failed,
leaves whole batches. The next run judges the rest, since a definition is judged again until the store has its result.
Stacks missing in a feed count as gone only after a run that saw all of it.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import wait
from threading import Thread
from types import TracebackType
from typing import TypeVar

from datalog_gate.base.errors import EngineError, InputError
from datalog_gate.base.records import dataclass, field
from datalog_gate.scan.batch import BatchResult, ScanRequest, join, judge_batch, storable
from datalog_gate.scan.cloud_judgement import judge_cloud
from datalog_gate.scan.feed import Feed, Gone, Item, StackEntry, Unchanged, Unread
from datalog_gate.scan.scan_store import ScanStore

BATCH = 500
"""The number of definitions per transaction."""
CHUNK = 25
"""The number of definitions that a process takes at once."""
Judged = TypeVar("Judged")
Result = TypeVar("Result")


@dataclass(slots=True)
class RunReport:
    """The result of a run."""

    judged: int = 0
    unchanged: int = 0
    gone: int = 0
    unread: dict[str, str] = field(default_factory=dict)
    """Why stacks could not be read or judged, by root."""


class Judges:
    """The processes that judge; a single one is this process. They are forked, so no thread may exist yet. Errors:
    EngineError if one of them is killed."""

    def __init__(self, request: ScanRequest, processes: int) -> None:
        self._request = request
        self._pool: ProcessPoolExecutor | None = None
        if processes > 1:
            context = multiprocessing.get_context("fork")
            self._pool = ProcessPoolExecutor(processes, context, _start, (request,))
            self._pool.submit(os.getpid).result()  # forks all of them now

    def start(
        self, judge: Callable[[Sequence[Judged], ScanRequest], Result], stacks: Sequence[Judged]
    ) -> Callable[[], list[Result]]:
        """Start judging stacks. Return a function that waits for the results of their parts, in order."""
        if self._pool is None:
            return lambda: [judge(stacks, self._request)]
        parts = [stacks[at : at + CHUNK] for at in range(0, len(stacks), CHUNK)]
        futures = [self._pool.submit(_judge, judge, part) for part in parts]
        return lambda: self._wait(futures)

    def _wait(self, futures: Sequence[Future[Result]]) -> list[Result]:
        try:
            return [future.result() for future in futures]
        except BrokenProcessPool:
            raise EngineError("a judging process was killed: give it more memory, or use fewer processes") from None

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, *_: TracebackType | type[BaseException] | BaseException | None) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)


def run(
    feed: Feed,
    name: str,
    store: ScanStore,
    judges: Judges,
    request: ScanRequest,
    walk: Callable[[Feed], Iterator[Item]] = iter,
) -> RunReport:
    """Judge the changes of a feed since the last run; everything if rules, inventory or waivers changed. `walk` yields
    the items of the feed. Errors: InputError if another run is writing to the store; those of the feed and of the
    store, after which another run can continue."""
    if not store.database.lock():
        raise InputError.of(
            "another run is writing to the store", suggestion="wait until it ends, or use another store for this one"
        )
    report = RunReport()
    now, identity = request.now.isoformat(), request.identity
    known = store.known(name)
    seen: set[str] = set()
    gone: set[str] = set()
    listed: dict[str, str | None] = {}
    waiting: Callable[[], list[BatchResult]] | None = None

    def changed() -> Iterator[StackEntry | Unchanged]:
        """The stacks to judge. What the feed says about others is collected for the end."""
        for item in walk(feed):
            before = known.get(item.root)
            if storable(item.root) != item.root:
                report.unread[storable(item.root)] = "its name is not a string that can be stored"
                continue
            if isinstance(item, Gone):
                gone.add(item.root)
                seen.discard(item.root)
                continue
            gone.discard(item.root)
            seen.add(item.root)
            if isinstance(item, Unread):
                report.unread[item.root] = item.reason
            elif not before or before.judged_by != identity or _digest(item) not in (None, before.digest):
                yield item
            else:
                report.unchanged += 1
                if isinstance(item, StackEntry) and item.listing != before.listing:
                    listed[item.root] = item.listing

    def write(parts: Sequence[BatchResult]) -> None:
        batch = join(parts)
        store.write(batch, name, identity, now)
        report.judged += sum(not result.unread for result in batch.results)
        report.unread |= {result.entry.root: result.unread for result in batch.results if result.unread}

    entries = changed()
    while batch := list(islice(entries, BATCH)):
        stored = store.entries(item.root for item in batch if isinstance(item, Unchanged))
        started = judges.start(judge_batch, [*(item for item in batch if isinstance(item, StackEntry)), *stored])
        if waiting:
            write(waiting())
        waiting = started
    if waiting:
        write(waiting())
    gone |= known.keys() - seen if feed.whole else set()
    store.finish(seen - report.unread.keys(), gone, listed, now)
    report.gone = len(gone & known.keys())
    store.write_cloud(judge_cloud(store, request), now)
    return report


def _digest(item: StackEntry | Unchanged) -> str | None:
    return item.digest if isinstance(item, StackEntry) else None


_REQUEST: list[ScanRequest] = []
"""The request of a worker process."""


def _start(request: ScanRequest) -> None:
    """Start a worker process, which ends with its parent, even if that is killed."""
    _REQUEST[:] = [request]
    gc.freeze()  # existing objects are never garbage: the collector can skip them
    parent = multiprocessing.parent_process()
    assert parent

    def end_with_parent() -> None:
        wait([parent.sentinel])
        os._exit(1)

    Thread(target=end_with_parent, daemon=True).start()


def _judge(judge: Callable[[Sequence[Judged], ScanRequest], Result], stacks: Sequence[Judged]) -> Result:
    return judge(stacks, _REQUEST[0])
