"""What services hold (layer 6): in, heat.conf, whose journal tells it; out, the claims, and what was settled of them by
what Heat says of their stacks."""

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

from datalog_gate.base.diagnostics import Diagnostic, printable
from datalog_gate.base.errors import InputError
from datalog_gate.doors.cli.heat_client import Heat
from datalog_gate.doors.cli.heat_conf import read_settings, wrong
from datalog_gate.doors.cli.stack_states import HeatStacks, ended
from datalog_gate.plugins.errors import PluginLoadError
from datalog_gate.services.journal import Claim, Journal, JournalError
from datalog_gate.services.outcomes import tell
from datalog_gate.services.reconcile import Ages, Done, reconcile

SCHEMA = "datalog-gate/services/1"
GRAVE = ("stuck", "alarm", "failed")
"""What a person has to look at."""
AGES = Ages()


def run(options: argparse.Namespace) -> bool:
    """Print what the part of the command `services` says; whether a person has to look at any of it. Errors:
    InputError, UsageError."""
    if options.part == "list":
        names = offered(options.heat_conf, options.for_me)
        lines = [json.dumps({"schema": SCHEMA, "services": names})] if options.format == "json" else names
        print("\n".join(lines), end="\n" if lines else "")
        return False
    if options.part == "status":
        claims, now = claims_of(options.heat_conf), time.time()
        print("\n".join(render(claims, now, options.format)))
        return any(alarm(claim, now) for claim in claims)
    grave = False
    for settled in settle(options.heat_conf, options.every):
        for one in settled:
            print(told(one, options.format), flush=True)
            grave = grave or one.done in GRAVE
    return grave


def claims_of(heat_conf: Path) -> tuple[Claim, ...]:
    """What services may hold, oldest first. Errors: InputError, UsageError."""
    chosen, _ = read_settings(heat_conf)
    path = chosen.service_journal
    if not path or not Path(path).is_file():
        message = f"the journal {path} is not there: nothing was granted yet" if path else "no service_journal is set"
        raise InputError([Diagnostic("unreadable", f"{heat_conf}: {message}")])
    try:
        return Journal(path).claims()
    except JournalError as error:
        raise wrong(heat_conf, error) from None


def alarm(claim: Claim, now: float) -> str:
    """What is wrong with a claim that is neither held nor over for too long; empty if nothing is."""
    age = now - claim.since
    if claim.live or age < AGES.alarm:
        return ""
    if claim.state == "releasing":
        return f"not released for {age:.0f} seconds: {claim.problem or 'is `services reconcile` running?'}"
    return f"broken off {age:.0f} seconds ago, and nobody has settled it: is `services reconcile` running?"


def render(claims: tuple[Claim, ...], now: float, form: str) -> Iterator[str]:
    """The claims in a format, text or json, by lines."""
    if form == "json":
        yield json.dumps({"schema": SCHEMA, "claims": [_to_json(claim, now) for claim in claims]}, ensure_ascii=False)
        return
    for claim in claims:
        name = f"{claim.service} {claim.path} of project {claim.project}, stack {claim.stack}"
        yield printable(
            f"{claim.state} for {_age(now - claim.since)}: {name}{', abandoned' if claim.abandoned else ''}"
        )
        if said := alarm(claim, now):
            yield printable(f"  alarm {said}")
        elif claim.problem:
            yield printable(f"  last  {claim.problem}")
    grave = sum(bool(alarm(claim, now)) for claim in claims)
    yield f"{len(claims)} claim{'' if len(claims) == 1 else 's'}, {grave} to look at"


def settle(
    heat_conf: Path,
    every: float | None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Iterator[list[Done]]:
    """What was done, each time that claims are settled and plugins told what became of operations: once, or each so
    many seconds. Errors: InputError, UsageError; where it goes on, only those at the start."""
    from datalog_gate.decision_point.enabled_plugins import create_broker, load_preflight, open_outcomes

    chosen, conf = read_settings(heat_conf)
    try:
        chain, broker, outcomes = load_preflight(chosen), create_broker(chosen), open_outcomes(chosen)
    except (PluginLoadError, JournalError, ValueError) as error:
        raise wrong(heat_conf, error) from None
    if not (broker or outcomes):
        message = "no services are enabled, nor plugins of preflight with a service_journal"
        raise InputError([Diagnostic("unreadable", f"{heat_conf}: {message}")])
    heat = Heat()
    stacks = HeatStacks(heat, broker.journal, _host(conf)) if broker else None
    while True:
        try:
            done = reconcile(broker, stacks, AGES) if broker and stacks else []
            if chain and outcomes:
                done += tell(outcomes, chain.plugins, partial(ended, heat), clock())
            yield done
        except JournalError as error:
            if every is None:
                raise wrong(heat_conf, error) from None
            yield [Done("", "", "failed", str(error))]
        if every is None:
            return
        sleep(every)


def told(done: Done, form: str) -> str:
    """One thing that was done, as a line in a format, text or json."""
    if form == "json":
        return json.dumps({"schema": SCHEMA, **asdict(done)}, ensure_ascii=False)
    return printable(
        f"{done.done}: {done.uuid or 'nothing'}{f' of stack {done.stack}' if done.stack else ''}: {done.why}"
    )


def offered(heat_conf: Path, for_me: bool) -> list[str]:
    """The services that are enabled, or else those of them that whoever the credentials name may grant. Errors: as
    `claims_of`."""
    chosen, conf = read_settings(heat_conf)
    if not for_me:
        return list(chosen.services)
    from datalog_gate.decision_point.roles import Entitlements

    caller = Heat().caller()
    try:
        allowed = Entitlements(conf, chosen.services).services(str(caller["project_id"]), caller)
    except (OSError, ValueError) as error:
        raise wrong(heat_conf, error) from None
    return [service for service in chosen.services if service in allowed]


def _host(conf: Any) -> str:
    """The name under which Heat's engine on this host reports (heat/common/config.py, `host`)."""
    from oslo_config import cfg

    conf.register_opts([cfg.StrOpt("host", default=socket.gethostname())])
    return str(conf.host)


def _to_json(claim: Claim, now: float) -> dict[str, object]:
    shown = ("uuid", "service", "project", "stack", "stack_name", "path", "state", "expires", "abandoned", "attempts")
    return {
        **{"grant" if name == "path" else name: getattr(claim, name) for name in shown},
        "age": round(now - claim.since),
        "why": claim.why,
        "problem": claim.problem,
        "alarm": alarm(claim, now),
    }


def _age(seconds: float) -> str:
    for name, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"
