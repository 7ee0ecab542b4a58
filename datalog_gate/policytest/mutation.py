"""Mutation testing of the rules: whether cases notice a fault in them.

Mutants are changes of the syntax tree. Each is judged by the cases of the policies that depend on its rule, with only
those policies. Mutants that do not load do not count.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

from datalog_gate.analysis.check import check
from datalog_gate.analysis.program import NEGATED, SHIFTED
from datalog_gate.analysis.slices import collect_dependencies, slice_for
from datalog_gate.analysis.strata import matches
from datalog_gate.base.diagnostics import Span, shorten
from datalog_gate.base.errors import EngineError, RulesError
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import Boolean, Value, boolean
from datalog_gate.decision.policy_set import PolicySet, parse_all
from datalog_gate.files.rules import read_rules
from datalog_gate.language import ast
from datalog_gate.language.printer import print_literal, print_term
from datalog_gate.language.walk import terms, with_terms
from datalog_gate.policytest.comparison import CaseResult, find_mismatches, row_differences
from datalog_gate.policytest.suite import Suite
from datalog_gate.policytest.testfile import Case
from datalog_gate.schema.declaration import RelationRef, parse_reference, relation_name
from datalog_gate.stack.model import Stack

LONGEST = 100
"""The maximum number of characters of a change that are shown."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule with a fault."""

    module: str
    statement: int
    """The index of the statement of the module that the rule replaces."""
    rule: ast.Rule
    span: Span
    what: str
    """The description of the change."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """The result: the number of mutants, and those that no case detected."""

    mutants: int
    survivors: tuple[Mutant, ...]

    @property
    def score(self) -> float:
        """The percentage of detected mutants."""
        return 100 * (self.mutants - len(self.survivors)) / self.mutants if self.mutants else 100.0

    def to_text(self) -> Iterator[str]:
        for mutant in self.survivors:
            yield f"{mutant.span.file}:{mutant.span.line}: survived: {mutant.what}"
        survived = len(self.survivors)
        yield f"{self.mutants} mutants, {self.mutants - survived} noticed, {survived} survived"
        yield f"{self.score:5.1f} %"


def mutate(suites: Sequence[Suite], seed: int = 0, most: int | None = None) -> Mutation:
    """Try the mutants of the rules that the suites test, or `most` of them, chosen by the seed. No case may fail
    without a mutant."""
    trials = [
        _Trial(tops, [suite for suite in suites if suite.tops == tops])
        for tops in dict.fromkeys(suite.tops for suite in suites)
    ]
    listed = [(trial, mutant) for trial in trials for mutant in trial.mutants()]
    if most is not None:
        random.Random(seed).shuffle(listed)
    survivors: list[Mutant] = []
    counted = 0
    for trial, mutant in listed:
        if most is not None and counted == most:
            break
        if rules := trial.mutated(mutant):
            counted += 1
            if not trial.notices(mutant, rules):
                survivors.append(mutant)
    survivors.sort(key=lambda mutant: (mutant.span, mutant.what))
    return Mutation(counted, tuple(survivors))


_TestedCase = tuple[Suite, Case, tuple[Stack, ...], CaseResult]
"""A case with its suite, its stacks, and its result without a mutant."""


class _Trial:
    """The rules at some paths, the suites that test them, and the results of their cases without a mutant."""

    def __init__(self, tops: Sequence[Path], suites: Sequence[Suite]) -> None:
        self._suites = suites
        self._modules, self._base = parse_all(read_rules(tops))[0], suites[0].rules
        self._results: list[_TestedCase] = []
        self._named = {
            module.name: {statement.module for statement in module.statements if isinstance(statement, ast.Import)}
            for module in self._modules
        }
        for rule in self._base.program.rules:
            read = self._named.setdefault(_module(rule.relation), set())
            read.update(_module(match.relation) for match in matches(rule.body))
        for suite in suites:
            for case in suite.cases:
                result = suite.run(case)
                if result.judgement:  # no rule changes the result of input that can't be read
                    self._results.append((suite, case, suite.stacks(case), replace(result, judgement=None)))

    def mutants(self) -> Iterator[Mutant]:
        tested = {name for suite in self._suites for name in suite.policies}
        wanted: list[RelationRef] = [policy.relation for policy in self._base.policies if policy.id in tested]
        wanted += [parse_reference(name) for _, case, _, _ in self._results for name in case.expect.get("rows", ())]
        reached = frozenset[RelationRef]().union(*(self._base.reads.get(name, frozenset()) for name in wanted))
        spans = {rule.span for rule in self._base.program.rules if rule.relation in reached}
        yield from (mutant for module in self._modules for mutant in mutate_module(module) if mutant.rule.span in spans)

    def mutated(self, mutant: Mutant) -> PolicySet | None:
        """Load the policies that depend on the mutant's rule; None if they do not load."""
        changed = {rule.relation for rule in self._base.program.rules if rule.span == mutant.rule.span}
        reading = {name for name, reads in self._base.reads.items() if reads & changed}
        needed = self._needed({mutant.module, *map(_module, reading)})
        modules = {module.name: module for module in self._modules if module.name in needed}
        statements = list(modules[mutant.module].statements)
        statements[mutant.statement] = mutant.rule
        modules[mutant.module] = replace(modules[mutant.module], statements=tuple(statements))
        try:
            checked = check(list(modules.values()), catalogue=self._base.catalogue)
        except RulesError:
            return None
        policies = tuple(policy for policy in checked.policies if policy.relation in reading)
        program = slice_for(checked.program, frozenset(reading))
        whole = self._base.program  # a case may fill what only the other policies read
        program = replace(
            program, inputs=program.inputs | whole.inputs, relations={**whole.relations, **program.relations}
        )
        digest = f"{self._base.digest} {mutant.span} {mutant.what}"
        reads = {name: frozenset({name}) for name in reading} | collect_dependencies(program, policies)
        return replace(self._base, program=program, policies=policies, digest=digest, reads=reads)

    def _needed(self, names: set[str]) -> set[str]:
        """Collect the modules and everything that they name: others need no new check."""
        needed: set[str] = set()
        new = names
        while new:
            needed |= new
            new = {other for name in new for other in self._named.get(name, ())} - needed
        return needed

    def notices(self, mutant: Mutant, mutated: PolicySet) -> bool:
        """Whether a case fails with the mutant, and not so without it: findings of policies that are left out may give
        the others another place. The case that detected the last mutant is tried first."""
        module = next(module for module in self._modules if module.name == mutant.module)
        rule = module.statements[mutant.statement]
        assert isinstance(rule, ast.Rule)
        unchanged: PolicySet | None = None
        for at, tested in enumerate(self._results):
            if differences := self._differences(tested, mutated):
                unchanged = unchanged or self.mutated(replace(mutant, rule=rule))
                if unchanged is None or differences != self._differences(tested, unchanged):
                    self._results.insert(0, self._results.pop(at))
                    return True
        return False

    def _differences(self, tested: _TestedCase, rules: PolicySet) -> Sequence[object]:
        """What a case finds otherwise than it expects if rules replace those of their policies."""
        suite, case, stacks, before = tested
        affected = {policy.id for policy in rules.policies}
        expected_rows = rules.reads.keys() & map(parse_reference, case.expect.get("rows", {}))
        if not expected_rows and not affected & suite.policies:
            return ()
        given = dict(case.given)
        if "waivers" in given:  # a waiver of a policy that is left out would be an error
            given["waivers"] = [entry for entry in given["waivers"] if entry.get("policy") in affected]
        try:
            after = suite.run(replace(case, given=given), stacks, rules)
        except EngineError as error:
            return (str(error),)
        kept = [finding for finding in before.findings if finding.policy not in affected]
        rows = {name: rows for name, rows in before.rows.items() if parse_reference(name) not in rules.reads}
        result = CaseResult((*kept, *after.findings), {**rows, **after.rows})
        return (*find_mismatches(case.expect, result.findings), *row_differences(case.expect, result))


def _module(relation: RelationRef) -> str:
    return relation_name(relation).rpartition(":")[0]


def mutate_module(module: ast.Module) -> Iterator[Mutant]:
    """Yield the mutants of a module, in order of its statements, without duplicates."""
    names: dict[int, set[str]] = {}
    for statement in module.statements:
        if isinstance(statement, ast.Rule):
            names.setdefault(len(statement.head.arguments), set()).add(statement.head.name)
    relations = {width: tuple(sorted(same)) for width, same in names.items()}
    for at, statement in enumerate(module.statements):
        # limits by an operator are not rules of the module
        if not isinstance(statement, ast.Rule) or statement.span.file != module.file:
            continue
        seen = [statement]
        for what, span, rule in _mutate_rule(statement, relations):
            if rule not in seen:
                seen.append(rule)
                yield Mutant(module.name, at, rule, span, what)


Relations = dict[int, tuple[str, ...]]
"""The relations that the module derives, by number of columns."""
Bodies = Iterator[tuple[str, Span, ast.Body]]
Terms = Iterator[tuple[str, Span, ast.Term]]


def _mutate_rule(rule: ast.Rule, relations: Relations) -> Iterator[tuple[str, Span, ast.Rule]]:
    yield "drop the rule", rule.head.span, replace(rule, body=(ast.Truth(False, span=rule.head.span),))
    for at, term in enumerate(rule.head.arguments):
        for what, span, new in _term(term, relations):
            arguments = (*rule.head.arguments[:at], new, *rule.head.arguments[at + 1 :])
            yield what, span, replace(rule, head=replace(rule.head, arguments=arguments))
    for what, span, body in _body(rule.body, relations):
        yield what, span, replace(rule, body=body)


def _body(body: ast.Body, relations: Relations) -> Bodies:
    for at, literal in enumerate(body):
        for what, span, replacement in (*_whole(literal), *_inside(literal, relations)):
            yield what, span, (*body[:at], *replacement, *body[at + 1 :])


def _whole(literal: ast.Literal) -> Bodies:
    text, span = print_literal(literal), literal.span
    yield f"drop {_short(text)}", span, ()
    match literal:
        case ast.Negation():
            yield f"negate {_short(text)}", span, literal.body
        case ast.Atom() | ast.Membership() | ast.Disjunction():
            yield f"negate {_short(text)}", span, (ast.Negation((literal,), span=span),)
        case ast.Comparison():
            for others in (NEGATED, SHIFTED):
                if literal.comparator in others:
                    new = replace(literal, comparator=others[literal.comparator])
                    yield _changed(text, print_literal(new)), span, (new,)


def _inside(literal: ast.Literal, relations: Relations) -> Bodies:
    match literal:
        case ast.Atom():
            yield from ((what, span, (new,)) for what, span, new in _atom(literal, relations))
        case ast.Comparison(left=left, right=right):
            yield from ((what, span, (replace(literal, left=new),)) for what, span, new in _term(left, relations))
            yield from ((what, span, (replace(literal, right=new),)) for what, span, new in _term(right, relations))
        case ast.Membership(items=items):
            for at, item in enumerate(items):
                others = (*items[:at], *items[at + 1 :])
                yield f"drop {print_term(item)}", item.span, (replace(literal, items=others),)
        case ast.Negation(body=inner):
            bodies = _inside(inner[0], relations) if len(inner) == 1 else _some(inner, relations)
            yield from ((what, span, (replace(literal, body=body),)) for what, span, body in bodies)
        case ast.Disjunction(branches=branches):
            for at, branch in enumerate(branches):
                before, after = branches[:at], branches[at + 1 :]
                text = ", ".join(map(print_literal, branch))
                rest = (*before, *after)
                united = rest[0] if len(rest) == 1 else (replace(literal, branches=rest),)
                yield f"drop the branch {_short(text)}", branch[0].span, united
                for what, span, body in _some(branch, relations):
                    yield what, span, (replace(literal, branches=(*before, body, *after)),)


def _some(body: ast.Body, relations: Relations) -> Bodies:
    return (mutant for mutant in _body(body, relations) if mutant[2])


def _atom(atom: ast.Atom, relations: Relations) -> Iterator[tuple[str, Span, ast.Atom]]:
    own = terms(atom)
    for at, term in enumerate(own):
        others = [*_term(term, relations)]
        if isinstance(term, ast.Constant):
            others.append((f"{print_term(term)} -> anything", term.span, ast.Wildcard(span=term.span)))
        for what, span, new in others:
            yield what, span, with_terms(atom, (*own[:at], new, *own[at + 1 :]))
    for at, (term, second) in enumerate(pairwise(own)):
        if term != second:
            what = f"swap {_short(print_term(term))} and {_short(print_term(second))}"
            yield what, term.span, with_terms(atom, (*own[:at], second, term, *own[at + 2 :]))
    if not atom.arguments or atom.named:
        return
    for name in relations.get(len(atom.arguments), ()):
        if name != atom.name and any(atom.name in names for names in relations.values()):
            yield f"{atom.name} -> {name}", atom.span, replace(atom, name=name)


def _term(term: ast.Term, relations: Relations) -> Terms:
    match term:
        case ast.Constant(value=value) if value is not None:
            new = replace(term, value=_other(value))
            yield _changed(print_term(term), print_term(new)), term.span, new
        case ast.BinaryOperation(left=left, right=right):
            yield from ((what, span, replace(term, left=new)) for what, span, new in _term(left, relations))
            yield from ((what, span, replace(term, right=new)) for what, span, new in _term(right, relations))
        case ast.Aggregate():
            yield from ((what, span, replace(term, body=body)) for what, span, body in _some(term.body, relations))
        case ast.Function(arguments=own):
            for at, argument in enumerate(own):
                for what, span, changed in _term(argument, relations):
                    yield what, span, replace(term, arguments=(*own[:at], changed, *own[at + 1 :]))
        case ast.Interpolation(parts=parts):
            for at, part in enumerate(parts):
                if isinstance(part, str):
                    text = replace(term, parts=(*parts[:at], f"{part}x", *parts[at + 1 :]))
                    yield _changed(print_term(term), print_term(text)), term.span, text


def _other(value: Value) -> Value:
    match value:
        case Boolean():
            return boolean(not value.truth)
        case int() | Decimal():
            return value + 1
    return f"{value}x"


def _changed(old: str, new: str) -> str:
    return f"{_short(old)} -> {_short(new)}"


def _short(text: str) -> str:
    return shorten(text, LONGEST)
