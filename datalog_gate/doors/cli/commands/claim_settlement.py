"""`services reconcile`: settles claims."""

from __future__ import annotations

import argparse
import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import printable
from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.enabled_plugins import create_broker
from datalog_gate.doors.cli.common import FINDINGS, OK
from datalog_gate.doors.cli.heat_client import Heat, HeatStacks, find_outcome
from datalog_gate.doors.cli.heat_conf import invalid_file, read_settings
from datalog_gate.doors.cli.turns import Turns
from datalog_gate.plugins.plugin_errors import PluginLoadError
from datalog_gate.services import reconcile as reconciliation
from datalog_gate.services.journal_claim import JournalError
from datalog_gate.services.reconcile import ReconcileResult

SCHEMA = "datalog-gate/services/1"
FAILURES = ("stuck", "alarm", "failed", "misplaced")
"""The results of a reconciliation that need a person."""
REFUSED = "Heat does not show stacks of all projects to the user of OS_*: use an admin"


def reconcile(options: argparse.Namespace) -> int:
    """Settle claims and print the results. Errors: InputError, UsageError."""
    code = OK
    for settlements in settle_claims(options.heat_conf, options.every):
        for settlement in settlements:
            print(_format_settlement(settlement, options.format), flush=True)
            code = FINDINGS if settlement.done in FAILURES else code
    return code


def settle_claims(
    heat_conf: Path,
    every: float | None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Iterator[list[ReconcileResult]]:
    """Settle claims, once or repeatedly. If several hosts repeat it, one has the lease and the
    others wait. Errors, at the start: InputError, UsageError."""
    settings, conf = read_settings(heat_conf)
    try:
        broker = create_broker(settings, clock)
    except (PluginLoadError, JournalError, ValueError) as error:
        raise invalid_file(heat_conf, error) from None
    if broker is None:
        raise InputError.of(f"{heat_conf}: no services are enabled")
    heat = Heat()
    stacks = HeatStacks(heat, broker.journal, _read_host(conf))
    turns = Turns(broker.journal.store, "reconcile", every or 0.0, clock)
    while True:
        try:
            other = None if every is None else turns.take()
            if other is not None:
                yield [ReconcileResult("", "", "waiting", other)] if other else []
            else:
                stacks.refused = False
                done = reconciliation.reconcile(broker, stacks, stacks.members, partial(find_outcome, heat))
                yield [*done, *([ReconcileResult("", "", "failed", REFUSED)] if stacks.refused else [])]
        except JournalError as error:
            if every is None:
                raise invalid_file(heat_conf, error) from None
            yield [ReconcileResult("", "", "failed", str(error))]
        if every is None:
            return
        sleep(every)


def _format_settlement(settlement: ReconcileResult, form: str) -> str:
    if form == "json":
        return json.dumps({"schema": SCHEMA, **asdict(settlement)}, ensure_ascii=False)
    stack = f" of stack {settlement.stack}" if settlement.stack else ""
    what = f"{settlement.uuid}{stack}: " if settlement.uuid else ""
    return printable(f"{settlement.done}: {what}{settlement.why}")


def _read_host(conf: Any) -> str:
    """The name under which Heat's engine on this host reports (heat/common/config.py, `host`)."""
    from oslo_config import cfg

    conf.register_opt(cfg.StrOpt("host", default=socket.gethostname()))
    return str(conf.host)
