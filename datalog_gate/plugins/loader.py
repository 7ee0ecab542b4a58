"""The loader of preflight plugins and services that the operator enabled.

A plugin that can't be loaded is an error: a check that is skipped in silence would be missed only when it matters, and
a grant may hold what only its service can release.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from datalog_gate.plugins.plugin_errors import PluginLoadError

Base = TypeVar("Base")


def load_plugins(
    group: str, base: type[Base], names: Sequence[str], settings: Mapping[str, Mapping[str, str]]
) -> dict[str, Base]:
    """Make the plugins of these names, in this order, each with its settings. Errors: PluginLoadError, which names
    every plugin of the entry-point group that is missing, given twice or broken, and settings of others."""
    problems = [f"{name} is named twice" for name, times in Counter(names).items() if times > 1]
    problems += [f"{name} has settings and is not enabled" for name in settings if name not in names]
    plugins: dict[str, Base] = {}
    for name, make in _find_entry_points(group, names, problems).items():
        try:
            plugin = make(dict(settings.get(name, {})))
        except Exception as error:  # noqa: BLE001 - somebody else's code
            problems.append(f"{name} can't be made: {_describe(error)}")
            continue
        if isinstance(plugin, base):
            plugins[name] = plugin
        else:
            problems.append(f"{name} makes no {base.__name__}")
    if problems:
        raise PluginLoadError(f"the plugins of {group} can't be loaded: {'; '.join(problems)}")
    return {name: plugins[name] for name in names}


def _find_entry_points(group: str, names: Sequence[str], problems: list[str]) -> dict[str, Any]:
    """The objects of the entry points of these names, as far as they load; the others are added to `problems`."""
    if not names:
        return {}
    from stevedore.named import NamedExtensionManager

    broken: dict[str, str] = {}
    try:
        manager: NamedExtensionManager[Any] = NamedExtensionManager(
            group,
            list(names),
            on_load_failure_callback=lambda _, entry, error: broken.update({entry.name: _describe(error)}),
            on_missing_entrypoints_callback=None,
        )
    except AssertionError as error:  # stevedore lets these through, without a name
        problems.append(f"one of {', '.join(names)} does not load: {_describe(error)}")
        return {}
    targets: dict[str, set[str]] = {}
    for extension in manager:
        targets.setdefault(extension.name, set()).add(extension.entry_point_target)
    problems += [f"{name} does not load: {problem}" for name, problem in broken.items()]
    problems += [f"{name} is not installed" for name in dict.fromkeys(names) if name not in {*targets, *broken}]
    problems += [f"{name} is there twice: {', '.join(sorted(of))}" for name, of in targets.items() if len(of) > 1]
    return {extension.name: extension.plugin for extension in manager}


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
