"""Stacks that policies judge alike.

The facts that the policies read of them differ in names alone, so one stack of each group is judged. What a policy
finds depends on the columns that its rules read; on unknowns, which digests in the store tell apart; and on the name of
the stack, if a rule may read it as a text. Stacks that a case analysis may read again are not alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from datalog_gate.analysis.lifting import Lifted
from datalog_gate.analysis.taint import aggregates
from datalog_gate.base.values import Kind
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.scan.stored_facts import key_columns, rooted_columns
from datalog_gate.scan.stored_program import PER_REQUEST, StoredProgram
from datalog_gate.schema.declaration import RelationRef

FEWEST = 50
"""The smallest number of stacks left by the same policies that are compared: it takes some queries."""
TOGETHER = 5_000
"""The number of stacks whose facts are read at once, limited by memory."""


def group_alike(store: ScanStore, asked: StoredProgram, left: Mapping[str, Collection[str]]) -> Iterator[Sequence[str]]:
    """Yield the roots of `left` in groups: one stack of each suffices to judge all by their policies."""
    by_policies: dict[frozenset[str], list[str]] = {}
    for root, policies in sorted(left.items()):
        by_policies.setdefault(frozenset(policies), []).append(root)
    relations = {policy: relation for relation, policy in asked.policies.items()}
    for policies, roots in by_policies.items():
        if len(roots) < FEWEST or not policies <= relations.keys():
            yield from ([root] for root in roots)
        else:
            yield from _group(store, asked, [relations[policy] for policy in policies], roots)


def _group(
    store: ScanStore, asked: StoredProgram, relations: Iterable[RelationRef], roots: Sequence[str]
) -> Iterator[Sequence[str]]:
    part = asked.lifted.slice_for(frozenset(relations))
    if not part.program.inputs.isdisjoint(PER_REQUEST):
        yield from ([root] for root in roots)
        return
    read: dict[str, set[int]] = {name: set() for name in asked.tables.keys() & part.program.inputs}
    for relation, at in part.columns:
        if at and relation in read:
            read[str(relation)].add(at)
    catalogue = store.catalogue
    rooted = {name: rooted_columns(name, catalogue) for name in read}
    ids: dict[RelationRef, Collection[int]] = {name: rooted[name].keys() & read[name] for name in read}
    columns = {name: sorted({*read[name], *key_columns(name, catalogue)}) for name in read}
    names = store.stacks() if _reads_names(part, asked, ids) else {}
    groups: dict[object, list[str]] = {}
    for at in range(0, len(roots), TOGETHER):
        facts = store.facts_alike(columns, rooted, roots[at : at + TOGETHER])
        for root in roots[at : at + TOGETHER]:
            key = (names.get(root), _digest(facts[root])) if root in facts else root
            groups.setdefault(key, []).append(root)
    yield from groups.values()


def _reads_names(part: Lifted, asked: StoredProgram, ids: Mapping[RelationRef, Collection[int]]) -> bool:
    """Whether the findings may depend on the name of a stack, with which the ids in these columns begin: a rule reads
    one as a text, by an aggregate too, or may compare it with one that facts of no stack hold."""
    relations = part.program.relations
    shared = [relations[name] for name in asked.shared.keys() & part.program.inputs]
    return (
        any(not relations[name].columns[at].kinds & Kind.RESOURCE for name in ids for at in ids[name])
        or any(column.kinds & Kind.RESOURCE for relation in shared for column in relation.columns)
        or aggregates(part.program, ids)
    )


def _digest(facts: Iterable[tuple[object, ...]]) -> bytes:
    return sha256("\n".join(sorted({*map(repr, facts)})).encode("utf-8", "surrogatepass")).digest()
