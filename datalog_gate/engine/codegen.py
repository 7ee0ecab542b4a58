"""Compilation of plans to Python functions of nested loops.

No text of a rule is ever compiled: slots, tables and constants are named by number. Equal plans share one function.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FunctionType

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.program import variables
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import Unknown, Value
from datalog_gate.engine.builtins import OF_TEXTS, PER_CALL, SMALL, aggregate, compare, compute, cost, fits, holds
from datalog_gate.engine.least_model import IndexedTable
from datalog_gate.engine.plan import MOST_LOOPS, Plan, TooDeepError
from datalog_gate.schema.declaration import RelationRef

PER_UNKNOWN = 40
"""The steps of a comparison with an unknown value."""
PLAIN = frozenset((int, str))
"""The types whose order in Python is that of the language."""
ARITHMETIC: dict[str, type[ast.operator]] = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult}
ORDERS: dict[str, type[ast.cmpop]] = {"<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE}
GLOBALS: dict[str, object] = {
    **{of.__name__: of for of in (aggregate, compare, compute, cost, fits, holds, int, len, set, str, type, Unknown)},
    "MOST": SMALL,
    "LEAST": -SMALL,
    "PLAIN": PLAIN,
    "__builtins__": {},
}


@dataclass(frozen=True, slots=True)
class Access:
    """The part of a table in which a function looks up rows.

    With `keys` an index by these columns over the rows with these constants; if `keys` is empty, a list of those rows.
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
    """The function of a plan, with its arguments.

    ``work(lookups, constants, known, emit, news, left, check)`` adds each row of the head to `known`. If the plan was
    compiled to emit, it passes each row that was not known to `emit`. `lookups` holds what `accesses` describe, `news`
    the rows of the last round. It counts the steps down from `left`, without those over `news`, and returns what is
    left. With less than none `check(left)` must be called, which returns how many there are before its next call.

    Errors: EvaluationError of the first assignment that fails; any error of `check`.
    """

    work: Callable[..., int]
    accesses: tuple[Access, ...]
    constants: tuple[Value, ...]


@lru_cache(maxsize=4096)
def compile_plan(plan: Plan, emits: bool) -> Compiled:
    """Compile a plan. Errors: TooDeepError."""
    writer = _FunctionWriter()
    body = writer.block(plan.body, _variables(plan.head), writer.head(plan.head, emits), outermost=True)
    start: list[ast.stmt] = []
    for slots, parameter in ((writer.constants.values(), "constants"), (writer.accesses.values(), "lookups")):
        if slots:
            start.append(ast.Assign([ast.Tuple([*map(_store, slots)], ast.Store())], _load(parameter)))
    names = ("lookups", "constants", "known", "emit", "news", "left", "check")
    parameters = [ast.arg(name) for name in names]
    arguments = ast.arguments([], parameters, kwonlyargs=[], kw_defaults=[], defaults=[])
    function = ast.FunctionDef("work", arguments, [*start, *body, ast.Return(_load("left"))], [])
    module = compile(ast.fix_missing_locations(ast.Module([function], [])), "<plan>", "exec")
    (code,) = (co_const for co_const in module.co_consts if isinstance(co_const, CodeType))
    constants = tuple(constant.value for constant in writer.constants)
    return Compiled(FunctionType(code, GLOBALS), tuple(writer.accesses), constants)


@dataclass(slots=True)
class _Scan:
    """A match as a loop over rows, with its columns grouped by content."""

    match: ir.Match
    constants: list[tuple[int, ir.Const]] = field(default_factory=list)
    keys: list[tuple[int, ir.Var]] = field(default_factory=list)
    """Columns that hold the value of a variable."""
    binds: list[tuple[int, ir.Var]] = field(default_factory=list)
    """Columns that bind a variable."""
    twice: list[tuple[int, int]] = field(default_factory=list)
    """Pairs of columns that must have the same value, not null."""

    @property
    def single(self) -> bool:
        """Whether one row is enough."""
        return not (self.binds or self.twice or self.match.new)

    @property
    def repeats(self) -> bool:
        """Whether it may return the same values for several rows, since it reads only some columns."""
        is_partial = 0 < len(self.binds) < len(self.match.arguments) - len(self.constants)
        return is_partial and not (self.keys or self.twice or self.match.new)

    def access(self, distinct: bool = False) -> Access:
        constants = tuple((column, constant.value) for column, constant in self.constants)
        if distinct:
            return Access(self.match.relation, constants, distinct=tuple(column for column, _ in self.binds))
        return Access(self.match.relation, constants, keys=tuple(column for column, _ in self.keys))


@dataclass(slots=True)
class _FunctionWriter:
    """Writes the statements of one function."""

    constants: dict[ir.Const, str] = field(default_factory=dict)
    """The constants with their variables, in the order of the arguments."""
    accesses: dict[Access, str] = field(default_factory=dict)
    """The lookups with their variables, in the order of the arguments."""
    bound: set[ir.Var] = field(default_factory=set)
    """The variables that are bound at the current place."""
    not_null: set[ir.Var] = field(default_factory=set)
    """The variables that are not null at the current place."""
    loops: int = 0
    """The loop depth of the current place."""
    names: int = 0

    def head(self, terms: Iterable[ir.Operand], emits: bool) -> list[ast.stmt]:
        row = self.terms(terms)
        if not emits:
            return [_add_known(row)]
        fresh = ast.Compare(_load("row"), [ast.NotIn()], [_load("known")])
        return [
            _put("row", row),
            ast.If(fresh, [_add_known(_load("row")), ast.Expr(_call("emit", _load("row")))], []),
        ]

    def block(
        self,
        body: Sequence[ir.CheckedLiteral],
        wanted: Set[ir.Var],
        last: list[ast.stmt],
        flag: str | None = None,
        outermost: bool = False,
    ) -> list[ast.stmt]:
        """Statements in a loop that run `last`, which reads the `wanted` variables, for each assignment, until the
        variable `flag` is set if given.

        Loops bind only variables that are read. From the first loop on that binds no wanted variable, the literals of
        the outermost block only have to hold once, unless one may fail. Before a costly literal, duplicate values are
        removed.
        """
        last_read = {var: at for at, literal in enumerate(body) for var in variables(literal)}
        last_read |= dict.fromkeys(wanted, len(body))
        last_costly = max((at for at, literal in enumerate(body) if isinstance(literal, ir.Computing)), default=0)
        statements: list[ast.stmt] = []
        inner, depth = statements, self.loops
        for at, literal in enumerate(body):
            scan = self.scan_of(literal, {var for var in variables(literal) if last_read[var] > at})
            if scan is None or scan.single:
                if inner is statements:
                    inner = self._loop_once(statements)
                inner += self.step(literal)
            elif outermost and at and wanted <= self.bound and all(map(_cannot_fail, body[at:])):
                inner += self.exists(body[at:], wanted=True)
                break
            else:
                around = inner
                inner = self.scan(scan, inner, scan.repeats and at < last_costly)
                if flag and around is not statements:
                    around.append(ast.If(_load(flag), [ast.Break()], []))
        if inner is statements:
            inner = self._loop_once(statements)
        inner += last
        self.loops = depth
        return statements

    def scan_of(self, literal: ir.CheckedLiteral, read_later: Set[ir.Var] = frozenset()) -> _Scan | None:
        if not isinstance(literal, ir.Match):
            return None
        scan = _Scan(literal)
        places: dict[ir.Var, int] = {}
        for column, term in literal.column_terms:
            if isinstance(term, ir.Const):
                scan.constants.append((column, term))
            elif term in self.bound:
                scan.keys.append((column, term))
            elif term in places:
                scan.twice.append((places[term], column))
            else:
                places[term] = column
                if term in read_later:
                    scan.binds.append((column, term))
        return scan

    def scan(self, scan: _Scan, body: list[ast.stmt], distinct: bool) -> list[ast.stmt]:
        rows = _load("news") if scan.match.new else self.access(scan.access(distinct))
        self.bound.update(var for _, var in scan.binds)
        if scan.keys:
            group = self.new("g")
            body.append(_put(group, ast.Call(ast.Attribute(rows, "get", ast.Load()), [self.key(scan)], [])))
            if_group = ast.If(_is_not_null(_load(group)), [], [])
            body.append(if_group)
            body, rows = if_group.body, _load(group)
            self.not_null.update(var for _, var in scan.keys)
        if not scan.match.new:
            body += self.count(_call("len", rows))
        if distinct:
            targets: list[ast.expr] = [_store(var.name) for _, var in scan.binds]
            return self._loop(body, targets[0] if len(targets) == 1 else ast.Tuple(targets, ast.Store()), rows)
        arity = len(scan.match.arguments)
        is_filtered = scan.twice or (scan.match.new and scan.constants)
        if scan.binds and not is_filtered and 2 * len(scan.binds) >= arity:
            names = {column: var.name for column, var in scan.binds}
            target = ast.Tuple([_store(names.get(column, "_")) for column in range(arity)], ast.Store())
            return self._loop(body, target, rows)
        row = self.new("r")
        body = self._loop(body, _store(row), rows)
        if scan.match.new:
            for column, constant in scan.constants:
                body.append(_unless(_equal(_item(row, column), self.term(constant))))
        for first, second in scan.twice:
            equal = _equal(_item(row, first), _item(row, second))
            body.append(_unless(ast.BoolOp(ast.And(), [_is_not_null(_item(row, first)), equal])))
        body += [_put(var.name, _item(row, column)) for column, var in scan.binds]
        return body

    def _loop_once(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """A loop of one round, in which a test can use `continue`."""
        return self._loop(body, _store("_"), ast.Tuple([ast.Constant(None)], ast.Load()))

    def _loop(self, body: list[ast.stmt], target: ast.expr, rows: ast.expr) -> list[ast.stmt]:
        self.loops += 1
        if self.loops > MOST_LOOPS:
            raise TooDeepError("too many nested loops")
        loop = ast.For(target, rows, [], [])
        body.append(loop)
        return loop.body

    def step(self, literal: ir.CheckedLiteral) -> list[ast.stmt]:
        if test := self.test(literal):
            return [*self.unknowns(literal), _unless(test)]
        match literal:
            case ir.Compare(left=left, right=right):
                target, source = (right, left) if left in self.bound or isinstance(left, ir.Const) else (left, right)
                assert isinstance(target, ir.Var)
                self.bound.add(target)
                return [_put(target.name, self.term(source))]
            case ir.Call():
                return self.call(literal)
            case ir.Without(body):
                return self.exists(body, wanted=False)
            case ir.Fold():
                return self.aggregation(literal)
            case ir.Match():
                raise AssertionError("a match that is not a test is a loop")

    def test(self, literal: ir.CheckedLiteral) -> ast.expr | None:
        """The expression of a comparison, or of whether a row exists; None for other literals."""
        if isinstance(literal, ir.Compare) and _variables((literal.left, literal.right)) <= self.bound:
            return self.comparison(literal)
        scan = self.scan_of(literal)
        if scan is None or not scan.single:
            return None
        keys = [var for _, var in scan.keys]
        if len(keys) + len(scan.constants) < len(scan.match.arguments):
            index = self.access(scan.access())
            return ast.Compare(self.key(scan), [ast.In()], [index]) if keys else index
        row = self.terms(term for _, term in scan.match.column_terms)
        tests = [_is_not_null(self.term(var)) for var in dict.fromkeys(keys) if var not in self.not_null]
        tests.append(ast.Compare(row, [ast.In()], [self.access(Access(scan.match.relation))]))
        return _joined(ast.And(), tests)

    def unknowns(self, literal: ir.CheckedLiteral) -> list[ast.stmt]:
        """Count a comparison that must hold only for some value, if a side is unknown: it takes long to decide."""
        if not isinstance(literal, ir.Compare) or not literal.when_unknown:
            return []
        sides = [self.term(side) for side in (literal.left, literal.right) if isinstance(side, ir.Var)]
        tests = [_is_type(side, "Unknown") for side in sides]
        return [ast.If(_joined(ast.Or(), tests), self.count(ast.Constant(PER_UNKNOWN)), [])] if tests else []

    def comparison(self, compare: ir.Compare) -> ast.expr:
        left, right = self.term(compare.left), self.term(compare.right)
        flags = ast.Constant(compare.when_unknown), ast.Constant(compare.null_test)
        general = _call("compare", ast.Constant(compare.comparator), left, right, *flags)
        sides = (compare.left, compare.right)
        variables = [term for term in sides if isinstance(term, ir.Var)]
        constants = [term.value for term in sides if isinstance(term, ir.Const)]
        if compare.when_unknown or not variables or any(type(constant) not in PLAIN for constant in constants):
            return general
        both_may_be_null = len(variables) == 2 and not self.not_null & set(variables)
        if compare.comparator == "=":
            equal = _equal(left, right)
            return ast.BoolOp(ast.And(), [_is_not_null(left), equal]) if both_may_be_null else equal
        if compare.comparator == "!=":
            differ: ast.expr = ast.Compare(left, [ast.NotEq()], [right])
            if both_may_be_null:
                differ = ast.BoolOp(ast.Or(), [differ, ast.Compare(left, [ast.Is()], [ast.Constant(None)])])
            may_be_unknown = _joined(ast.Or(), [_is_type(self.term(var), "Unknown") for var in variables])
            return ast.IfExp(may_be_unknown, general, differ)
        ordered = ast.Compare(left, [ORDERS[compare.comparator]()], [right])
        if constants:
            return ast.IfExp(_is_type(self.term(variables[0]), type(constants[0]).__name__), ordered, general)
        alike = ast.Compare(_call("type", left), [ast.Is(), ast.In()], [_call("type", right), _load("PLAIN")])
        return ast.IfExp(alike, ordered, general)

    def call(self, call: ir.Call) -> list[ast.stmt]:
        name = ast.Constant(call.builtin)
        inputs = self.terms(call.inputs)
        steps = ast.Constant(1 if call.builtin in ARITHMETIC else PER_CALL)
        counted = self.count(_call("cost", inputs) if call.builtin in OF_TEXTS else steps)
        if not call.outputs:
            test = _call("holds", name, inputs, ast.Constant(call.when_unknown))
            return [*counted, _unless(test)]
        value = _call("compute", name, inputs)
        if call.builtin in ARITHMETIC:
            value = self.arithmetic(call, value)
        elif call.builtin == "??":
            first, default = map(self.term, call.inputs)
            value = ast.IfExp(_is_type(first, "Unknown"), value, ast.IfExp(_is_not_null(first), first, default))
        (output,) = call.outputs
        if output is None:
            return [*counted, ast.Expr(value)]
        if isinstance(output, ir.Var) and output not in self.bound:
            self.bound.add(output)
            return [*counted, _put(output.name, value)]
        constant = ast.Constant(isinstance(output, ir.Const))
        return [*counted, _unless(_call("fits", value, self.term(output), constant))]

    def arithmetic(self, call: ir.Call, general: ast.expr) -> ast.expr:
        left, right = map(self.term, call.inputs)
        tests: list[ast.expr] = []
        for term in dict.fromkeys(call.inputs):
            value = self.term(term)
            is_small = ast.Compare(_load("LEAST"), [ast.Lt(), ast.Lt()], [value, _load("MOST")])
            tests += [_is_type(value, "int"), is_small]
        return ast.IfExp(ast.BoolOp(ast.And(), tests), ast.BinOp(left, ARITHMETIC[call.builtin](), right), general)

    def exists(self, body: Sequence[ir.CheckedLiteral], wanted: bool) -> list[ast.stmt]:
        """Continue if some assignment makes the body true, or with `wanted` false, if none does."""
        if len(body) == 1 and (test := self.test(body[0])):
            return [_unless(test) if wanted else _if_continue(test)]
        flag = self.new("w")
        with self.inner_body():
            block = self.block(body, frozenset(), [_put(flag, ast.Constant(True)), ast.Break()], flag)
        test = _load(flag)
        outcome = _unless(test) if wanted else _if_continue(test)
        return [_put(flag, ast.Constant(False)), *block, outcome]

    def aggregation(self, fold: ir.Fold) -> list[ast.stmt]:
        is_stored = fold.target not in self.bound
        rows, value = self.new("s"), fold.target.name if is_stored else self.new("x")
        counts = fold.function == "count"
        first = self.term(fold.terms[0])
        item = first if counts and len(fold.terms) == 1 else self.terms(fold.terms)
        add: ast.stmt = ast.Expr(ast.Call(ast.Attribute(_load(rows), "add", ast.Load()), [item], []))
        if counts:
            add = ast.If(_is_not_null(first), [add], [])
        with self.inner_body():
            body = self.block(fold.body, _variables(fold.terms), [add])
        statements = [_put(rows, _call("set")), *body]
        if counts:
            statements.append(_put(value, _call("len", _load(rows))))
        else:
            aggregated = _call("aggregate", ast.Constant(fold.function), _load(rows))
            statements += [_put(value, aggregated), _unless(_is_not_null(_load(value)))]
        if not is_stored:
            statements.append(_unless(_equal(_load(value), self.term(fold.target))))
        self.bound.add(fold.target)
        return statements

    @contextmanager
    def inner_body(self) -> Iterator[None]:
        """Restore the bound variables after an inner body."""
        bound, not_null = set(self.bound), set(self.not_null)
        yield
        self.bound, self.not_null = bound, not_null

    def count(self, rows: ast.expr) -> list[ast.stmt]:
        over = ast.Compare(_load("left"), [ast.Lt()], [ast.Constant(0)])
        return [
            ast.AugAssign(_store("left"), ast.Sub(), rows),
            ast.If(over, [_put("left", _call("check", _load("left")))], []),
        ]

    def key(self, scan: _Scan) -> ast.expr:
        keys = [var for _, var in scan.keys]
        return self.term(keys[0]) if len(keys) == 1 else self.terms(keys)

    def terms(self, terms: Iterable[ir.Operand]) -> ast.expr:
        return ast.Tuple([self.term(term) for term in terms], ast.Load())

    def term(self, term: ir.Operand) -> ast.expr:
        if isinstance(term, ir.Var):
            return _load(term.name)
        return _load(self.constants.setdefault(term, f"c{len(self.constants)}"))

    def access(self, access: Access) -> ast.expr:
        return _load(self.accesses.setdefault(access, f"a{len(self.accesses)}"))

    def new(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"


def _cannot_fail(literal: ir.CheckedLiteral) -> bool:
    match literal:
        case ir.Without(body) | ir.Fold("count", _, body):
            return all(map(_cannot_fail, body))
        case ir.Compare(comparator):
            return comparator in ("=", "!=")
    return isinstance(literal, ir.Match)


def _variables(terms: Iterable[ir.Operand]) -> set[ir.Var]:
    return {term for term in terms if isinstance(term, ir.Var)}


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
