"""Checks of the decision log and the hosts that write it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.records import dataclass, field
from datalog_gate.decision_point.engine_start import KIND as ENGINE_STARTED
from datalog_gate.decision_point.log import read_log
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.doctor import CheckResult, Locate

LogRecord = Mapping[str, Any]


def check_log(settings: Settings, log: Path | None, locate: Locate) -> Iterator[CheckResult]:
    """Check the log or the given one: who may read it, and how the hosts that write it differ."""
    path, place = Path(settings.decision_log), locate("decision_log")
    if not settings.decision_log:
        yield CheckResult("note", "log", "decision_log is not set: decisions are not logged", place)
    elif path.is_file() and path.stat().st_mode & 0o004:
        message = f"everybody may read {path}, which contains templates"
        yield CheckResult("note", "log", message, place, f"chmod o-rwx {path}")
    if log or (settings.decision_log and path.is_file()):
        yield from _check_records(log or path)


@dataclass(slots=True)
class _Summary:
    """What a log says: the number of its records by what they are, and the latest of some kinds by host."""

    counts: Counter[str] = field(default_factory=Counter)
    loaded: dict[str, LogRecord] = field(default_factory=dict)
    failed: dict[str, LogRecord] = field(default_factory=dict)
    engines: dict[str, LogRecord] = field(default_factory=dict)
    options: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, record: LogRecord) -> None:
        """Count a record, and keep what later ones do not replace."""
        kind, host = (str(record.get(name, "")) for name in ("kind", "host"))
        count = record.get("count")
        name = str(record.get("verdict")) if kind == "decision" else kind
        self.counts[name] += count if isinstance(count, int) else 1
        latest = {"loaded": self.loaded, "reload_failed": self.failed, ENGINE_STARTED: self.engines}.get(kind)
        if latest is not None and _time(record) >= _time(latest.get(host, {})):
            latest[host] = record
        own = record.get("options")
        if isinstance(own, dict) and kind == "loaded":
            self.options[host] = dict(own)
        elif isinstance(own, dict) and kind == "options_loaded":
            self.options.setdefault(host, {}).update(own)


def _check_records(path: Path) -> Iterator[CheckResult]:
    """Count the records of the log, and compare the hosts by what their services loaded. Errors: InputError."""
    summary = _Summary()
    for record in read_log(path):
        if isinstance(record, Diagnostic):
            summary.counts["unreadable lines"] += 1
        else:
            summary.add(record)
    if not summary.counts:
        yield CheckResult("note", "log", f"{path} holds no record")
        return
    counts = ", ".join(f"{name} {count}" for name, count in sorted(summary.counts.items()))
    yield CheckResult("note", "log", f"{path}: {counts}")
    differ = len({str(record.get("rules")) for record in summary.loaded.values()}) > 1
    fix = "give all hosts the same rules, and restart the services that can't load them" if differ else ""
    for host, record in sorted(summary.loaded.items()):
        message = f"{host} has had {str(record.get('rules'))[:12]} in force since {_time(record)}"
        yield CheckResult("finding" if differ else "ok", "rules", message, None, fix)
    for host, record in sorted(summary.failed.items()):
        if _time(record) > _time(summary.loaded.get(host, {})):
            message = f"{host} could not load the rules at {_time(record)}, and keeps older ones{_first_reason(record)}"
            fix = f"look for reload_failed in {path}, and correct the rules"
            yield CheckResult("finding", "rules", message, None, fix)
    yield from _compare_hosts(summary)


def _time(record: LogRecord) -> str:
    return str(record.get("time", ""))


def _first_reason(record: LogRecord) -> str:
    """The message of the first diagnostic of a record, with its file and line."""
    match record.get("diagnostics"):
        case [{"message": str(message), "place": {"file": file, "line": line}}, *_]:
            return f": {file}:{line}: {message}"
        case [{"message": str(message)}, *_]:
            return f": {message}"
    return ""


def _compare_hosts(summary: _Summary) -> Iterator[CheckResult]:
    """Compare versions and options in the last records of each host."""
    same = "install the same version on all hosts, and restart Heat's services there"
    yield from _compare("versions of datalog_gate", _values(summary.loaded, "version"), same)
    yield from _compare("versions of Heat", _values(summary.engines, "heat"), same)
    defaults = Settings()
    for name in sorted({name for own in summary.options.values() for name in own}):
        values = {host: own.get(name, getattr(defaults, name, None)) for host, own in summary.options.items()}
        fix = f"give {name} the same value under [datalog_gate] on all hosts"
        yield from _compare(f"values of the option {name}", values, fix)


def _values(records: Mapping[str, LogRecord], name: str) -> dict[str, Any]:
    return {host: record[name] for host, record in records.items() if name in record}


def _compare(what: str, values: Mapping[str, Any], fix: str) -> Iterator[CheckResult]:
    hosts: dict[str, list[str]] = defaultdict(list)
    for host, value in sorted(values.items()):
        hosts[value if isinstance(value, str) else json.dumps(value, sort_keys=True)].append(host)
    if len(hosts) > 1:
        parts = [f"{value or 'nothing'} on {', '.join(names)}" for value, names in sorted(hosts.items())]
        yield CheckResult("finding", "hosts", f"the hosts have different {what}: {'; '.join(parts)}", None, fix)
