"""Completions and calls in a rule file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from datalog_gate.analysis.policy import CHOICES, LISTS
from datalog_gate.analysis.resolve import AGGREGATES, KINDS
from datalog_gate.editing.answers import CallHelp, Completion, TextRange, fitting
from datalog_gate.editing.rule_folder import RuleFolder
from datalog_gate.editing.rule_names import ANNOTATION_MEANINGS, ATTRIBUTES, COLUMN_ATTRIBUTES
from datalog_gate.editing.rule_tokens import Level, RuleTokens
from datalog_gate.schema.declaration import ALL, OLD, Relation
from datalog_gate.schema.descriptions import describe_kinds
from datalog_gate.schema.signatures import BUILTINS, Builtin

_WORD = re.compile(r"(?:[A-Za-z_][\w.:]*)?\Z")
STATEMENTS = {
    "relation": "Declares a relation.",
    "export": "Lets other modules read relations.",
    "import": "Reads a module by bare names.",
}
CONDITIONS = {"not": "There is no such row.", "or": "One of several, in parentheses.", "in": "One of a list."}
VALUES = {"null": "Nothing.", "true": "", "false": ""}


def complete(folder: RuleFolder, path: Path, text: str, offset: int) -> tuple[TextRange, list[Completion]]:
    """The completions at an offset, and the word that they replace."""
    before = RuleTokens(text[:offset], str(path)).tokens
    last = before[-2] if before[1:] else before[-1]
    in_text = last.kind == "bad_string" and last.end == offset
    word = last.text[1:] if in_text else _word(text, offset)
    prefix = RuleTokens(text[: offset - len(word) - in_text], str(path))
    end = offset + len(re.match(r"[\w.:]*", text[offset:])[0])  # type: ignore[index]
    whole = RuleTokens(text, str(path))
    find = _texts if in_text else _names
    offered = find(folder, path, prefix, whole, whole.at(offset))
    version = next((version for version in _VERSIONS if word.startswith(version) and not in_text), "")
    if version:
        word, known = word.removeprefix(version), folder.catalogue.relation
        relations = (completion for completion in offered if completion.kind == "relation")
        offered = (item for item in relations if known(version + item.label) or not known(item.label))
    return TextRange(str(path), offset - len(word), end), fitting(offered, word)


def describe_call(folder: RuleFolder, path: Path, text: str, offset: int) -> CallHelp | None:
    """The relation or builtin whose arguments are being written; a builtin with one result is shown as a term."""
    prefix = RuleTokens(text[:offset], str(path))
    level = _level(prefix)
    while level and level.bracket in ("group", "list"):
        level = level.outer
    if level is None or level.bracket != "atom":
        return None
    name = prefix.tokens[level.owner].text
    meaning = folder.meaning(name, _module_name(folder, path))
    if meaning is None:
        return None
    inside = [at for at in range(level.owner + 2, len(prefix.tokens) - 1) if prefix.levels[at] == level]
    commas = [at for at in inside if prefix.tokens[at].kind == ","]
    active, end = len(commas), ""
    columns = meaning.columns if isinstance(meaning, Relation) else (*meaning.inputs, *meaning.outputs)
    if isinstance(meaning, Builtin) and len(meaning.outputs) == 1 and active < len(meaning.inputs):
        columns, end = meaning.inputs, f" = {meaning.outputs[0].name}"
    last = commas[-1] + 1 if commas else level.owner + 2
    if last + 1 < len(prefix.tokens) and prefix.tokens[last + 1].kind == "=":
        named = [column.name for column in columns]
        active = named.index(prefix.tokens[last].text) if prefix.tokens[last].text in named else len(named)
    parameters = tuple(f"{column.name}: {describe_kinds(column)}" for column in columns)
    return CallHelp(f"{name}({', '.join(parameters)}){end}", parameters, active, meaning.meaning)


def _word(text: str, offset: int) -> str:
    match = _WORD.search(text, max(0, offset - 200), offset)
    return match[0] if match else ""


def _names(
    folder: RuleFolder, path: Path, prefix: RuleTokens, whole: RuleTokens, index: int | None
) -> Iterator[Completion]:
    last = len(prefix.tokens) - 2
    level = _level(prefix)
    start = prefix.starts[-1]
    first = prefix.tokens[start].text if start <= last else ""
    if last >= 0 and prefix.tokens[last].kind == "@":
        yield from (Completion(name, "keyword", "annotation", meaning) for name, meaning in ANNOTATION_MEANINGS.items())
    elif level and level.bracket == "annotation":
        if prefix.tokens[last].kind in ("(", ","):
            used = {prefix.tokens[at].text for at, _ in prefix.named("attribute") if at >= start}
            for name, meaning in ATTRIBUTES.items():
                if name not in used:
                    yield Completion(name, "keyword", "attribute", meaning, f"{name}={'[' if name in LISTS else ''}")
    elif level and level.bracket == "declaration":
        if prefix.tokens[last].text in (":", "or"):
            yield from (Completion(kind, "keyword", "kind") for kind in KINDS)
        elif prefix.tokens[level.owner].text == "key":
            declared = (token.text for at, token in prefix.named("declared") if start < at < level.owner)
            yield from (Completion(name, "column", "column") for name in declared)
    elif start > last:
        yield from _own_relations(folder, path)
        yield from (Completion(name, "keyword", "", meaning) for name, meaning in STATEMENTS.items())
        for name, meaning in ANNOTATION_MEANINGS.items():
            yield Completion(f"@{name}", "keyword", "annotation", meaning, f"@{name}(")
    elif first == "relation":
        yield Completion("key", "keyword", "", "The columns that tell its rows apart.", "key(")
    elif first == "import":
        yield from (Completion(parsed.module.name, "module", "module") for parsed in folder.all())
    elif first == "export":
        scope = folder.names.scopes.get(_module_name(folder, path))
        yield from (Completion(name, "relation") for name in sorted(scope.relations if scope else ()))
    else:
        if level and level.bracket == "atom":
            yield from _columns(folder, path, prefix, level)
        names = whole.variables(index) if index is not None else prefix.variables(len(prefix.tokens) - 1)
        yield from (Completion(name, "variable", "variable") for name in names)
        if level is None or level.bracket in ("group", "aggregate"):
            yield from _relations(folder, path)
            yield from (Completion(name, "keyword", "aggregate", "", f"{name}{{ ") for name in AGGREGATES)
            yield from (Completion(name, "keyword", "", meaning) for name, meaning in CONDITIONS.items())
        yield from (Completion(name, "keyword", "", meaning) for name, meaning in VALUES.items())


def _columns(folder: RuleFolder, path: Path, prefix: RuleTokens, level: Level) -> Iterator[Completion]:
    """The columns of the relation at the cursor that have no argument yet."""
    if prefix.tokens[-2].kind not in ("(", ","):
        return
    meaning = folder.meaning(prefix.tokens[level.owner].text, _module_name(folder, path))
    if isinstance(meaning, Relation):
        used = {prefix.tokens[at].text for at, _ in prefix.named("column") if at > level.owner}
        for column in meaning.columns:
            if column.name not in used:
                name = column.name if column.name.isidentifier() else f'"{column.name}"'
                yield Completion(column.name, "column", describe_kinds(column), column.meaning, f"{name}=")


def _texts(
    folder: RuleFolder, path: Path, prefix: RuleTokens, whole: RuleTokens, index: int | None
) -> Iterator[Completion]:
    """The values of the column or attribute whose text is being written."""
    level = _level(prefix)
    listed = bool(level and level.bracket == "list")
    at = len(prefix.tokens) - 2
    while listed and at > 0 and prefix.tokens[at].kind != "[":
        at -= 1
    at -= listed
    if level and listed:
        level = level.outer
    if level is None or at < 1:
        return
    name = prefix.tokens[at - 1].text
    values: Iterable[str] = ()
    is_named = prefix.tokens[at].kind in ("=", "in")
    if level.bracket == "annotation" and is_named:
        values = CHOICES.get(name, ())
        if name in COLUMN_ATTRIBUTES and index is not None:
            values = whole.variables(index, of_head=True)
    elif level.bracket == "atom":
        meaning = folder.meaning(prefix.tokens[level.owner].text, _module_name(folder, path))
        columns = meaning.columns if isinstance(meaning, Relation) else ()
        place = sum(prefix.levels[comma] == level and prefix.tokens[comma].kind == "," for comma in range(at + 1))
        fits = (column.name == name if is_named else at == place for at, column in enumerate(columns))
        values = next((column.allowed for column, fit in zip(columns, fits, strict=True) if fit), ())
    yield from (Completion(value, "value") for value in values)


def _relations(folder: RuleFolder, path: Path) -> Iterator[Completion]:
    """The relations that a body may read, and the builtins."""
    yield from _own_relations(folder, path)
    module = _module_name(folder, path)
    scopes = folder.names.scopes
    own = scopes.get(module)
    imported = {folder.names.imported(import_.module, module) for import_ in own.imports} if own else set()
    for other, scope in scopes.items():
        for name in sorted(scope.exports & scope.relations.keys() if other != module else ()):
            relation = scope.relations[name]
            for shown in (name, f"{other}:{name}")[other not in imported :]:
                signature = _signature(relation)
                yield Completion(shown, "relation", signature, relation.meaning, f"{shown}(")
    for name in folder.catalogue.names():
        known = folder.catalogue.relation(name)
        assert known
        yield Completion(name, "relation", "", known.meaning, f"{name}(")
    yield from (Completion(prefix, "keyword", "", meaning) for prefix, meaning in _VERSIONS.items())
    for builtin in BUILTINS.values():
        if builtin.name.isidentifier():
            signature = _signature(builtin)
            yield Completion(builtin.name, "builtin", signature, builtin.meaning, f"{builtin.name}(")


def _own_relations(folder: RuleFolder, path: Path) -> Iterator[Completion]:
    own = folder.names.scopes.get(_module_name(folder, path))
    for name, relation in (own.relations if own else {}).items():
        yield Completion(name, "relation", _signature(relation), relation.meaning, f"{name}(")


_VERSIONS = {OLD: "A relation as it was before the change.", ALL: "A relation of all stacks of the cloud."}


def _signature(meaning: Relation | Builtin) -> str:
    columns = meaning.columns if isinstance(meaning, Relation) else (*meaning.inputs, *meaning.outputs)
    return f"{meaning.name}({', '.join(column.name for column in columns)})"


def _module_name(folder: RuleFolder, path: Path) -> str:
    parsed = folder.parsed(str(path))
    return parsed.module.name if parsed else ""


def _level(prefix: RuleTokens) -> Level | None:
    """The innermost open bracket at the end."""
    return prefix.levels[-1]
