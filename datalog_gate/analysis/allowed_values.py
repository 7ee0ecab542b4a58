"""Constants that no row of a relation can hold.

A least fixpoint, like that of the kinds: the texts that flow into a column, from the catalogue or from constants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import LONGEST, TESTS, name_of, takes_given
from datalog_gate.analysis.property_paths import PathMeaning, read_path
from datalog_gate.analysis.strata import settle
from datalog_gate.base.diagnostics import Advice, Diagnostic, Severity, Span, closest, did_you_mean
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import Kind, kind_of
from datalog_gate.schema import cloud
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import Column, Relation, RelationRef, ResourceType, relation_name

OF_SCALARS = ("heat:property", "heat:reference")
"""Relations whose `path` leads to a scalar in the properties."""
OF_CALLS = (
    "heat:attribute", "heat:function", "heat:nested_function", "heat:text", "heat:uses_parameter", "heat:uses_file",
)  # fmt: skip
"""Relations whose `path` leads to a function in the properties, or after a dot elsewhere in the definition."""
OF_PROPERTIES = (*OF_SCALARS, "heat:unknown", *OF_CALLS)
OF_TABLES = ("gate:inventory", "gate:inventory_age")
"""Relations whose `table` names an inventory table."""
_OF_SERVERS = (
    "ACTIVE BUILD DELETED ERROR HARD_REBOOT MIGRATING PASSWORD PAUSED REBOOT REBUILD RESCUE RESIZE REVERT_RESIZE "
    "SHELVED SHELVED_OFFLOADED SHUTOFF SOFT_DELETED SUSPENDED UNKNOWN VERIFY_RESIZE"
)
_OF_PORTS = "ACTIVE BUILD DOWN ERROR N/A"
STATUSES = {
    **dict.fromkeys(("nova:servers", "live:os:nova:server"), _OF_SERVERS),
    **dict.fromkeys(("neutronv2:ports", "live:os:neutron:port"), _OF_PORTS),
}
"""The words that Nova's and Neutron's APIs give as the status of a server and of a port."""
PARTS = ("metadata", "deletion_policy", "update_policy", "depends_on", "external_id", "condition")
_ROLES = (
    "admin manager member reader service heat_stack_owner heat_stack_user creator observer audit swiftoperator "
    "ResellerAdmin key-manager:service-admin load-balancer_admin load-balancer_global_observer load-balancer_member "
    "load-balancer_observer load-balancer_quota_admin"
)
"""The roles that the policies of OpenStack's services name."""


class Domain(NamedTuple):
    """The texts that a column or variable can hold. `complete` says that there are no others, `listed` that they come
    only from the catalogue. If an operator may add some, `what` describes them."""

    texts: frozenset[str]
    complete: bool = True
    listed: bool = False
    what: str = ""


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
Known = dict[ir.Var, Domain | None]


def check_values(
    rules: Sequence[ir.CheckedRule],
    relations: Mapping[RelationRef, Relation],
    catalogue: Catalogue,
    whole: bool,
    files: Collection[str] | None,
) -> list[Diagnostic]:
    """Report constants that cannot occur, in the rules of the files or in all rules. Rules are best in the order of
    their strata. Derived columns are unrestricted unless the rules are the `whole` program."""
    types = catalogue.types()
    tables = {*cloud.names(), *(word for name in relations for word in (str(name), str(name).rpartition(":")[2]))}
    derived = {rule.relation for rule in rules} if whole else ()
    others = [rule for rule in rules if rule.body]
    facts = ir.group_rules(rule for rule in rules if not rule.body)
    texts: dict[tuple[RelationRef, int], set[str]] = {}
    for fact in chain.from_iterable(facts.values()):
        for at, argument in enumerate(fact.arguments):
            texts.setdefault((fact.relation, at), set()).update(_texts(argument))
    none, domains = Domain(frozenset()), Domains()
    for name, relation in relations.items():
        of_columns = (
            _either(none, Domain(frozenset(texts.get((name, at), ()))))
            if name in derived
            else _listed(name, column, types, tables)
            for at, column in enumerate(relation.columns)
        )
        domains[name] = {at: domain for at, domain in enumerate(of_columns) if domain}
    visits: Counter[int] = Counter()

    def flow(rule: ir.CheckedRule) -> bool:
        visits[id(rule)] += 1
        before, after = domains[rule.relation], {}
        if before and visits[id(rule)] <= MOST_VISITS:
            known = _known(rule.body, {}, domains)
            joined = {at: _either(old, _of(rule.arguments[at], known)) for at, old in before.items()}
            after = {at: domain for at, domain in joined.items() if domain}
        domains[rule.relation] = after
        return before != after

    if whole:
        settle(others, flow)
    computed = {rule.relation for rule in others if not takes_given(rule)}
    lists = {name: rules for name, rules in facts.items() if name not in computed}
    judge = _Judge(domains, relations, facts, lists, computed, catalogue)
    own = (rule for rule in others if files is None or rule.span.file in files)
    return [diagnostic for rule in own for diagnostic in judge.body(BodyFacts(rule.body, lists=lists), {})]


def _listed(name: RelationRef, column: Column, types: Sequence[str], tables: Collection[str]) -> Domain | None:
    plain = relation_name(name)
    if plain == "heat:resource" and column.name in ("type", "declared"):
        return Domain(frozenset(types), complete=False, listed=True)
    if plain == "gate:role":
        what = "role that OpenStack's default policies use"
        return Domain(frozenset(_ROLES.split()), complete=False, listed=True, what=what)
    if column.name == "status" and (statuses := STATUSES.get(plain)):
        return Domain(frozenset(statuses.split()), complete=False, listed=True)
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
    return Domain(texts, complete, listed, first.what or other.what) if len(texts) <= MOST_TEXTS else None


def _both(domain: Domain | None, other: Domain | None) -> Domain | None:
    if domain is None or other is None:
        return domain or other
    if domain.complete and other.complete:
        return Domain(domain.texts & other.texts, listed=domain.listed or other.listed)
    return other if other.complete else domain


@lru_cache(maxsize=16)
def _folded(name: str, domain: Domain | None) -> Domain | None:
    """The texts that `lower` or `upper` returns for those of the domain."""
    if domain is None or domain.what:
        return None
    texts = frozenset(text.lower() if name == "lower" else text.upper() for text in domain.texts)
    return domain._replace(texts=texts)


def _known(body: Sequence[ir.CheckedLiteral], outer: Known, domains: Domains) -> Known:
    """The domains of a body's variables. Equations with a constant are left out: the domains are used to check them."""
    known, before = dict(outer), None
    while known != before:
        before = dict(known)
        for literal in body:
            match literal:
                case ir.Match(relation):
                    for at, domain in domains[relation].items():
                        if isinstance(term := literal.arguments[at], ir.Var):
                            known[term] = _both(known.get(term), domain)
                case ir.Compare("=", ir.Var() as left, ir.Var() as right):
                    known[left] = known[right] = _both(known.get(left), known.get(right))
                case ir.Call("lower" | "upper" as name, (ir.Var() as value,), (ir.Var() as result,)) if known.get(
                    value
                ):
                    known[result] = _both(known.get(result), _folded(name, known[value]))
                case ir.Call("??", (value, default), (ir.Var() as result,)):
                    known[result] = _both(known.get(result), _either(_of(value, known), _of(default, known)))
    return known


@dataclass(frozen=True, slots=True)
class _Judge:
    """A check of bodies against the domains of all columns."""

    domains: Domains
    relations: Mapping[RelationRef, Relation]
    facts: Mapping[RelationRef, Sequence[ir.CheckedRule]]
    """Rules without a body."""
    lists: Mapping[RelationRef, Sequence[ir.CheckedRule]]
    """Those of relations that hold only facts."""
    computed: Collection[RelationRef]
    """The relations that rules with a body fill."""
    catalogue: Catalogue

    def body(self, body: BodyFacts, outer: Known) -> Iterator[Diagnostic]:
        """Check a body. `outer` are the domains of the variables around it."""
        known = _known(body.own, outer, self.domains)
        for literal in body.own:
            match literal:
                case ir.Match():
                    yield from self._match(literal, body, outer)
                case ir.Compare("=" | "!="):
                    for term, _, other in literal.from_each_side:
                        if isinstance(term, ir.Var):
                            yield from _strange(f"{name_of(term)} is never", other, known.get(term), literal.span)
                case ir.Call("??", (ir.Var() as value, default), _, span):
                    if (domain := known.get(value)) and domain.listed:
                        domain = domain._replace(complete=False)
                        yield from _strange(f"{name_of(value)} is never", default, domain, span)
                case ir.Call(name, (ir.Var() as value, ir.Const(str() as part)), _, span) if name in TESTS:
                    domain = known.get(value)
                    if domain and domain.listed and domain.texts and not domain.what:
                        yield from _no_such_text(value, name, part, domain, span)
                case ir.Without() | ir.Fold():
                    yield from self.body(body.within(literal), known)

    def _match(self, match: ir.Match, body: BodyFacts, outer: Known) -> Iterator[Diagnostic]:
        name = relation_name(match.relation)
        for at, argument in match.column_terms:
            domain = self.domains[match.relation].get(at)
            column = self.relations[match.relation].columns[at].name
            if column == "path" and name in OF_PROPERTIES:
                for constant, _ in body.stated(argument, match.span):
                    yield from self._path(match, constant, body)
            elif column == "attribute" and name == "heat:attribute":
                for constant, _ in body.stated(argument, match.span):
                    yield from self._attribute(match, constant, body)
            elif isinstance(argument, ir.Const):
                yield from _strange(f"{column} of {match.relation} is never", argument, domain, match.span)
            elif match.relation in self.facts and len(body.own) <= LONGEST:
                others = [literal for literal in body.own if literal is not match]
                rest = _known(others, outer, self.domains).get(argument)
                if rest and (rest.listed or (rest.complete and self._is_computed(argument, body))):
                    yield from self._facts_beside(match, at, rest, f"{name_of(argument)} is never")

    def _is_computed(self, operand: ir.Operand, body: BodyFacts) -> bool:
        """Whether the operand comes from a relation that rules fill."""
        return any(match.relation in self.computed for match, _ in body.places(operand))

    def _facts_beside(self, match: ir.Match, at: int, rest: Domain, what: str) -> Iterator[Diagnostic]:
        """Report facts, or choices of a list, that are joined with catalogue texts and match none. A fact that is
        merely not listed may be meant for another rule."""
        facts = self.facts[match.relation]
        stated = {text for fact in facts for text in _texts(fact.arguments[at])}
        closed = rest.complete or (rest.listed and not rest.what)
        joins_none = closed and rest.texts and not stated & rest.texts and match.relation not in self.computed
        for fact in facts:
            for diagnostic in _strange(what, fact.arguments[at], rest, fact.span):
                advice = diagnostic.suggestion
                misspelt = self.relations[match.relation].generated or (isinstance(advice, Advice) and advice.meant)
                if rest.listed and misspelt:
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
        by_property = {} if own else _types_by_property(self.catalogue)
        types = own or by_property.get(text.partition(".")[0], ())
        meaning = read_path(text, types, whole=name not in OF_SCALARS, others=by_property)
        if meaning.problem:
            why = f": {meaning.problem}" if meaning.steps or own else ""
            severe = own or (not meaning.steps and _near(text.partition(".")[0], by_property))
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
        every = {kind.name: kind for kinds in _types_by_property(self.catalogue).values() for kind in kinds}
        names = frozenset(name for kind in own or every.values() for name in (*kind.attributes, "show"))
        if own:
            yield from _strange(f"{own[0].name} has no attribute", attribute, Domain(names, listed=True), match.span)
            return
        for text in _texts(attribute):  # an output of a nested stack may have any name
            if text not in names and _near(text, names):
                message, advice = f"no type has an attribute {text!r}", did_you_mean(text, names)
                yield Diagnostic("unknown-value", message, match.span, advice, "warning")

    def _types_of(self, resource: ir.Pattern, body: BodyFacts) -> list[ResourceType]:
        """The types that the body requires of a resource; none if it names no type of the catalogue."""
        if resource is None:
            return []
        names: list[str | None] = []
        for match, at in body.places(resource):
            relation = relation_name(match.relation)
            if at == 0 and relation == "heat:resource":
                kind = match.arguments[self.relations[match.relation].positions["type"]]
                names += [str(kind.value)] if isinstance(kind, ir.Const) else []
            elif at == 0 and self.relations[match.relation].named_only:
                names.append(self.catalogue.owner(relation.partition(".")[0]))
        return [kind for kind in (self.catalogue.type(name) for name in names if name) if kind]


@lru_cache(maxsize=4)
def _types_by_property(catalogue: Catalogue) -> Mapping[str, Sequence[ResourceType]]:
    """All resource types by the names of their properties."""
    by_property: dict[str, list[ResourceType]] = {}
    for kind in filter(None, map(catalogue.type, catalogue.types())):
        for schema in kind.properties:
            by_property.setdefault(schema.name, []).append(kind)
    return by_property


def _no_such_text(value: ir.Var, builtin: str, part: str, domain: Domain, span: Span) -> Iterator[Diagnostic]:
    if any(TESTS[builtin](text, part) for text in domain.texts) or _is_file(part, domain):
        return
    starts = {text[: len(part)] for text in domain.texts} if builtin == "starts_with" else domain.texts
    what = {"starts_with": "starts with", "ends_with": "ends with"}.get(builtin, builtin)
    severity: Severity = "error" if domain.complete else "warning"
    otherwise = "one of " + ", ".join(sorted(domain.texts)[:12]) if domain.complete else None
    suggestion = did_you_mean(part, starts, otherwise)
    yield Diagnostic("unknown-value", f"{name_of(value)} never {what} {part!r}", span, suggestion, severity)


def _strange(what: str, constant: ir.Operand | None, domain: Domain | None, span: Span) -> Iterator[Diagnostic]:
    if domain is None or not isinstance(constant, ir.Const):
        return
    for text in _texts(constant):
        if text in domain.texts or not domain.texts or _is_file(text, domain):
            continue
        if domain.what:
            named = ", ".join(sorted(domain.texts)[:12])
            otherwise = f"they use {named}; declare your own roles as facts of a relation"
            suggestion = did_you_mean(text, domain.texts) if _near(text, domain.texts) else otherwise
            yield Diagnostic("unknown-value", f"{text!r} is not a {domain.what}", span, suggestion, "warning")
            continue
        severe = (domain.complete and domain.listed) or _near(text, domain.texts)
        suggestion = did_you_mean(text, domain.texts, "one of " + ", ".join(sorted(domain.texts)[:12]))
        yield Diagnostic("unknown-value", f"{what} {text!r}", span, suggestion, "error" if severe else "warning")


def _is_file(text: str, domain: Domain) -> bool:
    """Whether the text names a template, as the type of a nested stack does."""
    return text.endswith(FILES) and "OS::Nova::Server" in domain.texts


def _near(text: str, texts: Collection[str]) -> bool:
    near = closest(text, texts)
    return near is not None and _letters_apart(text, near) <= 2


def _letters_apart(word: str, other: str) -> int:
    """The edit distance of two words."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(word, 1):
        above, row[0] = row[0], at
        for place, against in enumerate(other, 1):
            above, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, above + (letter != against))
    return row[-1]
