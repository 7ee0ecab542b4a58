"""The decision point as the tests see it: what it was asked and told, in lines of JSON.

Where the gate has no decision point yet a small one stands in: it loads the rules that heat.conf names, and judges.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

from oslo_config import cfg

from datalog_gate.api import load_rules
from datalog_gate.enforce.render import reason
from datalog_gate.errors import InputError
from datalog_gate.point.asked import REASON, Answer, Asked

MODULE = "datalog_gate.point.point"
LOCK = Lock()


class StandIn:
    """As small a decision point as can judge."""

    def __init__(self) -> None:
        self._rules = load_rules(cfg.CONF.datalog_gate.rules)

    def judge(self, asked: Asked) -> Answer:
        """The decision by the rules."""
        try:
            stack = asked.definition().stack(asked.stack_name, self._rules.catalogue)
        except InputError as error:
            return Answer("unreadable", "none", str(error)[:REASON])
        decision = self._rules.decide(stack, action=asked.action)
        if decision.outcome == "deny":
            return Answer("denied", decision.id, reason(decision, REASON))
        return Answer("allowed", decision.id)

    def finish(self, answer: Answer, accepted: bool) -> None:
        """Nothing hangs on it."""


class Recorder:
    """Asks a decision point, and keeps what was asked and told."""

    def __init__(self, point: Any, log: Path) -> None:
        self._point, self._log = point, log
        self._open: list[tuple[Answer, Asked]] = []

    def judge(self, asked: Asked) -> Answer:
        """What the decision point answers."""
        answer: Answer = self._point.judge(asked)
        with LOCK:
            self._open.append((answer, asked))
        self._write(asked, answer.verdict)
        return answer

    def finish(self, answer: Answer, accepted: bool) -> None:
        """Tells the decision point."""
        with LOCK:
            [asked] = [asked for one, asked in self._open if one is answer]
        self._write(asked, "accepted" if accepted else "failed")
        self._point.finish(answer, accepted)

    def _write(self, asked: Asked, what: str) -> None:
        line = {"stack": asked.stack_name, "action": asked.action, "door": asked.door, "what": what}
        with LOCK, self._log.open("a") as file:
            file.write(json.dumps(line) + "\n")


def install(log: Path) -> None:
    """Put the recorder where doors look for the decision point of the process."""
    if find_spec(MODULE):
        module = import_module(MODULE)
        real = module.shared
    else:
        cfg.CONF.register_opts([cfg.StrOpt("rules"), cfg.BoolOpt("keep_vetoed_stack", default=False)], "datalog_gate")
        module = sys.modules[MODULE] = ModuleType(MODULE)
        real = StandIn
    made: list[Recorder] = []
    making = Lock()

    def shared() -> Recorder:
        with making:
            if not made:
                made.append(Recorder(real(), log))
        return made[0]

    module.__dict__["shared"] = shared
