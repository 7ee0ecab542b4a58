"""The options and rules in force, which are loaded again when their files change.

Each decision uses one `InForce`, which is replaced by one assignment. The request that first sees a change loads the
new files; the other requests use what was in force before meanwhile.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple

from datalog_gate.api import Rules, load_rules
from datalog_gate.base.errors import DiagnosticsError, InputError
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.decision import Waiver
from datalog_gate.decision_point.config_options import OptionFiles
from datalog_gate.decision_point.roles import Entitlements
from datalog_gate.decision_point.settings import LIVE_OPTIONS, Settings
from datalog_gate.decision_point.watched_files import WatchedFiles
from datalog_gate.files.rules import default_rules, find_rules
from datalog_gate.files.templates import read_catalogue

LOG = logging.getLogger(__name__)
Source = Literal["rules", "options", "policy_file"]
_RULE_OPTIONS = ("rules", "catalogue", "inventory", "waivers")
"""The options that name the files of a ruleset."""


@dataclass(frozen=True, slots=True)
class Ruleset:
    """Rules with the inventory and the waivers that were loaded with them."""

    rules: Rules
    inventory: Inventory
    written: datetime | None
    """When the file of the inventory was written (UTC), if there is one."""
    waivers: tuple[Waiver, ...]


class InForce(NamedTuple):
    """What a decision is made by."""

    settings: Settings
    ruleset: Ruleset


class _Loaded(NamedTuple):
    """Options, and the rules that they name."""

    settings: Settings
    rules: WatchedFiles[Ruleset]


class PolicyReloader:
    """Loads the rules that the settings name, and options, rules and entitlements again on change.

    Calls `changed` with what was in force before, None at first, and what is now; and `failed` with each load that
    failed. Without `options` the settings stay as they are. Errors on creation: RulesError, InputError.
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
        self._lock = Lock()
        self._checked = clock()
        self._loaded = WatchedFiles(options.paths if options else tuple, partial(self._load_options, settings))
        self.in_force = InForce(settings, self._loaded.value.rules.value)
        """What was in force at the last look."""
        changed(None, self.in_force)

    def current(self) -> InForce:
        """What is in force, loaded again if its files have changed."""
        due = self._clock() - self._checked >= self.in_force.settings.reload_seconds
        if not due or not self._lock.acquire(blocking=False):
            return self.in_force
        try:
            self._checked = self._clock()
            self._look()
        finally:
            self._lock.release()
        return self.in_force

    def _look(self) -> None:
        if self._entitlements:
            self._entitlements.look(self._checked, partial(self._failed, "policy_file"))
        self._loaded.look(self._checked, partial(self._failed, "options"))
        self._loaded.value.rules.look(self._checked, partial(self._failed, "rules"))
        before = self.in_force
        after = InForce(self._loaded.value.settings, self._loaded.value.rules.value)
        if after.settings is not before.settings or after.ruleset is not before.ruleset:
            self.in_force = after
            self._changed(before, after)

    def _load_options(self, first: Settings, before: _Loaded | None) -> _Loaded:
        """The options of their files, at first those given; with the rules if other files are named."""
        settings = first
        if before and self._option_files:
            read = self._option_files.read()
            settings = replace(before.settings, **{name: getattr(read, name) for name in LIVE_OPTIONS})
            names = [field.name for field in fields(read)]
            if late := [name for name in names if getattr(read, name) != getattr(settings, name)]:
                LOG.warning("changed options that count when this service is started again: %s", ", ".join(late))
            if all(getattr(settings, name) == getattr(before.settings, name) for name in _RULE_OPTIONS):
                return before._replace(settings=settings if settings != before.settings else before.settings)
        return _Loaded(settings, WatchedFiles(partial(_find_files, settings), partial(_load_ruleset, settings)))


def _load_ruleset(settings: Settings, before: Ruleset | None) -> Ruleset:
    file = Path(settings.inventory) if settings.inventory else None
    try:
        rules = load_rules(*_find_roots(settings), catalogue=read_catalogue(*settings.catalogue))
        old = before.inventory if before and before.rules.catalogue is rules.catalogue else None
        inventory = rules.inventory(file or {}, old)
        written = datetime.fromtimestamp(file.stat().st_mtime, UTC) if file else None
        waivers = rules.waivers(settings.waivers or ())
    except OSError as error:  # a file was removed while it was read
        raise InputError.of(f"the rules can't be read: {error}") from None
    return Ruleset(rules, inventory, written, waivers)


def _find_files(settings: Settings) -> Iterator[Path]:
    """All files and folders of a ruleset."""
    yield from map(Path, filter(None, (*settings.catalogue, settings.inventory, settings.waivers)))
    for _, path in map(find_rules, _find_roots(settings)):
        yield path
        for folder, _, files in os.walk(path):
            yield from (Path(folder, file) for file in files)


def _find_roots(settings: Settings) -> list[Path]:
    return [Path(rule) for rule in settings.rules] or [default_rules()]
