"""Reasons that Heat can store as the status of a stack."""

from __future__ import annotations

MAX_LENGTH = 2000
"""Maximum characters of a reason, as in `decision_point.operation.REASON`."""


def storable(reason: str) -> str:
    """The reason, truncated, with only characters that every database of Heat stores."""
    return "".join(char if char.isprintable() and char <= "\uffff" else "?" for char in reason[:MAX_LENGTH])
