"""Doubts: the stacks whose rows a lifted program may derive wrongly.

They are in doubt for values and rows that no table holds.

A row of a relation may lack values, which are null in its place, or may itself not be there, and is in a relation of
its own then. A stack is in doubt of what a rule derives if such a row fits the rule, as far as the rest is known::

    p(root, x) :- q(root, x, y), r(y), not s(root, x).      =>      doubt#p(root) :- q#2(root), q(root, x, null).
    (q may lack y; of s a row may not be there)                     doubt#p(root) :- s?(root, x).

That says too much at times, and never too little: what may be wrong in a body is left out, and so is what may fail. A
root whose doubt is in error, since a row that the rule reads is, is in doubt too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import field, replace

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lifting import ROOT_COLUMN, ROOT_VARIABLE, Lifted
from datalog_gate.analysis.program import variables
from datalog_gate.base.records import dataclass
from datalog_gate.schema.declaration import Relation, RelationRef
from datalog_gate.schema.signatures import KIND_TESTS

MAYBE = "?"
"""What follows the name of a relation in that of its rows that may not be there."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """A program that derives the roots in doubt, too."""

    lifted: Lifted
    relations: Mapping[RelationRef, RelationRef]
    """The relation of the roots in doubt, by the relation that is in doubt."""


def lacking(relation: str, column: int) -> str:
    """The name of the input of the roots in which rows of a relation lack values of a column."""
    return f"{relation}#{column}"


def with_doubts(lifted: Lifted, columns: Mapping[str, Set[int]]) -> Doubts:
    """Add the relations of doubts. `columns` are those in which values lack, by input that is lifted. The relation
    `MAYBE` of an input is among them, if with no column, where that has rows: it is an input then. So is the one of
    `lacking` for each column."""
    program = lifted.program
    relations = dict(program.relations)
    added = {lacking(name, column) for name in columns for column in columns[name]}
    relations |= {name: _roots(name) for name in added}
    for name in columns.keys() - relations.keys():
        relations[name] = replace(relations[name.removesuffix(MAYBE)], name=name)
    made = _Doubts(columns)
    strata: list[ir.Stratum] = []
    for stratum in program.strata:
        before = -1
        rules: list[ir.CheckedRule] = []
        while before < len(made.relations):
            before = len(made.relations)
            pairs = [(rule.relation, doubt) for rule in stratum.rules for doubt in made.of(rule)]
            made.relations |= {name: doubt.relation for name, doubt in pairs}
            rules = [doubt for _, doubt in pairs]
        if rules:
            strata.append(ir.Stratum(tuple({rule.relation: None for rule in rules}), tuple(rules), stratum.recursive))
    names = frozenset((*added, *columns, *made.relations.values()))
    relations |= {name: _roots(str(name)) for name in made.relations.values()}
    inputs = program.inputs | added | columns.keys()
    whole = ir.CheckedProgram(relations, inputs, (*program.strata, *strata), program.rewritten)
    return Doubts(Lifted(whole, lifted.relations | names), made.relations)


def _roots(name: str) -> Relation:
    return Relation(name, (ROOT_COLUMN,), key=(ROOT_COLUMN.name,), generated="doubt")


@dataclass(slots=True)
class _Doubts:
    """What makes the rules of doubts."""

    columns: Mapping[str, Set[int]]
    relations: dict[RelationRef, RelationRef] = field(default_factory=dict)
    """The relations of doubts, by what is in doubt."""

    def of(self, rule: ir.CheckedRule) -> Iterator[ir.CheckedRule]:
        """A rule for each way in which what a rule reads wrongly makes what it derives doubtful."""
        occurrences = Counter(rule.arguments)
        for literal in rule.body:
            occurrences.update(variables(literal))
        for match, others in _ways(rule.body):
            for source in self.sources(match):
                known = [other for other in others if isinstance(other, ir.Match) and self.is_sure(other)]
                given = dict.fromkeys((*source, *known))
                bound = {var for literal in given for var in variables(literal)}
                tests = [other for other in others if self.is_test(other, bound, occurrences)]
                yield ir.CheckedRule(f"doubt#{rule.relation}", (ROOT_VARIABLE,), (*given, *tests), rule.span)

    def is_test(self, literal: ir.CheckedLiteral, bound: Set[ir.Var], occurrences: Mapping[ir.Operand, int]) -> bool:
        """Whether it is a test of variables that are bound. Others of a negation must occur in it alone."""
        own = Counter(variables(literal))
        if isinstance(literal, ir.Without):
            own = Counter({var: count for var, count in own.items() if occurrences[var] > count})
        return not isinstance(literal, ir.Match) and self.is_sure(literal) and bound >= own.keys()

    def sources(self, match: ir.Match) -> Iterator[list[ir.Match]]:
        """What a match may read wrongly: the roots in doubt of a derived relation, or the rows of an input."""
        name, span = match.relation, match.span
        if name in self.relations:
            yield [ir.Match(self.relations[name], (ROOT_VARIABLE,), span)]
            return
        lack, maybe = (self.columns.get(f"{name}{end}", frozenset[int]()) for end in ("", MAYBE))
        for column in lack & set(match.columns):
            arguments = [None if at in lack else term for at, term in enumerate(match.arguments)]
            arguments[column] = ir.Const(None)
            roots = ir.Match(lacking(str(name), column), (ROOT_VARIABLE,), span)
            yield [roots, replace(match, arguments=tuple(arguments))]
        if f"{name}{MAYBE}" in self.columns:
            arguments = [None if at in maybe else term for at, term in enumerate(match.arguments)]
            yield [ir.Match(f"{name}{MAYBE}", tuple(arguments), span)]

    def is_sure(self, literal: ir.CheckedLiteral) -> bool:
        """Whether it reads nothing wrongly and never fails."""
        match literal:
            case ir.Match():
                return not any(True for _ in self.sources(literal))
            case ir.Compare(comparator="=" | "!="):
                return True
            case ir.Call(builtin):
                return builtin in KIND_TESTS
            case ir.Without(body):
                return all(map(self.is_sure, body))
        return False


def _ways(
    body: Sequence[ir.CheckedLiteral], around: Sequence[ir.CheckedLiteral] = ()
) -> Iterator[tuple[ir.Match, list[ir.CheckedLiteral]]]:
    """The matches of a body and of its inner bodies, each with the literals beside and around it."""
    for at, literal in enumerate(body):
        others = [*around, *body[:at], *body[at + 1 :]]
        match literal:
            case ir.Match():
                yield literal, others
            case ir.Without() | ir.Fold():
                yield from _ways(literal.body, others)
