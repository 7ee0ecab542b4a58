"""The inventory that doors use: a file, or the store."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from datalog_gate.api import Rules
from datalog_gate.base.errors import InputError
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision_point.settings import Settings
from datalog_gate.decision_point.watched_files import FileStates, read_states
from datalog_gate.facts.lines import read
from datalog_gate.files.inputs import fact_lines

if TYPE_CHECKING:
    from datalog_gate.store.transaction import Store

STORE = "store"
"""The value of the option `inventory` that means the store; a file of this name is `./store`."""
WAIT = 3.0
"""Seconds that reading the store waits for locks."""


class LoadedInventory(NamedTuple):
    """An inventory, and when it was written (UTC); None if no inventory is configured."""

    inventory: Inventory
    written: datetime | None


def read_source_states(settings: Settings) -> FileStates:
    """Read the states that change with the inventory. The newest generation of the store is treated as a file."""
    if settings.inventory != STORE:
        return read_states(lambda: [Path(settings.inventory)] if settings.inventory else [])
    from datalog_gate.store.generations import find_newest

    try:
        newest = find_newest(open_store(settings))
    except InputError:
        newest = None
    return {STORE: (newest.number, 1, int(newest.at * 1e6)) if newest else (0, 0, 0)}


def load_inventory(settings: Settings, rules: Rules, before: Inventory | None) -> LoadedInventory:
    """Load the inventory for the rules. It shares unchanged tables with the one `before` it. Errors: InputError,
    OSError."""
    if not settings.inventory:
        return LoadedInventory(rules.inventory([], before), None)
    if settings.inventory != STORE:
        file = Path(settings.inventory)
        written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
        return LoadedInventory(rules.inventory(fact_lines(file), before), written)
    from datalog_gate.store.generations import find_newest, read_lines

    store = open_store(settings)
    newest = find_newest(store)
    text = read_lines(store, newest.number) if newest else None
    if newest is None or text is None:
        raise InputError.of("the store has no inventory", suggestion="datalog-gate inventory pull --store URL")
    lines = read(text, "the store's inventory")
    return LoadedInventory(rules.inventory(lines, before), datetime.fromtimestamp(newest.at, UTC))


def open_store(settings: Settings, what: str = "inventory") -> Store:
    """Open the configured store for reading. All errors, including its later ones, are InputErrors."""
    if not settings.store:
        raise InputError.of(f"the {what} should be in the store, but the option store is not set")
    try:
        return _open_store(settings.store, what)
    except ValueError as error:
        raise InputError.of(f"the {what} can't be read: {error}") from None


@lru_cache(4)
def _open_store(url: str, what: str) -> Store:
    """A store that is kept: once its tables are checked, it is read without waiting for those who write."""
    from datalog_gate.store.transaction import Store

    return Store(url, lambda why: InputError.of(f"the {what} can't be read: {why}"), WAIT)
