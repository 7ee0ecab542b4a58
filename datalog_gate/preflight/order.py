"""The one order in which plugins run (layer 5): in, plugins by name; out, their names, first one first."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from datalog_gate.preflight.plugin import ChainError, Plugin


def in_order(plugins: Mapping[str, Plugin]) -> tuple[str, ...]:
    """The names in the order that `Plugin` promises. Errors: ChainError for names that go in a circle, that are
    required and not there, or that are no tuple of names."""
    problems = [problem for name, plugin in plugins.items() for problem in _problems(name, plugin, plugins)]
    if problems:
        raise ChainError("; ".join(problems))
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(plugins, ()))
    for name, plugin in plugins.items():
        sorter.add(name, *(one for one in (*plugin.after, *plugin.requires) if one in plugins))
        for later in plugin.before:
            if later in plugins:
                sorter.add(later, name)
    try:
        sorter.prepare()
    except CycleError as error:
        circle = error.args[1][:-1]
        at = circle.index(min(circle))
        names = " -> ".join([*circle[at:], *circle[: at + 1]])
        raise ChainError(f"plugins come before each other: {names}") from None
    free: list[tuple[int, str]] = []
    order: list[str] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heapq.heappush(free, (plugins[name].ordinal, name))
        order.append(heapq.heappop(free)[1])
        sorter.done(order[-1])
    return tuple(order)


def _problems(name: str, plugin: Plugin, plugins: Mapping[str, Plugin]) -> list[str]:
    lists = {"before": plugin.before, "after": plugin.after, "requires": plugin.requires}
    wrong = [
        f"{name}.{key} is no tuple of names"
        for key, names in lists.items()
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names)
    ]
    if type(plugin.ordinal) is not int:
        wrong.append(f"{name}.ordinal is no whole number")
    return wrong or [
        f"{name} requires {require}, which is not enabled" for require in plugin.requires if require not in plugins
    ]
