"""Plans of rules (layer 3): in which order a body is gone through, and what each step looks up.

In: a checked rule, and about how many rows the relations hold. Out: a `Plan`. Every choice is made by what a literal
says, never by where it stands: rules that are equal up to the names of variables and the order of literals have equal
plans. Tests run as soon as their values are there, then negations, then aggregates, then the match with the fewest rows
to expect. Where no more of the head's variables are to come, the rest only has to exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from datalog_gate.analysis.lower import variables
from datalog_gate.analysis.program import (
    Call,
    CheckedLiteral,
    CheckedRule,
    Compare,
    Const,
    Fold,
    FoldFunction,
    Match,
    Operand,
    Pattern,
    Var,
    Without,
)
from datalog_gate.analysis.safety import Scoped, binds, inner, scoped
from datalog_gate.base.errors import EngineError
from datalog_gate.base.values import sort_key
from datalog_gate.language.ast import Comparator

MOST_LOOPS = 18
"""Loops in one another: Python takes 20 blocks."""
TELLING_APART = 3
"""How often variables are told apart by what stands around them."""
PER_CONSTANT, PER_VARIABLE = 2.5, 0.4
"""What a bound column leaves of the rows to expect: these powers of two less, or this part of the power."""

Size = Callable[[str], int]
"""About how many rows a relation holds: a power of two."""
Said = tuple[object, ...]
"""What a literal says, to be compared and sorted."""
Term = int | Const
"""A slot, or a constant."""


class TooDeepError(EngineError):
    """A body with more loops in one another than Python takes."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a relation with these `constants` in columns and these slots in the columns `keys`. The columns
    `binds` are put into slots, the pairs of columns `twice` hold the same, which is not null. If `distinct`, what the
    rows hold in `binds` is gone through once, however many hold it. If `new`, it reads the rows of the last round."""

    relation: str
    arity: int
    constants: tuple[tuple[int, Const], ...]
    keys: tuple[tuple[int, int], ...]
    binds: tuple[tuple[int, int], ...]
    twice: tuple[tuple[int, int], ...]
    distinct: bool = False
    new: bool = False

    @property
    def single(self) -> bool:
        """Whether one row is as good as all."""
        return not (self.binds or self.twice or self.new)


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


def plan(rule: CheckedRule, size: Size) -> Plan:
    """The plan of a rule. A match of new rows comes first.

    Errors: TooDeepError, before a very long body costs much.
    """
    planner = _Planner(size, _colours(rule), _once(rule))
    head = [argument for argument in rule.arguments if isinstance(argument, Var)]
    steps = planner.steps(scoped(rule.body, head))
    terms = tuple(map(planner.term, rule.arguments))
    wanted = {term for term in terms if isinstance(term, int)}
    return Plan(rule.relation, terms, _shortened(_pruned(steps, wanted), wanted))


@dataclass(slots=True)
class _Planner:
    size: Size
    colours: Mapping[Var, int]
    once: frozenset[Var]
    slots: dict[Var, int] = field(default_factory=dict)
    loops: int = 0

    def term(self, operand: Operand) -> Term:
        return operand if isinstance(operand, Const) else self.slots[operand]

    def steps(self, body: Sequence[Scoped]) -> list[Step]:
        """The steps of a body, in order."""
        pending = list(body)
        ordered: list[Step] = []
        around = self.loops
        while pending:
            ready = [one for one in pending if one.ready(self.slots)]
            if not ready:
                raise EngineError(f"no order of literals binds every variable at {pending[0].literal.span}")
            ranks = [self._rank(one.literal) for one in ready]
            best = min(ranks)
            chosen = [one for one, rank in zip(ready, ranks, strict=True) if rank == best]
            if len(chosen) > 1:
                chosen.sort(key=lambda one: _said(one.literal, self._known))
            chosen = chosen if best[0] in (TESTS, VALUES) else chosen[:1]
            self.loops += best[0] in (NEWS, MATCHES)
            if self.loops > MOST_LOOPS:
                raise TooDeepError(f"too many loops in one another at {chosen[0].literal.span}")
            ordered += [self._step(one) for one in chosen]
            taken = set(map(id, chosen))
            pending = [one for one in pending if id(one) not in taken]
        self.loops = around
        return ordered

    def _rank(self, literal: CheckedLiteral) -> tuple[int, float]:
        """What comes first: the new rows, then what binds nothing and costs little, then by what is to be expected."""
        match literal:
            case Match(relation, arguments):
                if literal.new:
                    return NEWS, 0.0
                if not self._new(literal):
                    return TESTS, 0.0
                power = float(self.size(relation))
                for argument in arguments:
                    if isinstance(argument, Const):
                        power -= PER_CONSTANT
                    elif argument in self.slots:
                        power *= PER_VARIABLE
                return MATCHES, max(power, 0.0)
            case Compare() | Call():
                return (VALUES if self._new(literal) else TESTS), 0.0
            case Without():
                return NEGATIONS, 0.0
            case Fold():
                return AGGREGATES, 0.0

    def _new(self, literal: CheckedLiteral) -> bool:
        """Whether the literal gives a variable its value."""
        return any(bind not in self.slots and bind not in self.once for bind in binds(literal))

    def _known(self, var: Var) -> tuple[int, int]:
        return (1, self.slots[var]) if var in self.slots else (2, self.colours[var])

    def _step(self, one: Scoped) -> Step:
        match one.literal:
            case Match() as literal:
                return self._scan(literal)
            case Compare(comparator, left, right, _, when_unknown) as literal:
                for side, other in ((left, right), (right, left)):
                    if isinstance(side, Var) and side not in self.slots:
                        term = self.term(other)
                        return Let(self._fill(side), term)
                return Check(comparator, self.term(left), self.term(right), when_unknown, literal.null_test)
            case Call(builtin, inputs, outputs, _, when_unknown):
                terms = tuple(map(self.term, inputs))
                if not outputs:
                    return Ask(builtin, terms, when_unknown)
                (output,) = outputs
                if isinstance(output, Var) and output not in self.slots:
                    return Compute(builtin, terms, self._fill(output), stored=True)
                return Compute(builtin, terms, None if output is None else self.term(output), stored=False)
            case Without() as literal:
                return Exists(_pruned(self.steps(inner(literal, one.needs)), set()), wanted=False)
            case Fold(function, operands) as literal:
                steps = self.steps(inner(literal, one.needs))
                terms = tuple(map(self.term, operands))
                wanted = {term for term in terms if isinstance(term, int)}
                stored = literal.target not in self.slots
                slot = self._fill(literal.target) if stored else self.slots[literal.target]
                return Gather(function, terms, _pruned(steps, wanted), slot, stored)

    def _scan(self, literal: Match) -> Scan:
        constants: list[tuple[int, Const]] = []
        keys: list[tuple[int, int]] = []
        found: dict[Var, tuple[int, int]] = {}
        twice: list[tuple[int, int]] = []
        for column, argument in enumerate(literal.arguments):
            match argument:
                case Const():
                    constants.append((column, argument))
                case Var() if argument in self.once:
                    pass
                case Var() if argument in found:
                    twice.append((found[argument][0], column))
                case Var() if argument in self.slots:
                    keys.append((column, self.slots[argument]))
                case Var():
                    found[argument] = column, self._fill(argument)
        return Scan(
            literal.relation,
            len(literal.arguments),
            tuple(constants),
            tuple(keys),
            tuple(found.values()),
            tuple(twice),
            new=literal.new,
        )

    def _fill(self, var: Var) -> int:
        return self.slots.setdefault(var, len(self.slots))


NEWS, TESTS, VALUES, NEGATIONS, AGGREGATES, MATCHES = range(6)
"""The ranks of literals."""


def _pruned(steps: Sequence[Step], live: set[int]) -> tuple[Step, ...]:
    """The steps without the binding of slots that nothing reads; those `live` are read after the last step. Rows that
    then come to the same are gone through once if what follows costs much, and they are no rows of a lookup."""
    live = set(live)
    kept: list[Step] = []
    for step in reversed(steps):
        if isinstance(step, Scan):
            binds = tuple(bind for bind in step.binds if bind[1] in live)
            partly = 0 < len(binds) < step.arity - len(step.constants)
            plain = not (step.keys or step.twice or step.new)
            costly = any(isinstance(one, Ask | Compute | Gather) for one in kept)
            step = replace(step, binds=binds, distinct=partly and plain and costly)
        kept.append(step)
        live.update(slots_read(step))
    return tuple(reversed(kept))


def _shortened(steps: tuple[Step, ...], wanted: set[int]) -> tuple[Step, ...]:
    """The steps; those from the first loop on that fills no wanted slot only have to be true once, if none of them can
    meet an error, which counts even where the row is derived otherwise."""
    missing = set(wanted)
    for at, step in enumerate(steps):
        if not missing and at and isinstance(step, Scan) and not step.single:
            return (*steps[:at], Exists(steps[at:], wanted=True)) if all(map(_quiet, steps[at:])) else steps
        missing.difference_update(slots_filled(step))
    return steps


def _quiet(step: Step) -> bool:
    """Whether a step meets no errors."""
    match step:
        case Scan() | Let():
            return True
        case Check(comparator):
            return comparator in ("=", "!=")
        case Exists(steps):
            return all(map(_quiet, steps))
        case Gather(function, _, steps):
            return function == "count" and all(map(_quiet, steps))
        case Ask() | Compute():
            return False


def _once(rule: CheckedRule) -> frozenset[Var]:
    """The variables that occur once: in a match they stand for anything."""
    counts = Counter(var for literal in rule.body for var in variables(literal))
    counts.update(argument for argument in rule.arguments if isinstance(argument, Var))
    return frozenset(var for var, count in counts.items() if count == 1)


def _colours(rule: CheckedRule) -> dict[Var, int]:
    """A number for each variable by where it stands in the head, and in literals with what other variables: equal for
    those that only their names tell apart. The refinement of B. Weisfeiler and A. Leman, 1968."""
    every = {var for literal in rule.body for var in variables(literal)}
    every.update(argument for argument in rule.arguments if isinstance(argument, Var))
    colours = _ranked({var: tuple(at for at, term in enumerate(rule.arguments) if term == var) for var in every})
    for _ in range(TELLING_APART):
        around: dict[Var, list[tuple[Said, int]]] = {var: [] for var in every}
        for literal in rule.body:
            _note(literal, colours, around)
        colours = _ranked({var: (colours[var], tuple(sorted(found))) for var, found in around.items()})
    return colours


def _note(literal: CheckedLiteral, colours: Mapping[Var, int], around: Mapping[Var, list[tuple[Said, int]]]) -> None:
    """Note for each variable of the literal what the literal says, and where in it the variable stands."""
    operands: tuple[Pattern, ...] = ()
    match literal:
        case Match():
            operands = literal.arguments
        case Compare():
            operands = literal.left, literal.right
        case Call():
            operands = *literal.inputs, *literal.outputs
        case Without():
            pass
        case Fold():
            operands = literal.target, *literal.terms
    said = _said(literal, lambda var: (2, colours[var]))
    for at, term in enumerate(operands):
        if isinstance(term, Var):
            around[term].append((said, at))
    if isinstance(literal, Without | Fold):
        for inside in literal.body:
            _note(inside, colours, around)


def _ranked(keys: Mapping[Var, Said]) -> dict[Var, int]:
    order = {key: at for at, key in enumerate(sorted(set(keys.values())))}
    return {var: order[key] for var, key in keys.items()}


def _said(literal: CheckedLiteral, name: Callable[[Var], Said]) -> Said:
    """What the literal says, its variables by these names."""

    def terms(operands: Sequence[Pattern]) -> Said:
        return tuple(
            (0,) if operand is None else name(operand) if isinstance(operand, Var) else (3, *sort_key(operand.value))
            for operand in operands
        )

    match literal:
        case Match(relation, arguments):
            return 0, not literal.new, relation, terms(arguments)
        case Compare(comparator, left, right, _, when_unknown):
            return 1, comparator, when_unknown, terms((left, right))
        case Call(builtin, inputs, outputs, _, when_unknown):
            return 2, builtin, when_unknown, terms(inputs), terms(outputs)
        case Without(body):
            return 3, tuple(sorted(_said(literal, name) for literal in body))
        case Fold(function, operands, body, target):
            return 4, function, terms((target, *operands)), tuple(sorted(_said(literal, name) for literal in body))


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
