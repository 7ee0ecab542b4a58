"""The commands `lsp` and `repl`: a language server and a prompt."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datalog_gate.base.errors import RulesError, UsageError
from datalog_gate.doors.cli.common import OK, print_note

if TYPE_CHECKING:
    from datalog_gate.editing.prompt import Prompt
    from datalog_gate.editing.rule_folder import RuleFolder
    from datalog_gate.schema.catalogue import Catalogue

HISTORY = ".datalog_gate_history"


def lsp(_options: argparse.Namespace) -> int:
    """Serve one editor until it ends the session. Errors: UsageError."""
    try:
        from datalog_gate.doors.editor import language_server
    except ImportError as error:
        raise UsageError(f"{error.name} is missing: pip install 'datalog-gate[editor]'") from None
    return language_server.serve()


def repl(options: argparse.Namespace) -> int:
    """Answer queries until the input ends. Errors: UsageError, RulesError, InputError."""
    from datalog_gate.editing.prompt import Prompt
    from datalog_gate.facts.flatten import list_facts
    from datalog_gate.files.root_templates import find_roots, read_root
    from datalog_gate.files.rules import default_rules
    from datalog_gate.files.templates import read_catalogue

    catalogue, configuration = read_catalogue(*options.catalogue), options.configuration
    roots = find_roots(options.template, configuration) if options.template else []
    stacks = [read_root(root, configuration, catalogue) for root in roots]
    lines = [line for stack in stacks for line in list_facts(stack, catalogue)]
    paths = [*map(Path, options.rules or [default_rules()])]
    prompt = Prompt(partial(_read_rules, paths, catalogue), lines, _edit, shutil.get_terminal_size().columns)
    is_terminal = sys.stdin.isatty()
    for line in _read_terminal(prompt) if is_terminal else sys.stdin:
        if line.strip() in (":quit", ":q"):
            break
        try:
            for answer in prompt.answer(line.rstrip("\n")):
                print(answer, flush=True)
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            print_note("interrupted")
    return OK


def _read_rules(paths: Sequence[Path], catalogue: Catalogue) -> RuleFolder:
    """Read the rules at the paths. Syntax errors are reported at the prompt. Errors: RulesError."""
    from datalog_gate.editing.rule_folder import RuleFolder, read_folder
    from datalog_gate.files.rules import read_rules

    try:
        files = read_rules(paths)
    except RulesError as error:
        if any(diagnostic.code != "syntax" for diagnostic in error.diagnostics):
            raise
        return read_folder(paths, {}, catalogue, {})[0]
    return RuleFolder(paths, files, catalogue, {})


def _edit(path: Path) -> None:
    """Open a file in the user's editor. Errors: UsageError."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    if not sys.stdin.isatty():
        raise UsageError("an editor needs a terminal: use :rules without a file to read the rules again")
    try:
        subprocess.run([*command, str(path)], check=False)
    except OSError as error:
        raise UsageError(f"{command[0]} can't be started: {error.strerror}") from None


def _read_terminal(prompt: Prompt) -> Iterator[str]:
    """Yield the lines that a person types, with completion and history. Errors: UsageError."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import Completer, Completion
        from prompt_toolkit.history import FileHistory
    except ImportError as error:
        raise UsageError(f"{error.name} is missing: pip install 'datalog-gate[editor]'") from None

    def get_completions(_self: object, document: Any, _event: object) -> Iterator[Any]:
        length, completions = prompt.completions(document.text_before_cursor)
        for completion in completions:
            yield Completion(completion.text, -length, completion.label, completion.detail)

    completer = type("WordCompleter", (Completer,), {"get_completions": get_completions})()
    session: Any = PromptSession(history=FileHistory(str(Path.home() / HISTORY)), completer=completer)
    print_note(":help lists the commands; Ctrl-D ends")
    while True:
        try:
            yield str(session.prompt("> "))
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
