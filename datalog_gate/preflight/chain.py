"""All plugins around one operation (layer 5): in, a `Snapshot`, and later what became of the operation; out, that it
may begin, or why not."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from datalog_gate.preflight.order import in_order
from datalog_gate.preflight.plugin import Outcome, Plugin, PreflightError, RefusedError, UnavailableError
from datalog_gate.preflight.snapshot import Snapshot

LOG = logging.getLogger(__name__)
REASON = 1000
"""Characters of a plugin's reason at most."""


class Chain:
    """The plugins that are enabled, in their order. Errors: ChainError."""

    def __init__(self, plugins: Mapping[str, Plugin]) -> None:
        self.plugins = {name: plugins[name] for name in in_order(plugins)}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = Lock()

    def before(self, snapshot: Snapshot) -> Ran:
        """Every pre-operation in order, up to the first that raises: then the post-operations of those before it are
        called backwards, as `failed`. Errors: RefusedError, or UnavailableError for whatever else was raised."""
        passed: dict[str, Plugin] = {}
        for name, plugin in self.plugins.items():
            try:
                plugin.pre(snapshot)
            except BaseException as error:
                problems = Ran(self, snapshot, passed).after("failed")
                if not isinstance(error, Exception):  # the thread is told to end, and whoever reserved must know
                    raise
                raise self._failed(name, error, problems) from error
            self.count(name, "passed")
            passed[name] = plugin
        return Ran(self, snapshot, passed)

    def counts(self) -> dict[tuple[str, str], int]:
        """How often each plugin passed, refused, was unavailable or failed in its post-operation, by name and word."""
        with self._lock:
            return dict(self._counts)

    def count(self, name: str, word: str) -> None:
        """Count one of what `counts` tells."""
        with self._lock:
            self._counts[name, word] += 1

    def _failed(self, name: str, error: Exception, problems: tuple[str, ...]) -> PreflightError:
        if isinstance(error, RefusedError):
            self.count(name, "refused")
            return RefusedError(printable(error.reason), name, problems)
        self.count(name, "unavailable")
        if isinstance(error, UnavailableError):
            return UnavailableError(printable(error.reason), name, problems)
        LOG.error("the pre-operation of %s is broken", name, exc_info=error)
        return UnavailableError(f"its pre-operation is broken ({type(error).__name__})", name, problems)


@dataclass(frozen=True, slots=True)
class Ran:
    """The plugins that let an operation pass."""

    chain: Chain
    snapshot: Snapshot
    plugins: Mapping[str, Plugin]

    def after(self, outcome: Outcome) -> tuple[str, ...]:
        """Every post-operation: backwards where the operation failed, so that what was built on something goes before
        it, else in the order of the pre-operations, as Heat does (heat/common/lifecycle_plugin_utils.py:82). Gives a
        line for each that raised; the others are called all the same."""
        problems = []
        for name in reversed(list(self.plugins)) if outcome == "failed" else self.plugins:
            try:
                self.plugins[name].post(self.snapshot, outcome)
            except Exception as error:
                said = error.reason if isinstance(error, PreflightError) else f"it is broken ({type(error).__name__})"
                problems.append(f"{name} was not told that the operation is {outcome}: {printable(said)}")
                self.chain.count(name, "post-failed")
                LOG.error("decision %s: %s", self.snapshot.decision_id, problems[-1], exc_info=error)
        return tuple(problems)


def printable(text: object) -> str:
    """One printable line that fits in an answer."""
    line = " ".join(str(text).split())[:REASON]
    return "".join(char if char.isprintable() else "?" for char in line)
