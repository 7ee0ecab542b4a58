"""Edits that fix diagnostics and findings, tried before they are offered."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

from datalog_gate.base.diagnostics import Code, Diagnostic, closest
from datalog_gate.base.errors import GateError, InputError
from datalog_gate.base.records import replace
from datalog_gate.editing.answers import Action, TextEdit, TextProblem, TextRange
from datalog_gate.editing.rule_folder import RuleFolder, with_texts
from datalog_gate.editing.template_edits import apply_edits, write_change
from datalog_gate.editing.workspace import JudgedTemplate, Workspace

MOST_TRIES = 8
"""The maximum number of edits tried for one problem."""
_WORD = re.compile(r"[\w.:@-]+")
_TYPE = re.compile(r"\w+(?:::\w+)+(?=\()")
_SLIPS = (
    (r"\bnot +(\w+) +in +(\[[^\]\n]*\])", r"not (\1 in \2)"),
    (r"\b(\w+) +not +in +(\[[^\]\n]*\])", r"not (\1 in \2)"),
    (r"\bin *[({]([^(){}\n]*)[)}]", r"in [\1]"),
    (r'"([\d.]+|true|false|null)"', r"\1"),
    (r"\b(\w+) *(!=|[<>]=?) *([^,()\n]+)([^()\n]*\))", r"\1=\1\4, \1 \2 \3"),
    (r"\b(count|sum|avg|min|max|list)\(((?:[^()\n]|\([^()\n]*\))*)\)", r"\1{ \2 }"),
    ("<-", ":-"),
)
"""Common mistakes, and the correction of each."""


def rule_actions(folder: RuleFolder, path: Path, problems: Sequence[TextProblem]) -> list[Action]:
    """Edits of rules that remove the problem without new errors."""
    parsed = folder.parsed(str(path))
    if parsed is None:
        return []
    actions = []
    for problem in problems:
        for title, edits in islice(_find_edits(folder, parsed.file.text, problem), MOST_TRIES):
            if not find_new_errors(folder, apply_edits(folder.sources, edits), problem):
                actions.append(Action(title, tuple(edits), problem))
                break
    return actions


def template_actions(workspace: Workspace, path: Path, problems: Sequence[TextProblem]) -> list[Action]:
    """Edits of a template: the proved change for a finding of the rules, the suggestion for an error."""
    text = workspace.text(path).text
    judged = workspace.judged.get(path)
    actions = []
    for problem in problems:
        if problem.index is not None:
            if judged and judged.text == text and (action := _find_fix(judged, path, problem)):
                actions.append(action)
            continue
        before = _count_template_problems(workspace, path, text)
        for title, edits in _find_replacements(text, problem):
            now = _count_template_problems(workspace, path, apply_edits({str(path): text}, edits)[str(path)])
            if now < before and now[problem.code, problem.message] < before[problem.code, problem.message]:
                actions.append(Action(title, tuple(edits), problem))
                break
    return actions


def find_new_errors(folder: RuleFolder, changed: Mapping[str, str], problem: TextProblem | None) -> list[Diagnostic]:
    """The errors of the rules with these texts that did not exist before. A given `problem` counts too if it
    remains."""
    names = [name for name, text in changed.items() if folder.sources.get(name) != text]
    names += [problem.range.file] if problem and problem.range.file not in names else []
    edited = with_texts(folder, {Path(name): changed[name] for name in names})
    files = frozenset(parsed.file.file for name in names for parsed in folder.pack(name))
    before = _count_rule_problems(folder, files)
    _, now = edited.check([parsed for parsed in edited.all() if parsed.file.file in files])
    left = _count_diagnostics(now) - before
    for name in names:  # parsed files are shared: the next use restores those of the folder
        folder.parsed(name)
    wrong = [diagnostic for diagnostic in now if left[_key(diagnostic)] > 0 and diagnostic.severity == "error"]
    if problem and _count_diagnostics(now)[problem.code, problem.message] >= before[problem.code, problem.message]:
        wrong += [diagnostic for diagnostic in now if _key(diagnostic) == (problem.code, problem.message)]
    return wrong


@lru_cache(maxsize=2)
def _count_rule_problems(folder: RuleFolder, files: frozenset[str]) -> Counter[tuple[str, str]]:
    """Count the problems of files in the unchanged folder. Cached, since it is needed for each tried edit."""
    return _count_diagnostics(folder.check([parsed for parsed in folder.all() if parsed.file.file in files])[1])


def _count_diagnostics(diagnostics: Iterable[Diagnostic]) -> Counter[tuple[str, str]]:
    return Counter(map(_key, diagnostics))


def _key(diagnostic: Diagnostic) -> tuple[str, str]:
    return diagnostic.code, diagnostic.message


def _find_edits(folder: RuleFolder, text: str, problem: TextProblem) -> Iterator[tuple[str, list[TextEdit]]]:
    """The edits to try for a problem in rules, the most likely first."""
    where, advice = problem.range, problem.advice
    home = next((parsed for parsed in folder.all() if advice.module and parsed.module.name == advice.module), None)
    if home:
        end = len(home.file.text)
        for code in advice.code:
            yield (
                f"{code.text.removesuffix('.')} in {advice.module}",
                [TextEdit(TextRange(home.file.file, end, end), f"\n{code.text}\n")],
            )
    yield from _find_replacements(text, problem)
    for written in _TYPE.finditer(text, max(where.start - 60, 0)) if problem.code == "syntax" else ():
        if kind := folder.catalogue.type(written[0]):
            yield _replace_text(TextRange(where.file, *written.span()), kind.relation)
    for wrong, right in _SLIPS if not advice.code else ():
        for slip in re.finditer(wrong, text):
            if slip.start() < where.end and where.start < slip.end():
                yield _replace_text(TextRange(where.file, *slip.span()), slip.expand(right))


def _find_replacements(text: str, problem: TextProblem) -> Iterator[tuple[str, list[TextEdit]]]:
    """The edits of one text that the advice on a problem suggests, the most likely first."""
    where, advice = problem.range, problem.advice
    if advice.meant:
        yield _replace_text(_narrow(text, where, advice.meant), advice.meant)
    if sign := advice.before:
        start = len(text[: where.start].rstrip())
        if sign in (",", ".", ")"):
            yield f"write {sign}", [TextEdit(TextRange(where.file, start, start), sign)]
        yield f"write {sign}", [TextEdit(TextRange(where.file, where.start, where.start), f"{sign} ")]
    if advice.in_quotes:
        yield _replace_text(where, json.dumps(text[where.start : where.end], ensure_ascii=False))
    for code in advice.code if not advice.module else ():
        yield from _write(text, where, code)


def _write(text: str, where: TextRange, code: Code) -> Iterator[tuple[str, list[TextEdit]]]:
    """The edits that write the code."""
    new, old = code.text, text[where.start : where.end]
    match code.role:
        case "default":
            yield from _give_defaults(where, old, code.of, new)
        case "import":
            yield f"write {new}", [TextEdit(TextRange(where.file, 0, 0), f"{new}\n")]
        case "condition":
            yield f"write {new}", [TextEdit(TextRange(where.file, where.start, where.start), f"{new}, ")]
        case "column":
            start = where.start + old.find("(") + 1
            yield f"write {new}", [TextEdit(TextRange(where.file, start, start), new)]
        case "replacement":
            start = len(text[: where.start].rstrip()) if new == "," else where.start
            yield _replace_text(replace(where, start=start), new)


def _give_defaults(where: TextRange, old: str, name: str, default: str) -> Iterator[tuple[str, list[TextEdit]]]:
    """Replace a variable by the variable with a default, once in each condition."""
    values = ['""', "0", "false"] if '"' in old else ["0", '""', "false"]
    for value in values if default == "..." else [default]:
        for use in re.finditer(rf"\b{re.escape(name)}\b(?! *\?\?)", old):
            start = where.start + use.start()
            place = TextRange(where.file, start, start + len(name))
            yield f"give the default {name} ?? {value}", [TextEdit(place, f"{name} ?? {value}")]


def _replace_text(where: TextRange, new: str) -> tuple[str, list[TextEdit]]:
    return f"write {new}", [TextEdit(where, new)]


def _narrow(text: str, where: TextRange, new: str) -> TextRange:
    """The word in the range that the suggestion probably replaces, without quotes."""
    words = {match[0]: match for match in _WORD.finditer(text, where.start, where.end) if match[0] != new}
    near = closest(new, words) or next(iter(words), None)
    return TextRange(where.file, *words[near].span()) if near else where


def _count_template_problems(workspace: Workspace, path: Path, text: str) -> Counter[tuple[str, str]]:
    """Count the problems of a template with this text."""
    try:
        workspace.read(path, {path: text})
    except InputError as error:
        return _count_diagnostics(error.diagnostics)
    return Counter()


def _find_fix(judged: JudgedTemplate, path: Path, problem: TextProblem) -> Action | None:
    """The change that was proved to fix a finding, if the text of the template allows it."""
    assert problem.index is not None
    try:
        explained = judged.decision.explanation.of(judged.findings[problem.index])
    except GateError:
        return None
    if explained.change is None or explained.fix is None:
        return None
    edit = next(write_change(judged.text, str(path), explained.change), None)
    return Action(explained.fix.text, (edit,), problem) if edit else None
