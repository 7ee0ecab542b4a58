"""Run jobs in turns in one process and tabulate their medians."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping

from bench import gate
from datalog_gate.base.gc import paused

Answer = Mapping[str, Collection[tuple[object, ...]]]
Jobs = dict[str, Callable[[], Answer] | None]
"""The jobs to compare, ours first. A missing one is None."""
OURS = "datalog_gate"
TURN = 0.05
"""The seconds of a turn."""


def measure(title: str, rounds: int, jobs: Jobs) -> Iterator[str]:
    """The median times of jobs that take turns. Errors: SystemExit if an answer differs from ours."""
    runnable = {name: job for name, job in jobs.items() if job}
    answers = {name: _digest(job()) for name, job in runnable.items()}
    if len(set(answers.values())) > 1:
        raise SystemExit(f"{title}: the answers differ: {answers}")
    times: dict[str, list[float]] = {name: [] for name in runnable}
    for _ in range(rounds):
        for name, job in runnable.items():
            times[name].extend(_turn(job))
    ours = statistics.median(times[OURS])
    yield f"| {title} | ms | ours / its |\n|---|---|---|"
    for name in jobs:
        if name in times:
            median = statistics.median(times[name])
            yield f"| {name} | {median * 1000:.{0 if median > 0.1 else 2}f} | {ours / median:.2f} |"
        else:
            yield f"| {name} | missing | |"
    yield ""


def _turn(job: Callable[[], object]) -> Iterator[float]:
    """The times of all runs that start within a turn, so that a short job is as warm as a long one.

    Each is the lesser of the elapsed time, to which other processes add, and the CPU time, to which threads add. The
    garbage collector is paused.
    """
    gc.collect()
    ends = time.perf_counter() + TURN
    with paused():
        while (began := time.perf_counter()) < ends:
            worked = time.process_time()
            answer = job()
            yield min(time.perf_counter() - began, time.process_time() - worked)
            del answer


def _digest(answer: Answer) -> str:
    return gate.digest((name, *row) for name, rows in answer.items() for row in rows)
