"""Policy tests on the command line (layer 6): run by pytest, measured, or written."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

from datalog_gate.base.errors import GateError, UsageError
from datalog_gate.doors.cli.output_files import replace
from datalog_gate.files.templates import read_text
from datalog_gate.policytest.suite import FAILED, Suite, read_suite, run, suite_of, test_files
from datalog_gate.policytest.testfile import Case

if TYPE_CHECKING:
    from datalog_gate.policytest.comparison import Answer
    from datalog_gate.policytest.coverage import Coverage
    from datalog_gate.policytest.mutation import Mutation

OK = 0


def test(options: argparse.Namespace) -> int:
    """Do what the options ask for and return the exit code."""
    measured = options.coverage or options.mutate or options.min_coverage is not None or options.min_score is not None
    if options.pytest and (measured or options.init or options.update):
        raise UsageError(f"test: {' '.join(options.pytest)} is for pytest, which only runs the cases")
    if options.init:
        return _init(options)
    if options.update:
        return _update(options)
    return _measure(options) if measured else run(options.path, options.catalogue, options.pytest)


def _measure(options: argparse.Namespace) -> int:
    """Say what the cases never show of the rules, or which faults in them they would not notice."""
    found: Coverage | Mutation
    suites = _suites(options)
    if _failing(suites):
        return FAILED
    if options.mutate or options.min_score is not None:
        from datalog_gate.policytest.mutation import mutate

        found = mutate(suites, options.seed, options.mutants, options.agree_on)
        reached, least = found.score, options.min_score
    else:
        from datalog_gate.policytest.coverage import cover

        found = cover(suites)
        reached, least = found.percent, options.min_coverage
    lines = [json.dumps(found.to_json())] if options.format == "json" else found.to_text()
    print(*lines, sep="\n")
    return OK if reached >= (least or 0) else FAILED


def _init(options: argparse.Namespace) -> int:
    """Write a case of a template behind the others, and print it."""
    from datalog_gate.policytest.editor import with_case

    if len(options.path) != 1:
        raise UsageError("test --init: name the one folder of rules that the case is for")
    folder = Path(options.path[0])
    file = folder if folder.suffix in (".yaml", ".yml") else folder / "test.yaml"
    if not any(file.parent.glob("*.dl")):
        raise UsageError(f"test --init: {file.parent} holds no rule file")
    template = Path(options.init)
    before = read_text(file) if file.exists() else ""
    name = template.resolve().parent.name if template.name == "template.yaml" else template.stem
    case = Case(name, 1, {"stack": template}, {})
    suite = suite_of(file.resolve(), (case,), options.catalogue, options.path)
    answer = suite.answer(case, suite.stacks(case))
    given = {"stack": os.path.relpath(template, file.parent)}
    after = with_case(before, str(file), name, given, answer.found)
    replace(file, after)
    print(after.removeprefix(before.rstrip("\n")).lstrip("\n"), end="")
    return OK


def _update(options: argparse.Namespace) -> int:
    """Print what would change; then do it if told so."""
    from datalog_gate.policytest.editor import updated

    changed: dict[Path, str] = {}
    for suite in _suites(options):
        before = read_text(suite.file)
        after = updated(before, str(suite.file), [_answer(suite, case) for case in suite.cases])
        if after != before:
            changed[suite.file] = after
            name = os.path.relpath(suite.file)
            sides = before.splitlines(keepends=True), after.splitlines(keepends=True)
            sys.stdout.writelines(unified_diff(*sides, name, name))
    if changed and not options.yes and not _agreed():
        return FAILED
    for file, text in changed.items():
        replace(file, text)
    return FAILED if _failing(_suites(options)) else OK


def _answer(suite: Suite, case: Case) -> Answer | None:
    """What is found in a case; None for what the gate can't judge, or read unless the case says so: most often it is
    a slip, and nobody means to expect it."""
    try:
        answer = suite.answer(case)
    except GateError:
        return None
    return answer if answer.judgement or "diagnostics" in case.expect else None


def _agreed() -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("datalog-gate: nothing is written: say --yes", file=sys.stderr)
        return False
    return input("Write this? [y/N] ").strip().lower() in ("y", "yes")


def _suites(options: argparse.Namespace) -> list[Suite]:
    packs = [path for path in options.path if Path(path).is_dir()]
    return [read_suite(file, options.catalogue, packs) for file in test_files(options.path)]


def _failing(suites: Sequence[Suite]) -> bool:
    """Whether a case fails, which is told: of such a suite nobody can say what it shows."""
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
