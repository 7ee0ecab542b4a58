"""The chain of all preflight plugins around one operation."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from datalog_gate.plugins.breaker import Guard
from datalog_gate.plugins.loader import load_plugins
from datalog_gate.plugins.plugin_errors import PluginLoadError, RefusedError, UnavailableError, format_reason
from datalog_gate.preflight.plugin import GROUP, Outcome, Plugin
from datalog_gate.preflight.snapshot import Snapshot

LOG = logging.getLogger(__name__)


def load_chain(names: Sequence[str], settings: Mapping[str, Mapping[str, str]], seconds: float = 10.0) -> Chain:
    """Load the plugins of these names, whose calls may take so many seconds each. Errors: PluginLoadError."""
    return Chain(load_plugins(GROUP, Plugin, names, settings), seconds)


class GuardedPlugin(Plugin):
    """A plugin whose calls have a deadline. What it reserves after that is undone."""

    def __init__(self, name: str, plugin: Plugin, seconds: float) -> None:
        self._plugin, self._seconds, self._guard = plugin, seconds, Guard(name, time.monotonic)
        self.name = name

    def pre(self, snapshot: Snapshot) -> None:
        """As `Plugin.pre`."""
        self._guard(self._seconds, lambda: self._plugin.pre(snapshot), lambda: self._undo(snapshot))

    def post(self, snapshot: Snapshot, outcome: Outcome) -> None:
        """As `Plugin.post`."""
        self._guard(self._seconds, lambda: self._plugin.post(snapshot, outcome))

    def _undo(self, snapshot: Snapshot) -> None:
        """Tell a plugin that let an operation pass too late that it failed."""
        try:
            self._plugin.post(snapshot, "failed")
        except Exception:
            LOG.exception("%s was not told that the operation is failed", self.name)


class Chain:
    """The enabled plugins in their order, whose calls may take so many seconds each. Errors: PluginLoadError."""

    def __init__(self, plugins: Mapping[str, Plugin], seconds: float = 10.0) -> None:
        order = order_plugins(plugins)
        self.plugins: Mapping[str, Plugin] = {
            name: GuardedPlugin(name, plugin, seconds) for name, plugin in order.items()
        }

    def before(self, snapshot: Snapshot) -> PassedPlugins:
        """Call every pre-operation in order, up to the first that raises. Then call the post-operations of the earlier
        ones backwards, with `failed`. Errors: RefusedError; UnavailableError for any other exception."""
        passed: dict[str, Plugin] = {}
        for name, plugin in self.plugins.items():
            try:
                plugin.pre(snapshot)
            except BaseException as error:
                problems = PassedPlugins(snapshot, passed).after("failed")
                if not isinstance(error, Exception):  # the thread must end, but plugins that reserved something know
                    raise
                for kind in (RefusedError, UnavailableError):
                    if isinstance(error, kind):
                        raise kind(format_reason(error), name, problems) from error
                LOG.error("the pre-operation of %s is broken", name, exc_info=error)
                reason = f"its pre-operation is broken ({type(error).__name__})"
                raise UnavailableError(reason, name, problems) from error
            passed[name] = plugin
        return PassedPlugins(snapshot, passed)


@dataclass(frozen=True, slots=True)
class PassedPlugins:
    """The plugins that let an operation pass."""

    snapshot: Snapshot
    plugins: Mapping[str, Plugin]

    def after(self, outcome: Outcome) -> tuple[str, ...]:
        """Call every post-operation; return a line for each that raised. If the operation failed they are called in
        reverse order, so that dependent plugins go first; otherwise in order, as in Heat
        (heat/common/lifecycle_plugin_utils.py:82)."""
        problems = []
        for name in reversed(list(self.plugins)) if outcome == "failed" else self.plugins:
            try:
                self.plugins[name].post(self.snapshot, outcome)
            except Exception as error:
                problems.append(f"{name} was not told that the operation is {outcome}: {format_reason(error)}")
                LOG.error("decision %s: %s", self.snapshot.decision_id, problems[-1], exc_info=error)
        return tuple(problems)


def order_plugins(plugins: Mapping[str, Plugin]) -> dict[str, Plugin]:
    """Order plugins as `Plugin` promises. Errors: PluginLoadError for a cycle, for a required plugin that is not
    enabled, and for attributes of wrong types."""
    problems = [problem for name, plugin in plugins.items() for problem in _check_attributes(name, plugin, plugins)]
    if problems:
        raise PluginLoadError("; ".join(problems))
    earlier = {
        name: [other for other in (*plugin.after, *plugin.requires) if other in plugins]
        for name, plugin in plugins.items()
    }
    for name, plugin in plugins.items():
        for later in plugin.before:
            if later in plugins:
                earlier[later].append(name)
    try:
        TopologicalSorter(earlier).prepare()
    except CycleError as error:
        cycle = error.args[1][:-1]
        start = cycle.index(min(cycle))
        names = " -> ".join([*cycle[start:], *cycle[: start + 1]])
        raise PluginLoadError(f"these plugins must each come before the other: {names}") from None
    order: dict[str, Plugin] = {}
    while len(order) < len(plugins):
        free = (name for name in plugins if name not in order and order.keys() >= set(earlier[name]))
        name = min(free, key=lambda name: (plugins[name].ordinal, name))
        order[name] = plugins[name]
    return order


def _check_attributes(name: str, plugin: Plugin, plugins: Mapping[str, Plugin]) -> list[str]:
    lists = {"before": plugin.before, "after": plugin.after, "requires": plugin.requires}
    problems = [
        f"{name}.{key} is not a tuple of names"
        for key, names in lists.items()
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names)
    ]
    if type(plugin.ordinal) is not int:
        problems.append(f"{name}.ordinal is not a whole number")
    return problems or [
        f"{name} requires {require}, which is not enabled" for require in plugin.requires if require not in plugins
    ]
