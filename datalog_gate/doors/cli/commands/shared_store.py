"""The command `store`: creates, checks, exports and fills the store."""

from __future__ import annotations

import argparse
from pathlib import Path

from datalog_gate.base.diagnostics import printable
from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.common import FINDINGS, OK
from datalog_gate.doors.cli.heat_conf import invalid_file, read_settings
from datalog_gate.services.journal import Journal
from datalog_gate.services.journal_claim import OVER, JournalError
from datalog_gate.store.exchange import ExchangeError, count_rows, export_rows, import_rows, read_rows
from datalog_gate.store.generations import find_newest
from datalog_gate.store.tables import REVISION
from datalog_gate.store.transaction import UPGRADE, Store, StoreError, read_revision


def store(options: argparse.Namespace) -> int:
    """Run a part of the command. Errors: InputError, UsageError."""
    settings, _ = read_settings(options.heat_conf)
    if not settings.store_url:
        raise InputError.of(f"{options.heat_conf}: neither store nor service_journal is set")
    try:
        shared = Store(settings.store_url)
        match options.part:
            case "upgrade":
                before = shared.upgrade()
                print(printable(f"{shared.name}: {before or 'no tables'} before, {REVISION} now"))
            case "check":
                return _check(shared, settings)
            case "export":
                for line in export_rows(shared):
                    print(line)
            case "import":
                for path in options.file:
                    _import(shared, path)
    except (StoreError, JournalError, ExchangeError, ValueError) as error:
        raise invalid_file(options.heat_conf, error) from error
    return OK


def _check(shared: Store, settings: Settings) -> int:
    if shared.missing:
        print(printable(f"{shared.name}: nothing was granted yet"))
        return OK
    revision = shared.read(read_revision)
    if revision != REVISION:
        print(printable(f"{shared.name}: revision {revision or 'none'}, but this package needs {REVISION}: {UPGRADE}"))
        return FINDINGS
    counts = ", ".join(f"{name} {count}" for name, count in count_rows(shared).items())
    newest = find_newest(shared)
    if newest:
        counts += f"; inventory {sum(newest.sizes.values())} rows in {len(newest.sizes)} tables"
    print(printable(f"{shared.name}: revision {revision}; {counts}"))
    old = Path(settings.service_journal)
    if (
        settings.store
        and settings.service_journal
        and old.exists()
        and (left := _count_left(Journal(settings.store), old))
    ):
        print(printable(f"{old} holds {left} claims that the store lacks: `datalog-gate store import {old}`"))
        return FINDINGS
    return OK


def _import(shared: Store, path: Path) -> None:
    imported = import_rows(shared, read_rows(path))
    print(printable(f"{path}: {imported.added} rows added, {imported.known} existed already"))
    for before, now in imported.renumbered.items():
        print(f"  the request A-{before} is A-{now} here")


def _count_left(journal: Journal, old: Path) -> int:
    """Count the active claims of an old journal that are not in the store."""
    claims = [row for table, row in read_rows(old) if table.name == "journal" and row["state"] not in OVER]
    return sum(journal.claim(claim["uuid"]) is None for claim in claims)
