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
    """Run a part of the command. Errors: InputError, UsageError."""
    if options.part == "list":
        requests = list_requests(options.heat_conf, options.all)
    else:
        verdict: Literal["approved", "refused"] = "approved" if options.part == "approve" else "refused"
        requests = [answer_request(options.heat_conf, options.request, verdict, options.why)]
    for line in _format_requests(requests, options.format):
        print(line)
    return OK


def list_requests(heat_conf: Path, everything: bool = False) -> list[ApprovalRequest]:
    """List the requests that await an answer, or all requests. Errors: InputError, UsageError."""
    approvals = _open_approvals(heat_conf)
    try:
        requests = approvals.list(time.time())
    except ApprovalError as error:
        raise InputError([Diagnostic("unreadable", str(error))]) from None
    return [request for request in requests if everything or request.state == "awaiting"]


def answer_request(heat_conf: Path, name: str, verdict: Literal["approved", "refused"], why: str) -> ApprovalRequest:
    """Answer the request of that name as the current user, and return it. Errors: InputError, UsageError."""
    approvals = _open_approvals(heat_conf)
    try:
        return approvals.say(name, verdict, find_user(), why, time.time())
    except ApprovalError as error:
        raise InputError([Diagnostic("unreadable", str(error))]) from None


def find_user() -> str:
    """The current user by the kernel, not by the environment; with `sudo` also the user before it."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    sudo_user = os.environ.get("SUDO_USER", "")
    return f"{sudo_user} as {name}" if sudo_user and os.getuid() == 0 else name


def _open_approvals(heat_conf: Path) -> Approvals:
    path = read_service_option(heat_conf, "approval", "file")
    if not Path(path).is_file():
        raise InputError([Diagnostic("unreadable", f"{path} is not there: nothing was asked yet")])
    return Approvals(path)


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
