"""Forms of rules, equal for rules that only are written otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from datalog_gate.analysis.program import (
    NULL,
    Call,
    CheckedLiteral,
    CheckedProgram,
    CheckedRule,
    Compare,
    Const,
    Fold,
    Match,
    Operand,
    Var,
    Without,
    renamed,
    variables,
)
from datalog_gate.analysis.safety import binds
from datalog_gate.base.records import replace
from datalog_gate.schema.declaration import RelationRef

Forms = Mapping[RelationRef, str]
"""What stands for relations in the form of a rule that reads them; their names for the others."""
Numbers = Mapping[Var, int]
Body = tuple[CheckedLiteral, ...]


def describe_relations(program: CheckedProgram) -> Forms:
    """For each relation with rules, a text that is the same for one with another name whose rules mean the same."""
    forms: dict[RelationRef, str] = {}
    for stratum in program.strata:
        forms |= dict.fromkeys(stratum.relations if stratum.recursive else (), "")
        for _ in range(2 * len(stratum.relations) if stratum.recursive else 1):
            described: dict[RelationRef, list[str]] = {relation: [] for relation in stratum.relations}
            for rule in stratum.rules:
                described[rule.relation].append(describe_rule(rule, forms))
            digests = {
                relation: hashlib.sha256(str(sorted(set(rules))).encode()) for relation, rules in described.items()
            }
            forms |= {relation: digest.hexdigest() for relation, digest in digests.items()}
    return forms


def describe_rule(rule: CheckedRule, forms: Forms) -> str:
    """The rule but for the name of its relation: with numbers for variables, and literals and the sides of comparisons
    in one order. Where nothing but their names tells variables apart, rules in another order may differ."""
    rule = join_results(rule)
    numbers = dict.fromkeys([term for term in rule.arguments if isinstance(term, Var)], 0)
    numbers |= dict.fromkeys([variable for literal in rule.body for variable in variables(literal)], 0)
    while len(set(numbers.values())) < len(numbers):
        texts = {variable: _describe(rule, forms, {**numbers, variable: -1}) for variable in numbers}
        ranks = sorted(set(texts.values()))
        refined = {variable: 2 * ranks.index(text) for variable, text in texts.items()}
        if len(ranks) == len(set(numbers.values())):
            tied = min(number for number in refined.values() if list(refined.values()).count(number) > 1)
            refined[next(variable for variable in refined if refined[variable] == tied)] += 1
        numbers = refined
    return _describe(rule, forms, numbers)


def join_results(rule: CheckedRule) -> CheckedRule:
    """The rule with what results are compared with in their place: ``x = f(y)`` is ``f(y, x)``."""
    while step := next(_list_results(rule.body), None):
        body, names = step
        rule = replace(rule, arguments=renamed(rule.arguments, names), body=renamed(body, names))
    return replace(rule, body=_join_inner(rule.body, rule.arguments))


def _describe(part: Any, forms: Forms, numbers: Numbers) -> str:
    match part:
        case Var():
            return f"?{numbers[part]}"
        case Const(value):
            return repr(value)
        case None:
            return "_"
        case CheckedRule():
            return f"({_describe(part.arguments, forms, numbers)}) :- {_describe_body(part.body, forms, numbers)}"
        case Match():
            name = forms.get(part.relation, str(part.relation))
            return f"{name}({_describe(part.arguments, forms, numbers)})"
        case Compare():
            sides = (
                f"{_describe(left, forms, numbers)} {comparator} {_describe(right, forms, numbers)}"
                for left, comparator, right in part.from_each_side
            )
            return min(sides)
        case Call(builtin, inputs, outputs):
            return f"{builtin}({_describe(inputs, forms, numbers)} : {_describe(outputs, forms, numbers)})"
        case Without(body):
            return f"not {_describe_body(body, forms, numbers)}"
        case Fold(function, terms, body, target):
            operands = _describe((target, *terms), forms, numbers)
            return f"{function}({operands} : {_describe_body(body, forms, numbers)})"
    return ", ".join(_describe(element, forms, numbers) for element in part)


def _describe_body(body: Body, forms: Forms, numbers: Numbers) -> str:
    return f"[{', '.join(sorted(_describe(literal, forms, numbers) for literal in body))}]"


def _join_inner(body: Body, around: Collection[Operand]) -> Body:
    """The body, with the bodies inside of it written so too. The variables `around` it stay."""
    literals = list(body)
    for at, literal in enumerate(literals):
        if isinstance(literal, Without | Fold):
            outside = {*around, *(var for other in literals if other is not literal for var in variables(other))}
            while step := next(_list_results(literal.body, outside), None):
                inner, names = step
                literal = renamed(replace(literal, body=inner), names)
            terms = literal.terms if isinstance(literal, Fold) else ()
            literals[at] = replace(literal, body=_join_inner(literal.body, {*outside, *terms}))
    return tuple(literals)


def _list_results(body: Body, outside: Collection[Operand] = ()) -> Iterator[tuple[Body, Mapping[Var, Operand]]]:
    """The body without an equation of a result and another operand, with that for the result. One that may be null
    counts only if the operand is a variable that nothing else binds: others never equal null."""
    computing = [literal for literal in body if isinstance(literal, Call | Fold)]
    for literal in body:
        if isinstance(literal, Compare) and literal.comparator == "=" and not literal.null_test:
            others = tuple(other for other in body if other is not literal)
            bound = {*outside, *(variable for other in others for variable in binds(other))}
            for result, _, other in literal.from_each_side:
                source = next((part for part in computing if result in binds(part)), None)
                is_free = isinstance(other, Var) and other not in bound
                is_joined = source and (is_free or not _may_be_null(source))
                if isinstance(result, Var) and is_joined and result not in outside:
                    yield others, {result: other}


def _may_be_null(source: Call | Fold) -> bool:
    if isinstance(source, Fold) or source.builtin != "??":
        return False
    default = source.inputs[1]
    return isinstance(default, Var) or default == NULL
