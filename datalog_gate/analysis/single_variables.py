"""Variables that occur once in a rule.

Such a variable joins nothing. It is an error if it cannot be intended, else a warning. A leading ``_`` marks it as
intended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from datalog_gate.base.diagnostics import Advice, Diagnostic, Slips, Span, suggest_name
from datalog_gate.base.values import Kind
from datalog_gate.language import ast
from datalog_gate.language.printer import print_term
from datalog_gate.language.walk import Node, children, nodes, variables
from datalog_gate.schema.declaration import Column, Relation
from datalog_gate.schema.signatures import Builtin

WORDS = ("null", "true", "false")
_WORDS = Slips(WORDS)
Meaning = Callable[[ast.Atom], Relation | Builtin | None]


def find_single_uses(rule: ast.Rule, meaning: Meaning, every: bool = False) -> list[Diagnostic]:
    """Report variables that occur once: likely mistakes, or with `every` all of them."""
    counts = Counter([node.name for node in nodes((rule.head, *rule.body)) if isinstance(node, ast.Variable)])
    if 1 not in counts.values():
        return []
    whole = nodes((*rule.head.arguments, *rule.body))
    negations = (node for node in whole if isinstance(node, ast.Negation))
    negated = {variable.name for node in negations for variable in variables(node.body)}
    occurrences = (occurrence for occurrence in _occurrences(whole, meaning) if counts[occurrence.variable.name] == 1)
    slips, rows = Slips(counts), dict(_row_variables(whole, meaning))
    diagnostics = (_diagnose(single, slips, single.variable.name in negated, every, rows) for single in occurrences)
    return [diagnostic for diagnostic in diagnostics if diagnostic]


class _Occurrence(NamedTuple):
    """Where a variable occurs: in the column `column`, if named; or, with `equation`, as a side of an equation, which
    any value satisfies if the variable occurs only once. `text` says that it looks like an unquoted text, `textless`
    that the column holds no texts."""

    variable: ast.Variable
    column: str = ""
    equation: bool = False
    text: bool = False
    textless: bool = False


def _occurrences(whole: Iterable[Node], meaning: Meaning) -> Iterator[_Occurrence]:
    for node in whole:
        match node:
            case ast.Atom():
                for name, column, term in _arguments(node, meaning(node)):
                    if isinstance(term, ast.Variable):
                        loud = term.name[0].isupper() if name else len(term.name) > 1 and term.name.isupper()
                        text = loud or (column is not None and term.name in column.allowed)
                        textless = bool(name and column and column.kinds and not column.kinds & Kind.STRING)
                        yield _Occurrence(term, name, text=text, textless=textless)
            case ast.Comparison(comparator="=") | ast.Membership():
                variables_beside = (term for term in children(node) if isinstance(term, ast.Variable))
                yield from (_Occurrence(variable, equation=True) for variable in variables_beside)


def _row_variables(whole: Iterable[Node], meaning: Meaning) -> Iterator[tuple[Span, ast.Aggregate]]:
    """Yield the variables for keys in aggregates where equal terms make a difference."""
    for node in whole:
        if isinstance(node, ast.Aggregate) and node.function not in ("min", "max") and not node.distinct:
            for atom in (inner for inner in nodes(node.body) if isinstance(inner, ast.Atom)):
                if isinstance(relation := meaning(atom), Relation):
                    written = _arguments(atom, relation)
                    keys = (term for _, column, term in written if column and column.name in relation.key)
                    yield from ((term.span, node) for term in keys if isinstance(term, ast.Variable))


def _arguments(atom: ast.Atom, meaning: Relation | Builtin | None) -> Iterator[tuple[str, Column | None, ast.Term]]:
    """The terms of an atom, each after the name that is written before it, if any, and its column, if it has one."""
    columns = meaning.columns if isinstance(meaning, Relation) else ()
    for at, term in enumerate(atom.arguments):
        yield "", columns[at] if at < len(columns) else None, term
    by_name = {column.name: column for column in columns}
    for named in atom.named:
        yield named.column, by_name.get(named.column), named.term


def _diagnose(
    occurrence: _Occurrence, names: Slips, negated: bool, every: bool, rows: Mapping[Span, ast.Aggregate]
) -> Diagnostic | None:
    name, span = occurrence.variable.name, occurrence.variable.span
    near = next(iter((*_WORDS.of(name), *names.of(name))), None)
    suggestion = suggest_name(near)
    message = f"{name} is a variable that occurs once"
    if near in WORDS:
        return Diagnostic("used-once", message, span, suggestion)
    if occurrence.equation:
        message += ": the condition holds for any value"
        return Diagnostic(
            "forgotten-quotes", message, span, suggestion or Advice(f'write "{name}" for the text', f'"{name}"')
        )
    text = f'"{name}"'
    quoted: str = Advice(f"write {occurrence.column}={text} for the text, or leave the column out", text)
    if occurrence.textless:
        quoted = "leave the column out"
    if occurrence.text:
        bare = Advice(f"write {text} for the text, or `_`", text, "_")
        return Diagnostic("forgotten-quotes", message, span, quoted if occurrence.column else bare)
    wildcard = Advice("write `_` if any value will do", "_")
    if negated:
        return Diagnostic("negated-once", f"{name} occurs only here, under not", span, suggestion or wildcard)
    if name.startswith("_") or not (every or near or occurrence.column):
        return None
    if not suggestion and (aggregate := rows.get(span)):
        terms = ", ".join(term for term in map(print_term, (*aggregate.terms, occurrence.variable)) if term != "_")
        suggestion = f"add it to the terms, `{aggregate.function}{{ {terms} : ... }}`, to take each row separately"
    return Diagnostic("used-once", message, span, suggestion or (quoted if occurrence.column else wildcard), "warning")
