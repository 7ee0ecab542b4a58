"""The command `test`: runs, measures and writes policy tests."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from datalog_gate.base.errors import GateError, UsageError
from datalog_gate.doors.cli.common import OK, print_note, replace_file
from datalog_gate.files.templates import read_text
from datalog_gate.policytest.suite import (
    FAILED,
    Suite,
    default_paths,
    find_tops,
    read_suite,
    run,
    suite_of,
    test_files,
)


def test(options: argparse.Namespace) -> int:
    """Run the policy tests below the paths, measure them, or write them."""
    if options.pytest and (options.mutate or options.init):
        raise UsageError(f"test: {' '.join(options.pytest)} is an option of pytest, which is not run here")
    if options.init:
        return _init(options)
    if options.mutate:
        return _measure(options)
    return run(options.path, options.catalogue, options.pytest, options.rules)


def _measure(options: argparse.Namespace) -> int:
    """Print the faults in the rules that the cases do not detect."""
    from datalog_gate.policytest.mutation import mutate

    suites = _suites(options)
    if _failing(suites):
        return FAILED
    print(*mutate(suites, options.seed, options.mutants).to_text(), sep="\n")
    return OK


def _init(options: argparse.Namespace) -> int:
    """Append the examples of a policy to the test file beside it, with what its folder's policies find now, and print
    them."""
    from datalog_gate.api import load_rules
    from datalog_gate.doors.cli.commands.rule_examples import check_ids
    from datalog_gate.files.templates import read_catalogue
    from datalog_gate.policytest.example_cases import write_cases

    paths = options.path or options.rules or default_paths()
    rules = load_rules(*paths, catalogue=read_catalogue(*options.catalogue))
    known = {policy.id: policy for policy in rules.policies}
    check_ids([options.init], known)
    examples = rules.examples(options.init)
    if not examples.examples:
        raise UsageError(f"test --init: no stack was found that {options.init} denies; `examples` says how far it came")
    file = Path(known[options.init].span.file).parent / "test.yaml"
    before = read_text(file) if os.path.exists(file) else ""
    resolved = Path(os.path.realpath(file))
    tops = find_tops(resolved, options.path, options.rules)
    suite = suite_of(resolved, (), tops, options.catalogue, tests_all=True)
    after = write_cases(before, str(file), [examples], suite)
    replace_file(file, after)
    print(after.removeprefix(before.rstrip("\n")).lstrip("\n"), end="")
    print_note(f"added to {file}: review what they expect")
    return OK


def _suites(options: argparse.Namespace) -> list[Suite]:
    packs = [path for path in options.path if os.path.isdir(path)]
    return [read_suite(file, options.catalogue, packs, options.rules) for file in test_files(options.path)]


def _failing(suites: Sequence[Suite]) -> bool:
    """Print the failing cases; return whether there are any. A suite with failing cases cannot be measured."""
    failed = False
    for suite in suites:
        for case in suite.cases:
            try:
                report = suite.report(case)
            except GateError as error:
                report = str(error)
            if report:
                print(f"{suite.place(case)}: {case.name}\n{report}", file=sys.stderr)
                failed = True
    return failed
