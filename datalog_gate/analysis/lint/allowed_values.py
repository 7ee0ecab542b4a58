"""Constants that no row of a relation can hold.

A least fixpoint, like that of the kinds: the texts that flow into a column, from the catalogue or from constants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.strata import settle
from datalog_gate.analysis.types import name_of
from datalog_gate.base.diagnostics import Diagnostic, Span, closest, did_you_mean
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import Column, Relation, RelationRef, relation_name

OF_PROPERTIES = ("heat:property", "heat:reference", "heat:unknown")
"""Relations whose `path` begins with the name of a property."""
MOST_VISITS = 20
"""The maximum number of visits of a rule in the fixpoint; after that its columns can hold any text."""
MOST_TEXTS = 1000
"""A column with more texts counts as one that can hold any text."""
LONGEST = 200
"""In a longer body facts are not compared with what they join: that takes quadratic time."""


class Domain(NamedTuple):
    """The texts that a column or variable can hold: `complete` says that there are no others, `listed` that they come
    from the catalogue alone."""

    texts: frozenset[str]
    complete: bool = True
    listed: bool = False


Domains = dict[tuple[RelationRef, int], Domain | None]
"""By relation and column; None where any text can occur."""
Known = dict[ir.Var, Domain | None]


def check_values(
    rules: Sequence[ir.CheckedRule], relations: Mapping[RelationRef, Relation], catalogue: Catalogue, whole: bool
) -> list[Diagnostic]:
    """What is wrong with the constants of the rules, which best stand in the order of their strata. Of derived columns
    nothing is known unless the rules are the `whole` program."""
    types = catalogue.types()
    others = [rule for rule in rules if rule.body]
    facts: dict[RelationRef, list[ir.CheckedRule]] = {}
    derived = {rule.relation for rule in rules}
    texts: dict[tuple[RelationRef, int], set[str]] = {}
    for rule in (rule for rule in rules if not rule.body):
        facts.setdefault(rule.relation, []).append(rule)
        for at, argument in enumerate(rule.arguments):
            texts.setdefault((rule.relation, at), set()).update(_texts(argument))
    domains: Domains = {
        (name, at): _bounded(Domain(frozenset(texts.get((name, at), ()))))
        if whole and name in derived
        else _listed(name, column, types)
        for name, relation in relations.items()
        for at, column in enumerate(relation.columns)
    }
    visits: Counter[int] = Counter()

    def flow(rule: ir.CheckedRule) -> bool:
        visits[id(rule)] += 1
        before = [domains[rule.relation, at] for at in range(len(rule.arguments))]
        if visits[id(rule)] > MOST_VISITS:
            after: list[Domain | None] = [None] * len(before)
        else:
            known = _known(rule.body, {}, domains) if any(before) else {}
            after = [_either(old, _of(term, known)) for old, term in zip(before, rule.arguments, strict=True)]
        domains.update(((rule.relation, at), new) for at, new in enumerate(after))
        return before != after

    if whole:
        settle(others, flow)
    judge = _Judge(domains, relations, facts, catalogue)
    return [diagnostic for rule in others for diagnostic in judge.body(rule.body, {})]


def _listed(name: RelationRef, column: Column, types: Sequence[str]) -> Domain | None:
    if relation_name(name) == "heat:resource" and column.name in ("type", "declared"):
        return Domain(frozenset(types), complete=False, listed=True)
    return Domain(frozenset(column.allowed), column.closed, listed=True) if column.allowed else None


def _texts(operand: ir.Operand) -> tuple[str, ...]:
    return (operand.value,) if isinstance(operand, ir.Const) and isinstance(operand.value, str) else ()


def _of(operand: ir.Operand, known: Known) -> Domain | None:
    return Domain(frozenset(_texts(operand))) if isinstance(operand, ir.Const) else known.get(operand)


def _either(first: Domain | None, other: Domain | None) -> Domain | None:
    if first is None or other is None:
        return None
    full = [domain for domain in (first, other) if domain.texts]
    listed = bool(full) and all(domain.listed for domain in full)
    return _bounded(Domain(first.texts | other.texts, first.complete and other.complete, listed))


def _both(domain: Domain | None, other: Domain | None) -> Domain | None:
    if domain is None or other is None:
        return domain or other
    if domain.complete and other.complete:
        return Domain(domain.texts & other.texts, listed=domain.listed or other.listed)
    return other if other.complete else domain


def _bounded(domain: Domain) -> Domain | None:
    return domain if len(domain.texts) <= MOST_TEXTS else None


def _known(body: Sequence[ir.CheckedLiteral], outer: Known, domains: Domains) -> Known:
    """The domains of a body's variables, without equations with a constant, which are judged by it."""
    known, before = dict(outer), None
    while known != before:
        before = dict(known)
        for literal in body:
            match literal:
                case ir.Match(relation, arguments):
                    for at, term in enumerate(arguments):
                        if isinstance(term, ir.Var):
                            known[term] = _both(known.get(term), domains[relation, at])
                case ir.Compare("=", ir.Var() as left, ir.Var() as right):
                    known[left] = known[right] = _both(known.get(left), known.get(right))
                case ir.Call("??", (value, default), (ir.Var() as result,)):
                    known[result] = _both(known.get(result), _either(_of(value, known), _of(default, known)))
    return known


@dataclass(frozen=True, slots=True)
class _Judge:
    """A check of bodies against the domains of all columns."""

    domains: Domains
    relations: Mapping[RelationRef, Relation]
    facts: Mapping[RelationRef, Sequence[ir.CheckedRule]]
    catalogue: Catalogue

    def body(self, body: Sequence[ir.CheckedLiteral], outer: Known) -> Iterator[Diagnostic]:
        known = _known(body, outer, self.domains)
        for literal in body:
            match literal:
                case ir.Match():
                    yield from self._match(literal, body, outer)
                case ir.Compare("=" | "!=", left, right, span):
                    for term, other in ((left, right), (right, left)):
                        if isinstance(term, ir.Var):
                            yield from _strange(f"{name_of(term)} is never", other, known.get(term), span)
                case ir.Call("??", (ir.Var() as value, default), _, span):
                    if (domain := known.get(value)) and domain.listed:
                        domain = domain._replace(complete=False)
                        yield from _strange(f"{name_of(value)} is never", default, domain, span)
                case ir.Without(inner) | ir.Fold(_, _, inner):
                    yield from self.body(inner, known)

    def _match(self, match: ir.Match, body: Sequence[ir.CheckedLiteral], outer: Known) -> Iterator[Diagnostic]:
        for at, argument in enumerate(match.arguments):
            domain = self.domains[match.relation, at]
            column = self.relations[match.relation].columns[at].name
            if isinstance(argument, ir.Const):
                what = f"{column} of {match.relation} is never"
                if column == "path" and relation_name(match.relation) in OF_PROPERTIES:
                    domain = self._properties(match, body)
                    argument = ir.Const(str(argument.value).partition(".")[0])
                yield from _strange(what, argument, domain, match.span)
            elif argument and domain and not domain.listed and match.relation in self.facts and len(body) <= LONGEST:
                rest = _known([literal for literal in body if literal is not match], outer, self.domains).get(argument)
                if rest and rest.listed:
                    yield from self._facts_beside(match, at, rest, f"{name_of(argument)} is never")

    def _facts_beside(self, match: ir.Match, at: int, rest: Domain, what: str) -> Iterator[Diagnostic]:
        """What is wrong with facts, or with the choices of a list, that are joined with what the catalogue lists. A
        fact that merely is not listed may be meant for another rule."""
        for fact in self.facts.get(match.relation, ()):
            for diagnostic in _strange(what, fact.arguments[at], rest, fact.span):
                if self.relations[match.relation].generated or "mean" in (diagnostic.suggestion or ""):
                    yield diagnostic

    def _properties(self, match: ir.Match, body: Sequence[ir.CheckedLiteral]) -> Domain:
        """The properties of the type that the body says the resource is of; of all types, if it does not."""
        of_type = [
            argument.value
            for literal in body
            if isinstance(literal, ir.Match)
            and relation_name(literal.relation) == "heat:resource"
            and literal.arguments[0] == match.arguments[0]
            for argument in literal.arguments[3:]
            if isinstance(argument, ir.Const)
        ]
        kinds = [self.catalogue.type(str(name)) for name in of_type or self.catalogue.types()]
        return Domain(frozenset(schema.name for kind in kinds if kind for schema in kind.properties), False, True)


def _strange(what: str, constant: ir.Operand | None, domain: Domain | None, span: Span) -> Iterator[Diagnostic]:
    if domain is None or not isinstance(constant, ir.Const):
        return
    for text in _texts(constant):
        if text in domain.texts or not domain.texts:
            continue
        near = closest(text, domain.texts)
        severe = (domain.complete and domain.listed) or (near is not None and _letters_apart(text, near) <= 2)
        suggestion = did_you_mean(text, domain.texts, "one of " + ", ".join(sorted(domain.texts)[:12]))
        yield Diagnostic("unknown-value", f"{what} {text!r}", span, suggestion, "error" if severe else "warning")


def _letters_apart(word: str, other: str) -> int:
    """The edit distance of two words."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(word, 1):
        above, row[0] = row[0], at
        for place, against in enumerate(other, 1):
            above, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, above + (letter != against))
    return row[-1]
