"""Judges the stacks that stored facts leave in doubt, by their definitions.

The processes of a scan and the executors of Spark call the same function.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from datalog_gate.base.records import replace
from datalog_gate.scan.batch import Finding, ScanRequest, judge_entry
from datalog_gate.scan.feed import StackEntry


class DoubtfulStack(NamedTuple):
    """A stack, and the policies that its stored facts do not settle."""

    entry: StackEntry
    policies: frozenset[str]


class StoredRow(NamedTuple):
    """A row of a policy in a stack; the root is empty for the whole cloud."""

    root: str
    policy: str
    row: str
    """As JSON."""


def judge_doubts(stacks: Iterable[DoubtfulStack], request: ScanRequest) -> list[StoredRow]:
    """The rows of policies in stacks, each judged by itself. A stack that can't be read or judged has none."""
    results = [
        judge_entry(entry, replace(request, rules=request.rules.restrict(policies))) for entry, policies in stacks
    ]
    return counted(finding for result in results for finding in result.findings)


def counted(findings: Iterable[Finding]) -> list[StoredRow]:
    """The rows of findings that a forecast counts."""
    return [
        StoredRow(finding.root, finding.policy, finding.row)
        for finding in findings
        if finding.state in ("holds", "undetermined")
    ]
