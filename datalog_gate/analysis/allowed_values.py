"""Constants that no row of a relation can hold.

A least fixpoint, like that of the kinds: the texts that flow into a column, from the catalogue or from constants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import LONGEST, TESTS, name_of
from datalog_gate.analysis.linting import Review
from datalog_gate.analysis.strata import settle
from datalog_gate.base.diagnostics import Advice, Diagnostic, Severity, Span, closest, list_some, slip, suggest_name
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import Kind, kind_of
from datalog_gate.schema import cloud
from datalog_gate.schema.declaration import Column, RelationRef, ResourceType, relation_name
from datalog_gate.schema.property_paths import PathMeaning, read_path, types_by_property

OF_SCALARS = ("heat:property", "heat:reference")
"""Relations whose `path` leads to a scalar in the properties."""
OF_CALLS = (
    "heat:attribute", "heat:function", "heat:nested_function", "heat:text", "heat:uses_parameter", "heat:uses_file",
)  # fmt: skip
"""Relations whose `path` leads to a function in the properties, or after a dot elsewhere in the definition."""
OF_PROPERTIES = (*OF_SCALARS, "heat:unknown", *OF_CALLS)
OF_TABLES = ("gate:inventory", "gate:inventory_age")
"""Relations whose `table` names an inventory table."""
PARTS = ("metadata", "deletion_policy", "update_policy", "depends_on", "external_id", "condition")


class Domain(NamedTuple):
    """The texts that a column or variable can hold. `complete` says that there are no others, `listed` that they come
    only from the catalogue."""

    texts: frozenset[str]
    complete: bool = True
    listed: bool = False


ANY_ATTRIBUTE = ("OS::Heat::", "AWS::AutoScaling::", "AWS::CloudFormation::")
"""Types with the attributes of their members or the outputs of their stacks."""
FILES = (".yaml", ".yml", ".json", ".template")
"""The endings of resource types that are another template."""
MOST_VISITS = 20
"""The maximum number of visits to a rule in the fixpoint. After that its columns can hold any text."""
MOST_TEXTS = 1000
"""The maximum number of texts of a column. A column with more can hold any text."""


Domains = dict[RelationRef, dict[int, Domain]]
"""By relation and column; without the columns in which any text can occur."""
Known = Mapping[ir.Operand, Domain]
"""The texts that the classes of a body can hold; without the classes that can hold any."""


def check_values(review: Review, whole: bool) -> Iterator[Diagnostic]:
    """Report constants that cannot occur, in the rules of the modules to report. Derived columns are unrestricted
    unless the rules are the `whole` program."""
    judge = _Judge(_find_domains(review, whole), review)
    files = {module.file for module in review.modules}
    for rule in review.rules:
        if rule.body and rule.span.file in files:
            yield from judge.body(review.body(rule))


def _find_domains(review: Review, whole: bool) -> Domains:
    types = review.names.catalogue.types()
    tables = {
        *cloud.names(),
        *(word for name in map(str, review.relations) for word in (name, name.rpartition(":")[2])),
    }
    domains: Domains = {}
    for name, relation in review.relations.items():
        columns = [_listed(name, column, types, tables) for column in relation.columns]
        if whole and name in review.by_relation:
            rows = [fact.arguments for fact in review.facts.get(name, ())]
            texts = (frozenset(text for row in rows for text in _texts(row[at])) for at in range(len(columns)))
            columns = [Domain(some) if len(some) <= MOST_TEXTS else None for some in texts]
        domains[name] = {at: domain for at, domain in enumerate(columns) if domain}
    visits: Counter[int] = Counter()

    def flow(rule: ir.CheckedRule) -> bool:
        visits[id(rule)] += 1
        before, after = domains[rule.relation], {}
        if before and visits[id(rule)] <= MOST_VISITS:
            body = review.body(rule)
            known = _known(body, domains)
            joined = {at: _either(old, _of(body.leader(rule.arguments[at]), known)) for at, old in before.items()}
            after = {at: domain for at, domain in joined.items() if domain}
        domains[rule.relation] = after
        return before != after

    if whole:
        settle([rule for rule in review.rules if rule.body], flow)
    return domains


def _listed(name: RelationRef, column: Column, types: Sequence[str], tables: Collection[str]) -> Domain | None:
    plain = relation_name(name)
    if plain == "heat:resource" and column.name in ("type", "declared"):
        return Domain(frozenset(types), complete=False, listed=True)
    if column.name == "table" and plain in OF_TABLES:
        return Domain(frozenset(tables), complete=False, listed=True)  # an operator may collect others
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
    texts, complete = first.texts | other.texts, first.complete and other.complete
    return Domain(texts, complete, listed) if len(texts) <= MOST_TEXTS else None


def _both(domain: Domain | None, other: Domain | None) -> Domain | None:
    if domain is None or other is None:
        return domain or other
    if domain.complete and other.complete:
        return Domain(domain.texts & other.texts, listed=domain.listed or other.listed)
    return other if other.complete else domain


def _known(body: BodyFacts, domains: Domains, without: ir.Match | None = None) -> Known:
    """The domains of a body's classes, perhaps without what a match says. Equations with a constant are left out: the
    domains are used to check them."""
    known: dict[ir.Operand, Domain] = {}

    def meet(operand: ir.Operand, domain: Domain | None) -> None:
        own = body.leader(operand)
        if met := _both(known.get(own), domain):
            known[own] = met

    for match in body.around:
        if isinstance(match, ir.Match) and match is not without:
            for at, domain in domains[match.relation].items():
                if isinstance(term := match.arguments[at], ir.Var):
                    meet(term, domain)
    for call in body.around:
        match call:
            case ir.Call("lower" | "upper" as name, (value,), (ir.Var() as result,)):
                if source := known.get(body.leader(value)):
                    meet(result, _folded(name, source))
            case ir.Call("??", (value, default), (ir.Var() as result,)):
                first, second = (_of(body.leader(term), known) for term in (value, default))
                meet(result, _either(first, second))
    return known


@lru_cache(maxsize=16)
def _folded(name: str, domain: Domain) -> Domain:
    """The texts that `lower` or `upper` returns for those of the domain."""
    texts = frozenset(text.lower() if name == "lower" else text.upper() for text in domain.texts)
    return domain._replace(texts=texts)


@dataclass(frozen=True, slots=True)
class _Judge:
    """A check of bodies against the domains of all columns."""

    domains: Domains
    review: Review

    def body(self, body: BodyFacts) -> Iterator[Diagnostic]:
        known = _known(body, self.domains)
        for literal in body.own:
            match literal:
                case ir.Match():
                    yield from self._match(literal, body)
                case ir.Compare("=" | "!="):
                    for term, _, other in literal.from_each_side:
                        domain = known.get(body.leader(term))
                        yield from _strange(f"{name_of(term)} is never", other, domain, literal.span)
                case ir.Call("??", (value, default), _, span):
                    if (domain := known.get(body.leader(value))) and domain.listed:
                        found = _strange(f"{name_of(value)} is never", default, domain._replace(complete=False), span)
                        # Any other text is a name for null: it need not be a value of the column.
                        yield from (slip for slip in found if slip.severity == "error")
                case ir.Call(name, (value, ir.Const(str() as part)), _, span) if name in TESTS:
                    domain = known.get(body.leader(value))
                    if domain and domain.listed and domain.texts:
                        yield from _no_such_text(name_of(value), name, part, domain, span)
                case ir.Without() | ir.Fold():
                    yield from self.body(body.within(literal))

    def _match(self, match: ir.Match, body: BodyFacts) -> Iterator[Diagnostic]:
        name = relation_name(match.relation)
        for at, argument in match.column_terms:
            column = self.review.column((match, at)).name
            if column == "path" and name in OF_PROPERTIES:
                for constant, _ in body.stated(argument, match.span):
                    yield from self._path(match, constant, body)
            elif column == "attribute" and name == "heat:attribute":
                for constant, _ in body.stated(argument, match.span):
                    yield from self._attribute(match, constant, body)
            elif isinstance(argument, ir.Const):
                domain = self.domains[match.relation].get(at)
                yield from _strange(f"{column} of {match.relation} is never", argument, domain, match.span)
            elif match.relation in self.review.facts and len(body.own) <= LONGEST:
                rest = _known(body, self.domains, without=match).get(body.leader(argument))
                is_computed = any(other.relation in self.review.computed for other, _ in body.places(argument))
                if rest and (rest.listed or (rest.complete and is_computed)):
                    yield from self._facts_beside(match, at, rest, f"{name_of(argument)} is never")

    def _facts_beside(self, match: ir.Match, at: int, rest: Domain, what: str) -> Iterator[Diagnostic]:
        """Report facts, or choices of a list, that are joined with catalogue texts and match none. A fact that is
        merely not listed may be meant for another rule."""
        facts = self.review.facts[match.relation]
        stated = {text for fact in facts for text in _texts(fact.arguments[at])}
        joins_none = rest.texts and not stated & rest.texts and match.relation not in self.review.computed
        for fact in facts:
            for diagnostic in _strange(what, fact.arguments[at], rest, fact.span):
                advice = diagnostic.suggestion
                is_choice = self.review.relations[match.relation].generated
                if rest.listed and (is_choice or (isinstance(advice, Advice) and advice.meant)):
                    yield diagnostic
                elif joins_none:
                    yield replace(diagnostic, severity="warning")

    def _path(self, match: ir.Match, path: ir.Const, body: BodyFacts) -> Iterator[Diagnostic]:
        name, text, span = relation_name(match.relation), str(path.value), match.span
        what = f"path of {match.relation} is never {text!r}"
        if name in OF_CALLS and text.startswith("."):
            domain = Domain(frozenset(f".{part}" for part in PARTS), listed=True)
            first = ir.Const(f".{text.split('.')[1]}")
            yield from _strange(f"path of {match.relation} never begins with", first, domain, span)
            return
        own = self._types_of(match.arguments[0], body)
        by_property = {} if own else types_by_property(self.review.names.catalogue)
        types = own or by_property.get(text.partition(".")[0], ())
        meaning = read_path(text, types, whole=name not in OF_SCALARS, others=by_property)
        if meaning.problem:
            why = f": {meaning.problem}" if meaning.steps or own else ""
            severe = own or (not meaning.steps and slip(text.partition(".")[0], by_property))
            yield Diagnostic("unknown-value", what + why, span, meaning.suggestion, "error" if severe else "warning")
        elif name == "heat:property":
            yield from self._value_at(text, match, meaning, body, bool(own))

    def _value_at(
        self, path: str, match: ir.Match, meaning: PathMeaning, body: BodyFacts, certain: bool
    ) -> Iterator[Diagnostic]:
        """Report a constant of the wrong kind for the property at its path: ``path="size", value="10"``."""
        for constant, span in body.constants(match.arguments[2], match.span):
            kind = kind_of(constant.value)
            if meaning.kinds and not kind & (meaning.kinds | Kind.NULL):
                message = f"the property {path} is {(meaning.kinds & ~Kind.NULL).describe()}, not {kind.describe()}"
                suggestion = None
                if kind == Kind.STRING and meaning.kinds & (Kind.NUMBER | Kind.BOOLEAN):
                    suggestion = f"write the value without quotes: {str(constant.value).lower()}"
                elif kind != Kind.STRING and Kind.STRING in meaning.kinds:
                    suggestion = f'write the value in quotes: "{str(constant.value).lower()}"'
                yield Diagnostic("kind-mismatch", message, span, suggestion, "error" if certain else "warning")

    def _attribute(self, match: ir.Match, attribute: ir.Const, body: BodyFacts) -> Iterator[Diagnostic]:
        own = self._types_of(match.arguments[2], body)
        if any(kind.name.startswith(ANY_ATTRIBUTE) for kind in own):
            return
        catalogue = self.review.names.catalogue
        types = own or filter(None, map(catalogue.type, catalogue.types()))
        names = frozenset(name for kind in types for name in (*kind.attributes, "show"))
        if own:
            yield from _strange(f"{own[0].name} has no attribute", attribute, Domain(names, listed=True), match.span)
            return
        for text in _texts(attribute):  # an output of a nested stack may have any name
            if text not in names and slip(text, names):
                message, advice = f"no type has an attribute {text!r}", suggest_name(closest(text, names))
                yield Diagnostic("unknown-value", message, match.span, advice, "warning")

    def _types_of(self, resource: ir.Pattern, body: BodyFacts) -> list[ResourceType]:
        """The types that the body requires of a resource; none if it names no type of the catalogue."""
        if resource is None:
            return []
        names: list[str | None] = []
        for match, at in body.places(resource):
            relation = relation_name(match.relation)
            if at == 0 and relation == "heat:resource":
                kind = match.arguments[self.review.relations[match.relation].positions["type"]]
                names += [str(kind.value)] if isinstance(kind, ir.Const) else []
            elif at == 0 and self.review.relations[match.relation].named_only:
                names.append(self.review.names.catalogue.owner(relation.partition(".")[0]))
        return [kind for kind in (self.review.names.catalogue.type(name) for name in names if name) if kind]


def _no_such_text(name: str, builtin: str, part: str, domain: Domain, span: Span) -> Iterator[Diagnostic]:
    if any(TESTS[builtin](text, part) for text in domain.texts) or _is_file(part, domain):
        return
    starts = {text[: len(part)] for text in domain.texts} if builtin == "starts_with" else domain.texts
    what = {"starts_with": "starts with", "ends_with": "ends with"}.get(builtin, builtin)
    severity: Severity = "error" if domain.complete else "warning"
    otherwise = "one of " + list_some(domain.texts) if domain.complete else None
    suggestion = suggest_name(closest(part, starts), otherwise)
    yield Diagnostic("unknown-value", f"{name} never {what} {part!r}", span, suggestion, severity)


def _strange(what: str, constant: ir.Operand | None, domain: Domain | None, span: Span) -> Iterator[Diagnostic]:
    if domain is None or not isinstance(constant, ir.Const):
        return
    for text in _texts(constant):
        if text in domain.texts or not domain.texts or _is_file(text, domain):
            continue
        severe = (domain.complete and domain.listed) or slip(text, domain.texts)
        suggestion = suggest_name(closest(text, domain.texts), "one of " + list_some(domain.texts))
        yield Diagnostic("unknown-value", f"{what} {text!r}", span, suggestion, "error" if severe else "warning")


def _is_file(text: str, domain: Domain) -> bool:
    """Whether the text names a template, as the type of a nested stack does."""
    return text.endswith(FILES) and "OS::Nova::Server" in domain.texts
