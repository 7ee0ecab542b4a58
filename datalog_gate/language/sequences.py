"""Sequences of actions and updates, which Congress simulates."""

from __future__ import annotations

from collections.abc import Iterator

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.language import ast
from datalog_gate.language.lexer import Refused
from datalog_gate.language.parser import Parser


def parse_sequence(
    text: str, file: str = "<sequence>"
) -> tuple[tuple[tuple[ast.Rule, ...], ...], tuple[Diagnostic, ...]]:
    """Parse the steps of a sequence such as ``act(1) p+(2) move(x), stop(x) :- p(x)``, as Congress simulates them: a
    rule for each head of a step. Terminators are optional. Returns no steps, with a diagnostic, for a syntax error."""
    parser = Parser(text, file, congress=True)
    try:
        return tuple(_steps(parser)), ()
    except Refused as refused:
        return (), (refused.diagnostic,)


def _steps(parser: Parser) -> Iterator[tuple[ast.Rule, ...]]:
    while parser.token.kind != "end":
        parser.nesting = parser.terms = 0
        heads = parser.items(lambda: parser.action() if parser.at_action() else parser.atom("a head"))
        body = parser.body() if parser.take(":-") else ()
        if len(heads) > 1 and not body:
            raise parser.unexpected("found {found} after several heads", "write `:- true` after the heads of one step")
        parser.take(".")
        yield tuple(ast.Rule(head, body, span=head.span) for head in heads)
