"""The command `store`: creates, checks, exports and fills the store."""

from __future__ import annotations

import argparse
from pathlib import Path

from datalog_gate.base.diagnostics import printable
from datalog_gate.base.errors import InputError
from datalog_gate.doors.cli.common import FINDINGS, OK
from datalog_gate.doors.cli.heat_conf import invalid_file, read_settings
from datalog_gate.store.exchange import ExchangeError, count_rows, export_rows, import_rows, read_rows
from datalog_gate.store.generations import find_newest
from datalog_gate.store.tables import REVISION
from datalog_gate.store.transaction import INSTALL, UPGRADE, Store, StoreError, read_revision


def store(options: argparse.Namespace) -> int:
    """Run a part of the command. Errors: InputError, UsageError."""
    settings, _ = read_settings(options.heat_conf)
    if not settings.store:
        raise InputError.of(f"{options.heat_conf}: store is not set")
    try:
        shared = Store(settings.store)
        match options.part:
            case "upgrade":
                before = shared.upgrade()
                print(printable(f"{shared.name}: {before or 'no tables'} before, {REVISION} now"))
            case "check":
                return _check(shared)
            case "export":
                for line in export_rows(shared):
                    print(line)
            case "import":
                for path in options.file:
                    _import(shared, path)
    except (StoreError, ExchangeError, ValueError) as error:
        raise invalid_file(options.heat_conf, error) from error
    return OK


def _check(shared: Store) -> int:
    if shared.missing:
        print(printable(f"{shared.name}: nothing was granted yet"))
        return OK
    revision = shared.read(read_revision)
    if revision != REVISION:
        needs = f"{shared.name}: revision {revision or 'none'}, but this package needs {REVISION}"
        print(printable(f"{needs}: {INSTALL if revision else UPGRADE}"))
        return FINDINGS
    counts = ", ".join(f"{name} {count}" for name, count in count_rows(shared).items())
    newest = find_newest(shared)
    if newest:
        counts += f"; inventory {sum(newest.sizes.values())} rows in {len(newest.sizes)} tables"
    print(printable(f"{shared.name}: revision {revision}; {counts}"))
    return OK


def _import(shared: Store, path: Path) -> None:
    imported = import_rows(shared, read_rows(path))
    print(printable(f"{path}: {imported.added} rows added, {imported.known} existed already"))
