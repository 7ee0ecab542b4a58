"""The steps of a plan (layer 3): what `plan` decides and `code` makes a function of. Plain data.

Variables are slots, numbered in the order in which they get their values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from datalog_gate.analysis.program import Const, FoldFunction
from datalog_gate.base.errors import EngineError
from datalog_gate.language.ast import Comparator

NEW = "+"
"""What a relation's name begins with where only the rows of the last round are meant."""

MOST_LOOPS = 18
"""Loops in one another: Python takes 20 blocks."""

Term = int | Const
"""A slot, or a constant."""


class TooDeepError(EngineError):
    """A body with more loops in one another than Python takes."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a relation with these `constants` in columns and these slots in the columns `keys`. The columns
    `binds` are put into slots, the pairs of columns `twice` hold the same, which is not null. If `distinct`, what the
    rows hold in `binds` is gone through once, however many hold it."""

    relation: str
    arity: int
    constants: tuple[tuple[int, Const], ...]
    keys: tuple[tuple[int, int], ...]
    binds: tuple[tuple[int, int], ...]
    twice: tuple[tuple[int, int], ...]
    distinct: bool = False

    @property
    def single(self) -> bool:
        """Whether one row is as good as all."""
        return not (self.binds or self.twice or self.relation.startswith(NEW))


@dataclass(frozen=True, slots=True)
class Check:
    """``left comparator right``, as the literal `Compare` means it."""

    comparator: Comparator
    left: Term
    right: Term
    when_unknown: bool
    null_test: bool


@dataclass(frozen=True, slots=True)
class Let:
    """The slot gets the term's value."""

    slot: int
    term: Term


@dataclass(frozen=True, slots=True)
class Ask:
    """A test of a builtin."""

    builtin: str
    inputs: tuple[Term, ...]
    when_unknown: bool


@dataclass(frozen=True, slots=True)
class Compute:
    """A builtin's output goes into the slot `output` if it is `stored`, else it must fit that term, if there is one."""

    builtin: str
    inputs: tuple[Term, ...]
    output: Term | None
    stored: bool


@dataclass(frozen=True, slots=True)
class Exists:
    """Some assignment makes the steps true; or none does, if not `wanted`."""

    steps: tuple[Step, ...]
    wanted: bool


@dataclass(frozen=True, slots=True)
class Gather:
    """The aggregate over the distinct terms goes into the slot if it is `stored`, else it must be the slot's value."""

    function: FoldFunction
    terms: tuple[Term, ...]
    steps: tuple[Step, ...]
    slot: int
    stored: bool


Step = Scan | Check | Let | Ask | Compute | Exists | Gather


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a rule, and the terms of its head."""

    relation: str
    head: tuple[Term, ...]
    steps: tuple[Step, ...]


def slots_read(step: Step) -> Iterator[int]:
    """The slots that a step reads, those that only its own steps fill among them."""
    match step:
        case Scan(keys=keys):
            yield from (slot for _, slot in keys)
        case Check(left=left, right=right):
            yield from _slots(left, right)
        case Let(term=term):
            yield from _slots(term)
        case Ask(inputs=inputs):
            yield from _slots(*inputs)
        case Compute(inputs=inputs, output=output, stored=stored):
            yield from _slots(*inputs, *(() if stored or output is None else (output,)))
        case Exists(steps=steps):
            yield from (slot for step in steps for slot in slots_read(step))
        case Gather(terms=terms, steps=steps, slot=slot, stored=stored):
            yield from (slot for step in steps for slot in slots_read(step))
            yield from _slots(*terms, *(() if stored else (slot,)))


def slots_filled(step: Step) -> Iterator[int]:
    """The slots that have a value after the step."""
    match step:
        case Scan(binds=binds):
            yield from (slot for _, slot in binds)
        case Let(slot=slot) | Gather(slot=slot, stored=True):
            yield slot
        case Compute(output=int(slot), stored=True):
            yield slot
        case _:
            pass


def _slots(*terms: Term) -> Iterator[int]:
    return (term for term in terms if isinstance(term, int))
