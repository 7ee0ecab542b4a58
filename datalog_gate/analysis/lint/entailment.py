"""Negations that the rest of their body entails.

``p(x, y), not p(x, _)`` never holds: for some values of its variables, each literal of the negation also stands beside
it. The same applies to the literals of a rule for the negated relation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import permutations

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.program import renamed, variables
from datalog_gate.base.values import Kind
from datalog_gate.language.ast import Comparator
from datalog_gate.schema.declaration import Relation, RelationRef, relation_name

NEGATED: Mapping[str, Comparator] = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "=": "!=", "!=": "="}
FLIPPED: Mapping[str, Comparator] = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
Choice = Mapping[ir.Var, ir.Operand]
"""Values for the variables of a negation: operands of the rest of the body."""
Reading = Callable[[ir.Operand], ir.Operand]
"""Maps an operand to the constant or the first variable that it equals."""
LONGEST = 20
"""The maximum number of literals of a negation, and of negations of a body, that are tried."""
MOST_FOLDS = 5
"""The maximum number of aggregates in a body that are compared with each other."""
ORDERED = ("min", "avg", "max")
"""Aggregates whose result lies between the least and the greatest value."""
MOST_TRIES = 2000
"""The maximum number of pairs of literals that a search compares. After that it assumes that the body may hold."""


def find_entailed(
    body: Sequence[ir.CheckedLiteral],
    relations: Mapping[RelationRef, Relation],
    rules: Mapping[RelationRef, Sequence[ir.CheckedRule]],
    reading: Reading,
) -> str | None:
    """Why the body entails a negation in it, or None."""
    negations = [literal for literal in body if isinstance(literal, ir.Without)]
    if len(negations) > LONGEST:
        return None
    forms: set[Hashable] = {form for literal in body for form in _forms(literal)} if negations else set()
    for literal in negations:
        if not 0 < len(literal.body) <= LONGEST:
            continue
        search = _Entailment([other for other in body if other is not literal], relations, reading)
        if _may_stand(literal.body, forms) and search.holds(literal.body):
            match literal.body:
                case (ir.Match(relation),):
                    return f"it needs a row of {relation_name(relation)}, but its `not` excludes every such row"
            return "its `not` contradicts its other conditions"
        match literal.body:
            case (ir.Match(relation) as wanted,):
                for rule in rules.get(relation, ()):
                    if 0 < len(rule.body) <= LONGEST and _may_stand(rule.body, forms) and search.derives(rule, wanted):
                        return f"`not {relation_name(relation)}` fails, because the other conditions give it a row"
    return None


def _may_stand(wanted: Sequence[ir.CheckedLiteral], forms: Set[Hashable]) -> bool:
    """Whether the body has a literal of the form of each wanted one; otherwise a search is pointless."""
    return all(not forms.isdisjoint(_forms(literal)) for literal in wanted)


def _forms(literal: ir.CheckedLiteral) -> tuple[Hashable, ...]:
    """A key that is equal for two literals if one may stand for the other."""
    match literal:
        case ir.Match(relation):
            return (relation,)
        case ir.Compare(sign):
            return ((sign,), (FLIPPED[sign],))
        case ir.Call(name):
            return (("", name),)
    return ()


def find_fold_bounds(
    body: Sequence[ir.CheckedLiteral], relations: Mapping[RelationRef, Relation], reading: Reading
) -> Iterator[ir.Compare]:
    """Yield bounds of aggregates in the body. Rows beside a `count` of them make it at least 1, no value is above their
    `max`, and a single value from outside makes a count of at most 1."""
    folds = [literal for literal in body if isinstance(literal, ir.Fold) and 0 < len(literal.body) <= LONGEST]
    for fold in folds if len(folds) <= LONGEST else ():
        search = _Entailment([other for other in body if other is not fold], relations, reading)
        if fold.function == "count" and search.is_single(fold):
            yield ir.Compare("<=", fold.target, ir.Const(1), fold.span)
        choice = next(search.choices(fold.body, {}), None)
        if choice is None:
            continue
        first = fold.terms[0]
        value = choice.get(first, first) if isinstance(first, ir.Var) else first
        if not (search.has_first_value(fold) or search.is_never_null(value)):
            continue
        if fold.function == "count":
            yield ir.Compare(">=", fold.target, ir.Const(1), fold.span)
        elif fold.function in ("max", "min") and not (isinstance(value, ir.Var) and value.generated):
            yield ir.Compare(">=" if fold.function == "max" else "<=", fold.target, value, fold.span)
    for part, whole in permutations(folds, 2) if len(folds) <= MOST_FOLDS else ():
        others = [other for other in body if other is not part and other is not whole]
        search = _Entailment([*others, *part.body], relations, reading)
        yield from _order_aggregates(part, whole, search)


def _order_aggregates(part: ir.Fold, whole: ir.Fold, search: _Entailment) -> Iterator[ir.Compare]:
    """Yield how two aggregates are ordered if one covers a subset of the other: its `max` is at most that of the whole,
    its `min` at least, its `avg` between the two."""
    for choice in search.choices(whole.body, {}):
        terms = tuple(choice.get(term, term) if isinstance(term, ir.Var) else term for term in whole.terms)
        if terms == part.terms and part.function == whole.function == "count":
            yield ir.Compare("<=", part.target, whole.target, part.span)
        if terms[0] == part.terms[0] and part.function in ORDERED and whole.function in ("min", "max"):
            sign: Comparator = "<=" if whole.function == "max" else ">="
            yield ir.Compare(sign, part.target, whole.target, part.span)
            return


class _Entailment:
    """Finds values of variables for which literals are present in a body."""

    def __init__(
        self, beside: Sequence[ir.CheckedLiteral], relations: Mapping[RelationRef, Relation], reading: Reading
    ) -> None:
        self._beside, self._relations, self._reading = beside, relations, reading
        self._tries = 0

    @cached_property
    def _outer(self) -> set[ir.Var]:
        return {var for literal in self._beside for var in variables(literal)}

    @cached_property
    def _present(self) -> set[ir.Operand]:
        return {self._reading(var) for var in self._find_present()}

    def holds(self, wanted: Sequence[ir.CheckedLiteral]) -> bool:
        """Whether the literals of a negation hold whenever the body does."""
        return next(self.choices(wanted, {}), None) is not None

    def derives(self, rule: ir.CheckedRule, wanted: ir.Match) -> bool:
        """Whether the rule derives the wanted row whenever the body holds."""
        own = {var for literal in rule.body for var in variables(literal)}
        names = {var: ir.Var(var.name, f"{var.generated} of a rule") for var in own}
        choice: Choice | None = {}
        for at, term in wanted.column_terms:
            argument = renamed(rule.arguments[at], names)
            choice = None if choice is None else self._match_term(argument, term, choice)
        return choice is not None and next(self.choices(renamed(rule.body, names), choice), None) is not None

    def is_single(self, fold: ir.Fold) -> bool:
        """Whether equations fix each term of an aggregate to one value from outside."""
        same = set(self._outer)
        for literal in fold.body:
            match literal:
                case ir.Compare("=", ir.Var() as left, ir.Var() as right):
                    same |= {left, right} if same & {left, right} else set()
                case ir.Compare("=", ir.Var() as term, ir.Const()) | ir.Compare("=", ir.Const(), ir.Var() as term):
                    same.add(term)
        return all(isinstance(term, ir.Const) or term in same for term in fold.terms)

    def is_never_null(self, value: ir.Operand) -> bool:
        """Whether the value is certainly not null."""
        return value.value is not None if isinstance(value, ir.Const) else value in self._present

    def has_first_value(self, fold: ir.Fold) -> bool:
        """Whether the first term of an aggregate is never null."""
        first = fold.terms[0]
        if isinstance(first, ir.Const):
            return first.value is not None
        for literal in fold.body:
            match literal:
                case ir.Match(relation, _):
                    columns = self._relations[relation].columns
                    if any(term == first and Kind.NULL not in columns[at].kinds for at, term in literal.column_terms):
                        return True
                case ir.Compare("!=") if literal.null_test and first in (literal.left, literal.right):
                    return True
        return False

    def choices(self, wanted: Sequence[ir.CheckedLiteral], choice: Choice) -> Iterator[Choice]:
        """Yield extensions of the given choice for which each of the wanted literals is present."""
        if not wanted:
            yield choice
            return
        for literal in self._beside:
            self._tries += 1
            if self._tries > MOST_TRIES:
                return
            extended = self._match_literal(wanted[0], literal, choice)
            if extended is not None:
                yield from self.choices(wanted[1:], extended)

    def _match_literal(self, wanted: ir.CheckedLiteral, literal: ir.CheckedLiteral, choice: Choice) -> Choice | None:
        """The choice for which the wanted literal follows from the other one, or None."""
        match wanted, literal:
            case ir.Match(relation), ir.Match(other) if relation == other:
                for at, term in wanted.column_terms:
                    extended = self._match_term(term, literal.arguments[at], choice)
                    kinds = self._relations[relation].columns[at].kinds
                    joins = isinstance(term, ir.Var) and (term in self._outer or term in choice)
                    if extended is None or (
                        joins and Kind.NULL in kinds and self._resolve(term, choice) not in self._present
                    ):
                        return None
                    choice = extended
                return choice
            case ir.Compare(sign, left, right), ir.Compare(other_sign, first, second):
                extended = self._match_terms((left, right), (first, second), choice) if sign == other_sign else None
                if extended is None and sign == FLIPPED[other_sign]:
                    extended = self._match_terms((left, right), (second, first), choice)
                return extended
            case ir.Call(name, inputs, outputs), ir.Call(other_name, others, given) if name == other_name:
                return self._match_terms((*inputs, *outputs), (*others, *given), choice)
        return None

    def _match_terms(self, terms: Sequence[ir.Pattern], others: Sequence[ir.Pattern], choice: Choice) -> Choice | None:
        extended: Choice | None = choice
        for term, other in zip(terms, others, strict=True):
            extended = extended if term is None or extended is None else self._match_term(term, other, extended)
        return extended

    def _match_term(self, term: ir.Operand, other: ir.Pattern, choice: Choice) -> Choice | None:
        """The choice for which the term equals the other one, or None."""
        own = isinstance(term, ir.Var) and term not in self._outer and term not in choice
        if own and isinstance(term, ir.Var):
            return {**choice, term: self._reading(other) if other is not None else ir.Var("", "anything")}
        return choice if other is not None and self._resolve(term, choice) == self._reading(other) else None

    def _resolve(self, term: ir.Operand, choice: Choice) -> ir.Operand:
        return choice[term] if isinstance(term, ir.Var) and term in choice else self._reading(term)

    def _find_present(self) -> Iterator[ir.Var]:
        """Yield the variables that the body requires not to be null."""
        for literal in self._beside:
            match literal:
                case ir.Match(relation):
                    columns = self._relations[relation].columns
                    for at, term in literal.column_terms:
                        if isinstance(term, ir.Var) and Kind.NULL not in columns[at].kinds:
                            yield term
                case ir.Compare("!=", left, right) if literal.null_test:
                    yield from (side for side in (left, right) if isinstance(side, ir.Var))
