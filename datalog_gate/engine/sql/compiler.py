"""Compiles the rules of a checked program to queries.

A body is one SELECT: matches are tables that its variables join, and each negation and aggregate is a subquery by the
values that it shares with the outside, joined as a whole, so that no subquery is correlated::

    p(x) :- q(x, y), not r(y, _), n = count{ z : s(x, z) }, n > 3.
    SELECT DISTINCT a.x FROM q AS a
    LEFT JOIN (SELECT DISTINCT y, TRUE AS present FROM r) AS b ON b.y = a.y
    LEFT JOIN (SELECT x, COUNT(*) AS v FROM (SELECT DISTINCT x, z FROM s) GROUP BY x) AS c ON c.x = a.x
    WHERE b.present IS NULL AND COALESCE(c.v, 0) > 3

What may fail is NULL where it does, and a second query gives the roots in which something may: more than there are, but
none is missing. A builtin without exact SQL is a table, which the evaluation fills by the builtin itself: see `Demand`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from decimal import Decimal

from sqlglot import exp

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lifting import Lifted
from datalog_gate.analysis.safety import ScopedLiteral, scope_body, scope_inner
from datalog_gate.analysis.slices import resting
from datalog_gate.analysis.strata import reads
from datalog_gate.base.values import Kind
from datalog_gate.engine.builtins import CHARACTERS
from datalog_gate.engine.sql.database import Statement
from datalog_gate.engine.sql.tables import (
    LIMIT,
    NOTHING,
    RelationTable,
    Representation,
    SqlColumn,
    encode_alone,
    identifier,
    table_name,
)
from datalog_gate.schema.declaration import RelationRef
from datalog_gate.schema.signatures import CALLS, KIND_TESTS

TAGGED, TEXT, NUMBER, BOOLEAN = (
    Representation.TAGGED,
    Representation.TEXT,
    Representation.NUMBER,
    Representation.BOOLEAN,
)
NEW = "new"
"""The role of the table that holds the rows of the last round of a recursion."""
NEXT = "next"
"""The role of the table in which a round collects them."""
FAILED = "failed"
RESULT = "result"
_ORDERS: dict[str, type[exp.Binary]] = {"<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE}
_ORDER_TESTS = {"lt": "<", "lteq": "<=", "gt": ">", "gteq": ">="}
_SAME = {"plus": "+", "minus": "-"}


class UnsupportedError(Exception):
    """A rule that has no query: what rests on it is left to another engine."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The inputs for which a query needs the results of a builtin, as tagged texts; the empty text is null."""

    builtin: str
    query: Statement


@dataclass(frozen=True, slots=True)
class RuleQuery:
    """The queries of a rule, or of its variant in which one match reads the new rows of a round."""

    relation: RelationRef
    needs: frozenset[RelationRef]
    """The relations that must have rows, or else the rule has none."""
    new_relation: RelationRef | None
    """The relation of which the new rows are read."""
    demands: tuple[Demand, ...]
    insert: Statement
    """Adds the rows that are not there yet."""
    errors: Statement | None
    """Gives the roots in which the rule may meet an error, NULL if it is not lifted. None if it never does."""


@dataclass(frozen=True, slots=True)
class StratumQueries:
    """The queries of a stratum. Those of `rounds` are run until no row is new."""

    relations: tuple[RelationRef, ...]
    once: tuple[RuleQuery, ...]
    rounds: tuple[RuleQuery, ...]
    recursive: tuple[RuleQuery, ...]
    """The recursive rules over all rows: what they may fail in is looked for at the end."""


@dataclass(frozen=True, slots=True)
class SqlProgram:
    """A program as queries for one dialect."""

    lifted: Lifted
    program: ir.CheckedProgram
    """The part of the lifted program that the wanted relations rest on."""
    wanted: frozenset[RelationRef]
    dialect: str
    tables: dict[RelationRef, RelationTable]
    strata: tuple[StratumQueries, ...]
    unsupported: dict[RelationRef, str]
    """The relations with a rule that has no query, and why."""

    def readers(self, relation: RelationRef, column: int | None) -> frozenset[RelationRef]:
        """The relations with a rule that reads this column of an input, or with None the input at all."""
        return frozenset(
            rule.relation
            for rule in self.program.rules
            for _, match in reads(rule.body)
            if match.relation == relation and (column is None or column in match.columns)
        )

    def dependants(self, relations: Set[RelationRef]) -> frozenset[RelationRef]:
        """The wanted relations that rest on one of these, or are among them."""
        reached = set(relations)
        for stratum in self.program.strata:
            if any(match.relation in reached for rule in stratum.rules for _, match in reads(rule.body)):
                reached.update(stratum.relations)
        return self.wanted & reached


_COMPILED = ir.ProgramCache[SqlProgram]()


def compile_program(lifted: Lifted, wanted: frozenset[RelationRef], dialect: str) -> SqlProgram:
    """Compile what the wanted relations rest on, for `duckdb`, `postgres` or `spark`. The same arguments have the same
    result, which is kept as long as the program."""
    return _COMPILED.get(lifted.program, (wanted, dialect), lambda: _compile(lifted, wanted, dialect))


def _compile(lifted: Lifted, wanted: frozenset[RelationRef], dialect: str) -> SqlProgram:
    program = resting(lifted.program, wanted)
    used = {*program.inputs, *(name for stratum in program.strata for name in stratum.relations)}
    tables = {name: RelationTable.of(name, program.relations[name]) for name in sorted(used, key=str)}
    compiler = _Compiler(lifted, tables, dialect)
    strata = tuple([compiler.stratum(stratum) for stratum in program.strata])
    return SqlProgram(lifted, program, wanted, dialect, tables, strata, compiler.unsupported)


def builtin_table(builtin: str) -> RelationTable:
    """The table of a builtin: its inputs as tagged texts, the result, and whether it failed."""
    call = CALLS[builtin]
    inputs = [SqlColumn(f"a{at}", TEXT) for at in range(len(call.inputs))]
    result = Representation.of(call.outputs[0].kinds) if call.outputs else BOOLEAN
    columns = (*inputs, SqlColumn(RESULT, result), SqlColumn(FAILED, BOOLEAN))
    return RelationTable(f"builtin {builtin}", columns)


@dataclass(slots=True)
class _Compiler:
    lifted: Lifted
    tables: dict[RelationRef, RelationTable]
    dialect: str
    unsupported: dict[RelationRef, str] = field(default_factory=dict)
    demands: list[Demand] = field(default_factory=list)
    """The demands of the rule that is being compiled."""
    begun: set[RelationRef] = field(default_factory=set)
    """The relations of which a rule is compiled."""
    aliases: int = 0

    def stratum(self, stratum: ir.Stratum) -> StratumQueries:
        own = frozenset(stratum.relations if stratum.recursive else ())
        once: list[RuleQuery] = []
        rounds: list[RuleQuery] = []
        recursive: list[RuleQuery] = []
        for rule in stratum.rules:
            places = [at for at, item in enumerate(rule.body) if isinstance(item, ir.Match) and item.relation in own]
            try:
                (recursive if places else once).append(self.rule(rule, own))
                rounds += [self.rule(rule, own, at) for at in places]
            except UnsupportedError as error:
                self.unsupported[rule.relation] = str(error)
        return StratumQueries(stratum.relations, tuple(once), tuple(rounds), tuple(recursive))

    def rule(self, rule: ir.CheckedRule, own: Set[RelationRef], new_at: int | None = None) -> RuleQuery:
        """The queries of a rule of the recursive relations `own`. The match at `new_at` reads new rows."""
        self.demands = []
        body = [*rule.body]
        new_match = rule.body[new_at] if new_at is not None else None
        if isinstance(new_match, ir.Match):
            body[rule.body.index(new_match)] = replace(new_match, new=True)
        block = _Block(self)
        block.take(scope_body(body, [term for term in rule.arguments if isinstance(term, ir.Var)]))
        table = self.tables[rule.relation]
        projections: list[exp.Expr] = []
        for term, column in zip(rule.arguments, table.columns, strict=True):
            value = block.converted(block.value(term), column.representation)
            projections.append(_named(_cast(value.expression, column.representation), column.name))
        rows = block.select(projections or [_named(exp.true(), NOTHING)], block.conditions)
        errors = None
        if block.failures:
            lifted = rule.relation in self.lifted.relations
            root = block.value(rule.arguments[0]).expression.copy() if lifted else _cast(exp.null(), TEXT)
            errors = block.select([_named(root, "root")], [*block.hard, _any(block.failures)])
        matched = [item for item in rule.body if isinstance(item, ir.Match)]
        return RuleQuery(
            relation=rule.relation,
            needs=frozenset(match.relation for match in matched) - own,
            new_relation=new_match.relation if isinstance(new_match, ir.Match) else None,
            demands=tuple(self.demands),
            insert=self.prepare(self.insertion(rows, table, is_variant=new_at is not None)),
            errors=self.prepare(errors) if errors else None,
        )

    def insertion(self, rows: exp.Select, table: RelationTable, is_variant: bool) -> exp.Expr:
        """The statement that adds rows to a table, but those that are there; those of a variant to the next round's.
        The first rule of a relation finds it empty."""
        target = table_name(table.relation, NEXT) if is_variant else table.name
        is_first = table.relation not in self.begun
        self.begun.add(table.relation)
        query: exp.Query = rows
        for place in () if is_first else dict.fromkeys((table.name, target)):
            stored = exp.select(*map(exp.column, map(identifier, table.names))).from_(_place(place))
            query = exp.Except(this=query, expression=stored, distinct=True)
        schema = exp.Schema(this=_place(target), expressions=[*map(identifier, table.names)])
        return exp.Insert(this=schema, expression=query)

    def prepare(self, tree: exp.Expr) -> Statement:
        return Statement(tree.sql(self.dialect), tree)

    def alias(self) -> str:
        self.aliases += 1
        return f"t{self.aliases}"


@dataclass(frozen=True, slots=True)
class _Value:
    """An expression; `null` if it may be NULL though nothing failed."""

    expression: exp.Expr
    representation: Representation
    null: bool = False
    constant: bool = False

    @property
    def is_null(self) -> bool:
        """Whether it is the constant null."""
        return isinstance(self.expression, exp.Null)


@dataclass(slots=True)
class _Block:
    """A conjunction as a SELECT that refers to nothing around it."""

    compiler: _Compiler
    values: dict[ir.Var, _Value] = field(default_factory=dict)
    tables: list[exp.Expr] = field(default_factory=list)
    joins: list[tuple[exp.Expr, list[exp.Expr]]] = field(default_factory=list)
    """Subqueries and tables that are joined to those before on conditions, or without a row."""
    conditions: list[exp.Expr] = field(default_factory=list)
    """What is TRUE of an assignment that makes the body true."""
    hard: list[exp.Expr] = field(default_factory=list)
    """What is TRUE too of one in error."""
    failures: list[exp.Expr] = field(default_factory=list)
    """One of these is TRUE of an assignment in error."""
    shaky: dict[ir.Var, list[exp.Expr]] = field(default_factory=dict)
    """The variables whose value is wrong where something failed, with what that is."""

    def take(self, body: Iterable[ScopedLiteral]) -> None:
        """Add the literals: first the matches, and what needs a table of its own last."""
        pending = sorted(body, key=lambda item: not isinstance(item.literal, ir.Match))
        while pending:
            ready = [item for item in pending if item.ready(self.values)]
            item = min(ready, key=lambda item: _rank(item.literal))
            pending = [other for other in pending if other is not item]
            match item.literal:
                case ir.Match() as literal:
                    self.match(literal)
                case ir.Compare() as literal:
                    self.compare(literal)
                case ir.Call() as literal:
                    self.call(literal)
                case ir.Without() as literal:
                    self.without(literal, item.needs)
                case ir.Fold() as literal:
                    self.fold(literal, item.needs)

    def select(self, projections: Sequence[exp.Expr], conditions: Iterable[exp.Expr]) -> exp.Select:
        """The distinct values of the projections where the conditions are true."""
        query = exp.select(*projections, copy=False).distinct(copy=False)
        first, *others = self.tables or [_subquery(exp.select(_named(exp.true(), NOTHING)), self.compiler.alias())]
        query = query.from_(first.copy(), copy=False)
        for table in others:
            query = query.join(table.copy(), join_type="cross", copy=False)
        for source, on in self.joins:
            query = query.join(source.copy(), on=_all(on) if on else exp.true(), join_type="left", copy=False)
        if where := [condition.copy() for condition in conditions]:
            query = query.where(*where, copy=False)
        return query

    def value(self, term: ir.Operand) -> _Value:
        return _constant(term) if isinstance(term, ir.Const) else self.values[term]

    def test(self, condition: exp.Expr, *terms: ir.Pattern, failing: Sequence[exp.Expr] = ()) -> None:
        """Add a condition on these terms, and when it fails."""
        self.conditions.append(condition)
        self.failures += failing
        reasons = [*failing, *self.reasons(terms)]
        self.hard.append(exp.or_(condition.copy(), _any(reasons), copy=False) if reasons else condition)

    def reasons(self, terms: Iterable[ir.Pattern]) -> list[exp.Expr]:
        """What may have failed so that a value of these terms is wrong."""
        return [reason for term in terms if isinstance(term, ir.Var) for reason in self.shaky.get(term, ())]

    def bind(self, target: ir.Pattern, value: _Value, *terms: ir.Pattern, failing: Sequence[exp.Expr] = ()) -> None:
        """Give a variable the value, or compare what it has, or a constant, with it."""
        if isinstance(target, ir.Const) or target in self.values:
            self.test(self.equal(value, self.value(target)), target, *terms, failing=failing)
            return
        if failing:
            self.conditions.append(exp.Not(this=_coalesce(_any(failing), exp.false())))
            self.failures += failing
        if target is not None:
            self.values[target] = value
            if reasons := [*failing, *self.reasons(terms)]:
                self.shaky[target] = reasons

    # Literals.

    def match(self, literal: ir.Match) -> None:
        table = self.compiler.tables[literal.relation]
        alias = self.compiler.alias()
        name = table_name(literal.relation, NEW) if literal.new else table.name
        self.tables.append(_table(name, alias))
        kinds = self.compiler.lifted.program.relations[literal.relation].columns
        for at, term in literal.column_terms:
            column = table.columns[at]
            value = _Value(_column(column.name, alias), column.representation, bool(kinds[at].kinds & Kind.NULL))
            if isinstance(term, ir.Const) or term in self.values:
                self.test(self.equal(value, self.value(term)), term)
                if isinstance(term, ir.Var):
                    self.values[term] = replace(self.values[term], null=False)
            else:
                self.values[term] = value

    def compare(self, literal: ir.Compare) -> None:
        sides = (literal.left, literal.right)
        if literal.comparator == "=":
            for side, other in (sides, sides[::-1]):
                if isinstance(side, ir.Var) and side not in self.values:
                    self.bind(side, self.value(other), other)
                    return
        left, right = (_compared(side) or self.value(side) for side in sides)
        match literal.comparator:
            case "=":
                self.test(self.equal(left, right), *sides)
            case "!=":
                self.test(self.differ(left, right), *sides)
                for side, other in (sides, sides[::-1]):
                    if isinstance(side, ir.Var) and other == ir.Const(None):
                        self.values[side] = replace(self.values[side], null=False)
            case order:
                condition, failing = self.ordered(order, left, right)
                self.test(condition, *sides, failing=failing)

    def call(self, literal: ir.Call) -> None:
        name = _SAME.get(literal.builtin, literal.builtin)
        inputs = [self.value(term) for term in literal.inputs]
        failing: list[exp.Expr] = []
        if name in KIND_TESTS:
            self.test_kind(name, inputs[0], literal.inputs[0])
            return
        if name in _DIRECT:
            value = self.compute(name, inputs, failing)
        else:
            value = self.look_up(literal.builtin, inputs, failing)
        if literal.outputs:
            self.bind(literal.outputs[0], value, *literal.inputs, failing=failing)
        else:
            self.test(value.expression, *literal.inputs, failing=failing)

    def test_kind(self, name: str, value: _Value, term: ir.Operand) -> None:
        """Test the kind of a value. A variable is from there on a value of that kind."""
        representation = Representation.of(KIND_TESTS[name])
        converted = self.converted(value, representation)
        self.test(_not_null(converted.expression), term)
        if isinstance(term, ir.Var):
            self.values[term] = replace(converted, null=False)

    def without(self, literal: ir.Without, needs: frozenset[ir.Var]) -> None:
        inner, keys, on = self.inner(literal, needs)
        alias = self.compiler.alias()
        present = _named(exp.true(), "present")
        self.joins.append((_subquery(inner.select([*keys, present], inner.conditions), alias), on(alias)))
        absent = _is_null(_column("present", alias))
        self.conditions.append(absent)
        reasons = self.reasons(needs)
        self.hard.append(exp.or_(absent.copy(), _any(reasons), copy=False) if reasons else absent)
        if inner.failures:
            query = inner.select([*_copies(keys), present.copy()], [*inner.hard, _any(inner.failures)])
            alias = self.compiler.alias()
            self.joins.append((_subquery(query, alias), on(alias)))
            self.failures.append(exp.and_(absent.copy(), _not_null(_column("present", alias)), copy=False))

    def fold(self, literal: ir.Fold, needs: frozenset[ir.Var]) -> None:
        if literal.function == "tuples":
            raise UnsupportedError("an aggregate over what is not known")
        inner, keys, on = self.inner(literal, needs)
        first, *others = map(inner.value, literal.terms)
        terms = [_named(value.expression.copy(), f"v{at}") for at, value in enumerate((first, *others))]
        tuples = inner.select(
            [*_copies(keys), *terms], [*inner.conditions, *([_not_null(first.expression)] if first.null else [])]
        )
        value, failing = self.aggregate(literal.function, first, _subquery(tuples, "tuples"), keys, on)
        if inner.failures:
            query = inner.select([*_copies(keys), _named(exp.true(), "present")], [*inner.hard, _any(inner.failures)])
            alias = self.compiler.alias()
            self.joins.append((_subquery(query, alias), on(alias)))
            failing.append(_not_null(_column("present", alias)))
        if value.null:  # of nothing there is no value, which makes the literal false
            self.test(_not_null(value.expression), *needs, failing=failing)
            value = replace(value, null=False)
        self.bind(literal.target, value, *needs, failing=failing)

    def aggregate(
        self, function: str, first: _Value, tuples: exp.Expr, keys: Sequence[exp.Alias], on: _On
    ) -> tuple[_Value, list[exp.Expr]]:
        """Join the aggregate of tuples by their keys; its value, which may be NULL of none, and when it fails."""
        v0, names = exp.column("v0"), [identifier(key.alias) for key in keys]
        failing: list[exp.Expr] = []
        alias = self.compiler.alias()

        def join(**columns: exp.Expr) -> list[exp.Expr]:
            projections = [_named(column, name) for name, column in columns.items()]
            query = exp.select(*[exp.column(name) for name in names], *projections).from_(tuples)
            query = query.group_by(*[exp.column(name) for name in names]) if names else query
            self.joins.append((_subquery(query, alias), on(alias)))
            return [_column(name, alias) for name in columns]

        match function:
            case "count":
                (count,) = join(v=exp.Count(this=exp.Star()))
                return _Value(_cast(_coalesce(count, _number(0)), NUMBER), NUMBER), []
            case "sum" | "avg":
                term = self.converted(replace(first, expression=v0), NUMBER).expression
                bad = exp.Max(this=_case((_is_null(term), _number(1)), default=_number(0)))
                total, count, wrong = join(v=exp.Sum(this=term), n=exp.Count(this=exp.Star()), bad=bad)
                if first.representation is not NUMBER:
                    failing.append(wrong.eq(_number(1)))
                ranged = _in_range(total)
                failing.append(exp.and_(_not_null(total), _is_null(ranged), copy=False))
                if function == "sum":
                    return _Value(_case((_is_null(total), _cast(_number(0), NUMBER)), default=ranged), NUMBER), failing
                errors: list[exp.Expr] = []
                quotient = self.look_up("/", [_Value(ranged, NUMBER, null=True), _Value(count, NUMBER)], errors)
                failing += [exp.and_(_not_null(total), error, copy=False) for error in errors]
                return replace(quotient, null=True), failing
            case "min" | "max":
                extreme: type[exp.Min | exp.Max] = exp.Min if function == "min" else exp.Max
                if first.representation in (NUMBER, TEXT):
                    (value,) = join(v=extreme(this=self.collated(v0, first.representation)))
                    return _Value(value, first.representation, null=True), []
                if first.representation is not TAGGED:
                    raise UnsupportedError(f"{function} of what has no order")
                letter, numeral = _letter(v0), self.converted(_Value(v0, TAGGED), NUMBER).expression
                least, most, number, text = join(
                    least=exp.Min(this=letter),
                    most=exp.Max(this=letter.copy()),
                    number=extreme(this=numeral),
                    text=extreme(this=self.collated(v0, TEXT)),
                )
                same = exp.and_(least.eq(most), exp.In(this=least, expressions=[_text("N"), _text("S")]), copy=False)
                failing.append(exp.Not(this=exp.Paren(this=same)))
                tagged = self.converted(_Value(number, NUMBER), TAGGED).expression
                value = _case((most.copy().eq(_text("N")), tagged), (most.copy().eq(_text("S")), text))
                return _Value(value, TAGGED, null=True), failing
            case _:
                text, order = self.shown(replace(first, expression=v0))
                ordered = exp.Order(this=text, expressions=[exp.Ordered(this=part) for part in order])
                (joined,) = join(v=exp.GroupConcat(this=ordered, separator=_text(",")))
                value = _coalesce(joined, _text(""))
                return _Value(value, TEXT), [exp.GT(this=exp.Length(this=value.copy()), expression=_number(CHARACTERS))]

    def inner(self, literal: ir.Without | ir.Fold, needs: frozenset[ir.Var]) -> tuple[_Block, Sequence[exp.Alias], _On]:
        """The block of an inner body, its keys, which are the values that it needs from here, and how to join them.

        Where its matches do not give all of these, it begins with the values that they can have here.
        """
        block = _Block(self.compiler)
        shared = sorted(needs, key=str)
        block.values = {var: self.values[var] for var in shared if self.values[var].constant}
        keys = [var for var in shared if not self.values[var].constant]
        matched = {term for item in literal.body if isinstance(item, ir.Match) for term in item.arguments}
        is_given = matched.issuperset(keys)
        if not is_given:
            alias = self.compiler.alias()
            columns = [_named(self.values[var].expression.copy(), f"k{at}") for at, var in enumerate(keys)]
            block.tables.append(_subquery(self.select(columns, self.hard), alias))
            block.values |= {
                var: replace(self.values[var], expression=_column(f"k{at}", alias)) for at, var in enumerate(keys)
            }
            start = {var: block.values[var] for var in keys}
        block.take(scope_inner(literal, needs))
        inside = start if not is_given else block.values
        columns = [_named(inside[var].expression.copy(), f"k{at}") for at, var in enumerate(keys)]

        def on(alias: str) -> list[exp.Expr]:
            conditions = []
            for at, var in enumerate(keys):
                outer, key = self.values[var], replace(inside[var], expression=_column(f"k{at}", alias))
                null_joins = not is_given and outer.null
                equal = self.equal(key, outer)
                conditions.append(
                    exp.NullSafeEQ(this=key.expression, expression=outer.expression.copy()) if null_joins else equal
                )
            return conditions

        return block, columns, on

    # Values.

    def converted(self, value: _Value, representation: Representation) -> _Value:
        """The value in another representation; NULL if it has none there."""
        own, expression = value.representation, value.expression.copy()
        if own is representation or value.is_null:
            return replace(value, representation=representation)
        if representation is TAGGED:
            match own:
                case Representation.NUMBER:
                    text: exp.Expr = _cast(_cast(expression, NUMBER), TEXT)
                    for character in ("0", "."):
                        text = exp.Trim(this=text, expression=_text(character), position="TRAILING")
                    expression = text
                case Representation.BOOLEAN:
                    expression = _case((expression, _text("1")), (exp.Not(this=_paren(expression.copy())), _text("0")))
            return replace(
                value, expression=exp.DPipe(this=_text(own.value), expression=expression), representation=TAGGED
            )
        if own is not TAGGED:
            return _Value(_cast(exp.null(), representation), representation, null=True)
        rest: exp.Expr = exp.Substring(this=expression, start=_number(2))
        if representation is NUMBER:
            rest = exp.TryCast(this=rest, to=NUMBER.type)
        elif representation is BOOLEAN:
            rest = rest.eq(_text("1"))
        return _Value(_case((_letter(expression).eq(_text(representation.value)), rest)), representation, null=True)

    def needed(self, value: _Value, representation: Representation, failing: list[exp.Expr]) -> exp.Expr:
        """The value as an input of this representation; anything else, null too, fails."""
        converted = self.converted(value, representation)
        if converted.null or converted.is_null:
            failing.append(_is_null(converted.expression))
        return _paren(converted.expression)

    def collated(self, expression: exp.Expr, representation: Representation) -> exp.Expr:
        """The expression as it is to be ordered: texts by code points."""
        expression = _paren(expression.copy())
        if representation is not NUMBER and self.compiler.dialect == "postgres":
            return exp.Collate(this=expression, expression=identifier("C"))
        return expression

    def shown(self, value: _Value) -> tuple[exp.Expr, list[exp.Expr]]:
        """The value as it is shown, and what to order values by."""
        if value.representation in (TEXT, Representation.RESOURCE):
            return value.expression, [self.collated(value.expression, TEXT)]
        tagged = self.converted(value, TAGGED)
        letter = _letter(tagged.expression)
        truth = tagged.expression.copy().eq(_text("B1"))
        rest = exp.Substring(this=tagged.expression.copy(), start=_number(2))
        text = _case((letter.eq(_text("B")), _case((truth, _text("true")), default=_text("false"))), default=rest)
        kinds = _case(
            *((letter.copy().eq(_text(kind)), _number(at)) for at, kind in enumerate("BNS")), default=_number(3)
        )
        number = self.converted(tagged, NUMBER).expression
        return text, [kinds, number, self.collated(tagged.expression, TEXT)]

    def equal(self, left: _Value, right: _Value) -> exp.Expr:
        """Whether two values are equal. Null equals only a null that is a constant."""
        for value, other in ((left, right), (right, left)):
            if value.is_null:
                return _is_null(other.expression)
        if left.representation is not right.representation:
            if TAGGED not in (left.representation, right.representation):
                return exp.false()
            left, right = (self.converted(value, TAGGED) for value in (left, right))
        return exp.EQ(this=_paren(left.expression.copy()), expression=_paren(right.expression.copy()))

    def differ(self, left: _Value, right: _Value) -> exp.Expr:
        """The exact complement of `equal`."""
        for value, other in ((left, right), (right, left)):
            if value.is_null:
                return _not_null(other.expression)
        return exp.Not(this=_coalesce(self.equal(left, right), exp.false()))

    def ordered(self, order: str, left: _Value, right: _Value) -> tuple[exp.Expr, list[exp.Expr]]:
        """Whether two numbers or two texts are in that order, and when this fails."""
        operator = _ORDERS[order]
        failing: list[exp.Expr] = []
        for representation in (NUMBER, TEXT):
            if representation in (left.representation, right.representation):
                sides = [self.needed(value, representation, failing) for value in (left, right)]
                first, second = (self.collated(side, representation) for side in sides)
                return operator(this=first, expression=second), failing
        if left.representation is not TAGGED or right.representation is not TAGGED:
            return _cast(exp.null(), BOOLEAN), [exp.true()]
        numbers, texts = (
            exp.and_(*(_letter(value.expression).eq(_text(letter)) for value in (left, right)), copy=False)
            for letter in "NS"
        )
        first, second = (self.converted(value, NUMBER).expression for value in (left, right))
        lower, upper = (self.collated(value.expression, TEXT) for value in (left, right))
        condition = _case(
            (numbers, operator(this=first, expression=second)),
            (
                texts,
                operator(this=lower, expression=upper),
            ),
        )
        return condition, [_is_null(condition)]

    def compute(self, name: str, inputs: Sequence[_Value], failing: list[exp.Expr]) -> _Value:
        """The result of a builtin that databases compute as ours does."""
        if name in _ORDER_TESTS:
            condition, wrong = self.ordered(_ORDER_TESTS[name], *inputs)
            failing += wrong
            return _Value(condition, BOOLEAN)
        match name:
            case "equal":
                left, right = inputs
                either_null = left.is_null or right.is_null
                return _Value(exp.false() if either_null else _coalesce(self.equal(left, right), exp.false()), BOOLEAN)
            case "??":
                value, default = inputs
                if value.is_null:
                    return default
                if not value.null:
                    return value
                if not default.is_null and value.representation is not default.representation:
                    value, default = (self.converted(side, TAGGED) for side in (value, default))
                if default.is_null:
                    return value
                merged = _coalesce(value.expression.copy(), default.expression.copy())
                return _Value(merged, value.representation, default.null)
            case "+" | "-":
                left, right = (self.needed(value, NUMBER, failing) for value in inputs)  # type: ignore[assignment]
                operator = exp.Add if name == "+" else exp.Sub
                number = _in_range(_cast(operator(this=left, expression=right), NUMBER))
                failing.append(_is_null(number))
                return _Value(number, NUMBER)
        texts = [self.needed(value, TEXT, failing) for value in inputs]
        first, last = texts[0], texts[-1]
        match name:
            case "starts_with":
                return _Value(exp.StartsWith(this=first, expression=last), BOOLEAN)
            case "ends_with":
                end = exp.Right(this=first, expression=exp.Length(this=last.copy()))
                return _Value(end.eq(last), BOOLEAN)
            case "contains":
                place = exp.GT(this=exp.StrPosition(this=first, substr=last), expression=_number(0))
                return _Value(exp.or_(last.copy().eq(_text("")), place, copy=False), BOOLEAN)
            case "len":
                return _Value(_cast(exp.Length(this=first), NUMBER), NUMBER)
            case "concat":
                joined = exp.DPipe(this=first, expression=last)
                failing.append(exp.GT(this=exp.Length(this=joined.copy()), expression=_number(CHARACTERS)))
                return _Value(joined, TEXT)
        raise AssertionError(name)

    def look_up(self, builtin: str, inputs: Sequence[_Value], failing: list[exp.Expr]) -> _Value:
        """The result of a builtin from its table, which holds it for all inputs that can be here."""
        table = builtin_table(builtin)
        arguments = []
        for value in inputs:
            tagged = self.converted(value, TAGGED).expression
            arguments.append(_coalesce(tagged, _text("")) if value.null else tagged)
        columns = [_named(argument.copy(), f"a{at}") for at, argument in enumerate(arguments)]
        some = [_not_null(argument) for argument in arguments]
        tree = self.select(columns, [*self.hard, *some])
        self.compiler.demands.append(Demand(builtin, self.compiler.prepare(tree)))
        alias = self.compiler.alias()
        on: list[exp.Expr] = [
            _column(column.alias, alias).eq(argument) for column, argument in zip(columns, arguments, strict=True)
        ]
        self.joins.append((_table(table.name, alias), on))
        failing.append(_coalesce(_column(FAILED, alias), exp.true()))
        result = table.columns[len(inputs)].representation
        outputs = CALLS[builtin].outputs
        may_be_null = bool(outputs and outputs[0].kinds & Kind.NULL)
        return _Value(_column(RESULT, alias), result, may_be_null)


_DIRECT = frozenset((*_ORDER_TESTS, "equal", "??", "+", "-", "starts_with", "ends_with", "contains", "len", "concat"))
"""The builtins that databases compute."""


def _rank(literal: ir.CheckedLiteral) -> int:
    """Literals of a lower rank come first: tests narrow the inputs for which builtins are computed."""
    match literal:
        case ir.Match():
            return 0
        case ir.Call(builtin):
            return 1 if builtin in KIND_TESTS else 3 if _SAME.get(builtin, builtin) in _DIRECT else 5
        case ir.Compare():
            return 2
        case ir.Without():
            return 4
        case ir.Fold():
            return 6


_On = Callable[[str], list[exp.Expr]]
"""The conditions on which a subquery of this alias is joined."""


def _compared(term: ir.Operand) -> _Value | None:
    """A number that is too large for any column as the least or greatest that none holds: it compares as that does."""
    value = term.value if isinstance(term, ir.Const) else None
    if isinstance(value, int | Decimal) and not -LIMIT < value < LIMIT:
        limit = _cast(_number(LIMIT), NUMBER)
        return _Value(limit if value > 0 else exp.Neg(this=limit), NUMBER, constant=True)
    return None


def _constant(term: ir.Const) -> _Value:
    """A constant. Errors: UnsupportedError if no table holds it."""
    if term.value is None:
        return _Value(exp.Null(), TAGGED, null=True, constant=True)
    try:
        representation, value = encode_alone(term.value)
    except ValueError as error:
        raise UnsupportedError(str(error)) from None
    match value:
        case bool():
            expression: exp.Expr = exp.true() if value else exp.false()
        case int() | Decimal():
            digits = exp.Literal.number(format(abs(value), "f"))
            expression = _cast(exp.Neg(this=digits) if value < 0 else digits, representation)
        case _:
            expression = _text(str(value))
    return _Value(expression, representation, constant=True)


def _text(text: str) -> exp.Expr:
    return exp.Literal.string(text)


def _number(number: int) -> exp.Expr:
    return exp.Literal.number(number)


def _named(expression: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=expression, alias=identifier(name))


def _column(name: str, table: str) -> exp.Column:
    return exp.Column(this=identifier(name), table=identifier(table))


def _table(name: str, alias: str) -> exp.Expr:
    return exp.Table(this=identifier(name), alias=exp.TableAlias(this=identifier(alias)))


def _place(name: str) -> exp.Table:
    return exp.Table(this=identifier(name))


def _subquery(query: exp.Select, alias: str) -> exp.Expr:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=identifier(alias)))


def _copies(expressions: Iterable[exp.Expr]) -> list[exp.Expr]:
    return [expression.copy() for expression in expressions]


def _paren(expression: exp.Expr) -> exp.Expr:
    return expression if isinstance(expression, exp.Column | exp.Literal | exp.Paren) else exp.Paren(this=expression)


def _cast(expression: exp.Expr, representation: Representation) -> exp.Expr:
    return exp.Cast(this=expression, to=representation.type)


def _coalesce(expression: exp.Expr, default: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=expression.copy(), expressions=[default])


def _is_null(expression: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Is(this=_paren(expression.copy()), expression=exp.Null()))


def _not_null(expression: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Not(this=_is_null(expression)))


def _letter(tagged: exp.Expr) -> exp.Expr:
    """The letter of a tagged text that names its kind."""
    return exp.Substring(this=tagged.copy(), start=_number(1), length=_number(1))


def _case(*cases: tuple[exp.Expr, exp.Expr], default: exp.Expr | None = None) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=value) for condition, value in cases], default=default)


def _in_range(number: exp.Expr) -> exp.Expr:
    """The number; NULL if it does not fit a column."""
    least = exp.LT(this=exp.Abs(this=number.copy()), expression=_cast(_number(LIMIT), NUMBER))
    return _case((least, number))


def _all(conditions: Iterable[exp.Expr]) -> exp.Expr:
    return exp.and_(*map(_paren, _copies(conditions)), copy=False)


def _any(conditions: Iterable[exp.Expr]) -> exp.Expr:
    return exp.Paren(this=exp.or_(*map(_paren, _copies(dict.fromkeys(conditions))), copy=False))
