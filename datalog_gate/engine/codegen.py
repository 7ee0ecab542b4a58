"""Functions of plans (layer 3): a plan becomes a Python function that goes through its body with nested loops.

In: a `Plan`. Out: a `Compiled`: the function, and what it looks its rows up in. The function is made of `ast` nodes and
knows a rule by numbers alone: slots, tables and constants are named by their places, and the values of a rule reach it
in a tuple. No text of a rule is ever compiled, and no other module may call `compile`.

Equal plans have one function, whichever rule set they come from.
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
from datalog_gate.engine.builtins import SMALL, aggregate, compare, compute, fits, holds
from datalog_gate.engine.plan import (
    MOST_LOOPS,
    Aggregation,
    BuiltinCall,
    BuiltinTest,
    ComparisonTest,
    Exists,
    Let,
    Plan,
    Scan,
    Step,
    Term,
    TooDeepError,
)

PER_CALL = 200
"""What a builtin counts for, in rows that are looked at."""
PLAIN = frozenset((int, str))
"""What Python orders as the language does, each among its own."""
ARITHMETIC: dict[str, type[ast.operator]] = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult}
ORDERS: dict[str, type[ast.cmpop]] = {"<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE}
GLOBALS: dict[str, object] = {
    **{one.__name__: one for one in (aggregate, compare, compute, fits, holds, int, len, set, str, type, Unknown)},
    "MOST": SMALL,
    "LEAST": -SMALL,
    "PLAIN": PLAIN,
    "__builtins__": {},
}


@dataclass(frozen=True, slots=True)
class Access:
    """What a function looks rows up in: an index by the columns `keys` over the rows with these constants, all of them
    in one list if there are none; or the distinct values of some columns of those rows; or, with neither, the rows of
    the relation themselves."""

    relation: str
    constants: tuple[tuple[int, Value], ...] = ()
    keys: tuple[int, ...] | None = None
    distinct: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Compiled:
    """``work(lookups, constants, known, emit, news, check)`` puts each row of the head among the `known`. `lookups` are
    what `accesses` stand for, `news` the rows of the last round; a row that was not known is emitted, if the plan was
    compiled so. `check` says how many rows may be looked at before it is asked again.

    Errors: EvaluationError of the first assignment that meets one; whatever `check` raises.
    """

    work: Callable[..., None]
    accesses: tuple[Access, ...]
    constants: tuple[Value, ...]


@lru_cache(maxsize=4096)
def compiled(plan: Plan, emits: bool) -> Compiled:
    """The function of a plan. Errors: TooDeepError."""
    writer = _Writer()
    body = writer.block(plan.steps, writer.head(plan.head, emits), outermost=True)
    start: list[ast.stmt] = []
    for names, given in ((writer.constants.values(), "constants"), (writer.accesses.values(), "lookups")):
        if names:
            start.append(ast.Assign([ast.Tuple([_store(name) for name in names], ast.Store())], _load(given)))
    if writer.counts:
        start.append(_put("left", _call("check")))
    parameters = ast.arguments(
        [], [ast.arg(parameter) for parameter in PARAMETERS], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    function = ast.FunctionDef("work", parameters, [*start, *body], [])
    module = compile(ast.fix_missing_locations(ast.Module([function], [])), "<plan>", "exec")
    (code,) = (co_const for co_const in module.co_consts if isinstance(co_const, CodeType))
    constants = tuple(constant.value for constant in writer.constants)
    return Compiled(FunctionType(code, GLOBALS), tuple(writer.accesses), constants)


PARAMETERS = ("lookups", "constants", "known", "emit", "news", "check")


@dataclass(slots=True)
class _Writer:
    """Writes the statements of one function. `sure` are the slots that hold no null at the place that is written."""

    constants: dict[Const, str] = field(default_factory=dict)
    accesses: dict[Access, str] = field(default_factory=dict)
    sure: set[int] = field(default_factory=set)
    counts: bool = False
    loops: int = 0
    names: int = 0

    def head(self, terms: Sequence[Term], emits: bool) -> list[ast.stmt]:
        row = ast.Tuple([self.term(term) for term in terms], ast.Load())
        if not emits:
            return [_know(row)]
        fresh = ast.Compare(_load("row"), [ast.NotIn()], [_load("known")])
        return [_put("row", row), ast.If(fresh, [_know(_load("row")), ast.Expr(_call("emit", _load("row")))], [])]

    def block(
        self, steps: Sequence[Step], last: list[ast.stmt], flag: str | None = None, outermost: bool = False
    ) -> list[ast.stmt]:
        """Statements that run the `last` ones for each assignment, until the `flag` is set, if one is named. Whatever
        fails goes on with the next turn of the loop around it, so that there is always one."""
        statements: list[ast.stmt] = []
        body = statements
        depth = self.loops
        if not steps or not isinstance(steps[0], Scan) or steps[0].single:
            body = self._loop(body, _store("_"), ast.Tuple([ast.Constant(None)], ast.Load()))
        for step in steps:
            if isinstance(step, Scan) and not step.single:
                around, first = body, self.loops == depth
                body = self.scan(step, body, counted=not (first and outermost))
                if flag and not first:
                    around.append(ast.If(_load(flag), [ast.Break()], []))
            else:
                body += self.step(step)
        body += last
        self.loops = depth
        return statements

    def scan(self, step: Scan, body: list[ast.stmt], counted: bool) -> list[ast.stmt]:
        """Append a loop over the rows; what it gives is the loop's body."""
        rows: ast.expr = _load("news")
        if step.distinct:
            columns = tuple(column for column, _ in step.binds)
            rows = self.access(Access(step.relation, _values(step.constants), distinct=columns))
            slots: list[ast.expr] = [_store(_slot(slot)) for _, slot in step.binds]
            body += self.count(_call("len", rows)) if counted else []
            return self._loop(body, slots[0] if len(slots) == 1 else ast.Tuple(slots, ast.Store()), rows)
        if not step.new:
            columns = tuple(column for column, _ in step.keys)
            rows = self.access(Access(step.relation, _values(step.constants), columns))
        if step.keys:
            found = self.new("g")
            body.append(_put(found, ast.Call(ast.Attribute(rows, "get", ast.Load()), [self.key(step)], [])))
            some: list[ast.stmt] = []
            body.append(ast.If(ast.Compare(_load(found), [ast.IsNot()], [ast.Constant(None)]), some, []))
            body, rows = some, _load(found)
            self.sure.update(slot for _, slot in step.keys)
        if counted:
            body += self.count(_call("len", rows))
        filtered = step.twice or (step.new and step.constants)
        if step.binds and not filtered and 2 * len(step.binds) >= step.arity:
            names = {column: _slot(slot) for column, slot in step.binds}
            target = ast.Tuple([_store(names.get(column, "_")) for column in range(step.arity)], ast.Store())
            return self._loop(body, target, rows)
        row = self.new("r")
        body = self._loop(body, _store(row), rows)
        for column, constant in step.constants if step.new else ():
            body.append(_unless(_equal(_item(row, column), self.term(constant))))
        for one, other in step.twice:
            body.append(
                _unless(ast.BoolOp(ast.And(), [_known(_item(row, one)), _equal(_item(row, one), _item(row, other))]))
            )
        body += [_put(_slot(slot), _item(row, column)) for column, slot in step.binds]
        return body

    def _loop(self, body: list[ast.stmt], target: ast.expr, rows: ast.expr) -> list[ast.stmt]:
        self.loops += 1
        if self.loops > MOST_LOOPS:
            raise TooDeepError("a body with too many loops in one another")
        loop = ast.For(target, rows, [], [])
        body.append(loop)
        return loop.body

    def step(self, step: Step) -> list[ast.stmt]:
        """The statements of a step that is no loop."""
        match step:
            case Let(slot, term):
                return [_put(_slot(slot), self.term(term))]
            case BuiltinCall(builtin, inputs, output, stored):
                value = _call("compute", ast.Constant(builtin), self.terms(inputs))
                counted = self.count(ast.Constant(1 if builtin in ARITHMETIC else PER_CALL))
                if builtin in ARITHMETIC:
                    value = self.arithmetic(builtin, inputs, value)
                elif builtin == "??":
                    first, default = map(self.term, inputs)
                    value = ast.IfExp(_is(first, "Unknown"), value, ast.IfExp(_known(first), first, default))
                if stored:
                    assert isinstance(output, int)
                    return [*counted, _put(_slot(output), value)]
                if output is None:
                    return [*counted, ast.Expr(value)]
                constant = ast.Constant(isinstance(output, Const))
                return [*counted, _unless(_call("fits", value, self.term(output), constant))]
            case BuiltinTest(builtin, inputs, when_unknown):
                test = _call("holds", ast.Constant(builtin), self.terms(inputs), ast.Constant(when_unknown))
                return [*self.count(ast.Constant(PER_CALL)), _unless(test)]
            case Exists(steps, wanted):
                return self.exists(steps, wanted)
            case Aggregation():
                return self.gather(step)
            case Scan() | ComparisonTest():
                return [_unless(self.test(step))]

    def test(self, step: Scan | ComparisonTest) -> ast.expr:
        """Whether a row is there, or a comparison holds."""
        if isinstance(step, ComparisonTest):
            return self.comparison(step)
        slots = [slot for _, slot in step.keys]
        if len(slots) + len(step.constants) < step.arity:
            index = self.access(
                Access(step.relation, _values(step.constants), tuple(column for column, _ in step.keys))
            )
            return ast.Compare(self.key(step), [ast.In()], [index]) if slots else index
        given: dict[int, Term] = {**dict(step.keys), **dict(step.constants)}
        row = self.terms([given[column] for column in range(step.arity)])
        tests = [_known(_load(_slot(slot))) for slot in dict.fromkeys(slots) if slot not in self.sure]
        tests.append(ast.Compare(row, [ast.In()], [self.access(Access(step.relation))]))
        return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)

    def comparison(self, step: ComparisonTest) -> ast.expr:
        """The comparison, with the usual kinds compared in place and the rest by `compare`."""
        left, right = self.term(step.left), self.term(step.right)
        flags = ast.Constant(step.when_unknown), ast.Constant(step.null_test)
        careful = _call("compare", ast.Constant(step.comparator), left, right, *flags)
        slots = [one for one in (step.left, step.right) if isinstance(one, int)]
        if (
            step.when_unknown
            or not slots
            or any(isinstance(one, Const) and _odd(one) for one in (step.left, step.right))
        ):
            return careful
        may_be_null = len(slots) == 2 and not self.sure & set(slots)
        if step.comparator == "=":
            equal = _equal(left, right)
            return ast.BoolOp(ast.And(), [_known(left), equal]) if may_be_null else equal
        if step.comparator == "!=":
            differ: ast.expr = ast.Compare(left, [ast.NotEq()], [right])
            if may_be_null:
                differ = ast.BoolOp(ast.Or(), [differ, ast.Compare(left, [ast.Is()], [ast.Constant(None)])])
            return ast.IfExp(_any_of([_is(_load(_slot(slot)), "Unknown") for slot in slots]), careful, differ)
        ordered = ast.Compare(left, [ORDERS[step.comparator]()], [right])
        constant = next((one.value for one in (step.left, step.right) if isinstance(one, Const)), None)
        if constant is not None:
            return ast.IfExp(_is(_load(_slot(slots[0])), type(constant).__name__), ordered, careful)
        alike = ast.Compare(_call("type", left), [ast.Is(), ast.In()], [_call("type", right), _load("PLAIN")])
        return ast.IfExp(alike, ordered, careful)

    def arithmetic(self, builtin: str, inputs: Sequence[Term], careful: ast.expr) -> ast.expr:
        """Small integers are reckoned with in place."""
        left, right = map(self.term, inputs)
        tests: list[ast.expr] = []
        for fromkey in dict.fromkeys(inputs):
            value = self.term(fromkey)
            within = ast.Compare(_load("LEAST"), [ast.Lt(), ast.Lt()], [value, _load("MOST")])
            tests += [_is(value, "int"), within]
        return ast.IfExp(ast.BoolOp(ast.And(), tests), ast.BinOp(left, ARITHMETIC[builtin](), right), careful)

    def exists(self, steps: Sequence[Step], wanted: bool) -> list[ast.stmt]:
        if len(steps) == 1 and (
            isinstance(steps[0], ComparisonTest) or (isinstance(steps[0], Scan) and steps[0].single)
        ):
            test = self.test(steps[0])
            return [_unless(test) if wanted else ast.If(test, [ast.Continue()], [])]
        flag = self.new("w")
        with self.inside():
            body = self.block(steps, [_put(flag, ast.Constant(True)), ast.Break()], flag)
        found = _load(flag)
        return [
            _put(flag, ast.Constant(False)),
            *body,
            _unless(found) if wanted else ast.If(found, [ast.Continue()], []),
        ]

    def gather(self, step: Aggregation) -> list[ast.stmt]:
        found, value = self.new("s"), _slot(step.slot) if step.stored else self.new("x")
        first = step.terms[0]
        one_by_one = step.function == "count" and len(step.terms) == 1
        term = self.term(first) if one_by_one else self.terms(step.terms)
        add: ast.stmt = ast.Expr(ast.Call(ast.Attribute(_load(found), "add", ast.Load()), [term], []))
        if step.function == "count":
            add = ast.If(_known(self.term(first)), [add], [])
        with self.inside():
            body = self.block(step.steps, [add])
        result = (
            _call("len", _load(found))
            if step.function == "count"
            else _call("aggregate", ast.Constant(step.function), _load(found))
        )
        after: list[ast.stmt] = [_put(value, result)]
        if step.function != "count":
            after.append(_unless(_known(_load(value))))
        if not step.stored:
            after.append(_unless(_equal(_load(value), _load(_slot(step.slot)))))
        return [_put(found, _call("set")), *body, *after]

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What is sure in an inner body is not so after it."""
        sure = set(self.sure)
        yield
        self.sure = sure

    def count(self, rows: ast.expr) -> list[ast.stmt]:
        """Count rows that are looked at, and ask if too many were."""
        self.counts = True
        over = ast.Compare(_load("left"), [ast.Lt()], [ast.Constant(0)])
        return [ast.AugAssign(_store("left"), ast.Sub(), rows), ast.If(over, [_put("left", _call("check"))], [])]

    def key(self, step: Scan) -> ast.expr:
        slots = [slot for _, slot in step.keys]
        return self.term(slots[0]) if len(slots) == 1 else self.terms(slots)

    def terms(self, terms: Sequence[Term]) -> ast.expr:
        return ast.Tuple([self.term(term) for term in terms], ast.Load())

    def term(self, term: Term) -> ast.expr:
        if isinstance(term, int):
            return _load(_slot(term))
        return _load(self.constants.setdefault(term, f"c{len(self.constants)}"))

    def access(self, access: Access) -> ast.expr:
        return _load(self.accesses.setdefault(access, f"a{len(self.accesses)}"))

    def new(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"


def _odd(constant: Const) -> bool:
    """Whether a constant is none that is compared in place."""
    return type(constant.value) not in (int, str)


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


def _know(row: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Subscript(_load("known"), row, ast.Store())], ast.Constant(None))


def _known(value: ast.expr) -> ast.expr:
    return ast.Compare(value, [ast.IsNot()], [ast.Constant(None)])


def _equal(left: ast.expr, right: ast.expr) -> ast.expr:
    return ast.Compare(left, [ast.Eq()], [right])


def _is(value: ast.expr, kind: str) -> ast.expr:
    return ast.Compare(_call("type", value), [ast.Is()], [_load(kind)])


def _any_of(tests: list[ast.expr]) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests)


def _unless(test: ast.expr) -> ast.stmt:
    return ast.If(ast.UnaryOp(ast.Not(), test), [ast.Continue()], [])
