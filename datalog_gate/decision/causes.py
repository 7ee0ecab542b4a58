"""The causes of undetermined findings.

Each finding names one cause, and each cause leads to one finding.

Something that could not be read, such as a template at a URL or the members of a group of unknown size, may violate
every policy that reads it, and each member that may exist may violate it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from datalog_gate.analysis.policy import LEVELS
from datalog_gate.analysis.program import CheckedLiteral, Compare, Const, Match, variables
from datalog_gate.base.diagnostics import format_count
from datalog_gate.base.expression import content
from datalog_gate.base.records import replace
from datalog_gate.base.unknown import equality
from datalog_gate.base.values import Unknown, Value
from datalog_gate.decision.decision import Violation
from datalog_gate.engine.assignments import Binding
from datalog_gate.engine.intervals import decide_comparison
from datalog_gate.engine.provenance import Derivation
from datalog_gate.stack.model import Stack, sizes

URL_HINT = (
    "save it beside this template and name it by its path; `check` also reads it with --fetch, or from a folder that "
    "[sources] of datalog-gate.toml gives for its URL"
)


def merge(
    undetermined: Sequence[Violation], certain: Iterable[Violation], stacks: Iterable[Stack]
) -> list[tuple[Violation, Violation]]:
    """Merge the findings of each cause. Return each result with one of its original findings.

    If templates were not read, there is one finding for all policies: the most severe one, which names the others. So
    there is for policies that hold for the same values of an unknown. If these values are not known, there is one for
    each policy. For members that may exist, there is one for each policy and group, or none if a member of the group
    certainly violates the policy.
    """
    groups = {
        f"{resource.id.path}/": deciding
        for root in stacks
        for stack in root.walk()
        for resource in stack.resources
        if (deciding := tuple(sizes(resource)))
    }
    violated = {(violation.policy, _group(violation, groups), violation.tolerated) for violation in certain}
    covered: set[object] = {
        (policy, (unknown,), tolerated) for policy, group, tolerated in violated if group for unknown in groups[group]
    }
    merged: dict[object, list[Violation]] = {}
    for violation in sorted(undetermined, key=lambda violation: violation.resource is None):
        policy, because, tolerated = violation.policy, violation.because, violation.tolerated
        key: object = id(violation)
        if group := _group(violation, groups):
            if (policy, group, tolerated) in violated:
                continue
            covered.add((policy, because, tolerated))
            key = policy, group, because, tolerated
        elif because and all(unknown.source.templates for unknown in because):
            key = "unread", tolerated
        elif violation.resource is None and len(because) == 1:
            if (policy, because, tolerated) in covered:
                continue
            key = because, tolerated, violation.level, violation.cases or policy
        merged.setdefault(key, []).append(violation)
    order = {id(violation): at for at, violation in enumerate(undetermined)}
    return sorted(map(_merge_all, merged.values()), key=lambda pair: order[id(pair[1])])


def find_causes(unknowns: Sequence[Unknown], derivations: Iterable[Derivation]) -> tuple[Unknown, ...]:
    """The causes of a finding that depends on these unknowns by these derivations. An unknown that is only compared
    with itself decides nothing. If everything depends on whether unknowns are equal, that is the one cause."""
    if len(unknowns) < 2:
        return tuple(unknowns)
    asked = set[object]()
    pairs: dict[tuple[Unknown, Unknown], None] = {}
    matches: list[tuple[Match, Binding]] = []
    for derivation in derivations:
        binding = derivation.binding
        for literal in derivation.rule.body:
            if isinstance(literal, Match):
                matches.append((literal, binding))
            elif not isinstance(literal, Compare):
                asked.update(_values(literal, binding))
            elif _is_open(literal, *(sides := _sides(literal, binding))):
                if pair := _read_equation(literal, *sides):
                    pairs[pair] = None
                else:
                    asked.update(sides)
    paired = {unknown for pair in pairs for unknown in pair}
    left = [unknown for unknown in unknowns if unknown in asked or unknown in paired]
    if len(left) < len(unknowns):
        matched = {value for match, binding in matches for value in _values(match, binding)}
        left = [unknown for unknown in unknowns if unknown in asked or unknown in paired or unknown not in matched]
    if pairs and paired == set(left) and not asked & paired and not any(unknown.hidden for unknown in left):
        return (equality(pairs),)
    return tuple(left or unknowns)


def _values(literal: CheckedLiteral, binding: Binding) -> Iterator[Value]:
    return map(binding.get, variables(literal))


def _is_open(comparison: Compare, left: Value, right: Value) -> bool:
    """Whether unknowns decide the comparison."""
    if not isinstance(left, Unknown) and not isinstance(right, Unknown):
        return False
    return decide_comparison(comparison.comparator, left, right, comparison.null_test) is None


def _read_equation(comparison: Compare, left: Value, right: Value) -> tuple[Unknown, Unknown] | None:
    """The two unknowns that the comparison requires to be equal, sorted; None for other comparisons."""
    if comparison.comparator != "=" or not isinstance(left, Unknown) or not isinstance(right, Unknown):
        return None
    return (left, right) if left.expression <= right.expression else (right, left)


def _sides(comparison: Compare, binding: Binding) -> tuple[Value, Value]:
    left, right = comparison.left, comparison.right
    return (
        left.value if isinstance(left, Const) else binding[left],
        right.value if isinstance(right, Const) else binding[right],
    )


def _merge_all(violations: Sequence[Violation]) -> tuple[Violation, Violation]:
    unread = all(unknown.source.templates for unknown in violations[0].because) and violations[0].because
    if len(violations) == 1 and not unread:  # as most are
        return violations[0], violations[0]
    gravest = min(violations, key=_effect)
    policies = dict.fromkeys(violation.policy for violation in violations)
    others = tuple(policy for policy in policies if policy != gravest.policy)
    if unread:
        return _say_unread(replace(gravest, also=others), violations), gravest
    return replace(gravest, also=others) if others else gravest, gravest


def _say_unread(gravest: Violation, violations: Sequence[Violation]) -> Violation:
    """The finding that templates were not read."""
    because = tuple(dict.fromkeys(unknown for violation in violations for unknown in violation.because))
    source = content(*dict.fromkeys(name for unknown in because for name in unknown.source.templates))
    names = source.text.removeprefix("what ").rpartition(" ")[0]
    at_url = "://" in source.templates[0]
    at = "at" if at_url else "of"
    what, they = f"the template {at} {names} was", "it holds"
    if source.templates[1:]:
        what, they = f"the templates {at} {names} were", "they hold"
    policies = format_count(len(gravest.policies), "policy", "policies")
    hint = URL_HINT if at_url else ""
    message = f"{what} not read: {policies} may depend on what {they}"
    return replace(gravest, message=message, hint=hint, because=because, depends="")


def _effect(violation: Violation) -> tuple[bool, bool, bool, int]:
    """A sort key: smaller for findings with a more severe effect on the outcome."""
    denies = violation.enforced and violation.on_unknown == "deny"
    refuses = violation.enforced and violation.on_unknown != "allow"
    recorded = "record" in (violation.level, violation.mode) or violation.on_unknown == "allow"
    return not denies, not refuses, recorded, LEVELS.index(violation.level)


def _group(violation: Violation, groups: Iterable[str]) -> str | None:
    """The outermost group of possible members that contains the blamed resource."""
    path = violation.resource.path if violation.resource else ""
    return next((group for group in groups if path.startswith(group)), None)
