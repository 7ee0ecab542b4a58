"""The parser of Congress policy libraries, whose entries are one statement each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from datalog_gate.base.diagnostics import Diagnostic, Span, in_order
from datalog_gate.base.records import dataclass, replace
from datalog_gate.language import ast
from datalog_gate.language.parser import parse

LEVEL_OF_HEAD = {"error": "deny", "warning": "warn"}
"""Heads that are policies without an annotation, as Congress reports them, and their levels."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule of a library: its text, where that starts in the file, and its comment."""

    text: str
    line: int
    column: int
    comment: str = ""


def parse_library(
    entries: Sequence[Entry], file: str, name: str, title: str = ""
) -> tuple[ast.Module, tuple[Diagnostic, ...]]:
    """The module of the entries; `title` is the library's own name. The diagnostics, all errors, stand in
    order of place."""
    rules: list[ast.Statement] = []
    comments: list[str] = []
    diagnostics: list[Diagnostic] = []
    for entry in entries:
        module, errors = parse(entry.text, file, name, congress=True, line=entry.line, column=entry.column)
        diagnostics += errors
        if not errors and len(module.statements) != 1:
            span = Span(file, entry.line, entry.column, entry.line, entry.column + 1)
            message = f"a rule of a library must be one statement, found {len(module.statements)}"
            diagnostics.append(Diagnostic("bad-library", message, span, "write each as a rule of its own"))
        rules += module.statements
        comments += [entry.comment] * len(module.statements)
    return ast.Module(name, file, _annotated(rules, comments), congress=True, title=title), in_order(diagnostics)


def _annotated(rules: list[ast.Statement], comments: list[str]) -> tuple[ast.Statement, ...]:
    """Annotate the first rule of errors and of warnings with their comment, if all have the same one."""
    positions = defaultdict(list)
    for at, rule in enumerate(rules):
        if isinstance(rule, ast.Rule) and rule.head.name in LEVEL_OF_HEAD:
            positions[rule.head.name].append(at)
    for head, own in positions.items():
        first, texts = rules[own[0]], {comments[at] for at in own}
        if len(texts) == 1 and isinstance(first, ast.Rule) and not first.annotation and (comment := texts.pop()):
            variables = [term.name for term in first.head.arguments if isinstance(term, ast.Variable)]
            text = comment.strip().replace("{", "(").replace("}", ")")
            message = ": ".join(filter(None, [text, ", ".join(f"{{{variable}}}" for variable in variables)]))
            attribute = ast.Attribute("message", message, span=first.head.span)
            annotation = ast.Annotation(LEVEL_OF_HEAD[head], (), (attribute,), span=first.head.span)
            rules[own[0]] = replace(first, annotation=annotation)
    return tuple(rules)
