"""Cases that two policy sets judge differently."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from datalog_gate.base.records import dataclass
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.examples.case_building import Case
from datalog_gate.examples.effort import Effort
from datalog_gate.examples.example_search import STEPS, PolicyExamples, find_examples
from datalog_gate.examples.judge import Judge


@dataclass(frozen=True, slots=True)
class RuleDifference:
    """A case that only one of two policy sets denies: the newer one, or else the older one."""

    policy: str
    newly: bool
    case: Case


def find_differences(old: PolicySet, new: PolicySet, ids: Collection[str] = ()) -> Iterator[RuleDifference]:
    """Find the examples of the policies of either set, of all or of those with the ids, on which the sets differ: at
    most one that is newly denied, and one that no longer is."""
    sets = [{policy.id: policy for policy in rules.policies} for rules in (old, new)]
    for identifier in sorted(ids or sets[0].keys() | sets[1].keys()):
        judges: list[Judge | None] = []
        cases: list[Case] = []
        for rules, policies in zip((old, new), sets, strict=True):
            policy = policies.get(identifier)
            judges.append(Judge(rules, policy, Effort(STEPS)) if policy else None)
            cases += list_cases(find_examples(rules, policy)) if policy else []
        told: set[bool] = set()
        for case in cases:
            before, after = (_denies(judge, case) for judge in judges)
            if before is not None and after is not None and before is not after and after not in told:
                told.add(after)
                yield RuleDifference(identifier, after, case)


def list_cases(found: PolicyExamples) -> list[Case]:
    """The cases of all examples, those that are denied and those that pass."""
    return [case for example in found.examples for case in (example.case, *(flip.case for flip in example.flips))]


def _denies(judge: Judge | None, case: Case) -> bool | None:
    """Whether the policy denies the case; None if it can't be judged. A policy that is not there denies nothing."""
    if judge is None:
        return False
    verdict = judge.judge(case)
    return verdict.denies if verdict and not verdict.fails else None
