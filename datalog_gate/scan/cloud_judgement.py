"""The judgement of policies over the whole cloud, from stored facts.

Values that tables can't hold are read from the stacks.
"""

from __future__ import annotations

from datalog_gate.base.errors import InputError
from datalog_gate.decision.decision import PolicyError
from datalog_gate.decision.whole_cloud import CloudProgram, CloudRows, find_cloud_program
from datalog_gate.scan.batch import Finding, ScanRequest, distinguish, error_finding, finding_of
from datalog_gate.scan.feed import read
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.scan.stored_facts import UNCERTAIN, fact_table, rooted_facts


def judge_cloud(store: ScanStore, request: ScanRequest) -> list[Finding]:
    """The findings of policies over the whole cloud in the stored facts."""
    program = find_cloud_program(request.rules)
    if program.policies:
        program = program.restrict(store.filled(), request.known_inventory)
    if not program.policies:
        return []
    rows, stacks = _read_rows(program, store), store.stacks()
    findings = (
        error_finding(result, "", request.rules)
        if isinstance(result, PolicyError)
        else finding_of(result.violation, result.state, result.root, request.rules)
        for result in rows.judge(stacks, request.decision_request)
    )
    return list(distinguish(findings))


def _read_rows(program: CloudProgram, store: ScanStore) -> CloudRows:
    """The rows of all stacks. A value that tables can't hold is read from the stack if a rule reads its column."""
    rows, catalogue = CloudRows(program), program.rules.catalogue
    columns: dict[str, set[str]] = {name: {UNCERTAIN} for name in program.columns}
    for name, read_columns in program.columns.items():
        table = fact_table(name, catalogue).names[1:]
        columns[name].update(table[at] for at in read_columns if at < len(table))
    apart = {(root, name) for root, name, column in store.unfit(columns.keys()) if column in columns[name]}
    for name in sorted(columns):
        for root, project, row in store.facts(name):
            if (root, name) not in apart:
                rows.add(name, root, project, row)
    for entry in store.entries({root for root, _ in apart}):
        try:
            stack = read(entry, catalogue)
        except InputError:  # its files have been removed since
            continue
        for name, row, uncertain in rooted_facts(entry.root, stack, catalogue, columns.keys()):
            if (entry.root, name) in apart:
                rows.add(name, entry.root, entry.project, row, uncertain)
    return rows
