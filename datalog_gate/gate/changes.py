"""Which findings an older state had already (layer 4).

In: what was evaluated, and a request with the stacks as they were. Out: for each row of a policy whether the operation
introduces it. What was is evaluated like what is, with the same inventory, request, budget and time, if there is
anything to compare: only what the policies rest on that found something.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

from datalog_gate.analysis.identity import judges_transition
from datalog_gate.analysis.measure import Measure, measures
from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.possible import POSSIBLE, possible
from datalog_gate.engine.builtins import EvaluationError, compare
from datalog_gate.engine.model import Engine
from datalog_gate.gate.evaluation import Evaluation, evaluation
from datalog_gate.gate.finding import Change
from datalog_gate.gate.policyset import PolicySet
from datalog_gate.gate.request import Request
from datalog_gate.values import Row

ASKED = frozenset({"gate:caller", "gate:role", "gate:now"})
"""Who asks, and when: what is judged by these may be there as it was and still not be done by this one, or now. So it
is tolerated only where the policy says so."""


class Changes:
    """The comparison of one evaluation with the older state of its request."""

    def __init__(
        self, rules: PolicySet, policies: Sequence[Policy], request: Request, now: Evaluation, engine: Engine
    ) -> None:
        self._rules, self._request, self._engine = rules, request, engine
        self._subtracted = {
            one.id: one
            for one in policies
            if request.against
            and (now.model.rows(one.relation) or now.model.rows(possible(one.relation, now.program)))
            and not judges_transition(one, rules.reads)
        }

    @property
    def identity(self) -> list[str]:
        """What the comparison depends on: whether there is any, and what was, where that was looked at."""
        if not self._request.against:
            return []
        digests = self._base.digests if self._subtracted else {}
        return ["against", *sorted(f"{digest} {name}" for name, digest in digests.items() if name != "gate:now")]

    def of(self, policy: Policy, row: Row) -> Change | None:
        """Whether the row is a violation that the older state had for certain, and no better; None without one."""
        if not self._request.against:
            return None
        if policy.id not in self._subtracted:
            return "introduced"
        key = self._measures[policy.id].key(row)
        before = self._before[policy.id].get(key, ())
        same = any(not _worse(row, one, self._measures[policy.id]) for one in before)
        return "preexisting" if same else "introduced"

    def tolerates(self, policy: Policy, row: Row) -> bool:
        """Whether the row stops nothing, for it was there before."""
        usual = "allow" if ASKED.isdisjoint(self._rules.reads[policy.relation]) else "deny"
        return policy.texts.get("preexisting", usual) == "allow" and self.of(policy, row) == "preexisting"

    @cached_property
    def _base(self) -> Evaluation:
        stacks = sorted(self._request.against, key=lambda one: one.id)
        return evaluation(
            self._rules, stacks, self._request, tuple(self._subtracted.values()), self._engine, whole=False
        )

    @cached_property
    def _measures(self) -> dict[str, Measure]:
        return measures(self._rules.program, tuple(self._subtracted.values()))

    @cached_property
    def _before(self) -> dict[str, dict[Row, list[Row]]]:
        """By policy and key the rows that the older state had for certain. A policy that met an error or went beyond
        its budget there has none that anybody could trust."""
        found: dict[str, dict[Row, list[Row]]] = {}
        model = self._base.model
        failed = {one.relation.removesuffix(POSSIBLE) for one in model.errors}
        for policy in self._subtracted.values():
            rows: dict[Row, list[Row]] = defaultdict(list)
            if failed.isdisjoint(self._rules.reads[policy.relation]):
                for row in model.rows(policy.relation):
                    rows[self._measures[policy.id].key(row)].append(row)
            found[policy.id] = rows
        return found


def _worse(now: Row, before: Row, by: Measure) -> bool:
    """Whether a violation became worse. Where no order says so, any other is worse."""
    if by.bound is None:
        return any(now[at] != before[at] for at in by.free)
    column, comparator = by.bound
    if now[column] == before[column]:
        return False
    try:
        return compare(comparator, now[column], before[column], True, False)
    except EvaluationError:
        return True
