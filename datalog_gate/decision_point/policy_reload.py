"""The options and rules in force, reloaded when their files change.

Each decision uses one `InForce`, which is replaced by one assignment. The request that first sees a change loads the
new files; meanwhile other requests use the old ones. A changed inventory is loaded by a thread, since that takes
seconds and happens every few minutes. All requests use the old one until then.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Literal, NamedTuple

from datalog_gate.api import Rules
from datalog_gate.base.errors import DiagnosticsError, InputError
from datalog_gate.base.records import dataclass, fields, replace
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.decision import Waiver
from datalog_gate.decision.policy_set import load
from datalog_gate.decision_point.config_options import OptionFiles
from datalog_gate.decision_point.inventory_source import (
    STORE,
    LoadedInventory,
    load_inventory,
    open_store,
    read_source_states,
)
from datalog_gate.decision_point.roles import Entitlements
from datalog_gate.decision_point.settings import LIVE_OPTIONS, Settings
from datalog_gate.decision_point.watched_files import FileStates, WatchedFiles, read_states
from datalog_gate.files.rules import find_rules, read_rules, shipped_rules
from datalog_gate.files.templates import read_catalogue

LOG = logging.getLogger(__name__)
Source = Literal["rules", "options", "policy_file"]
_RULE_OPTIONS = ("rules", "catalogue", "inventory", "waivers")
"""The options that name the files of a ruleset."""


@dataclass(frozen=True, slots=True)
class Ruleset:
    """Rules with the inventory and the waivers loaded with them."""

    rules: Rules
    inventory: Inventory
    written: datetime | None
    """When the inventory was written (UTC), if there is one."""
    waivers: tuple[Waiver, ...]

    def ages(self, now: datetime) -> dict[str, float]:
        """The ages in seconds of the inventory, and of its oldest table by name."""
        ages = {"inventory": (now - self.written).total_seconds()} if self.written else {}
        tables = [(seconds, table) for table, seconds in self.inventory.ages(now)]
        return {**ages, **{table: float(seconds) for seconds, table in sorted(tables)[-1:]}}


class InForce(NamedTuple):
    """The data that a decision is made with."""

    settings: Settings
    ruleset: Ruleset


class _RuleFiles(NamedTuple):
    """Rules, and the data that is loaded for them."""

    rules: Rules
    waivers: tuple[Waiver, ...]
    inventory: WatchedFiles[LoadedInventory]


class _Loaded(NamedTuple):
    """Options, and the ruleset that they name."""

    settings: Settings
    files: WatchedFiles[_RuleFiles]


class PolicyReloader:
    """Loads the rules that the settings name, and reloads options, rules and entitlements on change.

    Calls `changed` with what was in force before (None at first) and what is now, and `failed` with each failed load.
    Without `options` the settings do not change. Errors on creation: RulesError, InputError.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float],
        changed: Callable[[InForce | None, InForce], None],
        failed: Callable[[Source, DiagnosticsError], None],
        options: OptionFiles | None = None,
        entitlements: Entitlements | None = None,
    ) -> None:
        self._clock, self._changed, self._failed = clock, changed, failed
        self._option_files, self._entitlements = options, entitlements
        self._process, self._lock = os.getpid(), Lock()
        self._loading: Thread | None = None
        self._checked = clock()
        states = partial(read_states, options.paths if options else tuple)
        self._loaded = WatchedFiles(states, partial(self._load_options, settings))
        self.in_force = InForce(settings, _compose(self._loaded.value.files.value))
        """The data in force at the last check."""
        changed(None, self.in_force)

    def current(self) -> InForce:
        """The data in force, reloaded if its files have changed."""
        self._notice_fork()
        due = self._clock() - self._checked >= self.in_force.settings.reload_seconds
        if not due or not self._lock.acquire(blocking=False):
            return self.in_force
        try:
            self._checked = self._clock()
            self._look()
        finally:
            self._lock.release()
        return self.in_force

    def refresh(self) -> None:
        """Put in force what its files and the store have now, whether or not a check is due."""
        self._notice_fork()
        with self._lock:
            self._checked = self._clock()
            self._look()

    def _notice_fork(self) -> None:
        if self._process != os.getpid():  # a fork has neither the thread nor the holder of the lock
            self._process, self._lock, self._loading = os.getpid(), Lock(), None

    def problems(self) -> dict[str, DiagnosticsError]:
        """Why changed files are not in force, by options, rules, inventory and policy_file."""
        loaded = self._loaded
        files = loaded.value.files
        problems = {"options": loaded.problem, "rules": files.problem, "inventory": files.value.inventory.problem}
        problems["policy_file"] = self._entitlements.enforcers.problem if self._entitlements else None
        return {source: problem for source, problem in problems.items() if problem}

    def wait(self, seconds: float) -> None:
        """Wait until an inventory that is being loaded is in force, or the timeout ends."""
        if self._loading and self._process == os.getpid():
            self._loading.join(seconds)

    def _look(self) -> None:
        if self._entitlements:
            self._entitlements.enforcers.look(self._checked, partial(self._failed, "policy_file"))
        self._loaded.look(self._checked, partial(self._failed, "options"))
        self._loaded.value.files.look(self._checked, partial(self._failed, "rules"))
        self._swap()
        inventory = self._loaded.value.files.value.inventory
        in_store = self.in_force.settings.inventory == STORE  # the store may answer slowly
        idle = self._loading is None or not self._loading.is_alive()
        if idle and (in_store or inventory.has_changed(self._checked)):
            self._loading = Thread(
                target=self._look_at_inventory,
                args=(inventory, self._checked),
                name="datalog-gate-inventory",
                daemon=True,
            )
            with suppress(RuntimeError):  # no thread can be started: the next check tries again
                self._loading.start()

    def _look_at_inventory(self, inventory: WatchedFiles[LoadedInventory], now: float) -> None:
        problems: list[DiagnosticsError] = []
        inventory.look(now, problems.append)
        with self._lock:
            for problem in problems:
                self._failed("rules", problem)
            self._swap()

    def _swap(self) -> None:
        """Put the loaded data in force, if it has changed."""
        before, loaded = self.in_force, self._loaded.value
        ruleset = _compose(loaded.files.value, before.ruleset)
        if loaded.settings is not before.settings or ruleset is not before.ruleset:
            self.in_force = InForce(loaded.settings, ruleset)
            self._changed(before, self.in_force)

    def _load_options(self, first: Settings, before: _Loaded | None) -> _Loaded:
        """Load the options, initially the given ones; and the rules if they name other files."""
        settings = first
        if before and self._option_files:
            read = self._option_files.read()
            settings = replace(before.settings, **{name: getattr(read, name) for name in LIVE_OPTIONS})
            names = [field.name for field in fields(read)]
            if late := [name for name in names if getattr(read, name) != getattr(settings, name)]:
                LOG.warning("changed options take effect when this service is restarted: %s", ", ".join(late))
            if all(getattr(settings, name) == getattr(before.settings, name) for name in _RULE_OPTIONS):
                return before._replace(settings=settings if settings != before.settings else before.settings)
        states = partial(_read_rule_states, settings)
        heat_defaults = self._option_files.heat_defaults if self._option_files else {}
        return _Loaded(settings, WatchedFiles(states, partial(_load_files, settings, heat_defaults)))


def _compose(files: _RuleFiles, before: Ruleset | None = None) -> Ruleset:
    """The ruleset of the loaded data; the one before if nothing changed."""
    rules, waivers, (inventory, written) = files.rules, files.waivers, files.inventory.value
    if before and before.rules is rules and before.waivers is waivers and before.inventory is inventory:
        return before
    return Ruleset(rules, inventory, written, waivers)


def _load_files(settings: Settings, heat_defaults: Mapping[str, str], before: _RuleFiles | None) -> _RuleFiles:
    try:
        catalogue = read_catalogue(*settings.catalogue, heat_defaults=heat_defaults)
        rules = Rules(load(read_rules(_name_rules(settings), local=False), catalogue))
        waivers = (
            rules.waivers(settings.waivers or ()) if settings.waivers != STORE else read_stored_waivers(settings, rules)
        )
    except OSError as error:
        raise _unreadable(error) from None
    old = before.inventory.value if before and before.rules.catalogue is rules.catalogue else None
    inventory = WatchedFiles(partial(read_source_states, settings), partial(_load_inventory, settings, rules, old))
    return _RuleFiles(rules, waivers, inventory)


def _load_inventory(
    settings: Settings, rules: Rules, first: LoadedInventory | None, before: LoadedInventory | None
) -> LoadedInventory:
    """Load the inventory, based on the previous one."""
    old = before or first
    try:
        return load_inventory(settings, rules, old.inventory if old else None)
    except OSError as error:
        raise _unreadable(error, "inventory") from None


def _unreadable(error: OSError, what: str = "rules") -> InputError:
    """The error for a file that was removed while it was read."""
    return InputError.of(f"the {what} can't be read: {error}")


def _read_rule_states(settings: Settings) -> FileStates:
    """Read the states that change with a ruleset, except its inventory. Stored waivers are treated as a file."""
    states = read_states(partial(_find_files, settings))
    if settings.waivers == STORE:
        from datalog_gate.store.stored_waivers import read_turn

        try:
            states[STORE] = read_turn(open_store(settings, "waivers")), 1, 0
        except InputError:
            states[STORE] = 0, 0, 0
    return states


def read_stored_waivers(settings: Settings, rules: Rules) -> tuple[Waiver, ...]:
    """Read the waivers of the store, except those for policies that no longer exist. Errors: InputError."""
    from datalog_gate.store.stored_waivers import read_waivers

    known = {policy.id for policy in rules.policies}
    stored = read_waivers(open_store(settings, "waivers"))
    return rules.waivers([waiver.entry for waiver in stored if waiver.entry["policy"] in known])


def _find_files(settings: Settings) -> Iterator[Path]:
    """All files and folders of a ruleset except its inventory."""
    waivers = "" if settings.waivers == STORE else settings.waivers
    yield from map(Path, filter(None, (*settings.catalogue, waivers)))
    for path in find_roots(settings):
        yield path
        for folder, _, files in os.walk(path):
            yield from (Path(folder, file) for file in files)


def find_roots(settings: Settings) -> list[Path]:
    """The files and folders of the rules. Errors: RulesError as `find_rules`."""
    return [find_rules(path, local=False)[1] for path in _name_rules(settings)]


def _name_rules(settings: Settings) -> list[Path]:
    return [Path(rule) for rule in settings.rules] or [shipped_rules()]
