"""What an undetermined finding hangs on, in words (layer 4).

In: the unknowns that decide a finding, and where they were tried the values for which it holds. Out: a clause such as
"denied if parameter az is nova-2", bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from datalog_gate.analysis.policy import Level
from datalog_gate.base.values import FALSE, TRUE, Unknown, Value, show
from datalog_gate.stack.model import Stack

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
