"""A decision point for tests of the plugin alone: it loads the rules of the folder that heat.conf names, judges, and
writes what it was asked and told.

In: `[datalog_gate] rules` and `keep_vetoed_stack`. Out: lines of JSON in asked.jsonl.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from threading import Lock
from types import ModuleType

from oslo_config import cfg

from datalog_gate.api import load_rules
from datalog_gate.enforce.render import reason
from datalog_gate.errors import InputError
from datalog_gate.point.asked import REASON, Answer, Asked

LOCK = Lock()


class Point:
    """As the decision point of the gate."""

    def __init__(self, folder: Path) -> None:
        self._rules = load_rules(cfg.CONF.datalog_gate.rules)
        self._log = folder / "asked.jsonl"

    def judge(self, asked: Asked) -> Answer:
        """The decision by the rules."""
        self._write("judge", asked.stack_name, asked.action, asked.stack_id)
        try:
            stack = asked.definition().stack(asked.stack_name, self._rules.catalogue)
        except InputError as error:
            return Answer("unreadable", "none", str(error)[:REASON])
        decision = self._rules.decide(stack, action=asked.action)
        if decision.outcome == "deny":
            return Answer("denied", decision.id, reason(decision, REASON))
        return Answer("allowed", f"{asked.stack_name} {asked.action}")

    def finish(self, answer: Answer, accepted: bool) -> None:
        """Told the end."""
        self._write("finish", *answer.id.split(), "accepted" if accepted else "failed")

    def _write(self, *line: str) -> None:
        with LOCK, self._log.open("a") as file:
            file.write(json.dumps(line) + "\n")


def install(folder: Path) -> None:
    """Put it where the plugin looks for the decision point."""
    cfg.CONF.register_opts([cfg.StrOpt("rules"), cfg.BoolOpt("keep_vetoed_stack", default=False)], "datalog_gate")
    made: list[Point] = []

    def shared() -> Point:
        with LOCK:
            if not made:
                made.append(Point(folder))
        return made[0]

    module = ModuleType("datalog_gate.point.point")
    module.__dict__["shared"] = shared
    sys.modules[module.__name__] = module
