"""How bad a violation is, besides which one it is (layer 2).

In: a checked program and its policies. Out: by policy the key columns, and by which column in which direction a
violation of one key gets worse: the one that the policy names (``worse="n up"``), or else, where but one may differ,
the one that its rules compare with a bound, all of them in one direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal as OneOf

from datalog_gate.analysis.cache import Kept
from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import (
    CheckedLiteral,
    CheckedProgram,
    CheckedRule,
    Compare,
    Fold,
    Operand,
    Var,
    Without,
)
from datalog_gate.analysis.violation_key import computed, keys_of
from datalog_gate.base.values import Row

Direction = OneOf[">", "<"]
_KEPT = Kept["dict[str, Measure]"]()


@dataclass(frozen=True, slots=True)
class Measure:
    """The positions of a policy's key columns, and of those that may differ in one violation. With a `direction` that
    is one column, and of its numbers those are worse that are so compared; without, any other value is."""

    keys: tuple[int, ...]
    free: tuple[int, ...]
    direction: Direction | None

    def key(self, row: Row) -> Row:
        """Which violation of its policy the row is."""
        return tuple(row[at] for at in self.keys)

    def measured(self, row: Row) -> Row:
        """How bad the row is."""
        return tuple(row[at] for at in self.free)

    def exceeds(self, measured: Row, other: Row) -> bool:
        """Whether one is worse than another, which is another value."""
        match self.direction, measured, other:
            case ">", (int() | Decimal() as number,), (int() | Decimal() as than,):
                return number > than
            case "<", (int() | Decimal() as number,), (int() | Decimal() as than,):
                return number < than
        return True


def measures(program: CheckedProgram, policies: Sequence[Policy]) -> dict[str, Measure]:
    """The measure of each policy, by id."""
    return _KEPT.get(program, tuple(policy.id for policy in policies), lambda: _measures(program, policies))


def _measures(program: CheckedProgram, policies: Sequence[Policy]) -> dict[str, Measure]:
    worked_out, made = computed(program), computed(program, indexes=False)
    rules = [rule for stratum in program.strata for rule in stratum.rules]
    found: dict[str, Measure] = {}
    for policy in policies:
        names = keys_of(policy, worked_out)
        keys = tuple(at for at, name in enumerate(policy.columns) if name and name in names)
        cells = [(policy.relation, at) for at in range(len(policy.columns)) if at not in keys]
        whose = policy.subject in keys  # of an index alone nobody knows whose list it counts
        free = tuple(cell[1] for cell in cells if cell in made or cell not in worked_out or not whose)
        own = [rule for rule in rules if rule.relation == policy.relation]
        named = _named(policy)
        found[policy.id] = Measure(keys, *named) if named else Measure(keys, free, _compared(own, free))
    return found


def _named(policy: Policy) -> tuple[tuple[int], Direction] | None:
    column, _, way = policy.texts.get("worse", "").partition(" ")
    return ((policy.columns.index(column),), ">" if way == "up" else "<") if column else None


def _compared(rules: Sequence[CheckedRule], columns: Sequence[int]) -> Direction | None:
    """The one direction in which rules bound the one column that may differ; None if there are more of either: what is
    better in one may be worse in another."""
    ways = {way for rule in rules for at in columns for way in _ways(rule.arguments[at], rule.body)}
    return ways.pop() if len(ways) == len(columns) == 1 else None


def _ways(column: Operand, body: Iterable[CheckedLiteral]) -> Iterator[Direction | None]:
    """The directions in which a body bounds the variable of a column from being worse; None where no order tells."""
    for literal in body:
        match literal:
            case Compare("=", _, _):
                pass
            case Compare(comparator, left, right) if isinstance(column, Var) and column in (left, right):
                up = comparator.startswith(">") == (left == column)
                yield None if comparator == "!=" else ">" if up else "<"
            case Without(inner, _) | Fold(_, _, inner, _, _) if any(True for _ in _ways(column, inner)):
                yield None
