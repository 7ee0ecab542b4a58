"""The evaluation of a policy set over stacks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from datalog_gate.analysis.policy import LEVELS, Level, Policy
from datalog_gate.analysis.program import CheckedProgram, ProgramCache
from datalog_gate.analysis.slices import layers, slice_for
from datalog_gate.analysis.unknowns import possible, split
from datalog_gate.base.errors import BudgetError
from datalog_gate.base.records import dataclass
from datalog_gate.base.values import Row
from datalog_gate.decision.cloud_state import AGES, Inventory
from datalog_gate.decision.grants import effective
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.decision.request import DecisionRequest
from datalog_gate.engine.least_model import Engine, Model
from datalog_gate.facts.cloud_relations import add_cloud_facts
from datalog_gate.facts.digests import Summary, summarize
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.flatten import flatten
from datalog_gate.schema.declaration import RelationRef, old_version, possible_version
from datalog_gate.schema.relations import EFFECTIVE, UNLOCKED
from datalog_gate.stack.model import Stack

GRANTS = ("gate:grant", "gate:grant_scope")
_SPLIT = ProgramCache[CheckedProgram]()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The facts with their digests by relation, the program (split into versions for its unknowns), its model, and what
    exceeded the budget by level."""

    facts: FactSet
    digests: Mapping[RelationRef, str]
    program: CheckedProgram
    model: Model
    exceeded: Mapping[Level, BudgetError]

    @property
    def identity(self) -> list[str]:
        """The sorted digests of all facts except the time."""
        return sorted(f"{digest} {name}" for name, digest in self.digests.items() if name != "gate:now")


def evaluation(
    rules: PolicySet,
    stacks: Sequence[Stack],
    request: DecisionRequest,
    policies: Sequence[Policy],
    engine: Engine,
    whole: bool = True,
) -> Evaluation:
    """The model over the stacks as one set of facts. With `whole`, it also has facts of the request's older state, and
    relations that no policy depends on, if the budgets allow it.

    Each level has a budget of its own: first come the policies that deny, with what unlocks services, then those that
    warn, those that record, and whatever no policy reads if none went beyond its budget: what took it would take it
    again. Errors: EngineError if the engine refuses the program or exceeds its budget.
    """
    facts = _read_facts(rules, stacks, request)
    if whole and request.against:
        _add_against(facts, rules, stacks, request)
    known = _with_inventory(facts, request.inventory)
    maybe = frozenset(name for name, rows in facts.maybe.items() if rows)
    key = frozenset(known.unknown.items()), maybe
    assumed = (UNLOCKED, EFFECTIVE.name)
    program = _SPLIT.get(rules.program, key, lambda: split(rules.program, known.unknown, maybe, assumed))
    model = request.inventory.model if request.inventory else Model()
    inputs = _inputs(facts)
    exceeded: dict[Level, BudgetError] = {}
    by_level, rest = _LAYERS.get(program, tuple([policy.id for policy in policies]), lambda: _layers(program, policies))
    for level, wanted, layer in by_level:
        # a later level may need what this one did not derive
        model = engine(slice_for(program, wanted) if exceeded else layer, inputs, request.budget, model)
        if model.exceeded:
            exceeded[level] = model.exceeded
    if whole and not exceeded:
        model = engine(rest, inputs, request.budget, model)
    return Evaluation(facts, known.digests, program, model, exceeded)


def _read_facts(rules: PolicySet, stacks: Sequence[Stack], request: DecisionRequest) -> FactSet:
    """The facts that the rules read of the stacks, the request and, if it names one, the cloud."""
    facts = FactSet()
    read = {relation for relation in rules.program.inputs if isinstance(relation, str)}.union(GRANTS)
    for stack in stacks:
        flatten(stack, rules.catalogue, read, facts)
    _add_request(facts, stacks, request)
    if request.cloud is not None:
        add_cloud_facts(facts, stacks, request.cloud, rules.catalogue, rules.program.inputs)
    if AGES in read and request.inventory:
        for table, seconds in request.inventory.ages(request.now):
            facts.add(AGES, (table, seconds))
    return facts


def _add_request(facts: FactSet, stacks: Sequence[Stack], request: DecisionRequest) -> None:
    facts.add("gate:request", (request.action,))
    facts.add("gate:now", (request.now.isoformat(),))
    for relation, rows in (request.caller.facts if request.caller else {}).items():
        for row in rows:
            facts.add(relation, row)
    for service in sorted(request.services):
        facts.add("gate:service", (service,))
    for grant in effective(facts, stacks, request.services, request.now):
        facts.add(EFFECTIVE.name, (grant,))


def _add_against(facts: FactSet, rules: PolicySet, stacks: Sequence[Stack], request: DecisionRequest) -> None:
    """Add the facts of the older state that rules read, and its grants that are in effect now."""
    from datalog_gate.facts.old_relations import add_old_facts  # most stacks are checked without an older state

    past = add_old_facts(facts, request.against, stacks, rules.catalogue, rules.program.inputs)
    name = old_version(EFFECTIVE.name)
    if name in rules.program.inputs:
        for grant in effective(past, request.against, request.services, request.now):
            facts.add(name, (grant,))
        for row, doubt in past.maybe.get("gate:grant", {}).items():
            facts.add(name, row[:1], maybe=doubt)


def _with_inventory(facts: FactSet, inventory: Inventory | None) -> Summary:
    if inventory is None:
        return summarize(facts)
    for relation, rows in inventory.added.items():
        for row in rows:
            facts.add(relation, row)
    known = summarize(facts)
    for relation, table in inventory.model.tables.items():
        if relation in inventory.rows and table.rows:
            facts.rows[relation] = table.rows
    return Summary({**known.digests, **inventory.summary.digests}, {**known.unknown, **inventory.summary.unknown})


_Layers = tuple[list[tuple[Level, frozenset[RelationRef], CheckedProgram]], CheckedProgram]
_LAYERS = ProgramCache[_Layers]()


def _layers(program: CheckedProgram, policies: Sequence[Policy]) -> _Layers:
    """By level what its policies need, and the part of the program that derives it after earlier levels; the rest."""
    needs: dict[Level, frozenset[RelationRef]] = {}
    for level in LEVELS:
        wanted = {policy.relation for policy in policies if policy.level == level} | (
            {UNLOCKED} if level == "deny" else set()
        )
        if wanted:
            needs[level] = frozenset(wanted | {possible(relation, program) for relation in wanted})
    *parts, rest = layers(program, needs.values())
    return [(level, needs[level], part) for level, part in zip(needs, parts, strict=True)], rest


def _inputs(facts: FactSet) -> dict[RelationRef, Collection[Row]]:
    """The certain rows of each relation, and all rows of its possible version."""
    inputs: dict[RelationRef, Collection[Row]] = {}
    for name, rows in facts.rows.items():
        maybe = facts.maybe.get(name)
        inputs[name] = [row for row in rows if row not in maybe] if maybe else rows
        inputs[possible_version(name)] = rows
    return inputs
