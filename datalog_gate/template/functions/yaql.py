"""The function `yaql`: Heat's own library answers it, within a budget.

Heat's engine checks only the finished result, and follows an endless list forever. So here every call, value and
comparison has a cost. The answer is unknown if it exceeds the budget or Heat's default limits, and for functions that
create large values (`pow`), may search forever (regular expressions), define others, or are not deterministic (clocks,
random numbers, sets).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Set, Sized, ValuesView
from contextvars import ContextVar
from copy import copy
from functools import cache
from typing import Any, NamedTuple, TypeGuard

from datalog_gate.stack.model import Data
from datalog_gate.template.document import Spend
from datalog_gate.template.functions.pure import BadFunction, Undecided, require_known

LIMITS = {"yaql.limitIterators": 200, "yaql.memoryQuota": 10_000}
"""The defaults of heat/common/config.py."""
BUDGET = 640_000
"""The budget in steps of a reading."""
LONGEST = 10_000
MAX_SIZE = 20_000
MAX_BITS = 4_096
_CALL, _ITERATOR, _NODE, _COMPARED, _LETTERS = 300, 320, 4, 2, 32
"""The costs of a call, an iterator, a part of a created value, and a compared key; the letters for one unit."""
_PER_ANSWER, _READ, _DEEP = 200, 10, 30
"""The cost of an answer besides its calls, and of each character of an expression that is parsed, or nests too deep."""
_OPERATORS = (
    "#operator_. #operator_?. #operator_-> #operator_+ #operator_- #operator_* #operator_/ #operator_mod #operator_in "
    "#operator_< #operator_<= #operator_> #operator_>= #operator_and #operator_or #unary_operator_+ #unary_operator_- "
    "#unary_operator_not *equal *not_equal #get_context_data #indexer #list #map #iter #finalize"
)
_FUNCTIONS = (
    "abs accumulate aggregate all any append assert bitwiseAnd bitwiseNot bitwiseOr bitwiseXor bool coalesce concat "
    "contains containsKey containsValue count delete deleteAll dict distinct endsWith enumerate examine filter first "
    "flatten float get groupBy hex indexOf indexWhere insert insertMany int isBoolean isDict isEmpty isInteger "
    "isIterable isList isNumber isString items join keys last lastIndexOf lastIndexWhere len let limit list map max "
    "mergeWith min norm orderBy orderByDescending range reduce repeat replace replaceMany reverse rightSplit round "
    "select selectAllCases selectCase selectMany set sign single skip skipWhile slice sliceWhere split splitAt "
    "splitWhere startsWith str substring sum switch switchCase take takeWhile thenBy thenByDescending toCharArray "
    "toDict toList toLower toUpper trim trimLeft trimRight unpack values where with zip zipLongest"
)
ALLOWED = frozenset((*_OPERATORS.split(), *_FUNCTIONS.split()))
_WALKED = {"#operator_.", "#get_context_data"}
"""Functions that take one part of their argument, and read nothing else."""
_LIMITED = {"CollectionTooLargeException", "MemoryQuotaExceededException"}
_FAILURES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, StopIteration, TypeError,
    ValueError,
)  # fmt: skip
"""Exceptions of functions that the library does not catch."""
_REASONS = {
    "KeyError": "a key is missing",
    "IndexError": "an item is missing",
    "StopIteration": "a list has no item",
    "AssertionError": "an assertion does not hold",
    "NoFunctionRegisteredException": "it calls a function that does not exist",
    "NoMethodRegisteredException": "it calls a method that does not exist",
    "NoMatchingFunctionException": "a function does not accept these arguments",
    "NoMatchingMethodException": "a method does not accept these arguments",
}


class _Stop(BaseException):  # not an Exception: the library ignores some of those
    """The answer will remain unknown."""


def answer(expression: str, data: Data, queries: dict[str, Any], spend: Spend) -> Data:
    """The value of the expression over the data. `spend` gets the cost, even if there is no value, and `queries` the
    parsed expression. Errors: BadFunction if Heat refuses it too, Undecided. Messages show no values, since any may be
    hidden."""
    if len(expression) > LONGEST:
        raise Undecided
    meter = _Meter()
    token = _METER.set(meter)
    try:
        if expression not in queries:
            spend(_READ * len(expression))
            queries[expression] = _parse(_engine(), expression)
        return _evaluate(_engine(), queries[expression], data)
    except RecursionError:
        meter.left -= _DEEP * len(expression)
        raise Undecided from None
    except _Stop:
        raise Undecided from None
    finally:
        _METER.reset(token)
        spend(_PER_ANSWER + BUDGET - meter.left)


def _parse(engine: _Engine, expression: str) -> Any:
    try:
        return engine.parse(expression)
    except (engine.problem, ValueError) as error:  # also an invalid number or escape
        at = getattr(error, "position", None)
        where = "" if at is None else " at character {}"
        raise BadFunction(f"has an expression that can't be read{where}", None if at is None else at + 1) from None


def _evaluate(engine: _Engine, query: Any, data: Data) -> Data:
    require_known(data)
    _METER.get().size(data)
    try:
        value = query.evaluate(engine.frozen({"data": data}), engine.context.create_child_context())
    except RecursionError:
        raise
    except (engine.problem, *_FAILURES) as error:
        kind = type(error).__name__
        if kind in _LIMITED:
            raise Undecided from None
        raise BadFunction(f"has an expression that gives no value: {_REASONS.get(kind, kind)}") from None
    if not _is_plain(value):
        raise Undecided
    return value


def _is_plain(value: object) -> TypeGuard[Data]:
    """Whether a template can contain the value. The library also returns sets, its own contexts and `nan`."""
    match value:
        case dict():
            return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
        case list():
            return all(map(_is_plain, value))
        case float():
            return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


@cache
def _engine() -> _Engine:
    import yaql
    from yaql.language import contexts, conventions, exceptions, factory, specs, utils

    class Map(utils.FrozenDict):  # type: ignore[misc]
        """A map that counts the cost of comparisons, for which the library copies both maps."""

        def __eq__(self, other: object) -> Any:
            if isinstance(other, Mapping) and len(other) != len(self):
                return False
            _METER.get().spend(_CALL + len(self) * _COMPARED)
            return super().__eq__(other)

        __hash__ = utils.FrozenDict.__hash__

    def frozen(value: object) -> object:
        if isinstance(value, dict):
            return Map((key, frozen(part)) for key, part in value.items())
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    def metered(value: object) -> object:
        return Map(value) if type(value) is utils.FrozenDict else value

    class Context(contexts.Context):  # type: ignore[misc]
        """The names that an expression sees. Every lookup has a cost, since contexts nest as deep as expressions."""

        def register_function(self, spec: Any, *arguments: Any, **named: Any) -> None:
            if not isinstance(spec, specs.FunctionDefinition):
                spec = specs.get_function_definition(spec, *arguments, convention=self.convention, **named)
            spec.payload = _meter(spec.name, spec.payload, metered)
            super().register_function(spec)

        def get_functions(self, *arguments: Any, **named: Any) -> Any:
            _METER.get().spend(1)
            return super().get_functions(*arguments, **named)

        def get_data(self, *arguments: Any, **named: Any) -> Any:
            _METER.get().spend(1)
            return super().get_data(*arguments, **named)

    context = yaql.create_context(context=Context(convention=conventions.CamelCaseConvention()))
    shared = yaql.YaqlFactory().create({**LIMITS, "yaql.convertInputData": False})

    def parse(expression: str) -> Any:  # lexer and parser have state, and threads share them
        return factory.YaqlEngine(shared.lexer.clone(), copy(shared.parser), shared.options, shared.factory)(expression)

    return _Engine(parse, context, frozen, exceptions.YaqlException)


class _Engine(NamedTuple):
    """The library's parser, the context with its functions, its data conversion, and its exceptions."""

    parse: Callable[[str], Any]
    context: Any
    frozen: Callable[[object], object]
    problem: type[Exception]


class _Meter:
    """The remaining budget, and the sizes of the collections of one answer, kept alive so that ids stay unique."""

    def __init__(self) -> None:
        self.left = BUDGET
        self.sizes: dict[int, tuple[int, object]] = {}

    def spend(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            raise _Stop

    def size(self, value: object) -> int:
        """The number of parts of a value, with shared parts counted at each use. New parts have a cost."""
        if isinstance(value, str):
            self.spend(len(value) // _LETTERS)
        elif isinstance(value, int):
            if value.bit_length() > MAX_BITS:
                raise _Stop
        elif isinstance(value, list | tuple | Mapping | Set | ValuesView):
            if known := self.sizes.get(id(value)):
                return known[0]
            self.spend(len(value) * _NODE)
            parts: Iterable[object] = (*value, *value.values()) if isinstance(value, Mapping) else value
            size = 1 + sum(map(self.size, parts))
            if size > MAX_SIZE:
                raise _Stop
            self.sizes[id(value)] = size, value
            return size
        return 1

    def each(self, items: Iterator[object]) -> Iterator[object]:
        """Yield the items, each with a cost when it is taken, which limits endless lists."""
        for item in items:
            self.spend(_NODE + self.size(item))
            yield item


_METER: ContextVar[_Meter] = ContextVar("meter")
"""The meter of this thread's query."""


def _meter(name: str, payload: Callable[..., object], metered: Callable[[object], object]) -> Callable[..., object]:
    """The function of the library with a cost. A forbidden one ends the query only when it is called."""

    def call(*arguments: object, **named: object) -> object:
        if name not in ALLOWED:
            raise _Stop
        meter = _METER.get()
        given = (*arguments, *named.values())
        looked = () if name in _WALKED else given
        meter.spend(_CALL + sum(meter.size(value) for value in looked if not isinstance(value, str)))
        if name == "str" and not isinstance(given[0], str | int | float | None):
            raise _Stop  # as Python writes it
        if grown := _COSTS.get(name):
            meter.spend(grown(*given))
        value = metered(payload(*arguments, **named))
        meter.size(value)
        if isinstance(value, Iterator):
            meter.spend(_ITERATOR)
            return meter.each(value)
        return value

    return call


def _repetition_cost(left: object, right: object, *_: object) -> int:
    """The cost of a product, which may be a repeated list."""
    times, value = (left, right) if isinstance(left, int) else (right, left)
    return len(value) * times if isinstance(value, Sized) and isinstance(times, int) and times > 0 else 0


def _replacement_cost(value: object, old: object, new: object, *_: object) -> int:
    """The cost of a replacement, whose result is created before its length is checked, and grows with a map."""
    if not isinstance(value, str):
        return 0
    return value.count(old) * len(new) // _LETTERS if isinstance(old, str) and isinstance(new, str) else BUDGET + 1


_COSTS: dict[str, Callable[..., int]] = {"#operator_*": _repetition_cost, "replace": _replacement_cost}
