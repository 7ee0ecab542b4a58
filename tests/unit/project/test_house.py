"""The rules of the project for names and module docstrings."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.sources import ROOT, nodes

SOURCES = sorted(
    path for folder in ("datalog_gate", "tests", "bench", "examples") for path in (ROOT / folder).rglob("*.py")
)
PACKAGE = [path for path in SOURCES if path.is_relative_to(ROOT / "datalog_gate")]
MOST_WORDS = 12
"""The length of the first line of a module docstring."""

EXCEPTIONS = [
    "file name twice: evaluation.py in datalog_gate/decision/evaluation.py, datalog_gate/engine/sql/evaluation.py",
    "file name twice: tables.py in datalog_gate/engine/sql/tables.py, datalog_gate/facts/tables.py, "
    "datalog_gate/store/tables.py",
]
"""What does not follow the rules yet. It shrinks: an exception that is no longer needed fails too."""


@pytest.mark.slow
def test_all_but_the_listed_exceptions_follow_the_rules() -> None:
    violations = [
        *(f"file name twice: {name}" for name in repeated_file_names()),
        *(f"class name twice: {name}" for name in repeated_class_names()),
        *(f"variable called one: {name_of(path)}" for path in SOURCES if "one" in bound_names(path)),
        *(
            f"first line of the docstring missing or over {MOST_WORDS} words: {name_of(path)}"
            for path in SOURCES
            if not is_described(path)
        ),
    ]
    assert violations == EXCEPTIONS


def repeated_file_names() -> list[str]:
    """The file names of several modules of the package."""
    return repeated((path.name, name_of(path)) for path in PACKAGE if path.stem not in ("__init__", "__main__"))


def repeated_class_names() -> list[str]:
    """The class names of several modules of the package."""
    return repeated(
        (node.name, name_of(path)) for path in PACKAGE for node in module(path).body if isinstance(node, ast.ClassDef)
    )


def is_described(path: Path) -> bool:
    """Whether the module says in its first line what it is; the layer stands in its package's docstring."""
    tree = module(path)
    if not tree.body:
        return path.name == "__init__.py"
    docstring = ast.get_docstring(tree)
    return (
        bool(docstring)
        and len((docstring or "").split("\n")[0].split()) <= MOST_WORDS
        and "(layer" not in (docstring or "")
    )


def bound_names(path: Path) -> Iterator[str]:
    """Names of variables, parameters, functions and classes."""
    for node in nodes(path):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(asname=str(name)) | ast.MatchAs(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name
            case _:
                pass


def repeated(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """The names that stand in several modules, sorted, with these."""
    modules: dict[str, list[str]] = defaultdict(list)
    for name, module in pairs:
        modules[name].append(module)
    return [f"{name} in {', '.join(paths)}" for name, paths in sorted(modules.items()) if len(paths) > 1]


def module(path: Path) -> ast.Module:
    tree = nodes(path)[0]
    assert isinstance(tree, ast.Module)
    return tree


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
