"""The project's own Python files, each parsed once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file, the module first."""
    return tuple(ast.walk(ast.parse(path.read_text("utf-8"))))
