"""The program that judges stored facts."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from datalog_gate.analysis.lifting import Lifted, lift_for
from datalog_gate.base.records import dataclass
from datalog_gate.base.values import Row
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.engine.sql.tables import RelationTable
from datalog_gate.scan.batch import ScanRequest
from datalog_gate.scan.stored_facts import fact_table, rooted_columns
from datalog_gate.schema.declaration import RelationRef
from datalog_gate.schema.relations import EFFECTIVE

PER_REQUEST = frozenset({"gate:caller", "gate:role", "gate:grant", "gate:grant_scope", EFFECTIVE.name})
"""Relations that depend on the caller of a stack and on its grants."""


@dataclass(frozen=True, slots=True)
class StoredProgram:
    """The program of the policies that judge each stack by itself, for stored facts."""

    policies: Mapping[RelationRef, str]
    """The policies that facts can answer."""
    lifted: Lifted
    shared: Mapping[RelationRef, Collection[Row]]
    """The facts that are the same for all stacks, except the roots."""
    tables: Mapping[str, RelationTable]
    """The tables of the relations that stacks fill."""
    read: frozenset[tuple[RelationRef, int]]
    """The columns that a rule reads."""
    rooted: Mapping[str, Mapping[int, str]]
    """The columns among these with the root instead of the stack's name, as in `rooted_columns`."""
    reads_grants: bool
    """Whether a stack with grants is judged by its definition: which are in effect depends on more than facts."""

    @staticmethod
    def of(request: ScanRequest) -> StoredProgram:
        rules, inventory = request.rules, request.known_inventory
        shared = {**shared_facts(request), **inventory.rows}
        filled = rules.catalogue.filled_by_stacks() - inventory.added.keys()
        known = filled | shared.keys() | PER_REQUEST
        policies = {
            name: policy
            for name, policy in local_policies(rules).items()
            if rules.reads[name] & rules.program.inputs <= known and not request.waivers
        }
        lifted = lift_for(rules.program, frozenset(policies), rules.catalogue, PER_REQUEST)
        tables = {str(name): fact_table(str(name), rules.catalogue) for name in lifted.program.inputs & filled}
        read = lifted.columns
        rooted = {
            name: {at: letter for at, letter in rooted_columns(name, rules.catalogue).items() if (name, at) in read}
            for name in tables
        }
        return StoredProgram(
            policies=policies,
            lifted=lifted,
            shared=shared,
            tables=tables,
            read=read,
            rooted=rooted,
            reads_grants=EFFECTIVE.name in lifted.program.inputs and bool(request.services),
        )


def local_policies(rules: PolicySet) -> dict[RelationRef, str]:
    """The policies that judge each stack by itself when it is created, by relation."""
    policies = (policy for policy in rules.policies if policy.id not in rules.cloud_wide and "create" in policy.on)
    return {policy.relation: policy.id for policy in policies}


def shared_facts(request: ScanRequest) -> dict[RelationRef, Collection[Row]]:
    """The facts of a request that are the same for all stacks."""
    services = [(service,) for service in sorted(request.services)]
    return {"gate:now": [(request.now.isoformat(),)], "gate:service": services, "gate:request": [("create",)]}
