"""Names in rule files: hover, definitions, references and renaming."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from datalog_gate.analysis.check import Checked
from datalog_gate.analysis.policy import LISTS, PLACEHOLDERS, TEXTS
from datalog_gate.base.errors import UsageError
from datalog_gate.base.records import dataclass, replace
from datalog_gate.decision.policy_set import LIMITS_FILE
from datalog_gate.editing.actions import find_new_errors
from datalog_gate.editing.answers import Hover, Symbol, TextEdit, TextRange
from datalog_gate.editing.rule_folder import ParsedRules, RuleFolder, with_texts
from datalog_gate.editing.rule_tokens import Role
from datalog_gate.editing.source_text import SourceText, source_text
from datalog_gate.editing.template_edits import apply_edits
from datalog_gate.editing.yaml_outline import read_outline
from datalog_gate.facts.relation_text import format_meaning
from datalog_gate.language.ast import Declaration, Rule
from datalog_gate.language.lexer import Token, is_name
from datalog_gate.schema.declaration import ALL, OLD, Relation
from datalog_gate.schema.descriptions import describe_kinds
from datalog_gate.schema.signatures import Builtin

ATTRIBUTES = TEXTS | LISTS
ANNOTATION_MEANINGS = {
    "deny": "Each row refuses the operation.",
    "warn": "Each row is a warning.",
    "record": "Each row is noted only.",
    "unlock": "Each row is a grant that unlocks the service.",
}
COLUMN_ATTRIBUTES = ("key", "subject", "worse")
"""Attributes that name columns of the head."""


@dataclass(frozen=True)
class NameUse:
    """A name at a place of a rule file."""

    folder: RuleFolder
    parsed: ParsedRules
    index: int

    @property
    def text(self) -> str:
        return self.parsed.tokens.tokens[self.index].text

    @property
    def role(self) -> Role:
        return self.parsed.tokens.role(self.index)

    @property
    def meaning(self) -> Relation | Builtin | None:
        """The relation or builtin that it names, or in whose atom it names a column."""
        if self.role == "column":
            level = self.parsed.tokens.levels[self.index]
            assert level
            return replace(self, index=level.owner).meaning
        is_relation = self.role in ("relation", "exported")
        return self.folder.meaning(self.text.rstrip("+-"), self.parsed.module.name) if is_relation else None

    @property
    def module(self) -> ParsedRules | None:
        """The file of the module that it names."""
        return _module(self.folder, self.text) if self.role == "module" else None

    @property
    def variable(self) -> list[TextRange]:
        """The places of the variable in its statement."""
        tokens = self.parsed.tokens
        variables = (at for at in tokens.statement(self.index) if tokens.role(at) == self.role == "variable")
        return [_range(self.parsed, at) for at in variables if tokens.tokens[at].text == self.text]


def find_name(folder: RuleFolder, path: Path, offset: int) -> NameUse | None:
    """The name at an offset of a rule file."""
    parsed = folder.parsed(str(path))
    index = parsed.tokens.at(offset) if parsed else None
    return NameUse(folder, parsed, index) if parsed and index is not None else None


def hover(use: NameUse, checked: Checked | None = None) -> Hover | None:
    """The description of a name. `checked` has the kinds of columns of the rules' own relations."""
    text = ""
    match use.role, use.meaning:
        case "column", Relation() as relation if use.text in relation.positions:
            column = relation.columns[relation.positions[use.text]]
            text = f"`{column.name}` of `{relation.name}`: {describe_kinds(column)}\n\n{column.meaning}"
        case "relation" | "exported", Relation() | Builtin() as meaning:
            text = describe(use.folder, meaning, checked)
        case "annotation", _ if use.text in ANNOTATION_MEANINGS:
            text = f"`@{use.text}`: {ANNOTATION_MEANINGS[use.text]}"
        case "attribute", _ if use.text in ATTRIBUTES:
            text = f"`{use.text}`: {ATTRIBUTES[use.text]}"
        case "module", _ if use.module:
            text = f"The module of `{Path(use.module.file.file).name}`."
    return Hover(_range(use.parsed, use.index), text) if text else None


def describe(folder: RuleFolder, meaning: Relation | Builtin, checked: Checked | None = None) -> str:
    """A relation or builtin in Markdown; for the catalogue as `datalog-gate relations` prints it."""
    known = checked.program.relations.get(meaning.ref) if checked and isinstance(meaning, Relation) else None
    text = "\n".join(["```text", *format_meaning(meaning, folder.catalogue, known), "```"])
    policies = checked.policies if checked and isinstance(meaning, Relation) else ()
    for policy in (policy for policy in policies if policy.relation == meaning.name):
        text += f"\n\nThe policy `{policy.id}` ({policy.level}): {policy.message}"
    return text


def definitions(use: NameUse) -> list[TextRange]:
    """The definition of a name: the rules and declarations of a relation, the file of a module, or the first use of a
    variable."""
    if use.module:
        return [TextRange(use.module.file.file, 0, 0)]
    meaning = use.meaning
    if use.role == "column" or not isinstance(meaning, Relation):
        return use.variable[:1]
    return [_range(used, at) for used, at in use.folder.uses(meaning.name) if _is_definition(used, at)]


def references(use: NameUse) -> list[TextRange]:
    """The places of a relation or variable, including its definitions."""
    meaning = use.meaning
    if use.role == "column" or not meaning:
        return use.variable
    return [_range(used, at) for used, at in use.folder.uses(meaning.name)]


def rename(use: NameUse | None, name: str, read: Callable[[Path], SourceText]) -> list[TextEdit]:
    """Rename a variable or relation everywhere, including messages, exports, limits and tests. `read` returns a file as
    the editor has it, empty if there is none. Errors: UsageError for an invalid new name, or if the rules would have
    new errors."""
    if use is None or use.role not in ("variable", "relation", "exported"):
        raise UsageError("only a variable or a relation of these rules can be renamed")
    if not is_name(name):
        raise UsageError(f"{name} is not a name: write letters, digits and _")
    folder = use.folder
    if use.role == "variable":
        if name in use.parsed.tokens.variables(use.index):
            raise UsageError(f"the rule already has a variable {name}")
        edits = [*_rename_variable(use, name)]
        _check_errors(folder, edits)
        return edits
    meaning = use.meaning
    owner = _module(folder, meaning.name.rpartition(":")[0]) if isinstance(meaning, Relation) else None
    if meaning is None or owner is None:
        raise UsageError(f"{use.text} is not a relation of these rules")
    if folder.meaning(name, owner.module.name):
        raise UsageError(f"{owner.module.name} already has a relation or builtin {name}")
    edits = [*_rename_relation(folder, meaning.name, owner, name, read)]
    _check_errors(folder, edits)
    _check_uses(folder, edits, owner.module.name, name)
    return edits


def _rename_variable(use: NameUse, name: str) -> Iterator[TextEdit]:
    parsed, old, tokens = use.parsed, use.text, use.parsed.tokens
    yield from (TextEdit(where, name) for where in use.variable)
    for at in tokens.statement(use.index):
        token, level = tokens.tokens[at], tokens.levels[at]
        while level and level.bracket == "list":
            level = level.outer
        if token.kind != "string" or level is None or level.bracket != "annotation":
            continue
        attribute = next(
            (tokens.tokens[back - 1].text for back in range(at, level.owner, -1) if tokens.tokens[back].kind == "="), ""
        )
        text = PLACEHOLDERS["message"].sub(lambda match: f"{{{name}}}" if match[1] == old else match[0], token.text)
        if attribute in COLUMN_ATTRIBUTES:
            text = re.sub(rf"\b{re.escape(old)}\b", name, token.text)
        if text != token.text:
            yield TextEdit(_range(parsed, at), text)


def _rename_relation(
    folder: RuleFolder, full_name: str, owner: ParsedRules, name: str, read: Callable[[Path], SourceText]
) -> Iterator[TextEdit]:
    old = full_name.rpartition(":")[2]
    for used, at in folder.uses(full_name):
        whole = _range(used, at)
        start = whole.start + used.tokens.tokens[at].text.rindex(old)
        yield TextEdit(TextRange(whole.file, start, start + len(old)), name)
    files = {Path(file.file).with_name("test.yaml") for file in folder.files}
    files |= {Path(owner.file.limits_file)} if owner.file.limits_file else set()
    for file in sorted(files):
        text = read(file).text
        for entry in read_outline(text):
            is_limit = file.name == LIMITS_FILE and entry.path == (old,)
            is_rows = len(entry.path) == 5 and entry.path[2:4] == ("expect", "rows")
            if is_limit or (is_rows and str(entry.path[4]).removeprefix(OLD).removeprefix(ALL) == full_name):
                yield TextEdit(TextRange(str(file), entry.end - len(old), entry.end), name)


def _check_errors(folder: RuleFolder, edits: Sequence[TextEdit]) -> None:
    """Check that the edits add no errors to the rules. Errors: UsageError."""
    if any(Path(edit.range.file).name == LIMITS_FILE for edit in edits):
        return  # limits are read from disk, where they still have the old name
    if wrong := find_new_errors(folder, _change_rules(folder, edits), None):
        raise UsageError(f"with that name the rules would not load: {wrong[0].message}")


def _check_uses(folder: RuleFolder, edits: Sequence[TextEdit], module: str, name: str) -> None:
    """Check that a relation is meant wherever its new name is written. Errors: UsageError."""
    changed = _change_rules(folder, edits)
    files = {edit.range.file for edit in edits if edit.range.file in changed}
    edited = with_texts(folder, {Path(file): changed[file] for file in files})
    uses = Counter(used.file.file for used, _ in edited.uses(f"{module}:{name}"))
    for file in files:  # parsed files are shared: restore those of the folder
        folder.parsed(file)
    for file, count in Counter(edit.range.file for edit in edits if edit.range.file in changed).items():
        if uses[file] < count and (parsed := folder.parsed(file)):
            raise UsageError(f"{parsed.module.name} has another relation or builtin {name}")


def _change_rules(folder: RuleFolder, edits: Sequence[TextEdit]) -> dict[str, str]:
    """The texts of the rules after those of the edits that are in them."""
    sources: Mapping[str, str] = {file.file: file.text for file in folder.files}
    return apply_edits(sources, [edit for edit in edits if edit.range.file in sources])


def outline(parsed: ParsedRules) -> list[Symbol]:
    """The relations of a file, each with its rules, and the declarations."""
    symbols = []
    text = source_text(parsed.file.file, parsed.file.text)
    for statement in parsed.module.statements:
        match statement:
            case Rule(head, _, annotation):
                detail = f"@{annotation.name}" if annotation else ""
                if annotation and annotation.values:
                    detail += f" {annotation.values[0].value}"
                symbols.append(Symbol(head.name, detail, text.range(statement.span), text.range(head.name_span)))
            case Declaration(name):
                where = text.range(statement.span)
                symbols.append(Symbol(name, "relation", where, where))
    return symbols


def search(files: Iterable[ParsedRules], query: str) -> list[Symbol]:
    """The policies and relations of files whose names contain a text."""
    wanted = query.lower()
    found = (symbol for parsed in files for symbol in outline(parsed))
    return [symbol for symbol in found if wanted in f"{symbol.name} {symbol.detail}".lower()]


def _is_definition(parsed: ParsedRules, index: int) -> bool:
    """Whether a token is the head of a rule, or the name in a declaration."""
    tokens = parsed.tokens
    first = tokens.starts[index]
    if tokens.tokens[first].text == "relation":
        return index == first + 1
    heads = (at for at in tokens.statement(index) if tokens.role(at) == "relation")
    return next(heads, -1) == index


def _module(folder: RuleFolder, name: str) -> ParsedRules | None:
    return next((parsed for parsed in folder.all() if parsed.module.name == name), None)


def _range(parsed: ParsedRules, index: int) -> TextRange:
    token: Token = parsed.tokens.tokens[index]
    return TextRange(parsed.file.file, token.start, token.end)
