"""Mutation testing: the mutants of rules and their survivors."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from datalog_gate.doors.cli.main import main
from datalog_gate.language.parser import parse
from datalog_gate.language.printer import print_module
from datalog_gate.policytest.mutation import mutate, mutate_module
from datalog_gate.policytest.suite import read_suite
from tests.commands import write_files

NEVER = "drop the rule"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('p("a", 1).', {
            'p("a", 1) :- false.': NEVER,
            'p("ax", 1).': '"a" -> "ax"',
            'p("a", 2).': "1 -> 2",
        }),
        ("p(x) :- q(x, y), not r(y, true).", {
            "p(x) :- false.": NEVER,
            "p(x) :- not r(y, true).": "drop q(x, y)",
            "p(x) :- not q(x, y), not r(y, true).": "negate q(x, y)",
            "p(x) :- q(y, x), not r(y, true).": "swap x and y",
            "p(x) :- q(x, y).": "drop not r(y, true)",
            "p(x) :- q(x, y), r(y, true).": "negate not r(y, true)",
            "p(x) :- q(x, y), not r(y, false).": "true -> false",
            "p(x) :- q(x, y), not r(y, _).": "true -> anything",
            "p(x) :- q(x, y), not r(true, y).": "swap y and true",
        }),
        ("p(x) :- x ?? 0 > 100.", {
            "p(x) :- false.": NEVER,
            "p(x).": "drop x ?? 0 > 100",
            "p(x) :- x ?? 0 <= 100.": "x ?? 0 > 100 -> x ?? 0 <= 100",
            "p(x) :- x ?? 0 >= 100.": "x ?? 0 > 100 -> x ?? 0 >= 100",
            "p(x) :- x ?? 1 > 100.": "0 -> 1",
            "p(x) :- x ?? 0 > 101.": "100 -> 101",
        }),
        ("p(x) :- (x = null or x in [1, 2], true).", {
            "p(x) :- false.": NEVER,
            "p(x).": "drop (x = null or x in [1, 2], true)",
            "p(x) :- not (x = null or x in [1, 2], true).": "negate (x = null or x in [1, 2], true)",
            "p(x) :- x in [1, 2], true.": "drop the branch x = null",
            "p(x) :- (x != null or x in [1, 2], true).": "x = null -> x != null",
            "p(x) :- x = null.": "drop the branch x in [1, 2], true",
            "p(x) :- (x = null or true).": "drop x in [1, 2]",
            "p(x) :- (x = null or not (x in [1, 2]), true).": "negate x in [1, 2]",
            "p(x) :- (x = null or x in [2], true).": "drop 1",
            "p(x) :- (x = null or x in [1], true).": "drop 2",
            "p(x) :- (x = null or x in [1, 2]).": "drop true",
        }),
        ("p(n) :- n = count{ x : q(x), x < 3 }.", {
            "p(n) :- false.": NEVER,
            "p(n).": "drop n = count{ x : q(x), x < 3 }",
            "p(n) :- n != count{ x : q(x), x < 3 }.":
                "n = count{ x : q(x), x < 3 } -> n != count{ x : q(x), x < 3 }",
            "p(n) :- n = count{ x : x < 3 }.": "drop q(x)",
            "p(n) :- n = count{ x : not q(x), x < 3 }.": "negate q(x)",
            "p(n) :- n = count{ x : q(x) }.": "drop x < 3",
            "p(n) :- n = count{ x : q(x), x >= 3 }.": "x < 3 -> x >= 3",
            "p(n) :- n = count{ x : q(x), x <= 3 }.": "x < 3 -> x <= 3",
            "p(n) :- n = count{ x : q(x), x < 4 }.": "3 -> 4",
        }),
        ('a(x) :- b(x, y), len(f"a{y}") > 3.', {
            "a(x) :- false.": NEVER,
            'a(x) :- len(f"a{y}") > 3.': "drop b(x, y)",
            'a(x) :- not b(x, y), len(f"a{y}") > 3.': "negate b(x, y)",
            'a(x) :- b(y, x), len(f"a{y}") > 3.': "swap x and y",
            "a(x) :- b(x, y).": 'drop len(f"a{y}") > 3',
            'a(x) :- b(x, y), len(f"a{y}") <= 3.': 'len(f"a{y}") > 3 -> len(f"a{y}") <= 3',
            'a(x) :- b(x, y), len(f"a{y}") >= 3.': 'len(f"a{y}") > 3 -> len(f"a{y}") >= 3',
            'a(x) :- b(x, y), len(f"ax{y}") > 3.': 'f"a{y}" -> f"ax{y}"',
            'a(x) :- b(x, y), len(f"a{y}") > 4.': "3 -> 4",
        }),
        ("a(x) :- b(x).\nb(1).", {
            "a(x) :- false.": NEVER,
            "a(x).": "drop b(x)",
            "a(x) :- not b(x).": "negate b(x)",
            "a(x) :- a(x).": "b -> a",
            "b(1) :- false.": NEVER,
            "b(2).": "1 -> 2",
        }),
    ],
)  # fmt: skip
def test_a_rule_has_these_mutants(text: str, expected: dict[str, str]) -> None:
    module, _ = parse(text, "m.dl", "m")
    written = {
        print_module(type(module)("m", "m.dl", (mutant.rule,))).strip(): mutant.what for mutant in mutate_module(module)
    }
    assert written == expected


RULES = """
@deny("big", "{server} is big")
big(server, gigabytes) :- size(server, gigabytes), gigabytes > 100.
size(server, gigabytes) :- os:cinder:volume(_id=server, size=gigabytes), gigabytes != null.
"""
CASES = """
cases:
  - name: one gigabyte more than a hundred
    stack: &stack
      heat_template_version: 2018-08-31
      parameters: {size: {type: number, default: 101}}
      resources: {disk: {type: "OS::Cinder::Volume", properties: {size: {get_param: size}}}}
    expect: {violations: [{policy: big}]}
"""
HUNDRED = """
  - name: a hundred
    stack: *stack
    environment: {parameters: {size: 100}}
    expect: {violations: []}
"""


def survivors(folder: Path, cases: str, **options: object) -> tuple[int, float, list[tuple[int, str]]]:
    write_files(folder / "rules", {"size.dl": dedent(RULES).lstrip(), "test.yaml": cases})
    mutation = mutate([read_suite(folder / "rules" / "test.yaml")], **options)  # type: ignore[arg-type]
    listed = [(mutant.span.line, mutant.what) for mutant in mutation.survivors]
    return mutation.mutants, round(mutation.score), listed


def test_a_mutant_that_no_case_notices_survives(tmp_path: Path) -> None:
    drop, reach = (2, "drop gigabytes > 100"), (2, "gigabytes > 100 -> gigabytes >= 100")
    assert survivors(tmp_path, CASES) == (7, 71, [drop, reach])
    assert survivors(tmp_path, CASES + HUNDRED) == (7, 100, [])


def test_a_waiver_of_another_policy_notices_nothing(tmp_path: Path) -> None:
    (tmp_path / "rules" / "other").mkdir(parents=True)
    other = '@deny("named", "{disk}")\nnamed(disk) :- os:cinder:volume(_id=disk, name="disk").\n'
    (tmp_path / "rules" / "other" / "name.dl").write_text(other)
    before = survivors(tmp_path, CASES)
    waiver = "{id: w, policy: named, subject: disk, owner: ops, reason: why not, expires: 2027-05-01}"
    waived = CASES.replace("    expect:", f"    waivers: [{waiver}]\n    now: 2027-01-01\n    expect:")
    assert survivors(tmp_path, waived) == before


def test_a_limit_that_only_another_policy_reads_notices_nothing(tmp_path: Path) -> None:
    (tmp_path / "rules" / "other").mkdir(parents=True)
    other = 'relation most(n: number).\n@deny("many", "{n}")\nmany(n) :- most(n), n > 5.\n'
    (tmp_path / "rules" / "other" / "number.dl").write_text(other)
    before = survivors(tmp_path, CASES)
    given = '    inventory: {"other:number:most": [[5]]}\n    expect:'
    assert survivors(tmp_path, CASES.replace("    expect:", given)) == before


def test_a_place_that_only_another_policy_gives_notices_nothing(tmp_path: Path) -> None:
    (tmp_path / "rules" / "other").mkdir(parents=True)
    other = '@deny("told", "{id}")\ntold(id) :- heat:nested(id, file), not heat:output(file, "told").\n'
    (tmp_path / "rules" / "other" / "output.dl").write_text(other)
    (_, _, before) = survivors(tmp_path, CASES)
    unread = """
  - name: what is not read may be big
    stack:
      heat_template_version: 2018-08-31
      resources:
        called: {type: "https://example.org/part.yaml"}
        chain: {type: "OS::Heat::ResourceChain", properties: {resources: ["https://example.org/part.yaml"]}}
    expect: {violations: [], undetermined: [{policy: big, line: 14}, {policy: told, line: 14}]}
"""
    (_, _, after) = survivors(tmp_path, CASES + unread)
    assert [survivor for survivor in after if survivor in before] == before


def test_a_seed_chooses_the_same_few_again(tmp_path: Path) -> None:
    chosen = [survivors(tmp_path, CASES, seed=seed, most=3) for seed in (1, 2, 3, 1, 2, 3)]
    assert chosen[:3] == chosen[3:]
    assert {count for count, _, _ in chosen} == {3}


DISK_RULES = """\
@deny("big", "{disk} is big")
big(disk, size) :- sized(disk, size), (size > 100 or kind(disk, kind), kind = "slow", not spared(disk)).
sized(disk, size) :- os:cinder:volume(_id=disk, size=given), size = given ?? 0.
kind(disk, kind) :- os:cinder:volume(_id=disk, volume_type=kind), kind in ["slow", "fast"].
spared(disk) :- os:cinder:volume(_id=disk, description=text), lower(text ?? "", "yes").
"""
DISKS = """\
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
BIG = "  - {name: big, stack: *stack, expect: {}, environment: {parameters: {size: 101}}}\n"
FILES = {"size.dl": DISK_RULES, "test.yaml": DISKS}


def test_what_fails_is_not_measured(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "test.yaml").write_text(DISKS + BIG)
    assert main(["test", "--mutate", "."]) == 5
    printed = capsys.readouterr()
    assert (printed.out, printed.err.splitlines()[1]) == ("", "  + violations: {policy: big, resource: disk, line: 15}")


@pytest.mark.usefixtures("folder")
def test_the_command_lists_what_no_case_notices(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["test", "--mutate", "--seed", "3", "--mutants", "2"]
    assert main([*chosen, "."]) == 0
    changes = {2: "100 -> 101", 5: 'swap text ?? "" and "yes"'}
    lines = [f"size.dl:{line}: survived: {change}" for line, change in changes.items()]
    text = "\n".join([*lines, "2 mutants, 0 noticed, 2 survived", "  0.0 %\n"])
    assert capsys.readouterr().out == text


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mutate", ".", "--", "-k", "ssh"], "test: -k ssh is an option of pytest, which is not run here"),
        (["--init", "bgi", "."], "there is no policy bgi: did you mean big?"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["test", *arguments]), capsys.readouterr().err) == (64, f"datalog-gate: {message}\n")


@pytest.mark.slow
def test_our_own_cases_notice_six_faults_of_seven() -> None:
    files = sorted((Path(__file__).parents[3] / "rules").rglob("test.yaml"))
    assert mutate([read_suite(file) for file in files], seed=1, most=80).score >= 86
