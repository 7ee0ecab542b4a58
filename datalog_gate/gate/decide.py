"""From stacks and a policy set to a decision (layer 4): the one evaluator behind every door.

In: `Stack` values, a `Request`, a `PolicySet`, an engine. Out: a `Decision`. Pure: the time comes with the request.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial

from datalog_gate.analysis.check import EFFECTIVE, UNLOCKED
from datalog_gate.analysis.kept import Kept
from datalog_gate.analysis.parts import resting
from datalog_gate.analysis.policy import LEVELS, PLACEHOLDER, Level, Policy
from datalog_gate.analysis.possible import POSSIBLE, possible, split
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.collection import paused
from datalog_gate.diagnostics import Span
from datalog_gate.engine.budget import BUDGET, Budget, Watch
from datalog_gate.engine.model import Engine, Model
from datalog_gate.engine.native import evaluate
from datalog_gate.engine.provenance import Provenance
from datalog_gate.errors import BudgetError
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.flatten import flatten
from datalog_gate.facts.stack import Stack
from datalog_gate.facts.summary import Summary, summary
from datalog_gate.gate.blame import Support, deciding, place, support
from datalog_gate.gate.decision import Decision, outcome_of
from datalog_gate.gate.finding import Mode, PolicyError, Violation, Waiver
from datalog_gate.gate.grants import effective, grants_of
from datalog_gate.gate.inventory import Inventory
from datalog_gate.gate.policyset import PolicySet
from datalog_gate.gate.secrets import Secrets
from datalog_gate.gate.settling import settle
from datalog_gate.gate.waivers import waiver_of
from datalog_gate.values import SECRET, ResourceId, Row, Unknown, row_key, show

MODES: tuple[Mode, ...] = ("record", "warn", "enforce")
PLACING = Budget(looks=300_000)
"""What it may take to find where the findings stand: some seconds. No clock, so that the same stands everywhere."""
GRANTS = ("gate:grant", "gate:grant_scope")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    user: str | None = None
    project: str | None = None
    domain: str | None = None
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, besides the stack: the action, who asks, the services that are enabled and the caller may use, the
    time (UTC), the most that a violation may do (`mode`) and that one of a policy may do (`modes`, by policy), the
    inventory, what each group of policies may take, the policies that are `off`: not judged, and the waivers."""

    action: str
    now: datetime
    caller: Caller | None = None
    services: frozenset[str] = frozenset()
    mode: Mode = "enforce"
    inventory: Inventory | None = None
    budget: Budget = BUDGET
    modes: Mapping[str, Mode] = field(default_factory=dict)
    off: frozenset[str] = frozenset()
    waivers: tuple[Waiver, ...] = ()


@paused()
def decide(
    rules: PolicySet,
    stacks: Sequence[Stack],
    request: Request,
    engine: Engine,
    explain: bool = False,
    settled: bool = True,
) -> Decision:
    """Judge the stacks as one set of facts; their ids differ. To `explain` keeps what an explanation needs; nothing is
    worked out before it is asked for. What is undetermined is `settled` where that can be.

    Errors: EngineError if the engine refuses the program or runs out of time.
    """
    program = rules.program
    stacks = sorted(stacks, key=lambda one: one.id)
    facts = FactSet()
    for stack in stacks:
        flatten(stack, rules.catalogue, {*program.inputs, *GRANTS}, facts)
    _add_request(facts, stacks, request)
    known = _with_inventory(facts, request.inventory)
    finished = _split(program, known, facts)
    policies = [one for one in rules.policies if request.action in one.on and one.id not in request.off]
    model, exceeded = _evaluated(policies, finished, facts, request, engine)
    secrets = Secrets(facts, finished)
    judge = _Judge(rules, stacks, request, facts, finished, model, exceeded, secrets, explain)
    certain = sorted((one for policy in policies for one in judge.certain(policy)), key=_by_policy)
    violations = [one for one in certain if not one.waiver]
    there = {(one.policy, one.resource) for one in violations if one.resource}
    undetermined = sorted((one for policy in policies for one in judge.undetermined(policy, there)), key=_by_policy)
    identity: list[str] = []
    if settled and undetermined:
        found = settle(rules, stacks, facts, certain, undetermined, request.budget, partial(_unsettled, request))
        violations = sorted((*violations, *found.violations), key=_by_policy)
        certain = sorted((*certain, *found.violations, *found.waived), key=_by_policy)
        undetermined, identity = found.undetermined, found.identity
        judge.raw |= {new: judge.raw[old] for new, old in found.origins.items() if explain}
    met = {one.waiver or one.lapsed for one in certain}
    waivers = tuple(one for one in request.waivers if one in met)
    errors = [error for policy in policies if (error := judge.error(policy))]
    lines = sorted(f"{digest} {relation}" for relation, digest in known.digests.items() if relation != "gate:now")
    digests = {"rules": rules.digest, "facts": _digest(lines)}
    ids = tuple(stack.id for stack in stacks)
    decision = Decision(
        _digest([*digests.values(), *ids, *_identity(rules, request, waivers), *identity])[:16],
        outcome_of(violations, undetermined, errors),
        request.action,
        ids,
        tuple(violations),
        tuple(undetermined),
        tuple(one for one in certain if one.waiver),
        tuple(sorted(errors, key=lambda one: one.policy)),
        grants_of(
            facts,
            stacks,
            request.services,
            request.now,
            {(one.service, grant) for one in rules.unlocks for (grant,) in model.rows(one.relation)},
            model.rows(UNLOCKED),
        ),
        digests,
        {"policies": len(policies), "facts": len(facts)},
        {
            relation: secrets.rows(relation, model.rows(relation))
            for stratum in program.strata
            for relation in stratum.relations
            if relation in model.tables
        },
        {**rules.sources, **{file: text for stack in stacks for file, text in stack.sources.items()}},
        request.now,
        waivers,
    )
    if not explain:
        return decision
    from datalog_gate.gate.explanation import Explanation
    from datalog_gate.gate.fix import Fixes

    fixes = Fixes(
        stacks,
        facts,
        model,
        finished.relations,
        rules.catalogue.type,
        secrets,
        decision,
        lambda changed: decide(rules, changed, request, evaluate),
    )
    return replace(
        decision,
        explanation=Explanation(
            facts,
            judge.provenance,
            secrets,
            stacks,
            judge.raw,
            _places(request.inventory),
            policies,
            rules.reads,
            fixes.of,
        ),
    )


def _unsettled(request: Request, rules: PolicySet, stacks: Sequence[Stack], budget: Budget) -> Decision:
    return decide(rules, stacks, replace(request, budget=budget), evaluate, settled=False)


class _Judge:
    """Reads the findings of each policy off the finished model."""

    def __init__(
        self,
        rules: PolicySet,
        stacks: Sequence[Stack],
        request: Request,
        facts: FactSet,
        program: CheckedProgram,
        model: Model,
        exceeded: Mapping[Level, BudgetError],
        secrets: Secrets,
        explain: bool,
    ) -> None:
        self._reads, self._request = rules.reads, request
        self._relations, self._written = rules.program.relations, rules.program
        self._facts, self._program, self._model, self._stacks = facts, program, model, stacks
        self._secrets, self._exceeded = secrets, exceeded
        self.provenance = Provenance(program, model, Watch(PLACING))
        self._explain = explain
        self.raw: dict[Violation, tuple[str, Row]] = {}

    @cached_property
    def _shared(self) -> Collection[str]:
        """The names that more than one resource has: only those of different stacks can."""
        stacks = [one for stack in self._stacks for one in stack.walk()]
        names = Counter(resource.name for one in stacks for resource in one.resources) if len(stacks) > 1 else {}
        return {name for name, times in names.items() if times > 1}

    def certain(self, policy: Policy) -> Iterator[Violation]:
        """The rows that violate the policy whatever the unknowns turn out to be, waived or not."""
        waivers = [one for one in self._request.waivers if one.policy == policy.id]
        for row in self._model.rows(policy.relation):
            found = support(self.provenance, policy.relation, row)
            yield self._violation(policy, policy.relation, row, found, (), waivers)

    def undetermined(self, policy: Policy, settled: Set[tuple[str, ResourceId | None]]) -> Iterator[Violation]:
        """The rows that violate the policy for some outcome of the unknowns: one for each subject, the first, that has
        no certain one. What is waived settles nothing: another row may hold what nobody waived."""
        relation = possible(policy.relation, self._program)
        if relation == policy.relation:  # nothing that it reads is unknown
            return
        certain = self._model.rows(policy.relation)
        seen: set[ResourceId | None] = set()
        for row in sorted(self._model.rows(relation), key=row_key):
            subject = self._subject(policy, row)
            if row in certain or subject in seen or (policy.id, subject) in settled:
                continue
            seen.add(subject)
            found = support(self.provenance, relation, row)
            because = deciding(subject, found.leaves, self._facts, self._reads[policy.relation], self._written)
            yield self._violation(policy, relation, row, found, because)

    def error(self, policy: Policy) -> PolicyError | None:
        """The first error among those that the policy depends on; or that the budget ended before it was judged."""
        needed = self._reads[policy.relation]
        enforced = policy.level == "deny" and self._mode(policy) == "enforce"
        for error in self._model.errors:
            if error.relation.removesuffix(POSSIBLE) in needed:
                return PolicyError(policy.id, self._secrets.message(error), error.span, enforced)
        relations = {policy.relation, possible(policy.relation, self._program)}
        if policy.level in self._exceeded and not self._model.tables.keys() >= relations:
            exceeded = self._exceeded[policy.level]
            return PolicyError(policy.id, str(exceeded), exceeded.span, enforced, "budget")
        return None

    def _violation(
        self,
        policy: Policy,
        relation: str,
        row: Row,
        found: Support,
        because: tuple[Unknown, ...],
        waivers: Sequence[Waiver] = (),
    ) -> Violation:
        subject = self._subject(policy, row)
        shown = self._secrets.row(policy.relation, row)
        project = self._request.caller.project if self._request.caller else None
        waiver, why = waiver_of(waivers, policy.columns, shown, subject, project, self._request.now)
        hints = (policy.hint, f"waiver {waiver.id} {why}" if waiver and why else "")
        violation = Violation(
            policy.id,
            policy.level,
            self._mode(policy),
            self._message(policy, shown),
            "; ".join(filter(None, hints)),
            policy.relation,
            shown,
            subject,
            place(subject, row, found, self._facts, self._relations) or self._stacks[0].place,
            tuple(map(self._secrets.unknown, because)),
            policy.on_unknown,
            None if why else waiver,
            waiver if why else None,
        )
        if self._explain:
            self.raw.setdefault(violation, (relation, row))
        return violation

    def _subject(self, policy: Policy, row: Row) -> ResourceId | None:
        value = row[policy.subject] if policy.subject is not None else None
        return value if isinstance(value, ResourceId) else None

    def _mode(self, policy: Policy) -> Mode:
        """The least of what the request allows, of the policy too, and, before its day, what the policy's date does."""
        early = policy.enforce_from is not None and self._request.now.date() < policy.enforce_from
        own = self._request.modes.get(policy.id, "enforce")
        return min(self._request.mode, "warn" if early else "enforce", own, key=MODES.index)

    def _message(self, policy: Policy, row: Row) -> str:
        def word(name: str) -> str:
            value = row[policy.columns.index(name)]
            if isinstance(value, ResourceId):
                return value.path if value.name in self._shared else value.name
            return "?" if isinstance(value, Unknown) and value != SECRET else show(value)

        return PLACEHOLDER.sub(lambda found: word(found[1]), policy.message)


def _by_policy(one: Violation) -> tuple[str, object]:
    return one.policy, row_key(one.row)


def _add_request(facts: FactSet, stacks: Sequence[Stack], request: Request) -> None:
    caller = request.caller
    facts.add("gate:request", (request.action,))
    facts.add("gate:now", (request.now.isoformat(),))
    if caller:
        facts.add("gate:caller", (caller.user, caller.project, caller.domain))
        for role in caller.roles:
            facts.add("gate:role", (role,))
    for service in sorted(request.services):
        facts.add("gate:service", (service,))
    for grant in effective(facts, stacks, request.services, request.now):
        facts.add(EFFECTIVE.name, (grant,))


def _with_inventory(facts: FactSet, inventory: Inventory | None) -> Summary:
    """Put the inventory under the facts; the summary of both."""
    if inventory is None:
        return summary(facts)
    for relation, rows in inventory.added.items():
        for row in rows:
            facts.add(relation, row)
    known = summary(facts)
    for relation, table in inventory.model.tables.items():
        if relation in inventory.rows and table.rows:
            facts.rows[relation] = table.rows
    return Summary({**known.digests, **inventory.summary.digests}, {**known.unknown, **inventory.summary.unknown})


_SPLIT = Kept[CheckedProgram]()


def _split(program: CheckedProgram, known: Summary, facts: FactSet) -> CheckedProgram:
    """The program in the versions that what is not known of these facts asks for."""
    maybe = frozenset(name for name, rows in facts.maybe.items() if rows)
    key = frozenset(known.unknown.items()), maybe
    return _SPLIT.get(program, key, lambda: split(program, known.unknown, maybe, (UNLOCKED, EFFECTIVE.name)))


def _evaluated(
    policies: Sequence[Policy], program: CheckedProgram, facts: FactSet, request: Request, engine: Engine
) -> tuple[Model, dict[Level, BudgetError]]:
    """The model, and by level what went beyond the budget. Each level has a budget of its own: first come the policies
    that deny, with what unlocks services, then those that warn, those that record, and whatever no policy reads if
    none went beyond its budget: what took it would take it again."""
    model = request.inventory.model if request.inventory else Model()
    inputs = _inputs(program, facts, model)
    exceeded: dict[Level, BudgetError] = {}
    for level in LEVELS:
        wanted = {one.relation for one in policies if one.level == level} | ({UNLOCKED} if level == "deny" else set())
        if not wanted:
            continue
        both = frozenset(wanted | {possible(one, program) for one in wanted})
        model = engine(resting(program, both), inputs, request.budget, model)
        if model.exceeded:
            exceeded[level] = model.exceeded
    return model if exceeded else engine(program, inputs, request.budget, model), exceeded


def _inputs(program: CheckedProgram, facts: FactSet, model: Model) -> dict[str, Collection[Row]]:
    """The rows of each input that the model does not have: for a possible version all rows, for a certain one those
    that are sure."""
    inputs: dict[str, Collection[Row]] = {}
    for name in program.inputs - model.tables.keys():
        rows = facts.rows.get(name.removesuffix(POSSIBLE), {})
        maybe = facts.maybe.get(name, ())
        inputs[name] = rows if not maybe else [row for row in rows if row not in maybe]
    return inputs


def _places(inventory: Inventory | None) -> dict[str, Mapping[Row, Span]]:
    return {**inventory.rows, **inventory.added} if inventory else {}


def _identity(rules: PolicySet, request: Request, waivers: Sequence[Waiver]) -> list[str]:
    """What a decision depends on besides rules and facts: the mode, those of single policies, the policies that are not
    enforced yet, the time if a rule reads it, and the waivers that it met, with those of them that are expired."""
    early = [one.id for one in rules.policies if one.enforce_from and request.now.date() < one.enforce_from]
    modes = [f"{one.id}={request.modes[one.id]}" for one in rules.policies if one.id in request.modes]
    modes += [f"{one.id}=off" for one in rules.policies if one.id in request.off]
    now = request.now.isoformat() if "gate:now" in rules.program.inputs else ""
    words = [json.dumps([one.to_json(), request.now >= one.until], sort_keys=True) for one in waivers]
    return [request.mode, *early, *modes, now, *words]


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
