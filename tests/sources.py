"""The project's own Python files, each parsed once."""

from __future__ import annotations

import ast
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
