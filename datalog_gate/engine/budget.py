"""Budgets of evaluations, and the watch that enforces them.

No clock is read, so that the load of a host decides nothing.
"""

from __future__ import annotations

from collections.abc import Sized
from operator import attrgetter
from typing import Literal, NoReturn

from datalog_gate.analysis.program import CheckedRule
from datalog_gate.base.errors import BudgetError
from datalog_gate.base.records import dataclass, field

STEPS_PER_SECOND = 10_000_000
"""The steps that count as a second: a step is a row that a compiled rule reads."""
PER_LOOK = 100
"""The steps of a row that a search for assignments reads."""
BETWEEN_CHECKS = 10_000
"""The number of steps between two checks: a millisecond of work."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of an evaluation. None means no limit."""

    facts: int | None = None
    seconds: float | None = None
    """The maximum work, in units of `STEPS_PER_SECOND`. An engine in a process of its own has as many real seconds."""
    looks: int | None = None
    """The maximum number of rows that a search for assignments reads."""

    @property
    def steps(self) -> float:
        """The maximum number of steps."""
        return float("inf") if self.seconds is None else self.seconds * STEPS_PER_SECOND


UNLIMITED = Budget()
BUDGET = Budget(facts=1_000_000, seconds=5.0)
"""The budget of each group of policies, of all relations that depend only on an inventory, and of a query."""


@dataclass(slots=True)
class Share:
    """The part of a budget that a rule has used."""

    rule: CheckedRule
    facts: int = 0
    steps: int = 0


@dataclass(slots=True)
class Watch:
    """Counts what each rule uses, one at a time, and raises a `BudgetError` that names the one that used most."""

    budget: Budget = UNLIMITED
    left: int = BETWEEN_CHECKS
    """The number of steps before the next check."""
    facts: int = 0
    steps: int = 0
    looks: int = 0
    _shares: dict[int, Share] = field(default_factory=dict)
    """By the id of its rule."""
    _rule: CheckedRule | None = None
    _known: Sized = ()
    _before: tuple[int, int] = (0, 0)
    """The rows in `_known`, and the steps, when the rule started."""
    _given: int = field(init=False)
    """The number of steps that were given with the last check."""

    def __post_init__(self) -> None:
        self._given = self.left

    def start(self, rule: CheckedRule, known: Sized) -> None:
        """Start a rule, which adds its rows to `known`."""
        self._rule = rule
        self._known = known
        self._before = len(known), self.steps

    def stop(self, left: int) -> None:
        """Stop the rule, with so many steps left. Errors: BudgetError."""
        self._count(left)
        if self._rule:
            self._account(self._rule)
        self.left = self.check(self.left)

    def check(self, left: int) -> int:
        """Check all limits, with so many steps left. Return the number before the next check. Errors: BudgetError."""
        self._count(left)
        budget = self.budget
        if self.steps > budget.steps:
            self._exceed(f"more than {budget.steps:,.0f} steps", "steps")
        if budget.facts is not None and self.facts + len(self._known) - self._before[0] > budget.facts:
            self._exceed(f"more than {budget.facts:,} facts", "facts")
        if budget.looks is not None and self.looks > budget.looks:
            self._exceed(f"more than {budget.looks:,} rows looked at", "steps")
        return self.left

    def count_rows(self, rows: int) -> None:
        """Count the rows that a search reads. Errors: BudgetError."""
        self.looks += rows
        self.count(rows * PER_LOOK)

    def count(self, steps: int) -> None:
        """Count steps. Errors: BudgetError."""
        self.left -= steps
        if self.left < 0:
            self.check(self.left)

    def _count(self, left: int) -> None:
        self.steps += self._given - left
        self.left = self._given = BETWEEN_CHECKS

    def _account(self, rule: CheckedRule) -> None:
        rows, steps = self._before
        share = self._shares.setdefault(id(rule), Share(rule))
        derived = len(self._known) - rows
        self.facts += derived
        share.facts += derived
        share.steps += self.steps - steps
        self._rule, self._known, self._before = None, (), (0, self.steps)

    def _exceed(self, message: str, measure: Literal["facts", "steps"]) -> NoReturn:
        if self._rule:
            self._account(self._rule)
        share = max(self._shares.values(), key=attrgetter(measure), default=None)
        if share is None:
            raise BudgetError(message)
        used = f"took {share.steps:,}" if measure == "steps" else f"made {share.facts:,} of {self.facts:,}"
        raise BudgetError(f"{message}: the rule of {share.rule.relation} at {share.rule.span} {used}", share.rule.span)
