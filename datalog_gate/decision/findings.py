"""Reads the findings of policies from a finished model."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import CheckedProgram, Const, Fold, Match, ProgramCache, Var, Without, kept
from datalog_gate.analysis.strata import reads
from datalog_gate.analysis.taint import Taint, taint
from datalog_gate.analysis.unknowns import possible
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import BudgetError
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.unknown import rests_on
from datalog_gate.base.values import OPEN, SECRET, ResourceId, Row, Unknown, Value, in_order, show
from datalog_gate.decision.causes import find_causes
from datalog_gate.decision.changes import Changes
from datalog_gate.decision.cloud_state import comes_from_stack
from datalog_gate.decision.decision import Grant, Mode, PolicyError, Violation, Waiver
from datalog_gate.decision.dependence import Dependence
from datalog_gate.decision.evaluation import Evaluation
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.decision.request import MODES, DecisionRequest
from datalog_gate.decision.secrets import Secrets
from datalog_gate.decision.waivers import waiver_of
from datalog_gate.engine.assignments import Cause
from datalog_gate.engine.budget import Budget, Watch
from datalog_gate.engine.least_model import ModelError
from datalog_gate.engine.provenance import Derivation, Fact, Provenance
from datalog_gate.facts.factset import FactSet, place_of
from datalog_gate.schema.declaration import RelationRef, certain_version, is_old, possible_version, relation_name
from datalog_gate.schema.relations import UNLOCKED
from datalog_gate.stack.model import Stack

PLACING = Budget(looks=300_000)
"""The budget for locating findings: some seconds."""
NAMELESS = frozenset({"_id", "_stack", "_index", "_index2", "_key", "_key2", "id", "stack"})
"""The columns that identify a row; their values are not in the template's text."""

FOLLOWED = 100
"""The maximum number of rows below a finding that are searched, the nearest first. There may be thousands."""

TEMPLATE_RELATIONS = ("heat:", "os:", "aws:")
"""The prefixes of relations that templates fill."""


@dataclass()
class FindingReader:
    """Reads the findings of policies from a finished model."""

    rules: PolicySet
    stacks: Sequence[Stack]
    request: DecisionRequest
    evaluation: Evaluation
    changes: Changes
    secrets: Secrets
    refused: Sequence[Grant] = ()
    """The grants that unlock nothing."""
    read: list[tuple[Violation, Fact]] = field(default_factory=list)
    """Each violation with its relation and row, including secrets."""

    @cached_property
    def provenance(self) -> Provenance:
        """The derivations of the model's rows that were searched to locate findings."""
        return Provenance(self.evaluation.program, self.evaluation.model, Watch(PLACING))

    def certain(self, policies: Sequence[Policy]) -> Iterator[Violation]:
        """Read the rows that violate a policy for every outcome of the unknowns, waived or not."""
        model = self.evaluation.model
        for policy in policies:
            if rows := model.rows(policy.relation):
                waivers = [waiver for waiver in self.request.waivers if waiver.policy == policy.id]
                for row in rows:
                    support = find_support(self.provenance, policy.relation, row)
                    yield self._violation(policy, policy.relation, row, support, waivers=waivers)

    def undetermined(self, policies: Sequence[Policy], certain: Sequence[Violation]) -> Iterator[Violation]:
        """Read the rows that violate a policy for some outcome of the unknowns: one for each subject, the first that is
        not tolerated, else the first. A `certain` violation of the same policy and subject replaces it, unless all of
        them are tolerated and it is not. Waived ones do not, since another row may hold something that nobody
        waived."""
        model, tolerated = self.evaluation.model, _tolerated(certain)
        for policy in policies:
            relation = possible_version(policy.relation)  # has no rows if nothing that it reads is unknown
            if rows := model.rows(relation):
                for subject, row in self._undetermined_rows(policy, rows, tolerated).items():
                    support = find_support(self.provenance, relation, row)
                    reads, program = self.rules.reads[policy.relation], self.rules.program
                    unknowns = find_deciding_unknowns(subject, support.leaves, self.evaluation.facts, reads, program)
                    because = find_causes([*map(self.secrets.unknown, unknowns)], support.derivations)
                    yield self._violation(policy, relation, row, support, because)

    def _undetermined_rows(
        self, policy: Policy, rows: Collection[Row], tolerated: Mapping[tuple[str, ResourceId], bool]
    ) -> dict[ResourceId | None, Row]:
        certain = self.evaluation.model.rows(policy.relation)
        chosen: dict[ResourceId | None, tuple[Row, bool]] = {}
        for row in in_order(rows):
            subject = self._subject(policy, row)
            settled = tolerated.get((policy.id, subject)) if subject else None
            if row in certain or settled is False:
                continue
            is_tolerated = self.changes.tolerates(policy, row)
            if settled and is_tolerated:
                continue
            if subject not in chosen or (chosen[subject][1] and not is_tolerated):
                chosen[subject] = row, is_tolerated
        return {subject: row for subject, (row, _) in chosen.items()}

    def errors(self, policies: Sequence[Policy]) -> Iterator[PolicyError]:
        """Read the first error that each policy depends on, or that its budget was exceeded."""
        if self.evaluation.model.errors or self.evaluation.exceeded:
            for policy in policies:
                if error := self._error(policy):
                    yield error

    def _error(self, policy: Policy) -> PolicyError | None:
        model, exceeded = self.evaluation.model, self.evaluation.exceeded.get(policy.level)
        needed = self.rules.reads[policy.relation]
        enforced = policy.level == "deny" and self._mode(policy) == "enforce"
        for error in model.errors:
            if certain_version(error.relation) in needed:
                return self._evaluation_error(policy, error, enforced)
        relations = {policy.relation, possible(policy.relation, self.evaluation.program)}
        if exceeded and not model.tables.keys() >= relations:
            return PolicyError(policy.id, str(exceeded), exceeded.span, enforced, "budget")
        return None

    def _evaluation_error(self, policy: Policy, error: ModelError, enforced: bool) -> PolicyError:
        """The error of a policy in an expression. Its place is the value of the stacks that is involved, if any, so
        that the author of the stack can change it."""
        if error.span not in self._from_stacks.spans:
            return PolicyError(policy.id, self.secrets.message(error), error.span, enforced)
        subject = next((value for value in error.row if isinstance(value, ResourceId)), None)
        try:
            values, rows = self.provenance.failure(Cause(error.span, error.message))
        except BudgetError:
            values, rows = [], []
        message = self.secrets.message(error, [fact for _, fact in rows])
        support = _support(self.provenance, [FactUse(*fact, match.columns) for match, fact in rows])
        if support.leaves and all(is_old(leaf.relation) for leaf in support.leaves):
            message = f"as it was: {message}"
        span = self._place(subject, tuple(values), support) or self.stacks[0].place
        return PolicyError(policy.id, message, span, enforced, resource=subject, blames_stack=True)

    @cached_property
    def _from_stacks(self) -> Taint:
        """The columns that values of the stacks reach."""
        program, catalogue = self.evaluation.program, self.rules.catalogue
        names = [name for name in program.inputs if comes_from_stack(catalogue, name)]
        return taint(program, {name: range(len(program.relations[name].columns)) for name in names})

    def _violation(
        self,
        policy: Policy,
        relation: RelationRef,
        row: Row,
        support: Support,
        because: tuple[Unknown, ...] = (),
        waivers: Sequence[Waiver] = (),
    ) -> Violation:
        subject = self._subject(policy, row)
        shown = self.secrets.row(policy.relation, row)
        project = self.request.caller.project if self.request.caller else None
        waiver, lapse = waiver_of(waivers, policy.columns, shown, subject, project, self.request.now)
        hints = [policy.format("hint", shown, self._word)] if policy.hint else []
        refused = tuple(self._find_refused(policy, subject)) if self.refused else ()
        hints += [f"the grant {grant.grant.name} does not count: {grant.reason}" for grant in refused]
        if waiver and lapse:
            hints.append(f"waiver {waiver.id} {lapse}")
        span = self._find_place(policy, relation, row, subject, support)
        violation = Violation(
            policy=policy.id,
            level=policy.level,
            mode=self._mode(policy),
            message=policy.format("message", shown, self._word),
            hint="; ".join(hints),
            relation=policy.relation,
            row=shown,
            resource=subject,
            place=span or self.stacks[0].place,
            because=because,
            on_unknown=policy.on_unknown,
            waiver=None if lapse else waiver,
            lapsed=waiver if lapse else None,
            change=self.changes.of(policy, row),
            tolerated=self.changes.tolerates(policy, row),
            depends=self._dependence.format_unknowns(because) if because else "",
            refused=tuple(grant.grant for grant in refused),
        )
        self.read.append((violation, (relation, row)))
        return violation

    def _find_place(
        self, policy: Policy, relation: RelationRef, row: Row, subject: ResourceId | None, support: Support
    ) -> Span | None:
        """The place of a finding: by what its rule reads, or else by what an aggregate below it reads."""
        span = self._place(subject, row, support)
        is_vague = span is None or span in self._places
        reads = self.rules.reads[policy.relation]
        if (span is None or is_vague or not span.line) and not reads.isdisjoint(self._aggregating):
            aggregated = self._place(subject, row, self._aggregated(relation, row))
            return _with_line((aggregated, span) if is_vague else (span, aggregated))
        return span

    @cached_property
    def _places(self) -> Sequence[Span | None]:
        """The places of the stacks themselves."""
        return [stack.place for stack in self.stacks]

    @cached_property
    def _aggregating(self) -> frozenset[RelationRef]:
        """The relations with a rule that aggregates."""
        return _find_aggregating(self.rules.program)

    def _find_refused(self, policy: Policy, subject: ResourceId | None) -> Iterator[Grant]:
        """The grants that ask for the service that the policy requires, and do not count."""
        read = self.rules.reads[policy.relation]
        if UNLOCKED not in read:
            return
        program = self.rules.program
        services = _AWAITED.get(program, policy.relation, lambda: _find_awaited(program, read))
        scopes = self.evaluation.facts.rows.get("gate:grant_scope", ())
        for grant in self.refused:
            scope = [row[1] for row in scopes if row[0] == grant.grant]
            covers = not scope or subject in (None, *scope) or Unknown in map(type, scope)
            if covers and grant.service in services:
                yield grant

    def _aggregated(self, relation: RelationRef, row: Row) -> Support:
        """The facts below the first values of the aggregates that the row was computed from."""
        derivations = _nearest(self.provenance, [(relation, row)]).values()
        try:
            matched = [pair for derivation in derivations for pair in self.provenance.contributors(derivation)]
        except BudgetError:
            return Support([], set())
        return _support(self.provenance, [FactUse(*fact, match.columns) for match, fact in matched])

    def _place(self, subject: ResourceId | None, row: Row, support: Support) -> Span | None:
        """Find the place of the faulty value. Places in data, which have no line, are used only if no other has a
        line."""
        places = (place for place in self._find_places(subject, row, support) if place)
        return _with_line(places) if self._has_lines else next(places, None)

    @cached_property
    def _has_lines(self) -> bool:
        """Whether a file of the stacks has lines; only data of requests has none."""
        return any(any(stack.sources.values()) for stack in (*self.request.against, *self.stacks))

    def _find_places(self, subject: ResourceId | None, row: Row, support: Support) -> Iterator[Span | None]:
        """The candidate places of a violation, in this order: the first value of its row in a leaf about the subject;
        the subject, if it lacks something; the most precise such leaf, a list item before a resource; the subject, or
        any leaf."""
        about = [leaf for leaf in support.leaves if subject is None or leaf.row[:1] == (subject,)]
        for value in row:
            if value is not None and value != subject:
                for leaf in about:
                    yield self._column_holding(value, leaf)
        sources = (self.evaluation.facts.origin(leaf.relation, leaf.row) for leaf in about or support.leaves)
        origins = [origin for origin in sources if origin]
        if origins:
            best = max(origins, key=lambda origin: len(origin[1]))
            yield place_of(best) if len(best[1]) > 1 and subject not in support.lacking else best[0].locate(())

    def _column_holding(self, value: Value, leaf: FactUse) -> Span | None:
        described = self.rules.program.relations.get(leaf.relation)
        origin = self.evaluation.facts.origin(leaf.relation, leaf.row)
        if described is None or origin is None:
            return None
        for at in leaf.columns:
            name = described.columns[at].name
            if leaf.row[at] == value and name not in NAMELESS:
                return place_of(origin, name)
        return None

    def _subject(self, policy: Policy, row: Row) -> ResourceId | None:
        value = row[policy.subject] if policy.subject is not None else None
        return value if isinstance(value, ResourceId) else None

    def _mode(self, policy: Policy) -> Mode:
        """Compute the effective mode: the weakest of those of the request, the policy, and the policy's start date."""
        start: Mode = "warn" if policy.only_warns_at(self.request.now) else "enforce"
        own = self.request.modes.get(policy.id, "enforce")
        return min(self.request.mode, start, own, key=MODES.index)

    def _word(self, value: Value) -> str:
        if isinstance(value, ResourceId):
            return value.path if value.name in self._shared_names or value.name.isdecimal() else value.name
        return "?" if isinstance(value, Unknown) and value != SECRET and value.bounds == OPEN else show(value)

    @cached_property
    def _shared_names(self) -> Collection[str]:
        stacks = [stack for root in self.stacks for stack in root.walk()]
        if len(stacks) == 1:  # so that the names of resources need not be read
            return ()
        names = Counter(resource.name for stack in stacks for resource in stack.resources)
        return {name for name, count in names.items() if count > 1}

    @cached_property
    def _dependence(self) -> Dependence:
        return Dependence(self.stacks)


def _with_line(places: Iterable[Span | None]) -> Span | None:
    """The first place that a line describes; if there is none, the first place."""
    first = None
    for place in filter(None, places):
        if not place.path or (first is None and place.line):
            return place
        first = first or place
    return first


def _tolerated(violations: Sequence[Violation]) -> dict[tuple[str, ResourceId], bool]:
    """By policy and resource, whether all violations that are not waived are tolerated."""
    tolerated: dict[tuple[str, ResourceId], bool] = {}
    for violation in violations:
        if violation.resource and not violation.waiver:
            key = violation.policy, violation.resource
            tolerated[key] = violation.tolerated and tolerated.get(key, True)
    return tolerated


class FactUse(NamedTuple):
    """A fact that a derivation depends on, and the columns that the rule reads."""

    relation: RelationRef
    row: Row
    columns: tuple[int, ...]


_AWAITED = ProgramCache[frozenset[Value]]()


@kept
def _find_aggregating(program: CheckedProgram) -> frozenset[RelationRef]:
    """The relations with a rule that aggregates."""
    rules = [rule for stratum in program.strata for rule in stratum.rules]
    return frozenset(rule.relation for rule in rules if any(isinstance(literal, Fold) for literal in rule.body))


def _find_awaited(program: CheckedProgram, relations: Collection[RelationRef]) -> frozenset[Value]:
    """The services whose grants the rules of the relations read."""
    rules = [rule for stratum in program.strata for rule in stratum.rules if rule.relation in relations]
    matches = [match for rule in rules for _, match in reads(rule.body) if match.relation == UNLOCKED]
    services = [match.arguments[0] for match in matches]
    return frozenset(service.value for service in services if isinstance(service, Const))


class Support(NamedTuple):
    """The facts and resources that a derivation depends on."""

    leaves: list[FactUse]
    """The facts, in order of the bodies."""
    lacking: set[Value]
    """The resources that must not have certain rows."""
    derivations: Collection[Derivation] = ()
    """The derivations of the intermediate rows."""


def find_support(provenance: Provenance, relation: RelationRef, row: Row) -> Support:
    """Find what the row's first derivation depends on, through at most `FOLLOWED` derived rows."""
    return _support(provenance, [FactUse(relation, row, ())])


def _support(provenance: Provenance, roots: Sequence[FactUse]) -> Support:
    derivations = _nearest(provenance, [(leaf.relation, leaf.row) for leaf in roots])
    leaves: dict[FactUse, None] = {}
    lacking: set[Value] = set()
    seen: set[Fact] = set()
    pending = list(reversed(roots))
    while pending:
        relation, row, columns = pending.pop()
        if relation in provenance.program.inputs:
            leaves[FactUse(certain_version(relation), row, columns)] = None
        elif (relation, row) not in seen and (derivation := derivations.get((relation, row))):
            seen.add((relation, row))
            matches = [literal for literal in derivation.rule.body if isinstance(literal, Match)]
            steps = [FactUse(*fact, match.columns) for match, fact in zip(matches, derivation.matched, strict=True)]
            pending += reversed(steps)
            lacking.update(_lacking(derivation))
    return Support(list(leaves), lacking, derivations.values())


def find_deciding_unknowns(
    subject: ResourceId | None,
    leaves: Sequence[FactUse],
    facts: FactSet,
    reads: Collection[RelationRef],
    program: CheckedProgram,
) -> tuple[Unknown, ...]:
    """Find the unknowns that decide a violation, each once, in order. They are in the rows that it depends on. If it
    depends on the absence or the number of rows, they are in the rows about the subject that the policy reads, else in
    all rows that it reads. `reads` are its relations in the program as written."""
    unknowns = [unknown for leaf in leaves for unknown in _unknowns(leaf, facts)]
    if not unknowns:
        columns = _columns(reads, program)
        near = [FactUse(name, row, read) for name, read in columns.items() for row in facts.rows.get(name, ())]
        about = [leaf for leaf in near if subject is None or leaf.row[:1] == (subject,)]
        unknowns = [unknown for leaf in about for unknown in _unknowns(leaf, facts)]
        unknowns = unknowns or [unknown for leaf in near for unknown in _unknowns(leaf, facts)]
    distinct = dict.fromkeys(unknowns)
    return tuple(
        unknown
        for unknown in distinct
        if not any(other is not unknown and rests_on(unknown, other) for other in distinct)
    )


def _columns(wanted: Collection[RelationRef], program: CheckedProgram) -> dict[RelationRef, tuple[int, ...]]:
    columns: dict[RelationRef, set[int]] = {}
    for stratum in program.strata:
        for rule in stratum.rules:
            if rule.relation in wanted:
                for _, match in reads(rule.body):
                    columns.setdefault(match.relation, set()).update(match.columns)
    return {name: tuple(sorted(columns[name])) for name in sorted(columns, key=str)}


def _nearest(provenance: Provenance, roots: Iterable[Fact]) -> dict[Fact, Derivation]:
    """Derive the rows below the roots, the nearest first, within the budget. A finding without derivation is placed at
    its subject."""
    derivations: dict[Fact, Derivation] = {}
    waiting = deque(roots)
    while waiting and len(derivations) < FOLLOWED:
        fact = waiting.popleft()
        if fact in derivations or fact[0] in provenance.program.inputs:
            continue
        try:
            derivation = provenance.derive(*fact)
        except BudgetError:
            break
        if derivation:
            derivations[fact] = derivation
            waiting += derivation.matched
    return derivations


def _lacking(derivation: Derivation) -> Iterator[Value]:
    """Yield the resources that must not have a row in some template relation, according to the derivation's rule."""
    absent = [inner for literal in derivation.rule.body if isinstance(literal, Without) for inner in literal.body]
    for inner in absent:
        if isinstance(inner, Match) and relation_name(inner.relation).startswith(TEMPLATE_RELATIONS):
            first = inner.arguments[0]
            if isinstance(first, Var) and (value := derivation.binding.get(first)) is not None:
                yield value


def _unknowns(leaf: FactUse, facts: FactSet) -> Iterator[Unknown]:
    """Yield the unknown that decides whether the row exists, and the unknowns in its columns. Unknowns that depend on
    the former, such as those of a wildcard, are left out."""
    uncertain = facts.maybe.get(leaf.relation)
    reason = uncertain.get(leaf.row) if uncertain else None
    if reason:
        yield reason
    for at in leaf.columns:
        value = leaf.row[at]
        if isinstance(value, Unknown) and not (reason and rests_on(value, reason)):
            yield value
