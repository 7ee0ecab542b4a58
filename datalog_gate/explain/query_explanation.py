"""Explains rows of rules over facts, and why others are absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.values import Kind, ResourceId, Row, show
from datalog_gate.decision.query import QueryInputs, evaluate
from datalog_gate.engine.provenance import Provenance
from datalog_gate.explain.explanation import RowExplanation, format_lines
from datalog_gate.explain.why import FIRST, Node
from datalog_gate.language.ast import Atom, Constant, Module
from datalog_gate.language.walk import terms
from datalog_gate.schema.declaration import Relation, certain_version, whole_version


class QueryExplanation:
    """The derivations of all rows of modules. `problems` were found when they were parsed. Errors: RulesError,
    InputError, EngineError."""

    def __init__(
        self,
        modules: Sequence[Module],
        problems: Sequence[Diagnostic],
        sources: Mapping[str, str],
        inputs: QueryInputs,
    ) -> None:
        run = evaluate(modules, problems, sources, inputs)
        places = {(line.relation, line.row): line.span for line in inputs.lines if isinstance(line.row, tuple)}

        def place(node: Node) -> Span | None:
            span = places.get((str(whole_version(certain_version(node.relation))), node.row))
            return span if span and span.file else None

        self._program = run.checked.program
        self._rows = RowExplanation(Provenance(self._program, run.model), place)

    def explain_rows(self, relation: Relation, rows: Sequence[Row]) -> Iterator[str]:
        """The lines that explain the first of these rows of a relation."""
        derived = any(relation.ref in stratum.relations for stratum in self._program.strata)
        for row in rows[:FIRST]:
            yield f"{relation.name}({', '.join(map(show, row))})"
            yield from format_lines(self._rows.of(relation.ref, row)) if derived else ["  a fact"]

    def explain_absence(self, relation: Relation, atom: Atom) -> Iterator[str]:
        """The lines that say why no row of the relation matches an atom."""
        written = dict(enumerate(terms(atom)[: len(atom.arguments)]))
        written |= {
            relation.positions[named.column]: named.term for named in atom.named if named.column in relation.positions
        }
        constants = {at: term.value for at, term in written.items() if isinstance(term, Constant)}
        pattern = tuple(
            ResourceId(value)
            if isinstance(value := constants.get(at, ...), str) and not column.kinds & Kind.STRING
            else value
            for at, column in enumerate(self._program.relations[relation.ref].columns)
        )
        failures = self._rows.failures(relation.ref, pattern)
        if failures is None:
            yield "there is a matching row: ask :why"
        elif not failures:
            yield f"no rule derives {relation.name}: all its rows are facts"
        else:
            yield from format_lines(failures, "fails")
