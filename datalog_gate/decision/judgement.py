"""From stacks and a policy set to a decision (layer 4): the one evaluator behind every door.

In: `Stack` values, a `Request`, a `PolicySet`, an engine. Out: a `Decision`. Pure: the time comes with the request.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from datalog_gate.analysis.check import UNLOCKED
from datalog_gate.analysis.unknowns import POSSIBLE
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.gc import paused
from datalog_gate.base.values import ResourceId, Row, row_key
from datalog_gate.decision.case_analysis import Settlement, settle
from datalog_gate.decision.changes import Changes
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.decision import Decision, outcome_of
from datalog_gate.decision.evaluation import evaluation
from datalog_gate.decision.finding import Violation, Waiver
from datalog_gate.decision.findings import Judge
from datalog_gate.decision.grants import grants_of
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.decision.request import Request
from datalog_gate.decision.secrets import Secrets
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.model import Engine
from datalog_gate.engine.native import evaluate
from datalog_gate.stack.model import Stack


@paused()
def decide(
    rules: PolicySet,
    stacks: Sequence[Stack],
    request: Request,
    engine: Engine,
    explain: bool = False,
    settled: bool = True,
) -> Decision:
    """Judge the stacks as one set of facts; their ids differ. To `explain` keeps what an explanation needs; nothing is
    worked out before it is asked for. What is undetermined is `settled` where that can be.

    Errors: EngineError if the engine refuses the program or runs out of time.
    """
    stacks = sorted(stacks, key=lambda stack: stack.id)
    policies = [policy for policy in rules.policies if request.action in policy.on and policy.id not in request.off]
    found = evaluation(rules, stacks, request, policies, engine, against=request.against)
    facts, model = found.facts, found.model
    secrets = Secrets(facts, found.program)
    changes = Changes(rules, policies, request, found, engine)
    judge = Judge(rules, stacks, request, found, changes, secrets, explain)
    broken = [policy for policy in policies if model.rows(policy.relation)]
    certain = sorted((violation for policy in broken for violation in judge.certain(policy)), key=_by_policy)
    violations = [violation for violation in certain if not violation.waiver]
    there: dict[tuple[str, ResourceId | None], bool] = {}
    for violation in violations:
        if violation.resource:
            there[violation.policy, violation.resource] = violation.tolerated and there.get(
                (violation.policy, violation.resource), True
            )
    doubtful = [policy for policy in policies if model.rows(policy.relation + POSSIBLE)]
    undetermined = sorted(
        (violation for policy in doubtful for violation in judge.undetermined(policy, there)), key=_by_policy
    )
    settlement = Settlement(undetermined=undetermined)
    if settled and undetermined:
        settlement = settle(rules, stacks, facts, certain, undetermined, request.budget, partial(_unsettled, request))
        violations = sorted((*violations, *settlement.violations), key=_by_policy)
        certain = sorted((*certain, *settlement.violations, *settlement.waived), key=_by_policy)
        judge.raw |= {new: judge.raw[old] for new, old in settlement.origins if explain}
    met = {violation.waiver or violation.lapsed for violation in certain}
    waivers = tuple(waiver for waiver in request.waivers if waiver in met)
    doubted = policies if model.errors or found.exceeded else ()
    errors = [error for policy in doubted if (error := judge.error(policy))]
    lines = sorted(f"{digest} {relation}" for relation, digest in found.digests.items() if relation != "gate:now")
    digests = {"rules": rules.digest, "facts": _digest(lines)}
    ids = tuple(stack.id for stack in stacks)
    identity = [*_identity(rules, request, waivers), *changes.identity, *settlement.identity]
    decision = Decision(
        _digest([*digests.values(), *ids, *identity])[:16],
        outcome_of(violations, settlement.undetermined, errors),
        request.action,
        ids,
        tuple(violations),
        tuple(settlement.undetermined),
        tuple(violation for violation in certain if violation.waiver),
        tuple(sorted(errors, key=lambda policy_error: policy_error.policy)),
        grants_of(
            facts,
            stacks,
            request.services,
            request.now,
            {(unlock.service, grant) for unlock in rules.unlocks for (grant,) in model.rows(unlock.relation)},
            model.rows(UNLOCKED),
        ),
        digests,
        {"policies": len(policies), "facts": len(facts)},
        {
            relation: secrets.rows(relation, table.rows) if table.rows else ()
            for relation in rules.reads
            if (table := model.tables.get(relation))
        },
        {
            **rules.sources,
            **{file: text for stack in (*request.against, *stacks) for file, text in stack.sources.items()},
        },
        request.now,
        waivers,
        bool(request.against),
        {"rewritten": found.program.rewritten},
    )
    if not explain:
        return decision
    from datalog_gate.explain.explanation import Explanation
    from datalog_gate.explain.fix import Fixes

    fixes = Fixes(
        stacks,
        facts,
        model,
        found.program.relations,
        rules.catalogue.type,
        secrets,
        decision,
        lambda changed: decide(rules, changed, request, evaluate),
    )
    return replace(
        decision,
        explanation=Explanation(
            facts,
            judge.provenance,
            secrets,
            stacks,
            judge.raw,
            _places(request.inventory),
            policies,
            rules.reads,
            fixes.of,
        ),
    )


def _unsettled(request: Request, rules: PolicySet, stacks: Sequence[Stack], budget: Budget) -> Decision:
    return decide(rules, stacks, replace(request, budget=budget), evaluate, settled=False)


def _by_policy(violation: Violation) -> tuple[str, object]:
    return violation.policy, row_key(violation.row)


def _places(inventory: Inventory | None) -> dict[str, Mapping[Row, Span]]:
    return {**inventory.rows, **inventory.added} if inventory else {}


def _identity(rules: PolicySet, request: Request, waivers: Sequence[Waiver]) -> list[str]:
    """What a decision depends on besides rules and facts: the mode, those of single policies, the policies that are not
    enforced yet, the time if a rule reads it, and the waivers that it met, with those of them that are expired."""
    early = [policy.id for policy in rules.policies if policy.enforce_from and request.now.date() < policy.enforce_from]
    modes = [f"{policy.id}={request.modes[policy.id]}" for policy in rules.policies if policy.id in request.modes]
    modes += [f"{policy.id}=off" for policy in rules.policies if policy.id in request.off]
    now = request.now.isoformat() if "gate:now" in rules.program.inputs else ""
    words = [json.dumps([waiver.to_json(), request.now >= waiver.until], sort_keys=True) for waiver in waivers]
    return [request.mode, *early, *modes, now, *words]


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
