"""Checks of the catalogue against the installed Heat and its plugins."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from datalog_gate.doors.cli.doctor import CheckResult, Locate
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.resource_types import HEATS, NEWEST

MAPPINGS = ("available_resource_mapping", "resource_mapping")
"""The functions in which a plugin names its types (heat/engine/resources/__init__.py)."""
TYPE_NAME = re.compile(r"\w+(::\w+)+")
OWN = "DatalogGate::"
SEE = "describe them in a file of `catalogue`, as docs/catalogue.md shows"


def compare_types(catalogue: Catalogue, plugin_dirs: Sequence[str], locate: Locate) -> Iterator[CheckResult]:
    """Compare the catalogue with the installed Heat, and with the types that plugins name."""
    try:
        installed = version("openstack-heat")
    except PackageNotFoundError:
        installed = ""
    release = installed.partition(".")[0]
    if installed and release != NEWEST and catalogue.is_shipped:
        message = f"Heat {installed} is installed here, and rules know the resource types of Heat {HEATS[NEWEST]}"
        yield CheckResult("note", "catalogue", message, locate("catalogue"), _advise(release))
    named = {name for folder in plugin_dirs for file in _list_modules(Path(folder)) for name in _find_types(file)}
    if missing := sorted(name for name in named.difference(catalogue.types()) if not name.startswith(OWN)):
        message = f"rules do not know these types of plugins, nor their properties: {', '.join(missing)}"
        yield CheckResult("note", "catalogue", message, locate("catalogue"), SEE)


def _advise(release: str) -> str:
    """What to do where Heat is not the newest."""
    if release in HEATS:
        return f'check templates with --heat {release}, or `heat = "{release}"` in the configuration of projects'
    return "give authors of templates its types for check --catalogue, as docs/catalogue.md shows"


def _list_modules(folder: Path) -> Iterator[Path]:
    """The modules that Heat imports from a folder of `plugin_dirs`."""
    yield from sorted(folder.glob("*.py"))
    for package in sorted(folder.glob("*/__init__.py")):
        yield from _list_modules(package.parent)


def _find_types(module: Path) -> Iterator[str]:
    """The types that a plugin names in its mapping. It is not imported, since a plugin may change Heat."""
    try:
        functions = [node for node in ast.parse(module.read_bytes()).body if isinstance(node, ast.FunctionDef)]
    except (SyntaxError, ValueError):
        return
    for node in (node for function in functions if function.name in MAPPINGS for node in ast.walk(function)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and TYPE_NAME.fullmatch(node.value):
            yield node.value
