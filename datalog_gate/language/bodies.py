"""From the tokens of a rule's body to its literals and terms (layer 1).

In: a text at a token. Out: the atom, body or term that begins there, or a refusal. How deep terms nest and how many
operators one holds is bounded, so that whoever walks the tree may recurse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from datalog_gate.base.diagnostics import Diagnostic, closest
from datalog_gate.base.values import FALSE, TRUE, Value
from datalog_gate.language import ast
from datalog_gate.language.cursor import Cursor
from datalog_gate.language.lexer import RANKS, Refused

MAX_OPERATORS: Final = 100
"""How many operators a term holds at most."""

WORDS: dict[str, Value] = {"null": None, "true": TRUE, "false": FALSE}
_OPERATORS: dict[str, ast.Operator] = {rank: rank for rank in RANKS}
_COMPARATORS: dict[str, ast.Comparator] = {get_arg: get_arg for get_arg in get_args(ast.Comparator)}
_FUNCTIONS: dict[str, ast.AggregateFunction] = {get_arg: get_arg for get_arg in get_args(ast.AggregateFunction)}
_AFTER_TERM = frozenset({*_OPERATORS, *_COMPARATORS, "in"})
_AFTER_OPERAND = _AFTER_TERM | {"{", "not", "==", "=<", "=>", "<>", ":="}  # with what is written for them by mistake
_OF_PYTHON = {"True": "true", "False": "false", "None": "null"}
_WORDS_OF_CONGRESS = frozenset({*_OF_PYTHON, *WORDS, "or", "in"})  # variables there


class BodyParser(Cursor):
    """One method for each construct of a body: it takes the construct's tokens, or raises `Refused`."""

    def __init__(self, text: str, file: str, congress: bool, line: int = 1, column: int = 1) -> None:
        super().__init__(text, file, line, column)
        self.congress = congress
        if congress:
            self.tokens[:] = [token._replace(kind="name") if token.kind == "update" else token for token in self.tokens]
        self.terms = 0
        self.operators = 0

    # bodies

    def body(self) -> ast.Body:
        return tuple(literal for literals in self.items(self.literal) for literal in literals)

    def literal(self) -> ast.Body:
        """One literal; parentheses that hold no ``or`` are as many as they hold."""
        token, follower = self.token, self.peek().kind
        match token.kind:
            case "not":
                return (self.negation(),)
            case "(" if self.after_closing() not in _AFTER_TERM:
                return self.group()
            case "true" | "false" if follower not in _AFTER_OPERAND:
                return (ast.Truth(self.advance().kind == "true", self.since(token.start)),)
            case "name" if follower not in _AFTER_OPERAND:
                return (self.atom("a condition"),)
        return (self.condition(),)

    def negation(self) -> ast.Negation:
        start = self.advance().start
        if self.token.kind == "(" and self.after_closing() not in _AFTER_TERM:
            body = self.group()
        else:
            body = (self.atom("a relation or a body in parentheses after `not`"),)
            if self.token.kind in _AFTER_OPERAND:
                raise self.unexpected(
                    "`not` takes a relation or a body in parentheses, found {found}", "write `not (...)`"
                )
        return ast.Negation(body, self.since(start))

    def group(self) -> ast.Body:
        start = self.enter()
        branches = [self.body()]
        while self.take("or"):
            branches.append(self.body())
        self.leave(")", "`,`, `or` or `)`")
        return branches[0] if len(branches) == 1 else (ast.Disjunction(tuple(branches), self.since(start)),)

    def condition(self) -> ast.Comparison | ast.Membership:
        start = self.token.start
        left = self.term("a condition")
        if comparator := _COMPARATORS.get(self.token.kind):
            self.advance()
            return ast.Comparison(comparator, left, self.term(), self.since(start))
        if not self.take("in"):
            advice = "write `not (x in [...])`" if self.token.kind == "not" and self.peek().kind == "in" else None
            raise self.unexpected("found {found}, expected a comparison", advice)
        self.expect("[", "`[`")
        return ast.Membership(left, self.sequence(self.term, "]"), self.since(start))

    def atom(self, expected: str) -> ast.Atom:
        name = self.expect("name", expected)
        if name.text == "_":
            raise self.source.refused(name, "`_` is no relation")
        name_span = self.since(name.start)
        arguments = self.sequence(self.argument, ")") if self.take("(") else ()
        positional = tuple(argument for argument in arguments if not isinstance(argument, ast.NamedArgument))
        named = tuple(argument for argument in arguments if isinstance(argument, ast.NamedArgument))
        check_order(positional, named)
        return ast.Atom(name.text, positional, named, self.since(name.start), name_span)

    def argument(self) -> ast.Term | ast.NamedArgument:
        if self.peek().kind != "=":
            return self.term()
        start = self.token.start
        column = self.column()
        self.advance()
        return ast.NamedArgument(column, self.term(), self.since(start))

    def column(self) -> str:
        if self.congress and self.token.kind == "number" and self.token.text.isdigit():
            return self.advance().text
        return self.word("a column", quoted=True)

    # terms

    def term(self, expected: str = "a value") -> ast.Term:
        """A term. Its operators count together, those inside of its parentheses and aggregates too."""
        if not self.terms:
            self.operators = 0
        self.terms += 1
        term = self.operation(1, expected)
        self.terms -= 1
        return term

    def operation(self, rank: int, expected: str = "a value") -> ast.Term:
        """Operators of at least this rank, by precedence climbing."""
        start = self.token.start
        left = self.operand(expected)
        while (operator := _OPERATORS.get(self.token.kind)) and RANKS[operator] >= rank:
            self.operator()
            left = ast.Operation(operator, left, self.operation(RANKS[operator] + 1), self.since(start))
        return left

    def operator(self) -> None:
        """Take an operator between two terms."""
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
            return ast.Variable(token.text, self.since(token.start))
        match token.kind:
            case "number":
                value = self.source.number(token)
            case "string":
                value = self.source.string(token)
            case "null" | "true" | "false":
                value = WORDS[token.kind]
            case "-":
                return self.minus()
            case "name":
                return self.named_operand()
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
        return ast.Constant(value, self.since(token.start))

    def minus(self) -> ast.Term:
        """A minus sign before a term: it binds tighter than all but ``??``."""
        sign = self.token
        if self.peek().kind == "number":
            self.advance()
            value = self.source.number(self.advance(), "-")
            return ast.Constant(value, self.since(sign.start))
        self.count_operator()
        self.enter()  # it may print as parentheses
        zero = ast.Constant(0, self.since(sign.start))
        term = self.operation(RANKS["??"])
        self.nesting -= 1
        return ast.Operation("-", zero, term, self.since(sign.start))

    def named_operand(self) -> ast.Term:
        token, follower = self.token, self.peek().kind
        if follower == "{":
            return self.aggregate()
        if follower == "(":
            raise self.unexpected("{found} is a relation, not a value", "make it a condition and use its result here")
        if follower == ":" == self.tokens[self.index + 2].kind:
            raise self.unexpected("{found} is no text", f'write the text in quotes, `"{token.text[:80]}::..."`')
        if token.text in _OF_PYTHON:
            raise self.unexpected("{found} is no value", f"write `{_OF_PYTHON[token.text]}`")
        if not token.text.isidentifier():
            raise self.unexpected("{found} is no variable", f'write a string in quotes, `"{token.text[:80]}"`')
        self.advance()
        span = self.since(token.start)
        return ast.Wildcard(span) if token.text == "_" else ast.Variable(token.text, span)

    def aggregate(self) -> ast.Aggregate:
        function = _FUNCTIONS.get(self.token.text)
        if not function:
            near = closest(self.token.text[:80], _FUNCTIONS)
            advice = f"did you mean `{near}`?" if near else f"there are {', '.join(_FUNCTIONS)}"
            raise self.unexpected("{found} is no aggregate", advice)
        start = self.advance().start
        self.enter()
        terms = self.items(self.aggregated)
        before, colon = self.tokens[self.index - 1], self.expect(":", "an operator, `,` or `:`")
        if not before.end < colon.start < colon.end < self.token.start:
            raise self.source.refused(colon, "the colon of an aggregate has blanks on both sides", "write ` : `")
        body = self.body()
        self.leave("}", "`,` or `}`")
        return ast.Aggregate(function, terms, body, self.since(start))

    def aggregated(self) -> ast.Term:
        name, colon, relation = self.token.text.partition(":")
        if self.token.kind == "name" and colon:
            raise self.unexpected(
                "{found} is no variable", f"write blanks around the colon, `{name[:40]} : {relation[:80]}`"
            )
        return self.term()


def check_order(positional: Sequence[ast.Term], named: Sequence[ast.NamedArgument | ast.Attribute]) -> None:
    if positional and named and positional[-1].span > named[0].span:
        raise Refused(Diagnostic("syntax", "positional arguments stand before named ones", positional[-1].span))
