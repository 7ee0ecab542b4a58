"""Queries and commands at a prompt."""

from __future__ import annotations

import io
import re
from functools import partial
from pathlib import Path

import pytest

from datalog_gate.doors.cli.main import main
from datalog_gate.editing.prompt import Prompt, table
from datalog_gate.editing.rule_folder import read_folder
from datalog_gate.files.inputs import fact_lines
from datalog_gate.schema.catalogue import SHIPPED
from tests.sources import ROOT

RULES = """
relation link(a: number, b: number).
reach(x, y) :- link(x, y).
reach(x, z) :- reach(x, y), link(y, z).
far(x, "far") :- reach(x, 3), x < 2.
"""


@pytest.fixture
def prompt(tmp_path: Path) -> Prompt:
    (tmp_path / "m.dl").write_text(RULES)
    read = partial(read_folder, [tmp_path], {}, SHIPPED, {})
    return Prompt(lambda: read()[0], fact_lines({"m:link": [(1, 2), (2, 3)]}))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("far(x, y)", ["x  column2", "-  -------", "1  far", "1 row"]),
        (":- reach(x, y), y > 2", ["x  y", "-  -", "1  3", "2  3", "2 rows"]),
        ("reach(x, y), y > 2", ["x  y", "-  -", "1  3", "2  3", "2 rows"]),
        ("link(b=y)", ["b", "-", "2", "3", "2 rows"]),
        ("reach(9, _)", ["0 rows"]),
        ("", []),
        (
            ":why far(x, y)",
            [
                "m:far(1, far)",
                "  why   reach(1, 3)      m.dl:4",
                "          reach(1, 2)    m.dl:3",
                "            link(1, 2)   <m:link>:1",
                "          link(2, 3)     <m:link>:2",
                "        1 < 2            m.dl:5",
            ],
        ),
        (
            ":whynot reach(3, _)",
            ["  fails there is no link(3, y)    m.dl:3", "        there is no reach(3, y)   m.dl:4"],
        ),
        (":whynot reach(1, 2)", ["there is a matching row: ask :why"]),
        (":why reach(3, _)", ["no row of m:reach matches: ask :whynot"]),
        (":why link(1, _)", ["m:link(1, 2)", "  a fact"]),
        (":why rech", ["write one atom of an existing relation, such as :why open_ssh(group, src)"]),
        (":wy", ["there is no command :wy: did you mean :why?"]),
        (
            ":relations",
            [
                "m:link",
                "m:reach",
                "m:far",
                "703 more have no row here: list them with :relations PATTERN, such as os:nova:*",
            ],
        ),
        ("heat:stack", ["0 rows"]),
        ("link", ["there are rows; name columns to see them: m:link(a=x)"]),
        (":relations far", ["m:far", "  x        number", "  column2  string"]),
        (":relations link", ["m:link", "  a  number", "  b  number"]),
        (
            "count{ x : link(x, _) }",
            [
                "<query>:1:6: error[syntax] found `{`, expected the end of the query\n"
                "  1 | count{ x : link(x, _) }\n    |      ^\n  help  give it a variable, `:- n = count{ ... }`"
            ],
        ),
        (":relations heat:scalin", ["there is no relation heat:scalin: did you mean heat:scaling?"]),
        (":rules", ["1 file of rules"]),
    ],
)
def test_each_text_has_its_answer(prompt: Prompt, tmp_path: Path, text: str, answer: list[str]) -> None:
    assert [line.replace(f"{tmp_path}/", "") for line in prompt.answer(text)] == answer


def test_a_mistake_in_a_query_is_an_answer(prompt: Prompt) -> None:
    [answer] = prompt.answer("rech(x, y)")
    assert answer.splitlines() == [
        "<query>:1:1: error[undefined-relation] there is no relation rech",
        "  1 | rech(x, y)",
        "    | ^^^^",
        "  help  did you mean reach?",
    ]
    [answer] = prompt.answer("m:links(x, y)")
    assert answer.splitlines()[-1] == "  help  did you mean m:link?"
    [answer] = prompt.answer("elsewhere(x, y)")
    assert answer.splitlines()[-1] == "    | ^^^^^^^^^"


def test_edited_rules_are_read_again(prompt: Prompt, tmp_path: Path) -> None:
    def edit(path: Path) -> None:
        (tmp_path / path).write_text('far(1, "near").')

    prompt.edit = edit
    assert list(prompt.answer(":rules m.dl")) == ["1 file of rules"]
    assert list(prompt.answer("far(1, x)")) == ["column1  column2", "-------  -------", "1        near", "1 row"]


def test_what_is_typed_is_completed(prompt: Prompt) -> None:
    def labels(text: str) -> tuple[int, list[str]]:
        length, completions = prompt.completions(text)
        return length, [completion.label for completion in completions]

    assert labels(":wh") == (3, [":why", ":whynot"])
    assert labels(":why heat:sca") == (8, ["heat:scaling", "os:heat:scaling_policy"])
    assert labels("heat:scaling(id=x, mi") == (2, ["min"])


def test_a_table_is_as_wide_as_the_terminal() -> None:
    rows = [["a", "a long text that has no room"], ["b", "short"]]
    assert list(table(["name", "text"], rows, 20)) == [
        "name  text",
        "----  --------------",
        "a     a long text...",
        "b     short",
        "2 rows",
    ]


def test_a_pipe_is_answered_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "m.dl").write_text("named(s, n) :- os:nova:server(_id=s, name=n).")
    server = "{type: 'OS::Nova::Server', properties: {name: w, flavor: f}}"
    template = f"heat_template_version: 2018-08-31\nresources:\n  web: {server}\n"
    (tmp_path / "web.yaml").write_text(template)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("named(s, n)\n:rules x\n:quit\nnamed(s, n)\n"))
    assert main(["repl", "web.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "s        n",
        "-------  -",
        "web/web  w",
        "1 row",
        "an editor needs a terminal: use :rules without a file to read the rules again",
    ]


def test_the_rules_of_a_prompt_are_a_folder_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.dl").write_text("named(1).\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("m:named(n)\n"))
    assert main(["repl", "--rules", "m.dl"]) == 0
    assert capsys.readouterr().out.splitlines() == ["column1", "-------", "1", "1 row"]
    Path("m.dl").write_text("named(.\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(":rules\n"))
    assert main(["repl", "--rules", "m.dl"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "m.dl:1:7: error[syntax] found `.`, expected a value",
        "  1 | named(.",
        "    |       ^",
        "1 file of rules",
    ]
    assert main(["repl", "--rules", "none"]) == 2
    assert capsys.readouterr().err == "error[unreadable] none can't be read: No such file or directory\n"


def test_a_prompt_has_the_rules_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own").mkdir()
    Path("own/m.dl").write_text("named(1).\n")
    Path("more.dl").write_text("other(2).\n")
    Path("datalog-gate.toml").write_text('rules = ["own", "more.dl"]\n')
    monkeypatch.setattr("sys.stdin", io.StringIO("named(n)\nother(n)\n"))
    assert main(["repl"]) == 0
    assert capsys.readouterr().out.split() == [
        "column1",
        "-------",
        "1",
        "1",
        "row",
        "column1",
        "-------",
        "2",
        "1",
        "row",
    ]


def test_the_page_shows_what_a_pipe_is_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "editors.md").read_text("utf-8")
    command = re.search(r"echo '(.*)' \| datalog-gate (repl .*)\n\n```\n([^`]*)```", page)
    assert command
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{command[1]}\n"))
    assert main(command[2].split()) == 0
    assert capsys.readouterr().out == command[3]
