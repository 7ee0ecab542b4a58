"""The passes from syntax trees to a checked program with policies.

Every error and warning of all passes is reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from datalog_gate.analysis.congress.normalize import translate
from datalog_gate.analysis.lint.allowed_values import check_values
from datalog_gate.analysis.lint.single_use import find_rare_texts
from datalog_gate.analysis.lower import Draft, Lowering
from datalog_gate.analysis.old_state import OldState, copy_of, stand_ins, with_old_state
from datalog_gate.analysis.policy import Policies, Policy, Unlock
from datalog_gate.analysis.program import CheckedLiteral, CheckedProgram, CheckedRule, Const, Match, Stratum, Var
from datalog_gate.analysis.resolve import Names
from datalog_gate.analysis.safety import order
from datalog_gate.analysis.strata import reads, stratify
from datalog_gate.analysis.types import infer
from datalog_gate.base.diagnostics import Diagnostic, did_you_mean, in_order, slip
from datalog_gate.base.errors import RulesError
from datalog_gate.base.values import Kind
from datalog_gate.language.ast import Module, Rule
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import Column, Relation, RelationRef, given_version, relation_name, whole_version
from datalog_gate.schema.relations import FIXED

UNLOCKED = "gate:unlocked"
EFFECTIVE = Relation(
    "gate:effective#",
    (Column("grant", Kind.RESOURCE),),
    meaning="Grants that are enabled and not expired.",
    generated="effective",
)


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked program with its policies and unlocks."""

    modules: tuple[Module, ...]
    program: CheckedProgram
    policies: tuple[Policy, ...]
    unlocks: tuple[Unlock, ...]
    warnings: tuple[Diagnostic, ...]


def check(
    modules: Sequence[Module],
    *,
    given: Mapping[str, tuple[Kind, ...]] | None = None,
    query: str | None = None,
    lenient: bool = False,
    found: Sequence[Diagnostic] = (),
    sources: Mapping[str, str] | None = None,
    catalogue: Catalogue = SHIPPED,
) -> Checked:
    """Check the modules as one program.

    `given` names relations that facts fill, with the kinds of their columns; for `query` and `lenient` see `Names`.
    `found` are the parser's diagnostics, which are reported with those of the passes. `sources` are the texts of the
    files, for excerpts. Errors: RulesError with all errors and warnings.
    """
    names = Names(modules, given or {}, query, lenient, catalogue)
    analysis = _Analysis(modules, names, [*found], unparsed=bool(found))
    for check_pass in PASSES:
        check_pass(analysis)
    if analysis.failed:
        raise RulesError(analysis.diagnostics, sources)
    policies = tuple(analysis.policies[identity] for identity in sorted(analysis.policies))
    warnings = in_order(analysis.diagnostics)
    return Checked(tuple(analysis.modules), _program(analysis), policies, tuple(analysis.unlocks), warnings)


@dataclass(slots=True)
class _Analysis:
    """The state of the analysis of one program, which the passes read and extend."""

    modules: Sequence[Module]
    names: Names
    diagnostics: list[Diagnostic] = field(default_factory=list)
    unparsed: bool = False
    """Whether a part of the modules could not be parsed."""
    drafts: list[Draft] = field(default_factory=list)
    rules: list[CheckedRule] = field(default_factory=list)
    relations: dict[RelationRef, Relation] = field(default_factory=dict)
    """Every relation that occurs in the rules."""
    policies: Mapping[str, Policy] = field(default_factory=dict)
    """By id."""
    unlocks: Sequence[Unlock] = ()
    strata: tuple[Stratum, ...] = ()
    old_state: OldState | None = None

    @property
    def failed(self) -> bool:
        return any(diagnostic.severity == "error" for diagnostic in self.diagnostics)


def _translate_congress(analysis: _Analysis) -> None:
    """Translate ``p(x) :- nova:servers(id=x, 6='True')`` to ``p(x) :- nova:servers(id=x, locked=true)``.

    The kind of a column decides what a text in it means, and a rule for Congress may derive the column: so kinds are
    first inferred from a translation without them.
    """
    if analysis.names.congress:
        untyped = _Analysis(translate(analysis.modules, analysis.names, {})[0], analysis.names)
        _lower_rules(untyped)
        _order_bodies(untyped)
        _infer_kinds(untyped)
        analysis.modules, notes = translate(analysis.modules, analysis.names, untyped.relations)
        analysis.diagnostics += notes


def _find_rare_texts(analysis: _Analysis) -> None:
    """Warn of a text that occurs once in a module and is much like another one there: ``"prdo"`` beside ``"prod"``."""
    for module in analysis.modules:
        analysis.diagnostics += find_rare_texts(module)


def _lower_rules(analysis: _Analysis) -> None:
    """Resolve the names of the rules, and reduce each rule to conjunctions of simple literals."""
    names = analysis.names
    lowering = Lowering(names)
    for module in analysis.modules:
        for rule in module.statements:
            if isinstance(rule, Rule):
                lowering.lower(rule, module.name)
    analysis.drafts = lowering.drafts
    analysis.diagnostics += lowering.diagnostics
    analysis.diagnostics += [diagnostic for diagnostic in names.diagnostics if diagnostic not in names.consequences]
    analysis.relations = dict(lowering.relations)
    analysis.relations.update(names.own())


def _order_bodies(analysis: _Analysis) -> None:
    """Order the literals of each body: ``p(x) :- x > 1, not r(x), q(x)`` => ``p(x) :- q(x), x > 1, not r(x)``."""
    for draft in analysis.drafts:
        if rule := order(draft, analysis.diagnostics):
            analysis.rules.append(rule)


def _infer_kinds(analysis: _Analysis) -> None:
    """Infer the kinds of all columns; ``q(1). p(x) :- q(x), x = "a"`` can never hold, a `kind-mismatch`."""
    own = analysis.names.own()
    analysis.rules += _given_rules(analysis)
    analysis.rules += stand_ins(analysis.relations, own)
    inference = infer(analysis.rules, analysis.relations, own.keys() - analysis.names.undeclared)
    analysis.relations = inference.relations
    analysis.diagnostics += inference.diagnostics


def _find_unread_relations(analysis: _Analysis) -> None:
    """Report relations that nothing reads, unless a query or a rule that could not be parsed may read them."""
    if analysis.names.query is None and not analysis.unparsed:
        analysis.diagnostics += analysis.names.unread(analysis.modules)


def _collect_policies(analysis: _Analysis) -> None:
    """Read the annotations: ``@deny("id", "message")`` makes a relation a policy, ``@unlock("service")`` an unlock."""
    policies = Policies(analysis.modules, analysis.names, analysis.relations)
    analysis.policies, analysis.unlocks = policies.policies, policies.unlocks
    analysis.diagnostics += policies.diagnostics


def _define_unlocked(analysis: _Analysis) -> None:
    """Add a rule for `gate:unlocked` for each unlock.

    ``@unlock("edge") open(g) :- ...`` => ``gate:unlocked("edge", r) :- open(g), gate:effective#(g),
    gate:grant(g, "edge", _), gate:grant_scope(g, r)``
    """
    grant, resource = Var("grant"), Var("resource")
    for unlock in analysis.unlocks:
        service, span = Const(unlock.service), unlock.span
        body = (
            Match(unlock.relation, (grant,), span),
            Match(EFFECTIVE.name, (grant,), span),
            Match("gate:grant", (grant, service, None), span),
            Match("gate:grant_scope", (grant, resource), span),
        )
        analysis.rules.append(CheckedRule(UNLOCKED, (service, resource), body, span))
    for relation in (*(FIXED[name] for name in (UNLOCKED, "gate:grant", "gate:grant_scope")), EFFECTIVE):
        analysis.relations[relation.name] = relation


def _stratify(analysis: _Analysis) -> None:
    """Divide the rules into strata: ``p :- not q`` => first `q`, then `p`; ``p :- not p`` is `unstratified`."""
    analysis.strata, diagnostics = stratify(analysis.rules)
    analysis.diagnostics += diagnostics


def _copy_old_rules(analysis: _Analysis) -> None:
    """Derive old versions of relations by copies of their rules, which read the state before the change."""
    catalogue = analysis.names.catalogue
    analysis.old_state = with_old_state(analysis.rules, analysis.relations, {EFFECTIVE.name}, catalogue)
    analysis.diagnostics += analysis.old_state.diagnostics


def _check_services(analysis: _Analysis) -> None:
    """Report a service that no rule unlocks: ``not gate:unlocked("egde", r)``, or a grant of a misspelt one."""
    services = {unlock.service for unlock in analysis.unlocks}
    columns = {UNLOCKED: 0, "gate:service": 0, "gate:grant": 1}
    for rule in analysis.rules:
        for match in matches(rule.body):
            name = relation_name(match.relation)
            service = match.arguments[columns[name]] if name in columns else None
            if not isinstance(service, Const) or service.value in services:
                continue
            if name == UNLOCKED or slip(str(service.value), services):
                message = f"no rule unlocks the service {service.value}"
                advice = did_you_mean(str(service.value), services, f'write a rule with @unlock("{service.value}")')
                analysis.diagnostics.append(Diagnostic("unknown-service", message, match.span, advice))


def _check_values(analysis: _Analysis) -> None:
    """Report constants that no row holds: ``heat:resource(type="OS::Nova::Servr")``."""
    rules = [rule for stratum in analysis.strata for rule in stratum.rules]
    analysis.diagnostics += check_values(rules, analysis.relations, analysis.names.catalogue, not analysis.failed)


PASSES: tuple[Callable[[_Analysis], None], ...] = (
    _translate_congress,
    _find_rare_texts,
    _lower_rules,
    _order_bodies,
    _infer_kinds,
    _find_unread_relations,
    _collect_policies,
    _define_unlocked,
    _stratify,
    _copy_old_rules,
    _check_services,
    _check_values,
)
"""The passes in order. Each reports all that it finds: an error does not stop the later ones."""


def _program(analysis: _Analysis) -> CheckedProgram:
    rules, strata, relations = analysis.rules, analysis.strata, analysis.relations
    old_state = analysis.old_state
    if old_state and old_state.rules != rules:
        rules, strata = old_state.rules, stratify(old_state.rules)[0]
        relations = relations | old_state.relations
    derived = {rule.relation for rule in rules}
    used = {match.relation for rule in rules for match in matches(rule.body)}
    inputs = (used | analysis.names.own().keys()) - derived
    described = {name: relations[name] for name in sorted(inputs | derived, key=str)}
    return CheckedProgram(described, frozenset(inputs), strata)


def _given_rules(analysis: _Analysis) -> list[CheckedRule]:
    """For each relation that has rules and may be given rows by facts, the rule ``p(...) :- p#given(...)``."""
    rules = []
    names = analysis.names
    derived = {rule.relation for rule in analysis.rules}
    for name in sorted(names.own().keys() & derived):
        given = names.given.get(name) or names.given.get(name.rpartition(":")[2])
        if name in names.undeclared and not given:
            continue
        relation = analysis.relations[name]
        if given is None or len(given.columns) != len(relation.columns):
            given = relation
        source = given_version(name)
        analysis.relations[source] = given
        rules.append(copy_of(source, name, len(relation.columns)))
    return rules


def find_input(program: CheckedProgram, name: str) -> RelationRef | None:
    """The input that takes the rows which facts give under a name, or None.

    It is the relation itself, or the given version of one that has rules. A bare name means the relation of the one
    module that has it. Errors: ValueError if several modules have it.
    """
    inputs = {str(whole_version(relation)): relation for relation in program.inputs}
    if name in inputs:
        return inputs[name]
    owners = sorted(full for full in inputs if full.rpartition(":")[2] == name)
    if len(owners) > 1:
        raise ValueError(f"{name} is {' and '.join(owners)}: write the full name")
    return inputs[owners[0]] if owners else None


def matches(body: Sequence[CheckedLiteral]) -> list[Match]:
    return [match for _, match in reads(body)]
