"""Records of engines that started with the gate's door.

An engine without the door builds stacks that were not judged, without any message. So each engine with the door writes
a record to the decision log when it starts. `doctor` compares these with the running engines.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from datalog_gate.decision_point.log import DecisionLog, build_event
from datalog_gate.decision_point.settings import Settings

KIND = "engine_started"
_TITLE = re.compile(r"heat-engine: .*\[(.*)\]\Z")
"""The process title that replaces an engine's arguments if setproctitle is installed, as by Neutron."""
PROBE = "datalog-gate-engine-probe"
"""The name of a stack that a door in an engine always refuses to create, with `LIVE` as the reason."""
LIVE = "The door of datalog_gate in this engine is live."


def record_start(settings: Settings, heat: str, wrapped: str) -> None:
    """Record that this process started with the door: Heat's version, and the digest of the wrapped function."""
    log = DecisionLog(settings.decision_log, settings.decision_log_bytes)
    log.write(build_event(KIND, datetime.now(UTC), began=read_began(os.getpid()), heat=heat, wrapped=wrapped))
    log.flush(2.0)


def find_start(process: int, records: Iterable[Mapping[str, object]]) -> Mapping[str, object] | None:
    """The start record of a process of this host; None if it started without the door."""
    wanted = (KIND, socket.gethostname(), process, read_began(process))
    for record in records:
        if (record.get("kind"), record.get("host"), record.get("process"), record.get("began")) == wanted:
            return record
    return None


def running_engines(heat_conf: Path) -> Iterator[int]:
    """The heat-engine processes on this host, except forked workers and those started with another configuration
    file."""
    engines = {int(folder.name): folder for folder in Path("/proc").glob("[0-9]*") if _is_engine(folder, heat_conf)}
    for process, folder in sorted(engines.items()):
        if int(_status(folder)[1]) not in engines:
            yield process


def _is_engine(folder: Path, heat_conf: Path) -> bool:
    try:
        arguments = os.fsdecode((folder / "cmdline").read_bytes()).split("\0")
    except OSError:  # it has ended
        return False
    if title := _TITLE.match(arguments[0].rstrip()):
        arguments = title[1].split(" ")
    if not any(os.path.basename(argument) == "heat-engine" for argument in arguments[:2]):
        return False
    words = [word for argument in arguments for word in argument.split("=", maxsplit=1)]
    files = [file for option, file in pairwise(words) if option == "--config-file"]
    return not files or os.path.realpath(heat_conf) in map(os.path.realpath, files)


def read_began(process: int) -> int:
    """When a process started, in ticks since boot; -1 if that cannot be read."""
    try:
        return int(_status(Path(f"/proc/{process}"))[19])
    except (OSError, IndexError):
        return -1


def read_age(process: int) -> float:
    """The seconds since a process started. Errors: OSError, IndexError."""
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return uptime - int(_status(Path(f"/proc/{process}"))[19]) / os.sysconf("SC_CLK_TCK")


def _status(folder: Path) -> list[str]:
    """The fields of a process after its name, which may contain anything (man proc_pid_stat). Errors: OSError."""
    return (folder / "stat").read_text(errors="replace").rpartition(") ")[2].split()
