"""The command `lsp`: a language server for editors."""

from __future__ import annotations

import argparse

from datalog_gate.base.errors import UsageError


def lsp(_options: argparse.Namespace) -> int:
    """Serve one editor until it ends the session. Errors: UsageError."""
    try:
        from datalog_gate.doors.editor import language_server
    except ImportError as error:
        raise UsageError(f"{error.name} is missing: pip install 'datalog-gate[editor]'") from None
    return language_server.serve()
