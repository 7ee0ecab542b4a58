"""What the decision point of the process was asked and told, in lines of JSON in a file."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock

from datalog_gate.decision_point import point
from datalog_gate.decision_point.operation import Answer, Operation
from datalog_gate.preflight.plugin import Outcome

LOCK = Lock()


class Recorder:
    """Asks a decision point, and keeps what was asked and told."""

    def __init__(self, asked: point.DecisionPoint, log: Path) -> None:
        self._point, self._log = asked, log
        self._open: list[tuple[Answer, Operation]] = []
        self.settings = asked.settings

    def judge(self, asked: Operation) -> Answer:
        """What the decision point answers."""
        answer = self._point.judge(asked)
        with LOCK:
            self._open.append((answer, asked))
        self._write(asked, answer.verdict)
        return answer

    def __getattr__(self, name: str) -> object:
        return getattr(self._point, name)

    def finish(self, answer: Answer, outcome: Outcome, stack_id: str = "") -> None:
        """Tells the decision point."""
        with LOCK:
            [asked] = [asked for one, asked in self._open if one is answer]
        self._write(asked, outcome)
        self._point.finish(answer, outcome, stack_id)

    def abandon(self, stack_id: str, project: str, stack_name: str) -> None:
        """Tells the decision point."""
        self._point.abandon(stack_id, project, stack_name)

    def _write(self, asked: Operation, what: str) -> None:
        line = {"stack": asked.stack_name, "action": asked.action, "door": asked.door, "what": what}
        with LOCK, self._log.open("a") as file:
            file.write(json.dumps(line) + "\n")


def install(log: Path) -> None:
    """Put the recorder where doors look for the decision point of the process."""
    real = point.shared_point
    made: list[Recorder] = []
    making = Lock()

    def shared_point() -> Recorder:
        with making:
            if not made:
                made.append(Recorder(real(), log))
        return made[0]

    point.__dict__["shared_point"] = shared_point
