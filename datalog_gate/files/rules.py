"""Reads rule files, and the limits and descriptions of packs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import InputError, RulesError
from datalog_gate.base.records import replace
from datalog_gate.decision.policy_set import LIMITS_FILE, RuleFile, texts
from datalog_gate.files.templates import MAX_BYTES, list_files, read_text
from datalog_gate.template.document import read_document

if TYPE_CHECKING:
    from datalog_gate.language.congress.library import Entry

YAML = (".yaml", ".yml")
GROUP = "datalog_gate.rules"
"""The entry-point group for packs that are Python packages. Each names the package that holds the rules."""
LIMITS_MODULE = "limits.dl"
PACK_FILE = "pack.yaml"
PACK_FIELDS = ("version", "summary")
OPTIONAL_FIELDS = ("inventory", "caller")
"""Fields of a pack such as ``inventory: optional``, which says that its rules are useful without one."""
NO_RULES = ("test.yaml", PACK_FILE, LIMITS_FILE)
"""Files beside rules: tests, the description of a pack, and its limits, which `LIMITS_MODULE` declares."""


def read_rules(paths: Iterable[Path], congress: bool = False, local: bool = True) -> list[RuleFile]:
    """Read the rule files at the paths: ``*.dl``, and libraries of Congress in YAML.

    A module is named by its path in the folder, or by the stem of a single file. Modules of an installed pack have its
    name as a prefix, and so do those of all packs if two modules would otherwise have the same name. With `congress`
    all files are read as Congress reads them. Unless `local`, a name is that of an installed pack, whatever the working
    folder contains.

    Errors: RulesError with every file that cannot be read, the syntax errors of the others, and for a path without any
    rule file.
    """
    read = _RulesRead([], [], [], {})
    for name in paths:
        _read_path(read, *find_rules(name, local), congress)
    files = read.files
    if read.diagnostics:
        problems = [*read.diagnostics, *(diagnostic for file in files for diagnostic in file.parse()[1])]
        raise RulesError(problems, read.sources | texts(files))
    if len({file.module for file in files}) == len(files):
        return files
    return [  # modules are named as if the folder above the packs had been given
        replace(rule_file, module=f"{pack}:{rule_file.module}") if pack else rule_file
        for rule_file, pack in zip(files, read.packs, strict=True)
    ]


class _RulesRead(NamedTuple):
    """What was read of several paths."""

    files: list[RuleFile]
    packs: list[str]
    """The name of the pack that each file is in; empty without one."""
    diagnostics: list[Diagnostic]
    sources: dict[str, str]


def _read_path(read: _RulesRead, pack: tuple[str, ...], path: Path, congress: bool) -> None:
    """Read a file, or the files of a folder, which may be that of an installed pack of this name."""
    before, failed = len(read.files), len(read.diagnostics)
    is_folder = os.path.isdir(path)
    try:
        listed = list_files(path) if is_folder else []
    except InputError as error:
        read.diagnostics.extend(error.diagnostics)
        return
    own = os.path.basename(os.path.realpath(path)) if not pack and os.path.isfile(path / PACK_FILE) else ""
    for file in _rule_files(path, listed) if is_folder else [path]:
        if os.path.isdir(file) and file != path:
            message = f"{file} is a link to a folder, which is not followed"
            read.diagnostics.append(Diagnostic("unreadable", message, None, f"name it: --rules {file}"))
            continue
        inner = file.relative_to(path).with_suffix("").parts if is_folder else (file.stem,)
        try:
            if rules := _rule_file(file, ":".join((*pack, *inner)), congress, alone=file == path):
                read.files.append(rules)
                read.packs.append(own)
        except InputError as error:
            read.diagnostics.extend(error.diagnostics)
            read.sources.update(error.sources)
    if len(read.files) == before and len(read.diagnostics) == failed:
        message = f"{path} holds no rule file"
        read.diagnostics.append(Diagnostic("no-policy", message, None, "rule files end in .dl"))


def read_readable_rules(tops: Sequence[Path]) -> tuple[list[RuleFile], tuple[Diagnostic, ...]]:
    """Read the rule files below folders, or single ones, as `read_rules`; also return problems with the folders
    themselves. If there are any, files that can't be read, and limits, are left out."""
    try:
        return read_rules(tops) if tops[1:] or tops[0].exists() else [], ()  # an editor creates it with its first file
    except RulesError as error:
        wrong = tuple(diagnostic for diagnostic in error.diagnostics if diagnostic.code != "syntax")
        return [file for top in tops for file in _read_readable(top)], wrong


def _read_readable(top: Path) -> Iterator[RuleFile]:
    for path in list_files(top) if top.is_dir() else [top]:
        if path.suffix == ".dl":
            try:
                module = ":".join(path.relative_to(top).with_suffix("").parts) or path.stem
                yield RuleFile(module, str(path), read_text(path))
            except InputError:
                continue


def replace_texts(files: Iterable[RuleFile], texts: Mapping[Path, str], tops: Sequence[Path]) -> list[RuleFile]:
    """The rule files with the texts of an editor. New files below the `tops` are added."""
    rules = {file.file: file for file in files}
    for path, text in texts.items():
        top = next((top for top in tops if path.is_relative_to(top)), None)
        if path.suffix == ".dl" and (top or str(path) in rules):
            module = ":".join(path.relative_to(top).with_suffix("").parts) if top else ""
            file = rules.get(str(path)) or RuleFile(module, str(path), "")
            rules[str(path)] = file if file.text == text else replace(file, text=text)
    return list(rules.values())


def _rule_files(folder: Path, listed: Iterable[Path]) -> list[Path]:
    """The files of a folder that may contain rules, following links to folders, except Kubernetes' ``..data``."""
    depth = len(folder.parts)
    return [
        file
        for file in listed
        if not any(part.startswith("..") for part in file.parts[depth:])
        and (
            file.suffix.lower() == ".dl"
            or (file.suffix.lower() in YAML and file.name not in NO_RULES)
            or os.path.isdir(file)
        )
    ]


def _rule_file(file: Path, module: str, congress: bool, alone: bool) -> RuleFile | None:
    """Read a rule file; None for YAML that is not a library, unless it was named `alone`. Errors: InputError."""
    text = read_text(file)
    if file.suffix.lower() not in YAML:
        limits = _read_limits(file.with_name(LIMITS_FILE)) if file.name == LIMITS_MODULE else {}
        return RuleFile(module, str(file), text, congress, **limits)
    document = read_document(text, str(file))
    data = document.data if isinstance(document.data, dict) else {}
    items = document.data if isinstance(document.data, list) else []
    has_rules = any(isinstance(item, dict) and "rule" in item for item in items)
    has_fields = any(str(key).lower() in ("rules", "rule", "name") for key in data)
    if not (alone or has_rules or has_fields):
        return None
    rules = data.get("rules")
    problems = [] if isinstance(rules, list) else [("the file has no list `rules`", document.place(()))]
    suggestion = "write name:, description: and rules: with `- rule: p(x) :- q(x)`"
    if problems and (other := _other_file(file, data)):
        problems, suggestion = [(other[0], document.place(()))], other[1]
    entries, lines = [], text.splitlines(keepends=True)
    for index, rule in enumerate(rules if isinstance(rules, list) else []):
        place = document.place(("rules", index, "rule"))
        if not isinstance(rule, dict) or not isinstance(rule.get("rule"), str):
            problems.append(("a rule of a library must be a mapping with a string `rule`", place))
        elif place is not None:
            entries.append(_entry(lines, rule["rule"], str(rule.get("comment") or ""), place))
    if sum(len(entry.text) for entry in entries) > MAX_BYTES:
        problems.append((f"with its aliases expanded, the rules have more than {MAX_BYTES} characters", None))
    if problems:
        diagnostics = [Diagnostic("bad-library", message, place, suggestion) for message, place in problems]
        raise InputError(diagnostics, {str(file): text})
    return RuleFile(module, str(file), text, True, tuple(entries), str(data.get("name") or ""))


def _other_file(file: Path, data: Mapping[str, object]) -> tuple[str, str] | None:
    """The kind of file that was given as rules by mistake, and where it belongs; None if unknown."""
    if data.keys() & {"heat_template_version", "AWSTemplateFormatVersion", "HeatTemplateFormatVersion"}:
        return "this is a template, not a file of rules", f"give the rules with --rules: check {file} --rules RULES"
    if "cases" in data:
        return "this is a file of policy tests, not of rules", f"run `datalog-gate test {quote(str(file.parent))}`"
    return None


def _read_limits(file: Path) -> dict[str, Any]:
    """The limits of a pack, as fields of its `RuleFile`. Errors: InputError."""
    if not os.path.exists(file):
        message, other = f"{file} can't be read: No such file or directory", file.with_suffix(".yml")
        advice = (
            f"rename {other} to {file.name}"
            if os.path.exists(other)
            else "write that file, with `NAME: VALUE` for each relation"
        )
        raise InputError([Diagnostic("unreadable", message, None, advice)])
    return {"limits_file": str(file), "limits_text": read_text(file)}


def _entry(lines: Sequence[str], value: str, comment: str, place: Span) -> Entry:
    """A rule as written in the file, for places. If the file escapes characters, only its first line is exact."""
    from datalog_gate.language.congress.library import Entry

    span_lines = list(lines[place.line - 1 : place.end_line])
    if len(span_lines) > place.end_line - place.line:
        span_lines[-1] = span_lines[-1][: place.end_column - 1]
    span_lines[0] = span_lines[0][place.column - 1 :]
    line, column, written = place.line, place.column, "".join(span_lines)
    if written[:1] in "|>":
        line, column, written = line + 1, 1, "".join(span_lines[1:])
    elif written[:1] in "\"'":
        column, written = column + 1, written[1:-1]
    same = "".join(written.split()) == "".join(value.split())
    return Entry(written if same else value, line, column, comment)


def find_rules(path: Path, local: bool = True) -> tuple[tuple[str, ...], Path]:
    """Find the rules at a path; if it does not exist, or is not to be `local`, the folder of the installed pack of that
    name. Return the name of the pack, or (), and the path. No code of the pack is run. Errors: RulesError if two
    packages provide the pack, or it has no folder."""
    if len(path.parts) != 1 or path.is_absolute() or (local and os.path.exists(path)):
        return (), path
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    packages = {entry.value for entry in entry_points(group=GROUP, name=path.name)}
    if not packages:
        return (), path
    folders = find_spec(next(iter(packages))) if len(packages) == 1 else None
    places = list(folders.submodule_search_locations or ()) if folders else []
    if len(places) != 1:
        folder = "none" if len(packages) == 1 else "one"
        message = f"the pack {path} is in {', '.join(sorted(packages))}, and {folder} is a folder"
        raise RulesError([Diagnostic("unreadable", message, None, "install one package for it, or name its folder")])
    return (path.name,), Path(places[0])


def read_pack_file(file: Path) -> dict[str, str]:
    """Read the fields of a ``pack.yaml``; empty if there is no such file. Errors: InputError."""
    if not file.exists():
        return dict.fromkeys(PACK_FIELDS, "")
    text = read_text(file)
    document = read_document(text, str(file))
    data = document.data if isinstance(document.data, dict) else {}
    has_fields = set(data) - set(OPTIONAL_FIELDS) == set(PACK_FIELDS)
    if not has_fields or not all(isinstance(value, str) for value in data.values()):
        message = f"{PACK_FILE} must have {' and '.join(PACK_FIELDS)}, each a string"
        diagnostic = Diagnostic("bad-pack", message, document.place(()), 'write `version: "1.0"`')
        raise InputError([diagnostic], {str(file): text})
    return {name: str(value) for name, value in data.items()}


def default_rules() -> Path:
    """The default rules: ``./rules``, else those of ``DATALOG_GATE_RULES``, else the packs of the package."""
    local = Path("rules")
    if local.is_dir():
        return local
    if path := os.environ.get("DATALOG_GATE_RULES"):
        return Path(path)
    return shipped_rules()


def shipped_rules() -> Path:
    """The folder of the packs of the package."""
    installed = Path(__file__).parents[1] / "rules"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "rules"


def find_shipped(files: Iterable[str]) -> frozenset[str]:
    """Those of the files that belong to packs of the package."""
    top = shipped_rules().resolve()
    return frozenset(file for file in files if Path(file).resolve().is_relative_to(top))
