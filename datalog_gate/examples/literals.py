"""Conditions of rules that an example can miss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from datalog_gate.analysis.program import (
    Call,
    CheckedLiteral,
    CheckedRule,
    Compare,
    Const,
    Fold,
    Match,
    Var,
    variables,
)
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import show
from datalog_gate.schema.declaration import Relation, RelationRef

LONGEST = 80
"""The maximum number of characters of a condition that are shown."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A condition, and its rule without it, with the rule's number in the program."""

    number: int
    rule: CheckedRule
    text: str
    span: Span


def list_conditions(
    number: int, rule: CheckedRule, relations: Mapping[RelationRef, Relation], sources: Mapping[str, str]
) -> Iterator[Dropped]:
    """The conditions of a rule that can be left out alone: the rest binds all variables."""
    for at, literal in enumerate(rule.body):
        text = quote(literal, sources)
        others = (*rule.body[:at], *rule.body[at + 1 :])
        if isinstance(literal, Match):
            columns = relations[literal.relation].columns
            for place, term in literal.column_terms:
                if isinstance(term, Const):
                    arguments = (*literal.arguments[:place], None, *literal.arguments[place + 1 :])
                    body = (*rule.body[:at], replace(literal, arguments=arguments), *rule.body[at + 1 :])
                    name = f"{columns[place].name}={show(term.value)}"
                    yield Dropped(number, replace(rule, body=body), name, literal.span)
        if text and not isinstance(literal, Fold) and not _binding(literal, others):
            yield Dropped(number, replace(rule, body=others), text, literal.span)


def quote(literal: CheckedLiteral, sources: Mapping[str, str]) -> str:
    """The literal as the author wrote it."""
    span = literal.span
    lines = sources.get(span.file, "").splitlines()[span.line - 1 : span.end_line]
    if not lines:
        return ""
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    text = " ".join(" ".join(lines).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _binding(literal: CheckedLiteral, others: Sequence[CheckedLiteral]) -> bool:
    """Whether the literal may bind a variable that no other literal does."""
    if isinstance(literal, Call) and literal.outputs:
        return True
    if isinstance(literal, Compare) and literal.comparator != "=":
        return False
    if not isinstance(literal, Compare | Match):
        return False
    bound: set[Var] = set()
    for other in others:
        if isinstance(other, Match):
            bound |= set(variables(other))
        elif isinstance(other, Call):
            bound |= {term for term in other.outputs if isinstance(term, Var)}
        elif isinstance(other, Fold):
            bound.add(other.target)
    return not set(variables(literal)) <= bound
