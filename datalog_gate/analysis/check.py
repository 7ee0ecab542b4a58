"""From modules to a checked program and its policies (layer 2): the one way to make either.

In: parsed modules. Out: `Checked`, with warnings; or a RulesError with everything that is wrong, all of it together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from datalog_gate.analysis.congress.normalize import modern
from datalog_gate.analysis.lint.allowed_values import strangers
from datalog_gate.analysis.lint.single_use import texts_once
from datalog_gate.analysis.lower import Lowering
from datalog_gate.analysis.old_state import stand_ins, with_old_state
from datalog_gate.analysis.policy import Policies, Policy, Unlock
from datalog_gate.analysis.program import CheckedLiteral, CheckedProgram, CheckedRule, Const, Match, Var
from datalog_gate.analysis.resolve import Names
from datalog_gate.analysis.safety import order
from datalog_gate.analysis.strata import reads, stratify
from datalog_gate.analysis.types import Inference, infer
from datalog_gate.base.diagnostics import Diagnostic, did_you_mean, in_order, slip
from datalog_gate.base.errors import RulesError
from datalog_gate.base.values import Kind
from datalog_gate.language.ast import NOWHERE, Module, Rule
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import (
    Column,
    Relation,
    RelationRef,
    given_version,
    relation_name,
    whole_version,
)
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
    """A program with its policies in order of id, its unlocks, and warnings. In `modules` what is written for Congress
    stands in our words."""

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
    `found` are the parser's diagnostics, reported with those found here; `sources` are the
    files' texts for excerpts. Errors: RulesError.
    """
    names = Names(modules, given or {}, query, lenient, catalogue)
    notes: list[Diagnostic] = []
    if names.congress:
        written = modules
        modules, _ = modern(written, names, {})
        modules, notes = modern(written, names, _inferred(modules, names, []).relations)
    diagnostics = [*found, *notes, *(diagnostic for module in modules for diagnostic in texts_once(module))]
    inference = _inferred(modules, names, diagnostics)
    if query is None and not found:  # a query may read any relation, a rule that can't be read too
        diagnostics += names.unread(modules)
    rules = list(inference.rules)
    policies = Policies(modules, names, inference.relations)
    rules += _unlocking(policies.unlocks)
    strata, unstratified = stratify(rules)
    described = inference.relations | _of_grants()
    past = with_old_state(rules, described, {EFFECTIVE.name}, catalogue)
    diagnostics += [diagnostic for diagnostic in names.diagnostics if diagnostic not in names.consequences]
    diagnostics += [*inference.diagnostics, *policies.diagnostics, *unstratified, *past.diagnostics]
    diagnostics += _unknown_services(rules, policies.unlocks)
    whole = all(diagnostic.severity != "error" for diagnostic in diagnostics)
    in_strata = [rule for stratum in strata for rule in stratum.rules]
    diagnostics += strangers(in_strata, described, catalogue, whole)
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        raise RulesError(diagnostics, sources)
    if past.rules != rules:
        rules, strata = past.rules, stratify(past.rules)[0]
    derived = {rule.relation for rule in rules}
    used = {match.relation for rule in rules for match in matches(rule.body)}
    described |= past.relations
    inputs = (used | names.own().keys()) - derived
    program = CheckedProgram(
        {name: described[name] for name in sorted(inputs | derived, key=str)}, frozenset(inputs), strata
    )
    chosen = tuple(policies.policies[identity] for identity in sorted(policies.policies))
    return Checked(tuple(modules), program, chosen, tuple(policies.unlocks), in_order(diagnostics))


def _inferred(modules: Sequence[Module], names: Names, diagnostics: list[Diagnostic]) -> Inference:
    """The rules of the modules in plain form, ordered, with the kinds of all columns."""
    lowering = Lowering(names)
    for module in modules:
        for rule in module.statements:
            if isinstance(rule, Rule):
                lowering.lower(rule, module.name)
    diagnostics += lowering.diagnostics
    rules = [checked for draft in lowering.drafts if (checked := order(draft, diagnostics))]
    own = names.own()
    relations: dict[RelationRef, Relation] = {**lowering.relations}
    for name, relation in own.items():
        relations.setdefault(name, relation)
    rules += _given_rules(names, relations, {rule.relation for rule in rules})
    rules += stand_ins(relations, own)
    return infer(rules, relations, own.keys() - names.undeclared)


def input_of(program: CheckedProgram, name: str) -> RelationRef | None:
    """The input that rows given under a name go to: the relation itself, or what stands beside its rules. A bare name
    is that of the one module which has it. None if there is none. Errors: ValueError if several modules have it."""
    inputs = {str(whole_version(relation)): relation for relation in program.inputs}
    if name in inputs:
        return inputs[name]
    owners = sorted(full for full in inputs if full.rpartition(":")[2] == name)
    if len(owners) > 1:
        raise ValueError(f"{name} is {' and '.join(owners)}: write the full name")
    return inputs[owners[0]] if owners else None


def matches(body: Sequence[CheckedLiteral]) -> list[Match]:
    """Every match of a body, those of its inner bodies too."""
    return [match for _, match in reads(body)]


def _given_rules(names: Names, relations: dict[RelationRef, Relation], derived: set[RelationRef]) -> list[CheckedRule]:
    """For each relation that has rules and may be given rows too, the rule that takes those rows in."""
    rules = []
    for full in sorted(names.own().keys() & derived):
        given = names.given.get(full) or names.given.get(full.rpartition(":")[2])
        if full in names.undeclared and not given:
            continue
        relation = relations[full]
        if given is None or len(given.columns) != len(relation.columns):
            given = relation  # rows of another width are refused where they stand
        source = given_version(full)
        relations[source] = given
        row = tuple(Var("", str(at)) for at in range(len(relation.columns)))
        rules.append(CheckedRule(full, row, (Match(source, row, NOWHERE),), NOWHERE))
    return rules


def _unlocking(unlocks: Sequence[Unlock]) -> list[CheckedRule]:
    """What it means that a service is unlocked for a resource: an operator's rule derives a grant of this service that
    is in effect, and the resource is in its scope."""
    grant, resource = Var("grant"), Var("resource")
    return [
        CheckedRule(
            UNLOCKED,
            (Const(unlock.service), resource),
            (
                Match(unlock.relation, (grant,), unlock.span),
                Match(EFFECTIVE.name, (grant,), unlock.span),
                Match("gate:grant", (grant, Const(unlock.service), None), unlock.span),
                Match("gate:grant_scope", (grant, resource), unlock.span),
            ),
            unlock.span,
        )
        for unlock in unlocks
    ]


def _of_grants() -> dict[RelationRef, Relation]:
    relations = [*(FIXED[name] for name in (UNLOCKED, "gate:grant", "gate:grant_scope")), EFFECTIVE]
    return {relation.ref: relation for relation in relations}


def _unknown_services(rules: Sequence[CheckedRule], unlocks: Sequence[Unlock]) -> list[Diagnostic]:
    """A rule that asks for a service which no rule unlocks would hold, or fail, for ever. One that reads grants of such
    a service may be meant, but for a slip."""
    services = {unlock.service for unlock in unlocks}
    found = []
    for rule in rules:
        for match in matches(rule.body):
            at = {UNLOCKED: 0, "gate:service": 0, "gate:grant": 1}.get(relation_name(match.relation))
            asked = None if at is None else match.arguments[at]
            if not isinstance(asked, Const) or asked.value in services:
                continue
            if relation_name(match.relation) == UNLOCKED or slip(str(asked.value), services):
                suggestion = did_you_mean(str(asked.value), services, f'write a rule with @unlock("{asked.value}")')
                message = f"no rule unlocks the service {asked.value}"
                found.append(Diagnostic("unknown-service", message, match.span, suggestion))
    return found
