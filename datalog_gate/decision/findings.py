"""The findings of policies, read off a finished model (layer 4).

In: the model of a program over the facts of some stacks. Out: the `Violation` values of each policy, each with its
place and what decides it, and the errors that policies met.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from datalog_gate.analysis.policy import PLACEHOLDER, Policy
from datalog_gate.analysis.unknowns import possible
from datalog_gate.base.values import OPEN, SECRET, ResourceId, Row, Unknown, in_order, show
from datalog_gate.decision.changes import Changes
from datalog_gate.decision.decision import Mode, PolicyError, Violation, Waiver
from datalog_gate.decision.dependence import Dependence
from datalog_gate.decision.evaluation import Evaluation
from datalog_gate.decision.locations import Support, deciding, place, support
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.decision.request import MODES, Request
from datalog_gate.decision.secrets import Secrets
from datalog_gate.decision.waivers import waiver_of
from datalog_gate.engine.budget import Budget, Watch
from datalog_gate.engine.provenance import Fact, Provenance
from datalog_gate.schema.declaration import RelationRef, certain_version, possible_version
from datalog_gate.stack.model import Stack

PLACING = Budget(looks=300_000)
"""What it may take to find where the findings stand: some seconds. No clock, so that the same stands everywhere."""


class FindingReader:
    """Reads the findings of policies off a finished model."""

    def __init__(
        self,
        rules: PolicySet,
        stacks: Sequence[Stack],
        request: Request,
        evaluation: Evaluation,
        changes: Changes,
        secrets: Secrets,
    ) -> None:
        self._rules = rules
        self._stacks = stacks
        self._request = request
        self._evaluation = evaluation
        self._changes = changes
        self._secrets = secrets
        self.provenance = Provenance(evaluation.program, evaluation.model, Watch(PLACING))
        self.read: list[tuple[Violation, Fact]] = []
        """Each violation that was read, with its relation and row, secrets included."""

    def certain(self, policies: Sequence[Policy]) -> Iterator[Violation]:
        """Read the rows that violate a policy whatever the unknowns turn out to be, waived or not."""
        model = self._evaluation.model
        for policy in policies:
            if rows := model.rows(policy.relation):
                waivers = [waiver for waiver in self._request.waivers if waiver.policy == policy.id]
                for row in rows:
                    rests_on = support(self.provenance, policy.relation, row)
                    yield self._violation(policy, policy.relation, row, rests_on, waivers=waivers)

    def undetermined(self, policies: Sequence[Policy], certain: Sequence[Violation]) -> Iterator[Violation]:
        """Read the rows that violate a policy for some outcome of the unknowns: one for each subject, the first that is
        not tolerated, or else the first.

        A `certain` violation of the same policy and subject settles it, unless all such are tolerated and it is not.
        What is waived settles nothing: another row may hold what nobody waived.
        """
        model, tolerated = self._evaluation.model, _tolerated(certain)
        for policy in policies:
            relation = possible_version(policy.relation)  # without rows if nothing that it reads is unknown
            if rows := model.rows(relation):
                for subject, row in self._undetermined_rows(policy, rows, tolerated).items():
                    rests_on = support(self.provenance, relation, row)
                    because = self._deciding(policy, subject, rests_on)
                    yield self._violation(policy, relation, row, rests_on, because)

    def _undetermined_rows(
        self, policy: Policy, rows: Collection[Row], tolerated: Mapping[tuple[str, ResourceId], bool]
    ) -> dict[ResourceId | None, Row]:
        certain = self._evaluation.model.rows(policy.relation)
        chosen: dict[ResourceId | None, tuple[Row, bool]] = {}
        for row in in_order(rows):
            subject = self._subject(policy, row)
            settled = tolerated.get((policy.id, subject)) if subject else None
            if row in certain or settled is False:
                continue
            is_tolerated = self._changes.tolerates(policy, row)
            if settled and is_tolerated:
                continue
            if subject not in chosen or (chosen[subject][1] and not is_tolerated):
                chosen[subject] = row, is_tolerated
        return {subject: row for subject, (row, _) in chosen.items()}

    def _deciding(self, policy: Policy, subject: ResourceId | None, rests_on: Support) -> tuple[Unknown, ...]:
        reads = self._rules.reads[policy.relation]
        return deciding(subject, rests_on.leaves, self._evaluation.facts, reads, self._rules.program)

    def errors(self, policies: Sequence[Policy]) -> Iterator[PolicyError]:
        """Read for each policy the first error that it depends on, or that the budget ended before it was judged."""
        if self._evaluation.model.errors or self._evaluation.exceeded:
            for policy in policies:
                if error := self._error(policy):
                    yield error

    def _error(self, policy: Policy) -> PolicyError | None:
        model, exceeded = self._evaluation.model, self._evaluation.exceeded.get(policy.level)
        needed = self._rules.reads[policy.relation]
        enforced = policy.level == "deny" and self._mode(policy) == "enforce"
        for error in model.errors:
            if certain_version(error.relation) in needed:
                return PolicyError(policy.id, self._secrets.message(error), error.span, enforced)
        relations = {policy.relation, possible(policy.relation, self._evaluation.program)}
        if exceeded and not model.tables.keys() >= relations:
            return PolicyError(policy.id, str(exceeded), exceeded.span, enforced, "budget")
        return None

    def _violation(
        self,
        policy: Policy,
        relation: RelationRef,
        row: Row,
        rests_on: Support,
        because: tuple[Unknown, ...] = (),
        waivers: Sequence[Waiver] = (),
    ) -> Violation:
        subject = self._subject(policy, row)
        because = tuple(map(self._secrets.unknown, because))
        shown = self._secrets.row(policy.relation, row)
        project = self._request.caller.project if self._request.caller else None
        waiver, lapse = waiver_of(waivers, policy.columns, shown, subject, project, self._request.now)
        hints = (policy.hint, f"waiver {waiver.id} {lapse}" if waiver and lapse else "")
        span = place(subject, row, rests_on, self._evaluation.facts, self._rules.program.relations)
        violation = Violation(
            policy=policy.id,
            level=policy.level,
            mode=self._mode(policy),
            message=self._message(policy, shown),
            hint="; ".join(filter(None, hints)),
            relation=policy.relation,
            row=shown,
            resource=subject,
            place=span or self._stacks[0].place,
            because=because,
            on_unknown=policy.on_unknown,
            waiver=None if lapse else waiver,
            lapsed=waiver if lapse else None,
            change=self._changes.of(policy, row),
            tolerated=self._changes.tolerates(policy, row),
            depends=self._dependence.on(because) if because else "",
        )
        self.read.append((violation, (relation, row)))
        return violation

    def _subject(self, policy: Policy, row: Row) -> ResourceId | None:
        value = row[policy.subject] if policy.subject is not None else None
        return value if isinstance(value, ResourceId) else None

    def _mode(self, policy: Policy) -> Mode:
        """Compute the least of what the request allows, of the policy too, and, before its day, what the policy's date
        does."""
        early = policy.enforce_from is not None and self._request.now.date() < policy.enforce_from
        own = self._request.modes.get(policy.id, "enforce")
        return min(self._request.mode, "warn" if early else "enforce", own, key=MODES.index)

    def _message(self, policy: Policy, row: Row) -> str:
        """Fill the placeholders of the policy's message."""

        def word(column: str) -> str:
            value = row[policy.columns.index(column)]
            if isinstance(value, ResourceId):
                return value.path if value.name in self._shared_names or value.name.isdecimal() else value.name
            return "?" if isinstance(value, Unknown) and value != SECRET and value.bounds == OPEN else show(value)

        return PLACEHOLDER.sub(lambda match: word(match[1]), policy.message)

    @cached_property
    def _shared_names(self) -> Collection[str]:
        """The names that more than one resource has: only those of different stacks can."""
        stacks = [stack for root in self._stacks for stack in root.walk()]
        if len(stacks) == 1:
            return ()
        names = Counter(resource.name for stack in stacks for resource in stack.resources)
        return {name for name, count in names.items() if count > 1}

    @cached_property
    def _dependence(self) -> Dependence:
        return Dependence(self._stacks)


def _tolerated(violations: Sequence[Violation]) -> dict[tuple[str, ResourceId], bool]:
    """By policy and resource whether all violations that are not waived are tolerated."""
    tolerated: dict[tuple[str, ResourceId], bool] = {}
    for violation in violations:
        if violation.resource and not violation.waiver:
            key = violation.policy, violation.resource
            tolerated[key] = violation.tolerated and tolerated.get(key, True)
    return tolerated
