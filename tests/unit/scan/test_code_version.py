"""The version of the code changes with its meaning alone."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from datalog_gate.scan.code_version import FACT_MODULES, JUDGING_MODULES, PACKAGE, code_digest, strip_prose
from tests.commands import write_files
from tests.sources import statements

MODULE = '''"""A module."""

# a comment


class Width:
    """A number."""

    metres: int
    """Its unit."""


def double(n):
    r"""Twice \\n."""
    # another
    return 2 * n, "# two"
'''
PROSE = {
    "A module": "One\n\nof many",
    "# a comment\n": "",
    "Its unit": "Metres",
    "Twice": "2",
    "another": "two",
}
MEANING = {"2 *": "3 *", "# two": "# three", "metres": "feet", "return": "yield"}


def test_an_edit_of_prose_changes_no_digest_and_one_of_meaning_does(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        return code_digest(write_files(tmp_path, {"facts/a.py": text, "doors/b.py": text[::-1]}), ["facts/*"])

    assert {digest(MODULE.replace(old, new)) for old, new in PROSE.items()} == {digest(MODULE)}
    assert len({digest(MODULE.replace(old, new)) for old, new in MEANING.items()} | {digest(MODULE)}) == 5


@pytest.mark.parametrize("patterns", [FACT_MODULES, (*FACT_MODULES, *JUDGING_MODULES)])
def test_the_version_is_of_all_modules_that_those_of_it_import(patterns: tuple[str, ...]) -> None:
    """But for docstrings of rooms."""
    modules = find_modules(patterns)
    imported = {path for module in modules for path in find_imported(module)}
    assert {path.relative_to(PACKAGE).as_posix() for path in imported - modules if path.name != "__init__.py"} == set()


def test_prose_is_what_python_takes_for_it() -> None:
    for path in find_modules((*FACT_MODULES, *JUDGING_MODULES)):
        text = path.read_text("utf-8")
        assert dump_without_prose(strip_prose(text)) == dump_without_prose(text), path


def find_modules(patterns: Iterable[str]) -> set[Path]:
    return {path for pattern in patterns for path in PACKAGE.glob(f"{pattern}.py")}


def find_imported(module: Path) -> set[Path]:
    """The modules of the package that a module imports."""
    names: set[str] = set()
    for node in statements(module):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    paths = {PACKAGE.parent / f"{name.replace('.', '/')}.py" for name in names if name.startswith("datalog_gate.")}
    return {path for path in paths if path.exists()}


def dump_without_prose(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value.value = ""
    return ast.dump(tree)
