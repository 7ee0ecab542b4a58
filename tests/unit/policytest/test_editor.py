"""Writing test files: new cases."""

from __future__ import annotations

from pathlib import Path

import pytest

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
