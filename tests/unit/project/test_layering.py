"""The order of the rooms, and no code run from text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tests.sources import ROOT, nodes, statements

PACKAGE = ROOT / "datalog_gate"
LAYERS = (
    ("base",),
    ("language", "schema"),
    ("stack", "template", "facts", "validation", "analysis"),
    ("engine",),
    ("decision", "explain", "examples"),
    ("files", "plugins", "store", "services", "rack_affinity", "inventory", "policytest", "scan"),
    ("api",),
    ("decision_point", "editing", "pages"),
    ("doors",),
)
MAY_ALSO = {
    "template": {"stack"},
    "facts": {"stack"},
    "validation": {"stack", "template"},
    "explain": {"decision"},
    "examples": {"decision"},
    "pages": {"editing"},
    "services": {"plugins", "store"},
    "rack_affinity": {"plugins", "services"},
    "inventory": {"files", "plugins", "store"},
    "policytest": {"files"},
    "scan": {"files", "inventory", "plugins", "store"},
}
"""What a room may import of its own layer."""
FORBIDDEN = {"language": {"schema"}, "schema": {"language"}, "analysis": {"stack", "facts", "template"}}
IMPURE = ("os", "pathlib", "socket", "subprocess", "threading", "urllib.request", "http", "requests", "tempfile", "io")
CLOCKS = ("time",)
"""What no inner room reads, so that no decision depends on the load of its host."""
MAY_READ = {"schema", "engine"}
"""The inner rooms that read the package's data, and that run pyDatalog and databases."""


def test_each_room_imports_only_what_stands_above_it() -> None:
    level = {room: at for at, rooms in enumerate(LAYERS) for room in rooms}
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {target}"
        for room, path in modules()
        for target in imported_rooms(path)
        if target != room
        and (target in FORBIDDEN.get(room, ()) or not (level[target] < level[room] or target in MAY_ALSO.get(room, ())))
    ]
    assert wrong == []


def test_rooms_import_each_other_in_no_circle() -> None:
    TopologicalSorter(imports()).prepare()


def test_the_inner_layers_do_no_input_and_output() -> None:
    inner = {room for rooms in LAYERS[:5] for room in rooms}
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for room, path in modules()
        if room in inner
        for name in imported_names(path)
        if f"{name}.".startswith(tuple(f"{module}." for module in (*CLOCKS, *(() if room in MAY_READ else IMPURE))))
    ]
    assert wrong == ["base/records.py imports os.environ"]  # the switch by which tests freeze records


def test_a_module_defines_its_fields_by_one_library() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {alias.name} of dataclasses beside records"
        for _, path in modules()
        if any(name.startswith("datalog_gate.base.records.") for name in imported_names(path))
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        for alias in node.names
        if alias.name not in ("KW_ONLY", "asdict")
    ]
    assert wrong == []


def test_doors_do_not_import_each_other() -> None:
    doors = {"cli", "wsgi", "heat", "schedulers", "server", "openstack_client", "editor"}
    starts = {
        ("http_server.py", "datalog_gate.doors.server.serving"),
        ("editor_tools.py", "datalog_gate.doors.editor.language_server"),
    }
    wrong = [
        f"{path.name} imports {name}"
        for room, path in modules()
        if room == "doors" and (door := path.relative_to(PACKAGE / "doors").with_suffix("").parts[0]) in doors
        for name in imported_names(path)
        if name.startswith("datalog_gate.doors.")
        and name.split(".")[2] in doors - {door}
        and (path.name, name) not in starts
    ]
    assert wrong == []


def test_only_doors_know_heat() -> None:
    services = {"cinder", "heat", "nova"}
    wrong = [
        f"{path.name} imports {name}"
        for room, path in modules()
        if room != "doors"
        for name in imported_names(path)
        if name.partition(".")[0] in services
    ]
    assert wrong == []


def test_nothing_is_executed_that_came_as_text() -> None:
    """Two modules compile, without executing anything: the engine nodes that it made itself, and the one of records
    text that holds no name but its own."""
    calls = [
        f"{path.relative_to(PACKAGE)}: {ast.unparse(node)}"
        for _, path in modules()
        if re.search(r"\b(exec|eval|compile)\s*\(", path.read_text("utf-8"))
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"exec", "eval", "compile"}
    ]
    assert calls == [
        "base/records.py: compile(source, '<record>', 'exec')",
        "engine/codegen.py: compile(ast.fix_missing_locations(ast.Module([function], [])), '<plan>', 'exec')",
    ]


def modules() -> Iterator[tuple[str, Path]]:
    """Each module of the package with its room."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        if parts in (("__init__.py",), ("__main__.py",)) or "data" in parts:
            continue
        yield parts[0].removesuffix(".py"), path


@cache
def imports() -> dict[str, set[str]]:
    """The rooms that each room imports."""
    graph: dict[str, set[str]] = {room: set() for rooms in LAYERS for room in rooms}
    for room, path in modules():
        graph[room] |= imported_rooms(path) - {room}
    return graph


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a module imports, its own among them, inside functions too. The package itself offers `api`."""
    rooms = {room for layer in LAYERS for room in layer}
    names = [name.split(".") for name in imported_names(path)]
    inner = {parts[1] if parts[1:] else "api" for parts in names if parts[0] == "datalog_gate"} - {"__version__"}
    return {room if room in rooms else "api" for room in inner}


@cache
def imported_names(path: Path) -> list[str]:
    return list(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in statements(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
