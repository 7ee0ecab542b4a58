"""Completion, definitions and lenses of policy tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from datalog_gate.analysis.policy import ACTIONS, LEVELS
from datalog_gate.editing.answers import Completion, Lens, TextRange
from datalog_gate.editing.rule_folder import RuleFolder
from datalog_gate.editing.workspace import TEST_FILE, Workspace
from datalog_gate.editing.yaml_outline import entry_at, read_outline, slot_at
from datalog_gate.language.ast import Rule
from datalog_gate.policytest.testfile import TOP, Shape


def complete(workspace: Workspace, path: Path, offset: int) -> tuple[TextRange, list[Completion]]:
    """The completions at an offset, and the word that they stand for. They begin with what is written of it."""
    text = workspace.text(path).text
    slot = slot_at(text, offset)
    written = text[slot.start : offset].lower()
    offered: list[Completion] = []
    shape = _shape_at(slot.path)
    if slot.is_key and isinstance(shape, dict):
        offered += (Completion(name, "keyword", insert=f"{name}: ") for name in shape if name != "*")
    if slot.is_value:
        offered += _values(workspace, path, slot.path)
    fitting = [completion for completion in offered if completion.label.lower().startswith(written)]
    return TextRange(str(path), slot.start, slot.end), fitting


def definitions(workspace: Workspace, path: Path, offset: int) -> list[TextRange]:
    """The policy or the file that the text at an offset names."""
    near = entry_at(workspace.text(path).text, offset)
    if near is None or not near[1]:
        return []
    entry = near[0]
    if entry.path[-1] == "policy":
        return [where for identity, where in policies(workspace.folder(path)) if identity == entry.value]
    file = path.parent / entry.value
    if entry.path[2:] in (("stack",), ("against",), ("inventory",)) or entry.path[2:3] == ("modules",):
        file = file / "template.yaml" if file.is_dir() else file
        return [TextRange(str(file.resolve()), 0, 0)] if file.is_file() else []
    return []


def case_lenses(text: str, path: Path) -> list[Lens]:
    """A lens on each case."""
    return [
        Lens(TextRange(str(path), entry.start, entry.end), "run this case", str(path), case=entry.value)
        for entry in read_outline(text)
        if len(entry.path) == 3 and entry.path[::2] == ("cases", "name") and entry.value
    ]


def policy_lenses(workspace: Workspace, path: Path) -> list[Lens]:
    """A lens on each policy of a rule file, with how many cases expect it."""
    test = path.with_name(TEST_FILE)
    named = [entry.value for entry in read_outline(workspace.text(test).text) if entry.path[-1] == "policy"]
    cases = {
        (entry.path[1], entry.value) for entry in read_outline(workspace.text(test).text) if entry.path[-1] == "policy"
    }
    return [
        Lens(where, f"run {_count(identity, cases)}", str(test), policy=identity)
        for identity, where in policies(workspace.folder(path))
        if where.file == str(path) and identity in named
    ]


def _count(identity: str, cases: set[tuple[str | int, str]]) -> str:
    count = sum(name == identity for _, name in cases)
    return f"its {count} cases" if count > 1 else "its case"


def policies(folder: RuleFolder) -> Iterator[tuple[str, TextRange]]:
    """The policies of rules by id, with the place of each annotation."""
    from datalog_gate.editing.source_text import source_text

    for parsed in folder.all():
        text = source_text(parsed.file.file, parsed.file.text)
        for rule in parsed.module.statements:
            if isinstance(rule, Rule) and rule.annotation and rule.annotation.name in LEVELS:
                values = [value.value for value in rule.annotation.values[:1]]
                named = [attribute.value for attribute in rule.annotation.attributes if attribute.name == "id"]
                identity = next(iter([*values, *named]), f"{parsed.module.name}:{rule.head.name}")
                yield str(identity), text.range(rule.annotation.span)


def _shape_at(path: tuple[str | int, ...]) -> Shape | None:
    """The shape of a test file below a path; None where anything may stand."""
    shape: Shape | None = TOP
    for step in path:
        if isinstance(shape, list) and isinstance(step, int):
            shape = shape[0]
        elif isinstance(shape, dict) and isinstance(step, str):
            shape = shape.get(step, shape.get("*"))
        else:
            return None
    return shape


def _values(workspace: Workspace, path: Path, steps: tuple[str | int, ...]) -> Iterator[Completion]:
    match steps[2:]:
        case ("action",):
            yield from (Completion(action, "value") for action in ACTIONS)
        case ("expect", "violations" | "undetermined", _, "policy"):
            for identity, where in policies(workspace.folder(path)):
                if Path(where.file).parent == path.parent:
                    yield Completion(identity, "value", "policy")
        case ("expect", "violations" | "undetermined", _, "resource"):
            yield from (Completion(name, "value", "resource") for name in _resources(workspace, path, steps))
        case ("stack",) | ("against",):
            for file in sorted({*path.parent.glob("*.yaml"), *path.parent.glob("*/template.yaml")}):
                if file != path and workspace.is_template(file):
                    folder = file.parent if file.name == "template.yaml" else file
                    yield Completion(folder.relative_to(path.parent).as_posix(), "value", "template")


def _resources(workspace: Workspace, path: Path, steps: tuple[str | int, ...]) -> Iterator[str]:
    """The resources of the stack of a case, and of that before it, which stand in the test or in a file."""
    outline = read_outline(workspace.text(path).text)
    resources: dict[str, None] = {}
    for stack in ("stack", "against"):
        source = tuple(entry for entry in outline if entry.path[:3] == (*steps[:2], stack))
        if source and source[0].value:
            file = (path.parent / source[0].value).resolve()
            file = file / "template.yaml" if file.is_dir() else file
            ways = [entry.path for entry in read_outline(workspace.text(file).text)]
        else:
            ways = [entry.path[3:] for entry in source]
        resources |= {str(way[1]): None for way in ways if len(way) == 2 and way[0] == "resources"}
    yield from resources
