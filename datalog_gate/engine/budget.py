"""What an evaluation may take (layer 3), and the watch that ends it when it takes more.

In: a budget, with its clock. Out: a BudgetError that names the rule with the largest share of what ran out.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass, field
from time import monotonic

from datalog_gate.analysis.program import CheckedRule
from datalog_gate.base.errors import BudgetError

BETWEEN_CHECKS = 10_000
"""How many rows are looked at between two looks at the clock: some milliseconds' work."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The most facts that may be derived, the most rounds of one recursion, seconds by the `clock`, and rows that a
    careful search may look at; no limit where None."""

    facts: int | None = None
    rounds: int | None = None
    seconds: float | None = None
    clock: Callable[[], float] = monotonic
    looks: int | None = None


UNLIMITED = Budget()
BUDGET = Budget(facts=1_000_000, seconds=5.0)
"""What each group of policies may take, what rests on an inventory alone, and a query. As every round of a recursion
derives a fact at least, facts bound the rounds too."""


@dataclass(slots=True)
class Share:
    """What one rule has taken."""

    rule: CheckedRule
    facts: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Watch:
    """Counts what rules take. One rule is at work at a time, and derives rows into `known`."""

    budget: Budget = UNLIMITED
    began: float = field(init=False)
    facts: int = 0
    looks: int = 0
    shares: dict[int, Share] = field(default_factory=dict)
    _rule: CheckedRule | None = None
    _since: float = 0.0
    _known: Sized = ()
    _before: int = 0
    _left: int = BETWEEN_CHECKS

    def __post_init__(self) -> None:
        self.began = self.budget.clock()

    def start(self, rule: CheckedRule, known: Sized) -> None:
        """A rule sets to work."""
        self._rule = rule
        self._known = known
        self._before = len(known)
        self._since = self.budget.clock()

    def stop(self) -> None:
        """The rule is done for now. Errors: BudgetError."""
        self._settle()
        self.check()

    def check(self) -> int:
        """Look whether anything has run out; how many rows may be looked at before the next look.
        Errors: BudgetError."""
        budget = self.budget
        if budget.seconds is not None and budget.clock() - self.began > budget.seconds:
            self._out(f"out of time after {budget.seconds:g} s", "took", lambda share: share.seconds)
        if budget.facts is not None and self.facts + len(self._known) - self._before > budget.facts:
            self._out(f"more than {budget.facts:,} facts", "made", lambda share: share.facts)
        if budget.looks is not None and self.looks > budget.looks:
            self._out(f"more than {budget.looks:,} rows looked at", "took", lambda share: share.seconds)
        return BETWEEN_CHECKS

    def tick(self, rows: int) -> None:
        """Count rows that are looked at. Errors: BudgetError."""
        self.looks += rows
        self._left -= rows
        if self._left < 0:
            self._left = self.check()

    def turn(self, number: int) -> None:
        """A round of a recursion begins. Errors: BudgetError."""
        if self.budget.rounds is not None and number > self.budget.rounds:
            self._out(f"more than {self.budget.rounds:,} rounds", "made", lambda share: share.facts)

    def _settle(self) -> None:
        if rule := self._rule:
            share = self.shares.get(id(rule))
            if share is None:
                share = self.shares[id(rule)] = Share(rule)
            derived = len(self._known) - self._before
            self.facts += derived
            share.facts += derived
            share.seconds += self.budget.clock() - self._since
            self._rule, self._known, self._before = None, (), 0

    def _out(self, what: str, did: str, amount: Callable[[Share], float]) -> None:
        self._settle()
        most = max(self.shares.values(), key=amount, default=None)
        if most is None:
            raise BudgetError(what)
        took = f"{amount(most):.1f} s" if did == "took" else f"{amount(most):,.0f} of {self.facts:,}"
        raise BudgetError(f"{what}: the rule of {most.rule.relation} at {most.rule.span} {did} {took}", most.rule.span)
