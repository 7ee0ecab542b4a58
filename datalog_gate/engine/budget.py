"""Budgets of evaluations, and the watch that enforces them."""

from __future__ import annotations

from collections.abc import Callable, Sized
from operator import attrgetter
from time import monotonic
from typing import Literal, NoReturn

from datalog_gate.analysis.program import CheckedRule
from datalog_gate.base.errors import BudgetError
from datalog_gate.base.records import dataclass, field

BETWEEN_CHECKS = 10_000
"""The number of rows read between two checks: a few milliseconds of work."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of an evaluation. None means no limit."""

    facts: int | None = None
    seconds: float | None = None
    """The maximum duration, by the `clock`."""
    clock: Callable[[], float] = monotonic
    looks: int | None = None
    """The maximum number of rows that a search for assignments reads."""


UNLIMITED = Budget()
BUDGET = Budget(facts=1_000_000, seconds=5.0)
"""The budget of each group of policies, of all relations that depend only on an inventory, and of a query."""


@dataclass(slots=True)
class Share:
    """The part of a budget that a rule has used."""

    rule: CheckedRule
    facts: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Watch:
    """Counts what each rule uses, one at a time, and raises a `BudgetError` that names the one that used most."""

    budget: Budget = UNLIMITED
    began: float = field(init=False)
    facts: int = 0
    looks: int = 0
    _runs: list[tuple[CheckedRule, int, float]] = field(default_factory=list)
    """Each run of a rule, with the number of added facts and its end time."""
    _rule: CheckedRule | None = None
    _known: Sized = ()
    _before: int = 0
    left: int = BETWEEN_CHECKS
    """The number of rows that may be read before the next check."""

    def __post_init__(self) -> None:
        self.began = self.budget.clock()

    def start(self, rule: CheckedRule, known: Sized) -> None:
        """Start a rule, which adds its rows to `known`."""
        self._rule = rule
        self._known = known
        self._before = len(known)

    def stop(self) -> None:
        """Stop the rule. Errors: BudgetError."""
        if self._rule:
            self._account(self._rule)
        self.check()

    def check(self) -> int:
        """Check all limits. Return the number of rows that may be read before the next check. Errors: BudgetError."""
        budget = self.budget
        if budget.seconds is not None and budget.clock() - self.began > budget.seconds:
            self._exceed(f"out of time after {budget.seconds:g} s", "seconds")
        if budget.facts is not None and self.facts + len(self._known) - self._before > budget.facts:
            self._exceed(f"more than {budget.facts:,} facts", "facts")
        if budget.looks is not None and self.looks > budget.looks:
            self._exceed(f"more than {budget.looks:,} rows looked at", "seconds")
        return BETWEEN_CHECKS

    def count_rows(self, rows: int) -> None:
        self.looks += rows
        self.left -= rows
        if self.left < 0:
            self.left = self.check()

    def _account(self, rule: CheckedRule) -> None:
        derived = len(self._known) - self._before
        self.facts += derived
        self._runs.append((rule, derived, self.budget.clock()))
        self._rule, self._known, self._before = None, (), 0

    def _exceed(self, message: str, measure: Literal["facts", "seconds"]) -> NoReturn:
        if self._rule:
            self._account(self._rule)
        shares: dict[int, Share] = {}
        since = self.began
        for rule, derived, end in self._runs:
            used = shares.setdefault(id(rule), Share(rule))
            used.facts += derived
            used.seconds += end - since
            since = end
        share = max(shares.values(), key=attrgetter(measure), default=None)
        if share is None:
            raise BudgetError(message)
        usage = f"took {share.seconds:.1f} s" if measure == "seconds" else f"made {share.facts:,} of {self.facts:,}"
        raise BudgetError(f"{message}: the rule of {share.rule.relation} at {share.rule.span} {usage}", share.rule.span)
