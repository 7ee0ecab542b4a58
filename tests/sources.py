"""The project's own Python files, each parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file, the module first."""
    found: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    for node in found:  # as `ast.walk` does, in half its time
        for part in node.__dict__.values():
            if isinstance(part, ast.AST):
                found.append(part)
            elif type(part) is list:
                found += [item for item in part if isinstance(item, ast.AST)]
    return tuple(found)


def statements(path: Path) -> Iterator[ast.stmt]:
    """All statements of a file, those in functions and branches too: a tenth of its nodes."""
    blocks: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    for block in blocks:
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            parts = getattr(block, name, ())
            if isinstance(parts, list):  # a lambda's body is no statement
                blocks += parts
        if isinstance(block, ast.stmt):
            yield block
