"""Plots of numbers over days, as data for inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from datalog_gate.base.records import dataclass

WIDTH, HEIGHT = 640, 160
LINES = 4
"""The maximum number of horizontal lines with numbers."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A step line: the number of a day holds until the next one."""

    path: str
    """The data of an SVG path."""
    marks: tuple[tuple[float, float, str], ...]
    """A point for each day, with its text."""
    scale: tuple[tuple[float, int], ...]
    """The height of each horizontal line, and its number."""
    first: str
    last: str
    """The first and last day."""


def plot_days(days: Sequence[Mapping[str, Any]]) -> Plot | None:
    """Plot the open findings of days such as ``{"day": "2027-03-01", "new": 3, "resolved": 1, "open": 2}``."""
    if not days:
        return None
    ordinals = [date.fromisoformat(day["day"]).toordinal() for day in days]
    span = max(ordinals[-1] - ordinals[0], 1)
    step = _step(max(day["open"] for day in days))
    top = step * LINES
    points = [
        (round((ordinal - ordinals[0]) / span * WIDTH, 1), round(HEIGHT - day["open"] / top * HEIGHT, 1))
        for ordinal, day in zip(ordinals, days, strict=True)
    ]
    path = f"M0 {HEIGHT}V{points[0][1]}" + "".join(f"H{x}V{y}" for x, y in points[1:]) + f"H{WIDTH}"
    words = [f"{day['day']}: {day['open']} open, {day['new']} new, {day['resolved']} resolved" for day in days]
    marks = tuple((x, y, text) for (x, y), text in zip(points, words, strict=True))
    scale = tuple((round(HEIGHT - at * HEIGHT / LINES, 1), at * step) for at in range(LINES + 1))
    return Plot(path, marks, scale, days[0]["day"], days[-1]["day"])


def _step(most: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50 and so on with which `LINES` lines reach `most`."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power * LINES >= most:
                return digit * power
        power *= 10
