"""The parser of all commands for `shtab`, which writes completions for shells."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from datalog_gate.doors.cli.option_parser import create_parser

FILES = frozenset({"ENV", "FILE", "FILE.json", "FILE.jsonl", "FILE.yaml", "LOG", "OLD", "PATH", "TEMPLATE"})
"""The placeholder for a file or folder in the help."""


def completing_parser() -> argparse.ArgumentParser:
    """The parser with completion of files and folders."""
    import shtab

    parser = create_parser()
    for action in _actions(parser):
        if action.metavar in FILES or action.metavar == "DIR":
            setattr(action, "complete", shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE)  # noqa: B010
    return parser


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
