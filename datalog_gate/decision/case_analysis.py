"""Undetermined findings, settled by trying every value that decides them (layer 4).

In: the findings of stacks in which something is not known, and a way to judge these stacks anew. Out: the findings that
hold whatever the unknowns turn out to be, and those that hang on them, with the values for which they hold; what holds
for none of the values is left out.

An unknown is tried where it has a domain: all values that it can have. What a function makes of unknowns is tried by
these, since two conditions on one parameter hang together; a condition whose own unknowns have no domain is true or
false. The stacks are read again under each value, and where the finding is then still open, with whatever it hangs on
then, there again under each value of that.

Why the answer is right: a stack that is read so is right in every world in which all that was assumed for it is true,
and it is judged as soundly as the first one. Every world is in one branch at each step, as a domain leaves out no
value; so it is in one of the branches that end. A finding that is certain in all of these holds in every world, and one
that is possible in none holds in no world. Branches that no world is in, as where two conditions exclude each other,
can only keep a finding from being settled. So can a branch that can't be read, errs, or is one too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from datalog_gate.analysis.policy import Level
from datalog_gate.analysis.slices import resting
from datalog_gate.base.errors import EngineError, InputError
from datalog_gate.base.values import FALSE, SECRET, TRUE, Unknown, Value, bases, show
from datalog_gate.decision.decision import Decision, Violation
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.engine.budget import Budget
from datalog_gate.facts.factset import FactSet
from datalog_gate.stack.model import Stack
from datalog_gate.template.reader import read_assuming

TRIES = 256
"""How many values, of all that decide one finding together, are tried for it."""
WORK = 30_000
"""What may be judged anew for all findings of a decision together: about a second of facts, resources and findings. No
clock, so that the same is settled everywhere."""
LARGEST = WORK // 8
"""What is larger is judged once only: a few values more would not settle much of it, and cost as much again."""
ALWAYS = 100
"""What it takes to judge anything, in such units."""
PER_FINDING = 5
"""What it takes to tell where a finding stands."""
WORDINGS = 3
"""How many messages are told of a finding that holds in each case for another reason."""
KNOWLEDGE = "heat:unknown"
"""The relation that says what is not known: a policy that reads it judges that, and not what it may turn out to be."""
Again = Callable[[PolicySet, Sequence[Stack], Budget], Decision]
T = TypeVar("T")
Seen = tuple[T, Sequence[Unknown] | None]
"""What is found in a case, and on what it hangs there; None if on nothing more."""
MOST = 3
"""How many unknowns, values, or cases are told."""
LONGEST = 80
"""How many characters of an expression, or a value, are shown."""
MERGED = 64
"""How many cases are compared with each other, to tell them in fewer words."""
CONDITION = "condition "
HELD = {"deny": "denied", "warn": "warned of", "record": "recorded"}

Case = Mapping[Unknown, Value]
"""Values that unknowns have."""
_Cases = dict[Unknown, frozenset[Value]]


@dataclass(slots=True)
class Settlement:
    """What became of undetermined findings. `origins` pairs each new one with the finding that it was, `identity`
    tells decisions apart that came to something else."""

    violations: list[Violation] = field(default_factory=list)
    waived: list[Violation] = field(default_factory=list)
    undetermined: list[Violation] = field(default_factory=list)
    origins: list[tuple[Violation, Violation]] = field(default_factory=list)
    identity: list[str] = field(default_factory=list)


class Unsettled(Exception):  # noqa: N818 - an answer, not an error
    """There is no telling, or not with the work that is left."""


class _End(NamedTuple):
    """A branch in which the finding is open no more: what was assumed, and the violations and waived ones in it."""

    case: Case
    violations: list[Violation]
    waived: list[Violation]


def settle(
    rules: PolicySet,
    stacks: Sequence[Stack],
    facts: FactSet,
    certain: Sequence[Violation],
    undetermined: Sequence[Violation],
    budget: Budget,
    again: Again,
) -> Settlement:
    """Settle the undetermined findings, as far as that goes, and say of some others when they hold. `again` judges
    stacks by some of the rules, without settling; all of it together may take what one group of policies may."""
    found = Settlement()
    said = Dependence(stacks)
    branches = _Branches(rules, stacks, facts, certain, undetermined, budget, again)
    for finding in undetermined:
        ends = branches.of(finding)
        if ends is None:
            found.undetermined.append(finding)
            continue
        held = [end for end in ends if end.violations]
        if len(held) == len(ends):
            result = _merged([end.violations for end in ends])
            found.violations.append(result)
        elif held:
            because, words = said.cases(finding.level, [one.case for one in held])
            shown = _merged([one.violations for one in held])
            result = replace(
                finding,
                message=shown.message,
                place=shown.place,
                because=because,
                depends=words,
                change=shown.change,
                tolerated=shown.tolerated,
            )
            found.undetermined.append(result)
        elif all(end.waived for end in ends):
            result = _merged([end.waived for end in ends])
            found.waived.append(result)
        else:
            found.identity.append(f"never {finding.policy} {finding.resource}")
            continue
        found.origins.append((result, finding))
        found.identity.append(f"{result.policy} {result.resource} {result.depends or result.message}")
    return found


def _merged(violations: Sequence[Sequence[Violation]]) -> Violation:
    """One finding for those of all branches: their common row, or else that of the first with what each says. It is
    tolerated if all of them are."""
    rows = set.intersection(*({violation.row for violation in some} for some in violations))
    result = next((violation for violation in violations[0] if violation.row in rows), None)
    if result is None:
        messages = dict.fromkeys(some[0].message for some in violations)
        more = ["..."] if len(messages) > WORDINGS else []
        result = replace(violations[0][0], message="; or ".join([*list(messages)[:WORDINGS], *more]))
    new = next((violation for some in violations for violation in some if not violation.tolerated), result)
    return replace(result, change=new.change, tolerated=new.tolerated)


def branches(
    because: Sequence[Unknown],
    looked: Callable[[Sequence[Case]], Iterable[Seen[T]]],
    under: Case = MappingProxyType({}),
    tries: int = 1,
) -> Iterator[T]:
    """What is found in all branches under a case, where something hangs on these unknowns. `looked` sees what is found
    in each of the cases that the values of one unknown make. Errors: Unsettled."""
    chosen = min(
        (base for base in _bases(because) if base not in under), key=lambda unknown: unknown.expression, default=None
    )
    if chosen is None:
        raise Unsettled
    tries *= len(chosen.domain)
    if tries > TRIES:
        raise Unsettled
    cases = [{**under, chosen: value} for value in chosen.domain]
    for case, (found, still) in zip(cases, looked(cases), strict=True):
        if still is None:
            yield found
        else:
            yield from branches(still, looked, case, tries)


class _Branches:
    """Judges the stacks under assumptions, each set of them once for all findings."""

    def __init__(
        self,
        rules: PolicySet,
        stacks: Sequence[Stack],
        facts: FactSet,
        certain: Sequence[Violation],
        undetermined: Sequence[Violation],
        budget: Budget,
        again: Again,
    ) -> None:
        ready = {violation.policy for violation in undetermined if _bases(violation.because)}
        ready -= {policy.id for policy in rules.policies if KNOWLEDGE in rules.reads[policy.relation]}
        policies = tuple(policy for policy in rules.policies if policy.id in ready)
        wanted = frozenset(policy.relation for policy in policies)
        self._rules = replace(rules, program=resting(rules.program, wanted), policies=policies, unlocks=())
        self._size = ALWAYS + sum(len(facts.rows.get(name, ())) for name in self._rules.program.inputs)
        self._size += sum(len(each.resources) for stack in stacks for each in stack.walk())
        self._size += sum(PER_FINDING for violation in (*certain, *undetermined) if violation.policy in ready)
        self._stacks, self._again = stacks, again
        self._known = {(violation.policy, violation.row) for violation in certain if SECRET not in violation.row}
        self._subjects = {
            (violation.policy, violation.resource) for violation in (*certain, *undetermined) if violation.resource
        }
        self._ready, self._budget = ready, budget
        self._until = None if budget.seconds is None else budget.clock() + budget.seconds
        self._judged: dict[frozenset[tuple[Unknown, Value]], Decision | None] = {}
        self._left = WORK

    def of(self, finding: Violation) -> list[_End] | None:
        """All branches in which the finding is open no more; None if it can't be settled."""
        if finding.policy not in self._ready or prod(len(base.domain) for base in _bases(finding.because)) > TRIES:
            return None
        try:
            return list(branches(finding.because, partial(self._looked, finding)))
        except Unsettled:
            return None

    def _looked(self, finding: Violation, cases: Sequence[Case]) -> Iterator[Seen[_End]]:
        """What the finding comes to in each case. Errors: Unsettled."""
        work = self._size * sum(_key(case) not in self._judged for case in cases)
        if work > self._left or self._size > LARGEST:
            raise Unsettled
        for case in cases:
            decision = self._under(case)
            if any(each.policy == finding.policy for each in decision.errors):
                raise Unsettled
            violations = [each for each in decision.violations if self._is(each, finding)]
            waived = [each for each in decision.waived if self._is(each, finding)]
            still = [each for each in decision.undetermined if self._is(each, finding)]
            because = [unknown for each in still for unknown in each.because]
            yield _End(case, violations, waived), because if still and not violations else None

    def _under(self, case: Mapping[Unknown, Value]) -> Decision:
        """What is decided if the unknowns have these values. Errors: Unsettled."""
        key = _key(case)
        if key not in self._judged:
            self._left -= self._size
            self._judged[key] = self._read(dict(key))
        decision = self._judged[key]
        if decision is None:
            raise Unsettled
        return decision

    def _read(self, values: Case) -> Decision | None:
        seconds = None if self._until is None else self._until - self._budget.clock()
        if seconds is not None and seconds <= 0:
            return None
        try:
            read = [replace(read_assuming(stack, values), live=stack.live) for stack in self._stacks]
            return self._again(self._rules, read, replace(self._budget, seconds=seconds))
        except (InputError, EngineError):
            return None

    def _is(self, violation: Violation, finding: Violation) -> bool:
        """Whether a finding under assumptions is of those that this one stands for without them: all about the same
        resource, or, as what a group may hold has no name yet, about one that nothing was found of."""
        if violation.policy != finding.policy or (violation.policy, violation.row) in self._known:
            return False
        return violation.resource == finding.resource or not (
            finding.resource or (violation.policy, violation.resource) in self._subjects
        )


def _key(case: Case) -> frozenset[tuple[Unknown, Value]]:
    return frozenset(case.items())


def _bases(unknowns: Sequence[Unknown]) -> tuple[Unknown, ...]:
    """The unknowns whose values decide all of these; none if one of them has no domain."""
    found = bases(unknowns)
    return found if all(unknown.domain for unknown in found) else ()


class Dependence:
    """Puts the unknowns of stacks into words."""

    def __init__(self, stacks: Sequence[Stack]) -> None:
        self._roots = {stack.id for stack in stacks}
        self._conditions: dict[object, str] = {}
        self._negated: dict[object, str] = {}
        for stack in (nested for root in stacks for nested in root.walk()):
            for name, truth in stack.conditions.items():
                if isinstance(truth, Unknown):
                    where = "" if stack.id in self._roots else f" of {stack.id}"
                    self._conditions.setdefault(truth.source, f"{CONDITION}{name}{where}")
                    if truth.function in ("not", "Fn::Not"):
                        self._negated.setdefault(truth.arguments, f"{CONDITION}{name}{where}")

    def on(self, because: Sequence[Unknown]) -> str:
        """What a finding hangs on: nothing if that is not known."""
        words = list(dict.fromkeys(self._word(part) for unknown in because for part in self._parts(unknown)))
        return f"depends on {_listed(words, ' and ')}" if words else ""

    def cases(self, level: Level, cases: Sequence[Case]) -> tuple[tuple[Unknown, ...], str]:
        """The unknowns that decide a finding which holds in these cases and no other, and when it holds."""
        found = _fewer(cases)
        because = _in_order({unknown for case in found for unknown in case})
        said = [" and ".join(self._is(unknown, case[unknown]) for unknown in _in_order(case)) for case in found]
        return tuple(because), f"{HELD[level]} if {_listed(said, '; or if ')}"

    def _is(self, unknown: Unknown, values: frozenset[Value]) -> str:
        word = self._word(unknown)
        negated = unknown.source in self._negated and unknown.source not in self._conditions
        if word.startswith(CONDITION) and unknown.domain == (FALSE, TRUE):
            return f"{word} {'holds' if (TRUE in values) != negated else 'does not hold'}"
        among = [_cut(show(value)) for value in unknown.domain if value in values]
        return f"{word} is {_listed(among, ' or ')}"

    def _parts(self, unknown: Unknown) -> tuple[Unknown, ...]:
        named = unknown.source in self._conditions
        return (unknown,) if named or not unknown.of else unknown.of

    def _word(self, unknown: Unknown) -> str:
        """An unknown in words: the condition, parameter or attribute that it is, or as it is written."""
        if unknown.hidden:
            return "a hidden value"
        if condition := self._conditions.get(unknown.source) or self._negated.get(unknown.source):
            return condition
        match unknown.function, unknown.arguments:
            case "get_param", str(name):
                return f"parameter {name}{self._home(unknown.stack, ' of ')}"
            case "get_attr" | "Fn::GetAtt", [str(name), *keys] if all(isinstance(key, str | int) for key in keys):
                return f"{'.'.join(map(str, keys)) or 'the name'} of `{name}`{self._home(unknown.stack, ' in ')}"
        return _cut(unknown.expression)

    def _home(self, stack: str, between: str) -> str:
        return "" if stack in self._roots else f"{between}{stack}"


def _in_order(unknowns: Iterable[Unknown]) -> list[Unknown]:
    return sorted(unknowns, key=lambda unknown: unknown.expression)


def _fewer(cases: Sequence[Case]) -> list[_Cases]:
    """The cases as few ones: two that differ in one unknown alone are one, and an unknown of any value is left out."""
    found: list[_Cases] = [{unknown: frozenset({value}) for unknown, value in case.items()} for case in cases]
    merged = len(found) <= MERGED
    while merged:
        merged = False
        for at, one in enumerate(found):
            for other in found[at + 1 :]:
                apart = [unknown for unknown in one.keys() | other.keys() if one.get(unknown) != other.get(unknown)]
                if len(apart) == 1 and apart[0] in one and apart[0] in other:
                    both = one[apart[0]] | other[apart[0]]
                    found.remove(other)
                    found[at] = {**one, apart[0]: both}
                    if both.issuperset(apart[0].domain):
                        del found[at][apart[0]]
                    merged = True
                    break
            if merged:
                break
    return found


def _listed(words: Sequence[str], between: str) -> str:
    more = [f"{len(words) - MOST} more"] if len(words) > MOST else []
    return between.join([*words[:MOST], *more])


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
