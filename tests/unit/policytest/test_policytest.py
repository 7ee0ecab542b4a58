"""Policy test files: reading, comparing and running."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path
from textwrap import dedent

import pytest

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError
from datalog_gate.base.values import ResourceId
from datalog_gate.doors.cli.main import main
from datalog_gate.policytest.comparison import CaseFinding, CaseResult, flow, report
from datalog_gate.policytest.suite import read_suite, run, top_folder
from datalog_gate.policytest.testfile import Case, read_cases
from datalog_gate.stack.model import Live
from datalog_gate.template.document import read_document

FLAVOR = """
@deny("flavor", "{server} takes {flavor}")
huge(server, flavor) :- os:nova:server(_id=server, flavor=flavor), flavor = "huge".
"""
NAMELESS = """
@warn("nameless", "{server} has no name")
nameless(server) :- os:nova:server(_id=server, name=null).
"""
STACK = """
heat_template_version: 2018-08-31
parameters: {flavor: {type: string, default: huge}}
resources:
  web:
    type: OS::Nova::Server
    properties: {image: debian-12, flavor: {get_param: flavor}}
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
    return folder


def case(expect: str, more: str = "", stack: str = "../../web") -> str:
    return f"cases:\n  - name: one\n    stack: {stack}\n    expect: {expect}\n{more}"


def pack(folder: Path, test: str) -> Path:
    """A pack of two folders with a policy each, a test file in the first, and a stack beside."""
    files = {"rules/a/flavor.dl": FLAVOR, "rules/b/name.dl": NAMELESS, "web/template.yaml": STACK}
    return write(folder, {**files, "rules/a/test.yaml": test}) / "rules/a/test.yaml"


def at(line: int) -> Span:
    return Span("web.yaml", line, 5, line, 9)


WEB = CaseFinding("violations", "p", at(3), "web is bad", ResourceId("s/web"))
DB = CaseFinding("violations", "p", at(3), "db is bad", ResourceId("s/db"))
WHOLE = CaseFinding("violations", "q", None, "too many")
MAYBE = CaseFinding("undetermined", "p", at(4), "web may be bad", ResourceId("s/web"))
BAD = CaseFinding("diagnostics", "yaml", at(1), "this is not YAML")


@pytest.mark.parametrize(
    ("expect", "findings", "expected"),
    [
        ({}, [], ""),
        ({"violations": [{"policy": "p", "resource": "web", "line": 3}]}, [WEB], ""),
        ({"violations": [{"policy": "p", "resource": "s/web"}]}, [WEB], ""),
        ({"violations": [{"policy": "p"}, {"policy": "p", "resource": "web"}]}, [WEB, DB], ""),
        ({"undetermined": [{"policy": "p"}], "diagnostics": [{"code": "yaml", "line": 1}]}, [MAYBE, BAD], ""),
        ({}, [WEB, MAYBE], "  + violations: {policy: p, resource: web, line: 3}\n      web is bad\n"
                           "  + undetermined: {policy: p, resource: web, line: 4}\n      web may be bad"),
        ({"violations": [{"policy": "p", "resource": "db", "line": 4}]}, [WEB, DB],
         "  - violations: {policy: p, resource: db, line: 4}\n  + violations: {policy: p, resource: db, line: 3}\n"
         "      line: 3, not 4\n      db is bad\n"
         "  + violations: {policy: p, resource: web, line: 3}\n      web is bad"),
        ({"violations": [{"policy": "p", "resource": "s/x", "line": 4}]}, [WEB],
         "  - violations: {policy: p, resource: s/x, line: 4}\n  + violations: {policy: p, resource: web, line: 3}\n"
         "      resource: web, not s/x\n      line: 3, not 4\n      web is bad"),
        ({"violations": [{"policy": "p", "resource": "web"}] * 2}, [WEB],
         "  - violations: {policy: p, resource: web}"),
        ({"violations": [{"policy": "r"}]}, [WHOLE],
         "  - violations: {policy: r}\n  + violations: {policy: q}\n      too many"),
        ({"diagnostics": [{"code": "yaml", "line": 2}]}, [BAD],
         "  - diagnostics: {code: yaml, line: 2}\n  + diagnostics: {code: yaml, line: 1}\n"
         "      line: 1, not 2\n      this is not YAML"),
    ],
)  # fmt: skip
def test_each_expectation_is_met_by_one_finding_of_its_own(
    expect: dict[str, object], findings: list[CaseFinding], expected: str
) -> None:
    assert report(expect, CaseResult(tuple(findings), {}), {}) == expected


def test_rows_are_compared_as_sets() -> None:
    expect = {"rows": {"m:r": [["b", 2], ["a", None]], "m:s": [], "m:t": [[1]]}}
    rows: dict[str, list[list[object]]] = {"m:r": [["a", None], ["c", 3]], "m:s": []}
    assert report(expect, CaseResult((), rows), {}).splitlines() == [
        '  - rows: m:r: ["b", 2]',
        '  + rows: m:r: ["c", 3]',
        "  - rows: m:t: nothing derives it: write its full name, such as net:ssh:open_ssh; it may also take too much",
        "  - rows: m:t: [1]",
    ]


@pytest.mark.parametrize("text", ["web", "a/b-1.c_d", "on", "Null", "0", "a: b", "#", "", "10.0.0.0/8", "é", "a b"])
def test_what_is_written_in_one_line_is_read_again_as_it_was(text: str) -> None:
    data = {"policy": text, "line": 3, text: [text, None, True]}
    assert read_document(f"all: {flow(data)}", "f.yaml").data == {"all": data}


def test_a_case_holds_paths_and_times_and_an_inline_template_keeps_its_lines(tmp_path: Path) -> None:
    text = """
    cases:
      - name: files
        stack: ../web
        inventory: cloud.jsonl
        now: 2027-03-01T12:00
        expect: {}
      - name: inline
        against: {heat_template_version: 2018-08-31}
        stack:
          resources:   # none
            {}
        expect: {violations: []}
    """
    write(tmp_path, {"test.yaml": text})
    files = {"stack": tmp_path / "../web", "inventory": tmp_path / "cloud.jsonl", "now": datetime(2027, 3, 1, 12)}
    against = "\n" * 7 + " " * 13 + "{heat_template_version: 2018-08-31}\n"
    stack = "\n" * 9 + " " * 6 + "resources:   # none\n        {}\n    \n"
    assert read_cases(tmp_path / "test.yaml") == (
        Case("files", 2, files, {}),
        Case("inline", 7, {"against": against, "stack": stack}, {"violations": []}),
    )


def test_a_template_that_leans_on_anchors_elsewhere_is_its_data(tmp_path: Path) -> None:
    cases = "- {name: one, stack: {a: &a [1]}, expect: {}}\n- {name: two, stack: {b: *a}, expect: {}}\n"
    write(tmp_path, {"test.yaml": f"cases:\n{cases}"})
    stacks = [read_case.given["stack"] for read_case in read_cases(tmp_path / "test.yaml")]
    assert stacks == ["\n" + " " * 21 + "{a: &a [1]}\n", {"b": [1]}]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[]", [(1, 1, "this must be a mapping of cases", None)]),
        ("cases: []", [(1, 8, "a test file must have at least one case", None)]),
        ("{}", [(1, 1, "`cases` is missing here", None)]),
        ("cases: [{}]", [(1, 9, f"`{key}` is missing here", None) for key in ("expect", "name", "stack")]),
        (case("{violation: [], violations: [{policy: p, rows: 1}, q], rows: [], diagnostics: [{line: yes}]}"),
         [(4, 14, "there is no key `violation` here", "did you mean violations?"),
          (4, 54, "there is no key `rows` here", "one of policy, resource, line, change"),
          (4, 64, "this must be a mapping of policy, resource, line, change", None),
          (4, 74, "`rows` must be a mapping", None),
          (4, 92, "`code` is missing here", None),
          (4, 99, "`line` must be a number", None)]),
        (case("{}", "    services: [1]\n    now: noon\n    stak: x\n", "7"),
         [(3, 12, "`stack` must be a string or a mapping", None),
          (5, 16, "this must be a string", None),
          (6, 10, "`now` must be an ISO time like 2027-03-01T12:00", None),
          (7, 5, "there is no key `stak` here", "did you mean stack?")]),
        (case("{}", "    modules: {base: 1}\n"), [(5, 21, "`base` must be a string or a mapping", None)]),
    ],
)  # fmt: skip
def test_everything_wrong_in_a_test_file_is_reported_with_its_place(
    tmp_path: Path, text: str, wrong: list[tuple[object, ...]]
) -> None:
    (tmp_path / "test.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_cases(tmp_path / "test.yaml")
    diagnostics = [
        (diagnostic.span.line, diagnostic.span.column, diagnostic.message, diagnostic.suggestion)
        for diagnostic in caught.value.diagnostics
        if diagnostic.span
    ]
    assert diagnostics == wrong
    assert {diagnostic.code for diagnostic in caught.value.diagnostics} == {"bad-test"}


@pytest.mark.parametrize(
    ("folder", "top"),
    [("x/rules/net/deep", "x/rules"), ("x/rules", "x/rules"), ("pack/net", "pack"), ("pack/net/deep", "pack/net/deep")],
)
def test_the_rules_are_those_of_the_nearest_folder_named_rules_or_of_a_chain_of_rule_files(
    tmp_path: Path, folder: str, top: str
) -> None:
    write(tmp_path, {"pack/a.dl": "", "pack/net/deep/b.dl": "", "x/rules/net/deep/c.dl": ""})
    assert top_folder(tmp_path / folder) == tmp_path / top


@pytest.mark.slow
def test_a_run_over_a_folder_takes_it_for_the_top_of_the_packs(tmp_path: Path) -> None:
    write(tmp_path, {"packs/b/lib.dl": FLAVOR + "export near. near(1).", "packs/a/p.dl": "far(x) :- b:lib:near(x).",
                     "web/template.yaml": STACK, "packs/a/test.yaml": case("{rows: {a:p:far: [[1]]}}")})  # fmt: skip
    assert [run([str(tmp_path / folder)]) for folder in ("packs", "packs/a")] == [0, 2]


PROJECT = {
    "datalog-gate.toml": 'rules = ["own", "vendor"]\ncatalogue = ["types.json"]\n',
    "types.json": '{"source": "s", "My::Server": {"relation": "my:server", "properties": {}, "attributes": {}}}',
    "own/app/web.dl": '@deny("app.web", "{x}")\np(x) :- my:server(_id=x), sizes:large(x).\n',
    "own/app/test.yaml": "cases:\n  - name: n\n    stack: {heat_template_version: wallaby, resources: "
    "{w: {type: My::Server}}}\n    expect: {violations: [{policy: app.web}]}\n",
    "vendor/sizes.dl": "export large.\nlarge(x) :- heat:resource(id=x).\n",
}


def test_a_folder_without_tests_is_told_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(tmp_path)]) == 3
    assert capsys.readouterr().err == f"error[bad-test] there is no test.yaml beside rules: {tmp_path}\n"


@pytest.mark.parametrize("arguments", [pytest.param((), marks=pytest.mark.slow), ("--mutate",)])
def test_cases_are_judged_by_all_rules_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(write(tmp_path, PROJECT))
    assert main(["test", "own/app", *arguments]) == 0


@pytest.mark.parametrize(
    ("test", "first"),
    [
        (case("{violations: [{policy: flavor, resource: web, line: 2}]}"), ""),
        (case("{violations: []}"), "+ violations: {policy: flavor, resource: web, line: 2}"),
        (case("{}", "    environment: {parameters: {flavor: small}}\n"), ""),
        (case("{}", "    action: delete\n"), ""),
        (case("{rows: {a:flavor:huge: [[web/web, huge]]}, violations: [{policy: flavor}]}"), ""),
        (case("{diagnostics: [{code: not-a-template, line: 3}]}", stack="{a: 1}"), ""),
        (case("{}", stack="{a: 1}"),
         "+ diagnostics: {code: not-a-template, line: 3}"),
        (case("{violations: [{policy: flavor, resource: w, line: 3}]}",
              stack='{heat_template_version: 2018-08-31, resources: {w: {type: "OS::Nova::Server", '
                    "properties: {flavor: huge}}}}"), ""),
        (case("{undetermined: [{policy: flavor, resource: w}]}",
              stack="{heat_template_version: 2018-08-31, parameters: {p: {type: string}}, "
                    'resources: {w: {type: "OS::Nova::Server", properties: {flavor: {get_param: p}}}}}'), ""),
    ],
)  # fmt: skip
def test_a_case_compares_the_findings_of_its_own_folders_policies(tmp_path: Path, test: str, first: str) -> None:
    suite = read_suite(pack(tmp_path, test))
    assert [suite.report(case).partition("\n")[0].strip() for case in suite.cases] == [first]


def test_a_case_says_how_heat_has_resources(tmp_path: Path) -> None:
    stacks = "{vm: {type: OS::Nova::Server, properties: {flavor: m1.small}}}"
    cells = "{far/vm: {id: s-1, status: UPDATE_FAILED, updated: 2027-03-01T12:00:00Z}, stack/vm: {id: s-2}}"
    more = f"    modules: {{far: {{heat_template_version: 2018-08-31, resources: {stacks}}}}}\n    live: {cells}\n"
    file = pack(tmp_path, case("{}", more, stack=f"{{heat_template_version: 2018-08-31, resources: {stacks}}}"))
    suite = read_suite(file)
    assert [stack.live for stack in suite.stacks(suite.cases[0])] == [
        (Live(ResourceId("stack/vm"), "CREATE", "COMPLETE", "s-2"),),
        (Live(ResourceId("far/vm"), "UPDATE", "FAILED", "s-1", "2027-03-01T12:00:00Z"),),
    ]
    file = pack(tmp_path, case("{}", "    live: {web: {id: s-1}, far/vm: {}}\n"))
    suite = read_suite(file)
    assert [(found.name, found.message) for found in suite.run(suite.cases[0]).findings] == [
        ("bad-test", "web, far/vm of `live` is in no stack of the case")
    ]


def test_modules_are_judged_with_the_stack_and_files_with_the_environments_of_their_names(tmp_path: Path) -> None:
    modules = "    modules: {far: ../../web/a.yaml, near: {heat_template_version: 2018-08-31, resources: {}}}\n"
    rows = "{rows: {a:all:is: [[a, small], [far, small]]}}"
    file = pack(tmp_path, case(rows, modules, stack="../../web/a.yaml"))
    write(file.parent, {"all.dl": "is(s, v) :- heat:parameter(stack=s, value=v)."})
    write(tmp_path, {"web/a.yaml": STACK, "web/a.env": "parameters: {flavor: small}"})
    suite = read_suite(file)
    assert [suite.report(case) for case in suite.cases] == [""]


@pytest.mark.slow
def test_a_case_fails_where_a_policy_takes_too_much(tmp_path: Path) -> None:
    file = pack(tmp_path, case("{rows: {a:bomb:p: []}}"))
    numbers = " ".join(f"n({at})." for at in range(101))
    write(file.parent, {"bomb.dl": f'@deny("bomb", "")\np(x, y, z) :- n(x), n(y), n(z).\n{numbers}\n'})
    suite = read_suite(file)
    assert [line.partition(" facts")[0] for line in suite.report(suite.cases[0]).splitlines()] == [
        "  + diagnostics: {code: budget, line: 2}",
        "      bomb: more than 1,000,000",
        "  + diagnostics: {code: budget, line: 2}",
        "      flavor: more than 1,000,000",
        "  - rows: a:bomb:p: nothing derives it: write its full name, such as net:ssh:open_ssh; it may also take "
        "too much",
    ]


def test_a_folder_without_a_policy_tests_rows_or_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"rules/b/p.dl": FLAVOR, "rules/a/lib.dl": "near(1).", "rules/a/test.yaml": case("{}", stack="x")})
    with pytest.raises(InputError) as caught:
        read_suite(tmp_path / "rules/a/test.yaml")
    message = f"no rule file beside {tmp_path}/rules/a/test.yaml contains a policy, so its cases would test nothing"
    assert [diagnostic.message for diagnostic in caught.value.diagnostics] == [message]
    write(tmp_path, {"web/template.yaml": STACK, "rules/a/test.yaml": case("{rows: {a:lib:near: [[1]]}}")})
    suite = read_suite(tmp_path / "rules/a/test.yaml")
    assert [suite.report(case) for case in suite.cases] == [""]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"rules/a/test.yaml": "cases: 1"}, 3),
        ({"rules/a/test.yaml": case("{}"), "rules/b/name.dl": "p("}, 2),
        ({"rules/other/test.yaml": "this is: somebody else's", "rules/test_python.py": "def test_no(): assert 0"}, 3),
    ],
)
def test_a_run_answers_with_the_exit_codes_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], code: int
) -> None:
    pack(tmp_path, "")
    (tmp_path / "rules/a/test.yaml").unlink()
    monkeypatch.chdir(write(tmp_path, files))
    assert (main(["test", "rules"]), run(["nowhere"])) == (code, 3)


@pytest.mark.slow
def test_a_failing_case_is_shown_with_its_place_and_without_a_traceback(tmp_path: Path) -> None:
    pack(tmp_path, case("{}"))
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", "-rN", "--tb=short", "-p", "no:cacheprovider", "rules"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    heading, difference = [line for line in process.stdout.splitlines() if "one" in line or "  + " in line]
    assert heading.strip("_ ") == "one"
    assert difference == "  + violations: {policy: flavor, resource: web, line: 2}"


def test_the_plugin_imports_nothing_of_the_package_before_there_is_a_policy_test() -> None:
    program = (
        "import sys, datalog_gate.policytest.pytest_plugin\n"
        "print(*sorted(m for m in sys.modules if m[:8] == 'datalog_'))"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout.split() == [
        "datalog_gate",
        "datalog_gate.policytest",
        "datalog_gate.policytest.pytest_plugin",
    ]


KEYS = """
@deny("caller", "{project} may not")
guest(project) :- gate:caller(project=project), not gate:role("admin").
@deny("action", "no {action}", on=["delete"])
asked(action) :- gate:request(action=action).
@deny("late", "it is {now}")
late(now) :- gate:now(time=now), datetime_gt(now, "2027-01-01").
@deny("service", "{service} is on")
enabled(service) :- gate:service(name=service).
@deny("there", "{name} is there already")
there(name) :- known(name).
relation known(name: string) key(name) "The servers that there are.".
@deny("stale", "{table} was read {s} seconds ago")
stale(table, s) :- gate:inventory_age(table, s), s > 3600.
@unlock("edge")
granted(grant) :- gate:grant(id=grant).
"""
READ = "{gate:inventory: [[nova:servers, 2026-03-01T10:30:00Z, null], [nova:hosts, 2026-03-01T12:00:00+01:00, down]]}"
EMPTY = "{heat_template_version: 2018-08-31}"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", []),
        ("caller: {project: ops, roles: [member]}", ["caller"]),
        ("caller: {project: ops, roles: [admin]}", []),
        ("action: delete", ["action"]),
        ("now: 2027-03-01T12:00", ["late"]),
        ("now: 2026-03-01T12:00:00+01:00", []),
        ("services: [edge]", ["service"]),
        ("inventory: {known: [[web]]}", ["there"]),
        ("inventory: cloud.jsonl", ["there"]),
        (f"now: 2026-03-01T11:30:00Z\n    inventory: {READ}", []),
        (f"now: 2026-03-01T11:30:01Z\n    inventory: {READ}", ["stale"]),
    ],
)
def test_a_case_gives_what_a_request_holds(tmp_path: Path, more: str, expected: list[str]) -> None:
    files = {"rules/keys.dl": KEYS, "rules/cloud.jsonl": '{"relation": "known", "row": ["web"]}\n'}
    case = f"cases:\n  - name: one\n    stack: {EMPTY}\n    now: 2026-03-01T12:00\n    expect: {{}}\n    {more}\n"
    case = case.replace("    now: 2026-03-01T12:00\n", "") if more.startswith("now") else case
    suite = read_suite(write(tmp_path, {**files, "rules/test.yaml": case}) / "rules/test.yaml")
    assert [finding.name for finding in suite.run(suite.cases[0]).findings] == expected


OLD = STACK.replace("flavor: {get_param: flavor}", "flavor: huge").replace("parameters: {flavor", "parameters: {other")
"""It declares other parameters than the new one."""


@pytest.mark.parametrize(
    ("against", "change"),
    [
        ("../../old", "preexisting"),
        ("../../old/template.yaml", "preexisting"),
        ("{heat_template_version: 2018-08-31}", "introduced"),
        ("../../web", "preexisting"),
        ("../../own", "introduced"),
    ],
    ids=["a folder", "a file", "an inline template", "the environment of the case", "an environment of its own"],
)
def test_a_case_may_give_the_stack_as_it_was(tmp_path: Path, against: str, change: str) -> None:
    more = f"    against: {against}\n    environment: {{parameters: {{flavor: huge}}}}\n"
    files = {
        "old/template.yaml": OLD,
        "own/template.yaml": STACK,
        "own/env.yaml": "parameters: {flavor: small}\n",
        "web/template.yaml": STACK.replace("default: huge", "default: small"),
    }
    file = pack(tmp_path, case(f"{{violations: [{{policy: flavor, change: {change}}}]}}", more))
    write(tmp_path, files)
    suite = read_suite(file)
    assert suite.report(suite.cases[0]) == ""
