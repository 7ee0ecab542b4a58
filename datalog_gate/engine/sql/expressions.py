"""SQL for values: constants, comparisons and builtins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from sqlglot import exp

from datalog_gate.analysis import program as ir
from datalog_gate.base.records import dataclass, replace
from datalog_gate.engine.builtins import CHARACTERS
from datalog_gate.engine.sql.tables import LIMIT, Representation, encode_alone, identifier
from datalog_gate.schema import signatures

TAGGED, TEXT, NUMBER, BOOLEAN = (
    Representation.TAGGED,
    Representation.TEXT,
    Representation.NUMBER,
    Representation.BOOLEAN,
)
_ORDERS: dict[str, type[exp.Binary]] = {"<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE}
text_literal, number_literal = exp.Literal.string, exp.Literal.number
ORDER_TESTS = {"lt": "<", "lteq": "<=", "gt": ">", "gteq": ">="}


class UnsupportedError(Exception):
    """A rule that has no query. Relations that depend on it are left to another engine."""


@dataclass(frozen=True, slots=True)
class SqlExpression:
    """An expression; `null` says that it may be NULL without a failure."""

    expression: exp.Expr
    representation: Representation
    null: bool = False
    constant: bool = False

    @property
    def is_null(self) -> bool:
        """Whether it is the constant null."""
        return isinstance(self.expression, exp.Null)


def converted(value: SqlExpression, representation: Representation) -> SqlExpression:
    """The value in another representation; NULL if that is impossible."""
    own, expression = value.representation, value.expression.copy()
    if own is representation or value.is_null:
        return replace(value, representation=representation)
    if representation is TAGGED:
        match own:
            case Representation.NUMBER:
                text: exp.Expr = cast_to(cast_to(expression, NUMBER), TEXT)
                for character in ("0", "."):
                    text = exp.Trim(this=text, expression=text_literal(character), position="TRAILING")
                expression = text
            case Representation.BOOLEAN:
                expression = case_when(
                    (expression, text_literal("1")), (exp.Not(this=paren(expression.copy())), text_literal("0"))
                )
        return replace(
            value, expression=exp.DPipe(this=text_literal(own.value), expression=expression), representation=TAGGED
        )
    if own is not TAGGED:
        return SqlExpression(cast_to(exp.null(), representation), representation, null=True)
    rest: exp.Expr = exp.Substring(this=expression, start=number_literal(2))
    if representation is NUMBER:
        rest = exp.TryCast(this=rest, to=NUMBER.type)
    elif representation is BOOLEAN:
        rest = rest.eq(text_literal("1"))
    return SqlExpression(
        case_when((letter_of(expression).eq(text_literal(representation.value)), rest)), representation, null=True
    )


def needed(value: SqlExpression, representation: Representation, failing: list[exp.Expr]) -> exp.Expr:
    """The value as an input of this representation. Other values, including null, fail."""
    narrowed = converted(value, representation)
    if narrowed.null or narrowed.is_null:
        failing.append(is_null(narrowed.expression))
    return paren(narrowed.expression)


def collated(dialect: str, expression: exp.Expr, representation: Representation) -> exp.Expr:
    """The expression for ordering: texts by code points."""
    expression = paren(expression.copy())
    if representation is not NUMBER and dialect == "postgres":
        return exp.Collate(this=expression, expression=identifier("C"))
    return expression


def shown(dialect: str, value: SqlExpression) -> tuple[exp.Expr, list[exp.Expr]]:
    """The value as shown, and an expression to order values by."""
    if value.representation in (TEXT, Representation.RESOURCE):
        return value.expression, [collated(dialect, value.expression, TEXT)]
    tagged = converted(value, TAGGED)
    letter = letter_of(tagged.expression)
    truth = tagged.expression.copy().eq(text_literal("B1"))
    rest = exp.Substring(this=tagged.expression.copy(), start=number_literal(2))
    text = case_when(
        (letter.eq(text_literal("B")), case_when((truth, text_literal("true")), default=text_literal("false"))),
        default=rest,
    )
    kinds = case_when(
        *((letter.copy().eq(text_literal(kind)), number_literal(at)) for at, kind in enumerate("BNS")),
        default=number_literal(3),
    )
    number = converted(tagged, NUMBER).expression
    return text, [kinds, number, collated(dialect, tagged.expression, TEXT)]


def equal(left: SqlExpression, right: SqlExpression) -> exp.Expr:
    """Whether two values are equal. Null equals only a constant null."""
    for value, other in ((left, right), (right, left)):
        if value.is_null:
            return is_null(other.expression)
    if left.representation is not right.representation:
        if TAGGED not in (left.representation, right.representation):
            return exp.false()
        left, right = (converted(value, TAGGED) for value in (left, right))
    return exp.EQ(this=paren(left.expression.copy()), expression=paren(right.expression.copy()))


def differ(left: SqlExpression, right: SqlExpression) -> exp.Expr:
    """The exact complement of `equal`."""
    for value, other in ((left, right), (right, left)):
        if value.is_null:
            return not_null(other.expression)
    return exp.Not(this=coalesce(equal(left, right), exp.false()))


def ordered(dialect: str, order: str, left: SqlExpression, right: SqlExpression) -> tuple[exp.Expr, list[exp.Expr]]:
    """Whether two numbers or two texts are in that order, and when this fails."""
    operator = _ORDERS[order]
    failing: list[exp.Expr] = []
    for representation in (NUMBER, TEXT):
        if representation in (left.representation, right.representation):
            sides = [needed(value, representation, failing) for value in (left, right)]
            first, second = (collated(dialect, side, representation) for side in sides)
            return operator(this=first, expression=second), failing
    if left.representation is not TAGGED or right.representation is not TAGGED:
        return cast_to(exp.null(), BOOLEAN), [exp.true()]
    numbers, texts = (
        exp.and_(*(letter_of(value.expression).eq(text_literal(letter)) for value in (left, right)), copy=False)
        for letter in "NS"
    )
    first, second = (converted(value, NUMBER).expression for value in (left, right))
    lower, upper = (collated(dialect, value.expression, TEXT) for value in (left, right))
    condition = case_when(
        (numbers, operator(this=first, expression=second)),
        (
            texts,
            operator(this=lower, expression=upper),
        ),
    )
    return condition, [is_null(condition)]


def compute(dialect: str, name: str, inputs: Sequence[SqlExpression], failing: list[exp.Expr]) -> SqlExpression:
    """The result of a builtin that databases compute exactly as the engine does."""
    if name in ORDER_TESTS:
        condition, wrong = ordered(dialect, ORDER_TESTS[name], *inputs)
        failing += wrong
        return SqlExpression(condition, BOOLEAN)
    match name:
        case "equal":
            left, right = inputs
            either_null = left.is_null or right.is_null
            return SqlExpression(exp.false() if either_null else coalesce(equal(left, right), exp.false()), BOOLEAN)
        case "??":
            return _with_default(*inputs)
        case "+" | "-":
            left, right = (needed(value, NUMBER, failing) for value in inputs)  # type: ignore[assignment]
            operator = exp.Add if name == "+" else exp.Sub
            number = in_range(cast_to(operator(this=left, expression=right), NUMBER))
            failing.append(is_null(number))
            return SqlExpression(number, NUMBER)
        case signatures.INTERPOLATE:
            joined = exp.DPipe(this=as_text(inputs[0], failing), expression=as_text(inputs[1], failing))
            failing.append(exp.GT(this=exp.Length(this=joined.copy()), expression=number_literal(CHARACTERS)))
            return SqlExpression(joined, TEXT)
    return _compute_text(name, [needed(value, TEXT, failing) for value in inputs], failing)


def _with_default(value: SqlExpression, default: SqlExpression) -> SqlExpression:
    if value.is_null:
        return default
    if not value.null:
        return value
    if not default.is_null and value.representation is not default.representation:
        value, default = (converted(side, TAGGED) for side in (value, default))
    if default.is_null:
        return value
    merged = coalesce(value.expression.copy(), default.expression.copy())
    return SqlExpression(merged, value.representation, default.null)


def _compute_text(name: str, texts: Sequence[exp.Expr], failing: list[exp.Expr]) -> SqlExpression:
    """The result of a builtin over texts."""
    first, last = texts[0], texts[-1]
    match name:
        case "starts_with":
            return SqlExpression(exp.StartsWith(this=first, expression=last), BOOLEAN)
        case "ends_with":
            end = exp.Right(this=first, expression=exp.Length(this=last.copy()))
            return SqlExpression(end.eq(last), BOOLEAN)
        case "contains":
            place = exp.GT(this=exp.StrPosition(this=first, substr=last), expression=number_literal(0))
            return SqlExpression(exp.or_(last.copy().eq(text_literal("")), place, copy=False), BOOLEAN)
        case "len":
            return SqlExpression(cast_to(exp.Length(this=first), NUMBER), NUMBER)
        case "concat":
            joined = exp.DPipe(this=first, expression=last)
            failing.append(exp.GT(this=exp.Length(this=joined.copy()), expression=number_literal(CHARACTERS)))
            return SqlExpression(joined, TEXT)
    raise AssertionError(name)


def as_text(value: SqlExpression, failing: list[exp.Expr]) -> exp.Expr:
    """The text of a text or a number. Other values, including null, fail."""
    if value.representation is TEXT and not value.null:
        return paren(value.expression.copy())
    tagged = converted(value, TAGGED).expression
    failing.append(
        exp.Not(
            this=coalesce(
                exp.In(this=letter_of(tagged), expressions=[text_literal("N"), text_literal("S")]), exp.false()
            )
        )
    )
    return exp.Substring(this=tagged.copy(), start=number_literal(2))


def compared(term: ir.Operand) -> SqlExpression | None:
    """A number that is too large for any column, replaced by the nearest limit, with which it compares alike."""
    value = term.value if isinstance(term, ir.Const) else None
    if isinstance(value, int | Decimal) and not -LIMIT < value < LIMIT:
        limit = cast_to(number_literal(LIMIT), NUMBER)
        return SqlExpression(limit if value > 0 else exp.Neg(this=limit), NUMBER, constant=True)
    return None


def constant(term: ir.Const) -> SqlExpression:
    """A constant. Errors: UnsupportedError if no table holds it."""
    if term.value is None:
        return SqlExpression(exp.Null(), TAGGED, null=True, constant=True)
    try:
        representation, value = encode_alone(term.value)
    except ValueError as error:
        raise UnsupportedError(str(error)) from None
    match value:
        case bool():
            expression: exp.Expr = exp.true() if value else exp.false()
        case int() | Decimal():
            digits = exp.Literal.number(format(Decimal(value), "f").removeprefix("-"))  # exact, unlike abs and float
            expression = cast_to(exp.Neg(this=digits) if value < 0 else digits, representation)
        case _:
            expression = text_literal(str(value))
    return SqlExpression(expression, representation, constant=True)


def named(expression: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=expression, alias=identifier(name))


def column_of(name: str, table: str) -> exp.Column:
    return exp.Column(this=identifier(name), table=identifier(table))


def table_as(name: str, alias: str) -> exp.Expr:
    return exp.Table(this=identifier(name), alias=exp.TableAlias(this=identifier(alias)))


def place_of(name: str) -> exp.Table:
    return exp.Table(this=identifier(name))


def subquery(query: exp.Select, alias: str) -> exp.Expr:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=identifier(alias)))


def copies(expressions: Iterable[exp.Expr]) -> list[exp.Expr]:
    return [expression.copy() for expression in expressions]


def paren(expression: exp.Expr) -> exp.Expr:
    return expression if isinstance(expression, exp.Column | exp.Literal | exp.Paren) else exp.Paren(this=expression)


def cast_to(expression: exp.Expr, representation: Representation) -> exp.Expr:
    return exp.Cast(this=expression, to=representation.type)


def coalesce(expression: exp.Expr, default: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=expression.copy(), expressions=[default])


def is_null(expression: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Is(this=paren(expression.copy()), expression=exp.Null()))


def not_null(expression: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Not(this=is_null(expression)))


def letter_of(tagged: exp.Expr) -> exp.Expr:
    """The letter of a tagged text that marks its kind."""
    return exp.Substring(this=tagged.copy(), start=number_literal(1), length=number_literal(1))


def case_when(*cases: tuple[exp.Expr, exp.Expr], default: exp.Expr | None = None) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=value) for condition, value in cases], default=default)


def in_range(number: exp.Expr) -> exp.Expr:
    """The number; NULL if it does not fit a column."""
    least = exp.LT(this=exp.Abs(this=number.copy()), expression=cast_to(number_literal(LIMIT), NUMBER))
    return case_when((least, number))


def all_of(conditions: Iterable[exp.Expr]) -> exp.Expr:
    return exp.and_(*map(paren, copies(conditions)), copy=False)


def any_of(conditions: Iterable[exp.Expr]) -> exp.Expr:
    return exp.Paren(this=exp.or_(*map(paren, copies(dict.fromkeys(conditions))), copy=False))
