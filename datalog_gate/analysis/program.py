"""Checked programs, imported as `ir`: what engines evaluate.

All names are resolved. The literals of a body are in an order that binds each variable before it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from functools import wraps
from operator import is_
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import Value
from datalog_gate.schema.declaration import Relation, RelationRef, whole_version

if TYPE_CHECKING:
    from datalog_gate.analysis.safety import Scoped
    from datalog_gate.language.ast import AggregateFunction, Comparator

FoldFunction: TypeAlias = "AggregateFunction | Literal['tuples']"
"""An aggregate function, or ``tuples``, which collects the tuples for a call of the aggregate: see `Fold`."""
NEGATED: Mapping[Comparator, Comparator] = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "=": "!=", "!=": "="}
SHIFTED: Mapping[Comparator, Comparator] = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
"""The comparators by those that differ only at the bound."""
FLIPPED: Mapping[Comparator, Comparator] = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
"""The comparators by those with exchanged sides."""


class Var(NamedTuple):
    """A variable of a rule."""

    name: str
    """The name that the author wrote, empty for an intermediate result."""
    generated: str = ""
    """Distinguishes variables that the analysis adds from others of the same name."""

    def __str__(self) -> str:
        return f"{self.name}#{self.generated}" if self.generated else self.name


class Const(NamedTuple):
    """A constant in a rule."""

    value: Value


NULL = Const(None)
Operand = Var | Const
Pattern = Var | Const | None
"""An argument of an atom or an output: None is anything."""


@dataclass(frozen=True, slots=True)
class Match:
    """A row of the relation fits the arguments.

    A variable never joins null with null: if another literal, or another argument of this one, binds it too, a null
    does not match here. A constant null does.

    `columns` are the positions of the arguments that are not None, and `column_terms` these arguments with their
    positions: a rule reads few of the columns of a wide relation. An engine sets `new` for a match that reads only the
    rows of the last round.
    """

    relation: RelationRef
    arguments: tuple[Pattern, ...]
    span: Span = field(compare=False)
    new: bool = False
    column_terms: tuple[tuple[int, Operand], ...] = field(init=False, compare=False, repr=False)
    columns: tuple[int, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        column_terms = tuple([(at, term) for at, term in enumerate(self.arguments) if term is not None])
        object.__setattr__(self, "column_terms", column_terms)
        object.__setattr__(self, "columns", tuple([at for at, _ in column_terms]))


@dataclass(frozen=True, slots=True)
class Compare:
    """``left comparator right``. ``=`` with an unbound variable on one side binds it, also to null. ``x = null`` binds
    x only if no other literal does; else it is a test and comes after them.

    `=` and `!=` take any kinds; a variable never equals null through `=`, only a constant null does. The others raise
    on kinds other than two numbers or two strings. `when_unknown` is the answer where an operand is an unknown; an
    unknown equals itself in any case.
    """

    comparator: Comparator
    left: Operand
    right: Operand
    span: Span = field(compare=False)
    when_unknown: bool = False

    @property
    def null_test(self) -> bool:
        """Whether a side is the constant null, the only operand that equals null."""
        return NULL in (self.left, self.right)

    @property
    def from_each_side(self) -> tuple[tuple[Operand, Comparator, Operand], ...]:
        """The comparison from the left, and from the right."""
        return (self.left, self.comparator, self.right), (self.right, FLIPPED[self.comparator], self.left)

    @property
    def equates_variables(self) -> bool:
        return self.comparator == "=" and isinstance(self.left, Var) and isinstance(self.right, Var)


@dataclass(frozen=True, slots=True)
class Call:
    """A builtin: inputs are bound, and the output is matched with the result; a test has no output. A builtin with
    several outputs becomes several calls.

    An operator of the language is the builtin of that name. With an unknown among the inputs each output is the
    unknown ``builtin(inputs)``, and a test answers `when_unknown`.
    """

    builtin: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Pattern, ...]
    span: Span = field(compare=False)
    when_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Without:
    """No assignment of the body's own variables makes the body true. Its other variables are bound before."""

    body: tuple[CheckedLiteral, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Fold:
    """``target = function{ terms : body }`` over the distinct tuples of terms whose first is not null.

    Variables that also occur outside are bound before; the others are local. For no tuples, count and sum give 0, list
    gives "", and the others have no value. Only calls of an aggregate read the target of `tuples`. Their inputs are the
    place and groups of the aggregate, the certain tuples, and the possible ones.
    """

    function: FoldFunction
    terms: tuple[Operand, ...]
    body: tuple[CheckedLiteral, ...]
    target: Var
    span: Span = field(compare=False)


CheckedLiteral = Match | Compare | Call | Without | Fold
Computing = Call | Fold
Nesting = Without | Fold
"""Literals with a body of their own."""


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """``relation(arguments) :- body``."""

    relation: RelationRef
    arguments: tuple[Operand, ...]
    body: tuple[CheckedLiteral, ...]
    span: Span = field(compare=False)
    scoped: Scoped | None = field(default=None, init=False, repr=False, compare=False)
    """The body as `safety.scope` prepares it, once it was asked."""
    _mentioned: frozenset[RelationRef] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def mentioned(self) -> frozenset[RelationRef]:
        """The relations of the body and its inner bodies. Cached, since many checks ask for them."""
        known = self._mentioned
        if known is None:
            known = frozenset([match.relation for match in all_literals(self.body) if isinstance(match, Match)])
            object.__setattr__(self, "_mentioned", known)
        return known

    def reading_new(self, at: int) -> CheckedRule:
        """The rule whose match at a position reads only the rows of the last round."""
        match = self.body[at]
        assert isinstance(match, Match)
        return replace(self, body=(*self.body[:at], replace(match, new=True), *self.body[at + 1 :]))


@dataclass(frozen=True, slots=True)
class Stratum:
    """Relations that are derived together, after all strata before. Only recursive strata need rounds."""

    relations: tuple[RelationRef, ...]
    rules: tuple[CheckedRule, ...]
    recursive: bool


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class CheckedProgram:
    """Rules in strata. A program equals only itself, so that engines can cache what they compute from it."""

    relations: Mapping[RelationRef, Relation]
    inputs: frozenset[RelationRef]
    """The relations that facts fill."""
    strata: tuple[Stratum, ...]

    @property
    def rules(self) -> Iterator[CheckedRule]:
        return (rule for stratum in self.strata for rule in stratum.rules)


P = ParamSpec("P")
T = TypeVar("T")
MAX_ENTRIES = 32
"""The maximum number of cached values for each program, since stacks differ in their unknowns."""


class ProgramCache(Generic[T]):
    """Cached values of one kind, by program and key, freed with the program. Two threads may both compute a value."""

    def __init__(self) -> None:
        self._values: WeakKeyDictionary[CheckedProgram, dict[Hashable, T]] = WeakKeyDictionary()

    def get(self, program: CheckedProgram, key: Hashable, compute: Callable[[], T]) -> T:
        """The value with that key, computed if missing. The program itself is not stored: it would never be freed."""
        values = self._values.setdefault(program, {})
        value = values.get(key)
        if value is None:
            value = compute()
            if len(values) >= MAX_ENTRIES:
                values.clear()
            if value is not program:
                values[key] = value
        return value


def kept(compute: Callable[Concatenate[CheckedProgram, P], T]) -> Callable[Concatenate[CheckedProgram, P], T]:
    """A function of a program and other arguments that keeps its results in a `ProgramCache`."""
    cache = ProgramCache[T]()

    @wraps(compute)
    def get(program: CheckedProgram, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return cache.get(program, (args, *kwargs.values()), lambda: compute(program, *args, **kwargs))

    return get


def group_rules(rules: Iterable[CheckedRule]) -> dict[RelationRef, list[CheckedRule]]:
    """The rules by the relation of their head."""
    groups: dict[RelationRef, list[CheckedRule]] = {}
    for rule in rules:
        groups.setdefault(rule.relation, []).append(rule)
    return groups


def operands(literal: CheckedLiteral) -> tuple[Pattern, ...]:
    """The operands of a literal itself, without those of its inner body."""
    match literal:
        case Match():
            return literal.arguments
        case Compare():
            return literal.left, literal.right
        case Call():
            return *literal.inputs, *literal.outputs
        case Fold():
            return literal.target, *literal.terms
        case Without():
            return ()


def all_literals(body: Iterable[CheckedLiteral]) -> Iterator[CheckedLiteral]:
    """The literals of a body, each followed by those of its inner body."""
    for literal in body:
        yield literal
        if isinstance(literal, Nesting):
            yield from all_literals(literal.body)


def variables(literal: CheckedLiteral) -> Iterator[Var]:
    """Each occurrence of a variable in a literal and its inner bodies."""
    if isinstance(literal, Match):
        for _, term in literal.column_terms:
            if isinstance(term, Var):
                yield term
        return
    yield from [operand for operand in operands(literal) if isinstance(operand, Var)]
    if isinstance(literal, Nesting):
        for inner in literal.body:
            yield from variables(inner)


def find_sources(terms: Iterable[Pattern], body: Collection[CheckedLiteral]) -> Mapping[Var, None]:
    """The variables among the terms, and those that a body computes them from by equations and calls."""
    found = {term: None for term in terms if isinstance(term, Var)}
    before = -1
    while before < len(found):
        before = len(found)
        for literal in body:
            match literal:
                case Compare("=", left, right) if left in found or right in found:
                    found.update({term: None for term in (left, right) if isinstance(term, Var)})
                case Call(_, inputs, outputs) if not found.keys().isdisjoint(outputs):
                    found.update({term: None for term in inputs if isinstance(term, Var)})
    return found


def map_matches(
    body: tuple[CheckedLiteral, ...], change: Callable[[Match], CheckedLiteral]
) -> tuple[CheckedLiteral, ...]:
    """The body with other matches, inside of negations and aggregates too; the same object if none changes."""
    literals = list(body)
    for at, literal in enumerate(body):
        if isinstance(literal, Match):
            literals[at] = change(literal)
        elif isinstance(literal, Nesting) and (inner := map_matches(literal.body, change)) is not literal.body:
            literals[at] = replace(literal, body=inner)
    return body if all(map(is_, literals, body)) else tuple(literals)


def renamed(part: Any, names: Mapping[Var, Operand]) -> Any:
    """The literal or operand, or the tuple of them, with other variables."""
    match part:
        case Var():
            return names.get(part, part)
        case None | Const():
            return part
        case Match(relation, arguments, span, new):
            row = list(arguments)
            for at, term in part.column_terms:
                if isinstance(term, Var):
                    row[at] = names.get(term, term)
            return Match(relation, tuple(row), span, new)
        case Compare(comparator, left, right, span, unknown):
            return Compare(comparator, renamed(left, names), renamed(right, names), span, unknown)
        case Call(builtin, inputs, outputs, span, unknown):
            return Call(builtin, renamed(inputs, names), renamed(outputs, names), span, unknown)
        case Without(body, span):
            return Without(renamed(body, names), span)
        case Fold(function, terms, body, target, span):
            return Fold(function, renamed(terms, names), renamed(body, names), renamed(target, names), span)
    return tuple([renamed(element, names) for element in part])


def find_input(program: CheckedProgram, name: str) -> RelationRef | None:
    """The input for rows that facts give under a name, or None. It is the relation itself, or the given version of a
    relation with rules. A bare name stands for the only relation of that name in any module. Errors: ValueError if
    several modules have it."""
    inputs = {str(whole_version(relation)): relation for relation in program.inputs}
    if name in inputs:
        return inputs[name]
    owners = sorted(full for full in inputs if full.rpartition(":")[2] == name)
    if len(owners) > 1:
        raise ValueError(f"{name} is {' and '.join(owners)}: write the full name")
    return inputs[owners[0]] if owners else None
