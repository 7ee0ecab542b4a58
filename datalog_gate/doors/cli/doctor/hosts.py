"""Compares the rules of the hosts that write a decision log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from datalog_gate.decision_point.engine_start import KIND
from datalog_gate.decision_point.log import read_log
from datalog_gate.doors.cli.doctor import CheckResult

LogRecord = Mapping[str, object]


def read_starts(path: Path) -> list[LogRecord]:
    """Read the records of a log that say which rules a host loaded, and which engines started. Errors: InputError."""
    records = (record for record in read_log(path) if isinstance(record, Mapping))
    return [record for record in records if record.get("kind") in ("loaded", KIND)]


def check_hosts(records: Iterable[LogRecord]) -> Iterator[CheckResult]:
    """Show the rules that each host loaded last."""
    loaded: dict[str, tuple[str, str]] = {}
    for record in records:
        if record.get("kind") == "loaded":
            host, time, digest = (str(record.get(name, "")) for name in ("host", "time", "rules"))
            loaded[host] = max(loaded.get(host, ("", "")), (time, digest))
    differ = len({digest for _, digest in loaded.values()}) > 1
    fix = "give all hosts the same rules, and restart the services that can't load them" if differ else ""
    for host, (time, digest) in sorted(loaded.items()):
        message = f"{host} has had {digest[:12]} in force since {time}"
        yield CheckResult("finding" if differ else "ok", "rules", message, None, fix)
