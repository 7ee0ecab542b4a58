"""The cases of a `test.yaml`, with the rules around it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import Diagnostic, Span, closest, suggest_name
from datalog_gate.base.errors import InputError, RulesError, UsageError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.decision import Decision
from datalog_gate.decision.judgement import judge
from datalog_gate.decision.policy_set import PolicySet, load
from datalog_gate.engine.native import evaluate
from datalog_gate.files.inputs import read_request
from datalog_gate.files.rules import read_rules, replace_texts
from datalog_gate.files.templates import (
    list_files,
    read_before,
    read_catalogue,
    read_stack,
    read_text,
    resolve,
    unreadable,
)
from datalog_gate.policytest.comparison import CaseFinding, CaseResult, report
from datalog_gate.policytest.testfile import Case, read_cases
from datalog_gate.stack.model import Live, Stack
from datalog_gate.template.reader import read_assuming

RULES, UNREADABLE, FAILED = 2, 3, 5
USAGE, NO_TESTS = 4, 5
EXITS = {0: 0, USAGE: UNREADABLE, NO_TESTS: UNREADABLE}
"""The exit codes of the command by those of pytest: 4 is a missing path, 5 no tests."""
OPTIONS = ("-q", "--assert=plain", "-c", os.devnull, "--noconftest", "-p", "no:cacheprovider", "-o", "python_files=")
"""Options of pytest: no configuration and no Python tests, so that the command works the same everywhere."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of a test file, with the rules that judge them."""

    file: Path
    tops: tuple[Path, ...]
    """The folders and files whose rules are loaded."""
    cases: tuple[Case, ...]
    rules: PolicySet
    policies: frozenset[str]
    """The ids of the tested policies: those beside the test file, and those below it that a case names."""
    unsaved: Mapping[Path, str] = field(default_factory=dict)
    """The texts of files that an editor has."""

    def place(self, case: Case) -> Span:
        return Span(str(self.file), case.line, 1, case.line, 2)

    def report(self, case: Case) -> str:
        """Report how the decision differs from the case's expectations, and why; empty if it does not. Errors:
        GateError if the gate can't judge the case."""
        return report(case.expect, self.run(case), {policy.id: policy for policy in self.rules.policies})

    def run(self, case: Case, stacks: Sequence[Stack] = (), rules: PolicySet | None = None) -> CaseResult:
        """Judge the case by the rules of the suite, or by others; its stacks may be read already. Invalid input becomes
        findings of the list `diagnostics`, and so does a tested policy that can't be judged (`evaluation`, `budget`).
        Errors: GateError if the gate can't judge the case."""
        rules = rules or self.rules
        of_stacks = ("stack", "modules", "environment", "live")
        given: Any = {key: value for key, value in case.given.items() if key not in of_stacks}
        given["cloud"] = given.pop("projects", {})
        try:
            stacks = stacks or self.stacks(case)
            if "against" in given:
                given["against"] = self.before(case, stacks[0].id)
            request = read_request(rules, stacks, given, given.get("action"))
            judgement = judge(rules, stacks, request, evaluate, read_assuming)
        except InputError as error:
            findings = [
                CaseFinding("diagnostics", diagnostic.code, diagnostic.span, diagnostic.message)
                for diagnostic in error.diagnostics
            ]
            return CaseResult(tuple(findings), {})
        decision = judgement.decision
        relations = [relation for relation in case.expect.get("rows", {}) if relation in decision.derived]
        rows = {relation: decision.rows(relation) for relation in relations}
        return CaseResult(tuple(self._list_findings(decision)), rows, judgement)

    def _list_findings(self, decision: Decision) -> list[CaseFinding]:
        """The findings of the tested policies, and those that can't be judged."""
        findings = [
            CaseFinding(
                list=name,
                name=policy,
                place=violation.place,
                message=violation.message,
                resource=violation.resource,
                violation=violation,
                policy=policy,
            )
            for name, violations in (("violations", decision.violations), ("undetermined", decision.undetermined))
            for violation in violations
            for policy in violation.policies
            if policy in self.policies
        ]
        for failure in decision.errors:
            if failure.policy in self.policies:
                message = f"{failure.policy}: {failure.message}"
                findings.append(CaseFinding("diagnostics", failure.code, failure.place, message, policy=failure.policy))
        return findings

    def stacks(self, case: Case) -> tuple[Stack, ...]:
        """Read the stack of the case, and its modules. Errors: InputError."""
        given, catalogue = case.given, self.rules.catalogue
        stack = read_stack(
            _file(given["stack"]),
            environments=_beside(given["stack"]),
            environment=given.get("environment"),
            catalogue=catalogue,
            unsaved=self.unsaved,
        )
        modules = [
            read_stack(
                _file(source),
                environments=_beside(source),
                stack_name=name,
                catalogue=catalogue,
                unsaved=self.unsaved,
            )
            for name, source in given.get("modules", {}).items()
        ]
        return tuple(_with_live((stack, *modules), case, self.place(case)))

    def before(self, case: Case, name: str) -> Stack:
        """Read the older state of the case's stack, under the same name. Errors: InputError."""
        source, after = _file(case.given["against"]), case.given["stack"]
        return read_before(
            source,
            _file(after),
            environments=_beside(source) or _beside(after),
            environment=case.given.get("environment"),
            stack_name=name,
            catalogue=self.rules.catalogue,
            unsaved=self.unsaved,
        )


def _with_live(stacks: Sequence[Stack], case: Case, place: Span) -> Iterator[Stack]:
    """The stacks with the case's data about their resources in Heat. Errors: InputError."""
    live = dict(case.given.get("live", {}))
    for stack in stacks:
        own = {path: live.pop(path) for path in list(live) if path.startswith(f"{stack.id}/")}
        yield replace(stack, live=tuple(_live_row(path, data) for path, data in own.items()))
    if live:
        names = " or ".join(f"{stack.id}/..." for stack in stacks)
        message = f"{', '.join(live)} of `live` is in no stack of the case"
        raise InputError([Diagnostic("bad-test", message, place, f"write {names}")])


def _live_row(path: str, data: Mapping[str, str]) -> Live:
    action, _, status = data.get("status", "CREATE_COMPLETE").partition("_")
    return Live(ResourceId(path), action, status, data.get("id", ""), data.get("updated", ""))


def _file(source: Any) -> Any:
    return relative_path(source) if isinstance(source, Path) else source


def _beside(source: object) -> list[Path]:
    """The environment of a template: the file beside it with its name, if any."""
    own = relative_path(source.with_suffix(".env")) if isinstance(source, Path) else None
    return [own] if own and own.is_file() else []


def read_suite(
    file: Path, catalogues: Sequence[str] = (), packs: Sequence[str] = (), rules: Sequence[str] = ()
) -> Suite:
    """Read the suite of a test file, with the types of an operator's catalogue files; for `packs` and `rules` see
    `find_tops`. Errors: InputError for the files, RulesError for the rules."""
    file = resolve(file)
    return suite_of(file, read_cases(file), find_tops(file, packs, rules), catalogues)


def suite_of(
    file: Path,
    cases: tuple[Case, ...],
    tops: Sequence[Path],
    catalogues: Sequence[str] = (),
    tests_all: bool = False,
    unsaved: Mapping[Path, str] | None = None,
) -> Suite:
    """Create a suite of these cases, as if the file contained them, by the rules of `find_tops`. `unsaved` texts of an
    editor replace files. If it `tests_all`, every policy below the file's folder is tested, as `check --rules FOLDER`
    judges by it. Errors: those of `read_suite`."""
    tops = tuple(map(relative_path, tops))
    texts = {relative_path(path): text for path, text in (unsaved or {}).items()}
    policy_set = load(replace_texts(read_rules(tops), texts, tops), read_catalogue(*catalogues))
    homes = {policy.id: Path(os.path.realpath(policy.span.file)).parent for policy in policy_set.policies}
    inside = {policy for policy, home in homes.items() if home.is_relative_to(file.parent)}
    named = {name for case in cases for name, _ in case.policies}
    policies = frozenset(policy for policy in inside if tests_all or homes[policy] == file.parent or policy in named)
    if not policies and not all("rows" in case.expect for case in cases):
        message = f"no rule file beside {file} contains a policy, so its cases would test nothing"
        raise InputError(
            [Diagnostic("bad-test", message, suggestion="expect rows, or move the test beside the policy")]
        )
    folder = f"the policies of this folder are {', '.join(sorted(policies)) or 'none'}"
    diagnostics = [
        Diagnostic(
            "bad-test",
            f"there is no policy {name} beside this file",
            place,
            suggest_name(closest(name, inside), folder),
        )
        for case in cases
        for name, place in case.policies
        if name not in policies
    ]
    if diagnostics:
        raise InputError(diagnostics, {str(file): (unsaved or {}).get(file) or read_text(file)})
    return Suite(file, tops, cases, policy_set, policies, unsaved or {})


def relative_path(path: Path) -> Path:
    """The path relative to the working directory, if it is inside."""
    whole = Path(os.path.realpath(path.parent)) / path.name
    return whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else whole


def find_tops(file: Path, packs: Sequence[str] = (), rules: Sequence[str | Path] = ()) -> tuple[Path, ...]:
    """Find the folders and files whose rules are loaded with a file: the `rules` of the project if they contain it,
    else its `top_folder`. Rules that do not exist are names of packs."""
    tops = tuple(resolve(path) if os.path.exists(path) else Path(path) for path in rules)
    return tops if any(map(file.is_relative_to, tops)) else (top_folder(file.parent, packs),)


def top_folder(folder: Path, packs: Sequence[str] = ()) -> Path:
    """Find the top of the rules around a folder: the nearest one named ``rules``, at or above the given one. If there
    is none, start at the folder, or at the one of `packs` that contains it, and go up while the parent contains a rule
    file."""
    for path in (folder, *folder.parents):
        if path.name == "rules":
            return path
    folder = next((top for pack in packs if folder.is_relative_to(top := Path(os.path.realpath(pack)))), folder)
    while folder != folder.parent and any(folder.parent.glob("*.dl")):
        folder = folder.parent
    return folder


def test_files(paths: Sequence[str]) -> list[Path]:
    """List the test files at and below the paths, as pytest finds them. Errors: InputError if there is none."""
    files = [
        file
        for path in map(Path, paths or default_paths())
        for file in ([file for file in list_files(path) if file.name == "test.yaml"] if os.path.isdir(path) else [path])
        if _stands_beside_rules(file)
    ]
    if not files:
        raise InputError([Diagnostic("bad-test", f"there is no test.yaml beside rules: {', '.join(paths) or 'here'}")])
    return list(dict.fromkeys(files))


def _stands_beside_rules(file: Path) -> bool:
    try:
        return any(name.endswith(".dl") for name in os.listdir(file.parent))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise unreadable(file, error) from None


def default_paths() -> list[str]:
    return ["rules" if Path("rules").is_dir() else "."]


def run(
    paths: Sequence[str] = (),
    catalogues: Sequence[str] = (),
    options: Sequence[str] = (),
    rules: Sequence[str] = (),
) -> int:
    """Run the cases of every test file under the paths (default: ``rules`` if it exists, else the working directory)
    with pytest and this package's plugin. `options` are pytest's own. Returns 0 if all pass, 2 for rules that can't be
    loaded, 3 for an unreadable test file or if there is none, 5 if a case fails. Errors: UsageError without pytest, or
    for invalid options; InputError if no test file is beside rules."""
    try:
        import pytest
    except ImportError:
        raise UsageError("policy tests need pytest: install datalog-gate[test]") from None
    packs = [os.path.abspath(path) for path in paths if os.path.isdir(path)]
    given = [f"--datalog-packs={pack}" for pack in packs]
    given += [f"--datalog-catalogue={os.path.abspath(file)}" for file in catalogues]
    given += [f"--datalog-rules={path}" for path in rules]
    places = list(paths) or default_paths()
    code = int(pytest.main([*OPTIONS, "--rootdir", os.getcwd(), *places, *given, *options]))
    files = [place.partition("::")[0] for place in places]
    if code == USAGE and all(map(os.path.exists, files)):
        raise UsageError(f"pytest does not accept {' '.join(options)}")
    if code == NO_TESTS:
        test_files(files)  # says which file is missing
    result = EXITS.get(code, FAILED)
    if result == FAILED:  # perhaps not because of a case
        for file in test_files(files):
            try:
                read_suite(file, catalogues, packs, rules)
            except RulesError:
                return RULES
            except InputError:
                result = UNREADABLE
    return result
