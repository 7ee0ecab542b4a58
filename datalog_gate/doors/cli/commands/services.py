"""The commands `services` and `approval`: claims, and requests for approval."""

from __future__ import annotations

import argparse
import json
import os
import pwd
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from datalog_gate.base.diagnostics import format_count, printable
from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.enabled_plugins import read_approval_settings
from datalog_gate.doors.cli.commands.claim_settlement import SCHEMA, reconcile
from datalog_gate.doors.cli.common import FINDINGS, OK, print_note
from datalog_gate.doors.cli.heat_client import Heat
from datalog_gate.doors.cli.heat_conf import invalid_file, read_settings
from datalog_gate.services.approval import ApprovalError, ApprovalRequest, Approvals, format_time, tell_verdict
from datalog_gate.services.journal import Journal
from datalog_gate.services.journal_claim import Claim, JournalError
from datalog_gate.services.reconcile import ALARM
from datalog_gate.store.transaction import Store

APPROVALS = "datalog-gate/approvals/1"


def services(options: argparse.Namespace) -> int:
    """Run a part of the command. Errors: InputError, UsageError."""
    match options.part:
        case "list":
            names = _list_services(options.heat_conf, options.for_me)
            lines = [json.dumps({"schema": SCHEMA, "services": names})] if options.format == "json" else names
            for line in lines:
                print(line)
        case "status":
            claims, now = read_claims(options.heat_conf), time.time()
            print("\n".join(format_claims(claims, now, options.format)))
            return FINDINGS if any(_find_alarm(claim, now) for claim in claims) else OK
        case "reconcile":
            return reconcile(options)
    return OK


def _list_services(heat_conf: Path, for_me: bool) -> list[str]:
    """List the enabled services, or those that the ``OS_*`` user may grant."""
    settings, conf = read_settings(heat_conf)
    if not for_me:
        return list(settings.services)
    from datalog_gate.decision_point.roles import Entitlements

    caller = Heat().caller()
    try:
        allowed = Entitlements(conf, settings.services).services(str(caller["project_id"]), caller)
    except (OSError, ValueError) as error:
        raise invalid_file(heat_conf, error) from None
    return [service for service in settings.services if service in allowed]


def read_claims(heat_conf: Path) -> tuple[Claim, ...]:
    """Read the claims of all services, the oldest first. Errors: InputError, UsageError."""
    settings, _ = read_settings(heat_conf)
    if not settings.store:
        raise InputError.of(f"{heat_conf}: store is not set")
    try:
        return () if Store(settings.store).missing else Journal(settings.store).claims()
    except (JournalError, ValueError) as error:
        raise invalid_file(heat_conf, error) from None


def format_claims(claims: tuple[Claim, ...], now: float, form: str) -> Iterator[str]:
    """Format the claims as lines of text, or as json."""
    if form == "json":
        yield json.dumps({"schema": SCHEMA, "claims": [_to_json(claim, now) for claim in claims]}, ensure_ascii=False)
        return
    for claim in claims:
        name = f"{claim.service} {claim.path} of project {claim.project}, stack {claim.stack}"
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


def _to_json(claim: Claim, now: float) -> dict[str, object]:
    return {
        "uuid": claim.uuid,
        "service": claim.service,
        "project": claim.project,
        "stack": claim.stack,
        "stack_name": claim.stack_name,
        "grant": claim.path,
        "state": claim.state,
        "expires": claim.expires,
        "abandoned": claim.abandoned,
        "attempts": claim.attempts,
        "age": round(now - claim.since),
        "why": claim.why,
        "problem": claim.problem,
        "alarm": _find_alarm(claim, now),
    }


def _format_age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def approval(options: argparse.Namespace) -> int:
    """List requests, or answer one as the current user. Errors: InputError, UsageError."""
    now = time.time()
    try:
        settings, approvals = open_approvals(options.heat_conf)
        if options.part == "list":
            requests = [request for request in approvals.list(now) if options.all or request.state == "awaiting"]
        else:
            verdict: Literal["approved", "refused"] = "approved" if options.part == "approve" else "refused"
            requests = [approvals.say(options.request, verdict, find_approver(), options.why, now)]
            if problem := tell_verdict(settings, verdict, requests[0]):
                print_note(f"the webhook was not notified: {problem}")
    except (ApprovalError, ValueError) as error:
        raise InputError.of(str(error)) from None
    for line in _format_requests(requests, options.format):
        print(line)
    return OK


def open_approvals(heat_conf: Path) -> tuple[Mapping[str, str], Approvals]:
    """The settings of the service, and its requests: in its file, else in the store. Errors: InputError, UsageError,
    ValueError for the store."""
    try:
        settings = read_approval_settings(read_settings(heat_conf)[0])
    except ValueError as error:
        raise invalid_file(heat_conf, error) from None
    store = settings.get("file") or settings["store"]
    if not store:
        raise InputError.of(f"{heat_conf} has no service_option approval.file")
    if (shared := Store(store)).missing:
        raise InputError.of(f"{shared.file} does not exist: there were no requests yet")
    return settings, Approvals(store)


def find_approver() -> str:
    """The name of the approver: the user of the ``OS_*`` credentials according to Keystone, else the system user.
    Errors: InputError, UsageError."""
    return Heat().identity() if os.environ.get("OS_AUTH_URL") else f"{find_user()} (system user)"


def find_user() -> str:
    """The current user according to the kernel, not the environment; with `sudo` also the original user."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    sudo_user = os.environ.get("SUDO_USER", "")
    return f"{sudo_user} as {name}" if sudo_user and os.getuid() == 0 else name


def _format_requests(requests: list[ApprovalRequest], form: str) -> Iterator[str]:
    """Format the requests as lines of text, or as json."""
    if form == "json":
        data = [request.to_json() for request in requests]
        yield json.dumps({"schema": APPROVALS, "requests": data}, ensure_ascii=False)
        return
    for request in requests:
        origin = f"{request.path} of project {request.project}, stack {request.stack}"
        yield printable(f"{request.name} {format_time(request.at)} {origin}: {request.answer}")
        for part in request.scope:
            yield printable(f"  for   {part['resource']} ({part['type']}) {_format_json(part['properties'])}")
        if request.options:
            yield printable(f"  with  {_format_json(request.options)}")


def _format_json(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True)
