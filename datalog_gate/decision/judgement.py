"""The judgement of stacks by rules, for one request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from datalog_gate.analysis.policy import Policy
from datalog_gate.base.gc import paused
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import Row, row_key
from datalog_gate.decision.case_analysis import CaseAnalysis, Reread, Settlement
from datalog_gate.decision.causes import merge
from datalog_gate.decision.changes import Changes
from datalog_gate.decision.decision import Decision, Grant, Violation, Waiver, compute_outcome
from datalog_gate.decision.evaluation import Evaluation, evaluation
from datalog_gate.decision.findings import FindingReader
from datalog_gate.decision.grants import grants_of
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.decision.request import DecisionRequest
from datalog_gate.decision.secrets import Secrets
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.least_model import Engine
from datalog_gate.engine.native import evaluate
from datalog_gate.engine.provenance import Fact
from datalog_gate.schema.relations import UNLOCKED
from datalog_gate.stack.model import Stack


@dataclass(frozen=True, slots=True)
class Judgement:
    """A decision with the data it was computed from. Only the decision may be shown: the rest holds secrets."""

    decision: Decision
    policies: Sequence[Policy]
    """The policies that judged: those for the request's action that are not off."""
    reader: FindingReader
    """The reader of the findings, with the rules, stacks, request and evaluation."""
    origins: Sequence[tuple[Violation, Violation]]
    """Each finding that case analysis or merging created, with an original one."""

    def evidence(self) -> dict[Violation, Fact]:
        """The relation and row of the model behind each finding."""
        evidence: dict[Violation, Fact] = {}
        for violation, fact in self.reader.read:
            evidence.setdefault(violation, fact)
        for violation, origin in self.origins:
            evidence[violation] = evidence[origin]
        return evidence


def decide(
    rules: PolicySet, stacks: Sequence[Stack], request: DecisionRequest, engine: Engine, reread: Reread | None = None
) -> Decision:
    """Decide on the stacks. Parameters and errors are those of `judge`."""
    return judge(rules, stacks, request, engine, reread).decision


@paused()
def judge(
    rules: PolicySet, stacks: Sequence[Stack], request: DecisionRequest, engine: Engine, reread: Reread | None = None
) -> Judgement:
    """Judge the stacks as one set of facts; their ids differ. `reread` reads a stack again under an assumption. With
    it, case analysis settles undetermined findings if possible, and the rest are merged by cause. Errors: EngineError
    if the engine refuses the program or exceeds its budget."""
    stacks = sorted(stacks, key=lambda stack: stack.id)
    policies, skipped = _choose(rules, request)
    evaluated = evaluation(rules, stacks, request, policies, engine)
    secrets = Secrets(evaluated.facts, evaluated.program)
    changes = Changes(rules, policies, request, evaluated, engine)
    grants = _grants(rules, stacks, request, evaluated)
    refused = tuple(grant for grant in grants if not grant.unlocked)
    reader = FindingReader(rules, stacks, request, evaluated, changes, secrets, refused)
    found = _find(reader, policies, reread)
    errors = sorted(reader.errors(policies), key=lambda error: error.policy)
    waivers = tuple(waiver for waiver in request.waivers if waiver in found.waivers)
    ids = tuple(stack.id for stack in stacks)
    digests = {"rules": rules.digest, "facts": _digest(evaluated.identity)}
    identity = [*_identity(rules, request, waivers), *changes.identity, *found.settlement.identity]
    decision = Decision(
        id=_digest([*digests.values(), *ids, *identity])[:16],
        outcome=compute_outcome(found.violations, found.settlement.undetermined, errors),
        action=request.action,
        stacks=ids,
        violations=found.violations,
        undetermined=tuple(violation for violation, _ in found.merged),
        waived=tuple(violation for violation in found.certain if violation.waiver),
        errors=tuple(errors),
        grants=grants,
        digests=digests,
        counts={"policies": len(policies), "facts": len(evaluated.facts)},
        derived=_derived(rules, evaluated, secrets),
        sources=_sources(rules, (*request.against, *stacks)),
        now=request.now,
        waivers=waivers,
        compared=bool(request.against),
        skipped=skipped,
    )
    return Judgement(decision, policies, reader, [*found.settlement.origins, *found.merged])


def _choose(rules: PolicySet, request: DecisionRequest) -> tuple[list[Policy], tuple[str, ...]]:
    """The policies that judge the request, and the ids of those that need a whole cloud and are skipped."""
    policies = [policy for policy in rules.policies if request.action in policy.on and policy.id not in request.off]
    if not rules.cloud_wide or request.cloud is not None:
        return policies, ()
    skipped = tuple(policy.id for policy in policies if policy.id in rules.cloud_wide)
    return [policy for policy in policies if policy.id not in rules.cloud_wide], skipped


class _Findings(NamedTuple):
    """The findings of a judgement."""

    certain: Sequence[Violation]
    settlement: Settlement
    merged: Sequence[tuple[Violation, Violation]]
    """The undetermined findings, merged by cause, each with an original one."""

    @property
    def violations(self) -> tuple[Violation, ...]:
        return tuple(violation for violation in self.certain if not violation.waiver)

    @property
    def waivers(self) -> set[Waiver | None]:
        """The waivers that match a certain finding, expired or not."""
        return {violation.waiver or violation.lapsed for violation in self.certain}


def _find(reader: FindingReader, policies: Sequence[Policy], reread: Reread | None) -> _Findings:
    """Read the findings, and settle undetermined ones if possible. `reread` is that of `judge`."""
    certain = _in_order(reader.certain(policies))
    undetermined = _in_order(reader.undetermined(policies, certain))
    if not (reread and undetermined):
        merged = [(violation, violation) for violation in undetermined]
        return _Findings(certain, Settlement(undetermined=undetermined), merged)

    def judge_again(rules: PolicySet, stacks: Sequence[Stack], budget: Budget) -> Decision:
        return decide(rules, stacks, replace(reader.request, budget=budget), evaluate)

    settlement = CaseAnalysis(reader, certain, undetermined, reread, judge_again).settle()
    certain = _in_order((*certain, *settlement.violations, *settlement.waived))
    unwaived = [violation for violation in certain if not violation.waiver]
    return _Findings(certain, settlement, merge(settlement.undetermined, unwaived, reader.stacks))


def _in_order(violations: Iterable[Violation]) -> list[Violation]:
    return sorted(violations, key=lambda violation: (violation.policy, row_key(violation.row)))


def _identity(rules: PolicySet, request: DecisionRequest, waivers: Sequence[Waiver]) -> list[str]:
    """List what a decision depends on besides rules and facts: the mode, the modes of single policies, the policies
    that are not enforced yet, the time if a rule reads it, the matching waivers and whether they are expired, and
    whether cloud-wide policies judged."""
    early = [policy.id for policy in rules.policies if policy.only_warns_at(request.now)]
    modes = [f"{policy.id}={request.modes[policy.id]}" for policy in rules.policies if policy.id in request.modes]
    modes += [f"{policy.id}=off" for policy in rules.policies if policy.id in request.off]
    inputs = rules.inputs_alone if request.cloud is None else rules.program.inputs
    now = request.now.isoformat() if "gate:now" in inputs else ""
    entries = [json.dumps([waiver.to_json(), request.now >= waiver.until], sort_keys=True) for waiver in waivers]
    cloud = ["cloud"] if rules.cloud_wide and request.cloud is not None else []
    return [request.mode, *early, *modes, now, *entries, *cloud]


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _grants(
    rules: PolicySet, stacks: Sequence[Stack], request: DecisionRequest, evaluated: Evaluation
) -> tuple[Grant, ...]:
    model = evaluated.model
    derived = {(unlock.service, grant) for unlock in rules.unlocks for (grant,) in model.rows(unlock.relation)}
    unlocked = model.rows(UNLOCKED)
    return grants_of(evaluated.facts, stacks, request.services, request.now, derived, unlocked)


def _derived(rules: PolicySet, evaluated: Evaluation, secrets: Secrets) -> dict[str, tuple[Row, ...]]:
    tables = evaluated.model.tables
    return {
        str(relation): secrets.rows(relation, table.rows) if table.rows else ()
        for relation in rules.reads
        if (table := tables.get(relation))
    }


def _sources(rules: PolicySet, stacks: Sequence[Stack]) -> dict[str, str]:
    sources = dict(rules.sources)
    for stack in stacks:
        sources.update(stack.sources)
    return sources
