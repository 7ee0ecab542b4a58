"""The rooms in docs/architecture.md and package docstrings match the imports.

``REGENERATE=1 pytest tests/unit/project/test_architecture.py`` writes the generated parts anew.
"""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Iterator, Mapping, Set
from importlib import import_module
from pathlib import Path

import pytest

from tests.pages import assert_generated, assert_written
from tests.sources import ROOT, nodes
from tests.unit.project.test_layering import LAYERS, MAY_ALSO, PACKAGE, imported_names, imports, modules

PAGE = ROOT / "docs" / "architecture.md"
DECISIONS = ROOT / "docs" / "decisions"
NUMBERED = [rooms for rooms in LAYERS if rooms != ("api",)]
"""The layers that have a number: `api` composes those below it and is a module, not a room."""
LEVEL = {room: level for level, rooms in enumerate(NUMBERED) for room in rooms}
PACKAGES = sorted(
    ".".join(path.relative_to(ROOT).parent.parts) for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE
)
WITHOUT_EXAMPLE = {"datalog_gate.doors.cli.doctor", "datalog_gate.doors.editor"}
OTHER_NAMES = {"doctor", "plugin_dirs"}
"""Names in docstrings of packages that are no modules: a command and an option of Heat."""
PART = re.compile(r"(?s)(<!-- generated: (\w+) -->\n).*?(<!-- end -->)")
MENTION = re.compile(r"`((?:[a-z_]+/)+(?:[a-z_0-9]+\.py)?)`")
"""A folder or a Python module in prose."""
FORM = ["Context", "Decision", "Consequences", "Alternatives"]
"""The parts of a decision."""


def test_the_page_draws_the_imports() -> None:
    parts = {"drawing": drawing(imports()), "rooms": room_table(imports())}
    text = PART.sub(lambda match: f"{match[1]}\n{parts[match[2]]}\n{match[3]}", PAGE.read_text("utf-8"))
    assert_written(PAGE, text)


def test_the_index_of_decisions_lists_each() -> None:
    rows = "".join(decision_row(path) for path in sorted(DECISIONS.glob("[0-9]*.md")))
    assert_generated(DECISIONS / "README.md", f"\n| number | decision |\n|---|---|\n{rows}")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_says_its_layer_and_what_it_may_import(name: str) -> None:
    room = name.split(".")[1]
    docstring = " ".join((import_module(name).__doc__ or "").split())
    assert name.count(".") > 1 or place(room) in docstring, f"write: {place(room)}"


@pytest.mark.parametrize("name", PACKAGES)
def test_the_example_of_a_package_works(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    results = doctest.testmod(import_module(name))
    assert (results.failed, results.attempted > 0) == (0, name not in WITHOUT_EXAMPLE)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_names_modules_that_exist(name: str) -> None:
    package = import_module(name)
    folder = Path(package.__path__[0])
    prose = (package.__doc__ or "").partition(">>>")[0]
    missing = [
        word
        for word in set(re.findall(r"`([a-z_]+)`", prose)) - OTHER_NAMES - set(LEVEL) - {"api"}
        if not ((folder / word).is_dir() or (folder / f"{word}.py").exists() or hasattr(package, word))
    ]
    assert missing == []


def test_pages_name_files_that_exist() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    missing = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in pages
        for path in MENTION.findall(page.read_text("utf-8"))
        if not any((folder / path).exists() for folder in (ROOT, PACKAGE, page.parent))
    ]
    assert missing == []


def test_the_index_of_pages_links_each_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert sorted(page for page in pages if f"]({page}" not in index) == []


def test_records_that_cross_rooms_hold_the_functions_that_the_page_explains() -> None:
    section = PAGE.read_text("utf-8").partition("## Functions in records")[2].partition("\n## ")[0]
    explained = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.M))
    assert {
        name: ", ".join(f"`{field}`" for field in sorted(fields)) for name, fields in functions().items()
    } == explained


def functions() -> dict[str, set[str]]:
    """The fields that hold a function, of each record that another room imports."""
    imported = {name for room, path in modules() for name in imported_names(path) if name.split(".")[1:2] != [room]}
    aliases = {target.id for _, path in modules() for target in _function_types(path)}
    found: dict[str, set[str]] = {}
    for _, path in modules():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for record in nodes(path):
            if isinstance(record, ast.ClassDef) and f"{module}.{record.name}" in imported and _is_record(record):
                for field in record.body:
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                        words = set(re.findall(r"\w+", ast.unparse(field.annotation)))
                        if words & {"Callable", *aliases}:
                            found.setdefault(record.name, set()).add(field.target.id)
    return found


def _is_record(node: ast.ClassDef) -> bool:
    return any(
        "dataclass" in ast.unparse(part) or "NamedTuple" in ast.unparse(part)
        for part in (*node.decorator_list, *node.bases)
    )


def _function_types(path: Path) -> Iterator[ast.Name]:
    """The names of a module for types of functions."""
    for node in nodes(path):
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("Callable["):
            yield from (target for target in node.targets if isinstance(target, ast.Name))


def drawing(graph: Mapping[str, Set[str]]) -> str:
    """The rooms in Mermaid, one box for each layer. An arrow that other arrows imply is left out."""
    lines = ["```mermaid", "flowchart TD"]
    for level, rooms in reversed(list(enumerate(LAYERS))):
        label = f"layer {LEVEL[rooms[0]]}" if rooms[0] in LEVEL else "composes layers 0 to 5"
        lines += [f'  subgraph layer{level}["{label}"]', *(f"    {room}" for room in rooms), "  end"]
    for room in graph:
        implied = {other for via in graph[room] for other in reached(graph, via)}
        lines += [f"  {room} --> {other}" for other in sorted(graph[room] - implied)]
    return "\n".join([*lines, "```"])


def reached(graph: Mapping[str, Set[str]], room: str) -> set[str]:
    """The rooms that the room imports, directly or through others."""
    return {*graph[room], *(other for via in graph[room] for other in reached(graph, via))}


def room_table(graph: Mapping[str, Set[str]]) -> str:
    lines = ["| layer | room | holds | imports |", "|---|---|---|---|"]
    for rooms in LAYERS:
        for room in rooms:
            name = f"`{room}/`" if room in LEVEL else f"`{room}.py`"
            others = ", ".join(f"`{other}`" for other in sorted(graph[room])) or "nothing of the package"
            lines.append(f"| {LEVEL.get(room, '')} | {name} | {summary(room)} | {others} |")
    return "\n".join(lines)


def summary(room: str) -> str:
    """The first line of the room's docstring."""
    docstring = import_module(f"datalog_gate.{room}").__doc__ or ""
    return docstring.partition("\n")[0].removesuffix(".")


def place(room: str) -> str:
    """The sentence in a room's docstring that says where it stands."""
    if room == "base":
        return "Layer 0: imports no other room."
    below = "layer 0" if LEVEL[room] == 1 else f"layers 0 to {LEVEL[room] - 1}"
    composed = " and `api`" if LEVEL[room] > LEVEL["files"] else ""
    beside = f", and beside it {listed(sorted(MAY_ALSO[room]))}" if room in MAY_ALSO else ""
    return f"Layer {LEVEL[room]}: may import {below}{composed}{beside}."


def listed(names: list[str]) -> str:
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} and {last}" if first else last


def decision_row(path: Path) -> str:
    title, _, body = path.read_text("utf-8").partition("\n")
    number, _, name = title.removeprefix("# ").partition(". ")
    assert re.findall(r"^\*\*(\w+)\.\*\* ", body, re.M) == FORM, path.name
    return f"| {number} | [{name}]({path.name}) |\n"
