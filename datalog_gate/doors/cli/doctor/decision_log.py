"""Checks of the decision log and the hosts that write it."""

from __future__ import annotations

import json
import os
import socket
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.decision_point.engine_start import KIND as ENGINE_STARTED
from datalog_gate.decision_point.engine_start import read_began
from datalog_gate.decision_point.log import read_log
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.doctor import CheckResult, Locate


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


def _check_records(path: Path) -> Iterator[CheckResult]:
    """Count the records of the log, and compare the hosts by what their services loaded. Errors: InputError."""
    counts: Counter[str] = Counter()
    loaded: dict[str, Mapping[str, Any]] = {}
    failed: dict[str, Mapping[str, Any]] = {}
    engines: dict[str, Mapping[str, Any]] = {}
    options: dict[str, dict[str, Any]] = {}
    processes: dict[int, Mapping[str, Any]] = {}
    for record in read_log(path):
        if isinstance(record, Diagnostic):
            counts["unreadable lines"] += 1
            continue
        kind, host = (str(record.get(name, "")) for name in ("kind", "host"))
        count = record.get("count")
        counts[str(record.get("verdict")) if kind == "decision" else kind] += count if isinstance(count, int) else 1
        latest = {"loaded": loaded, "reload_failed": failed, ENGINE_STARTED: engines}.get(kind)
        if latest is not None and _time(record) >= _time(latest.get(host, {})):
            latest[host] = record
        process = record.get("process")
        if kind == "loaded" and host == socket.gethostname() and "program" in record and isinstance(process, int):
            processes[process] = record
        own = record.get("options")
        if isinstance(own, dict) and kind == "loaded":
            options[host] = dict(own)
        elif isinstance(own, dict) and kind == "options_loaded":
            options.setdefault(host, {}).update(own)
    if not counts:
        yield CheckResult("note", "log", f"{path} holds no record")
        return
    summary = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    yield CheckResult("note", "log", f"{path}: {summary}")
    differ = len({str(record.get("rules")) for record in loaded.values()}) > 1
    fix = "give all hosts the same rules, and restart the services that can't load them" if differ else ""
    for host, record in sorted(loaded.items()):
        message = f"{host} has had {str(record.get('rules'))[:12]} in force since {_time(record)}"
        yield CheckResult("finding" if differ else "ok", "rules", message, None, fix)
    for host, record in sorted(failed.items()):
        if _time(record) > _time(loaded.get(host, {})):
            message = f"{host} could not load the rules at {_time(record)}, and keeps older ones{_first_reason(record)}"
            fix = f"look for reload_failed in {path}, and correct the rules"
            yield CheckResult("finding", "rules", message, None, fix)
    yield from _compare_processes(processes)
    yield from _compare_hosts(loaded, engines, options)


def _time(record: Mapping[str, Any]) -> str:
    return str(record.get("time", ""))


def _first_reason(record: Mapping[str, Any]) -> str:
    """The message of the first diagnostic of a record, with its file and line."""
    match record.get("diagnostics"):
        case [{"message": str(message), "place": {"file": file, "line": line}}, *_]:
            return f": {file}:{line}: {message}"
        case [{"message": str(message)}, *_]:
            return f": {message}"
    return ""


def _compare_processes(loaded: Mapping[int, Mapping[str, Any]]) -> Iterator[CheckResult]:
    """Say which rules each running process of this host has. A process without requests keeps older ones."""
    others = ((number, record) for number, record in loaded.items() if number != os.getpid())
    running = {number: record for number, record in others if record.get("began") == read_began(number)}
    differ = len({record.get("rules") for record in running.values()}) > 1
    fix = "send it a request, which loads changed rules; restart it if it keeps them" if differ else ""
    for number, record in sorted(running.items()):
        rules = str(record.get("rules"))[:12]
        message = f"{record['program']} {number} on this host has had {rules} in force since {_time(record)}"
        yield CheckResult("note" if differ else "ok", "rules", message, None, fix)


def _compare_hosts(
    loaded: Mapping[str, Mapping[str, Any]],
    engines: Mapping[str, Mapping[str, Any]],
    options: Mapping[str, Mapping[str, Any]],
) -> Iterator[CheckResult]:
    """Compare versions and options in the last records of each host."""
    same = "install the same version on all hosts, and restart Heat's services there"
    yield from _compare("versions of datalog_gate", _values(loaded, "version"), same)
    yield from _compare("versions of Heat", _values(engines, "heat"), same)
    defaults = Settings()
    for name in sorted({name for own in options.values() for name in own}):
        values = {host: own.get(name, getattr(defaults, name, None)) for host, own in options.items()}
        fix = f"give {name} the same value under [datalog_gate] on all hosts"
        yield from _compare(f"values of the option {name}", values, fix)


def _values(records: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    return {host: record[name] for host, record in records.items() if name in record}


def _compare(what: str, values: Mapping[str, Any], fix: str) -> Iterator[CheckResult]:
    hosts: dict[str, list[str]] = defaultdict(list)
    for host, value in sorted(values.items()):
        hosts[value if isinstance(value, str) else json.dumps(value, sort_keys=True)].append(host)
    if len(hosts) > 1:
        parts = [f"{value or 'nothing'} on {', '.join(names)}" for value, names in sorted(hosts.items())]
        yield CheckResult("finding", "hosts", f"the hosts have different {what}: {'; '.join(parts)}", None, fix)
