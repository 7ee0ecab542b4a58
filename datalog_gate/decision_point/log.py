"""The decision log: it is written, read and replayed without secrets.

It has one JSON object per line, which a replay judges again by the same or other rules. The file has at most half of
`limit` bytes; an older file ``.1`` has the rest. Several processes may share it, also after a fork. Records that cannot
be written are dropped, and the next record says how many.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from errno import ENOSPC
from functools import partial
from pathlib import Path
from queue import Full, Queue
from threading import Lock, Thread
from typing import Any, NamedTuple

from datalog_gate import __version__
from datalog_gate.api import Rules
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import EngineError, InputError
from datalog_gate.base.records import dataclass
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.decision import SHORT, Decision, Waiver
from datalog_gate.decision_point.operation import Answer, Operation
from datalog_gate.decision_point.redaction import redact_definition
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.files.templates import unreadable
from datalog_gate.stack.model import Stack

LOG = logging.getLogger(__name__)
SCHEMA = "datalog-gate/log/1"
QUEUE_SIZE = 1000
"""The maximum number of queued records."""
EXIT_TIMEOUT = 2.0
"""Seconds that a process waits for its last records when it ends."""
NOT_JUDGED = "no policy judges it"
Record = Mapping[str, object]
FINDINGS = (("violations", ""), ("undetermined", "undetermined "), ("waived", "waived "), ("errors", "error "))
"""The fields of a decision with findings, which a replay compares, and their names in text."""
EFFECTS = ("level", "mode")
"""The fields of a finding that say what it does."""


@dataclass(frozen=True, slots=True)
class DecisionTrace:
    """A decision with all of its inputs."""

    rules: Rules
    definition: StackDefinition
    stack: Stack
    before: tuple[StackDefinition, Stack] | None
    """The stack before a change; None if the door does not know it."""
    decision: Decision
    inputs: Mapping[str, object]
    """The other inputs of the decision, as JSON data."""
    seconds: Mapping[str, float]
    """The duration of each phase."""
    ages: Mapping[str, float]
    """The ages in seconds of the inventory, and of its oldest table by name."""


def build_record(
    operation: Operation, answer: Answer, trace: DecisionTrace | None, why: str, now: datetime
) -> dict[str, object]:
    """Build the record of an answer. `why` says why it differs from the answer of the policies."""
    record: dict[str, object] = {
        "schema": SCHEMA,
        "kind": "decision",
        "version": __version__,
        "time": now.isoformat(),
        "id": answer.id,
        "verdict": answer.verdict,
        "reason": answer.reason or why,
        "door": operation.door,
        "action": operation.action,
        "stack_name": operation.stack_name,
        "stack_id": operation.stack_id,
        "project": operation.project,
        "user": (operation.credentials or {}).get("user_id"),
        "request_id": operation.request_id,
        "dry_run": operation.dry_run,
    }
    if trace is None:
        if answer.id and why != NOT_JUDGED:
            record["unjudged"] = answer.reason or why
        return record
    stacks = [trace.stack, *([trace.before[1]] if trace.before else [])]
    for leftovers in trace.definition.leftovers:
        stacks += leftovers.trees(trace.stack.id, trace.rules.catalogue)
    definition, names = redact_definition(trace.definition.to_json(), stacks)
    inputs = {**trace.inputs, "definition": definition}
    if trace.before:
        inputs["against"], _ = redact_definition(trace.before[0].to_json(), stacks)
        inputs |= {} if operation.tolerant else {"tolerant": False}
    return record | {
        "decision": Decision.to_json(trace.decision),  # without an explanation, which anybody can ask for later
        "inputs": inputs,
        "redacted": names,
        "seconds": {phase: round(seconds, 6) for phase, seconds in trace.seconds.items()},
        "ages": {name: round(age) for name, age in trace.ages.items()},
    }


def build_event(kind: str, now: datetime, **fields: object) -> dict[str, object]:
    """Build the record of something that happened to this process."""
    origin = {"version": __version__, "time": now.isoformat(), "host": socket.gethostname(), "process": os.getpid()}
    return {"schema": SCHEMA, "kind": kind, **origin, **fields}


class DecisionLog:
    """The log at a path, of at most `limit` bytes. Without a path records are ignored."""

    def __init__(self, path: str, limit: int) -> None:
        self._path, self._limit = Path(path) if path else None, limit
        self.dropped = 0
        """The number of records that this process could not write."""
        self._reset()

    def _reset(self) -> None:
        """Drop the state of the parent after a fork: its threads do not exist here, and may have held the lock. A
        process notices by its id that it was forked, since uWSGI forks without Python's hooks."""
        self._process = os.getpid()
        self._queue: Queue[Record] = Queue(QUEUE_SIZE)
        self._lock = Lock()
        self._started = False
        self.dropped = self._reported = 0

    def write(self, record: Record) -> None:
        """Queue a record for writing. The caller must not change its data any more."""
        if self._path is None:
            return
        if self._process != os.getpid():
            self._reset()
        if not self._started:
            self._start()
        try:
            self._queue.put_nowait(record)
        except Full:
            self._drop(1, "records arrive faster than they can be written")

    def flush(self, seconds: float) -> None:
        """Wait until all queued records are written, or the timeout ends."""
        end = time.monotonic() + seconds
        while self._process == os.getpid() and self._queue.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.005)

    def _start(self) -> None:
        """Start the writer thread of this process; a thread does not survive a fork."""
        with self._lock:
            if not self._started:
                atexit.register(self.flush, EXIT_TIMEOUT)
                Thread(target=self._run, args=(self._queue,), name="datalog-gate-log", daemon=True).start()
                self._started = True

    def _run(self, queue: Queue[Record]) -> None:
        while True:
            self._save(queue.get())
            queue.task_done()

    def _save(self, record: Record) -> None:
        """Append the record, after one with the number of lost records if there are any."""
        assert self._path is not None
        line = self._line(record)
        dropped = self.dropped
        report = _encoded({"schema": SCHEMA, "kind": "dropped", "count": dropped - self._reported})
        try:
            with open(f"{self._path}.lock", "a", opener=_open_private) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                try:
                    if dropped > self._reported:
                        _append(self._path, report, self._limit // 2)
                        self._reported = dropped
                    if line:
                        _append(self._path, line, self._limit // 2)
                finally:  # a process forked meanwhile also holds the file open, and with it the lock
                    fcntl.flock(lock, fcntl.LOCK_UN)
        except OSError as error:
            self._drop(bool(line), f"{self._path} can't be written: {error}")

    def _line(self, record: Record) -> bytes:
        try:
            line = _encoded(record)
        except (ValueError, TypeError, RecursionError) as error:
            self._drop(1, f"a record is not JSON: {error}")
            return b""
        if len(line) > self._limit // 2:
            self._drop(1, f"a record has {len(line)} bytes, more than half of decision_log_bytes")
            return b""
        return line

    def _drop(self, count: int, why: str) -> None:
        with self._lock:
            self.dropped += count
            total = self.dropped
        LOG.error("the decision log has lost %s records so far: %s", total, why)


def _encoded(record: Record) -> bytes:
    return f"{json.dumps(record)}\n".encode("ascii")


_open_private = partial(os.open, mode=0o640)
"""Opens the log and its lock for this user only: others who could open the lock could hold it and block the log."""


def _append(path: Path, line: bytes, limit: int) -> None:
    """Append the whole line or nothing. Errors: OSError."""
    if path.exists() and path.stat().st_size + len(line) > limit:
        path.replace(f"{path}.1")
    with open(path, "a+b", buffering=0, opener=_open_private) as file:
        before = file.tell()
        if before and os.pread(file.fileno(), 1, before - 1) != b"\n":  # a crash truncated the last line
            line = b"\n" + line
        if file.write(line) < len(line):
            file.truncate(before)
            raise OSError(ENOSPC, "the disk is full")


def read_log(path: Path) -> Iterator[Record | Diagnostic]:
    """Read the records in order, with a diagnostic for each bad line. Errors: InputError if there is no file, or if it
    has whole lines, and none is a record."""
    older = Path(f"{path}.1")
    outcomes = set[bool]()
    for file in [older, path] if os.path.exists(older) else [path]:
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                for number, line in enumerate(lines, 1):
                    record = _parse_record(line, Span(str(file), number, 1, number, 1))
                    if line.endswith("\n"):  # a last line that is cut off is a record that was being written
                        outcomes.add(isinstance(record, Diagnostic))
                    yield record
        except (OSError, ValueError) as error:
            raise unreadable(file, error) from None
    if outcomes == {True}:
        help_ = "name the file of the option decision_log"
        raise InputError.of(f"{path} is no decision log: no line is a record of {SCHEMA}", suggestion=help_)


def _parse_record(line: str, place: Span) -> Record | Diagnostic:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Diagnostic("unreadable", f"the line is not a record: {error}", place, None, "warning")
    if not isinstance(record, dict) or record.get("schema") != SCHEMA or not isinstance(record.get("kind"), str):
        return Diagnostic("unreadable", f"the line is not a record of {SCHEMA}", place, None, "warning")
    return record


class FindingChange(NamedTuple):
    """A finding that is new (+), gone (-) or has another level or mode (~)."""

    sign: str
    field: str
    """The field of the decision that it is in: `violations`, `undetermined`, `waived` or `errors`."""
    policy: str
    level: str
    """The level, now if it is there now; empty for an error."""
    text: str

    def __str__(self) -> str:
        return f"{self.sign}{dict(FINDINGS)[self.field]}{self.policy}: {self.text}"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A record with the decision that the rules make now. Outcomes and findings are compared."""

    record: Record
    decision: Decision | None
    why: str = ""
    """Why there is no decision."""
    differs: tuple[str, ...] = ()
    """The fields of the decision's JSON that changed: `outcome` and those of `FINDINGS`."""
    changes: tuple[FindingChange, ...] = ()


def replay_log(
    path: Path,
    rules: Rules,
    inventory: Inventory | None = None,
    mode: str = "",
    waivers: Sequence[Waiver] | None = None,
) -> Iterator[ReplayResult | Diagnostic]:
    """Replay every decision of the log in order; yield a diagnostic for each bad line. A `mode` replaces that of the
    records; then results are yielded too that were not judged, since another mode may stop them. `waivers` replace
    those of the records. Errors: InputError if there is no log."""
    for record in read_log(path):
        if isinstance(record, Diagnostic):
            yield record
        elif "inputs" in record:
            yield replay_record(record, rules, inventory, mode=mode, waivers=waivers)
        elif mode and record.get("unjudged"):
            yield ReplayResult(record, None, str(record["unjudged"]))


def find_record(path: Path, decision: str) -> Record:
    """Find the last record of the decision whose id starts with this. Errors: InputError unless exactly one id does."""
    matches: dict[str, Record] = {}
    for record in read_log(path):
        if isinstance(record, Diagnostic) or record["kind"] != "decision":
            continue
        if decision and str(record.get("id", "")).startswith(decision):
            matches[str(record["id"])] = record
    if len(matches) != 1:
        what, advice = "no decision", f"a reason ends with the first {SHORT} characters of the id"
        if matches:
            what, advice = "several decisions", f"one of {', '.join(sorted(matches))}"
        raise InputError.of(f"{path} holds {what} {decision}", suggestion=advice)
    [record] = matches.values()
    return record


def replay_record(
    record: Record,
    rules: Rules,
    inventory: Inventory | None = None,
    explain: bool = False,
    mode: str = "",
    waivers: Sequence[Waiver] | None = None,
) -> ReplayResult:
    """Replay a record that has `inputs`, optionally with another mode or other waivers. A record holds the waivers that
    match its findings; no others matter while the rules find the same."""
    before: Any = record["decision"]
    inputs: Any = record["inputs"]
    try:
        name, against = inputs["stack_name"], inputs.get("against")
        stack = StackDefinition.from_json(inputs["definition"]).stack(name, rules.catalogue)
        old = StackDefinition.from_json(against).stack(name, rules.catalogue, undeclared=True) if against else ()
        decision = rules.decide(
            stack,
            inputs["action"],
            against=old,
            tolerant=inputs.get("tolerant", True),
            caller=inputs["caller"],
            services=inputs["services"],
            inventory=inventory,
            waivers=[Waiver.from_json(data) for data in inputs.get("waivers", ())] if waivers is None else waivers,
            now=inputs["now"],
            mode=mode or inputs["mode"],
            modes=inputs["modes"],
            explain=explain,
        )
    except (InputError, EngineError) as error:
        return ReplayResult(record, None, str(error))
    after = decision.to_json()
    changes = tuple(_find_changes(before, after))
    differs = ["outcome"] if before["outcome"] != decision.outcome else []
    return ReplayResult(record, decision, "", (*differs, *dict.fromkeys(change.field for change in changes)), changes)


def _find_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FindingChange]:
    for field, _ in FINDINGS:
        old, new = ({_identify(finding): finding for finding in decision[field]} for decision in (before, after))
        for sign, these, others in (("-", old, new), ("+", new, old)):
            merged = {key for finding in others.values() if finding.get("also") for key in _list_causes(finding)}
            causes = {key for finding in others.values() for key in _list_causes(finding)}
            for key, finding in these.items():
                there = causes if finding.get("also") else merged
                for policy, cause in _list_causes(finding):
                    if (policy, cause) not in there and (policy, key[1]) not in others:
                        yield _change(sign, field, {**finding, "policy": policy}, finding["message"])
        for key, finding in new.items():
            was = old.get(key, finding)
            words = [f"{was[name]}, now {finding[name]}" for name in EFFECTS if was.get(name) != finding.get(name)]
            if words:
                yield _change("~", field, finding, f"{finding['message']} ({'; '.join(words)})")


def _identify(finding: Mapping[str, Any]) -> tuple[str, str]:
    """The policy and row of a finding, or the policy and message of an error."""
    return finding["policy"], json.dumps(finding["row"]) if "row" in finding else finding["message"]


def _list_causes(finding: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each policy of a finding, which may be one for several, with what leaves it undetermined."""
    cause = json.dumps([unknown["expression"] for unknown in finding.get("because", ())])
    return [(policy, cause) for policy in (finding["policy"], *finding.get("also", ()))]


def _change(sign: str, field: str, finding: Mapping[str, Any], text: str) -> FindingChange:
    return FindingChange(sign, field, finding["policy"], finding.get("level", ""), text)
