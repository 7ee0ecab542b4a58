"""The break-glass file: refused requests pass for a while."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from pathlib import Path

from datalog_gate.base.records import dataclass
from datalog_gate.decision.decision import read_instant

LOG = logging.getLogger(__name__)
LONGEST = timedelta(days=1)
"""The maximum time ahead, so that a forgotten file does not open the gate forever."""


@dataclass(frozen=True, slots=True)
class BreakGlass:
    """The end of the override (UTC), and the reason for it."""

    until: datetime
    why: str


def read_break_glass(path: str, now: datetime) -> BreakGlass | None:
    """Read the file as `load_break_glass` does. A bad file is ignored, with an ERROR in the service's log."""
    try:
        return load_break_glass(path, now)
    except (OSError, ValueError) as error:
        LOG.error("break-glass file %s is ignored: %s", path, error)
        return None


def load_break_glass(path: str, now: datetime) -> BreakGlass | None:
    """Load the file: an ISO 8601 time, a space, and a reason, as in ``2027-03-01T12:00 the licence server is down``.
    None if there is no file or its time has passed. Errors: OSError; ValueError for a bad text, or a time more than
    `LONGEST` ahead."""
    if not path:
        return None
    try:
        time, _, why = Path(path).read_text("utf-8").strip().partition(" ")
        until = read_instant(time)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"it must contain a time like 2027-03-01T12:00, a space, and the reason: {error}") from None
    if until > now + LONGEST:
        raise ValueError(f"{until.isoformat()} is more than a day ahead")
    return BreakGlass(until, why.strip() or "no reason given") if until > now else None
