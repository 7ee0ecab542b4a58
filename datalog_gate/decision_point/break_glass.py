"""The broken glass (layer 6): an operator's word, in a file, that refused requests shall pass for a while."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

LOG = logging.getLogger(__name__)
LONGEST = timedelta(days=1)
"""No glass stays broken for longer: a file that is forgotten must not open the gate for good."""


@dataclass(frozen=True, slots=True)
class BrokenGlass:
    """Until when (UTC), and why."""

    until: datetime
    why: str


def broken(path: str, now: datetime) -> BrokenGlass | None:
    """What the file says, if its time is still to come and no further away than `LONGEST`. What can't be read breaks no
    glass."""
    if not path:
        return None
    try:
        time, _, why = Path(path).read_text("utf-8").strip().partition(" ")
        until = datetime.fromisoformat(time)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        LOG.error("%s breaks no glass: %s; write a time like 2027-03-01T12:00, a space, and why", path, error)
        return None
    until = until.astimezone(UTC) if until.tzinfo else until.replace(tzinfo=UTC)
    if until > now + LONGEST:
        LOG.error("%s breaks no glass: %s is more than a day ahead", path, until.isoformat())
        return None
    return BrokenGlass(until, why.strip() or "no reason given") if until > now else None
