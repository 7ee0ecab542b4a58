"""Answers of `editing` as types of the language server protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lsprotocol import types
from pygls.uris import from_fs_path, to_fs_path

from datalog_gate.editing.answers import (
    Action,
    CallHelp,
    Completion,
    Hover,
    Lens,
    Symbol,
    TextEdit,
    TextProblem,
    TextRange,
)
from datalog_gate.editing.source_text import source_text
from datalog_gate.editing.workspace import Workspace
from datalog_gate.files.templates import resolve

MOST_COMPLETIONS = 300
RUN_CASES = "datalog-gate.runCases"
"""The command of a lens. Its arguments are a test file, a policy id or "", and a case name or ""."""
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
_KINDS = {
    "relation": types.CompletionItemKind.Function,
    "builtin": types.CompletionItemKind.Operator,
    "column": types.CompletionItemKind.Field,
    "variable": types.CompletionItemKind.Variable,
    "keyword": types.CompletionItemKind.Keyword,
    "module": types.CompletionItemKind.Module,
    "type": types.CompletionItemKind.Class,
    "property": types.CompletionItemKind.Property,
    "value": types.CompletionItemKind.Value,
}

ROLES: Mapping[str, types.SemanticTokenTypes] = {
    "relation": types.SemanticTokenTypes.Function,
    "exported": types.SemanticTokenTypes.Function,
    "module": types.SemanticTokenTypes.Namespace,
    "annotation": types.SemanticTokenTypes.Decorator,
    "attribute": types.SemanticTokenTypes.Parameter,
    "column": types.SemanticTokenTypes.Property,
    "declared": types.SemanticTokenTypes.Property,
    "kind": types.SemanticTokenTypes.Type,
    "variable": types.SemanticTokenTypes.Variable,
}
"""What the roles of tokens in rules are to an editor."""
LEGEND = list(dict.fromkeys(ROLES.values()))


def path_of(uri: str) -> Path | None:
    """The path of a URI; None for a text outside any file."""
    path = to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path) if path and "\0" not in path else None


def changed_text(text: str, change: types.TextDocumentContentChangeEvent) -> str:
    """A text after a change by the editor."""
    new: str = change.text
    if not isinstance(change, types.TextDocumentContentChangePartial):
        return new
    lines = source_text("", text)
    start, end = (lines.offset(place.line, place.character) for place in (change.range.start, change.range.end))
    return text[:start] + new + text[end:]


class Translator:
    """Translates offsets and answers of one workspace. A file has the address that the editor gave it last: links in it
    are the editor's to follow."""

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace(root)
        self._root = root
        self._addresses: dict[str, str] = {}

    def path(self, uri: str) -> Path | None:
        """The file of a URI, without links; None for a text outside any file."""
        path = path_of(uri)
        if path is None:
            return None
        file = resolve(path)
        self._addresses[str(file)] = uri
        inside = path.is_relative_to(self._root)
        self.workspace.names[file] = self.workspace.root / path.relative_to(self._root) if inside else path
        return file

    def uri(self, file: str) -> str:
        """The URI of a file."""
        path, top = Path(file), self.workspace.root
        if path.is_relative_to(top):
            path = self._root / path.relative_to(top)
        return self._addresses.get(file) or str(from_fs_path(str(path)) or "")

    def offset(self, path: Path, position: types.Position) -> int:
        return self.workspace.text(path).offset(position.line, position.character)

    def range(self, where: TextRange) -> types.Range:
        text = self.workspace.text(Path(where.file))
        return types.Range(types.Position(*text.position(where.start)), types.Position(*text.position(where.end)))

    def location(self, where: TextRange) -> types.Location:
        return types.Location(self.uri(where.file), self.range(where))

    def diagnostic(self, problem: TextProblem) -> types.Diagnostic:
        return types.Diagnostic(
            self.range(problem.range),
            problem.text,
            severity=_SEVERITIES[problem.severity],
            code=problem.code,
            source="datalog-gate",
            code_description=types.CodeDescription(problem.url) if problem.url else None,
        )

    def edit(self, edits: Iterable[TextEdit]) -> types.WorkspaceEdit:
        changes: dict[str, list[types.TextEdit]] = {}
        for edit in edits:
            changes.setdefault(self.uri(edit.range.file), []).append(types.TextEdit(self.range(edit.range), edit.text))
        return types.WorkspaceEdit(changes=dict(changes))

    def action(self, action: Action) -> types.CodeAction:
        return types.CodeAction(
            action.title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[self.diagnostic(action.problem)],
            edit=self.edit(action.edits),
        )

    def hover(self, hover: Hover) -> types.Hover:
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, hover.text), self.range(hover.range))

    def completions(self, where: TextRange, completions: Sequence[Completion]) -> types.CompletionList:
        place = self.range(where)
        items = [
            types.CompletionItem(
                completion.label,
                kind=_KINDS[completion.kind],
                detail=completion.detail or None,
                documentation=completion.documentation or None,
                filter_text=completion.label,
                text_edit=types.TextEdit(place, completion.text),
            )
            for completion in completions[:MOST_COMPLETIONS]
        ]
        return types.CompletionList(len(completions) > MOST_COMPLETIONS, items)

    def symbol(self, symbol: Symbol) -> types.DocumentSymbol:
        return types.DocumentSymbol(
            symbol.name or "-",
            types.SymbolKind.Function,
            self.range(symbol.range),
            self.range(symbol.name_range),
            detail=symbol.detail,
        )

    def workspace_symbol(self, symbol: Symbol) -> types.WorkspaceSymbol:
        name = f"{symbol.name} {symbol.detail}".strip()
        return types.WorkspaceSymbol(self.location(symbol.name_range), name, types.SymbolKind.Function)

    def folding(self, where: TextRange) -> types.FoldingRange:
        place = self.range(where)
        return types.FoldingRange(place.start.line, place.end.line)

    def call_help(self, help_: CallHelp) -> types.SignatureHelp:
        parameters = [types.ParameterInformation(label) for label in help_.parameters]
        signature = types.SignatureInformation(help_.label, help_.documentation or None, parameters)
        return types.SignatureHelp([signature], active_signature=0, active_parameter=help_.active)

    def tokens(self, path: Path, tokens: Iterable[tuple[str, int, int]]) -> types.SemanticTokens:
        """Tokens by their role, start and end, each with its place from the one before."""
        text, data, before = self.workspace.text(path), list[int](), (0, 0)
        for role, start, end in tokens:
            line, column = text.position(start)
            length = text.position(end)[1] - column
            data += [line - before[0], column - before[1] * (line == before[0]), length, LEGEND.index(ROLES[role]), 0]
            before = line, column
        return types.SemanticTokens(data)

    def lens(self, lens: Lens) -> types.CodeLens:
        command = types.Command(lens.title, RUN_CASES, arguments=[lens.file, lens.policy, lens.case])
        return types.CodeLens(self.range(lens.range), command=command)
