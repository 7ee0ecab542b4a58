"""Queries over the stored facts of all stacks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from datalog_gate.base.diagnostics import Span
from datalog_gate.decision.policy_set import RuleFile
from datalog_gate.decision.query import QueryAnswer, QueryInputs, ask
from datalog_gate.facts.lines import FactLine
from datalog_gate.scan.scan_store import ScanStore


def query_store(store: ScanStore, text: str, files: Sequence[RuleFile] = ()) -> QueryAnswer:
    """The answer to a query that reads `all:` relations, directly or through the rules of files. Only relations named
    in the texts are read. Errors: RulesError, EngineError."""
    lines = read_lines(store, [text, *(file.text for file in files)])
    return ask(files, text, QueryInputs(lines=lines, catalogue=store.catalogue, now=datetime.now(UTC)))


def read_lines(store: ScanStore, texts: Sequence[str]) -> list[FactLine]:
    """The facts of all stacks, in the relations named in texts."""
    lines = []
    for relation in store.relations():
        name = f"all:{relation}"
        if any(name in known for known in texts):
            span = Span(f"<{name}>", 1, 1, 1, 1)
            lines += [FactLine(name, (*row, project), span) for _, project, row in store.facts(relation)]
    return lines
