"""Doubts: the stacks for which a lifted program may derive wrong rows.

Tables cannot hold every value and row. A row may lack values, which are null there. A row that may not exist is in a
relation of its own. A stack is in doubt about a derived relation if such a row fits a rule as far as it is known::

    p(root, x) :- q(root, x, y), r(y), not s(root, x).      =>      doubt#p(root) :- q#2(root), q(root, x, null).
    (q may lack y; a row of s may not exist)                        doubt#p(root) :- s?(root, x).

This may report too many stacks, never too few: literals of a body that may be wrong or fail are left out. A root whose
doubt meets an error is in doubt too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lifting import ROOT_COLUMN, ROOT_VARIABLE, Lifted
from datalog_gate.analysis.program import variables
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.schema.declaration import MAYBE, Relation, RelationRef
from datalog_gate.schema.signatures import KIND_TESTS


@dataclass(frozen=True, slots=True)
class Doubts:
    """A program that derives the roots in doubt, too."""

    lifted: Lifted
    relations: Mapping[RelationRef, RelationRef]
    """By relation, the relation of the roots that are in doubt about it."""


def lacking(relation: str, column: int) -> str:
    """The name of the input with the roots whose rows of a relation lack values of a column."""
    return f"{relation}#{column}"


def with_doubts(lifted: Lifted, columns: Mapping[str, Set[int]]) -> Doubts:
    """Add the relations of doubts, and their inputs. `columns` are the columns that lack values, by lifted input. A
    `MAYBE` relation with rows is an input too, with or without such columns. `lacking` names the input for each
    column."""
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
    whole = ir.CheckedProgram(relations, inputs, (*program.strata, *strata))
    return Doubts(Lifted(whole, lifted.relations | names), made.relations)


def _roots(name: str) -> Relation:
    return Relation(name, (ROOT_COLUMN,), key=(ROOT_COLUMN.name,), generated="doubt")


@dataclass(slots=True)
class _Doubts:
    """Builds the rules of doubts."""

    columns: Mapping[str, Set[int]]
    relations: dict[RelationRef, RelationRef] = field(default_factory=dict)
    """The relations of doubts, by the relation in doubt."""

    def of(self, rule: ir.CheckedRule) -> Iterator[ir.CheckedRule]:
        """Yield a rule for each way in which a wrong read makes a derived row doubtful."""
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
        """Whether the literal tests bound variables. Other variables of a negation must occur only in it."""
        own = Counter(variables(literal))
        if isinstance(literal, ir.Without):
            own = Counter({var: count for var, count in own.items() if occurrences[var] > count})
        return not isinstance(literal, ir.Match) and self.is_sure(literal) and bound >= own.keys()

    def sources(self, match: ir.Match) -> Iterator[list[ir.Match]]:
        """What may be wrong where a match reads: the roots in doubt of a derived relation, or rows of an input."""
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
        """Whether the literal reads nothing wrong and never fails."""
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
    """Yield each match of a body and its inner bodies, with the literals beside and around it."""
    for at, literal in enumerate(body):
        others = [*around, *body[:at], *body[at + 1 :]]
        match literal:
            case ir.Match():
                yield literal, others
            case ir.Without() | ir.Fold():
                yield from _ways(literal.body, others)
