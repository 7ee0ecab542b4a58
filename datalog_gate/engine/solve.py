"""Joins over a body (layer 3).

In: the body of a checked rule and tables. Out: a function that calls another one for each assignment that makes the
body true. A body is planned once: filters run as soon as their inputs have values, then the match with most bound
arguments; each literal becomes a closure that calls the next. Values stand in slots of one list. The first error ends
it all: `assignments` tells what is true and what is in error then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from time import monotonic

from datalog_gate.analysis.program import Call, CheckedRule, Compare, Const, Fold, Match, Var, Without
from datalog_gate.analysis.safety import Scoped, binds, inner, scoped
from datalog_gate.engine.builtins import aggregate, compare, compute, holds
from datalog_gate.engine.model import Table
from datalog_gate.errors import EngineError
from datalog_gate.values import Row, Value

Slots = list[Value]
Step = Callable[[Slots], bool]
"""Goes on with the assignment in the slots; True ends the search."""
BETWEEN_CHECKS = 2000
NEW = "+"
"""What a relation's name begins with where only the rows of the last round are meant."""


@dataclass(slots=True)
class Watch:
    """Looks at the clock now and then. `rule` is the one at work, to be named when time is up."""

    deadline: float | None
    rule: CheckedRule | None = None
    left: int = BETWEEN_CHECKS

    def tick(self) -> None:
        """Count a step. Errors: EngineError past the deadline."""
        self.left -= 1
        if self.left > 0:
            return
        self.left = BETWEEN_CHECKS
        if self.deadline is not None and monotonic() > self.deadline:
            name = f" in the rule of {self.rule.relation} at {self.rule.span}" if self.rule else ""
            raise EngineError(f"out of time{name}")


def prepare(rule: CheckedRule, tables: Mapping[str, Table], watch: Watch) -> Callable[[], list[Row]]:
    """A function that gives the head rows of the rule, or raises EvaluationError if it meets an error."""
    plan = _Plan(tables, watch)
    rows: list[Row] = []
    head = [plan.slot(one) for one in rule.arguments]

    def emit(slots: Slots) -> bool:
        rows.append(tuple([slots[at] for at in head]))
        return False

    around = [one for one in rule.arguments if isinstance(one, Var)]
    step = plan.conjunction(scoped(rule.body, around), frozenset(), emit)
    initial = plan.initial

    def run() -> list[Row]:
        watch.rule = rule
        rows.clear()
        step(list(initial))
        return rows

    return run


@dataclass(slots=True)
class _Plan:
    """The slots of one rule and the closures over them. Constants have slots too: a key is then a choice of slots."""

    tables: Mapping[str, Table]
    watch: Watch
    initial: Slots = field(default_factory=list)
    places: dict[Var | Const, int] = field(default_factory=dict)

    def slot(self, operand: Var | Const) -> int:
        at = self.places.get(operand)
        if at is None:
            at = self.places[operand] = len(self.initial)
            self.initial.append(operand.value if isinstance(operand, Const) else None)
        return at

    def conjunction(self, body: Sequence[Scoped], bound: frozenset[Var], last: Step) -> Step:
        """The closure of a body whose `bound` variables have values; `last` gets each assignment that makes it true."""
        pending = list(body)
        ordered: list[tuple[Scoped, frozenset[Var]]] = []
        while pending:
            chosen = self._next(pending, bound)
            pending.remove(chosen)
            ordered.append((chosen, bound))
            bound = bound | binds(chosen.literal)
        step = last
        for one, before in reversed(ordered):
            step = self._step(one, before, step)
        return step

    def _next(self, pending: Sequence[Scoped], bound: frozenset[Var]) -> Scoped:
        def cost(one: Scoped) -> tuple[int, int, int]:
            match one.literal:
                case Match(relation, arguments):
                    fixed = sum(isinstance(term, Const) or term in bound for term in arguments)
                    return -1 if relation.startswith(NEW) else 3, -fixed, len(self.tables[relation].rows)
                case Compare() | Call():
                    return 0, 0, 0
                case Without():
                    return 1, 0, 0
                case Fold():
                    return 2, 0, 0

        ready = [one for one in pending if one.ready(bound)]
        if not ready:
            raise EngineError(f"no order of literals binds every variable at {pending[0].literal.span}")
        return min(ready, key=cost)

    def _step(self, one: Scoped, bound: frozenset[Var], then: Step) -> Step:
        match one.literal:
            case Match():
                return self._match(one.literal, bound, then)
            case Compare():
                evaluate = self._compare(one.literal, bound)
            case Call():
                evaluate = self._call(one.literal, bound)
            case Without():
                evaluate = self._without(one.literal, one.needs)
            case Fold():
                evaluate = self._fold(one.literal, one.needs, bound)
        return lambda slots: evaluate(slots) and then(slots)

    def _match(self, literal: Match, bound: frozenset[Var], then: Step) -> Step:
        columns: list[int] = []
        key: list[int] = []
        joined: list[int] = []
        stores: dict[Var, tuple[int, int]] = {}
        twice: list[tuple[int, int]] = []
        for column, argument in enumerate(literal.arguments):
            if isinstance(argument, Const) or argument in bound:
                assert argument is not None
                columns.append(column)
                key.append(self.slot(argument))
                if isinstance(argument, Var):
                    joined.append(key[-1])
            elif argument in stores:
                twice.append((stores[argument][0], column))
            elif argument is not None:
                stores[argument] = (column, self.slot(argument))
        tables, name, tick = self.tables, literal.relation, self.watch.tick
        wanted, keyed, stored = tuple(columns), _key(key), list(stores.values())

        def step(slots: Slots) -> bool:
            tick()
            for at in joined:
                if slots[at] is None:  # null never joins
                    return False
            found = tables[name].lookup(wanted, keyed(slots))
            if not stored:
                return bool(found) and then(slots)
            for row in found:
                for column, at in stored:
                    slots[at] = row[column]
                if twice and not all(row[one] == row[other] is not None for one, other in twice):
                    continue
                if then(slots):
                    return True
            return False

        return step

    def _compare(self, literal: Compare, bound: frozenset[Var]) -> Step:
        left, right = self.slot(literal.left), self.slot(literal.right)
        comparator, when_unknown, null_test = literal.comparator, literal.when_unknown, literal.null_test
        for side, target, source in ((literal.left, left, right), (literal.right, right, left)):
            if isinstance(side, Var) and side not in bound:
                return self._store(target, itemgetter(source))
        return lambda slots: compare(comparator, slots[left], slots[right], when_unknown, null_test)

    def _call(self, literal: Call, bound: frozenset[Var]) -> Step:
        name, inputs = literal.builtin, _key([self.slot(one) for one in literal.inputs])
        if not literal.outputs:
            return lambda slots: holds(name, inputs(slots), literal.when_unknown)
        (output,) = literal.outputs
        at = self.slot(output or Var("_"))
        if output is None or (isinstance(output, Var) and output not in bound):
            return self._store(at, lambda slots: compute(name, inputs(slots)))
        constant = isinstance(output, Const)
        return lambda slots: fits(compute(name, inputs(slots)), slots[at], constant)

    @staticmethod
    def _store(at: int, value: Callable[[Slots], Value]) -> Step:
        def store(slots: Slots) -> bool:
            slots[at] = value(slots)
            return True

        return store

    def _without(self, literal: Without, needs: frozenset[Var]) -> Step:
        exists = self.conjunction(inner(literal, needs), needs, lambda _: True)
        return lambda slots: not exists(slots)

    def _fold(self, literal: Fold, needs: frozenset[Var], bound: frozenset[Var]) -> Step:
        found: set[Row] = set()
        terms = _key([self.slot(one) for one in literal.terms])
        target, given = self.slot(literal.target), literal.target in bound

        def collect(slots: Slots) -> bool:
            found.add(terms(slots))
            return False

        gather = self.conjunction(inner(literal, needs), needs, collect)

        def evaluate(slots: Slots) -> bool:
            found.clear()
            gather(slots)
            value = aggregate(literal.function, found)
            if value is None or (given and value != slots[target]):
                return False
            slots[target] = value
            return True

        return evaluate


def fits(value: Value, wanted: Value, constant: bool) -> bool:
    """Whether a computed value is the wanted one; null fits only a null that is a constant of the rule."""
    return value == wanted and (constant or value is not None)


def _key(places: Sequence[int]) -> Callable[[Slots], Row]:
    """A function that takes the values of these slots."""
    if len(places) > 1:
        return itemgetter(*places)
    if not places:
        return lambda _: ()
    at = places[0]
    return lambda slots: (slots[at],)
