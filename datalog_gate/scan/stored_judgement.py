"""What other rules would find in a store, and whether two engines agree on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from datalog_gate.analysis.lifting import ROOTS, lift, stack_inputs
from datalog_gate.analysis.slices import resting
from datalog_gate.analysis.strata import reads
from datalog_gate.base.errors import InputError
from datalog_gate.base.values import Row, Unknown, in_order
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.engine.native import evaluate
from datalog_gate.engine.sql.compiler import compile_program
from datalog_gate.engine.sql.database import open_database
from datalog_gate.engine.sql.evaluation import Unfit, load_facts, temporary_facts
from datalog_gate.engine.sql.evaluation import evaluate as evaluate_sql
from datalog_gate.files.inputs import read_inventory
from datalog_gate.scan.batch import ScanRequest, facts_version
from datalog_gate.scan.cloud_judgement import judge_cloud
from datalog_gate.scan.feed import read
from datalog_gate.scan.scan_run import BATCH, Judges
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.scan.stored_facts import UNCERTAIN, fact_table, filled_by_stacks, rooted_columns, rooted_facts
from datalog_gate.schema.declaration import RelationRef, relation_name
from datalog_gate.stack.model import Stack

COUNTED = ("holds", "undetermined")
"""The states of findings that a forecast counts."""
PER_REQUEST = frozenset({"gate:caller", "gate:role", "gate:grant", "gate:grant_scope", "gate:effective#"})
"""Relations that depend on who asked for a stack, and on what its grants open."""
Left = Mapping[str, Collection[str]]
"""Policies by the root of a stack."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a policy would find in the stacks of a project."""

    project: str | None
    policy: str
    findings: int
    stacks: int


def rejudge(store: ScanStore, request: ScanRequest, judges: Judges) -> list[Forecast]:
    """What the rules of a request would find in all stored stacks, by project and policy. The stored facts answer; what
    they don't settle is judged from the stacks. The store stays as it is."""
    projects = {root: project for root, (_, project) in store.stacks().items()}
    findings = [(finding.root, finding.policy) for finding in judge_cloud(store, request) if finding.state in COUNTED]
    stored, left = _judge_stored(store, request, projects.keys())
    findings += stored
    ordered = sorted(left)
    for start in range(0, len(ordered), BATCH):
        batch = judges.judge(store.entries(ordered[start : start + BATCH]), facts=False)()
        for finding in (finding for result in batch.results for finding in result.findings):
            if finding.state in COUNTED and finding.policy in left[finding.root]:
                findings.append((finding.root, finding.policy))
    roots_of: dict[tuple[str, str], list[str]] = defaultdict(list)
    for root, policy in findings:
        roots_of[projects.get(root) or "", policy].append(root)
    return [
        Forecast(project or None, policy, len(roots), len(set(roots)))
        for (project, policy), roots in sorted(roots_of.items())
    ]


def _judge_stored(store: ScanStore, request: ScanRequest, roots: Collection[str]) -> tuple[list[tuple[str, str]], Left]:
    """Judge each stack by its stored facts: the root and policy of each finding, and what that leaves to another
    engine. This is everything, if the rules read what no table holds."""
    rules, database = request.rules, store.database
    policies = _local_policies(rules)
    if not policies:
        return [], {}
    everything: Left = dict.fromkeys(roots, frozenset(policies.values()))
    wanted = frozenset(policies)
    part = resting(rules.program, wanted)
    lifted = lift(part, stack_inputs(part, rules.catalogue))
    inventory = request.inventory or read_inventory(rules, {})
    shared = {**_shared(request), **inventory.rows, ROOTS: [(root,) for root in roots]}
    filled = filled_by_stacks(rules.catalogue) - inventory.added.keys() - PER_REQUEST
    if request.waivers or not part.inputs <= filled | shared.keys() or not wanted <= lifted.relations:
        return [], everything
    program = compile_program(lifted, wanted, database.dialect)
    tables = {str(name): fact_table(str(name), rules.catalogue) for name in part.inputs & filled}
    matches = [match for rule in program.program.rules for _, match in reads(rule.body)]
    read = {(str(match.relation), at) for match in matches for at in match.columns}
    outdated = store.outdated(facts_version(rules.catalogue))
    unfit = []
    for root, name, column in store.unfit():
        if name in tables and root not in outdated:
            at = None if column == UNCERTAIN else tables[name].names.index(column)
            if at is None or (name, at) in read:
                unfit.append(Unfit(root, name, at))
    rooted = {
        name: {at: letter for at, letter in rooted_columns(name, rules.catalogue).items() if (name, at) in read}
        for name in tables
    }
    with (
        store.with_stack_names(rooted) as stored,
        temporary_facts(lifted, shared, database, lifted.program.inputs - stored) as unfit_shared,
    ):
        answer = evaluate_sql(program, database, [*unfit, *unfit_shared])
    left: dict[str, set[str]] = defaultdict(set)
    for apart, relation in answer.unsettled:
        if apart is None:
            return [], everything
        left[apart].add(policies[relation])
    findings = [
        (str(row[0]), policies[relation])
        for relation, rows in answer.rows.items()
        for row in rows
        if str(row[0]) not in outdated
    ]
    return findings, left | {root: everything[root] for root in outdated}


def _local_policies(rules: PolicySet) -> dict[RelationRef, str]:
    """The policies that judge each stack by itself when it is created, by relation."""
    policies = (policy for policy in rules.policies if policy.id not in rules.cloud_wide and "create" in policy.on)
    return {policy.relation: policy.id for policy in policies}


def _shared(request: ScanRequest) -> dict[RelationRef, Collection[Row]]:
    """The facts of a request that are the same for all stacks."""
    services = [(service,) for service in sorted(request.services)]
    return {"gate:now": [(request.now.isoformat(),)], "gate:service": services, "gate:request": [("create",)]}


class Difference(NamedTuple):
    """A row that only one of two engines derives of a stack."""

    root: str
    policy: str
    row: Row
    stored: bool
    """Whether it is derived from the stored facts, and not from the stack itself."""


def verify(store: ScanStore, request: ScanRequest, count: int, random: Random) -> list[Difference]:
    """Compare the rows that policies have in random stacks, by two engines: `native` over each stack as it is read
    again, and DuckDB over their stored facts, all at once. What rests on an unknown value, on who asked, or on an
    expression that may fail is left out."""
    roots = sorted(store.stacks())
    roots = sorted(random.sample(roots, min(count, len(roots))))
    rules = request.rules
    policies = [policy for policy in rules.policies if policy.id not in rules.cloud_wide and "create" in policy.on]
    policies = [policy for policy in policies if PER_REQUEST.isdisjoint(rules.reads[policy.relation])]
    wanted = frozenset[RelationRef](policy.relation for policy in policies)
    part = resting(rules.program, wanted)
    inputs = stack_inputs(part, rules.catalogue)
    lifted = lift(part, inputs)
    policies = [policy for policy in policies if policy.relation in lifted.relations]
    wanted &= lifted.relations
    names = {name for name in inputs if isinstance(name, str)}
    shared = _shared(request)
    shared |= request.inventory.rows if request.inventory else {}
    unsettled = {(root, relation) for root, relation, _ in store.unfit()}
    single: dict[str, Mapping[RelationRef, set[Row]]] = {}
    for entry in store.entries(roots):
        try:
            facts = _read_facts(entry.root, read(entry, rules.catalogue), request, names)
        except InputError:
            continue
        model = evaluate(part, {**facts, **shared})
        failing = {relation_name(error.relation) for error in model.errors}
        unsettled |= {(entry.root, relation) for relation in failing}
        single[entry.root] = {policy.relation: set(model.rows(policy.relation)) for policy in policies}
    stored: dict[str, dict[RelationRef, list[Row]]] = {root: {} for root in single}
    for name in sorted(names):
        for root, _, row in store.facts(name, single):
            stored[root].setdefault(name, []).append(row)
    with open_database() as database:
        unfit = load_facts(lifted, {**lifted.facts(stored), **shared}, database)
        answer = evaluate_sql(compile_program(lifted, wanted, database.dialect), database, unfit)
    for apart, relation in answer.unsettled:
        unsettled |= {(name, relation_name(relation)) for name in (single if apart is None else (apart,))}
    together: dict[tuple[str, RelationRef], set[Row]] = defaultdict(set)
    for relation, every in answer.rows.items():
        for rooted in every:
            together[str(rooted[0]), relation].add(rooted[1:])
    differences = []
    for root, rows in single.items():
        for policy in policies:
            reads = {relation_name(relation) for relation in rules.reads[policy.relation]}
            if any((root, relation) in unsettled for relation in reads):
                continue
            mine, other = rows[policy.relation], together[root, policy.relation]
            differences += [Difference(root, policy.id, row, row in other) for row in in_order(mine ^ other)]
    return differences


def _read_facts(root: str, stack: Stack, request: ScanRequest, names: Collection[str]) -> dict[RelationRef, list[Row]]:
    """The certain facts of a stack that hold no unknown."""
    facts: dict[RelationRef, list[Row]] = {}
    for relation, row, uncertain in rooted_facts(root, stack, request.rules.catalogue, names):
        if not uncertain and Unknown not in map(type, row):
            facts.setdefault(relation, []).append(row)
    return facts
