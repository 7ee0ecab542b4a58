"""The plugins that the operator configured (layer 5): in, their names and the settings of each; out, the plugins of a
group of entry points, or a `Chain`.

What can't be loaded stops: a consultation that is skipped in silence is one that nobody misses until it matters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from datalog_gate.preflight.chain import Chain
from datalog_gate.preflight.plugin import ChainError, Plugin

GROUP = "datalog_gate.preflight"
Base = TypeVar("Base")


def load_chain(names: Sequence[str], settings: Mapping[str, Mapping[str, str]]) -> Chain:
    """The pre-operations of these names. Errors: ChainError, also as `load_plugins` has it."""
    return Chain(load_plugins(GROUP, Plugin, names, settings))


def load_plugins(
    group: str, base: type[Base], names: Sequence[str], settings: Mapping[str, Mapping[str, str]]
) -> dict[str, Base]:
    """The plugins of these names in the entry-point group, each made with its settings. Errors: ChainError, which names
    every plugin that is missing, given twice or broken, and settings of plugins that are not enabled."""
    problems = [f"{name} is named twice" for name, times in Counter(names).items() if times > 1]
    problems += [f"{name} has settings and is not enabled" for name in settings if name not in names]
    plugins: dict[str, Base] = {}
    for name, found in _found(group, names, problems).items():
        try:
            made = found(dict(settings.get(name, {})))
        except Exception as error:  # noqa: BLE001 - somebody else's code
            problems.append(f"{name} can't be made: {_said(error)}")
            continue
        if isinstance(made, base):
            plugins[name] = made
        else:
            problems.append(f"{name} makes no {base.__name__}")
    if problems:
        raise ChainError(f"the plugins of {group} can't be loaded: {'; '.join(problems)}")
    return plugins


def _found(group: str, names: Sequence[str], problems: list[str]) -> dict[str, Any]:
    """What the entry points of these names hold, as far as any does; what is wrong with them is added to `problems`."""
    if not names:
        return {}
    from stevedore.named import NamedExtensionManager

    broken: dict[str, str] = {}
    try:
        manager: NamedExtensionManager[Any] = NamedExtensionManager(
            group,
            list(names),
            on_load_failure_callback=lambda _, entry, error: broken.update({entry.name: _said(error)}),
            on_missing_entrypoints_callback=None,
        )
    except AssertionError as error:  # stevedore lets these through, without a name
        problems.append(f"one of {', '.join(names)} does not load: {_said(error)}")
        return {}
    targets: dict[str, set[str]] = {}
    for one in manager:
        targets.setdefault(one.name, set()).add(one.entry_point_target)
    problems += [f"{name} does not load: {said}" for name, said in broken.items()]
    problems += [f"{name} is not installed" for name in dict.fromkeys(names) if name not in {*targets, *broken}]
    problems += [f"{name} is there twice: {', '.join(sorted(of))}" for name, of in targets.items() if len(of) > 1]
    return {one.name: one.plugin for one in manager}


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
