"""The command `services`: lists services, and lists and settles their claims."""

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

from datalog_gate.base.diagnostics import format_count, printable
from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.enabled_plugins import create_broker
from datalog_gate.doors.cli.common import FINDINGS, OK
from datalog_gate.doors.cli.heat_client import HeatClient, HeatStacks, find_outcome
from datalog_gate.doors.cli.heat_conf import invalid_file, read_settings
from datalog_gate.doors.cli.turns import Turns
from datalog_gate.plugins.plugin_errors import PluginLoadError
from datalog_gate.services import reconcile as reconciliation
from datalog_gate.services.journal import Journal
from datalog_gate.services.journal_claim import Claim, JournalError
from datalog_gate.services.reconcile import ALARM, ReconcileResult
from datalog_gate.store.transaction import Store

SCHEMA = "datalog-gate/services/1"
FAILURES = ("stuck", "alarm", "failed", "misplaced")
"""The results of a reconciliation that need a person."""
REFUSED = "Heat does not show stacks of all projects to the user of OS_*: use an admin"


def services(options: argparse.Namespace) -> int:
    """Run a part of the command. Errors: InputError, UsageError."""
    match options.part:
        case "list":
            for name in read_settings(options.heat_conf)[0].services:
                print(name)
        case "status":
            claims, now = read_claims(options.heat_conf), time.time()
            print("\n".join(format_claims(claims, now)))
            return FINDINGS if any(_find_alarm(claim, now) for claim in claims) else OK
        case "reconcile":
            return _reconcile(options)
    return OK


def read_claims(heat_conf: Path) -> tuple[Claim, ...]:
    """Read the claims of all services, the oldest first. Errors: InputError, UsageError."""
    settings, _ = read_settings(heat_conf)
    if not settings.store:
        raise InputError.of(f"{heat_conf}: store is not set")
    try:
        return () if Store(settings.store).missing else Journal(settings.store).claims()
    except (JournalError, ValueError) as error:
        raise invalid_file(heat_conf, error) from None


def format_claims(claims: tuple[Claim, ...], now: float) -> Iterator[str]:
    """Format the claims as lines of text."""
    for claim in claims:
        name = f"{claim.service} {claim.path or claim.action} of project {claim.project}, stack {claim.stack}"
        abandoned = ", abandoned" if claim.abandoned else ""
        yield printable(f"{claim.state} for {_format_age(now - claim.since)}: {name}{abandoned}")
        if alarm := _find_alarm(claim, now):
            yield printable(f"  alarm {alarm}")
        elif claim.problem:
            yield printable(f"  last  {claim.problem}")
    alarms = sum(bool(_find_alarm(claim, now)) for claim in claims)
    yield f"{format_count(len(claims), 'claim')}, {alarms} to look at"


def _find_alarm(claim: Claim, now: float) -> str:
    """Why a person has to look at the claim: it has been in an intermediate state for too long; "" otherwise."""
    age = now - claim.since
    if claim.live or age < ALARM:
        return ""
    if claim.state == "releasing":
        return f"not released for {age:.0f} seconds: {claim.problem or 'is `services reconcile` running?'}"
    return f"interrupted {age:.0f} seconds ago, and not settled since: is `services reconcile` running?"


def _format_age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _reconcile(options: argparse.Namespace) -> int:
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
    heat = HeatClient()
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
