"""Texts and their trees or diagnostics."""

from __future__ import annotations

import pytest

from datalog_gate.base.diagnostics import Diagnostic, Span, render
from datalog_gate.base.values import FALSE, TRUE
from datalog_gate.language import ast
from datalog_gate.language.parser import parse, parse_query
from datalog_gate.language.printer import print_module

op = ast.BinaryOperation

W, X, Y, Z = ast.Wildcard(), ast.Variable("x"), ast.Variable("y"), ast.Variable("z")
P, PX, QX = ast.Atom("p"), ast.Atom("p", (X,)), ast.Atom("q", (X,))


def c(value: str | int) -> ast.Constant:
    return ast.Constant(value)


BODIES: list[tuple[str, ast.Body]] = [
    ("p", (P,)),
    ("p()", (P,)),
    ("p (x), q(x)", (PX, QX)),
    ("os:nova:server.tags(_id=x)", (ast.Atom("os:nova:server.tags", (), (ast.NamedArgument("_id", X),)),)),
    ("p(_, true, not=x, 'a:b'=y)", (
        ast.Atom("p", (W, ast.Constant(TRUE)), (ast.NamedArgument("not", X), ast.NamedArgument("a:b", Y))),
    )),
    ("count(min, key)", (ast.Atom("count", (ast.Variable("min"), ast.Variable("key"))),)),
    ("import(relation)", (ast.Atom("import", (ast.Variable("relation"),)),)),
    ("true, false", (ast.Truth(True), ast.Truth(False))),
    ("false = x", (ast.Comparison("=", ast.Constant(FALSE), X),)),
    ("not p(x)", (ast.Negation((PX,)),)),
    ("NOT p, !p(x)", (ast.Negation((P,)), ast.Negation((PX,)))),
    ("not (p(x), q(x))", (ast.Negation((PX, QX)),)),
    ("(p(x), q(x))", (PX, QX)),
    ("(p(x) or (q(x) or p), p)", (ast.Disjunction(((PX,), (ast.Disjunction(((QX,), (P,))), P))),)),
    ("((x) or p)", (ast.Disjunction(((ast.Atom("x"),), (P,))),)),
    ("((x) = y or p)", (ast.Disjunction(((ast.Comparison("=", X, Y),), (P,))),)),
    ("(x + 1) * 2 > (3)", (
        ast.Comparison(">", op("*", op("+", X, c(1)), c(2)), c(3)),
    )),
    ("x in [1, -2, 'a'], x in []", (ast.Membership(X, (c(1), c(-2), c("a"))), ast.Membership(X, ()))),
    ("x - 1 -1 = y-1", (
        ast.Comparison("=", op("-", op("-", X, c(1)), c(1)), op("-", Y, c(1))),
    )),
    ("x + y * z ?? 0 ?? 1 <= 2", (
        ast.Comparison("<=", op("+", X, op(
            "*", Y, op("??", op("??", Z, c(0)), c(1)))), c(2)),
    )),
    ("-x ?? 1 % 2 = - 3", (
        ast.Comparison("=", op("%", op("-", c(0), op("??", X, c(1))), c(2)), c(-3)),
    )),
    ("n = count{ x, y : p(x), q(x) }", (
        ast.Comparison("=", ast.Variable("n"), ast.Aggregate("count", (X, Y), (PX, QX))),
    )),
    ("n = sum{ distinct x, distinct : p(x) }", (
        ast.Comparison("=", ast.Variable("n"), ast.Aggregate("sum", (X, ast.Variable("distinct")), (PX,), True)),
    )),
    ("n = sum{ distinct - 1 : p(x) }", (
        ast.Comparison("=", ast.Variable("n"), ast.Aggregate("sum", (op("-", ast.Variable("distinct"), c(1)),), (PX,))),
    )),
    ("p(max{ x : p(x) } + 1)", (ast.Atom("p", (op("+", ast.Aggregate("max", (X,), (PX,)), c(1)),)),)),
    ("old:p(x)", (ast.Atom("old:p", (X,)),)),
    ("q(f(x, builtin:g()))", (ast.Atom("q", (ast.Function("f", (X, ast.Function("builtin:g", ()))),)),)),
    ("f(x) - 1 > 2, f(x) in [y]", (
        ast.Comparison(">", op("-", ast.Function("f", (X,)), c(1)), c(2)),
        ast.Membership(ast.Function("f", (X,)), (Y,)),
    )),
    ("""x = f"a{y}{z}\\n{{b}}", y = f'{x}', z = f\"\"""", (
        ast.Comparison("=", X, ast.Interpolation(("a", Y, Z, "\n{b}"))),
        ast.Comparison("=", Y, ast.Interpolation((X,))),
        ast.Comparison("=", Z, ast.Interpolation(())),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("text", "body"), BODIES)
def test_a_body_parses_to_its_tree(text: str, body: ast.Body) -> None:
    assert parse_query(f":- {text}.") == (body, ())


STATEMENTS: list[tuple[str, tuple[ast.Statement, ...]]] = [
    ("", ()),
    ("// nothing", ()),
    ("p. p;", (ast.Rule(P), ast.Rule(P))),
    ("p(x) :- q(x)", (ast.Rule(PX, (QX,)),)),
    (" p\np", (ast.Rule(P), ast.Rule(P))),
    ("p(x) :-\nq(x)\n, p\r\n@a\np", (ast.Rule(PX, (QX, P)), ast.Rule(P, (), ast.Annotation("a")))),
    ("p.q.\nr", (ast.Rule(ast.Atom("p.q")), ast.Rule(ast.Atom("r")))),
    ('@deny("a", -1, on=["b", null], k=true) p', (
        ast.Rule(P, (), ast.Annotation(
            "deny", (c("a"), c(-1)), (ast.Attribute("on", ("b", None)), ast.Attribute("k", TRUE)))),
    )),
    ('relation r(a, in: string or null, "b:c" : any) key(a, "b:c") "m".', (
        ast.Declaration("r", (
            ast.DeclaredColumn("a", ()), ast.DeclaredColumn("in", ("string", "null")),
            ast.DeclaredColumn("b:c", ("any",))), ("a", "b:c"), "m"),
    )),
    ("relation r()\nkey(x).", (ast.Declaration("r", ()), ast.Rule(ast.Atom("key", (X,))))),
    ("export p, q.\nimport net:ssh", (ast.Export(("p", "q")), ast.Import("net:ssh"))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "statements"), STATEMENTS)
def test_a_text_parses_to_its_statements(text: str, statements: tuple[ast.Statement, ...]) -> None:
    assert parse(text, "f.dl", "net:f") == (ast.Module("net:f", "f.dl", statements), ())


def test_a_query_is_an_atom_or_a_body() -> None:
    assert parse_query("p(x).") == (PX, ())
    assert parse_query(":- p(x)") == ((PX,), ())
    span = Span("<query>", 1, 2, 1, 3)
    advice = "write `:-` before a query of several conditions"
    diagnostic = Diagnostic("syntax", "found `,`, expected the end of the query", span, advice)
    assert parse_query("p, q") == ((), (diagnostic,))


def test_nodes_have_their_places() -> None:
    module, _ = parse("@a(k=1)\np(x, n=-y) :-\n  not q(x).", "f.dl", "f")
    (rule,) = module.statements
    assert isinstance(rule, ast.Rule)
    assert rule.annotation is not None
    (negation,) = rule.body
    assert isinstance(negation, ast.Negation)
    assert rule.annotation.span == Span("f.dl", 1, 1, 1, 8)
    assert rule.annotation.attributes[0].span == Span("f.dl", 1, 4, 1, 7)
    assert rule.span == Span("f.dl", 2, 1, 3, 11)
    assert rule.head.span == Span("f.dl", 2, 1, 2, 11)
    assert rule.head.name_span == Span("f.dl", 2, 1, 2, 2)
    assert rule.head.arguments[0].span == Span("f.dl", 2, 3, 2, 4)
    assert rule.head.named[0].span == Span("f.dl", 2, 6, 2, 10)
    assert rule.head.named[0].term.span == Span("f.dl", 2, 8, 2, 10)
    assert negation.span == Span("f.dl", 3, 3, 3, 11)
    assert negation.body[0].span == Span("f.dl", 3, 7, 3, 11)


REFUSED: list[tuple[str, str, str | None]] = [
    ("p(x) :- q(x) «r»(x).", "missing `,` or `.` before `r`", "write `,` before `r`"),
    ("p(x) :- q(x) «not» r(x).", "missing `,` or `.` before `not`", "write `,` before `not`"),
    ("p(x) «q»(x).", "missing `:-` or `.` before `q`", "write `:-` before `q`"),
    ("p(x) «:=» q(x).", "missing `:-` or `.` before `:=`", "write `:-` after a head, `=` in a body"),
    ("p(x) :- x «==» 1.", "found `==`, expected a comparison", "write `=`"),
    ("p(x) :- (a(x)«;» b(x)).", "found `;`, expected `,`, `or` or `)`", "write `(a or b)`"),
    ("p(x) :- not (a(x)«;» b(x)), c(x).", "found `;`, expected `,`, `or` or `)`", "write `(a or b)`"),
    ("p(x) :- (a(x)«;»\nq(2).", "found `;`, expected `,`, `or` or `)`", "write `)` before `;`"),
    ("p(x) :- a(x) «or» b(x).", "missing `,` or `.` before `or`", "write `(a or b)`"),
    ("p(x) :- (a(x), b(x) «c»(x)).", "found `c`, expected `,`, `or` or `)`", "write `,` before `c`"),
    ("p(x) :- n = count{ x : a(x) «b»(x) }.", "found `b`, expected `,` or `}`", "write `,` before `b`"),
    ('p(x) :- q(x «"a"», y).', "found a string, expected `,` or `)`", 'write `,` before `"a"`'),
    ("p(x) :- q(x) «r»(x) :- s(x).", "missing `,` or `.` before `r`", "write `.` before `r`"),
    ("p(x) :- q(x) «@»deny r(x).", "missing `,` or `.` before `@`", "write `.` before `@`"),
    ("p(x) :- q(x), r(x) «:-» s(x).",
     "found `:-` in a body", "`r` begins a new rule: write `.` before it instead of `,`"),
    (
        "policy «big»(x) :- q(x).",
        "missing `:-` or `.` before `big`",
        'a policy is a rule below a line like @deny("name", "message {x}")',
    ),
    ("p(x) :- q(x), count(x) «>» 3.",
     "`count(...)` is a condition and has no value", "write y = count{ x : ... }, and compare y"),
    ("p(x) :- q(x), x in «{»1}.", "found `{`, expected `[`", "write the choices in brackets, [a, b]"),
    ('@deny «"a"» p(x) :- q(x).',
     "found a string, expected the rule of the annotation", "write @deny(...), and the rule right below it"),
    ('@deny("a")«;» p(x) :- q(x).',
     "found `;`, expected the rule of the annotation", "write @deny(...), and the rule right below it"),
    ("p(x) «<»- q(x).", "missing `:-` or `.` before `<`", "write `:-` between a head and its body"),
    (
        'p(x) :- q(x, y «!=» "").',
        "found `!=`, expected `,` or `)`",
        "write y=x, and after the atom `x != ...`",
    ),
    ("p(x «:-» q(x).", "found `:-`, expected `,` or `)`", "write `)` before `:-`"),
    ("p(x) :- q(x)«)».", "missing `,` or `.` before `)`", "nothing opens it: leave `)` out"),
    ("p(x) :- q(x),«.»", "found `.`, expected a condition", "leave out the `,` before it"),
    ("p(1,«)».", "found `)`, expected a value", "leave out the `,` before it"),
    ("p(x) :- q(x«»", "found the end of the text, expected `,` or `)`", None),
    ("p(x) :- x = 1 «=» 2.", "missing `,` or `.` before `=`", None),
    ("p(x) :- x «not» in [1].", "found `not`, expected a comparison", "write `not (x in [...])`"),
    ("p(x) :- not x «=» 1.", "`not` takes a relation or a body in parentheses, found `=`", "write `not (...)`"),
    ("p(x) :- f(«n=x») > 1.", "a function takes its arguments in order", None),
    ("p(x) :- q(f(x«.»", "found `.`, expected `,` or `)`", "write `)` before `.`"),
    ('p(x) :- x = f"{y}«{x + 1}»".', "`{x + 1}` in an f-text is not the name of a variable",
     "compute it before, `x = ...`, and write {x}"),
    ('p(x) :- x = f"{{«{»".', "`{` in an f-text is not the name of a variable", "write {{ and }} for braces"),
    ('p(x) :- x = f"a«\\q»{x}".', "bad-string: unknown escape `\\q`", "write `\\\\` for a backslash"),
    ('p(x) :- x = «f"{x}.»', "bad-string: the string does not end on its line", 'write " at both ends of the string'),
    ("p(x) :- q(a=1, «x»).", "positional arguments must come before named ones", None),
    ("p(x) :- q(«0»=x).", "found `0`, expected a column", None),
    ("p(x) :- q(«m1.small»).", "`m1.small` is not a variable", 'write a string in quotes, `"m1.small"`'),
    ("p(x) :- q(x, «True»).", "`True` is not a value", "write `true`"),
    ("p(x) :- «_»(x).", "`_` is not a relation", None),
    ("p(x) :- x«-»y > 2.",
     "a minus has blanks on both sides or a number after it", "write blanks around it, or the whole text in quotes"),
    ("p(x) :- x = «in»-use.", "found `in`, expected a value", None),
    ("p(x) :- «x+»(y) > 2.",
     "unsupported: `x+` before a parenthesis is an update relation of Congress", "for arithmetic write `x + (`"),
    ("«execute»[p(x)] :- q(x).", "unsupported: `execute[` is an action of Congress", None),
    ("@deny «delete»(x) :- q(x).", "`delete` is reserved at the start of a statement", None),
    ('@deny("a", k=[«x»]) p(x).', "found `x`, expected a string, a number, null, true or false", None),
    ('@deny(k=1, «"a"») p(x).', "positional arguments must come before named ones", None),
    ("relation r(«a:string»).", "`a:string` is not a column", "write `a: string`"),
    ("relation r(«a.b»: string).", "found `a.b`, expected a column", 'write it in quotes, `"a.b"`'),
    ("p(x) :- q(«a.b»=x).", "found `a.b`, expected a column",
     "a list or a map has a relation of its own, such as os:nova:server.networks(port=x)"),
    ("relation r«»", "found the end of the text, expected `(`", None),
    ("export p «q».", "missing `,` or `.` before `q`", "write `,` before `q`"),
    ("p(x) :- x = count{«s:p»(s)}.", "`s:p` is not a variable", "write a variable before it, `x : relation(x)`"),
    ("p(x) :- x = count{ s«:» p(s) }.", "the colon of an aggregate has blanks on both sides", "write ` : `"),
    ("p(x) :- x = «coutn»{ s : p(s) }.", "`coutn` is not an aggregate", "did you mean `count`?"),
    ("p(x) :- x = count{ s : p(s)«.»", "found `.`, expected `,` or `}`", "write `}` before `.`"),
    ("p(x) :- x = «10.0.0.1».", "bad-number: `10.0.0.1` is not a number", 'write it in quotes, `"10.0.0.1"`'),
    ("p(x) :- x > «1_000».", "bad-number: `1_000` is not a number", "write `1000`"),
    ("p(x) :- x > «0x10».", "bad-number: `0x10` is not a number", "write `16`"),
    ("p(x) :- x > «10GB».", "bad-number: `10GB` is not a number",
     'write the number without its unit, `10`, or a text in quotes, `"10GB"`'),
    ("relation r(a: string «|» null).", "found `|`, expected `or`", "write `or`"),
    ('p(«"abc).»', "bad-string: the string does not end on its line", 'write " at both ends of the string'),
    ("p(«“»a”).", "unexpected character `“`", "write a straight quote"),
    ("p(«é»).", "unexpected character `é`", None),
    ("p(1). «/*» foo", "the comment does not end", "close it with `*/`"),
]  # fmt: skip
"""A line with the refused part marked; what is said, after the code if that is not `syntax`; the suggestion."""


@pytest.mark.parametrize(("marked", "expected", "suggestion"), REFUSED)
def test_a_line_is_refused_with_its_place(marked: str, expected: str, suggestion: str | None) -> None:
    before, _, rest = marked.partition("«")
    refused, _, after = rest.partition("»")
    code, _, message = expected.rpartition(": ")
    span = Span("f.dl", 1, len(before) + 1, 1, len(before + refused) + 1)
    _, diagnostics = parse(before + refused + after, "f.dl", "f")
    assert diagnostics == (Diagnostic(code or "syntax", message, span, suggestion),)


def test_reading_goes_on_after_the_terminator_or_at_column_1() -> None:
    text = "p(x y). p(1).\np(2) :- q(,\n  r(3).\np(4 :- q(4),\nr(5)\n@a(\np(6) r(7)\n\nr(8).. r(9)"
    module, diagnostics = parse(text, "f.dl", "f")
    assert print_module(module) == "p(1).\nr(5).\nr(8).\nr(9).\n"
    places = [
        diagnostic.span and (diagnostic.span.line, diagnostic.span.column, diagnostic.message)
        for diagnostic in diagnostics
    ]
    assert places == [
        (1, 5, "found `y`, expected `,` or `)`"),
        (2, 11, "found `,`, expected a value"),
        (4, 5, "found `:-`, expected `,` or `)`"),
        (7, 1, "found `p`, expected a string, a number, null, true or false"),
        (7, 6, "missing `:-` or `.` before `r`"),
        (9, 6, "found `.`, expected a statement"),
    ]


def test_a_line_break_without_a_token_at_column_1_ends_nothing() -> None:
    text = "p(x) :- q(x)\n r(x)."
    (diagnostic,) = parse(text, "f.dl", "f")[1]
    assert render(diagnostic, {"f.dl": text}).splitlines() == [
        "f.dl:2:2: error[syntax] missing `,` or `.` before `r`",
        "  2 |  r(x).",
        "    |  ^",
        "  help  write `,` before `r`",
    ]


DEEP = [
    ("p(" + "(" * 10_000, "nested deeper than 25", 28),
    ("p :- " + "(" * 10_000, "nested deeper than 25", 31),
    ("p :- " + "not (" * 10_000, "nested deeper than 25", 135),
    ("p :- x = " + "count{ x : y = " * 10_000, "nested deeper than 25", 390),
    ("p(1" + " + 1" * 10_000, "a term of more than 100 operators", 405),
    ("p(" + "- " * 10_000, "nested deeper than 25", 53),
    ("p(" + "max{ x : 1 + 1 + 1 + 1 + 1 + 1 = " * 25, "a term of more than 100 operators", 674),
]


@pytest.mark.parametrize(("text", "message", "column"), DEEP)
def test_what_is_too_deep_is_refused(text: str, message: str, column: int) -> None:
    span = Span("f.dl", 1, column, 1, column + 1)
    assert parse(text, "f.dl", "f") == (ast.Module("f", "f.dl", ()), (Diagnostic("too-large", message, span),))


def test_what_is_nearly_too_deep_prints_and_parses_again() -> None:
    text = "p(" + "max{ x : q(1 * " * 24 + "-x + 1" + ") }" * 24 + ")."
    module, diagnostics = parse(text, "f.dl", "f")
    assert diagnostics == ()
    assert parse(print_module(module), "f.dl", "f") == (module, ())


def test_operators_of_different_terms_do_not_add_up() -> None:
    text = "p(" + "1 + 2, " * 200 + "3)."
    assert parse(text, "f.dl", "f")[1] == ()
