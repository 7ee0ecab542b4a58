"""Compilation of plans to Python functions of nested loops.

No text of a rule is ever compiled: slots, tables and constants are named by number. Equal plans share one function.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FunctionType

from datalog_gate.analysis.program import Const
from datalog_gate.base.values import Unknown, Value
from datalog_gate.engine import plan as planned
from datalog_gate.engine.builtins import SMALL, aggregate, compare, compute, fits, holds
from datalog_gate.engine.least_model import IndexedTable
from datalog_gate.schema.declaration import RelationRef

PER_CALL = 200
"""The cost of a builtin call, as a number of rows read."""
PLAIN = frozenset((int, str))
"""The types that Python orders as the language does, each within itself."""
ARITHMETIC: dict[str, type[ast.operator]] = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult}
ORDERS: dict[str, type[ast.cmpop]] = {"<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE}
GLOBALS: dict[str, object] = {
    **{of.__name__: of for of in (aggregate, compare, compute, fits, holds, int, len, set, str, type, Unknown)},
    "MOST": SMALL,
    "LEAST": -SMALL,
    "PLAIN": PLAIN,
    "__builtins__": {},
}


@dataclass(frozen=True, slots=True)
class Access:
    """The table part in which a function looks up rows.

    With `keys` an index by these columns over the rows with these constants; a list of those rows if `keys` is empty.
    With `distinct` the distinct values of these columns in those rows. With neither, all rows of the relation.
    """

    relation: RelationRef
    constants: tuple[tuple[int, Value], ...] = ()
    keys: tuple[int, ...] | None = None
    distinct: tuple[int, ...] | None = None

    def of(self, table: IndexedTable) -> object:
        if self.distinct is not None:
            return table.distinct(self.constants, self.distinct)
        return table.rows if self.keys is None else table.index(self.constants, self.keys)


@dataclass(frozen=True, slots=True)
class Compiled:
    """The function of a plan, with what to pass to it.

    ``work(lookups, constants, known, emit, news, check)`` adds each row of the head to `known`. If the plan was
    compiled to emit, it passes each row that was not known to `emit`. `lookups` holds what `accesses` describe, `news`
    the rows of the last round. `check` returns how many rows may be read before it must be called again.

    Errors: EvaluationError of the first assignment that fails; any error of `check`.
    """

    work: Callable[..., None]
    accesses: tuple[Access, ...]
    constants: tuple[Value, ...]


@lru_cache(maxsize=4096)
def compile_plan(plan: planned.Plan, emits: bool) -> Compiled:
    """Compile a plan. Errors: TooDeepError."""
    writer = _FunctionWriter()
    body = writer.block(plan.steps, writer.head(plan.head, emits), outermost=True)
    start: list[ast.stmt] = []
    for variables, parameter in ((writer.constants.values(), "constants"), (writer.accesses.values(), "lookups")):
        if variables:
            start.append(ast.Assign([ast.Tuple([*map(_store, variables)], ast.Store())], _load(parameter)))
    if writer.counts:
        start.append(_put("left", _call("check")))
    names = [ast.arg(name) for name in ("lookups", "constants", "known", "emit", "news", "check")]
    parameters = ast.arguments([], names, kwonlyargs=[], kw_defaults=[], defaults=[])
    function = ast.FunctionDef("work", parameters, [*start, *body], [])
    module = compile(ast.fix_missing_locations(ast.Module([function], [])), "<plan>", "exec")
    (code,) = (co_const for co_const in module.co_consts if isinstance(co_const, CodeType))
    constants = tuple(constant.value for constant in writer.constants)
    return Compiled(FunctionType(code, GLOBALS), tuple(writer.accesses), constants)


@dataclass(slots=True)
class _FunctionWriter:
    """Writes the statements of one function."""

    constants: dict[Const, str] = field(default_factory=dict)
    """The constants with their variables, in the order in which they are passed."""
    accesses: dict[Access, str] = field(default_factory=dict)
    """The lookups with their variables, in the order in which they are passed."""
    not_null: set[int] = field(default_factory=set)
    """The slots that hold no null at the place that is being written."""
    counts: bool = False
    """Whether the function counts the rows that it reads."""
    loops: int = 0
    """The depth of loops at the place that is being written."""
    names: int = 0

    def head(self, terms: Sequence[planned.Term], emits: bool) -> list[ast.stmt]:
        row = ast.Tuple([self.term(term) for term in terms], ast.Load())
        if not emits:
            return [_add_known(row)]
        fresh = ast.Compare(_load("row"), [ast.NotIn()], [_load("known")])
        return [_put("row", row), ast.If(fresh, [_add_known(_load("row")), ast.Expr(_call("emit", _load("row")))], [])]

    def block(
        self, steps: Sequence[planned.Step], last: list[ast.stmt], flag: str | None = None, outermost: bool = False
    ) -> list[ast.stmt]:
        """Statements in a loop that run `last` for each assignment, until the variable `flag` is set if it is named."""
        statements: list[ast.stmt] = []
        body = statements
        depth = self.loops
        if not steps or not isinstance(steps[0], planned.Scan) or steps[0].single:
            body = self._loop(body, _store("_"), ast.Tuple([ast.Constant(None)], ast.Load()))
        for step in steps:
            if isinstance(step, planned.Scan) and not step.single:
                around, first = body, self.loops == depth
                body = self.scan(step, body, counted=not (first and outermost))
                if flag and not first:
                    around.append(ast.If(_load(flag), [ast.Break()], []))
            else:
                body += self.step(step)
        body += last
        self.loops = depth
        return statements

    def scan(self, step: planned.Scan, body: list[ast.stmt], counted: bool) -> list[ast.stmt]:
        constants = _values(step.constants)
        rows: ast.expr
        if step.distinct:
            rows = self.access(Access(step.relation, constants, distinct=tuple(column for column, _ in step.binds)))
            targets: list[ast.expr] = [_store(_slot(slot)) for _, slot in step.binds]
            if counted:
                body += self.count(_call("len", rows))
            return self._loop(body, targets[0] if len(targets) == 1 else ast.Tuple(targets, ast.Store()), rows)
        if step.new:
            rows = _load("news")
        else:
            rows = self.access(Access(step.relation, constants, keys=tuple(column for column, _ in step.keys)))
        if step.keys:
            group = self.new("g")
            body.append(_put(group, ast.Call(ast.Attribute(rows, "get", ast.Load()), [self.key(step)], [])))
            if_group = ast.If(_is_not_null(_load(group)), [], [])
            body.append(if_group)
            body, rows = if_group.body, _load(group)
            self.not_null.update(slot for _, slot in step.keys)
        if counted:
            body += self.count(_call("len", rows))
        is_filtered = step.twice or (step.new and step.constants)
        if step.binds and not is_filtered and 2 * len(step.binds) >= step.arity:
            names = {column: _slot(slot) for column, slot in step.binds}
            target = ast.Tuple([_store(names.get(column, "_")) for column in range(step.arity)], ast.Store())
            return self._loop(body, target, rows)
        row = self.new("r")
        body = self._loop(body, _store(row), rows)
        if step.new:
            for column, constant in step.constants:
                body.append(_unless(_equal(_item(row, column), self.term(constant))))
        for first, second in step.twice:
            equal = _equal(_item(row, first), _item(row, second))
            body.append(_unless(ast.BoolOp(ast.And(), [_is_not_null(_item(row, first)), equal])))
        body += [_put(_slot(slot), _item(row, column)) for column, slot in step.binds]
        return body

    def _loop(self, body: list[ast.stmt], target: ast.expr, rows: ast.expr) -> list[ast.stmt]:
        self.loops += 1
        if self.loops > planned.MOST_LOOPS:
            raise planned.TooDeepError("too many loops in one another")
        loop = ast.For(target, rows, [], [])
        body.append(loop)
        return loop.body

    def step(self, step: planned.Step) -> list[ast.stmt]:
        match step:
            case planned.Let(slot, term):
                return [_put(_slot(slot), self.term(term))]
            case planned.BuiltinCall(builtin, inputs, output, stored):
                value = _call("compute", ast.Constant(builtin), self.terms(inputs))
                counted = self.count(ast.Constant(1 if builtin in ARITHMETIC else PER_CALL))
                if builtin in ARITHMETIC:
                    value = self.arithmetic(builtin, inputs, value)
                elif builtin == "??":
                    first, default = map(self.term, inputs)
                    value = ast.IfExp(_is_type(first, "Unknown"), value, ast.IfExp(_is_not_null(first), first, default))
                if stored:
                    assert isinstance(output, int)
                    return [*counted, _put(_slot(output), value)]
                if output is None:
                    return [*counted, ast.Expr(value)]
                constant = ast.Constant(isinstance(output, Const))
                return [*counted, _unless(_call("fits", value, self.term(output), constant))]
            case planned.BuiltinTest(builtin, inputs, when_unknown):
                test = _call("holds", ast.Constant(builtin), self.terms(inputs), ast.Constant(when_unknown))
                return [*self.count(ast.Constant(PER_CALL)), _unless(test)]
            case planned.Exists(steps, wanted):
                return self.exists(steps, wanted)
            case planned.Aggregation():
                return self.aggregation(step)
            case planned.Scan() | planned.ComparisonTest():
                return [_unless(self.test(step))]

    def test(self, step: planned.Scan | planned.ComparisonTest) -> ast.expr:
        if isinstance(step, planned.ComparisonTest):
            return self.comparison(step)
        slots = [slot for _, slot in step.keys]
        if len(slots) + len(step.constants) < step.arity:
            keys = tuple(column for column, _ in step.keys)
            index = self.access(Access(step.relation, _values(step.constants), keys))
            return ast.Compare(self.key(step), [ast.In()], [index]) if slots else index
        terms: dict[int, planned.Term] = {**dict(step.keys), **dict(step.constants)}
        row = self.terms([terms[column] for column in range(step.arity)])
        tests = [_is_not_null(_load(_slot(slot))) for slot in dict.fromkeys(slots) if slot not in self.not_null]
        tests.append(ast.Compare(row, [ast.In()], [self.access(Access(step.relation))]))
        return _joined(ast.And(), tests)

    def comparison(self, step: planned.ComparisonTest) -> ast.expr:
        left, right = self.term(step.left), self.term(step.right)
        flags = ast.Constant(step.when_unknown), ast.Constant(step.null_test)
        general = _call("compare", ast.Constant(step.comparator), left, right, *flags)
        slots = [term for term in (step.left, step.right) if isinstance(term, int)]
        constants = [term.value for term in (step.left, step.right) if isinstance(term, Const)]
        if step.when_unknown or not slots or any(type(constant) not in PLAIN for constant in constants):
            return general
        both_may_be_null = len(slots) == 2 and not self.not_null & set(slots)
        if step.comparator == "=":
            equal = _equal(left, right)
            return ast.BoolOp(ast.And(), [_is_not_null(left), equal]) if both_may_be_null else equal
        if step.comparator == "!=":
            differ: ast.expr = ast.Compare(left, [ast.NotEq()], [right])
            if both_may_be_null:
                differ = ast.BoolOp(ast.Or(), [differ, ast.Compare(left, [ast.Is()], [ast.Constant(None)])])
            return ast.IfExp(
                _joined(ast.Or(), [_is_type(_load(_slot(slot)), "Unknown") for slot in slots]), general, differ
            )
        ordered = ast.Compare(left, [ORDERS[step.comparator]()], [right])
        if constants:
            return ast.IfExp(_is_type(_load(_slot(slots[0])), type(constants[0]).__name__), ordered, general)
        alike = ast.Compare(_call("type", left), [ast.Is(), ast.In()], [_call("type", right), _load("PLAIN")])
        return ast.IfExp(alike, ordered, general)

    def arithmetic(self, builtin: str, inputs: Sequence[planned.Term], general: ast.expr) -> ast.expr:
        left, right = map(self.term, inputs)
        tests: list[ast.expr] = []
        for term in dict.fromkeys(inputs):
            value = self.term(term)
            is_small = ast.Compare(_load("LEAST"), [ast.Lt(), ast.Lt()], [value, _load("MOST")])
            tests += [_is_type(value, "int"), is_small]
        return ast.IfExp(ast.BoolOp(ast.And(), tests), ast.BinOp(left, ARITHMETIC[builtin](), right), general)

    def exists(self, steps: Sequence[planned.Step], wanted: bool) -> list[ast.stmt]:
        only = steps[0] if len(steps) == 1 else None
        if isinstance(only, planned.ComparisonTest) or (isinstance(only, planned.Scan) and only.single):
            test = self.test(only)
            return [_unless(test) if wanted else _if_continue(test)]
        flag = self.new("w")
        with self.inner_body():
            body = self.block(steps, [_put(flag, ast.Constant(True)), ast.Break()], flag)
        test = _load(flag)
        outcome = _unless(test) if wanted else _if_continue(test)
        return [_put(flag, ast.Constant(False)), *body, outcome]

    def aggregation(self, step: planned.Aggregation) -> list[ast.stmt]:
        rows, value = self.new("s"), _slot(step.slot) if step.stored else self.new("x")
        counts = step.function == "count"
        first = self.term(step.terms[0])
        item = first if counts and len(step.terms) == 1 else self.terms(step.terms)
        add: ast.stmt = ast.Expr(ast.Call(ast.Attribute(_load(rows), "add", ast.Load()), [item], []))
        if counts:
            add = ast.If(_is_not_null(first), [add], [])
        with self.inner_body():
            body = self.block(step.steps, [add])
        statements = [_put(rows, _call("set")), *body]
        if counts:
            statements.append(_put(value, _call("len", _load(rows))))
        else:
            aggregated = _call("aggregate", ast.Constant(step.function), _load(rows))
            statements += [_put(value, aggregated), _unless(_is_not_null(_load(value)))]
        if not step.stored:
            statements.append(_unless(_equal(_load(value), _load(_slot(step.slot)))))
        return statements

    @contextmanager
    def inner_body(self) -> Iterator[None]:
        """Forget after an inner body which slots are not null in it."""
        not_null = set(self.not_null)
        yield
        self.not_null = not_null

    def count(self, rows: ast.expr) -> list[ast.stmt]:
        self.counts = True
        over = ast.Compare(_load("left"), [ast.Lt()], [ast.Constant(0)])
        return [ast.AugAssign(_store("left"), ast.Sub(), rows), ast.If(over, [_put("left", _call("check"))], [])]

    def key(self, step: planned.Scan) -> ast.expr:
        slots = [slot for _, slot in step.keys]
        return self.term(slots[0]) if len(slots) == 1 else self.terms(slots)

    def terms(self, terms: Sequence[planned.Term]) -> ast.expr:
        return ast.Tuple([self.term(term) for term in terms], ast.Load())

    def term(self, term: planned.Term) -> ast.expr:
        if isinstance(term, int):
            return _load(_slot(term))
        return _load(self.constants.setdefault(term, f"c{len(self.constants)}"))

    def access(self, access: Access) -> ast.expr:
        return _load(self.accesses.setdefault(access, f"a{len(self.accesses)}"))

    def new(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"


def _values(constants: Sequence[tuple[int, Const]]) -> tuple[tuple[int, Value], ...]:
    return tuple((column, const.value) for column, const in constants)


def _slot(slot: int) -> str:
    return f"v{slot}"


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _put(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([_store(name)], value)


def _call(function: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(_load(function), list(arguments), [])


def _item(row: str, column: int) -> ast.expr:
    return ast.Subscript(_load(row), ast.Constant(column), ast.Load())


def _add_known(row: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Subscript(_load("known"), row, ast.Store())], ast.Constant(None))


def _is_not_null(value: ast.expr) -> ast.expr:
    return ast.Compare(value, [ast.IsNot()], [ast.Constant(None)])


def _equal(left: ast.expr, right: ast.expr) -> ast.expr:
    return ast.Compare(left, [ast.Eq()], [right])


def _is_type(value: ast.expr, kind: str) -> ast.expr:
    return ast.Compare(_call("type", value), [ast.Is()], [_load(kind)])


def _joined(operator: ast.boolop, tests: list[ast.expr]) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(operator, tests)


def _unless(test: ast.expr) -> ast.stmt:
    return _if_continue(ast.UnaryOp(ast.Not(), test))


def _if_continue(test: ast.expr) -> ast.stmt:
    return ast.If(test, [ast.Continue()], [])
