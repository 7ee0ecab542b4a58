"""Parser of rule files: from tokens to the syntax tree.

After a syntax error it continues after the terminator, or at a name or annotation in column 1. Nesting and operators
are limited, so that recursive functions can walk the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, TypeVar, get_args

from datalog_gate.base.diagnostics import Advice, Diagnostic, Span, closest, in_order, slip, suggest_code, suggest_name
from datalog_gate.base.records import replace
from datalog_gate.base.values import FALSE, TRUE, Value
from datalog_gate.language import ast
from datalog_gate.language.comments import find_silences
from datalog_gate.language.foreign_words import NEGATIONS, OTHER_WORDS, POLICY_WORDS, VALUES
from datalog_gate.language.lexer import RANKS, RESERVED, STATEMENTS, Refused, Source, Token

MAX_NESTING: Final = 25
MAX_OPERATORS: Final = 100

_WORDS: dict[str, Value] = {"null": None, "true": TRUE, "false": FALSE}
_OPERATORS: dict[str, ast.Operator] = {operator: operator for operator in RANKS}
_COMPARATORS: dict[str, ast.Comparator] = {comparator: comparator for comparator in get_args(ast.Comparator)}
_FUNCTIONS: dict[str, ast.AggregateFunction] = {name: name for name in get_args(ast.AggregateFunction)}
_AFTER_TERM = frozenset({*_OPERATORS, *_COMPARATORS, "in"})
_AFTER_OPERAND = _AFTER_TERM | {"{", "not", "==", "=<", "=>", "<>", ":="}
"""Tokens that may follow an operand in a condition, including common mistakes."""
_AFTER_AGGREGATED = frozenset({*_OPERATORS, ",", ":"})
"""Tokens that may follow a variable named `distinct` in an aggregate; the keyword is followed by a term."""
_STATEMENT_BEGINNINGS = frozenset({"name", "update", "@"})
_BEGINNINGS = frozenset({"name", "string", "format", "number", "(", "not", "true", "false", "null", "@"})
"""Tokens that may begin a condition, an argument or a statement, except a minus sign."""
_WORDS_OF_CONGRESS = frozenset({*VALUES, *_WORDS, "or", "in"})
"""Reserved words that are variables in rules for Congress."""
_QUERIES = {",": "write `:-` before a query of several conditions", "{": "give it a variable, `:- n = count{ ... }`"}

_T = TypeVar("_T")
_First = tuple[int, ast.Term]
"""The first operand of a term that was read already, with the place where it starts."""


def parse(
    text: str, file: str, name: str, *, congress: bool = False, line: int = 1, column: int = 1
) -> tuple[ast.Module, tuple[Diagnostic, ...]]:
    """Parse the text of `file`, which starts there at `line` and `column`, as the module `name`. The diagnostics, all
    errors, are in text order. A statement with an error is not in the module. With `congress` the syntax of Congress is
    accepted; `analysis/congress_translation.py` translates it."""
    parser = Parser(text, file, congress, line, column)
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
    silences = find_silences(parser.source, statements)
    module = ast.Module(name, file, tuple(statements), congress, refused=frozenset(lost), silences=silences)
    return module, in_order(diagnostics)


def parse_query(text: str, congress: bool = False) -> tuple[ast.Atom | ast.Body, tuple[Diagnostic, ...]]:
    """Parse a query: an atom such as ``p(x, _)``, or a body such as ``:- a(x), b(y).``; the terminator is optional.
    Returns an empty body, with a diagnostic, for a syntax error. Its file is ``<query>``."""
    parser = Parser(text, "<query>", congress)
    try:
        return parser.query(), ()
    except Refused as refused:
        return (), (refused.diagnostic,)


class Parser:
    """A position in tokens. Each method consumes the tokens of one construct, or raises `Refused`."""

    def __init__(self, text: str, file: str, congress: bool, line: int = 1, column: int = 1) -> None:
        self.source = Source(text, file, line, column)
        self.tokens = self.source.tokens
        if congress:
            self.tokens[:] = [token._replace(kind="name") if token.kind == "update" else token for token in self.tokens]
        self.congress = congress
        self.tokens.append(self.tokens[-1])  # the end, to be peeked at from itself
        self.index = 0
        self.token: Token = self.tokens[0]
        self.nesting = 0
        self.terms = 0
        self.operators = 0

    @cached_property
    def closings(self) -> dict[int, int]:
        """The indices of closing parentheses, by those of the opening ones."""
        open_at, closings = list[int](), dict[int, int]()
        for index, token in enumerate(self.tokens):
            if token.kind == "(":
                open_at.append(index)
            elif token.kind == ")" and open_at:
                closings[open_at.pop()] = index
        return closings

    def peek(self) -> Token:
        return self.tokens[self.index + 1]

    def advance(self) -> Token:
        token = self.token
        self.index += 1
        self.token = self.tokens[self.index]
        return token

    def take(self, kind: str) -> bool:
        if self.token.kind != kind:
            return False
        self.index += 1
        self.token = self.tokens[self.index]
        return True

    def expect(self, kind: str, expected: str) -> Token:
        if self.token.kind != kind:
            raise self.unexpected(f"found {{found}}, expected {expected}")
        return self.advance()

    def word(self, expected: str, quoted: bool) -> str:
        """Any word, reserved or not, or a string if it may be `quoted`."""
        token = self.token
        if quoted and token.kind == "string":
            return self.source.string(self.advance())
        if token.kind.startswith("bad") or not token.text.isidentifier():
            text, advice = f'"{token.text[:80]}"', None
            if quoted and token.kind == "name":
                advice = Advice(f"write it in quotes, `{text}`", text)
            if advice and "." in token.text and self.peek().kind == "=":
                advice = Advice("a list or a map has a relation of its own, such as os:nova:server.networks(port=x)")
            raise self.unexpected(f"found {{found}}, expected {expected}", advice)
        return self.advance().text

    def sequence(self, item: Callable[[], _T], close: str) -> tuple[_T, ...]:
        """Items separated by commas, up to the closing sign."""
        if self.take(close):
            return ()
        items = self.items(item)
        self.close(close, f"`,` or `{close}`")
        return items

    def items(self, item: Callable[[], _T]) -> tuple[_T, ...]:
        elements = [item()]
        while self.take(","):
            elements.append(item())
        return tuple(elements)

    def enter(self) -> int:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.source.refused(self.token, f"nested deeper than {MAX_NESTING}", code="too-large")
        return self.advance().start

    def leave(self, close: str, expected: str) -> None:
        self.close(close, expected)
        self.nesting -= 1

    def close(self, close: str, expected: str) -> None:
        if not self.take(close):
            begins = self.token.kind in (":-", ".")
            advice = _write_before(close, self.token.text) if begins else self.forgotten(",")
            raise self.unexpected(f"found {{found}}, expected {expected}", advice)

    def after_closing(self) -> str:
        """The kind of the token after the parenthesis that closes the next token; empty if it is missing."""
        closing = self.closings.get(self.index)
        return "" if closing is None else self.tokens[closing + 1].kind

    def since(self, start: int) -> Span:
        return self.source.span(start, self.tokens[self.index - 1].end)

    def forgotten(self, sign: str) -> str | None:
        """The advice to write a sign before the next token, or the word that was probably meant before it."""
        token = self.token
        if token.text in OTHER_WORDS:
            return OTHER_WORDS[token.text]
        if self.tokens[self.index - 1].text in POLICY_WORDS and token.kind in ("name", "string", "{", "["):
            return 'a policy is a rule below a line like @deny("name", "message {x}")'
        if near := slip(self.tokens[self.index - 1].text, RESERVED | STATEMENTS):
            return suggest_name(near, mark="`")
        if token.kind == ":" and self.tokens[self.index + 1].kind == ":":
            return "write a resource type as a relation in lower case, os:nova:server, or as a string in quotes"
        begins = token.kind in _BEGINNINGS and len(token.text) <= 80 and token.text.isprintable()
        return _write_before(sign, token.text) if begins else None

    def unexpected(self, message: str, suggestion: str | None = None) -> Refused:
        return self.source.unexpected(self.token, message, suggestion)

    # bodies

    def body(self) -> ast.Body:
        return tuple(literal for literals in self.items(self.literal) for literal in literals)

    def literal(self) -> ast.Body:
        token, follower = self.token, self.peek().kind
        match token.kind:
            case "not":
                return (self.negation(),)
            case "(" if self.after_closing() not in _AFTER_TERM:
                return self.group()
            case "true" | "false" if follower not in _AFTER_OPERAND:
                return (ast.Truth(self.advance().kind == "true", span=self.since(token.start)),)
            case "name" if follower not in _AFTER_OPERAND:
                atom = self.atom("a condition")
                if self.token.kind not in _AFTER_TERM:
                    return (atom,)
                return (self.condition(token.start, self.as_function(atom)),)
        return (self.condition(token.start),)

    def negation(self) -> ast.Negation:
        start = self.advance().start
        if self.token.kind == "(" and self.after_closing() not in _AFTER_TERM:
            body = self.group()
        else:
            body = (self.atom("a relation or a body in parentheses after `not`"),)
            if self.token.kind in _AFTER_OPERAND:
                message = "`not` takes a relation or a body in parentheses, found {found}"
                raise self.unexpected(message, "write `not (...)`")
        return ast.Negation(body, span=self.since(start))

    def group(self) -> ast.Body:
        closed = self.index in self.closings
        start = self.enter()
        branches = [self.body()]
        while self.take("or"):
            branches.append(self.body())
        if closed and (token := self.token).text == ";" and not self.source.at_margin(self.peek()):
            self.advance()
            raise self.source.unexpected(token, "found {found}, expected `,`, `or` or `)`", "write `(a or b)`")
        self.leave(")", "`,`, `or` or `)`")
        return branches[0] if len(branches) == 1 else (ast.Disjunction(tuple(branches), span=self.since(start)),)

    def condition(self, start: int, function: ast.Function | None = None) -> ast.Comparison | ast.Membership:
        """A comparison or membership; `function` is the first operand if it was read already."""
        left = self.term("a condition", (start, function) if function else None)
        if comparator := _COMPARATORS.get(self.token.kind):
            self.advance()
            return ast.Comparison(comparator, left, self.term(), span=self.since(start))
        if not self.take("in"):
            advice = "write `not (x in [...])`" if self.token.kind == "not" and self.peek().kind == "in" else None
            raise self.unexpected("found {found}, expected a comparison", advice)
        if self.token.kind in ("(", "{"):
            raise self.unexpected("found {found}, expected `[`", "write the choices in brackets, [a, b]")
        self.expect("[", "`[`")
        return ast.Membership(left, self.sequence(self.term, "]"), span=self.since(start))

    def atom(self, expected: str) -> ast.Atom:
        name = self.expect("name", expected)
        if name.text == "_":
            raise self.source.refused(name, "`_` is not a relation")
        if name.text in NEGATIONS and self.token.kind == "name":
            raise self.source.refused(name, f"`{name.text}` is not a relation", suggest_code("not", "`"))
        name_span = self.since(name.start)
        arguments = self.arguments(name) if self.take("(") else ()
        positional = tuple([argument for argument in arguments if not isinstance(argument, ast.NamedArgument)])
        named = tuple([argument for argument in arguments if isinstance(argument, ast.NamedArgument)])
        _check_order(positional, named)
        return ast.Atom(name.text, positional, named, name_span, span=self.since(name.start))

    def arguments(self, name: Token) -> tuple[ast.Term | ast.NamedArgument, ...]:
        """The arguments of an atom up to its `)`. Tokens that never follow them are mistakes of their own."""
        arguments: tuple[ast.Term | ast.NamedArgument, ...] = ()
        if not self.take(")"):
            arguments = self.items(self.argument)
            if self.token.kind == ":" and name.text in _FUNCTIONS:
                raise self.source.refused(name, f"`{name.text}` takes braces", f"write {name.text}{{ x : ... }}")
            if self.token.kind == ":" and isinstance(arguments[-1], ast.Variable):
                raise self.unexpected("found {found}, expected `,` or `)`", f"write {arguments[-1].name}=...")
            if self.token.kind in ("!=", "<", "<=", ">", ">=") and isinstance(arguments[-1], ast.Variable):
                advice = f"write {arguments[-1].name}=x, and after the atom `x {self.token.kind} ...`"
                raise self.unexpected("found {found}, expected `,` or `)`", advice)
            self.close(")", "`,` or `)`")
        return arguments

    def argument(self) -> ast.Term | ast.NamedArgument:
        if self.peek().kind != "=":
            return self.term()
        start = self.token.start
        column = self.column()
        self.advance()
        return ast.NamedArgument(column, self.term(), span=self.since(start))

    def column(self) -> str:
        if self.congress and self.token.kind == "number" and self.token.text.isdigit():
            return self.advance().text
        return self.word("a column", quoted=True)

    # terms

    def term(self, expected: str = "a value", first: _First | None = None) -> ast.Term:
        """Parse a term. The limit of operators includes those in its parentheses and aggregates."""
        if not self.terms:
            self.operators = 0
        self.terms += 1
        simple = not first and self.peek().kind in (",", ")")
        term = self.operand(expected) if simple else self.operation(1, expected, first)
        self.terms -= 1
        return term

    def operation(self, rank: int, expected: str = "a value", first: _First | None = None) -> ast.Term:
        """Operators of at least this rank (precedence climbing)."""
        start, left = first or (self.token.start, self.operand(expected))
        while (operator := _OPERATORS.get(self.token.kind)) and RANKS[operator] >= rank:
            self.operator()
            left = ast.BinaryOperation(operator, left, self.operation(RANKS[operator] + 1), span=self.since(start))
        return left

    def operator(self) -> None:
        before, token = self.tokens[self.index - 1], self.token
        self.count_operator()
        self.advance()
        apart = before.end < token.start and token.end < self.token.start
        if token.kind == "-" and self.token.kind != "number" and not apart:
            advice = "write blanks around it, or the whole text in quotes"
            raise self.source.refused(token, "a minus has blanks on both sides or a number after it", advice)

    def count_operator(self) -> None:
        self.operators += 1
        if self.operators > MAX_OPERATORS:
            raise self.source.refused(self.token, f"a term of more than {MAX_OPERATORS} operators", code="too-large")

    def operand(self, expected: str = "a value") -> ast.Term:
        token = self.token
        value: Value
        if self.congress and self.terms and token.text in _WORDS_OF_CONGRESS:
            self.advance()
            return ast.Variable(token.text, span=self.since(token.start))
        match token.kind:
            case "name":
                return self.named_operand()
            case "number":
                value = self.source.number(token)
            case "string":
                value = self.source.string(token)
            case "format":
                return self.interpolation()
            case "null" | "true" | "false":
                value = _WORDS[token.kind]
            case "-":
                return self.minus()
            case "(":
                self.enter()
                term = self.operation(1)
                self.leave(")", "an operator or `)`")
                return term
            case _:
                dangling = self.tokens[self.index - 1].kind == "," and token.kind in (".", ")", "]", "}", "end")
                advice = "leave out the `,` before it" if dangling else None
                raise self.unexpected(f"found {{found}}, expected {expected}", advice)
        self.advance()
        return ast.Constant(value, span=self.since(token.start))

    def minus(self) -> ast.Term:
        """A minus sign before a term. It binds tighter than all operators but ``??``."""
        sign = self.token
        if self.peek().kind == "number":
            self.advance()
            value = self.source.number(self.advance(), "-")
            return ast.Constant(value, span=self.since(sign.start))
        self.count_operator()
        self.enter()  # it may print as parentheses
        zero = ast.Constant(0, span=self.since(sign.start))
        term = self.operation(RANKS["??"])
        self.nesting -= 1
        return ast.BinaryOperation("-", zero, term, span=self.since(sign.start))

    def named_operand(self) -> ast.Term:
        token, follower = self.token, self.peek().kind
        if follower == "{":
            return self.aggregate()
        if follower == "(":
            return self.function()
        if follower == ":" == self.tokens[self.index + 2].kind:
            raise self.unexpected("{found} is not a string", f'write the text in quotes, `"{token.text[:80]}::..."`')
        if token.text in VALUES:
            raise self.unexpected("{found} is not a value", suggest_code(VALUES[token.text], "`"))
        if not token.text.isidentifier():
            relation = f"a condition, `{token.text[:80]}(...)`, or " if ":" in token.text else ""
            text = f'"{token.text[:80]}"'
            advice = Advice(f"write {relation}a string in quotes, `{text}`", text)
            raise self.unexpected("{found} is not a variable", advice)
        self.advance()
        span = self.since(token.start)
        return ast.Wildcard(span=span) if token.text == "_" else ast.Variable(token.text, span=span)

    def function(self) -> ast.Function:
        name = self.token
        if name.text in _FUNCTIONS:
            raise self.unexpected("{found} takes braces", f"write {name.text}{{ x : ... }}")
        self.advance()
        name_span = self.since(name.start)
        self.enter()
        arguments = () if self.token.kind == ")" else self.items(self.term)
        self.leave(")", "`,` or `)`")
        return ast.Function(name.text, arguments, name_span, span=self.since(name.start))

    def as_function(self, atom: ast.Atom) -> ast.Function:
        """An atom that turned out to be an operand."""
        if atom.name in _FUNCTIONS:
            advice = f"write y = {atom.name}{{ x : ... }}, and compare y"
            raise self.unexpected(f"`{atom.name}(...)` is a condition and has no value", advice)
        if atom.named:
            raise Refused(Diagnostic("syntax", "a function takes its arguments in order", atom.named[0].span))
        return ast.Function(atom.name, atom.arguments, atom.name_span, span=atom.span)

    def interpolation(self) -> ast.Interpolation:
        token = self.advance()
        parts = [
            ast.Variable(part.text, span=self.source.span(part.start, part.end)) if isinstance(part, Token) else part
            for part in self.source.pieces(token)
        ]
        return ast.Interpolation(tuple(parts), span=self.since(token.start))

    def aggregate(self) -> ast.Aggregate:
        function = _FUNCTIONS.get(self.token.text)
        if not function:
            near = closest(self.token.text[:80], _FUNCTIONS)
            advice = suggest_name(near, f"one of {', '.join(_FUNCTIONS)}", "`")
            raise self.unexpected("{found} is not an aggregate", advice)
        start = self.advance().start
        self.enter()
        distinct = self.token.text == "distinct" and self.peek().kind not in _AFTER_AGGREGATED
        if distinct:
            self.advance()
        terms = self.items(self.aggregated)
        if self.token.text == "|":
            raise self.source.refused(
                self.token, "an aggregate has `:` after its terms, not `|`", suggest_code(" : ", "`")
            )
        before, colon = self.tokens[self.index - 1], self.expect(":", "an operator, `,` or `:`")
        if not before.end < colon.start < colon.end < self.token.start:
            raise self.source.refused(
                colon, "the colon of an aggregate has blanks on both sides", suggest_code(" : ", "`")
            )
        body = self.body()
        self.leave("}", "`,` or `}`")
        return ast.Aggregate(function, terms, body, distinct, span=self.since(start))

    def aggregated(self) -> ast.Term:
        if self.token.kind == "name" and ":" in self.token.text and not self.token.text.startswith("builtin:"):
            advice = "write a variable before it, `x : relation(x)`"
            raise self.unexpected("{found} is not a variable", advice)
        return self.term()

    # statements

    def statement(self) -> ast.Statement:
        self.nesting = self.terms = 0
        sign = "--" if self.token.kind == self.peek().kind == "-" else self.token.kind
        if sign in ("--", "%"):
            raise self.source.refused(
                self.token, f"found `{sign}`, expected a statement", "begin a comment with // or #"
            )
        match self.token.text:
            case "relation":
                return self.declaration()
            case "import":
                return self.imports()
            case "export":
                return self.exports()
        return self.rule(self.annotation() if self.token.kind == "@" else None)

    def rule(self, annotation: ast.Annotation | None) -> ast.Rule:
        token = self.token
        if token.text in STATEMENTS and not self.at_action():
            if self.peek().kind == "[":
                raise self.source.refused(token, f"`{token.text}[` is an action of Congress", code="unsupported")
            below = annotation and token.text == "relation"
            advice = "write the annotation above a rule of the relation" if below else None
            raise self.unexpected("{found} is reserved at the start of a statement", advice)
        expected = "the rule of the annotation" if annotation else "a statement"
        if annotation and self.token.kind in ("string", ".", ";"):
            advice = f"write @{annotation.name}(...), and the rule right below it"
            raise self.unexpected(f"found {{found}}, expected {expected}", advice)
        head = self.action() if self.at_action() else self.atom(expected)
        body = self.body() if self.take(":-") else ()
        span = self.since(token.start)
        if self.token.kind == ":-" and body and isinstance(body[-1], ast.Atom):
            advice = f"`{body[-1].name[:80]}` begins a new rule: write `.` before it instead of `,`"
            raise self.unexpected("found {found} in a body", advice)
        self.end_statement("`,` or `.`" if body else "`:-` or `.`", "," if body else ":-")
        return ast.Rule(head, body, annotation, span=span)

    def at_action(self) -> bool:
        return self.congress and self.token.text == "execute" and self.peek().kind == "["

    def action(self) -> ast.Atom:
        """An action as the relation of what Congress would execute, ``execute.nova.pause(x)``."""
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
        _check_order(values, attributes)
        return ast.Annotation(name, values, attributes, span=self.since(start))

    def annotation_argument(self) -> ast.Constant | ast.Attribute:
        start = self.token.start
        if self.peek().kind != "=":
            return self.constant()
        name = self.word("an attribute", quoted=False)
        self.advance()
        if self.take("["):
            values = tuple(constant.value for constant in self.sequence(self.constant, "]"))
            return ast.Attribute(name, values, span=self.since(start))
        return ast.Attribute(name, self.constant().value, span=self.since(start))

    def constant(self) -> ast.Constant:
        token = self.token
        if token.kind in ("number", "string", "-", *_WORDS):
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
        return ast.Declaration(name, columns, key, meaning, span=span)

    def declared_column(self) -> ast.DeclaredColumn:
        start = self.token.start
        if self.token.kind == "name" and ":" in self.token.text:
            name, _, kind = self.token.text.partition(":")
            raise self.unexpected("{found} is not a column", f"write `{name}: {kind}`")
        name = self.column()
        kinds: list[str] = []
        while self.take("or" if kinds else ":"):
            kinds.append(self.word("a kind", quoted=False))
        if kinds and self.token.text in ("|", "||"):
            raise self.source.refused(self.token, f"found `{self.token.text}`, expected `or`", suggest_code("or", "`"))
        return ast.DeclaredColumn(name, tuple(kinds), span=self.since(start))

    def exports(self) -> ast.Export:
        start = self.advance().start
        names = self.items(lambda: self.expect("name", "the name of a relation").text)
        span = self.since(start)
        self.end_statement("`,` or `.`", ",")
        return ast.Export(names, span=span)

    def imports(self) -> ast.Import:
        start = self.advance().start
        module = self.expect("name", "the name of a module").text
        span = self.since(start)
        self.end_statement("`.`")
        return ast.Import(module, span=span)

    def query(self) -> ast.Atom | ast.Body:
        query: ast.Atom | ast.Body
        if self.at_action():
            query = self.action()
        else:
            query = self.body() if self.take(":-") else self.atom("a relation or `:-`")
        self.take(".")
        if self.token.kind != "end":
            advice = _QUERIES.get(self.token.kind) if isinstance(query, ast.Atom) else None
            raise self.unexpected("found {found}, expected the end of the query", advice)
        return query

    def end_statement(self, expected: str, comma: str = "") -> None:
        """Consume the terminator. Without one a statement may end only before a token in column 1."""
        if not self.take(".") and self.token.kind != "end" and not self.at_statement():
            raise self.unexpected(f"missing {expected} before {{found}}", self.unended(comma))

    def at_statement(self) -> bool:
        return self.token.kind in _STATEMENT_BEGINNINGS and self.source.at_margin(self.token)

    def unended(self, comma: str) -> str | None:
        """Advise on an unexpected token: the sign `comma` or the terminator is missing."""
        token = self.token
        if token.kind in (")", "]", "}"):
            return f"nothing opens it: leave `{token.kind}` out"
        if comma == ":-" and token.kind in ("<", ":", "=", "-"):
            return "write `:-` between a head and its body"
        closing = self.closings.get(self.index + 1)
        begins = token.kind == "@" or (closing is not None and self.tokens[closing + 1].kind == ":-")
        return self.forgotten("." if begins or not comma else comma)

    def skip_statement(self, start: int) -> None:
        """Skip to the next statement; `start` is the beginning of the refused one."""
        while self.token.kind != "end" and not (self.index > start and self.at_statement()):
            if self.advance().kind == ".":
                return


def _write_before(sign: str, what: str) -> Advice:
    return Advice(f"write `{sign}` before `{what}`", sign, before=sign)


def _check_order(positional: Sequence[ast.Term], named: Sequence[ast.NamedArgument | ast.Attribute]) -> None:
    if positional and named and positional[-1].span > named[0].span:
        raise Refused(Diagnostic("syntax", "positional arguments must come before named ones", positional[-1].span))
