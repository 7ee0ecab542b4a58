"""The reports of failed cases, by the command and by pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import Any
from xml.etree import ElementTree

import pytest

from datalog_gate.policytest.suite import read_suite
from tests.commands import write_files
from tests.pages import GOLDEN, assert_written
from tests.unit.policytest.test_policytest import FLAVOR

ROOT = Path(__file__).parents[3]
STACKS = ROOT / "fixtures" / "stacks"
OPEN = """
stack:
  heat_template_version: 2018-08-31
  parameters: {from: {type: string}}
  resources:
    ops:
      type: OS::Neutron::SecurityGroup
      properties:
        rules: [{protocol: tcp, port_range_min: 22, port_range_max: 22, remote_ip_prefix: {get_param: from}}]
"""
BROKEN = {
    "another-line": "stack: STACKS/bastion\n"
    "expect: {violations: [{policy: net.open_ssh, resource: bastion_sg, line: 18}]}",
    "missing": "stack: STACKS/edge_portal\nservices: [edge]\n"
    "expect:\n"
    "  violations:\n"
    "    - {policy: net.floating_ip, resource: portal_address}\n"
    "    - {policy: net.floating_ip, resource: admin_address}\n"
    "    - {policy: net.floating_ip, resource: spare_link}\n"
    "    - {policy: net.open_ssh}\n",
    "undetermined": f"{OPEN}expect: {{violations: [{{policy: net.open_ssh, resource: ops}}]}}",
    "rows": "stack: STACKS/router_pair\n"
    "expect:\n"
    "  violations: [{policy: net.security_group, line: 44}, {policy: net.security_group, resource: router_2}]\n"
    "  rows: {net:security_group:bare_server: [[router_pair/router_1, eth0]], net:ssh:open: []}\n",
    "unreadable": "stack: {heat_template_version: 2018-08-31, resource: {}}\n"
    "expect: {violations: [{policy: net.open_ssh}]}",
}  # fmt: skip


def packs(folder: Path, case: str) -> Path:
    """The network policies in a folder of their own, with one case."""
    (folder / "rules" / "net").mkdir(parents=True)
    for file in (ROOT / "rules" / "net").glob("*.dl"):
        (folder / "rules" / "net" / file.name).write_text(file.read_text("utf-8"), "utf-8")
    test = folder / "rules" / "net" / "test.yaml"
    body = indent(case.replace("STACKS", str(STACKS)), "    ")
    test.write_text(f"cases:\n  - name: a case\n{body}\n", "utf-8")
    return test


@pytest.mark.parametrize("name", BROKEN)
def test_a_failure_is_shown_as_what_differs_and_why(name: str, tmp_path: Path) -> None:
    suite = read_suite(packs(tmp_path, BROKEN[name]))
    reports = "".join(f"{suite.report(case)}\n" for case in suite.cases)
    assert_written(GOLDEN / "policytest" / f"{name}.txt", reports.replace(f"{tmp_path}/", "").replace(f"{ROOT}/", ""))


MIXED = """
cases:
  - name: ssh is refused
    stack: &stack
      heat_template_version: 2018-08-31
      resources: {web: {type: "OS::Nova::Server", properties: {flavor: huge}}}
    expect: {violations: [{policy: flavor, resource: web}]}
  - name: nothing is
    stack: *stack
    expect: {}
  - name: deleting is not judged
    stack: *stack
    action: delete
    expect: {}
"""


def outcomes(file: Path) -> dict[tuple[str, str], str]:
    """How each test of a JUnit file came out."""
    failures = {}
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        failed = next((child.get("message") or child.text for child in case if child.tag != "properties"), "")
        failures[case.attrib["classname"], case.attrib["name"]] = failed or ""
    return failures


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return write_files(tmp_path, {"rules/flavor.dl": FLAVOR, "rules/test.yaml": MIXED})


def slowly(*values: object) -> Any:
    """A case that starts one more process and covers part of what another case covers."""
    return pytest.param(*values, marks=pytest.mark.slow)


COMMAND = ("-m", "datalog_gate.doors.cli.main", "test")
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.slow
def test_pytest_and_the_command_agree_case_by_case(tmp_path: Path, mixed: Path) -> None:
    for folder, fails in ((ROOT, 0), (mixed, 1)):
        own, theirs = tmp_path / "own.xml", tmp_path / "theirs.xml"
        codes = (
            run(folder, *COMMAND, "rules", "--", f"--junitxml={own}").returncode,
            run(folder, *PYTEST, f"--junitxml={theirs}", "rules").returncode,
        )
        assert (codes, outcomes(own)) == ((5, 1) if fails else (0, 0), outcomes(theirs))
        assert sum(map(bool, outcomes(own).values())) == fails


@pytest.mark.parametrize(
    ("options", "code", "names"),
    [
        (["-k", "ssh"], 0, ["ssh is refused"]),
        slowly(["-k", "nothing"], 5, ["nothing is"]),
        slowly(["-n", "2"], 5, ["deleting is not judged", "nothing is", "ssh is refused"]),
        slowly(["-k", "ssh or deleting", "-n", "2"], 0, ["deleting is not judged", "ssh is refused"]),
        slowly(["-x", "-k", "nobody"], 3, []),
        slowly(["--no-such-option"], 64, None),
    ],
)
def test_the_command_takes_options_of_pytest(
    mixed: Path, options: list[str], code: int, names: list[str] | None
) -> None:
    process = run(mixed, *COMMAND, "rules", "--", *options, "--junitxml=out.xml")
    tests = sorted(name for _, name in outcomes(mixed / "out.xml")) if names is not None else None
    assert (process.returncode, tests) == (code, names), process.stdout + process.stderr


@pytest.mark.parametrize("options", [(), slowly(("--", "-n", "2"))])
@pytest.mark.parametrize(("file", "code"), [slowly("flavor.dl", 2), slowly("test.yaml", 3)])
def test_unreadable_input_has_its_own_exit_code(mixed: Path, file: str, code: int, options: tuple[str, ...]) -> None:
    (mixed / "rules" / file).write_text("p(")
    assert run(mixed, *COMMAND, "rules", *options).returncode == code


@pytest.mark.slow
def test_an_editor_finds_a_case_by_its_node_and_its_line(mixed: Path) -> None:
    node = "rules/test.yaml::nothing is"
    assert run(mixed, *PYTEST, "--collect-only", "rules").stdout.splitlines()[1] == node
    process = run(mixed, *PYTEST, "-o", "junit_family=xunit1", "--junitxml=out.xml", node)
    (case,) = ElementTree.parse(mixed / "out.xml").getroot().iter("testcase")
    assert (process.returncode, case.attrib["file"], case.attrib["line"]) == (1, "rules/test.yaml", "7")
    assert run(mixed, *COMMAND, node).returncode == 5
