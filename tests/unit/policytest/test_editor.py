"""Writing test files: new cases and updated expectations."""

from __future__ import annotations

from pathlib import Path

import pytest

from datalog_gate.base.errors import UsageError
from datalog_gate.doors.cli.main import main
from datalog_gate.policytest.editor import add_case, update_expectations
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
AFTER = """
  # between
  - {name: two, stack: {heat_template_version: 2018-08-31}, expect: {}}   # the end
"""
WEB, DB = "{policy: flavor, resource: web, line: 4}", "{policy: name, resource: db, line: 5}"
MAYBE = "{policy: flavor, resource: db, line: 5}"
ALL = f"      violations:\n        - {WEB}\n        - {DB}\n      undetermined:\n        - {MAYBE}\n"
FILES = {"flavor.dl": RULES, "web.yaml": STACK}


def update(folder: Path, text: str) -> str:
    file = folder / "test.yaml"
    file.write_text(text, newline="")
    suite = read_suite(file)
    return update_expectations(text, "test.yaml", [suite.run(case) for case in suite.cases])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ALL, ALL),
        # found
        ("      {}\n", f"      {{violations: [{WEB}, {DB}], undetermined: [{MAYBE}]}}\n"),
        ("      # why\n      violations: []\n", f"      # why\n{ALL}"),
        (f"      undetermined:\n      - {MAYBE}\n      violations:\n      - policy: name\n        resource: db\n\n",
         f"      undetermined:\n        - {MAYBE}\n      violations:\n        - {{policy: name, resource: db}}\n"
         f"        - {WEB}\n\n"),
        # another value
        (ALL.replace("line: 4}", "line: 3}  # there"), ALL),
        (ALL.replace(WEB, "{policy: flavor, resource: w}"), ALL.replace(WEB, "{policy: flavor, resource: web}")),
        # not found
        (ALL.replace("      undetermined", "        - {policy: name, resource: x}\n      undetermined"), ALL),
        (ALL + "      diagnostics: [{code: yaml}]\n      # kept\n", ALL + "      diagnostics: []\n      # kept\n"),
        # rows
        (ALL + "      rows:\n        flavor:huge:\n        - [web/db, huge]\n        flavor:nameless: [[web/db]]\n",
         ALL + '      rows:\n        "flavor:huge": [[web/web, huge]]\n        "flavor:nameless": [[web/db]]\n'),
    ],
)  # fmt: skip
def test_an_update_changes_only_the_expectations_that_differ(folder: Path, before: str, after: str) -> None:
    assert update(folder, START + before + AFTER) == START + after + AFTER
    assert update(folder, START + before) == START + after
    assert update(folder, START + after) == START + after


def test_what_an_update_could_lose_is_left_to_its_author(folder: Path) -> None:
    text = START + "      &none {}\n  - {name: two, stack: web.yaml, expect: *none}\n"
    with pytest.raises(UsageError, match="must be edited by hand, since it uses anchors"):
        update(folder, text)


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


def test_the_command_shows_an_update_and_writes_it_only_with_yes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, before = folder / "test.yaml", START + ALL.replace("line: 4", "line: 3")
    file.write_text(before)
    assert (main(["test", "--update", "."]), file.read_text()) == (5, before)
    printed = capsys.readouterr()
    assert printed.out.splitlines()[:3] == ["--- test.yaml", "+++ test.yaml", "@@ -4,7 +4,7 @@"]
    assert [line for line in printed.out.splitlines()[3:] if line[0] != " "] == [
        "-        - {policy: flavor, resource: web, line: 3}",
        f"+        - {WEB}",
    ]
    assert printed.err == "datalog-gate: nothing is written: give --yes\n"
    assert (main(["test", "--update", "--yes", "."]), file.read_text()) == (0, START + ALL)
    assert (main(["test", "--update", "."]), file.read_text()) == (0, START + ALL)


@pytest.mark.parametrize("wrong", ["nowhere.yaml", "web.yaml\n    caller: {user: 1}"])
def test_what_cannot_be_judged_is_never_expected(folder: Path, wrong: str) -> None:
    file, before = folder / "test.yaml", (START + ALL).replace("web.yaml", wrong)
    file.write_text(before)
    assert (main(["test", "--update", "--yes", "."]), file.read_text()) == (5, before)
