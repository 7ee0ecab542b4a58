"""The reader of rule files (layer 5): files and folders of rules, libraries of Congress, and the limits of packs.

In: paths, or names of installed packs. Out: `RuleFile` values, whose texts were read and not yet parsed. Errors are
RulesError.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from datalog_gate.analysis.congress.library import Entry
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import InputError, RulesError
from datalog_gate.base.values import from_python
from datalog_gate.decision.policy_set import RuleFile, texts
from datalog_gate.files.templates import MAX_BYTES, read_text
from datalog_gate.language.ast import Atom, Constant, Rule
from datalog_gate.language.limits import FILE, Limit
from datalog_gate.template.document import Document, read_document

YAML = (".yaml", ".yml")
GROUP = "datalog_gate.rules"
"""The entry points of packs that are Python packages: each names the package that holds the rules."""
DECLARES = "limits.dl"
PACK_FILE = "pack.yaml"
NO_RULES = ("test.yaml", PACK_FILE, FILE)
"""What stands beside rules: their tests, what a pack says of itself, and its limits, which belong to `DECLARES`."""


def read_rules(paths: Iterable[Path], congress: bool = False) -> list[RuleFile]:
    """The rule files at the paths: ``*.dl``, and libraries of Congress in YAML. A folder holds modules by their path
    below it, a file given alone is its stem, and those of an installed pack begin with its name; so do those of every
    pack if two modules would have one name. With `congress` all are read as Congress reads them.

    Errors: RulesError with every file that can't be read, what can't be read in the others, and for a path without any
    rule file.
    """
    files: list[RuleFile] = []
    packs: list[str] = []
    found: list[Diagnostic] = []
    sources: dict[str, str] = {}
    for named in paths:
        pack, path = find_rules(named)
        before = len(files) + len(found)
        for file in _rule_files(path) if path.is_dir() else [path]:
            if file.is_dir() and file.is_symlink():
                message = f"{file} is a link to a folder, which is not followed"
                found.append(Diagnostic("unreadable", message, None, f"name it: --rules {file}"))
                continue
            inner = file.relative_to(path).with_suffix("").parts if path.is_dir() else (file.stem,)
            module = ":".join((*pack, *inner))
            try:
                if rules := _rule_file(file, module, congress, alone=file == path):
                    files.append(rules)
                    packs.append(path.resolve().name if not pack and (path / PACK_FILE).is_file() else "")
            except InputError as error:
                found += error.diagnostics
                sources |= error.sources
        if len(files) + len(found) == before:
            found.append(Diagnostic("no-policy", f"{path} holds no rule file", None, "rule files end in .dl"))
    if found:
        found += [diagnostic for file in files for diagnostic in file.parse()[1]]
        raise RulesError(found, sources | texts(files))
    return _apart(files, packs)


def _apart(files: list[RuleFile], packs: Sequence[str]) -> list[RuleFile]:
    """The files with modules of different names if `packs`, the names of the packs that hold them, can see to that: the
    modules are then called as if the folder above the packs had been given."""
    if len({file.module for file in files}) == len(files):
        return files
    return [
        replace(rule_file, module=f"{pack}:{rule_file.module}") if pack else rule_file
        for rule_file, pack in zip(files, packs, strict=True)
    ]


def _rule_files(folder: Path) -> list[Path]:
    """What may hold rules, and links to folders. A folder that Kubernetes mounts
    keeps its files in ``..data`` and the like, and links to them."""
    return sorted(
        file
        for file in folder.rglob("*")
        if not any(part.startswith("..") for part in file.relative_to(folder).parts)
        and (
            file.suffix.lower() == ".dl"
            or (file.suffix.lower() in YAML and file.name not in NO_RULES)
            or (file.is_dir() and file.is_symlink())
        )
    )


def _rule_file(file: Path, module: str, congress: bool, alone: bool) -> RuleFile | None:
    """The rules of a file; None for YAML that is no library, unless the file was given `alone`. Errors: InputError."""
    text = read_text(file)
    if file.suffix.lower() not in YAML:
        given = _limits(file.with_name(FILE)) if file.name == DECLARES else {}
        return RuleFile(module, str(file), text, congress, **given)
    document = read_document(text, str(file))
    data = document.data if isinstance(document.data, dict) else {}
    listed = isinstance(document.data, list) and any(isinstance(one, dict) and "rule" in one for one in document.data)
    if not (alone or listed or {str(one).lower() for one in data} & {"rules", "rule", "name"}):
        return None
    rules = data.get("rules")
    wrong = [] if isinstance(rules, list) else [("the file has no list `rules`", document.place(()))]
    entries, lines = [], text.splitlines(keepends=True)
    for at, rule in enumerate(rules if isinstance(rules, list) else ()):
        place = document.place(("rules", at, "rule"))
        if not isinstance(rule, dict) or not isinstance(rule.get("rule"), str):
            wrong.append(("a rule of a library is a mapping with a text `rule`", place))
        elif place is not None:
            entries.append(_entry(lines, rule["rule"], str(rule.get("comment") or ""), place))
    if sum(len(entry.text) for entry in entries) > MAX_BYTES:
        wrong.append((f"with aliases written out its rules have more than {MAX_BYTES} characters", None))
    if wrong:
        suggestion = "write name:, description: and rules: with `- rule: p(x) :- q(x)`"
        raise InputError([Diagnostic("bad-library", what, at, suggestion) for what, at in wrong], {str(file): text})
    return RuleFile(module, str(file), text, True, tuple(entries), str(data.get("name") or ""))


def _limits(file: Path) -> dict[str, Any]:
    """What the limits of a pack are, for its `RuleFile`. Errors: InputError."""
    text = read_text(file)
    document = read_document(text, str(file))
    if not isinstance(document.data, dict):
        what = f"{FILE} is a mapping of relations to their rows"
        raise InputError(
            [Diagnostic("bad-limits", what, document.place(()), "write `most_servers: 100`")], {str(file): text}
        )
    found: list[Diagnostic] = []
    limits = tuple(_limit(document, str(name), found) for name in document.data)
    if found:
        raise InputError(found, {str(file): text})
    return {"limits": limits, "limits_file": str(file), "limits_text": text}


def _limit(document: Document, name: str, found: list[Diagnostic]) -> Limit:
    """The rows of a relation: a list of them, or the only value of the only one. A row is a list, or the one value that
    it has."""
    data: Any = document.data
    rows = data[name] if isinstance(data[name], list) else [data[name]]
    span = document.key_place((name,))
    assert span is not None
    facts = []
    for at, row in enumerate(rows):
        place = document.place((name, at) if isinstance(data[name], list) else (name,)) or span
        try:
            values = [from_python(one) for one in (row if isinstance(row, list) else [row])]
        except (TypeError, ValueError):
            suggestion = "a row is a value, or a list of values in the order of the columns"
            found.append(Diagnostic("bad-limits", f"this is no row of {name}", place, suggestion))
            continue
        head = Atom(name, tuple(Constant(value, place) for value in values), span=place, name_span=place)
        facts.append(Rule(head, span=place))
    return Limit(name, span, tuple(facts))


def _entry(lines: Sequence[str], value: str, comment: str, place: Span) -> Entry:
    """A rule of a library as it stands in the file, so that places point there. Where the file escapes characters of
    it, only its first line is sure."""
    part = list(lines[place.line - 1 : place.end_line])
    if len(part) > place.end_line - place.line:
        part[-1] = part[-1][: place.end_column - 1]
    part[0] = part[0][place.column - 1 :]
    line, column, written = place.line, place.column, "".join(part)
    if written[:1] in "|>":
        line, column, written = line + 1, 1, "".join(part[1:])
    elif written[:1] in "\"'":
        column, written = column + 1, written[1:-1]
    same = "".join(written.split()) == "".join(value.split())
    return Entry(written if same else value, line, column, comment)


def find_rules(path: Path) -> tuple[tuple[str, ...], Path]:
    """The path itself; or, where nothing is there, the folder of the installed pack that it names, with the name. No
    code of the pack is run. Errors: RulesError if two packages are this pack, or it has no folder."""
    if path.exists() or len(path.parts) != 1:
        return (), path
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    named = {entry.value for entry in entry_points(group=GROUP, name=path.name)}
    if not named:
        return (), path
    folders = find_spec(next(iter(named))) if len(named) == 1 else None
    places = list(folders.submodule_search_locations or ()) if folders else []
    if len(places) != 1:
        what = (
            f"the pack {path} is in {', '.join(sorted(named))}, and {'none' if len(named) == 1 else 'one'} is a folder"
        )
        raise RulesError([Diagnostic("unreadable", what, None, "install one package for it, or name its folder")])
    return (path.name,), Path(places[0])


def default_rules() -> Path:
    """The rules to judge by where none are named: ``./rules``, else ``DATALOG_GATE_RULES``, else the packs that come
    with the program."""
    here = Path("rules")
    if here.is_dir():
        return here
    if named := os.environ.get("DATALOG_GATE_RULES"):
        return Path(named)
    installed = Path(__file__).parents[1] / "rules"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "rules"
