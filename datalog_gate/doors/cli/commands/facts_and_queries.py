"""The commands `facts` and `query`."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from datalog_gate.base.diagnostics import closest, render
from datalog_gate.base.errors import UsageError
from datalog_gate.doors.cli.common import OK, UNDECIDED
from datalog_gate.files.templates import read_catalogue


def facts(options: argparse.Namespace) -> int:
    """Print the facts of each template."""
    from datalog_gate.doors.cli.template_args import find_roots, read_root
    from datalog_gate.facts.flatten import flatten
    from datalog_gate.facts.lines import write, write_text

    catalogue = read_catalogue(*options.catalogue)
    for name in options.relation:
        if catalogue.relation(name) is None:
            similar = closest(name, catalogue.names())
            raise UsageError(f"there is no relation {name}" + (f": did you mean {similar}?" if similar else ""))
    format_facts = write if options.format == "jsonl" else write_text
    for root in find_roots(options):
        factset = flatten(read_root(root, options, catalogue), catalogue, options.relation or None)
        for line in format_facts(factset, catalogue):
            print(line)
    return OK


def query(options: argparse.Namespace) -> int:
    """Print the rows of a query."""
    from datalog_gate.base.values import show, to_json
    from datalog_gate.decision.policy_set import texts
    from datalog_gate.decision.query import ask
    from datalog_gate.engine import engine
    from datalog_gate.files.inputs import fact_lines
    from datalog_gate.files.rules import read_rules

    catalogue = read_catalogue(*options.catalogue)
    files = read_rules([Path(path) for path in options.rules], options.congress)
    lines = [line for path in options.facts for line in fact_lines(path)]
    lenient, now = options.undefined == "empty", datetime.now(UTC)
    answer = ask(files, options.query, lines, engine(options.engine), lenient, catalogue, now)
    sources = texts(files) | {"<query>": options.query}
    for warning in answer.warnings:
        print(render(warning, sources), file=sys.stderr)
    if options.format == "json":
        print(json.dumps([[to_json(value) for value in row] for row in answer.rows], ensure_ascii=False))
    else:
        for row in answer.rows:
            print("\t".join(show(value) for value in row))
    for error in answer.errors:
        print(f"{error.span}: error[evaluation] {error.message}", file=sys.stderr)
    return UNDECIDED if answer.errors else OK
