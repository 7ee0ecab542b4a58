"""The effort of a search, counted in steps."""

from __future__ import annotations

JUDGEMENT = 100
"""How many steps a judgement of a case counts."""


class Effort:
    """The steps that are left, so that a search ends, and always at the same place."""

    def __init__(self, most: int) -> None:
        self.left = most
        self.spent = 0
        self._own = most

    def begin(self, most: int) -> None:
        """Begin a part of the search, with a maximum number of steps of its own."""
        self._own = most

    def spend(self, steps: int = 1) -> bool:
        """Count steps. Whether some are left."""
        self.left -= steps
        self.spent += steps
        self._own -= steps
        return self.is_left

    @property
    def is_left(self) -> bool:
        return self.left > 0 and self._own > 0
