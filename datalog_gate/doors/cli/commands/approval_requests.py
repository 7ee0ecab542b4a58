"""The command `approval`: lists, approves and refuses requests of grants."""

from __future__ import annotations

import argparse
import json
import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from datalog_gate.base.diagnostics import Diagnostic, printable
from datalog_gate.base.errors import InputError
from datalog_gate.doors.cli.common import OK
from datalog_gate.doors.cli.heat_conf import read_service_option
from datalog_gate.services.approval import ApprovalError, ApprovalRequest, Approvals, format_time

SCHEMA = "datalog-gate/approvals/1"


def run(options: argparse.Namespace) -> int:
    """List requests, or answer one as the current user. Errors: InputError, UsageError."""
    path = read_service_option(options.heat_conf, "approval", "file")
    if not Path(path).is_file():
        raise InputError([Diagnostic("unreadable", f"{path} is not there: nothing was asked yet")])
    approvals, now = Approvals(path), time.time()
    try:
        if options.part == "list":
            requests = [request for request in approvals.list(now) if options.all or request.state == "awaiting"]
        else:
            verdict: Literal["approved", "refused"] = "approved" if options.part == "approve" else "refused"
            requests = [approvals.say(options.request, verdict, find_user(), options.why, now)]
    except ApprovalError as error:
        raise InputError([Diagnostic("unreadable", str(error))]) from None
    for line in _format_requests(requests, options.format):
        print(line)
    return OK


def find_user() -> str:
    """The current user by the kernel, not by the environment; with `sudo` also the user before it."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    sudo_user = os.environ.get("SUDO_USER", "")
    return f"{sudo_user} as {name}" if sudo_user and os.getuid() == 0 else name


def _format_requests(requests: list[ApprovalRequest], form: str) -> Iterator[str]:
    """Format the requests by lines, as text or json."""
    if form == "json":
        data = [request.to_json() for request in requests]
        yield json.dumps({"schema": SCHEMA, "requests": data}, ensure_ascii=False)
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
