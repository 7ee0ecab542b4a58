"""Writing test files: new cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from datalog_gate.doors.cli.main import main
from datalog_gate.policytest.editor import add_case
from datalog_gate.policytest.suite import read_suite

RULES = """
@deny("flavor", "{server} takes {flavor}")
huge(server, flavor) :- os:nova:server(_id=server, flavor=flavor), flavor = "huge".
@warn("name", "{server} has none")
nameless(server) :- os:nova:server(_id=server, name=null).
"""
STACK = """\
heat_template_version: 2018-08-31
parameters: {flavor: {type: string}}
resources:
  web: {type: "OS::Nova::Server", properties: {name: web, flavor: huge}}
  db: {type: "OS::Nova::Server", properties: {flavor: {get_param: flavor}}}
"""
START = """\
# What comes first stays.
cases:
  - name: one   # as it is
    stack: web.yaml
    expect:
"""
WEB, DB = "{policy: flavor, resource: web, line: 4}", "{policy: name, resource: db, line: 5}"
MAYBE = "{policy: flavor, resource: db, line: 5}"
ALL = f"      violations:\n        - {WEB}\n        - {DB}\n      undetermined:\n        - {MAYBE}\n"
FILES = {"flavor.dl": RULES, "web.yaml": STACK}


@pytest.mark.parametrize(
    ("before", "head", "indent"),
    [
        ("", "cases:\n", "  "),
        ("# Ours.\n", "# Ours.\ncases:\n", "  "),
        (START + ALL, START + ALL + "\n", "  "),
        ("cases:\n- name: one\n  stack: web.yaml\n  expect: {}\n# end\n",
         "cases:\n- name: one\n  stack: web.yaml\n  expect: {}\n# end\n\n", ""),
    ],
)  # fmt: skip
def test_a_case_is_written_behind_the_others(folder: Path, before: str, head: str, indent: str) -> None:
    (folder / "test.yaml").write_text(f"{START}{ALL}")
    suite = read_suite(folder / "test.yaml")
    findings = suite.run(suite.cases[0]).findings
    lines = ["- name: web", "  stack: web.yaml", "  expect:", *(line[2:] for line in ALL.splitlines())]
    text = "".join(f"{indent}{line}\n" for line in lines)
    assert add_case(before, "test.yaml", "web", {"stack": "web.yaml"}, findings) == head + text


def test_the_command_begins_a_test_file_that_passes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--init", "web.yaml", "."]) == 0
    written = (folder / "test.yaml").read_text()
    assert (capsys.readouterr().out, written) == (
        written,
        f"cases:\n  - name: web\n    stack: web.yaml\n    expect:\n{ALL}",
    )
    suite = read_suite(folder / "test.yaml")
    assert [suite.report(case) for case in suite.cases] == [""]
    assert main(["test", "--init", "web.yaml", "."]) == 64
    assert main(["test", "--init", "web.yaml", ".."]) == 64
    assert main(["test", "--init", "nowhere.yaml", "."]) == 3
    assert (folder / "test.yaml").read_text() == written


def test_a_new_case_expects_what_check_finds_also_by_rules_in_folders_below(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep/name.dl").write_text('@deny("named", "{s}")\nnamed(s) :- os:nova:server(_id=s, name="w").\n')
    (folder / "own.yaml").write_text(
        "heat_template_version: 2018-08-31\n"
        "resources: {web: {type: OS::Nova::Server, properties: {name: w, flavor: tiny, image: i}}}\n"
    )
    assert main(["test", "--init", "own.yaml", "."]) == 0
    assert (folder / "test.yaml").read_text() == (
        "cases:\n  - name: own\n    stack: own.yaml\n    expect:\n      violations:\n"
        "        - {policy: named, resource: web, line: 2}\n"
    )
    suite = read_suite(folder / "test.yaml")
    assert [suite.report(case) for case in suite.cases] == [""]
