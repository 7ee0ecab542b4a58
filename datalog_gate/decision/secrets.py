"""The masking of secrets in what a decision shows.

A value is secret if its column can hold secrets (`analysis.taint`), and the value is a hidden value of the facts or the
column can also hold values computed from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Set

from datalog_gate.analysis.program import CheckedProgram, CheckedRule, Var
from datalog_gate.analysis.taint import COMPUTED, Taint, levels, taint
from datalog_gate.base.records import replace
from datalog_gate.base.values import SECRET, ResourceId, Row, Unknown, Value, show
from datalog_gate.engine.least_model import ModelError
from datalog_gate.facts.factset import FactSet
from datalog_gate.schema.declaration import RelationRef, possible_version


class Secrets:
    """The secrets of the facts that a program judges."""

    def __init__(self, facts: FactSet, program: CheckedProgram) -> None:
        self._values: set[Value] = set()
        columns: dict[RelationRef, set[int]] = defaultdict(set)
        for name, rows in facts.hidden.items():
            for row, hidden in rows.items():
                columns[name] |= hidden
                self._values.update(row[at] for at in hidden)
        self._taint = taint(program, columns) if columns else Taint({})

    def rows(self, relation: RelationRef, rows: Collection[Row]) -> tuple[Row, ...]:
        return tuple(self.row(relation, row) for row in rows) if self._taint.columns else tuple(rows)

    def row(self, relation: RelationRef, row: Row) -> Row:
        shown = (self._shown(relation, at, value) for at, value in enumerate(row))
        return tuple(shown) if self._taint.columns else row

    def values(self, rule: CheckedRule, binding: Mapping[Var, Value]) -> Set[Var]:
        """The values of a rule's variables that are, or may be, secret."""
        if not self._taint.columns:
            return set()
        by_level = levels(self._taint, rule).items()
        return {
            var for var, level in by_level if level == COMPUTED or var not in binding or binding[var] in self._values
        }

    def may_be_hidden(self, relation: RelationRef, at: int) -> bool:
        """Whether a column can hold a secret."""
        return self._level(relation, at) > 0

    def unknown(self, unknown: Unknown) -> Unknown:
        if unknown not in self._values:
            return unknown
        return replace(unknown, source=SECRET.source, hidden=True, of=(), domain=())

    def message(self, error: ModelError, rows: Collection[tuple[RelationRef, Row]] = ()) -> str:
        """The message of an error met with these rows. If they hold no secret, the message is shown, unless it happens
        to contain a secret's text."""
        if error.span not in self._taint.spans:
            return error.message
        is_open = rows and all(self.row(relation, row) == row for relation, row in rows)
        if is_open and not any(show(value) in error.message for value in self._values):
            return error.message
        return "what a hidden parameter gives has no value here"

    def _shown(self, relation: RelationRef, at: int, value: Value) -> Value:
        level = self._level(relation, at)
        open_ = value is None or isinstance(value, ResourceId) or not level
        return value if open_ or (level < COMPUTED and value not in self._values) else SECRET

    def _level(self, relation: RelationRef, at: int) -> int:
        return max(self._taint.columns.get((name, at), 0) for name in (relation, possible_version(relation)))
