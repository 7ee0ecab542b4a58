"""A cache of what is computed from a checked program.

When nobody uses a policy set any more, everything that was computed from its rules is freed with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from datalog_gate.analysis.program import CheckedProgram

T = TypeVar("T")
MAX_ENTRIES = 32
"""The maximum number of values for each program: stacks differ in their unknowns."""


class ProgramCache(Generic[T]):
    """Values of one kind by program and key. If two threads need a missing value, both compute it."""

    def __init__(self) -> None:
        self._values: WeakKeyDictionary[CheckedProgram, dict[Hashable, T]] = WeakKeyDictionary()

    def get(self, program: CheckedProgram, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the value with that key, computed if it is missing.

        A value that is the program itself is not stored: it would keep the program in use for ever.
        """
        values = self._values.get(program)
        if values is None:
            values = self._values.setdefault(program, {})
        value = values.get(key)
        if value is None:
            value = compute()
            if len(values) >= MAX_ENTRIES:
                values.clear()
            if value is not program:
                values[key] = value
        return value
