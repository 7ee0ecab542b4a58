"""The doors in Heat's engine import nothing that Heat has not imported."""

from __future__ import annotations

from pathlib import Path

from tests.heat.doors.rig import HERE
from tests.imports import run_program

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
