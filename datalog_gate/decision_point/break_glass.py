"""The break-glass file: refused requests pass for a while."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from datalog_gate.decision.decision import read_instant

LOG = logging.getLogger(__name__)
LONGEST = timedelta(days=1)
"""The longest time ahead that counts, so that a forgotten file does not open the gate for good."""


@dataclass(frozen=True, slots=True)
class BreakGlass:
    """The end of the override (UTC), and the reason for it."""

    until: datetime
    why: str


def read_break_glass(path: str, now: datetime) -> BreakGlass | None:
    """Read the file: an ISO 8601 time, a space, and a reason, as in ``2027-03-01T12:00 the licence server is down``.

    None if there is no file, it cannot be read, or its time is past or more than `LONGEST` ahead.
    """
    if not path:
        return None
    try:
        time, _, why = Path(path).read_text("utf-8").strip().partition(" ")
        until = read_instant(time)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        LOG.error(
            "break-glass file %s is ignored: %s; write a time like 2027-03-01T12:00, a space, and why", path, error
        )
        return None
    if until > now + LONGEST:
        LOG.error("break-glass file %s is ignored: %s is more than a day ahead", path, until.isoformat())
        return None
    return BreakGlass(until, why.strip() or "no reason given") if until > now else None
