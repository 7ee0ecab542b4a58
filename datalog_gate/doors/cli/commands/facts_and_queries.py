"""The commands `facts`, `relations` and `query`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from datalog_gate.base.diagnostics import closest, render, suggest_name
from datalog_gate.base.errors import UsageError
from datalog_gate.doors.cli.common import INPUT, OK, load_catalogue, print_answer, print_note
from datalog_gate.files.templates import read_catalogue


def facts(options: argparse.Namespace) -> int:
    """Print the facts of each template."""
    from datalog_gate.facts.flatten import write_facts
    from datalog_gate.files.root_templates import find_roots, read_root

    catalogue = load_catalogue(options)
    for name in options.relation:
        if catalogue.relation(name) is None:
            raise _no_relation(name, catalogue.names())
    code = OK
    for root in find_roots(options.template, options.configuration):
        stack = read_root(root, options.configuration, catalogue)
        for warning in stack.warnings:
            print(render(warning, stack.sources), file=sys.stderr)
        for line in write_facts(stack, options.format, options.relation, catalogue):
            print(line)
        if any(warning.severity == "error" for warning in stack.warnings):
            code = INPUT
    return code


def relations(options: argparse.Namespace) -> int:
    """Print a line for each relation that rules can read, or everything about those of the name or pattern."""
    from datalog_gate.facts.relation_text import format_relation
    from datalog_gate.schema.descriptions import describe_relations

    catalogue = read_catalogue(*options.catalogue)
    described = describe_relations(options.pattern or "*", catalogue)
    if not described:
        raise _no_relation(options.pattern, (*catalogue.names(), *catalogue.types()))
    if options.pattern:
        print("\n\n".join("\n".join(format_relation(description, catalogue)) for description in described))
    else:
        print(*(f"{description.signature()}  {description.relation.meaning}" for description in described), sep="\n")
        print_note(
            "* is part of the key, ? may be null, the kind is string if none is shown; `relations NAME` shows "
            "more, with a row and a rule"
        )
    return OK


def _no_relation(name: str, candidates: Iterable[str]) -> UsageError:
    similar = suggest_name(closest(name, candidates), "`datalog-gate relations` lists all")
    return UsageError(f"there is no relation {name}: {similar}")


def query(options: argparse.Namespace) -> int:
    """Print the rows of a query."""
    from datalog_gate.api import answer_query
    from datalog_gate.files.rules import read_rules

    answer = answer_query(
        read_rules(map(Path, options.rules), options.congress),
        options.query,
        facts=options.facts,
        lenient=options.undefined == "empty",
        engine=options.engine,
        catalogue=read_catalogue(*options.catalogue),
    )
    return print_answer(answer, options.format)
