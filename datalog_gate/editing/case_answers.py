"""Completion, definitions and lenses for policy tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from datalog_gate.analysis.policy import CHOICES, LEVELS
from datalog_gate.decision.waivers import KEYS
from datalog_gate.editing.answers import Completion, Lens, TextRange
from datalog_gate.editing.rule_folder import RuleFolder
from datalog_gate.editing.source_text import source_text
from datalog_gate.editing.workspace import TEST_FILE, Workspace
from datalog_gate.editing.yaml_outline import entry_at, fit_slot, read_outline, slot_at
from datalog_gate.files.discovery import FOLDER_TEMPLATE
from datalog_gate.policytest.testfile import CASE, Shape

_MAPPINGS: dict[str, Shape] = {
    "environment": {"parameters": (dict,)},
    "caller": dict.fromkeys(("user", "project", "domain", "roles"), (str,)),
    "waivers": [dict.fromkeys(KEYS, (str,))],
}
"""The keys whose mappings a test file takes as a whole."""


def complete(workspace: Workspace, path: Path, offset: int) -> tuple[TextRange, list[Completion]]:
    """The completions at an offset, and the word that they replace."""
    text = workspace.text(path).text
    slot = slot_at(text, offset)
    offered: list[Completion] = []
    if slot.is_key:
        shape = _shape_at(slot.path)
        names = [*shape] if isinstance(shape, dict) else []
        if slot.path[2:] == ("environment", "parameters"):
            names = [*_names_of_stacks(workspace, path, slot.path, "parameters")]
        offered += (Completion(name, "keyword", insert=f"{name}: ") for name in names if name != "*")
    if slot.is_value:
        offered += _values(workspace, path, slot.path, text[slot.start : offset])
    return fit_slot(slot, path, text, offset, offered)


def definitions(workspace: Workspace, path: Path, offset: int) -> list[TextRange]:
    """The definition of the policy, or the file, named at an offset."""
    near = entry_at(workspace.text(path).text, offset)
    if near is None or not near[1]:
        return []
    entry = near[0]
    if entry.path[-1] == "policy":
        return [where for identity, where in policies(workspace.folder(path)) if identity == entry.value]
    if entry.path[2:] in (("stack",), ("against",), ("inventory",)) or entry.path[2:3] == ("modules",):
        file = _named_file(path, entry.value)
        return [TextRange(str(file), 0, 0)] if file.is_file() else []
    return []


def case_lenses(text: str, path: Path) -> list[Lens]:
    """A lens on each case."""
    return [
        Lens(TextRange(str(path), entry.start, entry.end), "run this case", str(path), case=entry.value)
        for entry in read_outline(text)
        if len(entry.path) == 3 and entry.path[::2] == ("cases", "name") and entry.value
    ]


def policy_lenses(workspace: Workspace, path: Path) -> list[Lens]:
    """A lens on each policy of a rule file, with the number of cases that expect it."""
    test = path.with_name(TEST_FILE)
    expected = (entry for entry in read_outline(workspace.text(test).text) if entry.path[2:3] == ("expect",))
    cases = {(entry.path[1], entry.value) for entry in expected if entry.path[-1] == "policy"}
    counts = Counter(name for _, name in cases)
    return [
        Lens(where, f"run its {n} cases" if n > 1 else "run its case", str(test), policy=identity)
        for identity, where in policies(workspace.folder(path))
        if where.file == str(path) and (n := counts[identity])
    ]


def policies(folder: RuleFolder) -> Iterator[tuple[str, TextRange]]:
    """The policies of rules by id, with the place of each annotation."""
    for parsed in folder.all():
        text = source_text(parsed.file.file, parsed.file.text)
        for rule in parsed.module.rules:
            if rule.annotation and rule.annotation.name in LEVELS:
                values = [value.value for value in rule.annotation.values[:1]]
                named = [attribute.value for attribute in rule.annotation.attributes if attribute.name == "id"]
                identity = next(iter([*values, *named]), f"{parsed.module.name}:{rule.head.name}")
                yield str(identity), text.range(rule.annotation.span)


def _shape_at(path: tuple[str | int, ...]) -> Shape | None:
    """The shape of a test file below a path; None if anything is allowed."""
    case: dict[str, Shape] = {**CASE, **_MAPPINGS}
    shape: Shape | None = {"cases": [case]}
    for step in path:
        if isinstance(shape, list) and isinstance(step, int):
            shape = shape[0]
        elif isinstance(shape, dict) and isinstance(step, str):
            shape = shape.get(step, shape.get("*"))
        else:
            return None
    return shape


def _values(workspace: Workspace, path: Path, steps: tuple[str | int, ...], written: str) -> Iterator[Completion]:
    match steps[2:]:
        case ("action",):
            yield from (Completion(action, "value") for action in CHOICES["on"])
        case ("expect", "violations" | "undetermined", _, "policy") | ("waivers", _, "policy"):
            for identity, where in policies(workspace.folder(path)):
                if Path(where.file).parent == path.parent:
                    yield Completion(identity, "value", "policy")
        case ("expect", "violations" | "undetermined", _, "resource") | ("waivers", _, "subject"):
            names = _names_of_stacks(workspace, path, steps, "resources")
            yield from (Completion(name, "value", "resource") for name in names)
        case ("stack",) | ("against",) | ("modules", _):
            yield from workspace.offer_files(path, written, "value", folder_stacks=True)


def _named_file(path: Path, name: str) -> Path:
    """The file that a test names; the template of a folder."""
    file = (path.parent / name).resolve()
    return file / FOLDER_TEMPLATE if file.is_dir() else file


def _names_of_stacks(workspace: Workspace, path: Path, steps: tuple[str | int, ...], section: str) -> Iterator[str]:
    """The names that a section defines in the stack of a case and in its older state. Either is in the test or in a
    file."""
    outline = read_outline(workspace.text(path).text)
    names: dict[str, None] = {}
    for stack in ("stack", "against"):
        source = tuple(entry for entry in outline if entry.path[:3] == (*steps[:2], stack))
        if source and source[0].value:
            file = _named_file(path, source[0].value)
            ways = [entry.path for entry in read_outline(workspace.text(file).text)]
        else:
            ways = [entry.path[3:] for entry in source]
        names |= {str(way[1]): None for way in ways if len(way) == 2 and str(way[0]).lower() == section}
    yield from names
