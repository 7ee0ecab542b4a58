"""The coverage of rules by policy tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from datalog_gate.doors.cli.main import main
from datalog_gate.policytest.coverage import cover
from datalog_gate.policytest.suite import read_suite
from tests.commands import write_files

RULES = """\
@deny("big", "{disk} is big")
big(disk, size) :- sized(disk, size), (size > 100 or kind(disk, kind), kind = "slow", not spared(disk)).
sized(disk, size) :- os:cinder:volume(_id=disk, size=given), size = given ?? 0.
kind(disk, kind) :- os:cinder:volume(_id=disk, volume_type=kind), kind in ["slow", "fast"].
spared(disk) :- os:cinder:volume(_id=disk, description=text), lower(text ?? "", "yes").
"""
CASES = """\
cases:
  - name: none
    stack: &stack
      heat_template_version: 2018-08-31
      parameters:
        size: {type: number, default: 1}
        type: {type: string, default: other}
        spare: {type: string, default: ""}
      conditions: {any: {not: {equals: [{get_param: size}, 0]}}}
      resources:
        disk:
          type: OS::Cinder::Volume
          condition: any
          properties:
            size: {get_param: size}
            volume_type: {get_param: type}
            description: {get_param: spare}
    expect: {}
"""
NEVER = [
    (2, "never derived a row", "size:big"),
    (2, "never false", "sized(disk, size)"),
    (2, "never true", "size > 100"),
    (2, "never true", "kind(disk, kind)"),
    (2, "never true", 'kind = "slow"'),
    (2, "never false", 'kind = "slow"'),
    (2, "never true", "not spared(disk)"),
    (2, "never false", "not spared(disk)"),
    (3, "never false", "os:cinder:volume(_id=disk, size=given)"),
    (4, "never derived a row", "size:kind"),
    (4, "never false", "os:cinder:volume(_id=disk, volume_type=kind)"),
    (4, "never true", 'kind in ["slow", "fast"]'),
    (5, "never derived a row", "size:spared"),
    (5, "never false", "os:cinder:volume(_id=disk, description=text)"),
    (5, "never true", 'lower(text ?? "", "yes")'),
]


def case(name: str, expect: str = "{}", **parameters: object) -> str:
    return (
        f"  - name: {name}\n    stack: *stack\n    expect: {expect}\n"
        f"    environment: {{parameters: {json.dumps(parameters)}}}\n"
    )


BIG = "{violations: [{policy: big}]}"
FILES = {"size.dl": RULES, "test.yaml": CASES}


def gaps(folder: Path, cases: str) -> list[tuple[int, str, str]]:
    (folder / "test.yaml").write_text(CASES + cases)
    coverage = cover([read_suite(folder / "test.yaml")])
    return [(span.line, gap, text) for rule in coverage.rules for span, gap, text in rule.gaps()]


@pytest.mark.parametrize(
    ("cases", "covered"),
    [
        ("", []),
        (case("empty", size=0), [
            (2, "never false", "sized(disk, size)"),
            (3, "never false", "os:cinder:volume(_id=disk, size=given)"),
            (4, "never false", "os:cinder:volume(_id=disk, volume_type=kind)"),
            (5, "never false", 'os:cinder:volume(_id=disk, description=text)'),
        ]),
        (case("big", BIG, size=101), [
            (2, "never derived a row", "size:big"),
            (2, "never true", "size > 100"),
        ]),
        (case("fast", type="fast"), [
            (2, "never true", "kind(disk, kind)"),
            (2, "never false", 'kind = "slow"'),
            (4, "never derived a row", "size:kind"),
            (4, "never true", 'kind in ["slow", "fast"]'),
        ]),
        (case("slow", BIG, type="slow") + case("spared", type="slow", spare="YES"), [
            (2, "never derived a row", "size:big"),
            (2, "never true", "kind(disk, kind)"),
            (2, "never true", 'kind = "slow"'),
            (2, "never true", "not spared(disk)"),
            (2, "never false", "not spared(disk)"),
            (4, "never derived a row", "size:kind"),
            (4, "never true", 'kind in ["slow", "fast"]'),
            (5, "never derived a row", "size:spared"),
            (5, "never true", 'lower(text ?? "", "yes")'),
        ]),
    ],
)  # fmt: skip
def test_a_case_shows_what_it_makes_true_and_false(
    folder: Path, cases: str, covered: list[tuple[int, str, str]]
) -> None:
    assert gaps(folder, cases) == [gap for gap in NEVER if gap not in covered]


def test_all_can_be_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = case("empty", size=0) + case("big", BIG, size=101) + case("fast", type="fast")
    cases += case("slow", BIG, type="slow") + case("spared", type="slow", spare="yes")
    assert gaps(folder, cases) == []
    assert main(["test", "--min-coverage", "100", "."]) == 0
    assert capsys.readouterr().out == "100.0 %  big\n100.0 %  of what a test could show of 4 rules\n"


def test_rules_that_a_policy_rests_on_count_wherever_they_stand(tmp_path: Path) -> None:
    library = "export wide, idle.\nwide(disk) :- os:cinder:volume(_id=disk, size=1).\nidle(disk) :- wide(disk).\n"
    policy = '@deny("wide", "{disk}")\nbad(disk) :- lib:disks:wide(disk).\n'
    case = CASES.replace("expect: {}", "expect: {violations: [{policy: wide}]}")
    files = {"lib/disks.dl": library, "ours/wide.dl": policy, "ours/test.yaml": case}
    coverage = cover([read_suite(write_files(tmp_path / "rules", files) / "ours" / "test.yaml")])
    assert [(rule.relation, rule.policies, rule.derived) for rule in coverage.rules] == [
        ("lib:disks:wide", ("wide",), True),
        ("ours:wide:bad", ("wide",), True),
    ]


@pytest.mark.usefixtures("folder")
def test_the_command_says_what_is_missing_and_exits_with_5_below_the_least(capsys: pytest.CaptureFixture[str]) -> None:
    assert [main(["test", "--coverage", *more, "."]) for more in ([], ["--min-coverage", "41"])] == [0, 5]
    lines = [f"size.dl:{line}: {gap}: {text}" for line, gap, text in NEVER]
    report = "\n".join([*lines, " 40.0 %  big", " 40.0 %  of what a test could show of 4 rules\n"])
    assert capsys.readouterr().out == report * 2
    assert main(["test", "--coverage", "--format", "json", "."]) == 0
    data = json.loads(capsys.readouterr().out)
    listed = data.pop("gaps")
    assert [(gap["place"]["line"], gap["gap"], gap["text"]) for gap in listed] == NEVER
    assert data == {"schema": "datalog-gate/coverage/1", "percent": 40.0, "policies": {"big": 40.0}}


def test_what_fails_is_not_measured(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "test.yaml").write_text(CASES + case("big", size=101))
    assert [main(["test", option, "."]) for option in ("--coverage", "--mutate")] == [5, 5]
    printed = capsys.readouterr()
    assert (printed.out, printed.err.splitlines()[1::3][:1]) == (
        "",
        ["  + violations: {policy: big, resource: disk, line: 15}"],
    )


@pytest.mark.usefixtures("folder")
def test_the_command_lists_what_no_case_notices(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["test", "--mutate", "--seed", "3", "--mutants", "2"]
    assert [main([*chosen, *more, "."]) for more in ([], ["--min-score", "1"])] == [0, 5]
    changes = {2: "100 -> 101", 5: 'swap text ?? "" and "yes"'}
    lines = [f"size.dl:{line}: survived: {change}" for line, change in changes.items()]
    text = "\n".join([*lines, "2 mutants, 0 noticed, 2 survived", "  0.0 %\n"])
    assert capsys.readouterr().out == text * 2
    assert main([*chosen, "--format", "json", "."]) == 0
    data = json.loads(capsys.readouterr().out)
    survivors = [
        (survivor["place"]["line"], survivor["change"], survivor["agrees"]) for survivor in data.pop("survivors")
    ]
    assert survivors == [(line, change, False) for line, change in changes.items()]
    assert data == {"schema": "datalog-gate/mutation/1", "mutants": 2, "stacks": 0, "score": 0.0}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--coverage", ".", "--", "-k", "ssh"], "test: -k ssh is an option of pytest, which is not run here"),
        (["--mutate", ".", "--agree-on", "no"], "--agree-on no: there is no template that can be read"),
        (["--init", "web.yaml"], "test --init: give exactly one folder of rules, the one that the case is for"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["test", *arguments]), capsys.readouterr().err) == (64, f"datalog-gate: {message}\n")
