"""Plans of rules: the steps of a body in order.

Tests run as soon as their values are known, then negations, aggregates, and the match with the fewest expected rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lower import variables
from datalog_gate.analysis.safety import ScopedLiteral, binds, scope_body, scope_inner
from datalog_gate.base.errors import EngineError
from datalog_gate.language.ast import Comparator
from datalog_gate.schema.declaration import RelationRef

MOST_LOOPS = 18
"""The most nested loops of a function: Python allows 20 nested blocks."""
PER_CONSTANT, PER_VARIABLE = 2.5, 0.4
"""How a known column reduces the expected rows: a constant by the factor 2**2.5, a variable to their power of 0.4."""

NEW_ROWS, TESTS, VALUES, NEGATIONS, AGGREGATES, MATCHES = range(6)
"""The ranks of literals: those of a lower rank come first."""

Size = Callable[[RelationRef], int]
"""The rows of a relation, about, as the logarithm to base 2."""
Term = int | ir.Const  # a slot, or a constant


class TooDeepError(EngineError):
    """A body with more nested loops than Python allows."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A loop over the rows of a relation that fit."""

    relation: RelationRef
    arity: int
    constants: tuple[tuple[int, ir.Const], ...]
    """Columns that hold a constant."""
    keys: tuple[tuple[int, int], ...]
    """Columns that hold the value of a slot."""
    binds: tuple[tuple[int, int], ...]
    """Columns whose values go into slots."""
    twice: tuple[tuple[int, int], ...]
    """Pairs of columns that hold the same value, which is not null."""
    distinct: bool = False
    """Whether to take equal values of the columns `binds` once, however many rows hold them."""
    new: bool = False
    """Whether to read the rows of the last round only."""

    @property
    def single(self) -> bool:
        return not (self.binds or self.twice or self.new)


@dataclass(frozen=True, slots=True)
class ComparisonTest:
    """``left comparator right``, with the meaning of the literal `Compare`."""

    comparator: Comparator
    left: Term
    right: Term
    when_unknown: bool
    null_test: bool


@dataclass(frozen=True, slots=True)
class Let:
    """Puts the term's value into the slot."""

    slot: int
    term: Term


@dataclass(frozen=True, slots=True)
class BuiltinTest:
    """A builtin without output holds."""

    builtin: str
    inputs: tuple[Term, ...]
    when_unknown: bool


@dataclass(frozen=True, slots=True)
class BuiltinCall:
    """A builtin's output goes into the slot `output` if it is `stored`; otherwise it must fit that term, if any."""

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
class Aggregation:
    """The aggregate over the distinct terms goes into the slot if it is `stored`; otherwise it must equal the slot."""

    function: ir.FoldFunction
    terms: tuple[Term, ...]
    steps: tuple[Step, ...]
    slot: int
    stored: bool


Step = Scan | ComparisonTest | Let | BuiltinTest | BuiltinCall | Exists | Aggregation


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a rule, and the terms of its head; a plan does not know whose."""

    head: tuple[Term, ...]
    steps: tuple[Step, ...]


def plan(rule: ir.CheckedRule, size: Size) -> Plan:
    """Plan a rule; a match of new rows comes first. Errors: TooDeepError, before a long body takes much time."""
    planner = _Planner(size, _find_single_use(rule))
    head = [argument for argument in rule.arguments if isinstance(argument, ir.Var)]
    steps = planner.order(scope_body(rule.body, head))
    terms = tuple(map(planner.term, rule.arguments))
    wanted = {term for term in terms if isinstance(term, int)}
    return Plan(terms, _end_loops_early(_drop_unread_binds(steps, wanted), wanted))


@dataclass(slots=True)
class _Planner:
    size: Size
    single_use: frozenset[ir.Var]
    slots: dict[ir.Var, int] = field(default_factory=dict)
    loops: int = 0

    def order(self, body: Sequence[ScopedLiteral]) -> list[Step]:
        pending = list(body)
        steps: list[Step] = []
        outer_loops = self.loops
        while pending:
            ready = [item for item in pending if item.ready(self.slots)]
            if not ready:
                raise EngineError(f"no order of literals binds every variable at {pending[0].literal.span}")
            ranks = [self._rank(item.literal) for item in ready]
            best = min(ranks)
            chosen = [item for item, rank in zip(ready, ranks, strict=True) if rank == best]
            if best[0] not in (TESTS, VALUES):
                del chosen[1:]
            if best[0] in (NEW_ROWS, MATCHES):
                self.loops += 1
            if self.loops > MOST_LOOPS:
                raise TooDeepError(f"too many loops in one another at {chosen[0].literal.span}")
            steps += [self._step(item) for item in chosen]
            pending = [item for item in pending if not any(item is taken for taken in chosen)]
        self.loops = outer_loops
        return steps

    def term(self, operand: ir.Operand) -> Term:
        return operand if isinstance(operand, ir.Const) else self.slots[operand]

    def _rank(self, literal: ir.CheckedLiteral) -> tuple[int, float]:
        match literal:
            case ir.Match(relation, arguments):
                if literal.new:
                    return NEW_ROWS, 0.0
                if not self._binds_slot(literal):
                    return TESTS, 0.0
                power = float(self.size(relation))
                for argument in arguments:
                    if isinstance(argument, ir.Const):
                        power -= PER_CONSTANT
                    elif argument in self.slots:
                        power *= PER_VARIABLE
                return MATCHES, max(power, 0.0)
            case ir.Compare() | ir.Call():
                return (VALUES if self._binds_slot(literal) else TESTS), 0.0
            case ir.Without():
                return NEGATIONS, 0.0
            case ir.Fold():
                return AGGREGATES, 0.0

    def _binds_slot(self, literal: ir.CheckedLiteral) -> bool:
        return any(var not in self.slots and var not in self.single_use for var in binds(literal))

    def _step(self, item: ScopedLiteral) -> Step:
        match item.literal:
            case ir.Match() as literal:
                return self._scan(literal)
            case ir.Compare(comparator, left, right, _, when_unknown) as literal:
                for side, other in ((left, right), (right, left)):
                    if isinstance(side, ir.Var) and side not in self.slots:
                        term = self.term(other)
                        return Let(self._fill(side), term)
                return ComparisonTest(comparator, self.term(left), self.term(right), when_unknown, literal.null_test)
            case ir.Call(builtin, inputs, outputs, _, when_unknown):
                terms = tuple(map(self.term, inputs))
                if not outputs:
                    return BuiltinTest(builtin, terms, when_unknown)
                (output,) = outputs
                if isinstance(output, ir.Var) and output not in self.slots:
                    return BuiltinCall(builtin, terms, self._fill(output), stored=True)
                return BuiltinCall(builtin, terms, None if output is None else self.term(output), stored=False)
            case ir.Without() as literal:
                steps = _drop_unread_binds(self.order(scope_inner(literal, item.needs)), set())
                return Exists(steps, wanted=False)
            case ir.Fold(function, folded) as literal:
                ordered = self.order(scope_inner(literal, item.needs))
                terms = tuple(map(self.term, folded))
                steps = _drop_unread_binds(ordered, {term for term in terms if isinstance(term, int)})
                stored = literal.target not in self.slots
                slot = self._fill(literal.target) if stored else self.slots[literal.target]
                return Aggregation(function, terms, steps, slot, stored)

    def _scan(self, literal: ir.Match) -> Scan:
        constants: list[tuple[int, ir.Const]] = []
        keys: list[tuple[int, int]] = []
        bound: dict[ir.Var, tuple[int, int]] = {}
        twice: list[tuple[int, int]] = []
        for column, argument in enumerate(literal.arguments):
            match argument:
                case ir.Const():
                    constants.append((column, argument))
                case ir.Var() if argument in self.single_use:
                    pass
                case ir.Var() if argument in bound:
                    twice.append((bound[argument][0], column))
                case ir.Var() if argument in self.slots:
                    keys.append((column, self.slots[argument]))
                case ir.Var():
                    bound[argument] = column, self._fill(argument)
        columns = tuple(constants), tuple(keys), tuple(bound.values()), tuple(twice)
        return Scan(literal.relation, len(literal.arguments), *columns, new=literal.new)

    def _fill(self, var: ir.Var) -> int:
        return self.slots.setdefault(var, len(self.slots))


def _drop_unread_binds(steps: Sequence[Step], live: set[int]) -> tuple[Step, ...]:
    """The steps without the binds of slots that no later step reads; the slots `live` are read after the last step.

    A full scan that binds a part of the columns takes equal values once if a costly step follows.
    """
    live = set(live)
    kept: list[Step] = []
    for step in reversed(steps):
        if isinstance(step, Scan):
            binds = tuple(bind for bind in step.binds if bind[1] in live)
            is_partial = 0 < len(binds) < step.arity - len(step.constants)
            is_full_scan = not (step.keys or step.twice or step.new)
            is_costly = any(isinstance(later, BuiltinTest | BuiltinCall | Aggregation) for later in kept)
            step = replace(step, binds=binds, distinct=is_partial and is_full_scan and is_costly)
        kept.append(step)
        live.update(slots_read(step))
    return tuple(reversed(kept))


def _end_loops_early(steps: tuple[Step, ...], wanted: set[int]) -> tuple[Step, ...]:
    """The steps; from the first loop on that fills no wanted slot they are one `Exists`, unless one may fail."""
    missing = set(wanted)
    for at, step in enumerate(steps):
        if not missing and at and isinstance(step, Scan) and not step.single:
            rest = steps[at:]
            return (*steps[:at], Exists(rest, wanted=True)) if all(map(_cannot_fail, rest)) else steps
        missing.difference_update(slots_filled(step))
    return steps


def _cannot_fail(step: Step) -> bool:
    match step:
        case Exists(steps) | Aggregation("count", _, steps):
            return all(map(_cannot_fail, steps))
        case ComparisonTest(comparator):
            return comparator in ("=", "!=")
    return isinstance(step, Scan | Let)


def slots_read(step: Step) -> Iterator[int]:
    """The slots that a step reads, with those that only its own steps fill."""
    match step:
        case Scan(keys=keys):
            yield from (slot for _, slot in keys)
        case ComparisonTest(_, left, right):
            yield from _slots(left, right)
        case Let(_, term):
            yield from _slots(term)
        case BuiltinTest(_, inputs):
            yield from _slots(*inputs)
        case BuiltinCall(_, inputs, output, stored):
            yield from _slots(*inputs, *(() if stored else (output,)))
        case Exists(steps=steps):
            yield from (slot for step in steps for slot in slots_read(step))
        case Aggregation(terms=terms, steps=steps, slot=slot, stored=stored):
            yield from (slot for step in steps for slot in slots_read(step))
            yield from _slots(*terms)
            if not stored:
                yield slot


def slots_filled(step: Step) -> Iterator[int]:
    match step:
        case Scan(binds=binds):
            yield from (slot for _, slot in binds)
        case Let(slot=slot) | Aggregation(slot=slot, stored=True) | BuiltinCall(output=int(slot), stored=True):
            yield slot


def _slots(*terms: Term | None) -> Iterator[int]:
    return (term for term in terms if isinstance(term, int))


def _find_single_use(rule: ir.CheckedRule) -> frozenset[ir.Var]:
    """The variables that occur once: in a match they stand for any value."""
    counts = Counter(var for literal in rule.body for var in variables(literal))
    counts.update(argument for argument in rule.arguments if isinstance(argument, ir.Var))
    return frozenset(var for var, count in counts.items() if count == 1)
