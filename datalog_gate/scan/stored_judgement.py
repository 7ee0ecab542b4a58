"""Judges a store by other rules, or by another engine."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from datalog_gate.analysis.lifting import ROOTS
from datalog_gate.base.records import dataclass
from datalog_gate.base.values import Row
from datalog_gate.decision.request import read_caller
from datalog_gate.engine.sql.doubts import with_doubts
from datalog_gate.engine.sql.evaluation import SqlAnswer, Unfit, evaluate_lifted
from datalog_gate.scan.alike_stacks import group_alike
from datalog_gate.scan.batch import ScanRequest, encode_row
from datalog_gate.scan.cloud_judgement import judge_cloud
from datalog_gate.scan.code_version import facts_version
from datalog_gate.scan.doubtful_stacks import DoubtfulStack, StoredRow, counted, judge_doubts
from datalog_gate.scan.feed import StackEntry, is_as_stored
from datalog_gate.scan.scan_run import BATCH, Judges
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.scan.stored_facts import UNCERTAIN
from datalog_gate.scan.stored_program import StoredProgram, local_policies
from datalog_gate.schema.declaration import MAYBE, RelationRef
from datalog_gate.schema.relations import EFFECTIVE

STORED_BATCH = 25_000
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
    alike: dict[str, Sequence[str]] = {}

    def count(parts: Iterable[Iterable[StoredRow]]) -> None:
        counts.update((root, row.policy) for rows in parts for row in rows for root in alike[row.root])

    for start in range(0, len(ordered), STORED_BATCH):
        roots = ordered[start : start + STORED_BATCH]
        findings, left = judgement.judge(roots) if judgement else ([], dict.fromkeys(roots, everything))
        for root, policy, number in findings:
            counts[root, policy] += number
        left = {root: policies for root, policies in left.items() if policies}
        groups = judgement.group(left) if judgement else ([root] for root in left)
        for entries in _represent(store, groups, alike):
            doubts = [DoubtfulStack(entry, frozenset(left[entry.root])) for entry in entries]
            waiting.append(judges.start(judge_doubts, doubts))
            if len(waiting) > AHEAD:
                count(waiting.popleft()())
    for judged in waiting:
        count(judged())
    return counts


def _represent(
    store: ScanStore, groups: Iterable[Sequence[str]], alike: dict[str, Sequence[str]]
) -> Iterator[list[StackEntry]]:
    """Yield a stack of each group, in batches. `alike` gets the roots for which it is judged: its own alone if its
    files have changed since its facts were stored."""
    waiting = deque(groups)
    while waiting:
        batch = {group[0]: group for group in (waiting.popleft() for _ in range(min(BATCH, len(waiting))))}
        entries = store.entries(batch)
        for entry in entries:
            group = batch[entry.root]
            if group[1:] and not is_as_stored(entry):
                waiting.append(group[1:])
                group = group[:1]
            alike[entry.root] = group
        yield entries


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
        self._store = store
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
        doubts = {doubt for doubt, rows in self._doubts.relations.items() if rows.relation in asked.policies}
        self._wanted = frozenset({*asked.policies, *doubts})

    def judge(self, roots: Sequence[str]) -> tuple[list[tuple[str, str, int]], Left]:
        """The root, policy and number of findings of stacks, and the policies left to another engine."""
        settled = self._settle(roots, counted=True)
        findings = [
            (name, policy, number)
            for relation, policy in self._asked.policies.items()
            for root, number in settled.answer.counts.get(relation, ())
            for name in settled.roots(root, relation)
        ]
        return findings, settled.left

    def find_rows(self, roots: Sequence[str]) -> tuple[set[StoredRow], Left]:
        """The rows of policies in stacks, and the policies left to another engine."""
        settled = self._settle(roots, counted=False)
        lifted = self._asked.lifted
        rows = {
            StoredRow(name, policy, encode_row(own))
            for relation, policy in self._asked.policies.items()
            for root, own in (lifted.split_root(relation, row) for row in settled.answer.rows.get(relation, ()))
            for name in settled.roots(root, relation)
        }
        return rows, settled.left

    def group(self, left: Left) -> Iterator[Sequence[str]]:
        """Yield the roots of stacks that are judged alike by the policies left to another engine."""
        outdated = self._outdated & left.keys()
        yield from ([root] for root in sorted(outdated))
        yield from group_alike(self._store, self._asked, {root: left[root] for root in left.keys() - outdated})

    def _settle(self, roots: Sequence[str], counted: bool) -> _Settled:
        """What the stored facts say of stacks: their rows, or only the numbers of these."""
        policies = self._asked.policies
        left: dict[str, set[str]] = defaultdict(set)
        left |= {root: {*self._everything} for root in roots if root in self._outdated}
        current = [root for root in roots if root not in self._outdated]
        if current and (apart := self._everything.difference(policies.values())):
            left |= {root: {*apart} for root in current}
        answer = self._evaluate(current, counted)
        doubted = {doubt: of for doubt, (of, _) in self._doubts.relations.items() if of in policies}
        unsettled = {(root, doubted.get(relation, relation)) for root, relation in answer.unsettled}
        unsettled = {pair for pair in unsettled if pair[1] in policies}
        doubts = answer.counts if counted else answer.rows
        unsettled |= {(str(row[0]), name) for doubt, name in doubted.items() for row in doubts.get(doubt, ())}
        for root, relation in unsettled:
            for name in (root,) if root is not None else current:
                left[name].add(policies[relation])
        return _Settled(answer, frozenset(unsettled), current, left)

    def _evaluate(self, roots: Sequence[str], counted: bool) -> SqlAnswer:
        store, database = self._store, self._store.database
        lifted, rooted = self._doubts.lifted, self._asked.rooted
        facts = {**self._asked.shared, **self._facts_of_requests(roots), ROOTS: [(root,) for root in roots]}
        for (name, at), lack in self._lacking.items():
            facts[self._doubts.lacking(name, at)] = [(root,) for root in roots if root in lack]
        unfit: list[Unfit] = []
        if self._asked.reads_grants:
            unfit = [Unfit(root, EFFECTIVE.name, None) for root, _, _ in store.facts("gate:grant", roots)]
        columns = {name: rooted[name.removesuffix(MAYBE)] for name in self._tables}
        with store.with_stack_names(columns, roots) as stored:
            given = {name: facts.get(name, ()) for name in lifted.program.inputs - stored}
            return evaluate_lifted(lifted, self._wanted, database, given, unfit, counted)

    def _facts_of_requests(self, roots: Sequence[str]) -> Mapping[RelationRef, Collection[Row]]:
        """The users who requested each stack, without grants: stacks with grants are judged by their definitions."""
        facts: dict[RelationRef, list[Row]] = {name: [] for name in ("gate:caller", "gate:role", EFFECTIVE.name)}
        if not self._asked.lifted.program.inputs.isdisjoint(("gate:caller", "gate:role")):
            for root, caller in self._store.callers(roots):
                for name, rows in (asker.facts if (asker := read_caller(caller)) else {}).items():
                    facts[name] += ((root, *row) for row in rows)
        return facts


class _Settled(NamedTuple):
    """What stored facts say of stacks."""

    answer: SqlAnswer
    unsettled: frozenset[tuple[str | None, RelationRef]]
    current: Sequence[str]
    left: Left

    def roots(self, root: str | None, relation: RelationRef) -> Sequence[str]:
        """The stacks in which a row of the answer is settled; without a root it is one of all."""
        if (root, relation) in self.unsettled:
            return ()
        return self.current if root is None else (root,)


class RowDifference(NamedTuple):
    """A row that only one of two engines derives for a stack."""

    root: str
    policy: str
    row: str
    """As JSON."""
    stored: bool
    """Whether it is derived from the stored facts, not from the stack."""


def verify(store: ScanStore, request: ScanRequest, count: int, random: Random) -> list[RowDifference]:
    """Compare what `rejudge` reads in the stored facts of random stacks with what the stacks say themselves. Stacks
    whose files have changed are left out, and policies that it judges by the stacks."""
    every = sorted(store.stacks())
    entries = store.entries(random.sample(every, min(count, len(every))))
    entries = [entry for entry in entries if is_as_stored(entry)]
    rows, left = _StoredJudgement(store, request).find_rows([entry.root for entry in entries])
    everything = frozenset(local_policies(request.rules).values())
    settled = [DoubtfulStack(entry, everything.difference(left.get(entry.root, ()))) for entry in entries]
    single = set(judge_doubts(settled, request))
    return [RowDifference(*row, row in rows) for row in sorted(rows ^ single)]
