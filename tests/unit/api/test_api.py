"""The public functions of ``import datalog_gate as dg``."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import datalog_gate as dg
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.engine import pydatalog
from datalog_gate.engine.budget import Budget
from tests.expressions import worded
from tests.refusals import refusals

ROOT = Path(__file__).parents[3]
BASTION = ROOT / "fixtures" / "stacks" / "bastion"
SSH = ROOT / "rules" / "net" / "ssh.dl"
NOW = datetime(2027, 3, 1, tzinfo=UTC)
CALLER_RULES = """
relation known(user: string) "Users."
@deny("caller", "{user}")
p(stack, user) :- heat:stack(id=stack), gate:caller(user=user, project="p"), gate:role("admin"), gate:now(now),
  now < "2027-03-01T12:00:01", known(user).
"""


@pytest.fixture
def caller_rules(tmp_path: Path) -> dg.Rules:
    (tmp_path / "m.dl").write_text(CALLER_RULES)
    return dg.load_rules(tmp_path / "m.dl")


def test_a_decision_is_the_json_of_the_contract() -> None:
    decision = dg.load_rules(str(SSH)).decide(dg.read_stack(BASTION), now=NOW)
    record = decision.to_json()
    digests = record["digests"]
    assert isinstance(digests, dict)
    violation = {
        "policy": "net.open_ssh", "level": "deny", "mode": "enforce",
        "hint": "limit remote_ip_prefix to at most a /16, or a /48 of IPv6",
        "message": "security group bastion_sg lets 0.0.0.0/0 reach port 22", "relation": "ssh:open_ssh",
        "row": ["bastion/bastion_sg", "0.0.0.0/0"], "resource": "bastion/bastion_sg", "change": None, "because": [],
        "place": {"file": str(BASTION / "template.yaml"), "line": 17, "column": 34},
    }  # fmt: skip
    assert record == {
        "schema": "datalog-gate/decision/1", "id": decision.id, "outcome": "deny", "action": "create",
        "stacks": ["bastion"], "violations": [violation], "undetermined": [], "waived": [], "errors": [], "grants": [],
        "digests": {"rules": digests["rules"], "facts": digests["facts"]}, "counts": {"policies": 1, "facts": 3},
    }  # fmt: skip
    assert [len(digest) for digest in (decision.id, digests["rules"], digests["facts"])] == [16, 64, 64]
    assert decision.rows("ssh:open_ssh") == [["bastion/bastion_sg", "0.0.0.0/0"]]


def test_a_stack_is_the_same_from_its_path_and_from_a_request() -> None:
    text = (BASTION / "template.yaml").read_text()
    stack = dg.read_stack(template=text, environment={"parameters": {"admin_port": 2222}}, stack_name="bastion")
    path = dg.read_stack(str(BASTION), parameters={"admin_port": 2222})
    assert [(resource.id, resource.properties) for resource in stack.resources] == [
        (resource.id, resource.properties) for resource in path.resources
    ]
    assert dg.load_rules(SSH).decide(stack).outcome == "allow"


def test_loaded_rules_show_their_policies_program_texts_and_warnings(tmp_path: Path) -> None:
    path = tmp_path / "m.dl"
    path.write_text('@warn("p", "bad")\np(s) :- heat:resource(id=s, type="OS::Nova::Srv").\n')
    rules = dg.load_rules(path)
    assert ([policy.id for policy in rules.policies], rules.sources) == (["p"], {str(path): path.read_text()})
    assert rules.program.inputs == {"heat:resource"}
    assert [(warning.code, warning.span and warning.span.line) for warning in rules.warnings] == [("unknown-value", 2)]


def test_a_linked_folder_of_rules_is_reported(tmp_path: Path) -> None:
    rules, other = tmp_path / "rules", tmp_path / "other"
    rules.mkdir()
    (other / "..data").mkdir(parents=True)
    (other / "..data" / "A.DL").write_text('@deny("a", "bad")\np(s) :- os:nova:server(_id=s).\n')
    (other / "A.DL").symlink_to("..data/A.DL")
    assert [policy.id for policy in dg.load_rules(other).policies] == ["a"]
    (rules / "link").symlink_to(other)
    problems = refusals(lambda: dg.load_rules(rules), "message")
    assert problems == [f"{rules}/link is a link to a folder, which is not followed"]


def test_rules_without_a_policy_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.dl").write_text("p(1).\n")
    with pytest.raises(dg.RulesError) as error:
        dg.load_rules(tmp_path)
    place = Span(str(tmp_path / "a.dl"), 1, 1, 1, 1)
    assert error.value.diagnostics == (
        Diagnostic("no-policy", "the rules hold no policy: everything would pass", place,
                   'write @deny("id", "message") above a rule'),
    )  # fmt: skip


ADMIN = {"user": "ann", "project": "p", "roles": ["member", "admin"]}


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({}, "deny"), ({"caller": None}, "allow"), ({"inventory": None}, "allow"), ({"action": "delete"}, "allow"),
        ({"mode": "warn"}, "allow_with_warnings"), ({"engine": "pydatalog"}, "deny"), ({"engine": "both"}, "deny"),
        ({"now": datetime(2027, 3, 1, 12)}, "deny"), ({"now": datetime(2027, 3, 1, 12, 1)}, "allow"),
        ({"now": datetime(2027, 3, 1, 13, tzinfo=timezone(timedelta(hours=2)))}, "deny"),
        ({"now": datetime(2027, 3, 1, 11, tzinfo=timezone(timedelta(hours=-2)))}, "allow"),
        ({"caller": {**ADMIN, "roles": ("member",)}}, "allow"), ({"caller": {**ADMIN, "project": None}}, "allow"),
        ({"inventory": {"m:known": [["bob"]]}}, "allow"),
        ({"inventory": {"known": [("ann",)], "heat:nested": [("a", "b")]}}, "deny"),
    ],
)  # fmt: skip
def test_the_other_arguments_of_decide_count(caller_rules: dg.Rules, change: dict[str, Any], outcome: str) -> None:
    options: dict[str, Any] = {"caller": ADMIN, "inventory": {"known": [("ann",)]}, "now": NOW, **change}
    assert caller_rules.decide(dg.read_stack(BASTION), **options).outcome == outcome


def test_inventory_may_be_a_file_and_the_default_time_is_now(caller_rules: dg.Rules, tmp_path: Path) -> None:
    (tmp_path / "i.jsonl").write_text('{"relation": "m:known", "row": {"user": "ann"}}\n')
    options: dict[str, Any] = {"caller": ADMIN, "inventory": str(tmp_path / "i.jsonl")}
    stack = dg.read_stack(BASTION)
    assert caller_rules.decide(stack, now=NOW, **options).outcome == "deny"
    assert caller_rules.decide(stack, now=NOW.isoformat(), **options) == caller_rules.decide(stack, now=NOW, **options)
    assert caller_rules.decide(stack, **options).outcome == (
        "deny" if datetime.now(UTC) < NOW + timedelta(hours=12) else "allow"
    )


def test_several_stacks_are_judged_as_one_set_of_facts_if_their_names_differ(caller_rules: dg.Rules) -> None:
    stacks = [dg.read_stack(BASTION, stack_name=name) for name in ("b", "a")]
    assert caller_rules.decide(stacks, now=NOW).stacks == ("a", "b")
    assert caller_rules.decide(stacks, now=NOW).to_json() == caller_rules.decide(stacks[::-1], now=NOW).to_json()
    for unnamed in ([], [stacks[0], stacks[0]]):
        with pytest.raises(dg.UsageError):
            caller_rules.decide(unnamed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"against": dg.read_stack(BASTION, stack_name="old")},
         "the older state is of old, not of bastion: give it the same name"),
        ({"against": [dg.read_stack(BASTION)] * 2},
         "the older state is of bastion, bastion, not of bastion: give it the same name"),
        ({"against": dg.read_stack(BASTION), "action": "delete"},
         "delete can't be judged against an older state: only update and restore can"),
        ({"action": "creat"}, "there is no action creat: use one of create, update, adopt, restore, delete, suspend, "
                              "resume, check, snapshot, rollback"),
        ({"now": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9)))},
         "0001-01-01 00:00:00+09:00 is not a time in UTC"),
        ({"now": "tomorrow"}, "tomorrow is not a time in UTC"),
        ({"mode": "off"}, "there is no mode off: use one of record, warn, enforce"),
        ({"engine": "fast"}, "there is no engine fast: use one of native, pydatalog"),
        ({"caller": {"name": "ann", "role": "x"}}, "a caller has user, project, domain and roles, not name, role"),
        ({"caller": {"user": 1}}, "user, project and domain of a caller must be strings"),
        ({"caller": {"roles": "admin"}}, "the roles of a caller must be a list of strings"),
        ({"caller": {"roles": [1]}}, "the roles of a caller must be a list of strings"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_a_usage_error(caller_rules: dg.Rules, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(dg.UsageError) as error:
        caller_rules.decide(dg.read_stack(BASTION), **arguments)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("rows", "message", "suggestion"),
    [
        ({"knwon": [("ann",)]}, "no rule declares the relation knwon", "did you mean known?"),
        ({"m:knwon": [("ann",)]}, "no rule declares the relation m:knwon", "did you mean m:known?"),
        ({"known": [("ann", "x")]}, "m:known has 1 column, found 2", None),
        ({"known": [{"usre": "ann"}]}, "m:known has no column usre", "did you mean user?"),
    ],
)
def test_inventory_that_no_rule_can_read_is_an_input_error(
    caller_rules: dg.Rules, rows: dict[str, Any], message: str, suggestion: str | None
) -> None:
    [relation] = rows
    with pytest.raises(dg.InputError) as error:
        caller_rules.decide(dg.read_stack(BASTION), inventory=rows)
    assert error.value.diagnostics == (Diagnostic("bad-facts", message, Span(f"<{relation}>", 1, 1, 1, 1), suggestion),)


@pytest.mark.parametrize("engine", ["native", "pydatalog"])
def test_a_query_gives_a_set_of_tuples_of_plain_data(engine: str) -> None:
    facts = {"q": [(1,), (1.5,), ("1",), (True,), (None,)]}
    assert dg.query("p(x) :- q(x).", "p(x)", facts=facts, engine=engine) == {(1,), (1.5,), ("1",), (True,), (None,)}


def test_an_unknown_in_a_query_equals_only_itself() -> None:
    unknown = worded("e")
    assert dg.query("p(x) :- q(x), r(x).", "p(x)", facts={"q": [(unknown,), ("e",)], "r": [(unknown,)]}) == {(unknown,)}


def test_a_query_with_a_syntax_error_reports_only_that() -> None:
    [(span, code)] = refusals(lambda: dg.query("p(x) :- q(x) r(x).\nq(1).", "p(x)"), "span", "code")
    assert (str(span), code) == ("<rules>:1:14", "syntax")


def test_an_invalid_query_raises() -> None:
    assert dg.query("p(x) :- nothing(x).", "p(x)") == set()
    with pytest.raises(dg.RulesError):
        dg.query("p(x) :- nothing(x).", "p(x)", undefined="error")
    with pytest.raises(dg.EngineError) as error:
        dg.query("p(y) :- q(x), int(x, y).", "p(y)", facts={"q": [("many",)]})
    assert str(error.value).partition(" ")[0] == "<rules>:1:15:"
    with pytest.raises(dg.UsageError):
        dg.query("p(1).", "p(x)", engine="both")
    with pytest.raises(dg.UsageError, match="undefined must be error or empty"):
        dg.query("p(1).", "p(x)", undefined="warn")
    with pytest.raises(dg.InputError, match="nan is not a number"):
        dg.query("", "p(x)", facts={"p": [(float("nan"),)]})


def test_a_query_that_exceeds_its_budget_names_the_rule() -> None:
    with pytest.raises(dg.EngineError) as error:
        dg.query("p(x, y, z) :- q(x), q(y), q(z).", "p(1, 2, 3)", facts={"q": [(at,) for at in range(101)]})
    assert (
        str(error.value) == "more than 1,000,000 facts: the rule of rules:p at <rules>:1:1 made 1,009,899 of 1,009,899"
    )


def test_a_decimal_that_no_float_holds_stays_exact() -> None:
    assert dg.query("p(1 / 3).", "p(x)") == {(Decimal("0." + 28 * "3"),)}


def test_the_package_imports_its_names_lazily() -> None:
    assert {type(getattr(dg, name)).__name__ for name in dg.__all__} == {"function", "type"}
    with pytest.raises(AttributeError):
        dg.nothing  # noqa: B018
    program = "import sys, datalog_gate; print([m for m in sys.modules if m.startswith('datalog_gate')])"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output == "['datalog_gate']\n"


CLOUD = """\
@deny("m.busy", "{s} runs {name}")
busy(s, name) :- heat:resource(id=s), nova:servers(i, name, status="ACTIVE"), cinder:volumes(i, size), size > 10,
                 neutronv2:ports(device_id=i, admin_state_up=true).
"""
PORT = '{"relation": "neutronv2:ports", "row": {"id": "p", "device_id": "s", "admin_state_up": true}}'
VOLUME = '{"relation": "cinder:volumes", "row": {"id": "s", "size": 20}}'
SERVER = '{"relation": "nova:servers", "row": ["s", "db", null, "ACTIVE", "t", null, null, "f", "nova", "c", null]}'


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (SERVER, "deny"),
        ('{"relation": "nova:servers", "row": {"id": "s", "name": "db", "status": "ACTIVE"}}', "deny"),
        ('{"relation": "nova:servers", "row": {"id": "s", "status": "SHUTOFF"}}', "allow"),
        ('{"relation": "nova:servers", "row": {"id": "s", "status": {"$unknown": {"expression": "e"}}}}',
         "allow_with_warnings"),
        ('{"relation": "nova:srv", "row": {"id": "s"}}',
         ("no rule declares the relation nova:srv", "did you mean nova:servers?")),
        ('{"relation": "nova:servers", "row": {"idd": "s"}}',
         ("nova:servers has no column idd", "did you mean id?")),
        ('{"relation": "nova:servers", "row": {"name": "db"}}', ("nova:servers.id is string, found null", None)),
        ('{"relation": "nova:servers", "row": ["s"]}', ("nova:servers has 15 columns, found 1", None)),
        ('{"relation": "cinder:volumes", "row": {"id": "s", "size": "20"}}',
         ("cinder:volumes.size is number, found string", None)),
        ('{"relation": "neutronv2:ports", "row": {"id": "p", "admin_state_up": "True"}}',
         ("neutronv2:ports.admin_state_up is boolean or null, found string", "write true")),
        ('{"relation": "cinder:volumes", "row": {"id": "v", "size": 20, "bootable": "false"}}',
         ("cinder:volumes.bootable is boolean or null, found string", "write false")),
        ('{"relation": "nova:flavors", "row": {"id": "f", "vcpus": "2"}}',
         ("nova:flavors.vcpus is number, found string", None)),
        ('{"relation": "m:rack", "row": {"host": "c", "number": '
        '"2"}}', ("m:rack.number is number, found string", None)),
    ],
)  # fmt: skip
def test_rows_of_an_inventory_are_typed(line: str, expected: str | tuple[str, str | None], tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text(f"relation rack(host: string, number: number).\n{CLOUD}")
    (tmp_path / "i.jsonl").write_text(f"{PORT}\n{VOLUME}\n{line}\n")
    rules = dg.load_rules(tmp_path / "m.dl")
    try:
        decision = rules.decide(dg.read_stack(BASTION), now=NOW, inventory=tmp_path / "i.jsonl")
    except dg.InputError as error:
        [wrong] = error.diagnostics
        assert wrong.span is not None
        assert (wrong.code, wrong.span.line, (wrong.message, wrong.suggestion)) == ("bad-facts", 3, expected)
    else:
        assert decision.outcome == expected


def test_modules_below_heat_are_not_reserved(tmp_path: Path) -> None:
    (tmp_path / "heat").mkdir()
    (tmp_path / "heat" / "x.dl").write_text('@deny("a", "m")\np(r) :- heat:resource(id=r).\n')
    assert [policy.id for policy in dg.load_rules(tmp_path).policies] == ["a"]


def test_a_misspelt_table_of_the_cloud_is_undefined_and_its_namespace_reserved(tmp_path: Path) -> None:
    (tmp_path / "nova").mkdir()
    (tmp_path / "nova" / "x.dl").write_text('@deny("a", "m")\np(s) :- nova:srv(id=s), nova:servers(idd=s).\n')
    assert refusals(lambda: dg.load_rules(tmp_path), "code", "message", "suggestion") == [
        ("reserved-name", "the module name nova:x is reserved", "rename the file"),
        ("undefined-relation", "there is no relation nova:srv", "did you mean nova:servers?"),
        ("unknown-column", "nova:servers has no column idd", "did you mean id?"),
    ]


def test_rules_that_did_not_change_are_loaded_once(tmp_path: Path) -> None:
    path = tmp_path / "m.dl"
    programs = []
    for number in (1, 1, 2):
        path.write_text(f'@deny("a", "b") p({number}).')
        programs.append(dg.load_rules(path).program)
    assert (programs[1] is programs[0], programs[2] == programs[0]) == (True, False)


LOSES_A_ROW = """
import datalog_gate.engine.pydatalog_worker as worker
whole = worker.answer
worker.answer = lambda *given: {name: rows[name == "m:p":] for name, rows in whole(*given).items()}
worker.main()
"""


def test_the_error_of_differing_engines_shows_the_rows(caller_rules: dg.Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"caller": ADMIN, "inventory": {"known": [("ann",)]}, "now": NOW, "engine": "both"}
    monkeypatch.setattr(pydatalog, "COMMAND", (*pydatalog.COMMAND[:2], "-c", LOSES_A_ROW))
    with pytest.raises(dg.EngineError) as error:
        caller_rules.decide(dg.read_stack(BASTION), **options)
    assert str(error.value) == "the engines differ: in m:p native alone has (bastion, ann), pydatalog alone has none"


def test_the_error_names_the_engine_that_exceeds_its_budget(caller_rules: dg.Rules) -> None:
    budget = Budget(seconds=0.001)  # enough steps, but no time for a process
    with pytest.raises(dg.EngineError) as error:
        caller_rules.decide(dg.read_stack(BASTION), caller=ADMIN, now=NOW, engine="both", budget=budget)
    assert str(error.value) == "the engines differ: pydatalog exceeds its budget before it has all of m:p"


def test_a_rule_in_error_is_refused_by_pydatalog(tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text('@deny("p", "{s}")\np(s) :- heat:stack(id=s), int(s, n), n > 1.\n')
    with pytest.raises(dg.EngineError) as error:
        dg.load_rules(tmp_path / "m.dl").decide(dg.read_stack(BASTION), engine="both")
    assert str(error.value) == (
        f"pyDatalog refuses the rule of m:p at {tmp_path}/m.dl:2:1: an expression in it fails; the native engine "
        "(--engine native) shows where and why"
    )
