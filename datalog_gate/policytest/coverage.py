"""The coverage of rules by policy tests.

For each tested rule it records whether it derived a row, and whether each of its literals was both true and false for
some assignment that the earlier literals allow. It is computed from the model of each case.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.safety import ScopedLiteral, scope
from datalog_gate.analysis.strata import matches
from datalog_gate.analysis.unknowns import MAY_FAIL
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import BudgetError
from datalog_gate.base.records import dataclass
from datalog_gate.decision.judgement import Judgement
from datalog_gate.decision.policy_set import parse_all
from datalog_gate.engine.assignments import Assignments, Binding
from datalog_gate.engine.budget import Budget, Watch
from datalog_gate.engine.native import errors_of
from datalog_gate.files.rules import read_rules
from datalog_gate.language import ast
from datalog_gate.language.printer import print_literal
from datalog_gate.policytest.suite import Suite
from datalog_gate.schema.declaration import certain_version, old_version, relation_name

LOOKS = 200_000
"""The maximum number of rows read for a rule and a case: some seconds. Outcomes not found by then count as gaps."""
BRANCHES = 2000
"""The maximum number of tried assignments of a literal."""


@dataclass(slots=True)
class LiteralCoverage:
    """A literal as written, with its outcomes in the cases."""

    span: Span
    text: str
    true: bool = False
    false: bool = False
    fails: bool = False
    """Whether it can be false at all; an equation that only binds a variable can't."""

    def gaps(self) -> list[str]:
        gaps = [] if self.true else ["never true"]
        return [*gaps, "never false"] if self.fails and not self.false else gaps


@dataclass(slots=True)
class RuleCoverage:
    """A rule with its outcomes in the cases."""

    relation: str
    span: Span
    policies: tuple[str, ...]
    """The ids of the policies that depend on it."""
    derived: bool = False
    """Whether it derived a row."""
    literals: tuple[LiteralCoverage, ...] = ()

    @property
    def reached(self) -> tuple[int, int]:
        """The number of covered outcomes, and of all possible ones."""
        possible = 1 + sum(1 + literal.fails for literal in self.literals)
        return possible - len(self.gaps()), possible

    def gaps(self) -> list[tuple[Span, str, str]]:
        """The outcomes that never occurred: the place, the gap, and the text of the rule or literal."""
        own = [] if self.derived else [(self.span, "never derived a row", self.relation)]
        return own + [(literal.span, gap, literal.text) for literal in self.literals for gap in literal.gaps()]


@dataclass(frozen=True, slots=True)
class Coverage:
    """The rules of the tested folders, and those that their policies depend on, in order of place."""

    rules: tuple[RuleCoverage, ...]

    @property
    def percent(self) -> float:
        return _percent(self.rules)

    def by_policy(self) -> dict[str, float]:
        """The percentage of covered outcomes over the rules of each policy; the empty id is for other rules."""
        names = sorted({name for rule in self.rules for name in rule.policies or ("",)})
        return {name: _percent([rule for rule in self.rules if name in (rule.policies or ("",))]) for name in names}

    def to_json(self) -> dict[str, object]:
        gaps = [
            {"place": span.to_json(), "gap": gap, "text": text, "policies": list(rule.policies)}
            for rule in self.rules
            for span, gap, text in rule.gaps()
        ]
        policies = {name: round(percent, 1) for name, percent in self.by_policy().items() if name}
        schema = "datalog-gate/coverage/1"
        return {"schema": schema, "percent": round(self.percent, 1), "policies": policies, "gaps": gaps}

    def to_text(self) -> Iterator[str]:
        for rule in self.rules:
            yield from (f"{span.file}:{span.line}: {gap}: {text}" for span, gap, text in rule.gaps())
        yield from (f"{percent:5.1f} %  {name or 'rules of no policy'}" for name, percent in self.by_policy().items())
        yield f"{self.percent:5.1f} %  of what a test could show of {len(self.rules)} rules"


def cover(suites: Sequence[Suite]) -> Coverage:
    """Compute the coverage by all cases of all suites together, including failing ones."""
    covered: dict[Span, RuleCoverage] = {}
    for suite in suites:
        covered = {rule.span: rule for rule in _rules(suite)} | covered
    for suite in suites:
        for case in suite.cases:
            if judgement := suite.run(case).judgement:
                _observe(judgement, covered)
    return Coverage(tuple(covered[span] for span in sorted(covered)))


def _rules(suite: Suite) -> Iterator[RuleCoverage]:
    policies = suite.rules
    checked: dict[Span, list[ir.CheckedRule]] = {}
    for rule in policies.program.rules:
        checked.setdefault(rule.span, []).append(rule)
    for module in parse_all(read_rules(suite.tops))[0]:
        beside = Path(os.path.realpath(module.file)).parent == suite.file.parent
        for statement in module.statements:
            if not isinstance(statement, ast.Rule) or not statement.body or statement.span not in checked:
                continue
            relation = relation_name(checked[statement.span][0].relation)
            either = {relation, old_version(relation)}
            readers = tuple(policy.id for policy in policies.policies if either & policies.reads[policy.relation])
            if beside or suite.policies.intersection(readers):
                written = _literals(statement.body)
                literals = tuple(LiteralCoverage(literal.span, print_literal(literal)) for literal in written)
                for rule in checked[statement.span]:
                    _mark(rule, literals)
                yield RuleCoverage(relation, statement.span, readers, literals=literals)


def _literals(body: ast.Body) -> Iterator[ast.Literal]:
    """List the literals as written, those of alternatives separately."""
    for literal in body:
        if isinstance(literal, ast.Disjunction):
            for branch in literal.branches:
                yield from _literals(branch)
        else:
            yield literal


def _percent(rules: Sequence[RuleCoverage]) -> float:
    shown = sum(rule.reached[0] for rule in rules)
    possible = sum(rule.reached[1] for rule in rules)
    return 100 * shown / possible if possible else 100.0


def _observe(judgement: Judgement, covered: Mapping[Span, RuleCoverage]) -> None:
    evaluation = judgement.reader.evaluation
    program, model = evaluation.program, evaluation.model
    errors = errors_of(model)
    for rule in program.rules:
        note = covered.get(rule.span)
        if note is None or rule.relation != certain_version(rule.relation) or not note.gaps():
            continue
        if any(match.relation not in model.tables for match in matches(rule.body)):
            continue  # the budget was exceeded before
        with suppress(BudgetError):
            _walk(rule, note, Assignments(model.tables, errors, Watch(Budget(looks=LOOKS))))


def _walk(rule: ir.CheckedRule, covered: RuleCoverage, search: Assignments) -> None:
    """Visit assignments of the rule's body, literal by literal, as long as new outcomes are possible."""
    body = scope(rule)
    owners = [_owner(scoped_literal, covered.literals) for scoped_literal in body]
    levels: list[Iterator[Binding]] = [iter([{}])]
    while levels:
        binding, at = next(levels[-1], None), len(levels) - 1
        if binding is None or (covered.derived and not any(owner.gaps() for owner in owners[at:] if owner)):
            levels.pop()
        elif at == len(body):
            covered.derived = True
            levels.pop()
        else:
            owner = owners[at]
            tried = list(islice(search.of_body((body[at],), binding), BRANCHES))
            bindings = [extended for extended, cause in tried if cause is None]
            if owner and not tried:
                owner.false = True
            if owner and bindings and owner not in owners[at + 1 :]:
                owner.true = True
            levels.append(iter(bindings))


def _owner(scoped_literal: ScopedLiteral, literals: Sequence[LiteralCoverage]) -> LiteralCoverage | None:
    """Find the literal as written that a checked one is part of; terms of the head have none."""
    start, end = _bounds(scoped_literal.literal.span)
    for literal in literals:
        first, last = _bounds(literal.span)
        if first <= start and end <= last:
            return literal
    return None


def _bounds(span: Span) -> tuple[tuple[int, int], tuple[int, int]]:
    return (span.line, span.column), (span.end_line, span.end_column)


def _mark(rule: ir.CheckedRule, literals: Sequence[LiteralCoverage]) -> None:
    bound: set[ir.Var] = set()
    for scoped_literal in scope(rule):
        owner = _owner(scoped_literal, literals)
        if owner and _may_fail(scoped_literal.literal, bound):
            owner.fails = True
        bound |= scoped_literal.binds


def _may_fail(literal: ir.CheckedLiteral, bound: set[ir.Var]) -> bool:
    match literal:
        case ir.Compare("=", left, right):
            return all(isinstance(term, ir.Const) or term in bound for term in (left, right))
        case ir.Call(outputs=(output,)):
            return isinstance(output, ir.Const) or output in bound
        case ir.Fold(function=function, target=target):
            return function in MAY_FAIL or target in bound
    return True
