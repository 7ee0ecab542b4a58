"""What a test does in an editor, and what it sees."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from lsprotocol import types
from pytest_lsp import LanguageClient

LANGUAGES = {".dl": "datalog-gate", ".yaml": "yaml"}


@dataclass
class Editor:
    """A client with a folder. A cursor is written `|` in a text."""

    client: LanguageClient
    folder: Path
    texts: dict[str, str] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    units: str | None = None
    """The units in which the server counts columns."""

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    async def open(self, name: str, text: str | None = None) -> list[str]:
        """Open a file, or give it another text. Returns its problems once they are told."""
        path = self.folder / name
        text = path.read_text() if text is None else text
        version = self.versions[name] = self.versions.get(name, 0) + 1
        if name in self.texts:
            changed = types.VersionedTextDocumentIdentifier(version=version, uri=self.uri(name))
            whole = types.TextDocumentContentChangeWholeDocument(text)
            self.client.text_document_did_change(types.DidChangeTextDocumentParams(changed, [whole]))
        else:
            item = types.TextDocumentItem(self.uri(name), LANGUAGES.get(path.suffix, ""), version, text)
            self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        self.texts[name] = text
        while True:
            await self.client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
            if self.uri(name) in self.client.diagnostics:
                return self.problems(name)

    def change(self, name: str, start: int, end: int, piece: str) -> None:
        """Put a piece in the place of a part of an open text."""
        where = types.Range(self.place(name, start), self.place(name, end))
        version = self.versions[name] = self.versions[name] + 1
        changed = types.VersionedTextDocumentIdentifier(version=version, uri=self.uri(name))
        part = types.TextDocumentContentChangePartial(where, piece)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(changed, [part]))
        self.texts[name] = self.texts[name][:start] + piece + self.texts[name][end:]

    def problems(self, name: str) -> list[str]:
        """The problems of a file, each with its place and its text on one line."""
        return [
            f"{shown(problem.range)} {types.DiagnosticSeverity(problem.severity or 1).name.lower()} "
            f"[{problem.code}] {' / '.join(problem.message.splitlines())}"
            for problem in self.client.diagnostics.get(self.uri(name), ())
        ]

    def document(self, name: str) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self.uri(name))

    def position(self, name: str, place: str) -> types.Position:
        """The position of the `|` in a piece of the text."""
        before, _, after = place.partition("|")
        return self.place(name, self.texts[name].index(before + after) + len(before))

    def place(self, name: str, offset: int) -> types.Position:
        """The position of an offset of the text."""
        lines = re.split(r"(?<=\r\n)|(?<=\n)|(?<=\r)(?!\n)", self.texts[name][:offset])
        return types.Position(len(lines) - 1, len(lines[-1].encode("utf-16-le")) // 2)

    def memory(self) -> float:
        """The MB that the server holds."""
        assert self.client._server
        pages = Path(f"/proc/{self.client._server.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE") / 1e6

    async def completions(self, name: str, place: str) -> dict[str, str]:
        """The completions at a place: what each inserts, by its label."""
        params = types.CompletionParams(self.document(name), self.position(name, place))
        answer = await self.client.text_document_completion_async(params)
        assert isinstance(answer, types.CompletionList)
        return {item.label: item.text_edit.new_text for item in answer.items if item.text_edit}

    async def hover(self, name: str, place: str) -> str | None:
        params = types.HoverParams(self.document(name), self.position(name, place))
        answer = await self.client.text_document_hover_async(params)
        assert answer is None or isinstance(answer.contents, types.MarkupContent)
        return answer.contents.value if answer and isinstance(answer.contents, types.MarkupContent) else None

    async def definition(self, name: str, place: str) -> list[str]:
        params = types.DefinitionParams(self.document(name), self.position(name, place))
        answer = await self.client.text_document_definition_async(params)
        assert isinstance(answer, list)
        return [self.location(item) for item in answer if isinstance(item, types.Location)]

    async def references(self, name: str, place: str) -> list[str]:
        context = types.ReferenceContext(include_declaration=True)
        params = types.ReferenceParams(context, self.document(name), self.position(name, place))
        return [self.location(item) for item in await self.client.text_document_references_async(params) or ()]

    async def rename(self, name: str, place: str, new: str) -> dict[str, str] | None:
        """The texts of the files that a rename changes."""
        params = types.RenameParams(self.document(name), self.position(name, place), new)
        answer = await self.client.text_document_rename_async(params)
        return self.after(answer) if answer else None

    async def actions(self, name: str) -> list[tuple[str, dict[str, str]]]:
        """The actions for all problems of a file, each with the texts after it."""
        problems = list(self.client.diagnostics[self.uri(name)])
        context = types.CodeActionContext(problems)
        whole = types.Range(types.Position(0, 0), types.Position(self.texts[name].count("\n") + 1, 0))
        params = types.CodeActionParams(self.document(name), whole, context)
        answer = await self.client.text_document_code_action_async(params)
        actions = [item for item in answer or () if isinstance(item, types.CodeAction)]
        return [(item.title, self.after(item.edit)) for item in actions if item.edit]

    def after(self, edit: types.WorkspaceEdit) -> dict[str, str]:
        """The texts of files after an edit, by their names in the folder."""
        texts = {}
        for uri, edits in (edit.changes or {}).items():
            name = str(Path(uri.removeprefix("file://")).relative_to(self.folder))
            text = self.texts.get(name) or (self.folder / name).read_text()
            for change in sorted(edits, key=lambda change: (change.range.start.line, change.range.start.character))[
                ::-1
            ]:
                start, end = (offset_of(text, position) for position in (change.range.start, change.range.end))
                text = text[:start] + change.new_text + text[end:]
            texts[name] = text
        return texts

    def location(self, location: types.Location) -> str:
        path = Path(location.uri.removeprefix("file://")).relative_to(self.folder)
        return f"{path}:{shown(location.range)}"


def offset_of(text: str, position: types.Position) -> int:
    lines = text.split("\n")
    line = lines[position.line].encode("utf-16-le")[: 2 * position.character]
    return sum(len(line) + 1 for line in lines[: position.line]) + len(line.decode("utf-16-le"))


def shown(where: types.Range) -> str:
    """A range as lines and columns from 1, the end only where it is on another line."""
    start, end = where.start, where.end
    last = f"{end.character + 1}" if end.line == start.line else f"{end.line + 1}:{end.character + 1}"
    return f"{start.line + 1}:{start.character + 1}-{last}"
