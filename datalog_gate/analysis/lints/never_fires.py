"""A body that no values satisfy: ``n > 10, n < 5``.

Other examples are ``f = "a", f = "b"`` and a relation that no rule or fact can fill. All findings are certain.
`ranges` and `bodies` compute what each condition implies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import LONGEST, quoted
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.analysis.ranges import Lists, Ranges
from datalog_gate.analysis.slices import derivable
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass, field
from datalog_gate.schema.declaration import Relation, RelationRef, relation_name


@lint(
    code="never-fires",
    wrong="p(x) :- heat:stack(id=x, depth=d), d = 0, d = 1.",
    right="p(x) :- heat:stack(id=x, depth=d), d = 0.",
)
def find_contradictions(review: Review) -> Found:
    """Report rules that never hold, in all of their alternatives, and negations and aggregates whose body never holds.
    Rules of other files are not reported."""
    rules, relations = review.rules, review.relations
    heads = {written.span: written.head.name_span for written, _ in review.written}
    lists: Lists = {}
    for rule in rules:
        if relations[rule.relation].generated == "in":
            lists.setdefault(rule.relation, []).extend(term for term in rule.arguments if isinstance(term, ir.Const))
    contradictions = _Contradictions(relations, review.by_relation, lists)
    ways: dict[tuple[RelationRef, Span], list[str | None]] = {}
    files = {span.file for span in heads}
    inputs = frozenset[RelationRef]().union(*(rule.mentioned for rule in rules)) - review.by_relation.keys()
    live = derivable(rules, inputs)
    for rule in rules:
        if rule.body and rule.span.file in files:
            reasons = ways.setdefault((rule.relation, rule.span), [])
            if None not in reasons:  # another alternative of the rule may hold
                reasons.append(_nothing_in(rule.body, live) or contradictions.contradiction(rule.body))
            contradictions.inner_bodies(rule.body)
    for (_, span), reasons in ways.items():
        if all(reasons):
            message = f"this rule never holds: {reasons[0]}"
            suggestion = "correct the condition, or remove the rule"
            yield warn("never-fires", message, heads.get(span, span), suggestion)
    for (span, name), reasons in contradictions.inner.items():
        if all(reasons):
            message = f"this {name} takes nothing: {reasons[0]}"
            suggestion = "correct the condition"
            if name == "not":
                message, suggestion = f"this `not` always holds: {reasons[0]}", f"{suggestion}, or leave the `not` out"
            yield warn("never-fires", message, span, suggestion)


def _nothing_in(body: Sequence[ir.CheckedLiteral], live: Set[RelationRef]) -> str | None:
    """Why a body can't hold: it reads a relation that never has a row."""
    for literal in body:
        if isinstance(literal, ir.Match) and literal.relation not in live:
            return f"{literal.relation} never has a row"
    return None


@dataclass(slots=True)
class _Contradictions:
    relations: Mapping[RelationRef, Relation]
    rules: Mapping[RelationRef, Sequence[ir.CheckedRule]]
    lists: Lists
    inner: dict[tuple[Span, str], list[str | None]] = field(default_factory=dict)
    """Why the body of an aggregate or a negation never holds beside the literals around it, by the place and the
    function, or ``not``."""

    def inner_bodies(self, body: Sequence[ir.CheckedLiteral], around: Sequence[ir.CheckedLiteral] = ()) -> None:
        """Collect the reasons for the negations and aggregates of a body, including nested ones. `around` are the
        literals of the bodies around it."""
        if len(around) + len(body) > LONGEST:
            return
        for literal in body:
            if isinstance(literal, ir.Nesting):
                name = literal.function if isinstance(literal, ir.Fold) else "not"
                beside = (*around, *(other for other in body if other is not literal))
                reason = self.contradiction((*beside, *literal.body))
                if reason and self.contradiction(beside):
                    continue  # the error is in the literals beside it
                self.inner.setdefault((literal.span, name), []).append(reason)
                if reason is None:
                    self.inner_bodies(literal.body, beside)

    def contradiction(self, body: Sequence[ir.CheckedLiteral]) -> str | None:
        """Why no values satisfy the conjunction, or None."""
        return self._no_row(body) or Ranges(self.relations, self.lists, BodyFacts(body)).contradiction(body)

    def _no_row(self, body: Sequence[ir.CheckedLiteral]) -> str | None:
        """Why no rule of a relation derives a row with these constants. A body of one literal may be a query and is
        allowed to ask for it."""
        if len(body) == 1:
            return None
        for literal in body:
            match literal:
                case ir.Match(relation) if relation in self.rules and relation not in self.lists:
                    wanted = [(at, term) for at, term in literal.column_terms if isinstance(term, ir.Const)]
                    if wanted and not any(_may_derive(wanted, rule) for rule in self.rules[relation]):
                        shown = ", ".join(quoted(term.value) for _, term in wanted)
                        return f"no rule gives {relation_name(relation)} a row with {shown}"
        return None


def _may_derive(wanted: Iterable[tuple[int, ir.Const]], rule: ir.CheckedRule) -> bool:
    """Whether the rule may derive a row with the wanted constants."""
    return all(isinstance(own := rule.arguments[at], ir.Var) or own == term for at, term in wanted)
