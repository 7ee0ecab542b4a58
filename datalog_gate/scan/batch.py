"""The judgement of stacks, as findings to store.

`decide` judges every stack by itself, so a scan has the same results as `check`, including messages, waivers and
decision ids. Messages are stored with the finding: they cost nothing when the decision is made, but 5 ms per stack
later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from typing import Literal

from datalog_gate.base.errors import EngineError, InputError
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import Row, Unknown, Value, to_json
from datalog_gate.decision.cloud_state import AGES, Inventory
from datalog_gate.decision.decision import PolicyError, Violation, Waiver
from datalog_gate.decision.judgement import Judgement
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.decision.request import DecisionRequest
from datalog_gate.files.inputs import judge_given, read_inventory
from datalog_gate.scan.code_version import facts_version, judging_version
from datalog_gate.scan.feed import StackEntry, read
from datalog_gate.scan.stored_facts import FactRows, RootedRows
from datalog_gate.stack.model import Stack

State = Literal["holds", "undetermined", "waived", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a stack, as stored."""

    root: str
    """The id of the root stack; empty for a finding about the whole cloud."""
    policy: str
    key: str
    """The key columns of the row, as JSON. Findings of two scans are the same if policy, root and key are."""
    row: str
    """The row as JSON, with secrets masked."""
    level: str
    state: State
    denies: bool
    """Whether it makes a door refuse the stack, or fail to decide."""
    message: str
    hint: str
    resource: str
    place: str
    """The place in the template as JSON; empty without one."""


@dataclass(frozen=True, slots=True)
class StackResult:
    """The result of a scan for one stack."""

    entry: StackEntry
    findings: tuple[Finding, ...] = ()
    decision: str = ""
    """The id of the decision, as in `check`."""
    outcome: str = ""
    unread: str = ""
    """Why it could not be judged; then its findings are not known."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a scan for many stacks, and the facts of those that could be judged."""

    results: list[StackResult]
    facts: FactRows


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """The inputs of a scan besides the stacks."""

    rules: PolicySet
    now: datetime
    inventory: Inventory | None = None
    waivers: tuple[Waiver, ...] = ()
    services: frozenset[str] = frozenset()

    @property
    def known_inventory(self) -> Inventory:
        """The inventory; one without rows if there is none."""
        return self.inventory or read_inventory(self.rules, {})

    @property
    def decision_request(self) -> DecisionRequest:
        """The request for a decision over the whole cloud."""
        return DecisionRequest(
            action="create",
            now=self.now,
            services=self.services,
            inventory=self.inventory,
            waivers=self.waivers,
        )

    @property
    def identity(self) -> str:
        """The digest of all inputs of judgements, after that of all inputs of facts. A stack is judged again if it or
        this changes. The time counts if a rule reads it, a waiver or a grant ends, or a policy starts to be enforced.
        Inputs of policies over the whole cloud do not count, since these are judged each time."""
        policies, read = self.rules.policies, self.rules.inputs_alone
        timed = not read.isdisjoint(("gate:now", AGES))
        tables = self.inventory.summary.digests if self.inventory else {}
        tables = {name: digest for name, digest in tables.items() if name in read}
        parts = [
            judging_version(),
            self.rules.digest,
            self.now.isoformat() if timed else self.now.date().isoformat() if self.services else "",
            *(policy.id for policy in policies if policy.only_warns_at(self.now)),
            *(json.dumps([waiver.to_json(), self.now >= waiver.until], sort_keys=True) for waiver in self.waivers),
            *sorted(self.services),
            *sorted(f"{digest} {name}" for name, digest in tables.items()),
        ]
        return f"{facts_version(self.rules.catalogue)} {_digest(parts)}"


def _digest(parts: Iterable[str]) -> str:
    return sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def judge_batch(entries: Iterable[StackEntry], request: ScanRequest) -> BatchResult:
    """Judge each stack by itself. If one can't be read or judged, its result says why."""
    rooted = RootedRows()
    results = [judge_entry(entry, request, rooted) for entry in entries]
    return BatchResult(results, rooted.encode(request.rules.catalogue))


def join(batches: Iterable[BatchResult]) -> BatchResult:
    """Join the results of parts of a batch."""
    joined = BatchResult([], FactRows())
    for batch in batches:
        joined.results.extend(batch.results)
        joined.facts.extend(batch.facts)
    return joined


def judge_entry(entry: StackEntry, request: ScanRequest, facts: RootedRows | None = None) -> StackResult:
    """Judge a stack as `check` does, for its owner or else for a member of its project. Its facts are added to `facts`,
    if given."""
    try:
        stack = read(entry, request.rules.catalogue)
        judgement = judge_stack(stack, entry, request)
    except InputError as error:
        return StackResult(entry, unread=storable(error.diagnostics[0].message))
    except EngineError as error:
        return StackResult(entry, unread=storable(str(error)))
    decision = judgement.decision
    findings = tuple(distinguish(_findings_of(judgement, entry.root, request.rules)))
    if facts is not None:
        judged = None if request.inventory and request.inventory.added else judgement.reader.evaluation.facts
        facts.add(entry.root, stack, request.rules.catalogue, judged, request.rules.program.inputs)
    return StackResult(entry, findings, decision.id, decision.outcome)


def judge_stack(stack: Stack, entry: StackEntry, request: ScanRequest) -> Judgement:
    """The judgement of an entry's stack, as in `check`. Errors: EngineError."""
    return judge_given(
        request.rules,
        (stack,),
        {
            "caller": entry.asker,
            "services": request.services,
            "inventory": request.inventory,
            "waivers": request.waivers,
            "now": request.now,
        },
    )


def _findings_of(judgement: Judgement, root: str, rules: PolicySet) -> Iterator[Finding]:
    """The findings of a decision on one stack."""
    decision = judgement.decision
    yield from (finding_of(violation, "holds", root, rules) for violation in decision.violations)
    yield from (finding_of(violation, "waived", root, rules) for violation in decision.waived)
    yield from (finding_of(violation, "undetermined", root, rules) for violation in decision.undetermined)
    yield from (error_finding(error, root, rules) for error in decision.errors)


def finding_of(violation: Violation, state: State, root: str, rules: PolicySet) -> Finding:
    """The finding of a violation in the stack of a root."""
    return Finding(
        root=root,
        policy=violation.policy,
        key=encode_row(rules.key_of(violation.policy, violation.row)),
        row=encode_row(violation.row),
        level=violation.level,
        state=state,
        denies=violation.enforced
        and (state == "holds" or (state == "undetermined" and violation.on_unknown == "deny")),
        message=storable(violation.full_message),
        hint=storable(str(violation.waiver) if violation.waiver else violation.hint),
        resource=storable(violation.resource.path) if violation.resource else "",
        place=json.dumps(violation.place.to_json()) if violation.place else "",
    )


def distinguish(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings. If several share a key, the whole row is the key of all but the first."""
    seen: set[tuple[str, str, str]] = set()
    for finding in findings:
        identity = finding.root, finding.policy, finding.key
        yield replace(finding, key=finding.row) if identity in seen else finding
        seen.add(identity)


def error_finding(error: PolicyError, root: str, rules: PolicySet) -> Finding:
    """The finding that a policy could not be evaluated. Its earlier findings stay open."""
    [level] = {policy.level for policy in rules.policies if policy.id == error.policy}
    return Finding(
        root=root,
        policy=error.policy,
        key="",
        row="",
        level=level,
        state="error",
        denies=False,
        message=storable(error.message),
        hint="",
        resource=storable(error.resource.path) if error.resource else "",
        place=json.dumps(error.place.to_json()) if error.place else "",
    )


def encode_row(row: Row) -> str:
    """A row as JSON. Unknowns are expressions without places, which lines added above would change."""
    return json.dumps([_to_json(value) for value in row])


def _to_json(value: Value) -> object:
    if isinstance(value, Unknown) and not value.hidden:
        return {"$unknown": value.expression}
    return to_json(value, tagged=True)


def storable(text: str) -> str:
    """A text that every database accepts: without NUL and unpaired surrogates."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
