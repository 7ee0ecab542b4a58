"""Checks of the inventory and its tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from datalog_gate.api import Rules
from datalog_gate.base.errors import DiagnosticsError
from datalog_gate.decision.cloud_state import Inventory, Reading, read_readings
from datalog_gate.decision_point.inventory_source import STORE, open_store, read_inventory_lines
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.doctor import PREVIOUS, CheckResult, Locate, format_first, format_fix
from datalog_gate.facts.lines import FactLine
from datalog_gate.files.templates import unreadable

STALE = timedelta(days=7)
"""The age from which an inventory is a finding."""
STALE_TABLE = timedelta(days=1)
"""The age from which a table with a reading time is a finding: pulls happen every few minutes, or every night."""
PULL = "datalog-gate inventory pull"
MOST_TABLES = 5
"""The maximum number of tables that a finding names."""


def check_inventory(
    settings: Settings, rules: Rules | None, locate: Locate, now: datetime, heat_conf: str
) -> Iterator[CheckResult]:
    """Check the inventory that the options name."""
    place, pull = locate("inventory"), f"{PULL} --heat-conf {heat_conf}"
    if settings.inventory == STORE and not settings.store:
        message, fix = (
            "the inventory should be in the store, but no store is set",
            "write `store = URL`, or name a file",
        )
        yield CheckResult("finding", "inventory", message, place, f"{fix}: {PREVIOUS}")
        return
    try:
        lines, written = _read_lines(settings)
        readings = read_readings(lines)
        inventory = rules.inventory(lines) if rules else None
    except DiagnosticsError as error:
        fix = format_fix(error, "correct the line, or collect the inventory again")
        yield CheckResult("finding", "inventory", f"it can't be loaded: {format_first(error)}", place, fix)
        return
    if written is None:
        message = "the inventory should be in the store, but the store has none"
        yield CheckResult("finding", "inventory", message, place, f"{pull}: no service starts without it")
        return
    if settings.inventory == STORE and not any(line.relation != "gate:inventory" for line in lines):
        message = "the newest inventory in the store has no rows: rules see an empty cloud"
        yield CheckResult("finding", "inventory", message, place, f"see the output of `{pull}`")
    age = now - written
    if age > STALE:
        name = "in the store" if settings.inventory == STORE else settings.inventory
        message = f"the inventory {name} is {age.days} days old: rules see the cloud as it was then"
        fix = "collect it again into a new file, and replace the old one with `mv`"
        fix = f"start datalog-gate-inventory, or run `{pull}`" if settings.inventory == STORE else fix
        yield CheckResult("finding", "inventory", message, place, fix)
    for message, fix in (*_find_problems(readings), *_find_stale(readings, now)):
        yield CheckResult("finding", "inventory", message, place, fix)
    yield from _find_null_columns(inventory)


def _read_lines(settings: Settings) -> tuple[list[FactLine], datetime | None]:
    """Read the inventory without changing the store. Errors: InputError."""
    if settings.inventory == STORE:
        from datalog_gate.store.tables import REVISION
        from datalog_gate.store.transaction import read_revision

        store = open_store(settings)
        if store.missing or store.run_unchecked(read_revision) != REVISION:  # the store check reports the latter
            return [], None
    try:
        return read_inventory_lines(settings)
    except OSError as error:
        raise unreadable(settings.inventory, error) from None


def _find_problems(readings: dict[str, Reading]) -> Iterator[tuple[str, str]]:
    """The tables whose last reading failed, by reason."""
    for problem in dict.fromkeys(reading.problem for reading in readings.values() if reading.problem):
        tables = [table for table, reading in readings.items() if reading.problem == problem]
        yield (
            f"{_list(tables)} could not be read: {problem}",
            f"correct that, then run `{PULL}` again: the previous rows are used until then",
        )


def _find_stale(readings: dict[str, Reading], now: datetime) -> Iterator[tuple[str, str]]:
    """The tables that were not read for a long time without a failed attempt."""
    ages = {table: now - read for table, (read, problem) in readings.items() if read and not problem}
    stale = [table for table, age in ages.items() if age > STALE_TABLE]
    if stale:
        hours = max(ages.values()) // timedelta(hours=1)
        yield (
            f"{_list(stale)} {'was' if len(stale) == 1 else 'were'} read {hours} hours ago: rules see the cloud "
            "as it was then",
            f"see whether `{PULL} --every 5m` runs, as by `systemctl status datalog-gate-inventory`",
        )


def _find_null_columns(inventory: Inventory | None) -> Iterator[CheckResult]:
    if inventory is None:
        return
    for warning in inventory.warnings:
        yield CheckResult("finding", "inventory", warning.message, warning.span, warning.suggestion or "")


def _list(tables: list[str]) -> str:
    more = len(tables) - MOST_TABLES
    return ", ".join(tables[:MOST_TABLES]) + (f" and {more} more" if more > 0 else "")
