"""What an undetermined finding depends on, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from datalog_gate.analysis.policy import Level
from datalog_gate.base.diagnostics import shorten
from datalog_gate.base.expression import Expression
from datalog_gate.base.unknown import EQUALITY
from datalog_gate.base.values import FALSE, TRUE, ResourceId, Unknown, Value, show
from datalog_gate.stack.model import Stack, sizes

MOST = 3
"""The maximum number of unknowns, values or cases that are listed."""
LONGEST = 80
"""The maximum number of characters of an expression or value that are shown."""
MERGED = 64
"""The maximum number of cases that are compared with each other to merge them."""
VERBS = {"deny": "denied", "warn": "warned of", "record": "recorded"}
Case = Mapping[Unknown, Value]
"""Values of unknowns: an assumption."""
MergedCase = dict[Unknown, frozenset[Value]]


class Dependence:
    """Describes what an undetermined finding depends on, such as "denied if parameter az is nova-2". Conditions,
    parameters and attributes are shown by name, other unknowns as written."""

    def __init__(self, stacks: Sequence[Stack]) -> None:
        self._roots = {stack.id for stack in stacks}
        self._conditions: dict[object, str] = {}
        self._negated: dict[object, str] = {}
        self._sizes: dict[object, dict[str, None]] = {}
        self._crowds: set[object] = set()
        for stack in (nested for root in stacks for nested in root.walk()):
            for name, truth in stack.conditions.items():
                if isinstance(truth, Unknown):
                    where = "" if stack.id in self._roots else f" of {stack.id}"
                    self._conditions.setdefault(truth.source, f"condition {name}{where}")
                    if truth.source.function in ("not", "Fn::Not"):
                        self._negated.setdefault(truth.source.arguments, f"condition {name}{where}")
            for resource in stack.resources:
                for unknown in sizes(resource):
                    self._sizes.setdefault(unknown.source, {})[self._short(resource.id)] = None
                    if unknown == resource.open_members:
                        self._crowds.add(unknown.source)

    def format_unknowns(self, because: Sequence[Unknown]) -> str:
        """Describe the unknowns that a finding depends on, if the values for which it holds are not known."""
        if len(because) == 1 and because[0].source in self._sizes:
            crowd = ", too many to list each" if because[0].source in self._crowds else ""
            return f"depends on {self._size(because[0], ', which')}{crowd}"
        words = list(dict.fromkeys(self._name(part) for unknown in because for part in self._split_unknown(unknown)))
        return f"depends on {_join(words, ' and ')}" if words else ""

    def format_cases(self, level: Level, cases: Sequence[MergedCase]) -> tuple[tuple[Unknown, ...], str]:
        """Describe when a finding holds exactly in these cases; also return the unknowns that decide it."""
        because = _in_order({unknown for case in cases for unknown in case})
        clauses = [" and ".join(self._clause(unknown, case[unknown]) for unknown in _in_order(case)) for case in cases]
        causes = [self._size(unknown) for unknown in because if unknown.source in self._sizes and unknown.of]
        return tuple(because), "; ".join([f"{VERBS[level]} if {_join(clauses, '; or if ')}", *causes])

    def _clause(self, unknown: Unknown, values: frozenset[Value]) -> str:
        name = self._name(unknown)
        negated = unknown.source in self._negated and unknown.source not in self._conditions
        if name == self._condition(unknown) and unknown.domain == (FALSE, TRUE):
            return f"{name} {'holds' if (TRUE in values) != negated else 'does not hold'}"
        among = [shorten(show(value), LONGEST) for value in unknown.domain if value in values]
        return f"{name} is {_join(among, ' or ')}"

    def _split_unknown(self, unknown: Unknown) -> tuple[Unknown, ...]:
        whole = unknown.source in self._conditions or unknown.source.function == EQUALITY
        return (unknown,) if whole or not unknown.of else unknown.of

    def _size(self, unknown: Unknown, link: str = "") -> str:
        """The sentence about an unknown that decides how many members groups have, with `link` before its verb."""
        deciding = list(dict.fromkeys(self._name(part) for part in unknown.of or (unknown,)))
        groups = list(self._sizes[unknown.source])
        verbs = "decides" if len(deciding) == 1 else "decide", "has" if len(groups) == 1 else "have"
        return f"{_join(deciding, ' and ')}{link} {verbs[0]} how many members {_join(groups, ' and ')} {verbs[1]}"

    def _short(self, resource: ResourceId) -> str:
        return resource.name if resource.stack in self._roots else resource.path

    def _condition(self, unknown: Unknown) -> str | None:
        return self._conditions.get(unknown.source) or self._negated.get(unknown.source)

    def _name(self, unknown: Unknown) -> str:
        if unknown.hidden:
            return "a hidden value"
        if unknown.of and unknown.source in self._sizes:
            return f"the number of members of {_join(list(self._sizes[unknown.source]), ' and ')}"
        if condition := self._condition(unknown):
            return condition
        source = unknown.source
        match source.function, source.arguments:
            case fn, tuple(sources) if fn == EQUALITY:
                names = [self._name(Unknown(part)) for part in sources if isinstance(part, Expression)]
                equal = [f"{left} is {right}" for left, right in zip(names[::2], names[1::2], strict=True)]
                return f"{EQUALITY} {_join(equal, ' and ')}"
            case "get_param", str(name):
                return f"parameter {name}{self._home(source.stack, ' of ')}"
            case "get_attr" | "Fn::GetAtt", [str(name), *keys] if all(isinstance(key, str | int) for key in keys):
                return f"{'.'.join(map(str, keys)) or 'the name'} of `{name}`{self._home(source.stack, ' in ')}"
        return shorten(unknown.expression, LONGEST)

    def _home(self, stack: str, between: str) -> str:
        return "" if stack in self._roots else f"{between}{stack}"


def _in_order(unknowns: Iterable[Unknown]) -> list[Unknown]:
    return sorted(unknowns, key=lambda unknown: unknown.expression)


def merge_cases(cases: Sequence[Case]) -> list[MergedCase]:
    """Merge cases that differ in only one unknown, and drop unknowns that may have any value."""
    merged: list[MergedCase] = [{unknown: frozenset({value}) for unknown, value in case.items()} for case in cases]
    if len(merged) <= MERGED:
        while _merge_two(merged):
            pass
    return merged


def _merge_two(cases: list[MergedCase]) -> bool:
    """Merge the first two cases that can be merged; return whether there were any."""
    for case, other in combinations(cases, 2):
        differing = [unknown for unknown in case.keys() | other.keys() if case.get(unknown) != other.get(unknown)]
        if len(differing) == 1 and differing[0] in case and differing[0] in other:
            unknown = differing[0]
            case[unknown] |= other[unknown]
            cases.remove(other)
            if case[unknown].issuperset(unknown.domain):
                del case[unknown]
            return True
    return False


def _join(words: Sequence[str], between: str) -> str:
    more = [f"{len(words) - MOST} more"] if len(words) > MOST else []
    return between.join([*words[:MOST], *more])
