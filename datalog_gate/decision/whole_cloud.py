"""Judges policies over the whole cloud, from all stacks' rows.

The rows of an `all:` relation end with the project of their stack. A policy that also reads each stack by itself is
lifted, so that it judges each stack beside the whole cloud: what it reads of a stack begins with the root.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from datalog_gate.analysis.lifting import ROOTS, Lifted, lift, stack_inputs
from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.analysis.slices import derivable, slice_for
from datalog_gate.analysis.strata import matches
from datalog_gate.analysis.unknowns import possible, split
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import OPEN, ResourceId, Row, Unknown, Value, in_order, show
from datalog_gate.decision.cloud_state import AGES, Inventory
from datalog_gate.decision.decision import PolicyError, Violation
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.decision.request import DecisionRequest
from datalog_gate.decision.waivers import waiver_of
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.least_model import Model
from datalog_gate.engine.native import evaluate
from datalog_gate.schema.declaration import RelationRef, is_all, possible_version, relation_name
from datalog_gate.schema.relations import EFFECTIVE, UNLOCKED

CloudState = Literal["holds", "undetermined", "waived"]
Stacks = Mapping[str, tuple[str, str | None]]
"""The name and project of each stack by root."""
CLOUD_BUDGET = Budget(seconds=600.0)
"""The budget of all policies over the cloud together."""


class CloudViolation(NamedTuple):
    """A violation, and the root of the stack that it belongs to; empty for the whole cloud."""

    root: str
    state: CloudState
    violation: Violation


@dataclass(frozen=True)
class CloudProgram:
    """Policies over the whole cloud, with the part of their rules that they need."""

    rules: PolicySet
    policies: Sequence[Policy]

    @cached_property
    def part(self) -> CheckedProgram:
        return slice_for(self.rules.program, frozenset(policy.relation for policy in self.policies))

    @cached_property
    def lifted(self) -> Lifted:
        """The part for many stacks at once, if no value of them is unknown."""
        return lift(self.part, stack_inputs(self.part, self.rules.catalogue))

    @cached_property
    def whole(self) -> Mapping[str, RelationRef]:
        """The `all:` relations that rules read, by the name of the relation that each stack fills."""
        return {relation_name(name): name for name in self.part.inputs if is_all(name)}

    @cached_property
    def own(self) -> Mapping[str, RelationRef]:
        """The relations that rules read of each stack by itself, by name."""
        return {relation_name(name): name for name in stack_inputs(self.part, self.rules.catalogue)}

    @cached_property
    def columns(self) -> Mapping[str, frozenset[int]]:
        """The columns that rules read of the relations of stacks, by name."""
        columns = {name: frozenset[int]() for name in (*self.whole, *self.own)}
        for match in (match for rule in self.part.rules for match in matches(rule.body)):
            if (name := relation_name(match.relation)) in columns:
                columns[name] |= frozenset(match.columns)
        return columns

    def restrict(self, filled: Collection[str], inventory: Inventory) -> CloudProgram:
        """The policies that may find something, if stacks have rows of the `filled` relations alone. Others need not be
        judged, since the facts of all stacks are many."""
        some: set[RelationRef] = {name for name in self.part.inputs if inventory.rows.get(name, True)}
        some -= {version for name, version in self.whole.items() if name not in filled}
        found = derivable([*self.rules.program.rules], some.union(self.own.values()))
        return replace(self, policies=[policy for policy in self.policies if policy.relation in found])

    def read_violation(
        self, policy: Policy, row: Row, is_certain: bool, stacks: Stacks, request: DecisionRequest
    ) -> CloudViolation:
        """The violation of a row of the lifted program. Without a root it belongs to the stack of the blamed resource,
        else to the first stack in the row."""
        root, row = self.lifted.split_root(policy.relation, row)
        value = row[policy.subject] if policy.subject is not None else None
        subject = value if isinstance(value, ResourceId) else None
        named = (value for value in row if isinstance(value, str) and value in stacks)
        root = root or (_root_of(subject, stacks) if subject else next(named, ""))
        project = stacks[root][1] if root else None
        waivers = [waiver for waiver in request.waivers if waiver.policy == policy.id]
        waiver, lapse = waiver_of(waivers, policy.columns, row, subject, project, request.now)

        def word(value: Value) -> str:
            if isinstance(value, ResourceId):
                return _name(value, stacks)
            return "?" if isinstance(value, Unknown) and not value.hidden and value.bounds == OPEN else show(value)

        violation = Violation(
            policy=policy.id,
            level=policy.level,
            mode="warn" if policy.only_warns_at(request.now) else "enforce",
            message=policy.format("message", row, word),
            hint=policy.format("hint", row, word),
            relation=policy.relation,
            row=row,
            resource=ResourceId(_name(subject, stacks)) if subject else None,
            place=None,
            on_unknown=policy.on_unknown,
            waiver=waiver if is_certain and not lapse else None,
        )
        state: CloudState = "undetermined"
        if is_certain:
            state = "waived" if violation.waiver else "holds"
        return CloudViolation(root, state, violation)


def find_cloud_program(rules: PolicySet) -> CloudProgram:
    """The policies over the whole cloud that are judged when a stack is created."""
    policies = [policy for policy in rules.policies if policy.id in rules.cloud_wide and "create" in policy.on]
    return CloudProgram(rules, policies)


@dataclass(slots=True)
class CloudRows:
    """The rows of a cloud's stacks that a program reads."""

    program: CloudProgram
    sure: dict[RelationRef, list[Row]] = field(default_factory=dict)
    """The rows that certainly exist."""
    every: dict[RelationRef, list[Row]] = field(default_factory=dict)
    """All rows."""
    unknown: dict[RelationRef, set[int]] = field(default_factory=dict)
    """The columns that hold an unknown, without that of the root."""

    def add(self, name: str, root: str, project: str | None, row: Row, uncertain: bool = False) -> None:
        """Add a row of a stack, which perhaps does not exist."""
        if version := self.program.whole.get(name):
            self._add(version, (*row, project), uncertain=uncertain)
        if version := self.program.own.get(name):
            self._add(version, (root, *row), 1, uncertain)

    def add_request(self, request: DecisionRequest) -> None:
        """Add the facts that are the same for all stacks."""
        self._add("gate:now", (request.now.isoformat(),))
        for service in sorted(request.services):
            self._add("gate:service", (service,))
        for row in request.inventory.ages(request.now) if request.inventory else ():
            self._add(AGES, row)

    def judge(self, stacks: Stacks, request: DecisionRequest) -> Iterator[CloudViolation | PolicyError]:
        """The violations and errors of the program's policies over these stacks, in order of policy."""
        reads = self.program.rules.reads
        model = _evaluate(self, stacks, request)
        for policy in self.program.policies:
            certain = model.rows(policy.relation)
            unsure = [row for row in model.rows(possible_version(policy.relation)) if row not in certain]
            for is_certain, found in ((True, certain), (False, unsure)):
                for row in in_order(found):
                    yield self.program.read_violation(policy, row, is_certain, stacks, request)
            needed = set(map(relation_name, reads[policy.relation]))
            failed = next((error.message for error in model.errors if relation_name(error.relation) in needed), None)
            if failed is None and model.exceeded and policy.relation not in model.tables:
                failed = str(model.exceeded)
            if failed is not None:
                yield PolicyError(policy.id, failed, None, enforced=False)

    def _add(self, relation: RelationRef, row: Row, shift: int = 0, uncertain: bool = False) -> None:
        """Add a row, whose columns with unknowns are counted after the first `shift` ones."""
        self.every.setdefault(relation, []).append(row)
        if not uncertain:
            self.sure.setdefault(relation, []).append(row)
        for at, value in enumerate(row):
            if type(value) is Unknown:
                self.unknown.setdefault(relation, set()).add(at - shift)


def _evaluate(rows: CloudRows, stacks: Stacks, request: DecisionRequest) -> Model:
    """The model of the rows, with certain and possible versions where they hold unknowns."""
    part, catalogue, inventory = rows.program.part, rows.program.rules.catalogue, request.inventory
    rows.add_request(request)
    unknown = {name: frozenset(columns) for name, columns in rows.unknown.items()}
    if inventory:
        unknown.update(inventory.summary.unknown)
    maybe = [name for name, every in rows.every.items() if len(every) > len(rows.sure.get(name, ()))]
    program = split(part, unknown, maybe, (UNLOCKED, EFFECTIVE.name))
    lifted = lift(program, stack_inputs(program, catalogue))
    inputs: dict[RelationRef, Collection[Row]] = {ROOTS: [(root,) for root in stacks], **rows.sure}
    inputs |= {possible_version(name): every for name, every in rows.every.items()}
    wanted = {policy.relation for policy in rows.program.policies}
    targets = frozenset(wanted | {possible(name, program) for name in wanted})
    before = inventory.model if inventory else None
    return evaluate(slice_for(lifted.program, targets), inputs, CLOUD_BUDGET, before)


def evaluate_together(
    lifted: Lifted, facts: Mapping[RelationRef, Collection[Row]], roots: Collection[str]
) -> tuple[Model, Collection[str]]:
    """The model of policies that judge each stack by itself, over many stacks at once, and the roots of those for which
    it has not all rows."""
    model = evaluate(lifted.program, {**facts, ROOTS: [(root,) for root in roots]}, CLOUD_BUDGET)
    if model.exceeded or any(error.relation not in lifted.relations for error in model.errors):
        return model, roots
    return model, {str(error.row[0]) for error in model.errors}


def _root_of(resource: ResourceId, stacks: Stacks) -> str:
    """The root that the id begins with. Roots of a folder are paths, so several prefixes may be roots."""
    parts = resource.path.split("/")
    roots = ("/".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((root for root in roots if root in stacks), "")


def _name(resource: ResourceId, stacks: Stacks) -> str:
    """The id with the stack's name instead of its root, as users know it."""
    root = _root_of(resource, stacks)
    return stacks[root][0] + resource.path[len(root) :] if root else resource.path
