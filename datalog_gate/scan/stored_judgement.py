"""Judges a store by other rules, or by another engine."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import NamedTuple

from datalog_gate.analysis.doubts import lacking, with_doubts
from datalog_gate.analysis.lifting import ROOTS, lift, stack_inputs
from datalog_gate.analysis.slices import slice_for
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass
from datalog_gate.base.values import Row, Unknown, in_order
from datalog_gate.decision.request import read_caller
from datalog_gate.engine.native import evaluate
from datalog_gate.engine.sql.compiler import compile_program
from datalog_gate.engine.sql.database import open_database
from datalog_gate.engine.sql.evaluation import SqlAnswer, Unfit, load_facts, temporary_facts
from datalog_gate.engine.sql.evaluation import evaluate as evaluate_sql
from datalog_gate.scan.batch import ScanRequest
from datalog_gate.scan.cloud_judgement import judge_cloud
from datalog_gate.scan.code_version import facts_version
from datalog_gate.scan.doubtful_stacks import DoubtfulStack, StoredRow, counted, judge_doubts
from datalog_gate.scan.feed import read
from datalog_gate.scan.scan_run import BATCH, Judges
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.scan.stored_facts import UNCERTAIN, rooted_facts
from datalog_gate.scan.stored_program import PER_REQUEST, StoredProgram, local_policies, shared_facts
from datalog_gate.schema.declaration import MAYBE, RelationRef, relation_name
from datalog_gate.schema.relations import EFFECTIVE
from datalog_gate.stack.model import Stack

STORED_BATCH = 50_000
"""The number of stacks whose stored facts are judged at once, limited by memory."""
AHEAD = 4
"""The number of batches that processes judge while the next facts are read."""
StackCounts = Mapping[tuple[str, str], int]
"""The number of findings by the root of a stack and policy."""
Left = Mapping[str, Collection[str]]
"""Policies by the root of a stack."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The findings that a policy would have in the stacks of a project."""

    project: str | None
    policy: str
    findings: int
    stacks: int


def rejudge(store: ScanStore, request: ScanRequest, judges: Judges, ask_facts: bool = True) -> StackCounts:
    """The findings of a request's rules in all stored stacks. Stored facts are used if possible and permitted;
    otherwise stacks are judged by their definitions. The store is not changed."""
    counts = Counter(row[:2] for row in counted(judge_cloud(store, request)))
    judgement = _StoredJudgement(store, request) if ask_facts else None
    everything = frozenset(local_policies(request.rules).values())
    ordered = sorted(store.stacks())
    waiting: deque[Callable[[], list[list[StoredRow]]]] = deque()
    for start in range(0, len(ordered), STORED_BATCH):
        roots = ordered[start : start + STORED_BATCH]
        findings, left = judgement.judge(roots) if judgement else ([], dict.fromkeys(roots, everything))
        for root, policy, number in findings:
            counts[root, policy] += number
        open_ = sorted(root for root, policies in left.items() if policies)
        for at in range(0, len(open_), BATCH):
            entries = store.entries(open_[at : at + BATCH])
            doubts = [DoubtfulStack(entry, frozenset(left[entry.root])) for entry in entries]
            waiting.append(judges.start(judge_doubts, doubts))
            if len(waiting) > AHEAD:
                counts.update(row[:2] for rows in waiting.popleft()() for row in rows)
    for judged in waiting:
        counts.update(row[:2] for rows in judged() for row in rows)
    return counts


def sum_by_project(counts: StackCounts, stacks: Mapping[str, tuple[str, str | None]]) -> list[Forecast]:
    """The findings by project and policy, given the name and project of each stack."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for (root, policy), number in counts.items():
        _, project = stacks.get(root, ("", None))
        groups[project or "", policy].append(number)
    return [
        Forecast(project or None, policy, sum(numbers), len(numbers))
        for (project, policy), numbers in sorted(groups.items())
    ]


class _StoredJudgement:
    """Judges stacks by their stored facts."""

    def __init__(self, store: ScanStore, request: ScanRequest) -> None:
        self._store, self._request = store, request
        self._everything = frozenset(local_policies(request.rules).values())
        self._asked = asked = StoredProgram.of(request)
        self._outdated = store.outdated(facts_version(request.rules.catalogue))
        self._lacking: dict[tuple[str, int], set[str]] = defaultdict(set)
        """The roots in which rows of a relation lack values of a column."""
        columns: dict[str, set[int]] = {}
        for root, name, column in store.unfit([*asked.tables, *(name + MAYBE for name in asked.tables)]):
            plain = name.removesuffix(MAYBE)
            if root in self._outdated:
                continue
            if column == UNCERTAIN:
                columns.setdefault(name + MAYBE, set())
            elif (plain, at := asked.tables[plain].names.index(column)) in asked.read:
                columns.setdefault(name, set()).add(at)
                self._lacking[name, at].add(root)
        self._doubts = with_doubts(asked.lifted, columns)
        self._tables = {*asked.tables, *columns}
        doubts = {doubt for name, doubt in self._doubts.relations.items() if name in asked.policies}
        self._program = compile_program(
            self._doubts.lifted, frozenset({*asked.policies, *doubts}), store.database.dialect
        )

    def judge(self, roots: Sequence[str]) -> tuple[list[tuple[str, str, int]], Left]:
        """The root, policy and number of findings of stacks, and the policies left to another engine."""
        policies = self._asked.policies
        left: dict[str, set[str]] = defaultdict(set)
        left |= {root: {*self._everything} for root in roots if root in self._outdated}
        current = [root for root in roots if root not in self._outdated]
        if current and (apart := self._everything.difference(policies.values())):
            left |= {root: {*apart} for root in current}
        answer = self._evaluate(current)
        doubted = {doubt: name for name, doubt in self._doubts.relations.items() if name in policies}
        unsettled = {(root, doubted.get(relation, relation)) for root, relation in answer.unsettled}
        unsettled = {pair for pair in unsettled if pair[1] in policies}
        unsettled |= {(root, name) for doubt, name in doubted.items() for root, _ in answer.counts.get(doubt, ())}
        for root, relation in unsettled:
            for name in (root,) if root is not None else current:
                left[name].add(policies[relation])
        findings = [
            (name, policy, number)
            for relation, policy in policies.items()
            for root, number in answer.counts.get(relation, ())
            if (root, relation) not in unsettled
            for name in ((root,) if root is not None else current)
        ]
        return findings, left

    def _evaluate(self, roots: Sequence[str]) -> SqlAnswer:
        store, database = self._store, self._store.database
        lifted, rooted = self._doubts.lifted, self._asked.rooted
        facts = {**self._asked.shared, **self._facts_of_requests(roots), ROOTS: [(root,) for root in roots]}
        for (name, at), lack in self._lacking.items():
            facts[lacking(name, at)] = [(root,) for root in roots if root in lack]
        unfit: list[Unfit] = []
        if EFFECTIVE.name in lifted.program.inputs and self._request.services:
            unfit = [Unfit(root, EFFECTIVE.name, None) for root, _, _ in store.facts("gate:grant", roots)]
        columns = {name: rooted[name.removesuffix(MAYBE)] for name in self._tables}
        with (
            store.with_stack_names(columns, roots) as stored,
            temporary_facts(lifted, facts, database, lifted.program.inputs - stored) as unfit_shared,
        ):
            return evaluate_sql(self._program, database, [*unfit, *unfit_shared], counted=True)

    def _facts_of_requests(self, roots: Sequence[str]) -> dict[RelationRef, Collection[Row]]:
        """The users who requested each stack, without grants: stacks with grants are judged by their definitions."""
        callers: list[Row] = []
        roles: list[Row] = []
        if not self._asked.lifted.program.inputs.isdisjoint(("gate:caller", "gate:role")):
            for root, caller in self._store.callers(roots):
                if asker := read_caller(caller):
                    callers.append((root, asker.user, asker.project, asker.domain))
                    roles += ((root, role) for role in asker.roles)
        return {"gate:caller": callers, "gate:role": roles, EFFECTIVE.name: ()}


class RowDifference(NamedTuple):
    """A row that only one of two engines derives for a stack."""

    root: str
    policy: str
    row: Row
    stored: bool
    """Whether it is derived from the stored facts, not from the stack."""


def verify(store: ScanStore, request: ScanRequest, count: int, random: Random) -> list[RowDifference]:
    """Compare the rows of policies in random stacks by two engines: `native` on each stack, and DuckDB on their stored
    facts. Rows that depend on unknowns, on the caller, or on expressions that may fail are left out."""
    roots = sorted(store.stacks())
    roots = sorted(random.sample(roots, min(count, len(roots))))
    rules = request.rules
    policies = {
        relation: policy
        for relation, policy in local_policies(rules).items()
        if PER_REQUEST.isdisjoint(rules.reads[relation])
    }
    part = slice_for(rules.program, frozenset(policies))
    inputs = stack_inputs(part, rules.catalogue)
    lifted = lift(part, inputs)
    wanted = policies.keys() & lifted.relations
    names = {name for name in inputs if isinstance(name, str)}
    shared = shared_facts(request)
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
        single[entry.root] = {relation: set(model.rows(relation)) for relation in wanted}
    stored: dict[str, dict[RelationRef, list[Row]]] = {root: {} for root in single}
    for name in sorted(names):
        for root, _, row in store.facts(name, single):
            stored[root].setdefault(name, []).append(row)
    with open_database() as database:
        unfit = load_facts(lifted, {**lifted.facts(stored), **shared}, database)
        answer = evaluate_sql(compile_program(lifted, frozenset(wanted), database.dialect), database, unfit)
    for apart, relation in answer.unsettled:
        unsettled |= {(name, relation_name(relation)) for name in (single if apart is None else (apart,))}
    together: dict[tuple[str, RelationRef], set[Row]] = defaultdict(set)
    for relation, every in answer.rows.items():
        for rooted in every:
            together[str(rooted[0]), relation].add(rooted[1:])
    differences = []
    for root, rows in single.items():
        for relation, policy in policies.items():
            reads = {relation_name(name) for name in rules.reads[relation]}
            if relation not in wanted or any((root, name) in unsettled for name in reads):
                continue
            mine, other = rows[relation], together[root, relation]
            differences += [RowDifference(root, policy, row, row in other) for row in in_order(mine ^ other)]
    return differences


def _read_facts(root: str, stack: Stack, request: ScanRequest, names: Collection[str]) -> dict[RelationRef, list[Row]]:
    """The certain facts of a stack without unknowns."""
    facts: dict[RelationRef, list[Row]] = {}
    for relation, row, uncertain in rooted_facts(root, stack, request.rules.catalogue, names):
        if not uncertain and Unknown not in map(type, row):
            facts.setdefault(relation, []).append(row)
    return facts
