"""Conversion of a translated Congress module to a rule file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any

from datalog_gate.base.records import replace
from datalog_gate.language import ast
from datalog_gate.language.congress.library import LEVEL_OF_HEAD
from datalog_gate.language.formatter import format_text
from datalog_gate.language.printer import print_module
from datalog_gate.language.walk import map_children, variables

UPDATES = {"+": ".insert", "-": ".delete"}


def convert(module: ast.Module, comments: Sequence[str] = ()) -> str:
    """The text of a rule file for the module; `comments` are those of its statements, in order."""
    annotated = {rule.head.name for rule in module.rules if rule.annotation}
    names = tuple(dict.fromkeys(_renamed(rule.head).name for rule in module.rules))
    text = print_module(ast.Module(module.name, module.file, (ast.Export(names),) if names else ()))
    for written, comment in zip(module.rules, chain(comments, repeat("")), strict=False):
        rule = _tidy(written)
        head = rule.head.name
        level = "record" if head.startswith("execute.") else LEVEL_OF_HEAD.get(head)
        if level and head not in annotated:
            annotated.add(head)
            rule = replace(rule, annotation=ast.Annotation(level))
        has_message = rule.annotation and rule.annotation.attributes
        lines = [f"// {line}\n" for line in comment.splitlines() if line.strip() and not has_message]
        text += "\n" + "".join(lines) + print_module(ast.Module(module.name, module.file, (rule,)))
    return format_text(text, module.file)


def _tidy(rule: ast.Rule) -> ast.Rule:
    """The rule with `_` for variables that occur once, and names of relations that this language can write."""
    counts = Counter(variable.name for variable in variables((rule.head, *rule.body)))
    once = {name for name, count in counts.items() if count == 1}
    return replace(rule, head=_renamed(rule.head), body=tuple(_tidy_literal(literal, once) for literal in rule.body))


def _tidy_literal(literal: ast.Literal, once: set[str]) -> Any:
    match literal:
        case ast.Atom():
            return map_children(_renamed(literal), partial(_tidy_term, once=once))
        case ast.Negation():
            return map_children(literal, partial(_tidy_literal, once=set()))
        case ast.Disjunction():
            return map_children(literal, partial(_tidy_literal, once=once))
    return literal


def _tidy_term(term: ast.Term, once: set[str]) -> ast.Term:
    return ast.Wildcard() if isinstance(term, ast.Variable) and term.name in once else term


def _renamed(atom: ast.Atom) -> ast.Atom:
    return replace(atom, name=atom.name[:-1] + UPDATES.get(atom.name[-1], atom.name[-1]))
