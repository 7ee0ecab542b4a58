"""The judgement of policies over the whole cloud, from stored facts.

Values that tables can't hold are read from the stacks. A policy that also reads each stack by itself is lifted, so that
it judges each stack beside the whole cloud.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from datalog_gate.analysis.lifting import ROOTS, lift, stack_inputs
from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.analysis.slices import derivable, slice_for
from datalog_gate.analysis.strata import reads
from datalog_gate.analysis.unknowns import possible, split
from datalog_gate.analysis.violation_key import measures
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import OPEN, ResourceId, Row, Unknown, Value, in_order, show
from datalog_gate.decision.cloud_state import AGES
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.decision.waivers import waiver_of
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.least_model import Model
from datalog_gate.engine.native import evaluate
from datalog_gate.files.inputs import read_inventory
from datalog_gate.scan.batch import Finding, ScanRequest, State, distinguish, encode_row, storable
from datalog_gate.scan.feed import read
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.scan.stored_facts import UNCERTAIN, fact_table, rooted_facts
from datalog_gate.schema.declaration import RelationRef, is_all, possible_version, relation_name
from datalog_gate.schema.relations import EFFECTIVE, UNLOCKED

Stacks = Mapping[str, tuple[str, str | None]]
"""The name and project of each stack by root."""
CLOUD_BUDGET = Budget(seconds=600.0)
"""The budget of all policies over the cloud together."""


def judge_cloud(store: ScanStore, request: ScanRequest) -> list[Finding]:
    """The findings of policies over the whole cloud in the stored facts."""
    rules = request.rules
    policies = cloud_policies(rules)
    if not policies:
        return []
    wanted = frozenset(policy.relation for policy in policies)
    wanted &= derivable([*rules.program.rules], _filled(slice_for(rules.program, wanted), store, request))
    policies = [policy for policy in policies if policy.relation in wanted]
    if not policies:
        return []
    stacks = store.stacks()
    model, lifted = _evaluate(slice_for(rules.program, wanted), wanted, store, request)
    findings: list[Finding] = []
    for policy in policies:
        certain = model.rows(policy.relation)
        states: tuple[tuple[State, Collection[Row]], ...] = (
            ("holds", certain),
            ("undetermined", [row for row in model.rows(possible_version(policy.relation)) if row not in certain]),
        )
        for state, rows in states:
            for row in in_order(rows):
                findings.append(cloud_finding(policy, row, policy.relation in lifted, state, stacks, request))
        needed = set(map(relation_name, rules.reads[policy.relation]))
        failed = next((error.message for error in model.errors if relation_name(error.relation) in needed), None)
        if failed is None and model.exceeded and policy.relation not in model.tables:
            failed = str(model.exceeded)
        if failed is not None:
            findings.append(Finding("", policy.id, "", "", policy.level, "error", False, storable(failed), "", "", ""))
    return list(distinguish(findings))


def _filled(part: CheckedProgram, store: ScanStore, request: ScanRequest) -> set[RelationRef]:
    """The inputs that have rows, or may have some. Policies over others need not be read, since the facts of all stacks
    are many."""
    inventory = request.inventory or read_inventory(request.rules, {})
    own = stack_inputs(part, request.rules.catalogue)
    stored = store.filled()
    return {
        name
        for name in part.inputs
        if (inventory.rows[name] if name in inventory.rows else not is_all(name) or relation_name(name) in stored)
        or name in own
    }


def cloud_policies(rules: PolicySet) -> list[Policy]:
    """The policies over the whole cloud."""
    return [policy for policy in rules.policies if policy.id in rules.cloud_wide and "create" in policy.on]


@dataclass(slots=True)
class _CloudFacts:
    """Rows by relation: the certain ones, all of them, and the columns with unknowns."""

    sure: dict[RelationRef, list[Row]] = field(default_factory=dict)
    every: dict[RelationRef, list[Row]] = field(default_factory=dict)
    unknown: dict[RelationRef, set[int]] = field(default_factory=dict)

    def add(self, relation: RelationRef, row: Row, shift: int = 0, uncertain: bool = False) -> None:
        """Add a row. Columns with unknowns are counted after the first `shift` ones."""
        self.every.setdefault(relation, []).append(row)
        if not uncertain:
            self.sure.setdefault(relation, []).append(row)
        for at, value in enumerate(row):
            if type(value) is Unknown:
                self.unknown.setdefault(relation, set()).add(at - shift)


def _evaluate(
    part: CheckedProgram, wanted: frozenset[RelationRef], store: ScanStore, request: ScanRequest
) -> tuple[Model, Collection[RelationRef]]:
    """The model of a program over the cloud, and its relations with the root as first column."""
    catalogue = request.rules.catalogue
    own = stack_inputs(part, catalogue)
    facts = _read_facts(part, [name for name in part.inputs if is_all(name) or name in own], store, request)
    facts.add("gate:now", (request.now.isoformat(),))
    for service in sorted(request.services):
        facts.add("gate:service", (service,))
    inventory = request.inventory
    unknown = {name: frozenset(columns) for name, columns in facts.unknown.items()}
    if inventory:
        for row in inventory.ages(request.now):
            facts.add(AGES, row)
        unknown.update(inventory.summary.unknown)
    maybe = [name for name, rows in facts.every.items() if len(rows) > len(facts.sure.get(name, ()))]
    program = split(part, unknown, maybe, (UNLOCKED, EFFECTIVE.name))
    lifted = lift(program, stack_inputs(program, catalogue))
    inputs: dict[RelationRef, Collection[Row]] = {ROOTS: [(root,) for root in store.stacks()], **facts.sure}
    inputs |= {possible_version(name): rows for name, rows in facts.every.items()}
    targets = frozenset(wanted | {possible(name, program) for name in wanted})
    before = inventory.model if inventory else None
    return evaluate(slice_for(lifted.program, targets), inputs, CLOUD_BUDGET, before), lifted.relations


def _read_facts(
    part: CheckedProgram, relations: Sequence[RelationRef], store: ScanStore, request: ScanRequest
) -> _CloudFacts:
    """The rows of relations of all stacks, with the project for `all:` relations, else with the root. A value that
    tables can't hold is read from the stack if a rule reads its column."""
    facts = _CloudFacts()
    names = {relation_name(relation) for relation in relations}
    matches = [match for rule in part.rules for _, match in reads(rule.body)]
    columns: dict[str, set[str]] = {name: {UNCERTAIN} for name in names}
    for match in matches:
        if (name := relation_name(match.relation)) in names:
            table = fact_table(name, request.rules.catalogue).names[1:]
            columns[name].update(table[at] for at in match.columns if at < len(table))
    apart = {(root, name) for root, name, column in store.unfit(names) if column in columns[name]}

    def add(name: str, root: str, project: str | None, row: Row, uncertain: bool = False) -> None:
        for relation in relations:
            if relation_name(relation) == name:
                rooted = (*row, project) if is_all(relation) else (root, *row)
                facts.add(relation, rooted, 0 if is_all(relation) else 1, uncertain)

    for name in sorted(names):
        for root, project, row in store.facts(name):
            if (root, name) not in apart:
                add(name, root, project, row)
    for entry in store.entries({root for root, _ in apart}):
        try:
            stack = read(entry, request.rules.catalogue)
        except InputError:  # its files have been removed since
            continue
        for name, row, uncertain in rooted_facts(entry.root, stack, request.rules.catalogue, names):
            if (entry.root, name) in apart:
                add(name, entry.root, entry.project, row, uncertain)
    return facts


def cloud_finding(
    policy: Policy,
    row: Row,
    is_lifted: bool,
    state: State,
    stacks: Stacks,
    request: ScanRequest,
) -> Finding:
    """The finding for a row. Without its own root, it belongs to the stack of the blamed resource, else to the first
    stack in the row."""
    root, row = (str(row[0]), row[1:]) if is_lifted else ("", row)
    value = row[policy.subject] if policy.subject is not None else None
    subject = value if isinstance(value, ResourceId) else None
    named = (value for value in row if isinstance(value, str) and value in stacks)
    root = root or (_root_of(subject, stacks) if subject else next(named, ""))
    project = stacks[root][1] if root else None
    waivers = [waiver for waiver in request.waivers if waiver.policy == policy.id]
    waiver, lapse = waiver_of(waivers, policy.columns, row, subject, project, request.now)
    waived = bool(waiver) and not lapse and state == "holds"
    enforced = policy.level == "deny" and not policy.only_warns_at(request.now)

    def word(value: Value) -> str:
        if isinstance(value, ResourceId):
            return _name(value, stacks)
        return "?" if isinstance(value, Unknown) and not value.hidden and value.bounds == OPEN else show(value)

    return Finding(
        root=root,
        policy=policy.id,
        key=encode_row(measures(request.rules.program, request.rules.policies)[policy.id].key(row)),
        row=encode_row(row),
        level=policy.level,
        state="waived" if waived else state,
        denies=enforced and not waived and (state == "holds" or policy.on_unknown == "deny"),
        message=storable(policy.format("message", row, word)),
        hint=storable(str(waiver) if waived else policy.format("hint", row, word)),
        resource=storable(_name(subject, stacks)) if subject else "",
        place="",
    )


def _root_of(resource: ResourceId, stacks: Stacks) -> str:
    """The root that the id begins with. Roots of a folder are paths, so several prefixes may be roots."""
    parts = resource.path.split("/")
    roots = ("/".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((root for root in roots if root in stacks), "")


def _name(resource: ResourceId, stacks: Stacks) -> str:
    """The id with the stack's name instead of its root, as users know it."""
    root = _root_of(resource, stacks)
    return stacks[root][0] + resource.path[len(root) :] if root else resource.path
