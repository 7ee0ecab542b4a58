"""The errors of plugins."""

from __future__ import annotations

from datalog_gate.base.errors import GateError

REASON_LIMIT = 1000
"""The maximum number of characters of a reason."""


class PluginError(GateError):
    """A plugin failed. `reason` is for the user who requested the operation. The caller of the plugin adds its name."""

    def __init__(self, reason: str, plugin: str = "") -> None:
        self.reason, self.plugin = reason, plugin
        super().__init__(f"{plugin}: {reason}" if plugin else reason)


class RefusedError(PluginError):
    """A plugin refuses. A service that raises it holds nothing."""


class UnavailableError(PluginError):
    """A plugin can't answer, or it is not known what it did: its server does not answer, or it is broken."""


class PluginLoadError(GateError):
    """Plugins that can't be used: missing, broken, or without a valid order. Nothing is judged without them."""


def format_reason(error: Exception) -> str:
    """The reason of an error as one printable line. The text of unexpected errors is hidden."""
    return printable_line(error.reason if isinstance(error, PluginError) else f"is broken ({type(error).__name__})")


def printable_line(text: object) -> str:
    """Text as one printable line that fits in an answer."""
    line = " ".join(str(text).split())[:REASON_LIMIT]
    return "".join(char if char.isprintable() else "?" for char in line)
