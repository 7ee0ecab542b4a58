"""Compiles the rules of a checked program to queries.

A body is one SELECT: matches are tables that its variables join, and each negation and aggregate is a subquery by the
values that it shares with the outside, joined as a whole, so that no subquery is correlated::

    p(x) :- q(x, y), not r(y, _), n = count{ z : s(x, z) }, n > 3.
    SELECT DISTINCT a.x FROM q AS a
    LEFT JOIN (SELECT DISTINCT y, TRUE AS present FROM r) AS b ON b.y = a.y
    LEFT JOIN (SELECT x, COUNT(*) AS v FROM (SELECT DISTINCT x, z FROM s) GROUP BY x) AS c ON c.x = a.x
    WHERE b.present IS NULL AND COALESCE(c.v, 0) > 3

A failed expression is NULL, and a second query returns the roots in which something may have failed: perhaps too many,
never too few. A builtin without an exact SQL equivalent is a table, which the evaluation fills by calling the builtin:
see `Demand`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set

from sqlglot import exp

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lifting import Lifted
from datalog_gate.analysis.safety import Scoped, ScopedLiteral, scope
from datalog_gate.analysis.slices import slice_for
from datalog_gate.analysis.strata import reads
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import Kind
from datalog_gate.engine.builtins import CHARACTERS
from datalog_gate.engine.sql.database import Statement
from datalog_gate.engine.sql.expressions import (
    BOOLEAN,
    NUMBER,
    ORDER_TESTS,
    TAGGED,
    TEXT,
    SqlExpression,
    UnsupportedError,
    all_of,
    any_of,
    case_when,
    cast_to,
    coalesce,
    collated,
    column_of,
    compared,
    compute,
    constant,
    converted,
    copies,
    differ,
    equal,
    in_range,
    is_null,
    letter_of,
    named,
    not_null,
    number_literal,
    ordered,
    place_of,
    shown,
    subquery,
    table_as,
    text_literal,
)
from datalog_gate.engine.sql.tables import NOTHING, RelationTable, Representation, SqlColumn, identifier, table_name
from datalog_gate.schema.declaration import RelationRef
from datalog_gate.schema.signatures import CALLS, INTERPOLATE, KIND_TESTS

NEW = "new"
"""The role of the table with the rows of the last round of a recursion."""
NEXT = "next"
"""The role of the table in which a round collects new rows."""
FAILED = "failed"
RESULT = "result"
_SAME = {"plus": "+", "minus": "-"}


@dataclass(frozen=True, slots=True)
class Demand:
    """The inputs for which a query needs results of a builtin, as tagged texts; an empty text is null."""

    builtin: str
    query: Statement


@dataclass(frozen=True, slots=True)
class RuleQuery:
    """The queries of a rule, or of its variant in which one match reads the new rows of a round."""

    relation: RelationRef
    needs: frozenset[RelationRef]
    """The relations that must have rows for the rule to derive any."""
    new_relation: RelationRef | None
    """The relation whose new rows are read."""
    demands: tuple[Demand, ...]
    insert: Statement
    """Adds the rows that do not exist yet."""
    errors: Statement | None
    """Returns the roots in which the rule may meet an error; NULL if it is not lifted. None if it never does."""


@dataclass(frozen=True, slots=True)
class StratumQueries:
    """The queries of a stratum. Those of `rounds` run until there are no new rows."""

    relations: tuple[RelationRef, ...]
    once: tuple[RuleQuery, ...]
    rounds: tuple[RuleQuery, ...]
    recursive: tuple[RuleQuery, ...]
    """The recursive rules over all rows, for finding possible errors at the end."""


@dataclass(frozen=True, slots=True)
class SqlProgram:
    """A program as queries for one dialect."""

    lifted: Lifted
    program: ir.CheckedProgram
    """The part of the lifted program that the wanted relations depend on."""
    wanted: frozenset[RelationRef]
    dialect: str
    tables: dict[RelationRef, RelationTable]
    strata: tuple[StratumQueries, ...]
    unsupported: dict[RelationRef, str]
    """The relations with a rule that has no query, and why."""

    def readers(self, relation: RelationRef, column: int | None) -> frozenset[RelationRef]:
        """The relations with a rule that reads this column of an input, or with None the input itself."""
        return frozenset(
            rule.relation
            for rule in self.program.rules
            for _, match in reads(rule.body)
            if match.relation == relation and (column is None or column in match.columns)
        )

    def dependants(self, relations: Set[RelationRef]) -> frozenset[RelationRef]:
        """These relations, and the wanted relations that depend on them."""
        reached = set(relations)
        for stratum in self.program.strata:
            if any(match.relation in reached for rule in stratum.rules for _, match in reads(rule.body)):
                reached.update(stratum.relations)
        return self.wanted & reached


_COMPILED = ir.ProgramCache[SqlProgram]()


def compile_program(lifted: Lifted, wanted: frozenset[RelationRef], dialect: str) -> SqlProgram:
    """Compile the part that the wanted relations depend on, for `duckdb`, `postgres` or `spark`. Results are cached as
    long as the program exists."""
    return _COMPILED.get(lifted.program, (wanted, dialect), lambda: _compile(lifted, wanted, dialect))


def _compile(lifted: Lifted, wanted: frozenset[RelationRef], dialect: str) -> SqlProgram:
    program = slice_for(lifted.program, wanted)
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
    """The demands of the current rule."""
    begun: set[RelationRef] = field(default_factory=set)
    """The relations with a compiled rule."""
    aliases: int = 0

    def stratum(self, stratum: ir.Stratum) -> StratumQueries:
        own = frozenset(stratum.relations if stratum.recursive else ())
        once: list[RuleQuery] = []
        rounds: list[RuleQuery] = []
        recursive: list[RuleQuery] = []
        for rule in stratum.rules:
            places = [at for at, part in enumerate(rule.body) if isinstance(part, ir.Match) and part.relation in own]
            try:
                (recursive if places else once).append(self.rule(rule, own))
                rounds += [self.rule(rule, own, at) for at in places]
            except UnsupportedError as error:
                self.unsupported[rule.relation] = str(error)
        return StratumQueries(stratum.relations, tuple(once), tuple(rounds), tuple(recursive))

    def rule(self, rule: ir.CheckedRule, own: Set[RelationRef], new_at: int | None = None) -> RuleQuery:
        """The queries of a rule of the recursive relations `own`. The match at `new_at` reads new rows."""
        self.demands = []
        new_match = rule.body[new_at] if new_at is not None else None
        block = _Block(self)
        block.take(scope(rule if new_at is None else rule.reading_new(new_at)))
        table = self.tables[rule.relation]
        projections: list[exp.Expr] = []
        for term, column in zip(rule.arguments, table.columns, strict=True):
            value = converted(block.value(term), column.representation)
            projections.append(named(cast_to(value.expression, column.representation), column.name))
        rows = block.select(projections or [named(exp.true(), NOTHING)], block.conditions)
        errors = None
        if block.failures:
            lifted = rule.relation in self.lifted.relations
            root = block.value(rule.arguments[0]).expression.copy() if lifted else cast_to(exp.null(), TEXT)
            errors = block.select([named(root, "root")], [*block.hard, any_of(block.failures)])
        return RuleQuery(
            relation=rule.relation,
            needs=frozenset(literal.relation for literal in rule.body if isinstance(literal, ir.Match)) - own,
            new_relation=new_match.relation if isinstance(new_match, ir.Match) else None,
            demands=tuple(self.demands),
            insert=self.prepare(self.insertion(rows, table, is_variant=new_at is not None)),
            errors=self.prepare(errors) if errors else None,
        )

    def insertion(self, rows: exp.Select, table: RelationTable, is_variant: bool) -> exp.Expr:
        """The statement that adds new rows to a table; for a variant, to the table of the next round. The first rule of
        a relation finds it empty."""
        target = table_name(table.relation, NEXT) if is_variant else table.name
        is_first = table.relation not in self.begun
        self.begun.add(table.relation)
        query: exp.Query = rows
        for place in () if is_first else dict.fromkeys((table.name, target)):
            stored = exp.select(*map(exp.column, map(identifier, table.names))).from_(place_of(place))
            query = exp.Except(this=query, expression=stored, distinct=True)
        schema = exp.Schema(this=place_of(target), expressions=[*map(identifier, table.names)])
        return exp.Insert(this=schema, expression=query)

    def prepare(self, tree: exp.Expr) -> Statement:
        return Statement(tree.sql(self.dialect), tree)

    def alias(self) -> str:
        self.aliases += 1
        return f"t{self.aliases}"


@dataclass(slots=True)
class _Block:
    """A conjunction as a SELECT that refers to nothing outside."""

    compiler: _Compiler
    values: dict[ir.Var, SqlExpression] = field(default_factory=dict)
    tables: list[exp.Expr] = field(default_factory=list)
    joins: list[tuple[exp.Expr, list[exp.Expr]]] = field(default_factory=list)
    """Subqueries and tables that are joined on conditions, or required to have no matching row."""
    conditions: list[exp.Expr] = field(default_factory=list)
    """Expressions that are TRUE for an assignment that makes the body true."""
    hard: list[exp.Expr] = field(default_factory=list)
    """Those that are also TRUE for an assignment in error."""
    failures: list[exp.Expr] = field(default_factory=list)
    """At least one is TRUE for an assignment in error."""
    shaky: dict[ir.Var, list[exp.Expr]] = field(default_factory=dict)
    """The variables whose value is wrong after a failure, with the condition of that failure."""

    def take(self, body: Scoped) -> None:
        """Add the literals: matches first, and literals that need their own table last."""
        pending = sorted(body, key=lambda scoped: not isinstance(scoped.literal, ir.Match))
        while pending:
            ready = [scoped for scoped in pending if scoped.ready(self.values)]
            scoped = min(ready, key=lambda scoped: _rank(scoped.literal))
            pending = [other for other in pending if other is not scoped]
            match scoped.literal:
                case ir.Match() as literal:
                    self.match(literal)
                case ir.Compare() as literal:
                    self.compare(literal)
                case ir.Call() as literal:
                    self.call(literal)
                case ir.Without():
                    self.without(scoped)
                case ir.Fold() as literal:
                    self.fold(literal, scoped)

    def select(self, projections: Sequence[exp.Expr], conditions: Iterable[exp.Expr]) -> exp.Select:
        """The distinct values of the projections for which the conditions are true."""
        query = exp.select(*projections, copy=False).distinct(copy=False)
        first, *others = self.tables or [subquery(exp.select(named(exp.true(), NOTHING)), self.compiler.alias())]
        query = query.from_(first.copy(), copy=False)
        for table in others:
            query = query.join(table.copy(), join_type="cross", copy=False)
        for source, on in self.joins:
            query = query.join(source.copy(), on=all_of(on) if on else exp.true(), join_type="left", copy=False)
        if where := [condition.copy() for condition in conditions]:
            query = query.where(*where, copy=False)
        return query

    def value(self, term: ir.Operand) -> SqlExpression:
        return constant(term) if isinstance(term, ir.Const) else self.values[term]

    def test(self, condition: exp.Expr, *terms: ir.Pattern, failing: Sequence[exp.Expr] = ()) -> None:
        """Add a condition on these terms, and the condition under which it fails."""
        self.conditions.append(condition)
        self.failures += failing
        reasons = [*failing, *self.reasons(terms)]
        self.hard.append(exp.or_(condition.copy(), any_of(reasons), copy=False) if reasons else condition)

    def reasons(self, terms: Iterable[ir.Pattern]) -> list[exp.Expr]:
        """The conditions under which a value of these terms is wrong."""
        return [reason for term in terms if isinstance(term, ir.Var) for reason in self.shaky.get(term, ())]

    def bind(
        self, target: ir.Pattern, value: SqlExpression, *terms: ir.Pattern, failing: Sequence[exp.Expr] = ()
    ) -> None:
        """Bind a variable to the value, or compare its value, or that of a constant, with it."""
        if isinstance(target, ir.Const) or target in self.values:
            self.test(self.equal(value, target), target, *terms, failing=failing)
            return
        if failing:
            self.conditions.append(exp.Not(this=coalesce(any_of(failing), exp.false())))
            self.failures += failing
        if target is not None:
            self.values[target] = value
            if reasons := [*failing, *self.reasons(terms)]:
                self.shaky[target] = reasons

    def equal(self, value: SqlExpression, term: ir.Operand) -> exp.Expr:
        """Whether a value equals a term. A variable that is null equals nothing, not even null."""
        other = self.value(term)
        is_null_variable = isinstance(term, ir.Var) and (value.is_null or other.is_null)
        return exp.false() if is_null_variable else equal(value, other)

    # Literals.

    def match(self, literal: ir.Match) -> None:
        table = self.compiler.tables[literal.relation]
        alias = self.compiler.alias()
        name = table_name(literal.relation, NEW) if literal.new else table.name
        self.tables.append(table_as(name, alias))
        kinds = self.compiler.lifted.program.relations[literal.relation].columns
        for at, term in literal.column_terms:
            column = table.columns[at]
            value = SqlExpression(
                column_of(column.name, alias), column.representation, bool(kinds[at].kinds & Kind.NULL)
            )
            if isinstance(term, ir.Const) or term in self.values:
                self.test(self.equal(value, term), term)
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
        left, right = (compared(side) or self.value(side) for side in sides)
        has_null = not literal.null_test and (left.is_null or right.is_null)
        match literal.comparator:
            case "=":
                self.test(exp.false() if has_null else equal(left, right), *sides)
            case "!=":
                self.test(exp.true() if has_null else differ(left, right), *sides)
                for side, other in (sides, sides[::-1]):
                    if isinstance(side, ir.Var) and other == ir.Const(None):
                        self.values[side] = replace(self.values[side], null=False)
            case order:
                condition, failing = ordered(self.compiler.dialect, order, left, right)
                self.test(condition, *sides, failing=failing)

    def call(self, literal: ir.Call) -> None:
        name = _SAME.get(literal.builtin, literal.builtin)
        inputs = [self.value(term) for term in literal.inputs]
        failing: list[exp.Expr] = []
        if name in KIND_TESTS:
            self.test_kind(name, inputs[0], literal.inputs[0])
            return
        if name in _DIRECT:
            value = compute(self.compiler.dialect, name, inputs, failing)
        else:
            value = self.look_up(literal.builtin, inputs, failing)
        if literal.outputs:
            self.bind(literal.outputs[0], value, *literal.inputs, failing=failing)
        else:
            self.test(value.expression, *literal.inputs, failing=failing)

    def test_kind(self, name: str, value: SqlExpression, term: ir.Operand) -> None:
        """Test the kind of a value. From there on a variable has that kind."""
        representation = Representation.of(KIND_TESTS[name])
        narrowed = converted(value, representation)
        self.test(not_null(narrowed.expression), term)
        if isinstance(term, ir.Var):
            self.values[term] = replace(narrowed, null=False)

    def without(self, scoped: ScopedLiteral) -> None:
        inner, keys, on = self.inner(scoped)
        alias = self.compiler.alias()
        present = named(exp.true(), "present")
        self.joins.append((subquery(inner.select([*keys, present], inner.conditions), alias), on(alias)))
        absent = is_null(column_of("present", alias))
        self.conditions.append(absent)
        reasons = self.reasons(scoped.needs)
        self.hard.append(exp.or_(absent.copy(), any_of(reasons), copy=False) if reasons else absent)
        if inner.failures:
            query = inner.select([*copies(keys), present.copy()], [*inner.hard, any_of(inner.failures)])
            alias = self.compiler.alias()
            self.joins.append((subquery(query, alias), on(alias)))
            self.failures.append(exp.and_(absent.copy(), not_null(column_of("present", alias)), copy=False))

    def fold(self, literal: ir.Fold, scoped: ScopedLiteral) -> None:
        if literal.function == "tuples":
            raise UnsupportedError("an aggregate over what is not known")
        inner, keys, on = self.inner(scoped)
        first, *others = map(inner.value, literal.terms)
        terms = [named(value.expression.copy(), f"v{at}") for at, value in enumerate((first, *others))]
        tuples = inner.select(
            [*copies(keys), *terms], [*inner.conditions, *([not_null(first.expression)] if first.null else [])]
        )
        value, failing = self.aggregate(literal.function, first, subquery(tuples, "tuples"), keys, on)
        if inner.failures:
            query = inner.select([*copies(keys), named(exp.true(), "present")], [*inner.hard, any_of(inner.failures)])
            alias = self.compiler.alias()
            self.joins.append((subquery(query, alias), on(alias)))
            failing.append(not_null(column_of("present", alias)))
        if value.null:  # without a value the literal is false
            self.test(not_null(value.expression), *scoped.needs, failing=failing)
            value = replace(value, null=False)
        self.bind(literal.target, value, *scoped.needs, failing=failing)

    def aggregate(
        self, function: str, first: SqlExpression, tuples: exp.Expr, keys: Sequence[exp.Alias], on: _On
    ) -> tuple[SqlExpression, list[exp.Expr]]:
        """Join the aggregate of tuples by their keys. Return its value, which may be NULL for no tuples, and when it
        fails."""
        names = [exp.column(identifier(key.alias)) for key in keys]
        alias = self.compiler.alias()

        def join(**columns: exp.Expr) -> list[exp.Expr]:
            projections = [named(column, name) for name, column in columns.items()]
            query = exp.select(*(name.copy() for name in names), *projections).from_(tuples)
            query = query.group_by(*names) if names else query
            self.joins.append((subquery(query, alias), on(alias)))
            return [column_of(name, alias) for name in columns]

        value = replace(first, expression=exp.column("v0"))
        match function:
            case "count":
                (count,) = join(v=exp.Count(this=exp.Star()))
                return SqlExpression(cast_to(coalesce(count, number_literal(0)), NUMBER), NUMBER), []
            case "sum" | "avg":
                return self._sum(function, value, join)
            case "min" | "max":
                return self._extreme(exp.Min if function == "min" else exp.Max, value, join)
        text, order = shown(self.compiler.dialect, value)
        ordered = exp.Order(this=text, expressions=[exp.Ordered(this=part) for part in order])
        (joined,) = join(v=exp.GroupConcat(this=ordered, separator=text_literal(",")))
        listed = coalesce(joined, text_literal(""))
        too_long = exp.GT(this=exp.Length(this=listed.copy()), expression=number_literal(CHARACTERS))
        return SqlExpression(listed, TEXT), [too_long]

    def _sum(self, function: str, value: SqlExpression, join: _Join) -> tuple[SqlExpression, list[exp.Expr]]:
        """The sum or average of a column, and when it fails."""
        failing: list[exp.Expr] = []
        term = converted(value, NUMBER).expression
        bad = exp.Max(this=case_when((is_null(term), number_literal(1)), default=number_literal(0)))
        total, count, wrong = join(v=exp.Sum(this=term), n=exp.Count(this=exp.Star()), bad=bad)
        if value.representation is not NUMBER:
            failing.append(wrong.eq(number_literal(1)))
        ranged = in_range(total)
        failing.append(exp.and_(not_null(total), is_null(ranged), copy=False))
        if function == "sum":
            zero = cast_to(number_literal(0), NUMBER)
            return SqlExpression(case_when((is_null(total), zero), default=ranged), NUMBER), failing
        errors: list[exp.Expr] = []
        quotient = self.look_up("/", [SqlExpression(ranged, NUMBER, null=True), SqlExpression(count, NUMBER)], errors)
        failing += [exp.and_(not_null(total), error, copy=False) for error in errors]
        return replace(quotient, null=True), failing

    def _extreme(
        self, extreme: type[exp.Min | exp.Max], value: SqlExpression, join: _Join
    ) -> tuple[SqlExpression, list[exp.Expr]]:
        """The least or greatest of a column, and when it fails: numbers and texts have no common order."""
        dialect, column = self.compiler.dialect, value.expression
        if value.representation in (NUMBER, TEXT):
            (found,) = join(v=extreme(this=collated(dialect, column, value.representation)))
            return SqlExpression(found, value.representation, null=True), []
        if value.representation is not TAGGED:
            raise UnsupportedError(f"{'min' if extreme is exp.Min else 'max'} of what has no order")
        letter, numeral = letter_of(column), converted(SqlExpression(column, TAGGED), NUMBER).expression
        least, most, number, text = join(
            least=exp.Min(this=letter),
            most=exp.Max(this=letter.copy()),
            number=extreme(this=numeral),
            text=extreme(this=collated(dialect, column, TEXT)),
        )
        ordered = exp.In(this=least, expressions=[text_literal("N"), text_literal("S")])
        same = exp.and_(least.eq(most), ordered, copy=False)
        tagged = converted(SqlExpression(number, NUMBER), TAGGED).expression
        found = case_when((most.copy().eq(text_literal("N")), tagged), (most.copy().eq(text_literal("S")), text))
        return SqlExpression(found, TAGGED, null=True), [exp.Not(this=exp.Paren(this=same))]

    def inner(self, outer: ScopedLiteral) -> tuple[_Block, Sequence[exp.Alias], _On]:
        """The block of an inner body, its keys (the values that it needs from outside), and the join. If its matches do
        not bind all keys, it begins with the values that they can have outside."""
        block = _Block(self.compiler)
        shared = sorted(outer.needs, key=str)
        block.values = {var: self.values[var] for var in shared if self.values[var].constant}
        keys = [var for var in shared if not self.values[var].constant]
        inner = [scoped.literal for scoped in outer.body]
        matched = {term for literal in inner if isinstance(literal, ir.Match) for term in literal.arguments}
        is_given = matched.issuperset(keys)
        if not is_given:
            alias = self.compiler.alias()
            columns = [named(self.values[var].expression.copy(), f"k{at}") for at, var in enumerate(keys)]
            block.tables.append(subquery(self.select(columns, self.hard), alias))
            block.values |= {
                var: replace(self.values[var], expression=column_of(f"k{at}", alias)) for at, var in enumerate(keys)
            }
            start = {var: block.values[var] for var in keys}
        block.take(outer.body)
        inside = start if not is_given else block.values
        columns = [named(inside[var].expression.copy(), f"k{at}") for at, var in enumerate(keys)]

        def on(alias: str) -> list[exp.Expr]:
            conditions = []
            for at, var in enumerate(keys):
                outer, key = self.values[var], replace(inside[var], expression=column_of(f"k{at}", alias))
                null_joins = not is_given and outer.null
                both = key.expression, outer.expression.copy()
                conditions.append(exp.NullSafeEQ(this=both[0], expression=both[1]) if null_joins else equal(key, outer))
            return conditions

        return block, columns, on

    def look_up(self, builtin: str, inputs: Sequence[SqlExpression], failing: list[exp.Expr]) -> SqlExpression:
        """The result of a builtin from its table, which holds it for all possible inputs."""
        table = builtin_table(builtin)
        arguments = []
        for value in inputs:
            tagged = converted(value, TAGGED).expression
            arguments.append(coalesce(tagged, text_literal("")) if value.null else tagged)
        columns = [named(argument.copy(), f"a{at}") for at, argument in enumerate(arguments)]
        some = [not_null(argument) for argument in arguments]
        tree = self.select(columns, [*self.hard, *some])
        self.compiler.demands.append(Demand(builtin, self.compiler.prepare(tree)))
        alias = self.compiler.alias()
        on: list[exp.Expr] = [
            column_of(column.alias, alias).eq(argument) for column, argument in zip(columns, arguments, strict=True)
        ]
        self.joins.append((table_as(table.name, alias), on))
        failing.append(coalesce(column_of(FAILED, alias), exp.true()))
        result = table.columns[len(inputs)].representation
        outputs = CALLS[builtin].outputs
        may_be_null = bool(outputs and outputs[0].kinds & Kind.NULL)
        return SqlExpression(column_of(RESULT, alias), result, may_be_null)


_DIRECT = frozenset(
    (*ORDER_TESTS, "equal", "??", "+", "-", "starts_with", "ends_with", "contains", "len", "concat", INTERPOLATE)
)
"""The builtins that databases compute."""


def _rank(literal: ir.CheckedLiteral) -> int:
    """Literals of a lower rank come first, since tests reduce the inputs for which builtins are computed."""
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
"""The conditions on which the subquery with this alias is joined."""
_Join = Callable[..., list[exp.Expr]]
"""Joins a subquery with these columns, given by name, and returns them."""
