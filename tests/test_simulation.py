"""Simulation answers as Congress did, and changes nothing.

The cases say in other words what Congress's own tests of simulation assert; `test_congress.py` reads those.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import datalog_gate as dg
from datalog_gate.api import explain_simulation
from datalog_gate.base.errors import InputError, RulesError, UsageError
from datalog_gate.doors.cli.main import main

RACKS = 'action("move")  host+(vm, to) :- move(vm, to)  host-(vm, from) :- move(vm, to), host(vm, from)'
BOOKING = (
    'action("book")  action("rename")'
    "  seat+(id, who) :- book(who)  result(id) :- book(who), seat+(id, who)"
    "  seat+(id, who) :- rename(id, who)  seat-(id, old) :- rename(id, who), seat(id, old)"
)
FLAGS = 'action("raise")  action("clear")  flag+(x) :- raise(x)  flag-(x) :- clear(x)'
ELSEWHERE = 'action("use")  nova:used+(y) :- use(x), plus(x, 10, y)  net:used+(x) :- use(x)'
CASES: list[tuple[str, str, str, str, str, set[str]]] = [
    ("an action adds what its rules derive", FLAGS, "flag(2)", "flag(x)", "raise(1)", {"flag(1)", "flag(2)"}),
    ("what is not there can be removed", FLAGS, "", "flag(x)", "clear(1)", set()),
    ("an action reads the tables of the target", RACKS, 'host("a", 1)', "host(v, r)", 'move("a", 2)', {'host("a", 2)'}),
    ("of one step an addition wins", FLAGS, "", "flag(x)", "raise(1), clear(1) :- true", {"flag(1)"}),
    ("steps come one after the other", FLAGS, "flag(1)", "flag(x)", "raise(1) clear(1)", set()),
    ("and in their order", FLAGS, "flag(1)", "flag(x)", "clear(1) raise(1)", {"flag(1)"}),
    ("an action takes values from the state", FLAGS, "up(3)", "flag(x)", "raise(x) :- up(x)", {"flag(3)"}),
    ("without a way in which they hold it is left out", FLAGS, "", "flag(x)", "raise(x) :- up(x)", set()),
    ("one way is enough", FLAGS, "up(4)  up(3)", "flag(x)", "raise(x) :- up(x)", {"flag(3)"}),
    (
        "what an action makes has a value that is new, which the next one finds",
        BOOKING,
        "known(w) :- seat(i, w)",
        "known(x)",
        'book("eva")  rename(x, "ava") :- result(x)',
        {'known("ava")'},
    ),
    (
        "two of them are two",
        BOOKING,
        "",
        "seat(i, w)",
        "book(1) book(1)",
        {'seat("new-id-1", 1)', 'seat("new-id-2", 1)'},
    ),
    (
        "actions of one step join",
        'action("a")  action("b")  p+(x, z) :- a(x, y), b(y, z)',
        "",
        "p(x, z)",
        "a(1, 2), b(2, 3) :- true",
        {"p(1, 3)"},
    ),
    (
        "an action updates other policies and what no policy defines",
        ELSEWHERE,
        "used(x) :- nova:used(x)  used(x) :- net:used(x)  used(3)",
        "used(x)",
        "use(1)",
        {"used(1)", "used(3)", "used(11)"},
    ),
    ("so does a sequence", "", "used(x) :- nova:used(x)", "used(x)", "nova:used+(1) net:used+(2)", {"used(1)"}),
    ("no sequence is the present", "", "p(1)", "p(x)", "", {"p(1)"}),
    ("an update needs no action", "", "p(1)", "p(x)", "p+(2) p-(1)", {"p(2)"}),
    ("a rule is added", "", "q(1)", "p(x)", "p+(x) :- q(x)", {"p(1)"}),
    ("a rule is removed", "", "p(x)  :- q(x).  q(1)", "p(x)", "p-(x) :- q(x)", set()),
    ("a query may be a rule", "", "p(1)  q(1)  q(2)", "both(x) :- p(x), q(x)", "p+(2)", {"both(1)", "both(2)"}),
    ("a query may hold constants", "", 'p(1, "a")  p(2, "b")', 'p(x, "b")', "", {'p(2, "b")'}),
    (
        "what follows from other rows is counted again",
        "",
        "p(x) :- q(x), not r(x)",
        "p(x)",
        "q+(1) q+(2) r+(1)",
        {"p(2)"},
    ),
]
"""What a case shows, the rules of the action policy and of the target, a query, a sequence, and the answer."""


@pytest.mark.parametrize(
    ("actions", "rules", "query", "sequence", "answer"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_sequence_is_answered(actions: str, rules: str, query: str, sequence: str, answer: set[str]) -> None:
    policies = {"target": lines(rules), "actions": lines(actions), "net": ""}
    simulation = dg.simulate(policies, "target", query, sequence, "actions")
    assert (set(simulation.result), simulation.errors) == (answer, ())


def test_a_delta_is_what_is_new_and_what_is_gone() -> None:
    simulation = dg.simulate(
        {"t": lines('host("a", 1)  host("b", 1)'), "a": lines(RACKS)}, "t", "host(v, r)", 'move("a", 2)', "a"
    )
    assert simulation.delta == ('host+("a", 2)', 'host-("a", 1)')


def test_facts_of_the_cloud_are_updated_by_whole_rows() -> None:
    policies = {"t": "error(x) :- nova:tags(server_id=x, tag='old')"}
    facts = {"nova:tags": [("s", "old"), ("t", "old")]}
    simulation = dg.simulate(policies, "t", "error(x)", "nova:tags-('s', 'old') nova:tags+('u', 'old')", facts=facts)
    assert (simulation.before, simulation.after) == ((("s",), ("t",)), (("t",), ("u",)))
    named = dg.simulate(policies, "t", "nova:tags(server_id='s')", "", facts=facts)
    assert named.result == ('nova:tags("s", "old")',)


def test_a_policy_of_our_own_language_is_updated_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.dl"
    file.write_text('relation q(x: number).\nrelation r(x) "rows".\np(x) :- q(x), not r(x), x > 1.\nr(7).\n')
    assert main(["simulate", "own", "p(x)", "q+(7) q+(8) r-(7) r+(8)", "--rules", str(file)]) == 0
    assert capsys.readouterr() == ("p(7)\n", "")


WRONG: list[tuple[str, str, str]] = [
    ("p(x)", "q(1)", "<sequence>:1:1 q is neither an update nor an action of t: write q+(...) to add a row"),
    ("p(x)", "cler(1)", "<sequence>:1:1 cler is neither an update nor an action of t: did you mean clear?"),
    ("p(x)", "clear(x)", "<sequence>:1:1 the variables of clear have no value: write a condition after `:-`"),
    ("p(x)", "p+(1", "<sequence>:1:5 found the end of the text, expected `,` or `)`: None"),
    (
        "p(x)",
        "p+(1), q+(1)",
        "<sequence>:1:13 found the end of the text after several heads: write `:- true` after the heads of one step",
    ),
    ("p(x) q(x)", "", "None a query is one atom or rule: write p(x)"),
    (
        "p(x)",
        "p+(x) :- nova:tags(idd=x)",
        "<sequence>:1:20 nova:tags has no column idd: the columns are server_id, tag",
    ),
    (
        "p(x)",
        "nova:tags+(x)",
        "<sequence>:1:1 nova:tags holds facts: an update must give all columns a value: write nova:tags+(...)",
    ),
]


@pytest.mark.parametrize(("query", "sequence", "message"), WRONG)
def test_errors_have_their_places(query: str, sequence: str, message: str) -> None:
    policies = {"t": lines('p(1)  action("clear")  p-(x) :- clear(x)')}
    with pytest.raises(RulesError) as raised:
        dg.simulate(policies, "t", query, sequence)
    errors = [error for error in raised.value.diagnostics if error.severity == "error"]
    assert [f"{error.span} {error.message}: {error.suggestion}" for error in errors] == [message]


def test_a_policy_that_is_missing_and_a_row_that_is_too_short_are_errors() -> None:
    with pytest.raises(UsageError, match=r"^there is no policy tt: did you mean t\?$"):
        dg.simulate({"t": "p(1)"}, "tt", "p(x)", "")
    with pytest.raises(UsageError, match=r"^there is no policy a: there are t$"):
        dg.simulate({"t": "p(1)"}, "t", "p(x)", "", "a")
    with pytest.raises(InputError, match="nova:tags has 2 columns, found 1"):
        dg.simulate({"t": "p(x) :- nova:tags(x, y)"}, "t", "p(x)", "nova:tags+(1)")


def test_an_error_of_an_evaluation_is_not_an_empty_answer() -> None:
    simulation = dg.simulate({"t": "p(x) :- q(y), div(1, y, x)"}, "t", "p(x)", "q+(0)")
    assert (simulation.result, [error.message for error in simulation.errors]) == ((), ["div(1, 0): division by zero"])


def test_a_table_that_nothing_defines_is_empty_with_a_warning() -> None:
    simulation = dg.simulate({"t": "p(x) :- nova:srv(x)"}, "t", "p(x)", "")
    assert [warning.message for warning in simulation.warnings] == ["nothing defines nova:srv: it is empty"]


def test_a_trace_shows_the_steps_and_why_a_row_holds() -> None:
    policies = {"t": lines("bad(x) :- flag(x), not known(x)"), "a": lines(FLAGS)}
    simulation = dg.simulate(policies, "t", "bad(x)", "raise(1) clear(2) known+(3)", "a")
    assert explain_simulation(simulation) == [
        "raise(1): flag+(1)",
        "clear(2): flag-(2)",
        "known+(3): known+(3)",
        "bad(1)",
        "  why   bad(1)          t:1",
        "          flag(1)       <sequence>:1",
        "          no known(1)   t:1",
    ]


def test_the_command_prints_rows_a_delta_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, facts = tmp_path / "a.dl", tmp_path / "facts.jsonl"
    file.write_text("p(x) :- nova:tags(x, 'old')")
    facts.write_text('{"relation": "nova:tags", "row": ["s", "old"]}\n')
    command = [
        "simulate",
        "a",
        "p(x)",
        "nova:tags+('u', 'old')",
        "--congress",
        "--rules",
        str(file),
        "--facts",
        str(facts),
    ]
    assert [main([*command, *more]) for more in ([], ["--delta"], ["--delta", "--format", "json"])] == [0, 0, 0]
    assert capsys.readouterr().out.splitlines() == ['p("s")', 'p("u")', 'p+("u")', '{"result": ["p+(\\"u\\")"]}']
    assert main([*command, "--trace", "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [data["result"], data["trace"][0]] == [
        ['p("s")', 'p("u")'],
        'nova:tags+("u", "old"): nova:tags+("u", "old")',
    ]


def lines(text: str) -> str:
    """The statements, which two blanks separate, on lines of their own."""
    return text.replace("  ", "\n")
