"""What is made of a checked program, kept for as long as the program is (layer 2).

In: a program, and what tells one thing made of it from another. Out: the thing, made when it is first asked for. A
policy set that nobody uses any more takes with it all that was made of its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from datalog_gate.analysis.program import CheckedProgram

T = TypeVar("T")
MOST = 32
"""How many things of a kind are kept of one program: stacks differ in what is not known of them."""


class Kept(Generic[T]):
    """Things of one kind. Threads may ask at the same time: two make the same."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[CheckedProgram, dict[Hashable, T]] = WeakKeyDictionary()

    def get(self, program: CheckedProgram, key: Hashable, make: Callable[[], T]) -> T:
        """The thing of that key. One that is the program itself is not kept: it would keep the program for ever."""
        made = self._made.get(program)
        if made is None:
            made = self._made.setdefault(program, {})
        found = made.get(key)
        if found is None:
            found = make()
            if len(made) >= MOST:
                made.clear()
            if found is not program:
                made[key] = found
        return found
