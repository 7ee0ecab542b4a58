"""The command line end to end: output, streams and exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalog_gate.doors.cli.main import main
from tests.commands import write_files
from tests.sampling import sample

RULES = """\
export huge.
@deny("flavor", "{s} takes {f}", hint="take a small one", on=["create", "delete"])
huge(s, f) :- os:nova:server(_id=s, flavor=f), f = "huge".
@warn("image", "{s} runs {i}")
old(s, i) :- os:nova:server(_id=s, image=i), i = "old".
@record("seen", "{s} is there")
seen(s) :- os:nova:server(_id=s, name="seen").
@deny("count", "bad count")
bad(s) :- os:nova:server.metadata(_id=s, _value=text), is_string(text), int(text, n), n > 3.
"""
STACK = """\
heat_template_version: 2018-08-31
parameters: {{f: {{type: string}}}}
resources:
  web:
    type: OS::Nova::Server
    properties: {{image: debian, flavor: small, {more}}}
"""
FILES = {
    "m.dl": RULES,
    "bad.dl": '@deny("p", "bad")\np(s) :- os:nova:server(_id=s, flavour="x"), q(t).\n',
    "none.dl": "p(1).\n",
    "up.dl": RULES.replace('"create"', '"update"'),
    "ok.yaml": STACK.format(more="name: web"),
    "deny.yaml": STACK.format(more="name: web").replace("small", "huge"),
    "warn.yaml": STACK.format(more="name: web").replace("debian", "old"),
    "seen.yaml": STACK.format(more="name: seen"),
    "maybe.yaml": STACK.format(more="name: web").replace("small", "{get_param: f}"),
    "error.yaml": STACK.format(more="metadata: {a: many}"),
    "both.yaml": STACK.format(more="metadata: {a: many}").replace("small", "huge"),
    "empty.yaml": "heat_template_version: 2018-08-31\nresources: {}\n",
    "broken.yaml": "a: [b\n",
    "env.yaml": "parameters: {f: huge}\n",
    "folder/template.yaml": STACK.format(more="name: web").replace("small", "{get_param: f}"),
    "folder/env.yaml": "parameters: {f: small}\n",
    "list.json": "[]",
    "odd.json": '{"roles": "admin"}',
    "rows.jsonl": '{"relation": "r", "row": ["b", 2]}\n{"relation": "r", "row": ["a", null]}\n',
    "bad.jsonl": "x\n",
}
pytestmark = pytest.mark.usefixtures("folder")


def run(command: str) -> int:
    """Run a command whose words have no blanks; return the exit code."""
    try:
        return main(command.split())
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("ok.yaml", 0), ("deny.yaml", 1), ("warn.yaml", 0), ("seen.yaml", 0), ("maybe.yaml", 0), ("error.yaml", 4),
        ("both.yaml", 1), ("empty.yaml", 3), ("broken.yaml", 3), ("absent.yaml", 3),
        ("maybe.yaml -P f=huge", 1), ("maybe.yaml -P f=small --strict-unknown", 0), ("maybe.yaml -e env.yaml", 1),
        ("maybe.yaml -e env.yaml -P f=small", 1), ("ok.yaml -e broken.yaml", 3), ("ok.yaml -P nothing=1", 3),
        ("maybe.yaml --strict-unknown", 4), ("deny.yaml --strict-unknown", 1),
        ("deny.yaml --action delete", 1), ("deny.yaml --action suspend", 0), ("ok.yaml --caller absent.json", 3),
        *[(f"{name}.yaml --fail-on {level}", int(at >= least)) for at, level in enumerate(("deny", "warn", "record"))
          for least, name in enumerate(("deny", "warn", "seen"))],
        ("both.yaml --fail-on never", 0), ("error.yaml --fail-on never", 4), ("maybe.yaml --fail-on record", 0),
        ("deny.yaml --mode warn", 0), ("deny.yaml --mode warn --fail-on deny", 0),
        ("deny.yaml --mode warn --fail-on warn", 1), ("deny.yaml --mode record --fail-on warn", 0),
        ("deny.yaml --mode record --fail-on record", 1), ("error.yaml --mode warn", 0),
        ("ok.yaml deny.yaml", 1), ("error.yaml deny.yaml ok.yaml", 1), ("deny.yaml absent.yaml error.yaml", 3),
        ("error.yaml deny.yaml --engine pydatalog", 1), ("error.yaml --engine both", 4),
        ("ok.yaml error.yaml", 4), ("ok.yaml --inventory bad.jsonl", 3), ("ok.yaml --inventory rows.jsonl", 3),
        ("ok.yaml deny.yaml --together", 1), ("ok.yaml deny.yaml --together --stack-name s", 1),
        ("ok.yaml absent.yaml deny.yaml --together", 3), ("ok.yaml empty.yaml --together", 3),
        ("--module maybe.yaml,env.yaml", 1), ("maybe.yaml --module maybe.yaml,env.yaml --together", 1),
        ("ok.yaml --module maybe.yaml", 0), ("--module ok.yaml,absent.yaml", 3), ("--module ok.yaml,", 64),
        ("--module ,env.yaml", 64), ("--together", 64),
        ("ok.yaml --engine both", 0), ("deny.yaml --engine pydatalog", 1),
        ("absent.yaml --rules bad.dl", 2), ("ok.yaml --rules none.dl", 2), ("ok.yaml --rules absent", 2),
        ("deny.yaml --action update --against deny.yaml", 0), ("deny.yaml --against ok.yaml", 0),
        ("deny.yaml --rules up.dl --against ok.yaml", 1), ("deny.yaml --rules up.dl --against deny.yaml", 0),
        ("warn.yaml --against warn.yaml --fail-on warn", 0), ("warn.yaml --against ok.yaml --fail-on warn", 1),
        ("maybe.yaml --rules up.dl --against maybe.yaml -P f=huge", 0), ("ok.yaml --against absent.yaml", 3),
        ("maybe.yaml --rules up.dl --against folder -P f=huge", 1), ("ok.yaml --against empty.yaml", 0),
        ("ok.yaml deny.yaml --against ok.yaml", 64), ("ok.yaml --together --module deny.yaml --against ok.yaml", 64),
        ("ok.yaml --action delete --against ok.yaml", 64), ("--stack web --against ok.yaml", 64),
        ("absent.yaml --rules bad.dl --action creat", 64), ("absent.yaml --rules bad.dl --output text", 64),
        ("ok.yaml --output yaml=x", 64), ("ok.yaml --output text=absent/x", 64), ("ok.yaml --now yesterday", 64),
        ("ok.yaml --now 0001-01-01T00:00+14:00", 64), ("ok.yaml --now 9999-12-31T23:59-14:00", 64),
        ("absent.yaml --caller list.json", 64), ("absent.yaml --caller odd.json", 64),
        ("ok.yaml --rules bad.dl --caller odd.json", 64), ("ok.yaml --rules bad.dl --caller absent.json", 2),
        ("ok.yaml -P f", 64), ("ok.yaml -P =f", 64), ("ok.yaml --caller list.json", 64), ("ok.yaml --fail-on all", 64),
        ("ok.yaml --rule m.dl", 64), ("ok.yaml --stric", 64), ("", 64), ("--help", 0),
    ],
)  # fmt: skip
def test_check_exits_with_the_code_of_the_contract(command: str, code: int) -> None:
    rules = "" if "--rules" in command else " --rules m.dl"
    assert run(f"check {command}{rules}") == code


@pytest.mark.parametrize("command", ["", "chekc", "facts", "facts ok.yaml --relation os:nova:servr", "query p(x)",
                                     "facts ok.yaml --format json", "query p(x) --rules m.dl --engine both"],
)  # fmt: skip
def test_other_commands_that_make_no_sense_exit_with_64(command: str) -> None:
    assert run(command) == 64


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("chekc", "datalog-gate: argument COMMAND: invalid choice: 'chekc' (choose from ...)\ndid you mean check?\n"
         "usage: datalog-gate [OPTION]...; --help lists the options\n"),
        ("check ok.yaml --rule=m.dl", "datalog-gate check: unrecognized arguments: --rule=m.dl\ndid you mean --rules?\n"
         "usage: datalog-gate check [OPTION]...; --help lists the options\n"),
        ("diff rules", "datalog-gate diff: the following arguments are required: NEW\n"
         "usage: datalog-gate diff [OPTION]...; --help lists the options\n"),
        ("fmt -x", "datalog-gate fmt: unrecognized arguments: -x\n"
         "usage: datalog-gate fmt [OPTION]...; --help lists the options\n"),
    ],
)  # fmt: skip
def test_wrong_usage_is_said_first(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 64
    out, err = capsys.readouterr()
    assert (out, re.sub(r"choose from .*\)", "choose from ...)", err)) == ("", message)


def test_the_module_and_the_command_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("heat_template_version: 2018-08-31\nresources: {a: {type: 'OS::Heat::None'}}\n")
    words = ["check", "-q", "a.yaml"]
    module = [sys.executable, "-m", "datalog_gate", *words]
    plain = subprocess.run(module, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (plain.returncode, plain.stdout, plain.stderr) == (0, "", "")


@pytest.mark.parametrize("words", [["check", ""], ["check", "ok.yaml", "--rules", ""], ["facts", "ok.yaml", "-e", ""]])
def test_an_empty_argument_is_no_folder(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert (stop.value.code, *capsys.readouterr()) == (
        64,
        "",
        "datalog-gate: an argument is empty: is a variable of the shell unset?\n"
        "usage: datalog-gate [OPTION]...; --help lists the options\n",
    )


TEXT = """\
maybe.yaml:6:41: undetermined[flavor] web takes ?: depends on parameter f
  6 |     properties: {image: debian, flavor: {get_param: f}, name: web}
    |                                         ^^^^^^^^^^^^^^
  unknown  {get_param: f} in maybe   maybe.yaml:2:17
  hint  take a small one
0 denied, 0 warnings, 1 undetermined; 4 policies, ID
"""
DENIED = """\
deny.yaml:6:41: deny[flavor] web takes huge (warn only)
  6 |     properties: {image: debian, flavor: huge, name: web}
    |                                         ^^^^
  hint  take a small one
1 denied, 0 warnings, 0 undetermined; 4 policies, ID
"""
COMPACT = """\
both.yaml:6:41: deny[flavor] web takes huge
both.yaml:6:61: error[count] int('many'): the text is not a number
1 denied, 0 warnings, 0 undetermined, 1 in error; 4 policies, ID
"""


def masked(text: str) -> str:
    """The text without the number of facts, the outcome and the id."""
    return "".join(f"{line.partition('policies, ')[0]}policies, ID\n" if "policies, " in line else f"{line}\n"
                   for line in text.splitlines())  # fmt: skip


@pytest.mark.parametrize(
    ("command", "expected"),
    [("maybe.yaml", TEXT), ("deny.yaml --mode warn", DENIED), ("both.yaml --format compact", COMPACT)],
)
def test_check_shows_each_finding_at_its_place(command: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"check {command} --rules m.dl --output json=out.json --output compact=out.txt")
    printed = capsys.readouterr()
    assert (masked(printed.out), printed.err) == (expected, "")
    end = printed.out.splitlines()[-1]
    decision = json.loads(Path("out.json").read_text())
    assert end.endswith(f"{decision['counts']['facts']} facts; {decision['outcome']}; decision {decision['id'][:6]}")
    assert Path("out.txt").read_text().splitlines()[-1] == end


def test_check_as_json_is_one_object_a_line_for_each_template(capsys: pytest.CaptureFixture[str]) -> None:
    run("check deny.yaml absent.yaml ok.yaml --rules m.dl --format json --output json=out.json")
    printed = capsys.readouterr()
    first, second, third = map(json.loads, printed.out.splitlines())
    assert (first["stacks"], third["stacks"], printed.err) == (["deny"], ["ok"], "")
    assert (first["template"], third["template"]) == ("deny.yaml", "ok.yaml")
    assert second == {
        "template": "absent.yaml",
        "schema": "datalog-gate/diagnostics/1",
        "diagnostics": [{"code": "unreadable", "severity": "error", "place": None, "suggestion": None,
                         "message": "absent.yaml can't be read: No such file or directory"}],
    }  # fmt: skip
    assert list(map(json.loads, Path("out.json").read_text().splitlines())) == [first, second, third]


@pytest.mark.parametrize(
    ("text", "options", "code", "said"),
    [
        (FILES["deny.yaml"].encode(), "--format compact", 1, "-:6:41: deny[flavor] web takes huge"),
        (FILES["deny.yaml"].encode(), "ok.yaml --format json --jobs 2", 1, '{"template": "-", '),
        (b"a: \xff\n", "", 3, "-:1:4: error[encoding] byte 3 of the file is not UTF-8"),
    ],
)
def test_check_reads_standard_input(
    text: bytes, options: str, code: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert run(f"check - {options} --rules m.dl") == code
    printed = capsys.readouterr()
    assert (printed.out or printed.err).splitlines()[0].startswith(said)


def test_together_gives_one_decision_with_distinct_names(capsys: pytest.CaptureFixture[str]) -> None:
    run("check deny.yaml --module maybe.yaml,env.yaml --module deny.yaml --together --rules m.dl --output json=o")
    assert (
        masked(capsys.readouterr().out)
        == """\
deny.yaml:6:41: deny[flavor] deny-2/web takes huge
  6 |     properties: {image: debian, flavor: huge, name: web}
    |                                         ^^^^
  hint  take a small one
deny.yaml:6:41: deny[flavor] deny/web takes huge
  6 |     properties: {image: debian, flavor: huge, name: web}
    |                                         ^^^^
  hint  take a small one
env.yaml:1:17: deny[flavor] maybe/web takes huge
  1 | parameters: {f: huge}
    |                 ^^^^
  hint  take a small one
3 denied, 0 warnings, 0 undetermined; 4 policies, ID
"""
    )
    assert json.loads(Path("o").read_text())["stacks"] == ["deny", "deny-2", "maybe"]


def test_errors_of_all_templates_are_reported_before_they_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    run("check absent.yaml ok.yaml empty.yaml --together --rules m.dl --format compact")
    printed = capsys.readouterr()
    assert (printed.out, [line for line in printed.err.splitlines() if "error" in line]) == ("", [
        "empty.yaml:1:1: error[no-resources] empty.yaml leaves nothing to judge: "
        "it has no resource, or its conditions switch all of them off",
        "error[unreadable] absent.yaml can't be read: No such file or directory",
    ])  # fmt: skip


def test_a_rule_file_that_can_not_be_read_hides_no_error_of_another(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.dl").write_bytes(b"\xff")
    Path("b.dl").write_text("p(x) :- q(x)).\n")
    run("check ok.yaml --rules a.dl --rules b.dl --rules absent.dl")
    assert [line for line in capsys.readouterr().err.splitlines() if "error[" in line] == [
        "a.dl:1:1: error[encoding] byte 0 of the file is not UTF-8",
        "b.dl:1:13: error[syntax] missing `,` or `.` before `)`",
        "error[unreadable] absent.dl can't be read: No such file or directory",
    ]


def test_rules_that_read_a_cloud_without_an_inventory_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.dl").write_text('@deny("c", "m")\np(s) :- nova:servers(id=s), not cinder:volumes(id=s).\n')
    Path("i.jsonl").write_text('{"relation": "nova:servers", "row": {"id": "s"}}\n')
    codes = [run(f"check ok.yaml --rules c.dl --format json {more}") for more in ("", "--inventory i.jsonl")]
    printed = capsys.readouterr()
    assert (codes, [json.loads(line)["outcome"] for line in printed.out.splitlines()]) == ([0, 1], ["allow", "deny"])
    assert printed.err == (
        "warning[no-inventory] the rules read cinder:volumes, nova:servers, but there is no inventory\n"
        "  help  give --inventory FILE.jsonl\n"
        "warning[unfilled] the rules read cinder:volumes, but i.jsonl has no rows of it\n"
        "  help  collect them again, unless the cloud has none\n"
    )


def test_ages_that_the_inventory_does_not_say_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.dl").write_text('@deny("c", "{t}: {s}")\np(t, s) :- gate:inventory_age(t, s), s > 60.\n')
    Path("i.jsonl").write_text('{"relation": "nova:servers", "row": {"id": "s"}}\n')
    Path("r.jsonl").write_text('{"relation": "gate:inventory", "row": ["nova:servers", "2027-03-01T12:00Z", null]}\n')
    given = ["", "--inventory i.jsonl", "--inventory r.jsonl"]
    assert [run(f"check ok.yaml --rules c.dl --now 2027-03-01T12:02 {more}") for more in given] == [0, 0, 1]
    assert capsys.readouterr().err == (
        "warning[no-inventory] the rules read gate:inventory_age, but there is no inventory\n"
        "  help  give --inventory FILE.jsonl\n"
        "warning[unfilled] the rules read gate:inventory_age, but i.jsonl does not say when its tables were read\n"
        "  help  write it with `datalog-gate inventory pull`\n"
    )


@pytest.mark.parametrize(
    ("about", "warned"), [("", True), ("inventory: needed\n", True), ("inventory: optional\n", False)]
)
def test_a_pack_may_say_that_it_does_without_an_inventory(
    about: str, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = '@deny("c", "m")\np(s) :- nova:servers(id=s).\n'
    write_files(Path("pack"), {"c.dl": policy, "pack.yaml": f'version: "1"\nsummary: one\n{about}'})
    assert run("check ok.yaml --rules pack") == 0
    assert capsys.readouterr().err == warned * (
        "warning[no-inventory] the rules read nova:servers, but there is no inventory\n  help  give --inventory "
        "FILE.jsonl\n"
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ('["a", "blue"]', (0, "a\tblue\n", "")),
        ('{"tag": "blue", "server_id": "a"}', (0, "a\tblue\n", "")),
        ('["a", 1]', (3, "", "i.jsonl:1:1: error[bad-facts] nova:tags.tag is string, found number\n")),
        ('{"server_id": "a"}', (3, "", "i.jsonl:1:1: error[bad-facts] nova:tags.tag is string, found null\n")),
    ],
)
def test_a_query_reads_a_cloud_as_it_is_typed(
    row: str, expected: tuple[int, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("i.jsonl").write_text(f'{{"relation": "nova:tags", "row": {row}}}\n')
    code = run('query nova:tags(_,"blue") --rules none.dl --facts i.jsonl')
    assert (code, *capsys.readouterr()) == expected


def test_a_name_can_not_write_lines_or_escapes_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    stack = {"heat_template_version": "2018-08-31", "resources": {"a\x1b[2K\nok: 0 denied\ud800": {
        "type": "OS::Nova::Server", "properties": {"flavor": "huge", "image": "debian"}}}}  # fmt: skip
    Path("web.json").write_text(json.dumps(stack))
    codes = [run(f"check web.json --rules m.dl --format {form} --output json=o") for form in ("compact", "json")]
    assert codes == [1, 1]
    compact, _, as_json = capsys.readouterr().out.splitlines()
    assert compact.partition("deny")[2] == "[flavor] a\ufffd[2K\ufffdok: 0 denied\ufffd takes huge"
    name = "web/a\x1b[2K\nok: 0 denied\ud800"
    assert [json.loads(text)["violations"][0]["row"] for text in (as_json, Path("o").read_text())] == [
        [name, "huge"]
    ] * 2


def test_facts_are_printed_as_text_or_lines_of_those_relations(capsys: pytest.CaptureFixture[str]) -> None:
    select = "--relation heat:resource --relation heat:stack --stack-name s"
    assert run(f"facts ok.yaml {select}") == run(f"facts ok.yaml {select} --format jsonl") == 0
    assert capsys.readouterr().out == (
        'heat:resource(id=s/web, stack="s", name="web", type="OS::Nova::Server", declared="OS::Nova::Server")'
        '   ok.yaml:4:3\n'
        'heat:stack(id="s", name="s", depth=0, version="2018-08-31")   ok.yaml:1:1\n'
        '{"relation": "heat:resource", "row": {"id": {"$resource": "s/web"}, "stack": "s", "name": "web", '
        '"type": "OS::Nova::Server", "declared": "OS::Nova::Server"}, '
        '"place": {"file": "ok.yaml", "line": 4, "column": 3}}\n'
        '{"relation": "heat:stack", "row": {"id": "s", "name": "s", "parent": null, "depth": 0, '
        '"version": "2018-08-31", "description": null}, "place": {"file": "ok.yaml", "line": 1, "column": 1}}\n'
    )  # fmt: skip


QUERY_RULES = {"a.dl": "relation r(x: string, n: number) \"R.\"\np(x) :- r(x, _).\nq(x, y) :- r(x, y), int(x, z).\n",
               "b.dl": "p(1).\ns(\"t\", 2.5, true).\n"}  # fmt: skip


@pytest.mark.parametrize(
    ("query", "code", "out", "err"),
    [
        ("r(x, n)", 0, '[["a", null], ["b", 2]]\n', ""), ("r(x)", 0, '[["a"], ["b"]]\n', ""),
        ('r("b", _)', 0, '[["b", 2]]\n', ""), ("r(n=2)", 0, '[["b", 2]]\n', ""),
        ("r(n=n, x=x)", 0, '[["a", null], ["b", 2]]\n', ""), ("s(a, b, c)", 0, '[["t", 2.5, true]]\n', ""),
        (":- r(x, n), n != null, y = n + 1", 0, '[["b", 2, 3]]\n', ""),
        ("a:p(x)", 0, '[["a"], ["b"]]\n', ""), ("b:p(2)", 0, "[]\n", ""), ("t(x)", 0, "[]\n", "undefined-relation"),
        ("q(x, y)", 4, "[]\n", "evaluation"), ("t(x) --undefined error", 2, "", "undefined-relation"),
        ("p(x)", 2, "", "ambiguous-name"), ("r(x, y, z)", 2, "", "arity"), ("r('b, _)", 2, "", "bad-string"),
        ("r(x, n) --facts bad.jsonl", 3, "", "bad-facts"),
    ],
)  # fmt: skip
def test_a_query_gives_sorted_rows_or_says_why_not(
    query: str, code: int, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(Path(), QUERY_RULES)
    question, *options = query.split(" --")
    words = [word for option in options for word in f"--{option}".split()]
    command = ["query", question, "--rules", *QUERY_RULES, "--facts", "rows.jsonl", "--format", "json", *words]
    assert main(command) == code
    printed = capsys.readouterr()
    if printed.out.startswith("{"):
        assert [json.loads(printed.out)["diagnostics"][0]["code"], printed.err] == [err, ""]
    else:
        assert (printed.out, f"[{err}]" in printed.err or printed.err == err) == (out, True)


def test_a_query_as_text_is_a_row_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.dl").write_text(QUERY_RULES["a.dl"])
    assert main(["query", "r(x, n)", "--rules", "a.dl", "--facts", "rows.jsonl"]) == 0
    assert capsys.readouterr() == ("a\tnull\nb\t2\n", "")


@settings(max_examples=sample(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text() | st.sampled_from(['") :- p(x).', "\u2028\x85\r\n", "\U0001f600\x00", "\ud800", "x" * 1_000_000]))
def test_a_property_arrives_as_that_value(capsys: pytest.CaptureFixture[str], value: str) -> None:
    Path("web.json").write_text(STACK_JSON.replace("VALUE", json.dumps(value)))
    assert run("facts web.json --relation os:nova:server --format jsonl") == 0
    Path("f.jsonl").write_text(capsys.readouterr().out)
    command = ["query", ":- os:nova:server(name=x)", "--rules", "none.dl", "--facts", "f.jsonl", "--format", "json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == [[value]]


STACK_JSON = """{"heat_template_version": "2018-08-31", "resources": {"web": {"type": "OS::Nova::Server",
"properties": {"image": "i", "flavor": "f", "name": VALUE}}}}"""
HEAVY = ("dataclasses", "inspect")
OF_RULES = ("datalog_gate.analysis.check", "datalog_gate.analysis.lint", "datalog_gate.language", "tempfile")
"""What reads and checks rules, which a run that has them from the cache does not."""


def test_check_imports_nothing_that_it_does_not_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = (
        "import sys; from datalog_gate.doors.cli.main import main; code = main(sys.argv[1:]); "
        f"print(code, [name for name in sys.modules if name.startswith({HEAVY + OF_RULES})])"
    )
    command = [sys.executable, "-c", program, "check", "deny.yaml", "--rules", "m.dl", "--output", "json=o"]
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert outputs[1].splitlines()[-1] == "1 []"


def test_a_denial_with_a_closed_stdout_is_no_success() -> None:
    command = [sys.executable, "-m", "datalog_gate.doors.cli.main", "check", "deny.yaml", "--rules", "m.dl"]
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:
        assert subprocess.run(command, stdout=pipe, check=False).returncode == 141


@pytest.mark.parametrize(("loaded", "freed"), [("os", ""), ("coverage", "freed\n")])
def test_a_command_exits_without_freeing_unless_a_module_cleans_up(loaded: str, freed: str) -> None:
    program = (
        "import atexit, sys; from datalog_gate.doors.cli import main; sys.modules.setdefault(sys.argv.pop(1), main); "
        "main.Freed = type('Freed', (), {'__del__': lambda _: sys.stdout.write('freed\\n')}); main.kept = main.Freed();"
        " main.main = lambda run=main.main: [atexit.register(print, 'at exit'), run()][1]; main.run()"
    )
    command = [sys.executable, "-c", program, loaded, "fmt", "--check", "m.dl", "nothing.dl"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (2, "at exit\n" + freed)


def test_fmt_writes_what_differs_and_names_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = folder / "rules"
    rules.mkdir()
    (rules / "a.dl").write_text("p( 1 ) ;  # one")
    (rules / "a.dl").chmod(0o640)
    (rules / "b.dl").write_text("p(1).\n")
    (folder / "link.dl").symlink_to(rules / "a.dl")
    assert run("fmt --check rules") == 1
    assert ((rules / "a.dl").read_text(), capsys.readouterr()) == ("p( 1 ) ;  # one", ("rules/a.dl\n", ""))
    assert run("fmt link.dl rules/b.dl") == 0
    assert ((rules / "a.dl").read_text(), capsys.readouterr()) == ("p(1).  # one\n", ("link.dl\n", ""))
    assert ((rules / "a.dl").stat().st_mode & 0o777, (folder / "link.dl").is_symlink()) == (0o640, True)
    assert sorted(path.name for path in rules.iterdir()) == ["a.dl", "b.dl"]
    assert (run("fmt --check rules"), run("fmt --check")) == (0, 0)
    assert capsys.readouterr() == ("", "")


def test_fmt_writes_nothing_if_a_file_can_not_be_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "c.dl").write_text("p( 1 ).")
    (folder / "d.dl").write_text("p(x) :- q(x) r(x).")
    assert run("fmt c.dl d.dl") == 2
    assert [(folder / name).read_text() for name in ("c.dl", "d.dl")] == ["p( 1 ).", "p(x) :- q(x) r(x)."]
    message = "d.dl:1:14: error[syntax] missing `,` or `.` before `r`\n  1 | p(x) :- q(x) r(x).\n    |              ^\n"
    assert capsys.readouterr() == ("", f"{message}  help  write `,` before `r`\n")
    assert (run("fmt absent.dl"), run("fmt"), run("fmt --chek m.dl")) == (2, 64, 64)


def test_our_own_rules_are_formatted() -> None:
    assert run(f"fmt --check {Path(__file__).parents[4] / 'rules'}") == 0
