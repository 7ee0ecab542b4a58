"""The findings of policies, read off a finished model (layer 4).

In: the model of a program over the facts of some stacks. Out: the `Violation` values of each policy, each with its
place and what decides it, and the errors that policies met.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from datalog_gate.analysis.policy import PLACEHOLDER, Policy
from datalog_gate.analysis.unknowns import POSSIBLE, possible
from datalog_gate.base.values import OPEN, SECRET, ResourceId, Row, Unknown, in_order, show
from datalog_gate.decision.changes import Changes
from datalog_gate.decision.dependence import Dependence
from datalog_gate.decision.evaluation import Evaluation
from datalog_gate.decision.finding import Mode, PolicyError, Violation, Waiver
from datalog_gate.decision.locations import Support, deciding, place, support
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.decision.request import MODES, Request
from datalog_gate.decision.secrets import Secrets
from datalog_gate.decision.waivers import waiver_of
from datalog_gate.engine.budget import Budget, Watch
from datalog_gate.engine.provenance import Provenance
from datalog_gate.stack.model import Stack

PLACING = Budget(looks=300_000)
"""What it may take to find where the findings stand: some seconds. No clock, so that the same stands everywhere."""


class Judge:
    """Reads the findings of each policy off the finished model."""

    def __init__(
        self,
        rules: PolicySet,
        stacks: Sequence[Stack],
        request: Request,
        found: Evaluation,
        changes: Changes,
        secrets: Secrets,
        explain: bool,
    ) -> None:
        self._reads, self._request = rules.reads, request
        self._relations, self._written = rules.program.relations, rules.program
        self._facts, self._program, self._model, self._stacks = found.facts, found.program, found.model, stacks
        self._secrets, self._exceeded, self._changes = secrets, found.exceeded, changes
        self.provenance = Provenance(found.program, found.model, Watch(PLACING))
        self._explain = explain
        self.raw: dict[Violation, tuple[str, Row]] = {}

    @cached_property
    def _shared(self) -> Collection[str]:
        """The names that more than one resource has: only those of different stacks can."""
        stacks = [one for stack in self._stacks for one in stack.walk()]
        names = Counter(resource.name for stack in stacks for resource in stack.resources) if len(stacks) > 1 else {}
        return {name for name, times in names.items() if times > 1}

    @cached_property
    def _dependence(self) -> Dependence:
        return Dependence(self._stacks)

    def certain(self, policy: Policy) -> Iterator[Violation]:
        """The rows that violate the policy whatever the unknowns turn out to be, waived or not."""
        waivers = [waiver for waiver in self._request.waivers if waiver.policy == policy.id]
        for row in self._model.rows(policy.relation):
            found = support(self.provenance, policy.relation, row)
            yield self._violation(policy, policy.relation, row, found, (), waivers)

    def undetermined(
        self, policy: Policy, settled: Mapping[tuple[str, ResourceId | None], bool]
    ) -> Iterator[Violation]:
        """The rows that violate the policy for some outcome of the unknowns: one for each subject, the first that is
        not tolerated, or else the first. `settled` are the policies and subjects that have a certain one, and whether
        all such are tolerated: they settle nothing that is not. What is waived settles nothing at all: another row may
        hold what nobody waived."""
        relation = policy.relation + POSSIBLE  # without rows if nothing that it reads is unknown
        certain = self._model.rows(policy.relation)
        chosen: dict[ResourceId | None, tuple[Row, bool]] = {}
        for row in in_order(self._model.rows(relation)):
            subject = self._subject(policy, row)
            found = settled.get((policy.id, subject))
            if row in certain or found is False:
                continue
            tolerated = self._changes.tolerates(policy, row)
            if not (found and tolerated) and (subject not in chosen or (chosen[subject][1] and not tolerated)):
                chosen[subject] = row, tolerated
        for subject, (row, _) in chosen.items():
            rests_on = support(self.provenance, relation, row)
            because = deciding(subject, rests_on.leaves, self._facts, self._reads[policy.relation], self._written)
            yield self._violation(policy, relation, row, rests_on, because)

    def error(self, policy: Policy) -> PolicyError | None:
        """The first error among those that the policy depends on; or that the budget ended before it was judged."""
        needed = self._reads[policy.relation]
        enforced = policy.level == "deny" and self._mode(policy) == "enforce"
        for error in self._model.errors:
            if error.relation.removesuffix(POSSIBLE) in needed:
                return PolicyError(policy.id, self._secrets.message(error), error.span, enforced)
        relations = {policy.relation, possible(policy.relation, self._program)}
        if policy.level in self._exceeded and not self._model.tables.keys() >= relations:
            exceeded = self._exceeded[policy.level]
            return PolicyError(policy.id, str(exceeded), exceeded.span, enforced, "budget")
        return None

    def _violation(
        self,
        policy: Policy,
        relation: str,
        row: Row,
        found: Support,
        because: tuple[Unknown, ...],
        waivers: Sequence[Waiver] = (),
    ) -> Violation:
        subject = self._subject(policy, row)
        because = tuple(map(self._secrets.unknown, because))
        shown = self._secrets.row(policy.relation, row)
        project = self._request.caller.project if self._request.caller else None
        waiver, why = waiver_of(waivers, policy.columns, shown, subject, project, self._request.now)
        hints = (policy.hint, f"waiver {waiver.id} {why}" if waiver and why else "")
        violation = Violation(
            policy.id,
            policy.level,
            self._mode(policy),
            self._message(policy, shown),
            "; ".join(filter(None, hints)),
            policy.relation,
            shown,
            subject,
            place(subject, row, found, self._facts, self._relations) or self._stacks[0].place,
            because,
            policy.on_unknown,
            None if why else waiver,
            waiver if why else None,
            self._changes.of(policy, row),
            self._changes.tolerates(policy, row),
            self._dependence.on(because) if because else "",
        )
        if self._explain:
            self.raw.setdefault(violation, (relation, row))
        return violation

    def _subject(self, policy: Policy, row: Row) -> ResourceId | None:
        value = row[policy.subject] if policy.subject is not None else None
        return value if isinstance(value, ResourceId) else None

    def _mode(self, policy: Policy) -> Mode:
        """The least of what the request allows, of the policy too, and, before its day, what the policy's date does."""
        early = policy.enforce_from is not None and self._request.now.date() < policy.enforce_from
        own = self._request.modes.get(policy.id, "enforce")
        return min(self._request.mode, "warn" if early else "enforce", own, key=MODES.index)

    def _message(self, policy: Policy, row: Row) -> str:
        def word(name: str) -> str:
            value = row[policy.columns.index(name)]
            if isinstance(value, ResourceId):
                return value.path if value.name in self._shared or value.name.isdecimal() else value.name
            return "?" if isinstance(value, Unknown) and value != SECRET and value.bounds == OPEN else show(value)

        return PLACEHOLDER.sub(lambda found: word(found[1]), policy.message)
