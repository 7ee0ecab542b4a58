"""Checked programs, imported as `ir`: what engines evaluate.

Everything is resolved. The literals of a body stand in one of the orders that bind each variable before it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass
from datalog_gate.base.values import Value
from datalog_gate.schema.declaration import Relation, RelationRef, whole_version

if TYPE_CHECKING:
    from datalog_gate.language.ast import AggregateFunction, Comparator

FoldFunction: TypeAlias = "AggregateFunction | Literal['tuples']"
"""An aggregate function, or ``tuples``, which collects the tuples for a call of the aggregate: see `Fold`."""


class Var(NamedTuple):
    """A variable of a rule."""

    name: str
    """The name that the author wrote, empty for an intermediate result."""
    generated: str = ""
    """Set for a variable that the analysis adds, to distinguish it from others of that name."""

    def __str__(self) -> str:
        return f"{self.name}#{self.generated}" if self.generated else self.name


class Const(NamedTuple):
    """A constant of a rule."""

    value: Value


Operand = Var | Const
Pattern = Var | Const | None
"""An argument of an atom or an output: None is anything."""


@dataclass(frozen=True, slots=True)
class Match:
    """A row of the relation fits the arguments.

    A variable never matches null with null: one that another literal binds too does not match a null here (inside an
    atom, twice the same variable neither); a constant null does.

    `columns` are the positions of the arguments that are not None, and `column_terms` these arguments with their
    positions: a rule reads few of the columns of a wide relation. An engine marks a match as `new` that reads only the
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
    """``left comparator right``. With ``=`` and one side an unbound variable, it binds that variable (null too);
    ``x = null`` binds only where no other literal binds x, else it is a test and comes after those.

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
        """Whether a side is a null that is written out, which alone equals null."""
        return Const(None) in (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Call:
    """A builtin: inputs are bound, the output is matched with what it gives; a test has none. One with several outputs
    is several calls, of its parts.

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

    Variables that occur outside too are bound before; the rest are local. Empty: count and sum 0, list "", else false.
    The target of one of `tuples` is read by calls of an aggregate alone: their inputs are what it is known by, then the
    tuples that are there for certain, then those that may be.
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
    _mentioned: frozenset[RelationRef] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def mentioned(self) -> frozenset[RelationRef]:
        """The relations of the body, with those of the bodies in it. A dozen checks ask for them."""
        known = self._mentioned
        if known is None:
            known = frozenset(mentioned(self.body))
            object.__setattr__(self, "_mentioned", known)
        return known


@dataclass(frozen=True, slots=True)
class Stratum:
    """Relations that are derived together, after those of all strata before. Only a recursive one needs rounds."""

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
    rewritten: int = 0
    """The number of rules that were added because of unknowns."""

    @property
    def rules(self) -> Iterator[CheckedRule]:
        return (rule for stratum in self.strata for rule in stratum.rules)


T = TypeVar("T")
MAX_ENTRIES = 32
"""The maximum number of cached values for each program: stacks differ in their unknowns."""


class ProgramCache(Generic[T]):
    """Values of one kind by program and key, freed with the program. If two threads need one, both compute it."""

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


def mentioned(body: Sequence[CheckedLiteral]) -> set[RelationRef]:
    """The relations of a body, with those of the bodies in it."""
    names: set[RelationRef] = set()
    for literal in body:
        if isinstance(literal, Match):
            names.add(literal.relation)
        elif isinstance(literal, Nesting):
            names |= mentioned(literal.body)
    return names


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
    """The input that takes the rows which facts give under a name, or None.

    It is the relation itself, or the given version of one that has rules. A bare name means the relation of the one
    module that has it. Errors: ValueError if several modules have it.
    """
    inputs = {str(whole_version(relation)): relation for relation in program.inputs}
    if name in inputs:
        return inputs[name]
    owners = sorted(full for full in inputs if full.rpartition(":")[2] == name)
    if len(owners) > 1:
        raise ValueError(f"{name} is {' and '.join(owners)}: write the full name")
    return inputs[owners[0]] if owners else None
