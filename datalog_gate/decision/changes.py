"""The comparison with an older state: the findings that existed before.

Only what the policies with findings depend on is evaluated, and only if there is anything to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.unknowns import possible
from datalog_gate.analysis.violation_key import Measure, judges_transition, measures
from datalog_gate.base.values import Row, row_key
from datalog_gate.decision.decision import Change
from datalog_gate.decision.evaluation import Evaluation, evaluation
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.decision.request import DecisionRequest
from datalog_gate.engine.least_model import Engine
from datalog_gate.schema.declaration import certain_version

ASKED = frozenset({"gate:caller", "gate:role", "gate:now", "gate:inventory_age"})
"""Relations about the caller and the time. A finding by these may have existed before and still not be the caller's, or
not have held then. So it is tolerated only if the policy says so."""


class Changes:
    """The comparison of one evaluation with the older state of its request."""

    def __init__(
        self, rules: PolicySet, policies: Sequence[Policy], request: DecisionRequest, now: Evaluation, engine: Engine
    ) -> None:
        self._rules, self._request, self._engine = rules, request, engine
        self._subtracted = {
            policy.id: policy
            for policy in policies
            if request.against
            and (now.model.rows(policy.relation) or now.model.rows(possible(policy.relation, now.program)))
            and not judges_transition(policy, rules.reads)
        }

    @property
    def identity(self) -> list[str]:
        """What the comparison depends on: whether there is an older state, and its facts if they were used."""
        if not self._request.against:
            return []
        how = "against" if self._request.tolerant else "against, not tolerant"
        return [how, *(self._base.identity if self._subtracted else ())]

    def of(self, policy: Policy, row: Row) -> Change | None:
        """Whether the row is new or already a violation in the older state, certain there and no better; None without
        an older state."""
        if not self._request.against:
            return None
        if policy.id not in self._subtracted:
            return "introduced"
        by = self._measures[policy.id]
        if by.key(row) not in self._before[policy.id]:
            return "introduced"
        (values, worst), measured = self._before[policy.id][by.key(row)], by.measured(row)
        return "introduced" if measured not in values and by.exceeds(measured, worst) else "preexisting"

    def tolerates(self, policy: Policy, row: Row) -> bool:
        """Whether the row was there before and so stops nothing."""
        if not self._request.tolerant or self.of(policy, row) != "preexisting":
            return False
        usual = "allow" if ASKED.isdisjoint(self._rules.reads[policy.relation]) else "deny"
        return policy.texts.get("preexisting", usual) == "allow"

    @cached_property
    def _base(self) -> Evaluation:
        stacks = sorted(self._request.against, key=lambda stack: stack.id)
        policies = tuple(self._subtracted.values())
        return evaluation(self._rules, stacks, self._request, policies, self._engine, whole=False)

    @cached_property
    def _measures(self) -> dict[str, Measure]:
        return measures(self._rules.program, tuple(self._subtracted.values()))

    @cached_property
    def _before(self) -> dict[str, dict[Row, tuple[set[Row], Row]]]:
        """By policy and key the certain violations of the older state: the measured values, and the worst. Policies
        that met an error or exceeded the budget there are left out."""
        model = self._base.model
        failed = {certain_version(error.relation) for error in model.errors}
        before: dict[str, dict[Row, tuple[set[Row], Row]]] = {}
        for policy in self._subtracted.values():
            by = self._measures[policy.id]
            rows = before[policy.id] = {}
            if not failed.isdisjoint(self._rules.reads[policy.relation]):
                continue
            for row in sorted(model.rows(policy.relation), key=row_key):
                measured = by.measured(row)
                values, worst = rows.get(by.key(row), (set(), measured))
                values.add(measured)
                rows[by.key(row)] = values, measured if by.exceeds(measured, worst) else worst
        return before
