"""Plans of rules: the literals of a body in order.

Tests run as soon as their values are known, then negations, aggregates, and the match with the fewest expected rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.program import variables
from datalog_gate.analysis.safety import Scoped, ScopedLiteral, scope
from datalog_gate.base.errors import EngineError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.schema.declaration import RelationRef

MOST_LOOPS = 18
"""The maximum number of nested loops of a function: Python allows 20 nested blocks."""
PER_CONSTANT, PER_VARIABLE = 2.5, 0.4
"""How a known column reduces the estimate: a constant divides it by 2**2.5, a variable raises it to the power 0.4."""

NEW_ROWS, TESTS, VALUES, NEGATIONS, AGGREGATES, MATCHES = range(6)
"""The ranks of literals; lower ranks come first."""

Size = Callable[[RelationRef], int]
"""The approximate number of rows of a relation, as its binary logarithm."""


class TooDeepError(EngineError):
    """A body with more nested loops than Python allows."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The head and the ordered body of a rule. Variables are named ``v0``, ``v1``, ... in the order in which they are
    bound; one that occurs only in a match is left out. A plan does not know its rule, so that equal rules share it."""

    head: tuple[ir.Operand, ...]
    body: tuple[ir.CheckedLiteral, ...]


def plan(rule: ir.CheckedRule, size: Size) -> Plan:
    """Plan a rule. A match of new rows comes first. Errors: TooDeepError, before a long body takes much time."""
    planner = _Planner(size, _find_single_use(rule))
    body = planner.order(scope(rule))
    return Plan(tuple(map(planner.term, rule.arguments)), body)


@dataclass(slots=True)
class _Planner:
    size: Size
    single_use: frozenset[ir.Var]
    names: dict[ir.Var, ir.Var] = field(default_factory=dict)
    """The bound variables, with their names in the plan."""
    loops: int = 0

    def order(self, body: Scoped) -> tuple[ir.CheckedLiteral, ...]:
        pending = list(body)
        ordered: list[ir.CheckedLiteral] = []
        outer_loops = self.loops
        while pending:
            ready = [scoped for scoped in pending if scoped.ready(self.names)]
            if not ready:
                raise EngineError(f"no order of literals binds every variable at {pending[0].literal.span}")
            ranks = [self._rank(scoped) for scoped in ready]
            best = min(ranks)
            chosen = [scoped for scoped, rank in zip(ready, ranks, strict=True) if rank == best]
            if best[0] not in (TESTS, VALUES):
                del chosen[1:]
            if best[0] in (NEW_ROWS, MATCHES):
                self.loops += 1
            if self.loops > MOST_LOOPS:
                raise TooDeepError(f"too many nested loops at {chosen[0].literal.span}")
            ordered += [self._named(scoped) for scoped in chosen]
            pending = [scoped for scoped in pending if not any(scoped is taken for taken in chosen)]
        self.loops = outer_loops
        return tuple(ordered)

    def term(self, operand: ir.Operand) -> ir.Operand:
        return operand if isinstance(operand, ir.Const) else self.variable(operand)

    def pattern(self, pattern: ir.Pattern) -> ir.Pattern:
        return None if pattern is None else self.term(pattern)

    def variable(self, var: ir.Var) -> ir.Var:
        """The name of a variable, which is bound from here on."""
        return self.names.setdefault(var, ir.Var(f"v{len(self.names)}"))

    def _rank(self, scoped: ScopedLiteral) -> tuple[int, float]:
        match scoped.literal:
            case ir.Match(relation, arguments, new=new):
                if new:
                    return NEW_ROWS, 0.0
                if not self._binds_new(scoped):
                    return TESTS, 0.0
                power = float(self.size(relation))
                for argument in arguments:
                    if isinstance(argument, ir.Const):
                        power -= PER_CONSTANT
                    elif argument in self.names:
                        power *= PER_VARIABLE
                return MATCHES, max(power, 0.0)
            case ir.Compare() | ir.Call():
                return (VALUES if self._binds_new(scoped) else TESTS), 0.0
            case ir.Without():
                return NEGATIONS, 0.0
            case ir.Fold():
                return AGGREGATES, 0.0

    def _binds_new(self, scoped: ScopedLiteral) -> bool:
        return any(var not in self.names and var not in self.single_use for var in scoped.binds)

    def _named(self, scoped: ScopedLiteral) -> ir.CheckedLiteral:
        """The literal with the plan's names."""
        match scoped.literal:
            case ir.Match(arguments=arguments) as literal:
                patterns = [argument if argument not in self.single_use else None for argument in arguments]
                return replace(literal, arguments=tuple(map(self.pattern, patterns)))
            case ir.Compare(left=left, right=right) as literal:
                return replace(literal, left=self.term(left), right=self.term(right))
            case ir.Call(inputs=inputs, outputs=outputs) as literal:
                terms = tuple(map(self.term, inputs))
                return replace(
                    literal, inputs=terms, outputs=tuple([output and self.term(output) for output in outputs])
                )
            case ir.Without() as literal:
                return replace(literal, body=self.order(scoped.body))
            case ir.Fold(terms=terms, target=target) as literal:
                body = self.order(scoped.body)
                terms = tuple(map(self.term, terms))
                return replace(literal, terms=terms, body=body, target=self.variable(target))


def _find_single_use(rule: ir.CheckedRule) -> frozenset[ir.Var]:
    """The variables that occur once: in a match they stand for any value."""
    counts = Counter(var for literal in rule.body for var in variables(literal))
    counts.update(argument for argument in rule.arguments if isinstance(argument, ir.Var))
    return frozenset(var for var, count in counts.items() if count == 1)
