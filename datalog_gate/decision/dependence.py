"""What an undetermined finding hangs on, in words (layer 4).

In: the unknowns that decide a finding, and where they were tried the values for which it holds. Out: a clause such as
"denied if parameter az is nova-2", bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from datalog_gate.analysis.policy import Level
from datalog_gate.base.values import FALSE, HIDDEN, TRUE, Unknown, Value, show
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

_PARAMETER = re.compile(r'\{get_param: ("[^"{}\[\]]*"|[^"{}\[\],]+)\} in (.+)')
_NEGATED = re.compile(r"\{(?:Fn::N|n)ot: (.+)\} in (.+)")
_ATTRIBUTE = re.compile(r"\{(?:get_attr|Fn::GetAtt): \[([^{}\[\]]*)\]\} in (.+)")


class Dependence:
    """Puts the unknowns of stacks into words."""

    def __init__(self, stacks: Sequence[Stack]) -> None:
        self._roots = {stack.id for stack in stacks}
        self._conditions: dict[str, str] = {}
        self._negated: dict[str, str] = {}
        for stack in (nested for root in stacks for nested in root.walk()):
            for name, truth in stack.conditions.items():
                if isinstance(truth, Unknown):
                    where = "" if stack.id in self._roots else f" of {stack.id}"
                    self._conditions.setdefault(truth.expression, f"{CONDITION}{name}{where}")
                    if found := _NEGATED.fullmatch(truth.expression):
                        self._negated.setdefault(f"{found[1]} in {found[2]}", f"{CONDITION}{name}{where}")

    def on(self, because: Sequence[Unknown]) -> str:
        """What a finding hangs on: nothing if that is not known."""
        words = list(dict.fromkeys(self._word(part) for unknown in because for part in self._parts(unknown)))
        return f"depends on {_listed(words, ' and ')}" if words else ""

    def cases(self, level: Level, cases: Sequence[Case]) -> tuple[tuple[Unknown, ...], str]:
        """The unknowns that decide a finding which holds in these cases and no other, and when it holds."""
        found = _fewer(cases)
        because = {unknown.expression: unknown for case in found for unknown in case}
        said = [
            " and ".join(
                self._is(unknown, case[unknown]) for unknown in sorted(case, key=lambda unknown: unknown.expression)
            )
            for case in found
        ]
        return tuple(because[one] for one in sorted(because)), f"{HELD[level]} if {_listed(said, '; or if ')}"

    def _is(self, unknown: Unknown, values: frozenset[Value]) -> str:
        word = self._word(unknown)
        negated = unknown.expression in self._negated and unknown.expression not in self._conditions
        if word.startswith(CONDITION) and unknown.domain == (FALSE, TRUE):
            return f"{word} {'holds' if (TRUE in values) != negated else 'does not hold'}"
        among = [_cut(show(value)) for value in unknown.domain if value in values]
        return f"{word} is {_listed(among, ' or ')}"

    def _parts(self, unknown: Unknown) -> tuple[Unknown, ...]:
        named = unknown.expression in self._conditions
        return (unknown,) if named or not unknown.of else unknown.of

    def _word(self, unknown: Unknown) -> str:
        """An unknown in words: the condition, parameter or attribute that it is, or as it is written."""
        if unknown.expression.startswith(HIDDEN):
            return "a hidden value"
        if name := self._conditions.get(unknown.expression) or self._negated.get(unknown.expression):
            return name
        if found := _PARAMETER.fullmatch(unknown.expression):
            return f"parameter {_bare(found[1])}{self._home(found[2], ' of ')}"
        if found := _ATTRIBUTE.fullmatch(unknown.expression):
            name, *keys = map(_bare, found[1].split(", "))
            return f"{'.'.join(keys) or 'the name'} of `{name}`{self._home(found[2], ' in ')}"
        return _cut(unknown.expression)

    def _home(self, stack: str, between: str) -> str:
        return "" if stack in self._roots else f"{between}{stack}"


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


def _bare(word: str) -> str:
    return word.strip('"')


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
