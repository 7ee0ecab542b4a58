"""From the text of a rule file to its module (layer 1).

In: any text. Out: the statements that could be read, and a diagnostic for each that could not: reading goes on at the
next statement, after its terminator or at a name or annotation at column 1. Time is linear in the text, and the depth
of the tree is bounded, so that whoever walks it may recurse.
"""

from __future__ import annotations

from dataclasses import replace

from datalog_gate.base.diagnostics import Diagnostic, in_order
from datalog_gate.language import ast
from datalog_gate.language.bodies import WORDS, BodyParser, check_order
from datalog_gate.language.lexer import STATEMENTS, Refused

_BEGIN = frozenset({"name", "update", "@"})  # what a statement may begin with


def parse(
    text: str, file: str, name: str, *, congress: bool = False, line: int = 1, column: int = 1
) -> tuple[ast.Module, tuple[Diagnostic, ...]]:
    """The module `name` that the text of `file` writes, which starts there at `line` and `column`. The diagnostics, all
    errors, stand in the order of the text; a statement with one is not in the module. With `congress` it may be as
    Congress takes it: `analysis.congress` says what it means."""
    parser = _Parser(text, file, congress, line, column)
    statements: list[ast.Statement] = []
    diagnostics: list[Diagnostic] = []
    lost: set[str] = set()
    while parser.token.kind != "end":
        start = parser.index
        try:
            statements.append(parser.statement())
        except Refused as refused:
            diagnostics.append(refused.diagnostic)
            parser.skip_statement(start)
            skipped = parser.tokens[start : parser.index]
            lost |= {token.text for token in skipped if token.kind == "name" and parser.source.at_margin(token)}
    module = ast.Module(name, file, tuple(statements), congress, refused=frozenset(lost))
    return module, in_order(diagnostics)


def parse_query(text: str, congress: bool = False) -> tuple[ast.Atom | ast.Body, tuple[Diagnostic, ...]]:
    """The atom that a query like ``p(x, _)`` is, or the body of one like ``:- a(x), b(y).``; its terminator is
    optional. A query that can't be read is the empty body, with its diagnostic. Its file is ``<query>``."""
    parser = _Parser(text, "<query>", congress)
    try:
        return parser.query(), ()
    except Refused as refused:
        return (), (refused.diagnostic,)


class _Parser(BodyParser):
    """One method for each kind of statement: it takes the statement's tokens, or raises `Refused`."""

    def statement(self) -> ast.Statement:
        self.nesting = self.terms = 0
        match self.token.text:
            case "@":
                return self.rule(self.annotation())
            case "relation":
                return self.declaration()
            case "import":
                return self.imports()
            case "export":
                return self.exports()
        return self.rule(None)

    def rule(self, annotation: ast.Annotation | None) -> ast.Rule:
        token = self.token
        if token.text in STATEMENTS and not self.at_action():
            if self.peek().kind == "[":
                raise self.source.refused(token, f"`{token.text}[` is an action of Congress", code="unsupported")
            raise self.unexpected("{found} is reserved at the start of a statement")
        start = token.start
        head = (
            self.action()
            if self.at_action()
            else self.atom("the rule of the annotation" if annotation else "a statement")
        )
        body: ast.Body = ()
        if self.take(":-"):
            body = self.body()
        span = self.since(start)
        if self.token.kind == ":-" and body and isinstance(body[-1], ast.Atom):
            advice = f"`{body[-1].name[:80]}` begins a rule of its own: write `.` before it in the place of `,`"
            raise self.unexpected("found {found} in a body", advice)
        self.end_statement("`,` or `.`" if body else "`:-` or `.`", "," if body else ":-")
        return ast.Rule(head, body, annotation, span)

    def at_action(self) -> bool:
        """Whether an action of Congress is next, ``execute[nova:pause(x)]``."""
        return self.congress and self.token.text == "execute" and self.peek().kind == "["

    def action(self) -> ast.Atom:
        """An action as the relation of what Congress would do, ``execute.nova.pause(x)``."""
        start = self.advance().start
        self.advance()
        action = self.atom("an action")
        self.expect("]", "`]`")
        return replace(action, name=f"execute.{action.name.replace(':', '.')}", span=self.since(start))

    def annotation(self) -> ast.Annotation:
        start = self.advance().start
        name = self.expect("name", "the name of an annotation").text
        arguments = self.sequence(self.annotation_argument, ")") if self.take("(") else ()
        values = tuple(argument for argument in arguments if isinstance(argument, ast.Constant))
        attributes = tuple(argument for argument in arguments if isinstance(argument, ast.Attribute))
        check_order(values, attributes)
        return ast.Annotation(name, values, attributes, self.since(start))

    def annotation_argument(self) -> ast.Constant | ast.Attribute:
        start = self.token.start
        if self.peek().kind != "=":
            return self.constant()
        name = self.word("an attribute", quoted=False)
        self.advance()
        value = (
            tuple(constant.value for constant in self.sequence(self.constant, "]"))
            if self.take("[")
            else self.constant().value
        )
        return ast.Attribute(name, value, self.since(start))

    def constant(self) -> ast.Constant:
        token = self.token
        if token.kind in ("number", "string", "-", *WORDS):
            term = self.operand()
            if isinstance(term, ast.Constant):
                return term
        raise self.source.unexpected(token, "found {found}, expected a string, a number, null, true or false")

    def declaration(self) -> ast.Declaration:
        start = self.advance().start
        name = self.expect("name", "the name of a relation").text
        self.expect("(", "`(`")
        columns = self.sequence(self.declared_column, ")")
        key: tuple[str, ...] = ()
        if self.token.text == "key" and self.peek().kind == "(" and not self.source.at_margin(self.token):
            self.advance()
            self.advance()
            key = self.sequence(self.column, ")")
        meaning = self.source.string(self.advance()) if self.token.kind == "string" else ""
        span = self.since(start)
        self.end_statement("`.`")
        return ast.Declaration(name, columns, key, meaning, span)

    def declared_column(self) -> ast.DeclaredColumn:
        start = self.token.start
        if self.token.kind == "name" and ":" in self.token.text:
            name, _, kind = self.token.text.partition(":")
            raise self.unexpected("{found} is no column", f"write `{name}: {kind}`")
        name = self.column()
        kinds = []
        if self.take(":"):
            kinds.append(self.word("a kind", quoted=False))
            while self.take("or"):
                kinds.append(self.word("a kind", quoted=False))
        return ast.DeclaredColumn(name, tuple(kinds), self.since(start))

    def exports(self) -> ast.Export:
        start = self.advance().start
        names = self.items(lambda: self.expect("name", "the name of a relation").text)
        span = self.since(start)
        self.end_statement("`,` or `.`", ",")
        return ast.Export(names, span)

    def imports(self) -> ast.Import:
        start = self.advance().start
        module = self.expect("name", "the name of a module").text
        span = self.since(start)
        self.end_statement("`.`")
        return ast.Import(module, span)

    def query(self) -> ast.Atom | ast.Body:
        found: ast.Atom | ast.Body
        if self.at_action():
            found = self.action()
        else:
            found = self.body() if self.take(":-") else self.atom("a relation or `:-`")
        self.take(".")
        if self.token.kind != "end":
            advice = "write `:-` before a query of several conditions" if isinstance(found, ast.Atom) else None
            raise self.unexpected("found {found}, expected the end of the query", advice)
        return found

    def end_statement(self, expected: str, comma: str = "") -> None:
        """Take the terminator, or refuse what is none: without one a statement ends only before a token at column 1."""
        token = self.token
        if self.take(".") or token.kind == "end" or (token.kind in _BEGIN and self.source.at_margin(token)):
            return
        raise self.unexpected(f"missing {expected} before {{found}}", self.unended(comma))

    def unended(self, comma: str) -> str | None:
        """The advice for a statement that goes on where it can't: the sign `comma` was forgotten, or its end was."""
        token = self.token
        if token.kind in (")", "]", "}"):
            return f"nothing opens it: leave `{token.kind}` out"
        if comma == ":-" and token.kind in ("<", ":", "=", "-"):
            return "write `:-` between a head and its body"
        closing = self.closings.get(self.index + 1)
        begins = token.kind == "@" or (closing is not None and self.tokens[closing + 1].kind == ":-")
        return self.forgotten("." if begins or not comma else comma)

    def skip_statement(self, start: int) -> None:
        """Go on where the next statement may begin; `start` is where the refused one began."""
        self.index = max(self.index, start)
        while (token := self.token).kind != "end":
            if self.index > start and token.kind in _BEGIN and self.source.at_margin(token):
                return
            self.index += 1
            if token.kind == ".":
                return
