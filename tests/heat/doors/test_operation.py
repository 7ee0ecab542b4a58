"""The lifecycle plugin without a running Heat: broken gates and stacks, imports."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from datalog_gate.base.errors import EngineError, RulesError
from datalog_gate.decision_point.operation import CLOSED, REASON, Answer, Operation
from datalog_gate.doors.heat import lifecycle
from datalog_gate.doors.heat.lifecycle import LifecyclePlugin, VetoError
from datalog_gate.doors.heat.live_stack import read_operation
from datalog_gate.doors.heat.status_reason import MAX_LENGTH
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.services.consultation import Ending
from tests.heat.doors.rig import HERE
from tests.heat.doors.templates import CLEAN
from tests.imports import run_program

VERSION = "Heat {} is not supported by this gate: 'types.SimpleNamespace' object has no attribute 't'"


class Environment:
    registry = SimpleNamespace(global_registry=SimpleNamespace(_registry={}))

    def user_env_as_dict(self) -> dict[str, Any]:
        return {"resource_registry": {"resources": {}}, "parameters": {"p": 1}, "parameter_defaults": {}}


class Point:
    """Gives one answer, or raises it."""

    def __init__(self, answer: Answer | Exception) -> None:
        self.answer = answer
        self.calls: list[object] = []

    def judge(self, operation: Operation) -> Answer:
        self.calls.append((operation.action, operation.stack_name, operation.definition()))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def finish(self, answer: Answer, ending: Ending) -> None:
        self.calls.append((answer.id, ending))


def context() -> Any:
    return SimpleNamespace(user_id="u", project_id="p", request_id="req-1", to_policy_values=lambda: {"user_id": "u"})


def stack(**changed: Any) -> Any:
    template = SimpleNamespace(id=1, t=CLEAN, files={"a": "b"}, env=Environment())
    whole = {"id": "1", "name": "web", "owner_id": None, "parent_resource_name": None, "tenant_id": "p",
             "action": "CREATE", "status": "COMPLETE", "disable_rollback": False, "t": template, "context": context(),
             "convergence": False, "adopt_stack_data": None, "prev_raw_template_id": None, "identifier": None,
             "tags": [], "defn": SimpleNamespace(parent_resource=None)}  # fmt: skip
    return SimpleNamespace(**{**whole, **changed})


def install_point(monkeypatch: pytest.MonkeyPatch, point: Point) -> Point:
    module = ModuleType("datalog_gate.decision_point.point")
    module.__dict__["shared_point"] = lambda: point
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return point


def outcome(action: str, of: Any) -> tuple[object, ...] | None:
    """What the plugin vetoes with."""
    try:
        LifecyclePlugin().do_pre_op(context(), of, of if action == "ROLLBACK" else None, action)
    except VetoError as veto:
        return veto.args
    return None


def test_the_plugin_returns_the_answer_of_the_point() -> None:
    assert sorted(lifecycle.STOPPED) == sorted(["ROLLBACK", *(action.upper() for action in CLOSED)])
    assert MAX_LENGTH == REASON


def test_an_update_is_asked_of_the_new_template_with_the_stacks_name() -> None:
    template = SimpleNamespace(t={**CLEAN, "description": "new"}, files={}, env=Environment())
    operation = read_operation("plugin", context(), stack(), template, "update", ["x"])
    assert operation is not None
    definition = operation.definition()
    assert (operation.door, operation.action, operation.stack_name, operation.project) == (
        "plugin",
        "update",
        "web",
        "p",
    )
    assert (operation.credentials, operation.stack_id, operation.request_id) == ({"user_id": "u"}, "1", "req-1")
    assert (operation.dry_run, operation.asks_services) == (False, True)
    assert definition == StackDefinition(template.t, Environment().user_env_as_dict(), None, {}, tags=("x",))
    assert definition.template is not template.t


@pytest.mark.parametrize("action", ["CREATE", "UPDATE", "ADOPT", "RESTORE", "DELETE", "SUSPEND", "CHECK", "ROLLBACK"])
def test_a_heat_that_is_not_known_stops_what_builds_and_is_named(action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datalog_gate.doors.heat.heat_objects.version", lambda _name: "99.0")
    del (changed := stack()).t
    reason = f"The policies could not be evaluated: {VERSION.format('99.0')}"
    assert outcome(action, changed) == ((reason,) if action in lifecycle.STOPPED else None)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (RulesError([]), "RulesError, see the log of heat-engine"),
        (KeyError(("not", "a text")), "KeyError, see the log of heat-engine"),
        (EngineError("the evaluation took too long"), "the evaluation took too long"),
    ],
)
def test_what_is_broken_in_the_gate_stops_what_builds_in_words(
    broken: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_point(monkeypatch, Point(broken))
    outcomes = [outcome(action, stack()) for action in ("CREATE", "DELETE")]
    assert outcomes == [(f"The policies could not be evaluated: {reason}",), None]


def test_a_point_that_can_not_be_imported_stops_what_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datalog_gate.decision_point.point", None)
    reason = "The policies could not be evaluated: ModuleNotFoundError, see the log of heat-engine"
    assert [outcome(action, stack()) for action in ("CREATE", "DELETE")] == [(reason,), None]


def test_a_veto_is_one_short_line_that_any_database_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    install_point(monkeypatch, Point(Answer("denied", "1", "a\nb \ud800 \U0001f600 é" + "x" * 3000)))
    assert outcome("CREATE", stack()) == ("a?b ? ? é" + "x" * 1991,)


def test_a_denial_without_a_reason_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    install_point(monkeypatch, Point(Answer("denied", "1")))
    assert [outcome(action, stack()) for action in ("CREATE", "DELETE")] == [
        ("The policies deny this.",), ("On delete or abandon: The policies deny this.",),
    ]  # fmt: skip


def test_an_operation_without_an_end_is_reported_as_failed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    point = install_point(monkeypatch, Point(Answer("allowed", "1")))
    plugin = LifecyclePlugin()
    heat_stack = stack()
    plugin.do_pre_op(context(), heat_stack, None, "SUSPEND")
    plugin.do_pre_op(context(), heat_stack, None, "RESUME")
    plugin.do_post_op(context(), heat_stack, None, "RESUME")
    plugin.do_post_op(context(), heat_stack, None, "RESUME")
    assert [call for call in point.calls if isinstance(call, tuple) and len(call) == 2] == [
        ("1", "failed"),
        ("1", "complete"),
    ]


def test_nothing_that_an_end_raises_goes_to_heat(monkeypatch: pytest.MonkeyPatch) -> None:
    install_point(monkeypatch, Point(Answer("allowed", "1")))
    plugin = LifecyclePlugin()
    plugin.do_pre_op(context(), stack(), None, "CREATE")
    monkeypatch.setitem(sys.modules, "datalog_gate.decision_point.point", None)
    plugin.do_post_op(context(), stack(), None, "CREATE")


JUDGE = """if True:
    import json, sys
    import heat.engine.service, tests.heat.doors.rig
    from oslo_config import cfg
    from oslo_policy import policy
    from tests.imports import names
    cfg.CONF([], project="heat", default_config_files=sys.argv[1:])
    policy.RuleDefault("stacks:create", "role:member")
    before = names()
    from tests.heat.doors.templates import LONG
    from tests.heat.doors.test_operation import stack
    from datalog_gate.doors.heat.engine_door import find_refusal
    from datalog_gate.doors.heat.lifecycle import LifecyclePlugin
    judged = stack()
    judged.t.t = {**LONG, "parameters": {"p": {"type": "number"}}}
    reasons = [find_refusal(judged, judged.t, "CREATE", [])]
    try:
        LifecyclePlugin().do_pre_op(judged.context, judged, None, "CREATE")
    except Exception as veto:
        reasons += veto.args
    print(json.dumps([*(reason.split(" [")[0] for reason in reasons), sorted(names() - before)]))
"""


def test_the_doors_in_the_engine_import_nothing_that_heat_has_not(tmp_path: Path) -> None:
    (tmp_path / "heat.conf").write_text(f"[datalog_gate]\nrules = {HERE / 'rules'}\n")
    denial = "length: s has 64 characters at resources.s.properties.length (32 are enough)"
    assert run_program(JUDGE, str(tmp_path / "heat.conf")) == [f"The policies deny this stack: {denial}"] * 2 + [[]]
