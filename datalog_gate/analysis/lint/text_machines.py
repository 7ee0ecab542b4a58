"""Whether a text can pass several tests: ``matches(n, "^web$")`` beside ``starts_with(n, "db")``.

Each test is a machine that reads a text character by character. All of them read the same text. One character stands
for each set of characters that no pattern distinguishes. A pattern that is not understood accepts every text.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple, cast

from datalog_gate.analysis.constants import TESTS

Ranges = tuple[tuple[int, int], ...]
"""Characters by code point: the first and last of each range."""
Node = tuple[object, ...]
"""A part of a pattern: ``("set", ranges)``, ``("cat", a, b)``, ``("alt", a, b)``, ``("star", a)``, ``("start",)``,
``("end",)`` or ``("empty",)``."""
LAST = 0x10FFFF
ANY: Ranges = ((0, LAST),)
EMPTY: Node = ("empty",)
ALL: Node = ("star", ("set", ANY))
MOST_STEPS = 20_000
"""The maximum number of characters that a search reads. After that a text is assumed to exist."""
MOST_COPIES = 300
"""The maximum number of copies that a counted repetition makes."""
LONGEST = 200
_DIGITS, _LOWER, _UPPER = (48, 57), (97, 122), (65, 90)
CLASSES: dict[str, Ranges] = {
    "d": (_DIGITS,), "w": (_DIGITS, _UPPER, (95, 95), _LOWER), "s": ((9, 10), (12, 13), (32, 32)),
    "alpha": (_UPPER, _LOWER), "digit": (_DIGITS,), "alnum": (_DIGITS, _UPPER, _LOWER), "lower": (_LOWER,),
    "upper": (_UPPER,), "space": ((9, 13), (32, 32)), "word": (_DIGITS, _UPPER, (95, 95), _LOWER),
}  # fmt: skip
ESCAPES = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}
TWINS = {"k": 0x212A, "s": 0x17F}
"""Letters with a third form beside the other case, for patterns that ignore case."""


class TextTest(NamedTuple):
    """A test of a text by a builtin or ``=`` with its constant. ``lower`` and ``upper`` say that it is their result."""

    name: str
    part: str = ""
    negated: bool = False

    def __str__(self) -> str:
        shown = f"the result of {self.name}" if self.name in ("lower", "upper") else f'{self.name} "{self.part}"'
        return f"{'not ' if self.negated else ''}{shown}"


def find_exclusion(tests: Sequence[TextTest], low: int = 0, high: int | None = None) -> list[TextTest] | None:
    """The fewest tests that no text of `low` to `high` characters passes together; None if one may pass all."""
    if _is_possible(tuple(tests), low, high):
        return None
    left = list(dict.fromkeys(tests))
    for test in tuple(left):
        fewer = [other for other in left if other is not test]
        if not _is_possible(tuple(fewer), low, high):
            left = fewer
    return left


@lru_cache(maxsize=1_000)
def _is_possible(tests: tuple[TextTest, ...], low: int, high: int | None) -> bool:
    def may_pass(texts: Sequence[str], tests: Sequence[TextTest]) -> bool:
        fitting = (
            text for text in (*texts, "".join(texts)) if low <= len(text) and (high is None or len(text) <= high)
        )
        return any(all(_passes(text, test) for test in tests) for text in fitting)

    if may_pass([test.part for test in tests if not test.negated and test.name != "matches"], tests):
        return True  # usually, which saves a search
    known = [(test, node) for test in tests if len(test.part) <= LONGEST and (node := node_of(test))]
    nodes = [(node, test.negated) for test, node in known]
    longest = max(low, -1 if high is None else high) + 1
    """A text of this length stands for all longer ones."""
    examples = [_example(node) for node, negated in nodes if not negated]
    if may_pass(["".join(map(chr, example)) for example in examples], [test for test, _ in known]):
        return True
    letters = _letters([node for node, _ in nodes])
    first = (tuple(frozenset((node,)) for node, _ in nodes), 0)
    waiting, seen, steps = deque([first]), {first}, 0
    while waiting:
        states, length = waiting.popleft()
        is_long_enough = low <= length and (high is None or length <= high)
        readers = zip(states, nodes, strict=True)
        if is_long_enough and all(_accepts(state, not length) != negated for state, (_, negated) in readers):
            return True
        for letter in letters:
            steps += 1
            if steps > MOST_STEPS:
                return True
            after = tuple(_step(state, letter, not length) for state in states), min(length + 1, longest)
            dead = any(not state and not negated for state, (_, negated) in zip(after[0], nodes, strict=True))
            if after not in seen and not dead and (high is None or after[1] <= high):
                seen.add(after)
                waiting.append(after)
    return False


def _passes(text: str, test: TextTest) -> bool:
    match test.name:
        case "=":
            holds = text == test.part
        case "lower" | "upper":
            holds = getattr(text, test.name)() == text
        case _:
            holds = TESTS[test.name](text, test.part)
    return holds != test.negated


def _example(node: Node) -> list[int]:
    """A text that the part matches if its anchors fit."""
    match node:
        case ("set", ranges):
            return [low for low, _ in cast(Ranges, ranges)[:1]]
        case ("cat", left, right):
            return _example(cast(Node, left)) + _example(cast(Node, right))
        case ("alt", left, _):
            return _example(cast(Node, left))
    return []


def _accepts(state: frozenset[Node], at_start: bool) -> bool:
    return any(_is_empty(node, at_start, at_end=True) for node in state)


@lru_cache(maxsize=10_000)
def _step(state: frozenset[Node], letter: int, at_start: bool) -> frozenset[Node]:
    return frozenset(rest for node in state for rest in _after(node, letter, at_start))


def _letters(nodes: Sequence[Node]) -> list[int]:
    """One character of each set that no pattern distinguishes."""
    points = {0}
    for node in nodes:
        for low, high in _ranges(node):
            points |= {low, high + 1}
    return sorted(point for point in points if point <= LAST)


def _ranges(node: Node) -> Iterator[tuple[int, int]]:
    match node:
        case ("set", ranges):
            yield from cast(Ranges, ranges)
        case (str(), *parts):
            for part in parts:
                yield from _ranges(cast(Node, part))


def _is_empty(node: Node, at_start: bool, at_end: bool) -> bool:
    """Whether the part can match no characters, in the middle or at the start or end of the text."""
    match node:
        case ("cat", left, right):
            return all(_is_empty(cast(Node, part), at_start, at_end) for part in (left, right))
        case ("alt", left, right):
            return any(_is_empty(cast(Node, part), at_start, at_end) for part in (left, right))
        case ("start",):
            return at_start
        case ("end",):
            return at_end
    return node[0] in ("empty", "star")


def _after(node: Node, letter: int, at_start: bool) -> Iterator[Node]:
    """The rest that must match after the character (partial derivatives: Antimirov 1996)."""
    match node:
        case ("set", ranges):
            if any(low <= letter <= high for low, high in cast(Ranges, ranges)):
                yield EMPTY
        case ("cat", left, right):
            for rest in _after(cast(Node, left), letter, at_start):
                yield cast(Node, right) if rest == EMPTY else ("cat", rest, right)
            if _is_empty(cast(Node, left), at_start, at_end=False):
                yield from _after(cast(Node, right), letter, at_start)
        case ("alt", left, right):
            yield from _after(cast(Node, left), letter, at_start)
            yield from _after(cast(Node, right), letter, at_start)
        case ("star", part):
            for rest in _after(cast(Node, part), letter, at_start):
                yield node if rest == EMPTY else ("cat", rest, node)


@lru_cache(maxsize=256)
def node_of(test: TextTest) -> Node | None:
    """A pattern for the whole of each text that passes the test; None if it is not known."""
    text = _sequence(("set", ((ord(letter), ord(letter)),)) for letter in test.part)
    match test.name:
        case "=":
            return text
        case "starts_with":
            return ("cat", text, ALL)
        case "ends_with":
            return ("cat", ALL, text)
        case "contains":
            return ("cat", ALL, ("cat", text, ALL))
        case "lower":
            return ("star", ("set", _others((_UPPER,))))
        case "upper":
            return ("star", ("set", _others((_LOWER,))))
    with suppress(_UnknownSyntaxError):
        return ("cat", ALL, ("cat", _Pattern(test.part).read(), ALL))
    return None


def _sequence(parts: Iterable[Node]) -> Node:
    """The parts one after another."""
    whole = EMPTY
    for part in reversed(list(parts)):
        whole = part if whole == EMPTY else ("cat", part, whole)
    return whole


def _others(ranges: Ranges) -> Ranges:
    """All characters except those."""
    gaps, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            gaps.append((start, low - 1))
        start = max(start, high + 1)
    return (*gaps, (start, LAST)) if start <= LAST else tuple(gaps)


class _UnknownSyntaxError(Exception):
    """The pattern has syntax that is not supported here."""


class _Pattern:
    """Reads a pattern in RE2's syntax (https://github.com/google/re2/wiki/Syntax)."""

    def __init__(self, text: str) -> None:
        self._folds = text.startswith("(?i)")
        self._text, self._at = text[4:] if self._folds else text, 0

    def read(self) -> Node:
        node = self._alternatives()
        if self._at < len(self._text):
            raise _UnknownSyntaxError
        return node

    def _next(self, text: str) -> bool:
        """Whether the text comes next; if so, read it."""
        is_next = self._text.startswith(text, self._at)
        self._at += len(text) if is_next else 0
        return is_next

    def _letter(self) -> str:
        if self._at == len(self._text):
            raise _UnknownSyntaxError
        self._at += 1
        return self._text[self._at - 1]

    def _alternatives(self) -> Node:
        node = self._branch()
        while self._next("|"):
            node = ("alt", node, self._branch())
        return node

    def _branch(self) -> Node:
        parts = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._repeated(self._part()))
        return _sequence(parts)

    def _repeated(self, part: Node) -> Node:
        least, most = 1, 1
        counted = re.compile(r"\{(\d{1,4})(,?)(\d{0,4})\}").match(self._text, self._at)
        if counted:
            self._at = counted.end()
            least = int(counted[1])
            most = int(counted[3]) if counted[3] else -1 if counted[2] else least
        else:
            for sign, bounds in (("*", (0, -1)), ("+", (1, -1)), ("?", (0, 1))):
                if self._next(sign):
                    least, most = bounds
                    break
            else:
                return part
        self._next("?")
        if max(least, most) * _size(part) > MOST_COPIES:
            raise _UnknownSyntaxError
        optional = EMPTY
        for _ in range(most - least):
            optional = ("alt", EMPTY, ("cat", part, optional))
        return _sequence([*[part] * least, ("star", part) if most < 0 else optional])

    def _part(self) -> Node:
        letter = self._letter()
        match letter:
            case "(":
                if not self._next("?:") and self._next("?"):
                    raise _UnknownSyntaxError
                node = self._alternatives()
                if not self._next(")"):
                    raise _UnknownSyntaxError
                return node
            case "[":
                return ("set", self._class())
            case ".":
                return ("set", _others(((10, 10),)))
            case "^":
                return ("start",)
            case "$":
                return ("end",)
            case "\\" if self._next("A"):
                return ("start",)
            case "\\" if self._next("z"):
                return ("end",)
            case "\\":
                return ("set", self._folded(self._escape()))
        return ("set", self._folded(((ord(letter), ord(letter)),)))

    def _class(self) -> Ranges:
        negated = self._next("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self._next("]"):
            first = False
            low = self._member()
            if _is_one(low) and re.compile("-[^]]").match(self._text, self._at):
                self._next("-")
                high = self._member()
                if not _is_one(high):
                    raise _UnknownSyntaxError
                low = ((low[0][0], high[0][0]),)
            ranges += low
        folded = self._folded(tuple(ranges))
        return _others(folded) if negated else folded

    def _member(self) -> Ranges:
        """A character or class within brackets."""
        if named := re.compile(r"\[:(\^?)(\w+):\]").match(self._text, self._at):
            self._at = named.end()
            if named[2] not in CLASSES:
                raise _UnknownSyntaxError
            return _others(CLASSES[named[2]]) if named[1] else CLASSES[named[2]]
        letter = self._letter()
        return self._escape() if letter == "\\" else ((ord(letter), ord(letter)),)

    def _escape(self) -> Ranges:
        letter = self._letter()
        if letter.lower() in ("d", "w", "s"):
            return CLASSES[letter] if letter.islower() else _others(CLASSES[letter.lower()])
        if letter in ESCAPES:
            return ((ESCAPES[letter], ESCAPES[letter]),)
        if letter.isalnum():
            raise _UnknownSyntaxError
        return ((ord(letter), ord(letter)),)

    def _folded(self, ranges: Ranges) -> Ranges:
        """The characters, and their other case if case is ignored."""
        if not self._folds:
            return ranges
        if any(high > 127 and (low, high) != (128, LAST) for low, high in ranges):
            raise _UnknownSyntaxError
        letters = [chr(point) for low, high in ranges for point in range(low, min(high, 127) + 1)]
        more = [ord(letter.swapcase()) for letter in letters] + [
            TWINS[low] for c in letters if (low := c.lower()) in TWINS
        ]
        return (*ranges, *((point, point) for point in more))


def _is_one(ranges: Ranges) -> bool:
    """Whether the ranges hold a single character."""
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def _size(node: Node) -> int:
    return 1 + sum(_size(part) for part in node[1:] if isinstance(part, tuple) and node[0] != "set")
