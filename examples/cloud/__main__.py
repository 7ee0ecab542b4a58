"""A small OpenStack from wheels, with the gate in its Heat.

Everything listens on 127.0.0.1 and is kept in one folder. Servers run on Nova's fake hypervisor, volumes on Cinder's
fake driver, and there is no network traffic. It is only for trials and tests: its passwords are in its files.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from examples.cloud import cloud
from examples.cloud.layout import Layout
from examples.cloud.processes import CloudError


def main() -> int:
    """Run a command; return 0, or 1 where something does not run."""
    parser = argparse.ArgumentParser(prog="python -m examples.cloud", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="start a cloud in a new folder, in about a minute")
    start.add_argument("--hosts", type=int, default=4, help="hosts of servers (4)")
    start.add_argument("--port-base", type=int, default=25000, help="the first of the ports it takes (25000)")
    start.add_argument("--legacy", action="store_true", help="run Heat's legacy engine in place of convergence")
    restart = commands.add_parser("restart", help="restart processes, so that they read their options anew")
    stop = commands.add_parser("stop", help="stop all processes of a cloud")
    status = commands.add_parser("status", help="list the processes of a cloud; exit 1 if any does not run")
    for command in (start, stop, status, restart):
        command.add_argument("folder", type=Path)
    restart.add_argument("process", nargs="+")
    options = parser.parse_args()
    try:
        return _run(options)
    except CloudError as error:
        print(error, file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    folder: Path = options.folder.resolve()
    match options.command:
        case "start":
            hosts = tuple(f"compute-{number + 1}" for number in range(options.hosts))
            layout = Layout(folder=folder, base=options.port_base, hosts=hosts, legacy=options.legacy)
            begin = time.monotonic()
            cloud.start(layout)
            print(f"a cloud runs in {folder} after {time.monotonic() - begin:.0f} seconds")
            print(f"for its user:     . {layout.openrc('demo')}")
            print(f"for its operator: . {layout.openrc('admin')}")
        case "stop":
            cloud.stop(folder)
        case "restart":
            cloud.restart(folder, options.process)
        case _:
            processes = cloud.status(folder)
            for name, is_alive in processes.items():
                print(f"{name}: {'running' if is_alive else 'ended'}")
            return 0 if all(processes.values()) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
