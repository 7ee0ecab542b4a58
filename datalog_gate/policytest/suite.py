"""Policy tests (layer 5): the cases of a `test.yaml`, judged by the rules that it stands among.

In: test files. Out: for each case a report of what differs from what it expects; for a run, an exit code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datalog_gate as dg
from datalog_gate.diagnostics import Diagnostic, Span, did_you_mean
from datalog_gate.errors import InputError, RulesError, UsageError
from datalog_gate.policytest.testfile import Case, read_cases
from datalog_gate.sources import read_text
from datalog_gate.values import ResourceId

if TYPE_CHECKING:
    import pytest

Expected = Mapping[str, Any]
RULES, UNREADABLE, FAILED = 2, 3, 5
EXITS = {0: 0, 4: UNREADABLE, 5: UNREADABLE}
"""Ours for pytest's exit codes: 4 is no such path, 5 that no test was found."""
OPTIONS = ("-q", "--assert=plain", "-c", os.devnull, "--noconftest", "-p", "no:cacheprovider", "-o", "python_files=")
"""Nobody's configuration and no Python tests: the command gives the same answer wherever it runs."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A member of the list `violations`, `undetermined` or `diagnostics`; `name` is the policy's id or the code."""

    list: str
    name: str
    place: Span | None
    message: str
    resource: ResourceId | None = None

    def fits(self, expected: Expected) -> bool:
        """Whether it is the one expected, as far as the test file says: a resource with or without the root's id."""
        path = self.resource.path if self.resource else ""
        return (
            self.name == expected.get("policy", expected.get("code"))
            and expected.get("resource", path) in (path, path.partition("/")[2])
            and ("line" not in expected or (self.place is not None and self.place.line == expected["line"]))
        )


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of a test file, the rules that judge them, and the ids of the policies under test."""

    cases: tuple[Case, ...]
    rules: dg.Rules
    policies: frozenset[str]

    def report(self, case: Case) -> str:
        """What differs between the case's expectations and the decision, a line each; empty if nothing does.

        Bad input is found as diagnostics, and so is a policy under test that can't be judged (`evaluation`, `budget`).
        Errors: GateError for what the gate can't judge.
        """
        given, types = dict(case.given), self.rules.catalogue
        try:
            source, body = given.pop("stack"), given.pop("environment", None)
            stack = dg.read_stack(source, environments=_beside(source), environment=body, catalogue=types)
            stacks = [stack]
            for name, source in given.pop("modules", {}).items():
                stacks.append(dg.read_stack(source, environments=_beside(source), stack_name=name, catalogue=types))
            against = dg.read_stack(given.pop("against"), catalogue=types) if "against" in given else None
            decision = self.rules.decide(stacks, against=against, **given)
        except InputError as error:
            wrong = [Finding("diagnostics", one.code, one.span, one.message) for one in error.diagnostics]
            return difference(case.expect, wrong, {})
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
        return difference(case.expect, found, rows)


def _beside(source: object) -> list[Path]:
    """The environment that belongs to a template's file: the one of its name beside it."""
    own = source.with_suffix(".env") if isinstance(source, Path) else None
    return [own] if own and own.is_file() else []


def difference(
    expect: Expected,
    found: Sequence[Finding],
    rows: Mapping[str, Sequence[Sequence[object]]],
) -> str:
    """What is missing and what is unexpected, a line each; empty if nothing is. Each finding meets one expectation. A
    list that the test file leaves out is expected to be empty. `rows` are those of the relations it names, as sets."""
    lines: list[str] = []
    for name in ("violations", "undetermined", "diagnostics"):
        rest = [one for one in found if one.list == name]
        for expected in sorted(expect.get(name, ()), key=len, reverse=True):  # the most exact one chooses first
            met = next((one for one in rest if one.fits(expected)), None)
            if met:
                rest.remove(met)
            else:
                lines.append(_missing(name, expected))
        lines += [_unexpected(one) for one in rest]
    for relation, wanted in expect.get("rows", {}).items():
        if relation not in rows:
            why = "write its full name, net:ssh:open_ssh, or it takes too much"
            lines.append(f"  missing     rows: nothing derives {relation}: {why}")
        want, have = ({json.dumps(row) for row in some} for some in (wanted, rows.get(relation, ())))
        lines += [f"  missing     rows: {relation} {row}" for row in sorted(want - have)]
        lines += [f"  unexpected  rows: {relation} {row}" for row in sorted(have - want)]
    return "\n".join(lines)


def _missing(name: str, one: Expected) -> str:
    words = " ".join(str(one[key]) for key in ("policy", "code", "resource") if key in one)
    line = f" on line {one['line']}" if "line" in one else ""
    return f"  missing     {name}: {words}{line}"


def _unexpected(one: Finding) -> str:
    resource = f" {one.resource.path}" if one.resource else ""
    line = f" on line {one.place.line}" if one.place else ""
    return f"  unexpected  {one.list}: {one.name}{resource}{line}: {one.message}"


def read_suite(file: Path, catalogues: Sequence[str] = (), packs: Sequence[str] = ()) -> Suite:
    """The suite of a test file, with the types of an operator's catalogue files; for `packs` see `top_folder`.
    Errors: InputError for the files, RulesError for the rules."""
    file = file.resolve()
    cases = read_cases(file)
    rules = dg.load_rules(top_folder(file.parent, packs), catalogue=dg.read_catalogue(*catalogues))
    policies = frozenset(one.id for one in rules.policies if Path(one.span.file).resolve().parent == file.parent)
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
    return Suite(cases, rules, policies)


def top_folder(folder: Path, packs: Sequence[str] = ()) -> Path:
    """The folder whose rules are loaded: the nearest one named ``rules``, the given one or above it. If there is none,
    the highest that is reached, from the one of `packs` that holds it if any, by going up for as long as the folder
    above holds a rule file itself."""
    for one in (folder, *folder.parents):
        if one.name == "rules":
            return one
    folder = next((top for one in packs if folder.is_relative_to(top := Path(one).resolve())), folder)
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
    where += [f"--datalog-packs={os.path.abspath(one)}" for one in paths if Path(one).is_dir()]
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
