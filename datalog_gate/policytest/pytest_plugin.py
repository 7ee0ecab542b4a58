"""The pytest plugin: cases of `test.yaml` are tests.

The package is imported only if there is such a file, so that pytest of other projects starts as fast as without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

if TYPE_CHECKING:
    from datalog_gate.policytest.suite import Suite
    from datalog_gate.policytest.testfile import Case


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options for an operator's resource types, the folder with the packs, and the rules of the project."""
    group = parser.getgroup("datalog_gate")
    group.addoption(
        "--datalog-catalogue", action="append", default=[], metavar="FILE", help="resource types of a plugin"
    )
    group.addoption("--datalog-packs", action="append", default=[], metavar="DIR", help="the top folder of the packs")
    group.addoption("--datalog-rules", action="append", default=[], metavar="PATH", help="rules, as `check` reads them")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a `test.yaml`, unless there is no rule file beside it: then it belongs to another tool."""
    if file_path.name == "test.yaml" and any(file_path.parent.glob("*.dl")):
        collector: pytest.Collector = PolicyFile.from_parent(parent, path=file_path)
        return collector
    return None


class PolicyFile(pytest.File):
    """A test file. If it or its rules can't be read, that is a collection error."""

    def collect(self) -> Iterator[pytest.Item]:
        from datalog_gate.base.errors import DiagnosticsError
        from datalog_gate.policytest.suite import read_suite

        try:
            options = (self.config.getoption(f"datalog_{name}") for name in ("catalogue", "packs", "rules"))
            suite = read_suite(self.path, *options)
        except DiagnosticsError as error:
            raise self.CollectError(str(error)) from error
        for case in suite.cases:
            item: pytest.Item = PolicyCase.from_parent(self, name=case.name, suite=suite, case=case)
            yield item


class PolicyCase(pytest.Item):
    """One case of a test file."""

    funcargs: ClassVar[dict[str, object]] = {}
    """Empty, since there are no fixtures. Plugins look for it, and pytest-lsp 1.0.1 fails items without it."""

    def __init__(self, *, suite: Suite, case: Case, **rest: Any) -> None:
        super().__init__(**rest)
        self._suite, self._case = suite, case

    def runtest(self) -> None:
        from datalog_gate.base.errors import GateError

        try:
            report = self._suite.report(self._case)
        except GateError as error:
            report = str(error)
        if report:
            pytest.fail(report, pytrace=False)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self._case.line - 1, self.name
