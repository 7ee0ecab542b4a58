"""The derivation of a row, or why another does not hold.

The leaves of a tree of first derivations are facts, and no row supports itself in it. Premises are in source order of
their literals, rows first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from types import EllipsisType
from typing import cast

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.safety import Scoped, ScopedLiteral, scope
from datalog_gate.base.errors import BudgetError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import Row, Value, in_order
from datalog_gate.engine.assignments import Assignments, Binding, Cause, value_of
from datalog_gate.engine.budget import Budget, Watch
from datalog_gate.engine.builtins import aggregate
from datalog_gate.engine.native import errors_of
from datalog_gate.engine.provenance import Provenance
from datalog_gate.language.ast import AggregateFunction
from datalog_gate.schema.declaration import RelationRef

ROWS = 40
DEPTH = 6
"""The maximum number of rows of a tree, nearest to the root first, and its maximum depth."""
FIRST = 5
"""The maximum number of stored contributors of an aggregate."""
STEPS = 5000
BRANCHES = 1000
"""The limits of the search for the furthest-reaching assignment: steps in total, and rows that each step tries."""
LOOKS = 200_000
"""The maximum number of rows read in total for the contents of aggregates and negations: some seconds."""
RowPattern = tuple[Value | EllipsisType, ...]
"""A row, with `...` for any value."""


@dataclass(frozen=True, slots=True)
class Total:
    """An aggregate with its value, the number of its values, and the first of them."""

    literal: ir.Fold
    value: Value
    contributors: int
    first: tuple[Value, ...]


@dataclass(slots=True)
class Node:
    """A row, the columns that its literal reads, and unless it is a fact its first derivation: a rule, the values of
    its variables, and a premise for each literal. A node that is not `followed` has a derivation too, which is left out
    or too long to find."""

    relation: RelationRef
    row: Row
    columns: tuple[int, ...] = ()
    rule: ir.CheckedRule | None = None
    binding: Binding = field(default_factory=dict)
    premises: tuple[Premise, ...] = ()
    followed: bool = True


Premise = Node | Total | ir.Compare | ir.Call | ir.Without


@dataclass(frozen=True, slots=True)
class Failure:
    """The literal at which the furthest-reaching assignment of a rule fails; None for the head. The row that a negation
    found is in the binding, the value of an aggregate in `total`, an error in `error`."""

    rule: ir.CheckedRule
    literal: ir.CheckedLiteral | None
    binding: Binding
    total: Total | None = None
    error: Cause | None = None


class Why:
    """Explains rows of one model. It caches results, so use one for many rows."""

    def __init__(self, provenance: Provenance) -> None:
        self.provenance = provenance
        watch = Watch(Budget(looks=LOOKS))
        self._search = Assignments(provenance.model.tables, errors_of(provenance.model), watch, ordered=True)
        self._derived = {name for stratum in provenance.program.strata for name in stratum.relations}

    def why(self, relation: RelationRef, row: Row, most: int = ROWS, deepest: int = DEPTH) -> Node:
        """The tree of a row of the model, with at most `most` rows nearest to the root, down to `deepest`."""
        root = Node(relation, row)
        waiting = deque([(root, 0)])
        looked_at = 0
        while waiting:
            node, depth = waiting.popleft()
            looked_at += 1
            if node.relation in self._derived:
                node.followed = looked_at <= most and depth <= deepest
                if node.followed:
                    waiting += [(premise, depth + 1) for premise in self._follow(node)]
        return root

    def why_not(self, relation: RelationRef, pattern: RowPattern) -> tuple[Failure, ...] | None:
        """The failures of the relation's rules, in source order; None if such a row exists. Errors: BudgetError."""
        model = self.provenance.model
        for row in model.rows(relation):
            if all(wanted is ... or value == wanted for value, wanted in zip(row, pattern, strict=True)):
                return None
        rules = [rule for stratum in self.provenance.program.strata for rule in stratum.rules]
        rules.sort(key=lambda rule: rule.span)
        return tuple(self._furthest(rule, pattern) for rule in rules if rule.relation == relation)

    def total(self, rule: ir.CheckedRule, literal: ir.Fold, binding: Binding) -> Total:
        """The value of an aggregate in the rule's body. Errors: BudgetError."""
        fold = next(scoped for scoped in scope(rule) if scoped.literal is literal)
        bindings = self._search.of_body(fold.body, {var: binding[var] for var in fold.needs})
        terms = {tuple(value_of(term, extended) for term in literal.terms) for extended, _ in bindings}
        rows = in_order([row for row in terms if row[0] is not None])
        if call := _aggregates(rule).get(literal.target):
            (target,) = call.outputs
            assert isinstance(target, ir.Var)
            whole = replace(literal, function=cast(AggregateFunction, call.builtin), target=target)
            return Total(whole, binding[target], len(rows), tuple(row[0] for row in rows[:FIRST]))
        return Total(literal, aggregate(literal.function, rows), len(rows), tuple(row[0] for row in rows[:FIRST]))

    def _follow(self, node: Node) -> list[Node]:
        """Add the first derivation to a derived row, if it can be found in time. Return its rows."""
        try:
            derivation = self.provenance.derive(node.relation, node.row)
            assert derivation, f"{node.relation}{node.row} has no derivation"
            rule, binding = derivation.rule, derivation.binding
            aggregates = _aggregates(rule)
            matches = [literal for literal in rule.body if isinstance(literal, ir.Match)]
            rows = [Node(*fact, match.columns) for match, fact in zip(matches, derivation.matched, strict=True)]
            others: list[tuple[ir.CheckedLiteral, Premise]] = []
            for literal in rule.body:
                match literal:
                    case ir.Match():
                        pass
                    case ir.Call() if literal.inputs[-1:] and literal.inputs[-1] in aggregates:
                        pass  # part of the possible tuples
                    case ir.Fold("tuples") if literal.target not in aggregates:
                        pass
                    case ir.Fold():
                        others.append((literal, self.total(rule, literal, binding)))
                    case _:
                        others.append((literal, literal))
        except BudgetError:
            node.followed = False
            return []
        inner = sorted(zip(matches, rows, strict=True), key=lambda pair: pair[0].span)
        others.sort(key=lambda pair: pair[0].span)
        node.rule, node.binding = rule, binding
        node.premises = tuple(premise for _, premise in (*inner, *others))
        return rows

    def _furthest(self, rule: ir.CheckedRule, pattern: RowPattern) -> Failure:
        known: Binding = {}
        for term, value in zip(rule.arguments, pattern, strict=True):
            if isinstance(value, EllipsisType):
                continue
            given = term.value if isinstance(term, ir.Const) else known.get(term, value)
            if given != value:
                return Failure(rule, None, known)
            if isinstance(term, ir.Var) and value is not None:
                known[term] = value
        best, failure = -1, Failure(rule, None, known)
        open_: list[Iterator[tuple[Scoped, Binding]]] = [iter([(scope(rule), known)])]
        for _ in range(STEPS):
            if not open_:
                break
            state = next(open_[-1], None)
            if state is None:
                open_.pop()
                continue
            waiting, binding = state
            if not waiting:
                if best < len(rule.body):
                    best, failure = len(rule.body), Failure(rule, None, binding)
                continue
            chosen = _next(waiting, binding)
            rest = tuple(scoped for scoped in waiting if scoped is not chosen)
            tried = list(islice(self._search.of_body((chosen,), binding), BRANCHES))
            bindings = [extended for extended, cause in tried if cause is None]
            if not bindings and best < len(rule.body) - len(waiting):
                error = min((cause for _, cause in tried if cause), default=None)
                best = len(rule.body) - len(waiting)
                failure = self._failure(rule, chosen, binding, error)
            open_.append(iter([(rest, extended) for extended in bindings]))
        return failure

    def _failure(self, rule: ir.CheckedRule, scoped: ScopedLiteral, binding: Binding, error: Cause | None) -> Failure:
        match scoped.literal:
            case ir.Without() as without if not error:
                needed = {var: binding[var] for var in scoped.needs}
                matching = self._search.of_body(scoped.body, needed)
                against = next((extended for extended, cause in matching if cause is None), binding)
                return Failure(rule, without, {**binding, **against})
            case ir.Fold() as fold if not error:
                return Failure(rule, fold, binding, self.total(rule, fold, binding))
        return Failure(rule, scoped.literal, binding, error=error)


def _aggregates(rule: ir.CheckedRule) -> dict[ir.Operand, ir.Call]:
    """The calls that compute aggregates of tuples, by the variable of their possible tuples."""
    folds = {literal.target for literal in rule.body if isinstance(literal, ir.Fold) and literal.function == "tuples"}
    calls = [literal for literal in rule.body if isinstance(literal, ir.Call) and folds.intersection(literal.inputs)]
    return {call.inputs[-1]: call for call in reversed(calls)}


def _next(waiting: Sequence[ScopedLiteral], binding: Binding) -> ScopedLiteral:
    """The first literal that can be evaluated now, else the match with the most known terms."""
    computed = [scoped for scoped in waiting if not isinstance(scoped.literal, ir.Match) and scoped.ready(binding)]
    if computed:
        return min(computed, key=lambda scoped: scoped.literal.span)

    def known(scoped: ScopedLiteral) -> int:
        terms = scoped.literal.arguments if isinstance(scoped.literal, ir.Match) else ()
        return sum(isinstance(term, ir.Const) or term in binding for term in terms)

    matches = [scoped for scoped in waiting if isinstance(scoped.literal, ir.Match)]
    return min(matches, key=lambda scoped: (-known(scoped), scoped.literal.span))
