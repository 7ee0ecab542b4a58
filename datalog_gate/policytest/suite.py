"""Policy tests (layer 5): the cases of a `test.yaml`, judged by the rules that it stands among.

In: test files. Out: for each case a report of what differs from what it expects; for a run, an exit code.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import datalog_gate as dg
from datalog_gate.diagnostics import Diagnostic
from datalog_gate.errors import InputError, RulesError, UsageError
from datalog_gate.policytest.findings import Finding, difference
from datalog_gate.policytest.testfile import Case, read_cases

if TYPE_CHECKING:
    import pytest

RULES, UNREADABLE, FAILED = 2, 3, 5
EXITS = {0: 0, 4: UNREADABLE, 5: UNREADABLE}
"""Ours for pytest's exit codes: 4 is no such path, 5 that no test was found."""
OPTIONS = ("-q", "--assert=plain", "-c", os.devnull, "--noconftest", "-p", "no:cacheprovider", "-o", "python_files=")
"""Nobody's configuration and no Python tests: the command gives the same answer wherever it runs."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of a test file, the rules that judge them, and the ids of the policies under test."""

    cases: tuple[Case, ...]
    rules: dg.Rules
    policies: frozenset[str]

    def report(self, case: Case) -> str:
        """What differs between the case's expectations and the decision, a line each; empty if nothing does.

        Bad input is found as diagnostics, and so is a policy under test that can't be evaluated (code `evaluation`).
        Errors: GateError for what the gate can't judge.
        """
        given, types = dict(case.given), self.rules.catalogue
        try:
            stack = dg.read_stack(given.pop("stack"), environment=given.pop("environment", None), catalogue=types)
            against = dg.read_stack(given.pop("against"), catalogue=types) if "against" in given else None
            decision = self.rules.decide(stack, against=against, **given)
        except InputError as error:
            wrong = [Finding("diagnostics", one.code, one.span, one.message) for one in error.diagnostics]
            return difference(case.expect, wrong, {}, self.policies)
        found = [
            Finding(name, one.policy, one.place, one.message, one.resource)
            for name, many in (("violations", decision.violations), ("undetermined", decision.undetermined))
            for one in many
            if one.policy in self.policies
        ]
        for failed in decision.errors:
            if failed.policy in self.policies:
                message = f"{failed.policy}: {failed.message}"
                found.append(Finding("diagnostics", failed.code, failed.place, message))
        asked = [relation for relation in case.expect.get("rows", {}) if relation in decision.derived]
        rows = {relation: decision.rows(relation) for relation in asked}
        return difference(case.expect, found, rows, self.policies)


def read_suite(file: Path, catalogues: Sequence[str] = ()) -> Suite:
    """The suite of a test file, with the types of an operator's catalogue files. Errors: InputError for the files,
    RulesError for the rules."""
    file = file.resolve()
    cases = read_cases(file)
    rules = dg.load_rules(top_folder(file.parent), catalogue=dg.read_catalogue(*catalogues))
    policies = frozenset(one.id for one in rules.policies if Path(one.span.file).resolve().parent == file.parent)
    if not policies and not all("rows" in case.expect for case in cases):
        message = f"no rule file beside {file} holds a policy, so its cases would test nothing"
        raise InputError(
            [Diagnostic("bad-test", message, suggestion="expect rows, or write the test beside the policy")]
        )
    return Suite(cases, rules, policies)


def top_folder(folder: Path) -> Path:
    """The folder whose rules are loaded: the nearest one named ``rules``, the given one or above it. If there is none,
    the highest that is reached by going up for as long as the folder above holds a rule file itself."""
    for one in (folder, *folder.parents):
        if one.name == "rules":
            return one
    while folder != folder.parent and any(folder.parent.glob("*.dl")):
        folder = folder.parent
    return folder


def run(paths: Sequence[str] = (), catalogues: Sequence[str] = ()) -> int:
    """Run the cases of every test file under the paths (default: ``rules`` if there is such a folder, else all that is
    here): pytest with this package's plugin and exit codes.

    Out: 0 if all pass, 2 for rules that can't be loaded, 3 for a test file that can't be read or if there is none, 5 if
    a case fails. Errors: UsageError without pytest.
    """
    try:
        import pytest
    except ImportError:
        raise UsageError("policy tests need pytest: install datalog-gate[test]") from None
    unread = _Unread()
    where = list(paths) or ["rules" if Path("rules").is_dir() else "."]
    where += [f"--datalog-catalogue={os.path.abspath(file)}" for file in catalogues]
    code = pytest.main([*OPTIONS, "--rootdir", os.getcwd(), *where], plugins=[unread])
    return min(unread.codes, default=EXITS.get(int(code), FAILED))


class _Unread:
    """A plugin of one run that remembers why files could not be collected."""

    def __init__(self) -> None:
        self.codes: set[int] = set()

    def pytest_exception_interact(self, call: pytest.CallInfo[object]) -> None:
        match call.excinfo and call.excinfo.value.__cause__:
            case RulesError():
                self.codes.add(RULES)
            case InputError():
                self.codes.add(UNREADABLE)
