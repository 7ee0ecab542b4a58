"""A baseline: existing findings, which stop nothing later.

A finding is identified by its template, policy and key columns, so that moved lines and changed messages do not matter.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.analysis.violation_key import computed_cells, key_columns
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import Row, Unknown, Value, show, to_json
from datalog_gate.decision.decision import Change, Decision, Violation, compute_outcome
from datalog_gate.files.templates import read_json

SCHEMA = "datalog-gate/baseline/1"
Templates = tuple[str, ...]
"""The paths of templates that were judged together."""
FindingKeys = Mapping[tuple[str, Row], str]
"""The keys of findings, as JSON text, by policy and row."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The findings in a file: pairs of template and key."""

    file: Path
    findings: frozenset[tuple[str, str]]

    def name(self, templates: Templates) -> str:
        """The name of templates in the file: their paths relative to the file."""
        return ", ".join(_relative(template, self.file.parent) for template in templates)

    def tolerate(self, decision: Decision, templates: Templates, keys: FindingKeys) -> Decision:
        """The decision with findings of the file marked as existing before, and the others as new."""
        name = self.name(templates)

        def compare(violation: Violation) -> Violation:
            known = (name, keys[violation.policy, violation.row]) in self.findings
            if known or violation.change is None:
                change: Change = "preexisting" if known else "introduced"
                return replace(violation, change=change, tolerated=known or violation.tolerated)
            return violation

        violations = tuple(map(compare, decision.violations))
        undetermined = tuple(map(compare, decision.undetermined))
        known = sorted(
            keys[finding.policy, finding.row]
            for finding in (*violations, *undetermined)
            if (name, keys[finding.policy, finding.row]) in self.findings
        )
        text = "\n".join([decision.id, *known])
        identity = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[: len(decision.id)]
        return replace(
            decision,
            id=identity if known else decision.id,
            outcome=compute_outcome(violations, undetermined, decision.errors),
            violations=violations,
            undetermined=undetermined,
            waived=tuple(map(compare, decision.waived)),
            compared=True,
        )

    def count_gone(self, judged: Collection[Templates], findings: Collection[tuple[Templates, str]]) -> int:
        """Count the file's findings in the judged templates that are not among these."""
        names = {self.name(templates) for templates in judged}
        present = {(self.name(templates), key) for templates, key in findings}
        return sum(template in names and (template, key) not in present for template, key in self.findings)


def compute_keys(policies: Sequence[Policy], program: CheckedProgram, decision: Decision) -> FindingKeys:
    """The key of each finding of a decision."""
    findings = (*decision.violations, *decision.undetermined, *decision.waived)
    if not findings:
        return {}
    by_id = {policy.id: policy for policy in policies}
    computed = computed_cells(program)
    keys = {}
    for violation in findings:
        policy = by_id[violation.policy]
        columns = key_columns(policy, computed)
        cells = {
            name: _plain(value) for name, value in zip(policy.columns, violation.row, strict=True) if name in columns
        }
        keys[violation.policy, violation.row] = json.dumps(
            {"policy": violation.policy, "key": cells}, ensure_ascii=False
        )
    return keys


def _plain(value: Value) -> object:
    """A value as data without its place, which may move."""
    return show(value) if isinstance(value, Unknown) else to_json(value)


def read_baseline(path: str | Path) -> Baseline:
    """Read a baseline. Errors: InputError."""
    if not os.path.lexists(path):
        raise InputError.of(
            f"there is no baseline {path}", suggestion=f"write it with `check --output baseline={path}`"
        )
    data = read_json(Path(path))
    findings = data.get("findings") if isinstance(data, dict) and data.get("schema") == SCHEMA else None
    if not isinstance(findings, list) or not all(map(_is_finding, findings)):
        raise InputError.of(f"{path} is not a baseline", suggestion=f"write it with `check --output baseline={path}`")
    keys = (
        (entry["template"], json.dumps({"policy": entry["policy"], "key": entry["key"]}, ensure_ascii=False))
        for entry in findings
    )
    return Baseline(Path(path), frozenset(keys))


def _is_finding(entry: object) -> bool:
    return isinstance(entry, dict) and entry.keys() == {"template", "policy", "key"} and isinstance(entry["key"], dict)


def format_baseline(findings: Iterable[tuple[Templates, str]], file: Path) -> str:
    """Format findings, as pairs of templates and key, as a baseline for that file: one per line, sorted."""
    empty = Baseline(file, frozenset())
    entries = sorted({(empty.name(templates), key) for templates, key in findings})
    lines = [json.dumps({"template": name, **json.loads(key)}, ensure_ascii=False) for name, key in entries]
    body = "\n" + ",\n".join(f"  {line}" for line in lines) + "\n" if lines else ""
    return f'{{"schema": "{SCHEMA}", "findings": [{body}]}}\n'


def _relative(template: str, folder: Path) -> str:
    return os.path.relpath(template, folder).replace(os.sep, "/") if os.path.lexists(template) else template
