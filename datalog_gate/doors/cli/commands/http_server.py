"""The command `serve`: runs the policy server."""

from __future__ import annotations

import argparse

from datalog_gate.base.errors import UsageError


def serve(options: argparse.Namespace) -> int:
    """Serve until a signal ends it. Errors: UsageError, InputError, RulesError."""
    try:
        from datalog_gate.doors.server import serving
    except ImportError as error:
        raise UsageError(f"{error.name} is missing: pip install 'datalog-gate[server]'") from None
    return serving.serve(options.config, options.host, options.port)
