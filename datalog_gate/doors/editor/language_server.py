"""The language server of rules, Heat templates and policy tests."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from datalog_gate import __version__
from datalog_gate.base.errors import GateError, InputError, RulesError, UsageError
from datalog_gate.doors.editor.protocol import LEGEND, ROLES, RUN_CASES, Translator, changed_text, path_of
from datalog_gate.editing import actions, case_answers, rule_completion, rule_names, template_answers
from datalog_gate.editing.answers import Action, Symbol, TextProblem, TextRange
from datalog_gate.editing.rule_tokens import RuleTokens
from datalog_gate.editing.workspace import Problems
from datalog_gate.language.formatter import format_text

DELAY = 0.5
"""Seconds after the last edit until all rules and templates are checked."""
TRIGGERS = [":", ".", "(", ",", "@", '"', "{", "[", " ", "/"]
LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_Position: TypeAlias = (
    types.CompletionParams
    | types.DefinitionParams
    | types.HoverParams
    | types.ReferenceParams
    | types.RenameParams
    | types.SignatureHelpParams
)


class Protocol(LanguageServerProtocol):
    """The protocol with columns in units of UTF-16 and lines that end where editors end them. pygls would count columns
    as the editor prefers, and lines as `str.splitlines` does."""

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        if params.capabilities.general:
            params.capabilities.general.position_encodings = None
        return (yield from super().lsp_initialize(params))

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Generator[Any, Any, None]:
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None


class Session:
    """One editor with one folder. At most one check runs, in a thread beside the event loop. A newer check of the same
    file replaces waiting ones."""

    def __init__(self, server: LanguageServer) -> None:
        self.server = server
        self._start_in(Path.cwd())
        self._lock = asyncio.Lock()
        self._texts: dict[str, str] = {}
        """The texts of the open files by URI: a file may be open under two."""
        self._turns: dict[Path, int] = {}
        self._problems: dict[str, dict[str, tuple[TextProblem, ...]]] = {}
        """The problems of each file, by the check that found them: its file, or its cases."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._recheck_timer: asyncio.TimerHandle | None = None
        self._refreshed = False
        """Whether files on disk may have changed since templates were last judged."""
        self._edited: set[Path] = set()
        """The files whose texts changed since then; a template may read each of the others."""

    def _start_in(self, root: Path) -> None:
        self.translator = Translator(root)
        self.workspace = self.translator.workspace

    def update(self, path: Path, text: str) -> None:
        """Store and check a text, and later everything that depends on it."""
        handled = self.server.protocol._request_futures  # pygls 2.1.1 keeps a future of each notification
        for message in [message for message, future in handled.items() if future.done()]:
            del handled[message]
        self.workspace.edit(path, text)
        self._edited.add(path)
        self._start(self._check(path))
        self.recheck_later()

    def recheck_later(self) -> None:
        if self._recheck_timer:
            self._recheck_timer.cancel()
        self._recheck_timer = asyncio.get_running_loop().call_later(DELAY, lambda: self._start(self._recheck()))

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Run a function in a thread, one at a time."""
        async with self._lock:
            return await asyncio.to_thread(work)

    def _start(self, check: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(check)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            LOG.error("a check failed", exc_info=error)

    async def _check(self, path: Path) -> None:
        turn = self._turns[path] = self._turns.get(path, 0) + 1

        def check() -> Problems | None:
            if self._turns[path] != turn:
                return None
            if path.suffix == ".dl":
                return self.workspace.check_pack(path)
            if self.workspace.is_test(path):
                return self.workspace.check_test(path)
            return self.workspace.judge(path) if self.workspace.is_template(path) else {str(path): ()}

        problems = await self.run(check)
        if problems is not None and path in self.workspace.unsaved:
            self.replace_problems(str(path), problems)

    async def _recheck(self) -> None:
        """Check all rules of the open files, and judge the templates again."""
        tops: dict[tuple[Path, ...], Path] = {}
        for path in self.workspace.unsaved:
            if path.suffix == ".dl":
                tops.setdefault(self.workspace.folder(path).tops, path)
        for path in tops.values():
            problems = await self.run(partial(self.workspace.check_rules, path))
            for file, own in problems.items():
                self.replace_problems(file, {file: own}, always=False)
        edited, everything = self._edited, tops or self._refreshed
        self._edited, self._refreshed = set(), False
        for path in self.workspace.unsaved:
            if path.suffix != ".dl" and (everything or edited - {path}):
                await self._check(path)

    def replace_problems(self, origin: str, problems: Problems, always: bool = True) -> None:
        """Replace the earlier problems of a check by new ones, and publish the changes."""
        files = {*problems, *(file for file, by_origin in self._problems.items() if origin in by_origin)}
        for file in sorted(files, key=lambda file: (file == origin, file)):
            by_origin = self._problems.setdefault(file, {})
            before = by_origin.get(origin, ())
            by_origin[origin] = problems.get(file, ())
            if before != by_origin[origin] or (always and file == origin):
                self._publish(file)

    def _publish(self, file: str) -> None:
        diagnostics = [self.translator.diagnostic(problem) for problem in self.problems(Path(file))]
        self.server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(self.translator.uri(file), diagnostics)
        )

    def problems(self, path: Path) -> list[TextProblem]:
        by_origin = self._problems.get(str(path), {})
        return list(dict.fromkeys(problem for problems in by_origin.values() for problem in problems))

    def at(self, params: _Position) -> tuple[Path, int] | None:
        """The file and offset of a request; None for a text outside any file."""
        path = self.translator.path(params.text_document.uri)
        return (path, self.translator.offset(path, params.position)) if path else None

    def show(self, kind: types.MessageType, message: str) -> None:
        self.server.window_show_message(types.ShowMessageParams(kind, message))

    def initialize(self, params: types.InitializeParams) -> None:
        folders = [folder.uri for folder in params.workspace_folders or ()] or [params.root_uri or ""]
        if root := path_of(folders[0]):
            self._start_in(root)

    def open(self, params: types.DidOpenTextDocumentParams) -> None:
        if path := self.translator.path(params.text_document.uri):
            self._texts[params.text_document.uri] = params.text_document.text
            self.update(path, params.text_document.text)

    def change(self, params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        if path := self.translator.path(uri):
            for change in params.content_changes:
                self._texts[uri] = changed_text(self._texts.get(uri, ""), change)
            self.update(path, self._texts[uri])

    def close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._texts.pop(params.text_document.uri, None)
        if path := self.translator.path(params.text_document.uri):
            self.workspace.close(path)
            self._edited.add(path)
            for file, by_origin in self._problems.items():
                if by_origin.pop(str(path), None) is not None:
                    self._publish(file)
            self.recheck_later()

    def refresh(self, _: types.DidSaveTextDocumentParams | types.DidChangeWatchedFilesParams) -> None:
        self.workspace.refresh()
        self._refreshed = True
        self.recheck_later()

    def complete(self, params: types.CompletionParams) -> types.CompletionList | None:
        if (place := self.at(params)) is None:
            return None
        path, offset = place
        if path.suffix == ".dl":
            text = self.workspace.text(path).text
            completions = rule_completion.complete(self.workspace.folder(path), path, text, offset)
        elif self.workspace.is_test(path):
            completions = case_answers.complete(self.workspace, path, offset)
        else:
            completions = template_answers.complete(self.workspace, path, offset)
        return self.translator.completions(*completions)

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        if (place := self.at(params)) is None:
            return None
        path, offset = place
        if path.suffix == ".dl":
            use = rule_names.find_name(self.workspace.folder(path), path, offset)
            answer = rule_names.hover(use, self.workspace.checked(path)) if use else None
        elif self.workspace.is_template(path):
            problems = self.problems(path)
            answer = await self.run(lambda: template_answers.hover(self.workspace, path, offset, problems))
        else:
            return None
        return self.translator.hover(answer) if answer else None

    def define(self, params: types.DefinitionParams) -> list[types.Location]:
        if (place := self.at(params)) is None:
            return []
        path, offset = place
        if path.suffix == ".dl":
            use = rule_names.find_name(self.workspace.folder(path), path, offset)
            places = rule_names.definitions(use) if use else []
        elif self.workspace.is_test(path):
            places = case_answers.definitions(self.workspace, path, offset)
        else:
            places = template_answers.definitions(self.workspace, path, offset)
        return [*map(self.translator.location, places)]

    def refer(self, params: types.ReferenceParams) -> list[types.Location]:
        place = self.at(params)
        if place is None:
            return []
        path, offset = place
        if path.suffix == ".dl":
            use = rule_names.find_name(self.workspace.folder(path), path, offset)
            places = rule_names.references(use) if use else []
        else:
            is_template = self.workspace.is_template(path)
            places = template_answers.references(self.workspace, path, offset) if is_template else []
        return [*map(self.translator.location, places)]

    def outline(self, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        path = self.translator.path(params.text_document.uri)
        return [*map(self.translator.symbol, self._symbols(path))] if path else []

    def _symbols(self, path: Path) -> list[Symbol]:
        if path.suffix == ".dl":
            parsed = self.workspace.folder(path).parsed(str(path))
            return rule_names.outline(parsed) if parsed else []
        return (
            template_answers.outline(self.workspace.text(path).text, path) if self.workspace.is_template(path) else []
        )

    def search(self, params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
        try:
            found = rule_names.search(self.workspace.rule_files(), params.query)
        except InputError:
            return []  # reported in the templates
        return [*map(self.translator.workspace_symbol, found)]

    def fold(self, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        if (path := self.translator.path(params.text_document.uri)) is None:
            return []
        text = self.workspace.text(path).text
        if path.suffix == ".dl":
            places = [symbol.range for symbol in self._symbols(path)]
        else:
            places = [block for _, block in template_answers.blocks(text, path)]
        long = (place for place in places if "\n" in text[place.start : place.end])
        return [*map(self.translator.folding, long)]

    def describe_call(self, params: types.SignatureHelpParams) -> types.SignatureHelp | None:
        if (place := self.at(params)) is None:
            return None
        path, offset = place
        if path.suffix == ".dl":
            text = self.workspace.text(path).text
            found = rule_completion.describe_call(self.workspace.folder(path), path, text, offset)
        else:
            is_template = self.workspace.is_template(path)
            found = template_answers.describe_call(self.workspace, path, offset) if is_template else None
        return self.translator.call_help(found) if found else None

    def tokens(self, params: types.SemanticTokensParams) -> types.SemanticTokens | None:
        path = self.translator.path(params.text_document.uri)
        if path is None or path.suffix != ".dl":
            return None
        tokens = RuleTokens(self.workspace.text(path).text, str(path))
        roles = ((tokens.role(at), token.start, token.end) for at, token in enumerate(tokens.tokens))
        return self.translator.tokens(path, (named for named in roles if named[0] in ROLES))

    async def rename(self, params: types.RenameParams) -> types.WorkspaceEdit | None:
        place = self.at(params)
        if place is None or place[0].suffix != ".dl":
            return None
        try:
            use = rule_names.find_name(self.workspace.folder(place[0]), *place)
            work = partial(rule_names.rename, use, params.new_name, self.workspace.text)
            return self.translator.edit(await self.run(work))
        except UsageError as error:
            self.show(types.MessageType.Error, str(error))
            return None

    def format(self, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        path = self.translator.path(params.text_document.uri)
        if path is None or path.suffix != ".dl":
            return None
        text = self.workspace.text(path).text
        try:
            formatted = format_text(text, str(path))
        except RulesError:
            return None
        if formatted == text:
            return []
        return [types.TextEdit(self.translator.range(TextRange(str(path), 0, len(text))), formatted)]

    async def act(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        if (path := self.translator.path(params.text_document.uri)) is None:
            return []
        start, end = self.translator.offset(path, params.range.start), self.translator.offset(path, params.range.end)
        near = [problem for problem in self.problems(path) if problem.range.start <= end and start <= problem.range.end]

        def find() -> list[Action]:
            if path.suffix == ".dl":
                return actions.rule_actions(self.workspace.folder(path), path, near)
            return actions.template_actions(self.workspace, path, near) if self.workspace.is_template(path) else []

        return [*map(self.translator.action, await self.run(find))] if near else []

    def lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        path = self.translator.path(params.text_document.uri)
        if path and path.suffix == ".dl":
            return [*map(self.translator.lens, case_answers.policy_lenses(self.workspace, path))]
        if path and self.workspace.is_test(path):
            return [*map(self.translator.lens, case_answers.case_lenses(self.workspace.text(path).text, path))]
        return []

    async def run_cases(self, file: str, policy: str, case: str) -> list[dict[str, str]]:
        try:
            reports, problems = await self.run(partial(self.workspace.run_cases, Path(file), policy, case))
        except GateError as error:
            self.show(types.MessageType.Error, str(error))
            return []
        self.replace_problems(f"cases of {file}", {file: (), **problems})
        failed = sum(bool(report) for _, report in reports)
        kind = types.MessageType.Warning if failed else types.MessageType.Info
        self.show(kind, f"{len(reports) - failed} of {len(reports)} cases pass")
        return [{"case": name, "report": report} for name, report in reports]


def make_server() -> LanguageServer:
    """Create a server with all its features."""
    server = LanguageServer("datalog-gate", __version__, protocol_cls=Protocol)
    session = Session(server)
    completion = types.CompletionOptions(trigger_characters=TRIGGERS)
    quick_fixes = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    features: list[tuple[str, Callable[..., object], object]] = [
        (types.INITIALIZE, session.initialize, None),
        (types.TEXT_DOCUMENT_DID_OPEN, session.open, None),
        (types.TEXT_DOCUMENT_DID_CHANGE, session.change, None),
        (types.TEXT_DOCUMENT_DID_CLOSE, session.close, None),
        (types.TEXT_DOCUMENT_DID_SAVE, session.refresh, None),
        (types.WORKSPACE_DID_CHANGE_WATCHED_FILES, session.refresh, None),
        (types.TEXT_DOCUMENT_COMPLETION, session.complete, completion),
        (types.TEXT_DOCUMENT_HOVER, session.hover, None),
        (types.TEXT_DOCUMENT_DEFINITION, session.define, None),
        (types.TEXT_DOCUMENT_REFERENCES, session.refer, None),
        (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, session.outline, None),
        (types.WORKSPACE_SYMBOL, session.search, None),
        (types.TEXT_DOCUMENT_FOLDING_RANGE, session.fold, None),
        (types.TEXT_DOCUMENT_SIGNATURE_HELP, session.describe_call, types.SignatureHelpOptions(["(", ",", "["])),
        (
            types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL,
            session.tokens,
            types.SemanticTokensLegend(LEGEND, []),
        ),
        (types.TEXT_DOCUMENT_RENAME, session.rename, None),
        (types.TEXT_DOCUMENT_FORMATTING, session.format, None),
        (types.TEXT_DOCUMENT_CODE_ACTION, session.act, quick_fixes),
        (types.TEXT_DOCUMENT_CODE_LENS, session.lenses, None),
    ]
    for feature, handler, options in features:
        server.feature(feature, options)(partial(handler))  # which takes the attributes that are set on it
    server.command(RUN_CASES)(partial(session.run_cases))
    return server


def serve() -> int:
    """Serve one editor until it ends the session."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    with redirect_stdout(sys.stderr):  # other output would not be a valid message
        make_server().start_io(stdout=output)
    return 0
