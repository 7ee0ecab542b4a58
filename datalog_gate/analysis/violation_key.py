"""Keys of violations, and measures of how bad a violation is.

By default the key columns are those that are read from facts and do not measure the violation. The measure is the only
computed column, if all rules compare it with a bound in the same direction::

    @deny("big", "{s} has {n} ports")
    big(s, n) :- server(s), n = count{ p : port(p, s) }, n > 10.      key: s     worse: n up
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from typing import Literal as OneOf

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.strata import close, settle
from datalog_gate.analysis.taint import Cell
from datalog_gate.base.diagnostics import NOWHERE
from datalog_gate.base.records import dataclass
from datalog_gate.base.values import Row
from datalog_gate.schema.declaration import RelationRef, is_old
from datalog_gate.schema.relations import TRANSITION

INDEXES = frozenset({"_index", "_index2"})
"""Columns with the index of a list member: they change when another member is removed."""
Direction = OneOf[">", "<"]
_MEASURES = ir.ProgramCache["dict[str, Measure]"]()


@dataclass(frozen=True, slots=True)
class Measure:
    """The columns of a policy that identify a violation, and those that measure it. With a `direction`, a number
    further in that direction is worse. Without one, any other value is worse."""

    keys: tuple[int, ...]
    free: tuple[int, ...]
    direction: Direction | None

    def key(self, row: Row) -> Row:
        return tuple(row[at] for at in self.keys)

    def measured(self, row: Row) -> Row:
        return tuple(row[at] for at in self.free)

    def exceeds(self, measured: Row, other: Row) -> bool:
        match self.direction, measured, other:
            case ">", (int() | Decimal() as number,), (int() | Decimal() as than,):
                return number > than
            case "<", (int() | Decimal() as number,), (int() | Decimal() as than,):
                return number < than
        return True


def measures(program: ir.CheckedProgram, policies: Sequence[Policy]) -> dict[str, Measure]:
    return _MEASURES.get(program, tuple(policy.id for policy in policies), lambda: _measures(program, policies))


def key_columns(policy: Policy, computed: Set[Cell]) -> tuple[str, ...]:
    """The names of a policy's key columns, in order. `computed` is `computed_cells` of its program."""
    if "key" in policy.lists:
        return policy.lists["key"]
    measure = policy.texts.get("worse", "").partition(" ")[0]
    named = [(at, name) for at, name in enumerate(policy.columns) if name not in ("", measure)]
    return tuple(name for at, name in named if (policy.relation, at) not in computed)


def judges_transition(policy: Policy, reads: Mapping[RelationRef, frozenset[RelationRef]]) -> bool:
    """Whether a policy judges an operation, not the resulting state. `reads` is that of its policy set."""
    return any(is_old(relation) or relation in TRANSITION for relation in reads[policy.relation])


def compares_states(reads: Collection[RelationRef]) -> bool:
    """Whether some of these relations depend on the state before the change."""
    return any(is_old(relation) or relation in TRANSITION - {"gate:request"} for relation in reads)


@ir.kept
def computed_cells(program: ir.CheckedProgram, indexes: bool = True) -> Set[Cell]:
    """The columns that some rule fills with the result of a builtin, an operator or an aggregate.

    Such a result may reach a column through other relations. With `indexes` the index of a list counts as computed.
    """
    computed: set[Cell] = {
        (name, at)
        for name in program.inputs
        for at, column in enumerate(program.relations[name].columns)
        if indexes and column.name in INDEXES
    }

    def fill(rule: ir.CheckedRule) -> bool:
        body = BodyFacts(rule.body)
        read = _read_classes(body, computed)
        columns = {at for at, term in enumerate(rule.arguments) if not _is_read(term, body, read)}
        new = {(rule.relation, at) for at in columns} - computed
        computed.update(new)
        return bool(new)

    settle(list(program.rules), fill)
    return frozenset(computed)


def _measures(program: ir.CheckedProgram, policies: Sequence[Policy]) -> dict[str, Measure]:
    computed, computed_values = computed_cells(program), computed_cells(program, indexes=False)
    measure_of: dict[str, Measure] = {}
    for policy in policies:
        names = key_columns(policy, computed)
        keys = tuple(at for at, name in enumerate(policy.columns) if name and name in names)
        column, _, direction = policy.texts.get("worse", "").partition(" ")
        if column:
            measure_of[policy.id] = Measure(keys, (policy.columns.index(column),), ">" if direction == "up" else "<")
            continue
        has_subject = policy.subject in keys  # without one an index does not say whose list it counts
        cells = [(policy.relation, at) for at in range(len(policy.columns)) if at not in keys]
        free = tuple(cell[1] for cell in cells if cell in computed_values or cell not in computed or not has_subject)
        own = [rule for rule in program.rules if rule.relation == policy.relation]
        measure_of[policy.id] = Measure(keys, free, _compared_direction(own, free))
    return measure_of


def _compared_direction(rules: Sequence[ir.CheckedRule], columns: Sequence[int]) -> Direction | None:
    """The direction in which all rules bound the only measuring column; None if there are several columns or
    directions."""
    bounded = ((rule.arguments[at], rule.body) for rule in rules for at in columns)
    directions = {direction for column, body in bounded for direction in _directions(column, body)}
    return directions.pop() if len(directions) == len(columns) == 1 else None


def _directions(column: ir.Operand, body: Iterable[ir.CheckedLiteral]) -> Iterator[Direction | None]:
    """The directions in which a body bounds the variable of a column; None for a condition without order."""
    for literal in body:
        match literal:
            case ir.Compare("=", _, _):
                pass
            case ir.Compare(comparator, left, right) if isinstance(column, ir.Var) and column in (left, right):
                up = comparator.startswith(">") == (left == column)
                yield None if comparator == "!=" else ">" if up else "<"
            case ir.Without(inner, _) | ir.Fold(_, _, inner, _, _) if any(True for _ in _directions(column, inner)):
                yield None


def _read_classes(body: BodyFacts, computed: Set[Cell]) -> frozenset[ir.Operand]:
    """The classes that get their value from a row, also through ``a ?? b``."""

    def copied(literal: ir.CheckedLiteral, read: frozenset[ir.Operand]) -> Iterable[ir.Operand]:
        match literal:
            case ir.Call("??", inputs, (ir.Var() as output,)) if all(_is_read(term, body, read) for term in inputs):
                return (body.leader(output),)
        return ()

    cells = {own: {(match.relation, at) for match, at in places} for own, places in body.classes()}
    return close((own for own, among in cells.items() if among - computed), body.own, copied)


def _is_read(operand: ir.Operand, body: BodyFacts, read: Set[ir.Operand]) -> bool:
    """Whether the operand gets its value from a row or a constant."""
    return bool(body.constants(operand, NOWHERE)) or body.leader(operand) in read
