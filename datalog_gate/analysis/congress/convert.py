"""Conversion of a translated Congress module to a rule file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from datalog_gate.analysis.congress.library import LEVEL_OF_HEAD
from datalog_gate.base.records import replace
from datalog_gate.language import ast
from datalog_gate.language.formatter import format_text
from datalog_gate.language.lexer import RESERVED
from datalog_gate.language.printer import print_literal, print_module
from datalog_gate.language.walk import terms, variables, with_terms

MOST_PASSES = 10
MOST_PARTS = 100
"""The maximum number of literals and of variables of a rule that is compared with others."""
NULL = ast.Constant(None)
UPDATES = {"+": ".insert", "-": ".delete"}
REFLEXIVE = ("<=", ">=")
CommentedRule = tuple[ast.Rule, list[str]]


def convert(module: ast.Module, comments: Sequence[str] = ()) -> str:
    """The text of a rule file for the module; `comments` are those of its statements, in order."""
    pairs = zip_longest(module.rules, comments, fillvalue="")
    entries = _merged([(rule, [comment]) for rule, comment in pairs if isinstance(rule, ast.Rule)])
    annotated = {rule.head.name for rule, _ in entries if rule.annotation}
    names = tuple(dict.fromkeys(_renamed(rule.head).name for rule, _ in entries))
    text = print_module(ast.Module(module.name, module.file, (ast.Export(names),) if names else ()))
    for written, own_comments in entries:
        rule = _tidy(written)
        head = rule.head.name
        level = "record" if head.startswith("execute.") else LEVEL_OF_HEAD.get(head)
        if level and head not in annotated:
            annotated.add(head)
            rule = replace(rule, annotation=ast.Annotation(level))
        has_message = rule.annotation and rule.annotation.attributes
        shown = "" if has_message else "\n".join(dict.fromkeys(own_comments))
        lines = [f"// {line}\n" for line in shown.splitlines() if line.strip()]
        text += "\n" + "".join(lines) + print_module(ast.Module(module.name, module.file, (rule,)))
    return format_text(text, module.file)


def _tidy(rule: ast.Rule) -> ast.Rule:
    """The rule with `_` for variables that occur once, and names of relations that this language can write."""
    counts = Counter(variable.name for variable in variables((rule.head, *rule.body)))
    once = {name for name, count in counts.items() if count == 1}
    return replace(rule, head=_renamed(rule.head), body=tuple(_tidy_literal(literal, once) for literal in rule.body))


def _tidy_literal(literal: ast.Literal, once: set[str]) -> ast.Literal:
    match literal:
        case ast.Atom():
            rare = [isinstance(term, ast.Variable) and term.name in once for term in terms(literal)]
            tidy = (ast.Wildcard() if single else term for term, single in zip(terms(literal), rare, strict=True))
            return with_terms(_renamed(literal), tuple(tidy))
        case ast.Negation():
            return replace(literal, body=tuple(_tidy_literal(inner, set()) for inner in literal.body))
        case ast.Disjunction():
            branches = tuple(tuple(_tidy_literal(literal, once) for literal in branch) for branch in literal.branches)
            return replace(literal, branches=branches)
    return literal


def _renamed(atom: ast.Atom) -> ast.Atom:
    return replace(atom, name=atom.name[:-1] + UPDATES.get(atom.name[-1], atom.name[-1]))


def _merged(rules: list[CommentedRule]) -> list[CommentedRule]:
    """Join pairs of rules that differ in one optional argument until there are none."""
    for _ in range(MOST_PASSES):
        places = {_key(rule): at for at, (rule, _) in enumerate(rules)}
        gone: set[int] = set()
        for at, (rule, _) in enumerate(rules):
            for without, joined in _optional(rule):
                other = places.get(_key(without), at)
                if at in gone or other in gone or other == at:
                    continue
                first, last = sorted((at, other))
                (before, comments), (after, more) = rules[first], rules[last]
                rules[first] = replace(joined, annotation=before.annotation or after.annotation), comments + more
                gone |= {last}
                del places[_key(without)]
                places.pop(_key(rule), None)
                places[_key(joined)] = first
                break
        if not gone:
            break
        rules = [entry for at, entry in enumerate(rules) if at not in gone]
    return rules


def _key(rule: ast.Rule) -> str:
    return "\n".join([print_literal(rule.head), *sorted(map(print_literal, rule.body))])


def _optional(rule: ast.Rule) -> Iterator[tuple[ast.Rule, ast.Rule]]:
    """For each argument of the rule that may be optional: the rule for null, and the rule for both cases."""
    if len(rule.body) > MOST_PARTS or sum(1 for _ in variables(rule.body)) > MOST_PARTS:
        return
    for at, atom in enumerate(rule.body):
        if not isinstance(atom, ast.Atom):
            continue
        for place, term in enumerate(terms(atom)):
            if isinstance(term, ast.Variable):
                yield _both(rule, at, atom, place, term)


def _both(rule: ast.Rule, at: int, atom: ast.Atom, place: int, term: ast.Variable) -> tuple[ast.Rule, ast.Rule]:
    about = [literal for literal in rule.body if literal is not atom and term in variables((literal,))]
    compared = [literal for literal in about if isinstance(literal, ast.Comparison)]
    if len(compared) == len(about) and [*variables((rule.head, atom))].count(term) == 1:
        value, choice = term, _choices(term, compared)
    else:
        compared = []
        value = ast.Variable(_fresh(rule, atom, place, term))
        choice = (ast.Disjunction(((ast.Comparison("=", value, NULL),), (ast.Comparison("=", value, term),))),)

    def body(argument: ast.Term) -> ast.Body:
        others = ((here, literal) for here, literal in enumerate(rule.body) if literal not in compared)
        return tuple(_with(atom, place, argument) if here == at else literal for here, literal in others)

    return replace(rule, body=body(NULL)), replace(rule, body=(*body(value), *choice))


def _choices(variable: ast.Variable, compared: list[ast.Comparison]) -> ast.Body:
    """The condition that the variable is null or its comparisons hold; nothing without comparisons."""
    bounds = [comparison for comparison in compared if comparison != ast.Comparison("!=", variable, NULL)]
    if len(bounds) == 1 and len(compared) == 2 and bounds[0].comparator in REFLEXIVE:
        (bound,) = bounds
        other = bound.right if bound.left == variable else bound.left
        # it is not null, or this would not load
        if isinstance(other, ast.Variable | ast.Constant) and other != variable:
            defaulted = ast.BinaryOperation("??", variable, other)
            left, right = (defaulted, other) if bound.left == variable else (other, defaulted)
            return (ast.Comparison(bound.comparator, left, right),)
    return (ast.Disjunction(((ast.Comparison("=", variable, NULL),), tuple(compared))),) if compared else ()


def _with(atom: ast.Atom, place: int, term: ast.Term) -> ast.Atom:
    before = terms(atom)
    return with_terms(atom, (*before[:place], term, *before[place + 1 :]))


def _fresh(rule: ast.Rule, atom: ast.Atom, place: int, term: ast.Variable) -> str:
    taken = {variable.name for variable in variables((rule.head, *rule.body))} | RESERVED
    name = term.name
    if place >= len(atom.arguments) and atom.named[place - len(atom.arguments)].column.isidentifier():
        name = atom.named[place - len(atom.arguments)].column
    while name in taken:
        name += "_"
    return name
