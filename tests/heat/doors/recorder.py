"""Record the questions to a decision point as lines of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock

from datalog_gate.decision_point import point
from datalog_gate.decision_point.operation import Answer, Operation
from datalog_gate.services.consultation import Ending

LOCK = Lock()


class Recorder:
    """Pass questions to a decision point and record them with the answers."""

    def __init__(self, decision_point: point.DecisionPoint, log: Path) -> None:
        self._point, self._log = decision_point, log
        self._open: list[tuple[Answer, Operation]] = []
        self.settings = decision_point.settings

    def judge(self, operation: Operation) -> Answer:
        """As the decision point."""
        answer = self._point.judge(operation)
        with LOCK:
            self._open.append((answer, operation))
        self._write(operation, answer.verdict)
        return answer

    def __getattr__(self, name: str) -> object:
        return getattr(self._point, name)

    def finish(self, answer: Answer, ending: Ending, stack_id: str = "") -> None:
        """As the decision point."""
        with LOCK:
            [operation] = [operation for judged, operation in self._open if judged is answer]
        self._write(operation, ending)
        self._point.finish(answer, ending, stack_id)

    def _write(self, operation: Operation, event: str) -> None:
        line = {"stack": operation.stack_name, "action": operation.action, "door": operation.door, "what": event}
        with LOCK, self._log.open("a") as file:
            file.write(json.dumps(line) + "\n")


def install(log: Path) -> None:
    """Make the recorder the decision point of the process."""
    real = point.shared_point
    recorders: list[Recorder] = []
    making = Lock()

    def shared_point() -> Recorder:
        with making:
            if not recorders:
                recorders.append(Recorder(real(), log))
        return recorders[0]

    point.__dict__["shared_point"] = shared_point
