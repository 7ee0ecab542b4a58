"""Coverage of rules by policy tests (layer 5): what their cases never made true, and never made false.

In: test files. Out: a `Coverage`: for each rule that they test whether it derived a row, and for each of its literals
as written whether it was true, and false, for some assignment that those before it allow. Worked out from the finished
model of each case, so that no evaluation pays for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from datalog_gate.analysis.check import matches
from datalog_gate.analysis.program import Call, CheckedLiteral, CheckedProgram, CheckedRule, Compare, Const, Fold, Var
from datalog_gate.analysis.safety import ScopedLiteral, binds, scope_body
from datalog_gate.analysis.unknowns import MAY_FAIL
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import BudgetError
from datalog_gate.decision.judgement import Judgement
from datalog_gate.decision.policy_set import RuleFile, load, parse_all
from datalog_gate.engine.assignments import Assignments, Binding
from datalog_gate.engine.budget import Budget, Watch
from datalog_gate.engine.native import errors_of
from datalog_gate.files.rules import read_rules
from datalog_gate.language import ast
from datalog_gate.language.printer import print_literal
from datalog_gate.policytest.suite import Suite, near
from datalog_gate.schema.declaration import certain_version, old_version, relation_name

LOOKS = 200_000
"""How many rows are looked at for a rule and a case: some seconds. What they do not show counts as never seen."""
BRANCHES = 2000
"""How many assignments of one literal are tried."""


@dataclass(slots=True)
class Point:
    """A literal as written, and what it was; `fails` says whether it can be false at all: an equation that only gives a
    variable its value can't."""

    span: Span
    text: str
    true: bool = False
    false: bool = False
    fails: bool = False

    def gaps(self) -> list[str]:
        """What it never was."""
        return ["never true"] * (not self.true) + ["never false"] * (self.fails and not self.false)


@dataclass(slots=True)
class Covered:
    """A rule, the policies that rest on it, whether it derived a row, and its literals."""

    relation: str
    span: Span
    policies: tuple[str, ...]
    derived: bool = False
    points: tuple[Point, ...] = ()

    @property
    def reached(self) -> tuple[int, int]:
        """How many of the things that a test could show it showed, and how many there are."""
        wanted = 1 + sum(1 + point.fails for point in self.points)
        return wanted - len(self.gaps()), wanted

    def gaps(self) -> list[tuple[Span, str, str]]:
        """What the cases never showed: where, what, of what."""
        found = [] if self.derived else [(self.span, "never derived a row", self.relation)]
        return found + [(point.span, gap, point.text) for point in self.points for gap in point.gaps()]


@dataclass(frozen=True, slots=True)
class Coverage:
    """The rules of the folders tested, and those that their policies rest on, in order of place."""

    rules: tuple[Covered, ...]

    @property
    def percent(self) -> float:
        """How much of what a test could show was shown."""
        return _percent(self.rules)

    def by_policy(self) -> dict[str, float]:
        """The percentage of the rules that each policy rests on; under no id what no policy does."""
        names = sorted({name for rule in self.rules for name in rule.policies or ("",)})
        return {name: _percent([rule for rule in self.rules if name in (rule.policies or ("",))]) for name in names}

    def to_json(self) -> dict[str, object]:
        """As JSON data: the percentages, and each gap with its place and policies."""
        gaps = [
            {"place": span.to_json(), "gap": gap, "text": text, "policies": list(rule.policies)}
            for rule in self.rules
            for span, gap, text in rule.gaps()
        ]
        policies = {name: round(percent, 1) for name, percent in self.by_policy().items() if name}
        schema = "datalog-gate/coverage/1"
        return {"schema": schema, "percent": round(self.percent, 1), "policies": policies, "gaps": gaps}

    def to_text(self) -> Iterator[str]:
        """The gaps by place, then the percentages, in lines."""
        for rule in self.rules:
            yield from (f"{span.file}:{span.line}: {gap}: {text}" for span, gap, text in rule.gaps())
        yield from (f"{percent:5.1f} %  {name or 'rules of no policy'}" for name, percent in self.by_policy().items())
        yield f"{self.percent:5.1f} %  of what a test could show of {len(self.rules)} rules"


def cover(suites: Sequence[Suite]) -> Coverage:
    """What the cases of all suites cover together, those that fail too."""
    covered: dict[Span, Covered] = {}
    for suite in suites:
        covered = {rule.span: rule for rule in _rules(suite)} | covered
    for suite in suites:
        for case in suite.cases:
            if judgement := suite.answer(case).judgement:
                _observe(judgement, covered)
    return Coverage(tuple(covered[span] for span in sorted(covered)))


def _rules(suite: Suite) -> Iterator[Covered]:
    """The rules that stand in the suite's folder, and those that its policies rest on."""
    files: list[RuleFile] = read_rules([near(suite.top)])
    policies = load(files, suite.rules.catalogue)
    checked: dict[Span, list[CheckedRule]] = {}
    for rule in _checked(policies.program):
        checked.setdefault(rule.span, []).append(rule)
    for module in parse_all(files)[0]:
        beside = Path(module.file).resolve().parent == suite.file.parent
        for statement in module.statements:
            if not isinstance(statement, ast.Rule) or not statement.body or statement.span not in checked:
                continue
            relation = relation_name(checked[statement.span][0].relation)
            either = {relation, old_version(relation)}
            readers = tuple(each.id for each in policies.policies if either & policies.reads[each.relation])
            if beside or suite.policies.intersection(readers):
                points = tuple(Point(each.span, print_literal(each)) for each in _literals(statement.body))
                for rule in checked[statement.span]:
                    _mark(rule, points)
                yield Covered(relation, statement.span, readers, points=points)


def _literals(body: ast.Body) -> Iterator[ast.Literal]:
    """The literals as written, those of alternatives one by one."""
    for literal in body:
        if isinstance(literal, ast.Disjunction):
            for branch in literal.branches:
                yield from _literals(branch)
        else:
            yield literal


def _percent(rules: Sequence[Covered]) -> float:
    shown, wanted = (sum(rule.reached[at] for rule in rules) for at in (0, 1))
    return 100 * shown / wanted if wanted else 100.0


def _observe(judgement: Judgement, covered: Mapping[Span, Covered]) -> None:
    """Note what the certain versions of the rules did in a judgement."""
    program, model = judgement.evaluation.program, judgement.evaluation.model
    errors = errors_of(model)
    for rule in _checked(program):
        note = covered.get(rule.span)
        if note is None or rule.relation != certain_version(rule.relation) or not note.gaps():
            continue
        if any(match.relation not in model.tables for match in matches(rule.body)):
            continue  # the budget ended before that
        search = Assignments(model.tables, errors, Watch(Budget(looks=LOOKS)))
        try:
            _walk(rule, note, search)
        except BudgetError:
            continue


def _walk(rule: CheckedRule, covered: Covered, search: Assignments) -> None:
    """Go through the assignments of the rule's body, literal by literal, as long as there is something new to see."""
    body = search.body(rule)
    owners = [_owner(one, covered.points) for one in body]
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
            found = [each for each, cause in tried if cause is None]
            if owner and not tried:
                owner.false = True
            if owner and found and owner not in owners[at + 1 :]:
                owner.true = True
            levels.append(iter(found))


def _owner(one: ScopedLiteral, points: Sequence[Point]) -> Point | None:
    """The literal as written that a checked one is part of; the terms of the head have none."""
    start, end = _bounds(one.literal.span)
    for point in points:
        first, last = _bounds(point.span)
        if first <= start and end <= last:
            return point
    return None


def _bounds(span: Span) -> tuple[tuple[int, int], tuple[int, int]]:
    return (span.line, span.column), (span.end_line, span.end_column)


def _mark(rule: CheckedRule, points: Sequence[Point]) -> None:
    """Say of each literal as written whether it can be false."""
    bound: set[Var] = set()
    for one in scope_body(rule.body, [term for term in rule.arguments if isinstance(term, Var)]):
        owner = _owner(one, points)
        if owner and _may_fail(one.literal, bound):
            owner.fails = True
        bound |= binds(one.literal)


def _may_fail(literal: CheckedLiteral, bound: set[Var]) -> bool:
    match literal:
        case Compare("=", left, right):
            return all(isinstance(term, Const) or term in bound for term in (left, right))
        case Call(outputs=(output,)):
            return isinstance(output, Const) or output in bound
        case Fold(function=function, target=target):
            return function in MAY_FAIL or target in bound
    return True


def _checked(program: CheckedProgram) -> Iterator[CheckedRule]:
    return (rule for stratum in program.strata for rule in stratum.rules)
