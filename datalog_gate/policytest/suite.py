"""Policy tests (layer 5): the cases of a `test.yaml`, judged by the rules that it stands among.

In: test files. Out: for each case a report of what differs from what it expects; for a run, an exit code.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datalog_gate.base.diagnostics import Diagnostic, Span, did_you_mean
from datalog_gate.base.errors import InputError, RulesError, UsageError
from datalog_gate.decision.judgement import judge
from datalog_gate.decision.policy_set import PolicySet, load
from datalog_gate.engine.native import evaluate
from datalog_gate.files.inputs import read_request
from datalog_gate.files.rules import read_rules
from datalog_gate.files.templates import read_before, read_catalogue, read_stack, read_text
from datalog_gate.policytest.comparison import Answer, Finding, report
from datalog_gate.policytest.testfile import Case, read_cases
from datalog_gate.stack.model import Stack

if TYPE_CHECKING:
    import pytest

RULES, UNREADABLE, FAILED = 2, 3, 5
USAGE = 4
EXITS = {0: 0, USAGE: UNREADABLE, 5: UNREADABLE}
"""Ours for pytest's exit codes: 4 is no such path, 5 that no test was found."""
OPTIONS = ("-q", "--assert=plain", "-c", os.devnull, "--noconftest", "-p", "no:cacheprovider", "-o", "python_files=")
"""Nobody's configuration and no Python tests: the command gives the same answer wherever it runs."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of a test file, the rules below a top folder that judge them, and the ids of the policies tested."""

    file: Path
    top: Path
    cases: tuple[Case, ...]
    rules: PolicySet
    policies: frozenset[str]

    def place(self, case: Case) -> Span:
        """Where the case begins."""
        return Span(str(self.file), case.line, 1, case.line, 2)

    def report(self, case: Case) -> str:
        """What differs between the case's expectations and the decision, and why; empty if nothing does.
        Errors: GateError for what the gate can't judge."""
        return report(case.expect, self.answer(case), {policy.id: policy for policy in self.rules.policies})

    def answer(self, case: Case, stacks: Sequence[Stack] = (), rules: PolicySet | None = None) -> Answer:
        """What the rules, or others, find in the case, whose stacks may be read already. Bad input is found as
        diagnostics, and so is a policy under test that can't be judged (`evaluation`, `budget`).
        Errors: GateError for what the gate can't judge."""
        rules = rules or self.rules
        given = {key: value for key, value in case.given.items() if key not in ("stack", "modules", "environment")}
        try:
            stacks = stacks or self.stacks(case)
            if "against" in given:
                given["against"] = self.before(case, stacks[0].id)
            judgement = judge(rules, stacks, read_request(rules, stacks, **given), evaluate)
        except InputError as error:
            wrong = [
                Finding("diagnostics", diagnostic.code, diagnostic.span, diagnostic.message)
                for diagnostic in error.diagnostics
            ]
            return Answer(tuple(wrong), {})
        decision = judgement.decision
        found = [
            Finding(
                name,
                violation.policy,
                violation.place,
                violation.message,
                violation.resource,
                violation,
                violation.policy,
            )
            for name, many in (("violations", decision.violations), ("undetermined", decision.undetermined))
            for violation in many
            if violation.policy in self.policies
        ]
        for failed in decision.errors:
            if failed.policy in self.policies:
                message = f"{failed.policy}: {failed.message}"
                found.append(Finding("diagnostics", failed.code, failed.place, message, policy=failed.policy))
        asked = [relation for relation in case.expect.get("rows", {}) if relation in decision.derived]
        return Answer(tuple(found), {relation: decision.rows(relation) for relation in asked}, judgement)

    def stacks(self, case: Case) -> tuple[Stack, ...]:
        """The stack of the case, and its modules. Errors: InputError."""
        given, types = case.given, self.rules.catalogue
        stack = read_stack(
            _file(given["stack"]),
            environments=_beside(given["stack"]),
            environment=given.get("environment"),
            catalogue=types,
        )
        modules = [
            read_stack(_file(source), environments=_beside(source), stack_name=name, catalogue=types)
            for name, source in given.get("modules", {}).items()
        ]
        return (stack, *modules)

    def before(self, case: Case, name: str) -> Stack:
        """The stack of the case as it was, of that name. Errors: InputError."""
        source, after = _file(case.given["against"]), case.given["stack"]
        return read_before(
            source,
            _file(after),
            environments=_beside(source) or _beside(after),
            environment=case.given.get("environment"),
            stack_name=name,
            catalogue=self.rules.catalogue,
        )


def _file(source: Any) -> Any:
    return near(source) if isinstance(source, Path) else source


def _beside(source: object) -> list[Path]:
    """The environment that belongs to a template's file: the one of its name beside it."""
    own = near(source.with_suffix(".env")) if isinstance(source, Path) else None
    return [own] if own and own.is_file() else []


def read_suite(file: Path, catalogues: Sequence[str] = (), packs: Sequence[str] = ()) -> Suite:
    """The suite of a test file, with the types of an operator's catalogue files; for `packs` see `top_folder`.
    Errors: InputError for the files, RulesError for the rules."""
    file = file.resolve()
    return suite_of(file, read_cases(file), catalogues, packs)


def suite_of(file: Path, cases: tuple[Case, ...], catalogues: Sequence[str] = (), packs: Sequence[str] = ()) -> Suite:
    """The suite of these cases, as if the file held them. Errors: those of `read_suite`."""
    top = top_folder(file.parent, packs)
    rules = load(read_rules([near(top)]), read_catalogue(*catalogues))
    policies = frozenset(
        policy.id for policy in rules.policies if Path(policy.span.file).resolve().parent == file.parent
    )
    if not policies and not all("rows" in case.expect for case in cases):
        message = f"no rule file beside {file} holds a policy, so its cases would test nothing"
        raise InputError(
            [Diagnostic("bad-test", message, suggestion="expect rows, or write the test beside the policy")]
        )
    folder = f"the policies of this folder are {', '.join(sorted(policies)) or 'none'}"
    wrong = [
        Diagnostic("bad-test", f"no policy {name} stands beside this file", place, did_you_mean(name, policies, folder))
        for case in cases
        for name, place in case.policies
        if name not in policies
    ]
    if wrong:
        raise InputError(wrong, {str(file): read_text(file)})
    return Suite(file, top, cases, rules, policies)


def near(path: Path) -> Path:
    """The path as people say it where they stand, if it lies below."""
    whole = path.parent.resolve() / path.name
    return whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else whole


def top_folder(folder: Path, packs: Sequence[str] = ()) -> Path:
    """The folder whose rules are loaded: the nearest one named ``rules``, the given one or above it. If there is none,
    the highest that is reached, from the one of `packs` that holds it if any, by going up for as long as the folder
    above holds a rule file itself."""
    for path in (folder, *folder.parents):
        if path.name == "rules":
            return path
    folder = next((top for pack in packs if folder.is_relative_to(top := Path(pack).resolve())), folder)
    while folder != folder.parent and any(folder.parent.glob("*.dl")):
        folder = folder.parent
    return folder


def test_files(paths: Sequence[str]) -> list[Path]:
    """The test files at the paths and below, as pytest finds them. Errors: InputError if there is none."""
    found = [
        file
        for path in map(Path, paths or default_paths())
        for file in (sorted(path.rglob("test.yaml")) if path.is_dir() else [path])
        if any(file.parent.glob("*.dl"))
    ]
    if not found:
        raise InputError([Diagnostic("bad-test", f"there is no test.yaml beside rules: {', '.join(paths) or 'here'}")])
    return list(dict.fromkeys(found))


def default_paths() -> list[str]:
    """What is tested where nothing is named."""
    return ["rules" if Path("rules").is_dir() else "."]


def run(paths: Sequence[str] = (), catalogues: Sequence[str] = (), options: Sequence[str] = ()) -> int:
    """Run the cases of every test file under the paths (default: ``rules`` if there is such a folder, else all that is
    here): pytest with this package's plugin and exit codes. `options` are pytest's own.

    Out: 0 if all pass, 2 for rules that can't be loaded, 3 for a test file that can't be read or if there is none, 5 if
    a case fails. Errors: UsageError without pytest, or for options that it does not take.
    """
    try:
        import pytest
    except ImportError:
        raise UsageError("policy tests need pytest: install datalog-gate[test]") from None
    unread = _Unread()
    where = list(paths) or default_paths()
    where += [f"--datalog-packs={os.path.abspath(path)}" for path in paths if Path(path).is_dir()]
    where += [f"--datalog-catalogue={os.path.abspath(file)}" for file in catalogues]
    code = int(pytest.main([*OPTIONS, "--rootdir", os.getcwd(), *where, *options], plugins=[unread]))
    if code == USAGE and all(Path(one.partition("::")[0]).exists() for one in where if not one.startswith("--")):
        raise UsageError(f"pytest does not take {' '.join(options)}")
    return min(unread.codes, default=EXITS.get(code, FAILED))


def exit_code(error: Exception) -> int:
    """What the command exits with for what can't be read."""
    return RULES if isinstance(error, RulesError) else UNREADABLE


class _Unread:
    """A plugin of one run that remembers what the reports of files that can't be read ask to exit with."""

    def __init__(self) -> None:
        self.codes: set[int] = set()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.codes |= {code for code in [getattr(report, "datalog_exit", None)] if code is not None}
