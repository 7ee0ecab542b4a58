"""The command `test`: runs, measures and writes policy tests."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datalog_gate.base.errors import GateError, UsageError
from datalog_gate.doors.cli.common import OK, replace_file
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
from datalog_gate.policytest.testfile import Case

if TYPE_CHECKING:
    from datalog_gate.analysis.policy import Policy
    from datalog_gate.api import Rules


def test(options: argparse.Namespace) -> int:
    """Run the policy tests below the paths, measure them, or write them."""
    measured = options.mutate or options.min_score is not None
    if options.pytest and (measured or options.init):
        raise UsageError(f"test: {' '.join(options.pytest)} is an option of pytest, which is not run here")
    if options.init:
        return _init(options)
    if measured:
        return _measure(options)
    return run(options.path, options.catalogue, options.pytest, options.rules)


def _measure(options: argparse.Namespace) -> int:
    """Print the faults in the rules that the cases do not detect."""
    from datalog_gate.policytest.mutation import mutate

    suites = _suites(options)
    if _failing(suites):
        return FAILED
    mutation = mutate(suites, options.seed, options.mutants)
    lines = [json.dumps(mutation.to_json())] if options.format == "json" else mutation.to_text()
    print(*lines, sep="\n")
    return OK if mutation.score >= (options.min_score or 0) else FAILED


def _init(options: argparse.Namespace) -> int:
    """Append a case for a template to the test file, or the examples of a policy, and print them."""
    from datalog_gate.policytest.editor import add_case

    if not os.path.exists(options.init) and (policy := _find_policy(options)):
        return _write_examples(options, *policy)
    if len(options.path) != 1:
        raise UsageError("test --init: give exactly one folder of rules, the one that the case is for")
    folder = Path(options.path[0])
    file = folder if folder.suffix in (".yaml", ".yml") else folder / "test.yaml"
    if not any(file.parent.glob("*.dl")):
        raise UsageError(f"test --init: {file.parent} holds no rule file")
    template = Path(options.init)
    before = read_text(file) if os.path.exists(file) else ""
    name = Path(os.path.realpath(template)).parent.name if template.name == "template.yaml" else template.stem
    case = Case(name, 1, {"stack": template}, {})
    suite = _suite_around(file, (case,), options)
    result = suite.run(case, suite.stacks(case))
    after = add_case(before, str(file), name, {"stack": os.path.relpath(template, file.parent)}, result.findings)
    return _write(file, before, after)


def _suite_around(file: Path, cases: tuple[Case, ...], options: argparse.Namespace) -> Suite:
    resolved = Path(os.path.realpath(file))
    return suite_of(
        resolved, cases, find_tops(resolved, options.path, options.rules), options.catalogue, tests_all=True
    )


def _write(file: Path, before: str, after: str) -> int:
    """Write a test file, and print what was added."""
    replace_file(file, after)
    print(after.removeprefix(before.rstrip("\n")).lstrip("\n"), end="")
    return OK


def _find_policy(options: argparse.Namespace) -> tuple[Rules, Policy] | None:
    """The rules below the paths, and their policy with the id that `--init` gives, if there is one."""
    from datalog_gate.api import load_rules
    from datalog_gate.files.templates import read_catalogue

    paths = options.path or options.rules or default_paths()
    rules = load_rules(*paths, catalogue=read_catalogue(*options.catalogue))
    return next(((rules, policy) for policy in rules.policies if policy.id == options.init), None)


def _write_examples(options: argparse.Namespace, rules: Rules, policy: Policy) -> int:
    """Append the examples of a policy to the test file beside it, with what its folder's policies find now."""
    from datalog_gate.policytest.example_cases import write_cases

    found = rules.examples(policy.id)
    if not found.examples:
        raise UsageError(f"test --init: no stack was found that {policy.id} denies; `examples` says how far it came")
    file = Path(policy.span.file).parent / "test.yaml"
    before = read_text(file) if os.path.exists(file) else ""
    suite = _suite_around(file, (), options)
    return _write(file, before, write_cases(before, str(file), [found], suite))


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
