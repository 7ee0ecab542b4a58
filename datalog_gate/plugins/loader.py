"""The loader of the enabled plugins.

A plugin that can't be loaded is an error: a check that is silently skipped would be missed only when it matters, and a
grant may hold something that only its service can release.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from datalog_gate.plugins.plugin_errors import PluginLoadError

Base = TypeVar("Base")


def load_plugins(
    group: str,
    base: type[Base],
    names: Sequence[str],
    settings: Mapping[str, Mapping[str, str]],
    complete: Callable[[type[Base], dict[str, str]], dict[str, str]] = lambda _, own: own,
) -> dict[str, Base]:
    """Create the plugins of these names, in this order, each with its settings, which `complete` extends. Errors:
    PluginLoadError, which names every plugin of the entry-point group that is missing, duplicated or broken, and unused
    settings."""
    problems = [f"{name} is listed twice" for name, times in Counter(names).items() if times > 1]
    problems += [f"{name} has settings, but is not enabled" for name in settings if name not in names]
    plugins: dict[str, Base] = {}
    cause: PluginLoadError | None = None
    for name in dict.fromkeys(names):
        try:
            plugins[name] = _make_plugin(group, base, name, dict(settings.get(name, {})), complete)
        except PluginLoadError as error:
            problems.append(str(error))
            cause = cause or error
    if problems:
        raise PluginLoadError(f"the plugins of {group} can't be loaded: {'; '.join(problems)}") from cause
    return plugins


def _make_plugin(
    group: str,
    base: type[Base],
    name: str,
    settings: dict[str, str],
    complete: Callable[[type[Base], dict[str, str]], dict[str, str]],
) -> Base:
    plugin_type = load_extension(group, name)
    is_base = isinstance(plugin_type, type) and issubclass(plugin_type, base)
    try:
        plugin = plugin_type(complete(plugin_type, settings) if is_base else settings)
    except Exception as error:
        raise PluginLoadError(f"{name} can't be created: {type(error).__name__}: {error}") from error
    if not isinstance(plugin, base):
        raise PluginLoadError(f"{name} does not create a {base.__name__}")
    return plugin


def load_extension(group: str, name: str) -> Any:
    """Load the only entry point of that name. Errors: PluginLoadError."""
    from stevedore.named import NamedExtensionManager  # the import takes a while, and many enable no plugin

    errors: list[BaseException] = []
    extensions: dict[str, Any] = {}
    try:
        manager: NamedExtensionManager[Any] = NamedExtensionManager(
            group,
            [name],
            on_load_failure_callback=lambda _, __, error: errors.append(error),
            on_missing_entrypoints_callback=None,
        )
        extensions = {extension.entry_point_target: extension.plugin for extension in manager}
    except AssertionError as error:  # stevedore does not catch these
        errors.append(error)
    if errors:
        raise PluginLoadError(f"{name} does not load: {type(errors[0]).__name__}: {errors[0]}") from errors[0]
    if not extensions:
        raise PluginLoadError(f"{name} is not installed")
    if len(extensions) > 1:
        raise PluginLoadError(f"{name} is installed twice: {', '.join(sorted(extensions))}")
    return extensions.popitem()[1]
