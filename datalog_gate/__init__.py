"""A datalog policy gate for OpenStack Heat.

What is used is imported when it is first asked for, so that no door pays for another's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datalog_gate.api import Rules, load_rules, query
    from datalog_gate.base.errors import EngineError, GateError, InputError, RulesError, UsageError
    from datalog_gate.files.templates import read_catalogue, read_stack

__version__ = "0.1.0"
__all__ = [
    "EngineError",
    "GateError",
    "InputError",
    "Rules",
    "RulesError",
    "UsageError",
    "load_rules",
    "query",
    "read_catalogue",
    "read_stack",
]
_API = frozenset({"Rules", "load_rules", "query"})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = "api" if name in _API else "files.templates" if name.startswith("read_") else "base.errors"
    return getattr(import_module(f"{__name__}.{module}"), name)
