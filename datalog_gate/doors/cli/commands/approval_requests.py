"""Who approves or refuses what grants ask for (layer 6): in, heat.conf and a word on a request; out, how it stands."""

from __future__ import annotations

import argparse
import json
import os
import pwd
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

from datalog_gate.base.diagnostics import Diagnostic, printable
from datalog_gate.base.errors import InputError
from datalog_gate.doors.cli.heat_conf import service_setting
from datalog_gate.services.approval import ApprovalError, ApprovalRequest, Approvals, format_time

SCHEMA = "datalog-gate/approvals/1"
Answer = TypeVar("Answer")


def run(options: argparse.Namespace) -> None:
    """Print what the part of the command `approval` says. Errors: InputError, UsageError."""
    if options.part == "list":
        asked = listed(options.heat_conf, options.all)
    else:
        verdict: Literal["approved", "refused"] = "approved" if options.part == "approve" else "refused"
        asked = [answer(options.heat_conf, options.request, verdict, options.why)]
    for line in render(asked, options.format):
        print(line)


def answer(heat_conf: Path, name: str, verdict: Literal["approved", "refused"], why: str) -> ApprovalRequest:
    """The request of that name, with the word on it of whoever runs this. Errors: InputError, UsageError."""
    file = _approvals(heat_conf)
    return _done(lambda: file.say(name, verdict, user(), why, time.time()))


def listed(heat_conf: Path, everything: bool = False) -> list[ApprovalRequest]:
    """What awaits an answer, or else everything that was asked. Errors: as `answer`."""
    file = _approvals(heat_conf)
    return [one for one in _done(lambda: file.list(time.time())) if everything or one.state == "awaiting"]


def render(asked: list[ApprovalRequest], form: str) -> Iterator[str]:
    """The requests in a format, text or json, by lines."""
    if form == "json":
        yield json.dumps({"schema": SCHEMA, "requests": [one.to_json() for one in asked]}, ensure_ascii=False)
        return
    for one in asked:
        yield printable(
            f"{one.name} {format_time(one.at)} {one.path} of project {one.project}, stack {one.stack}: {one.answer}"
        )
        for part in one.scope:
            yield printable(f"  for   {part['resource']} ({part['type']}) {_text(part['properties'])}")
        if one.options:
            yield printable(f"  with  {_text(one.options)}")


def user() -> str:
    """Who runs this: the kernel's word, not the environment's, but for who became root to do it."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    behind = os.environ.get("SUDO_USER", "")
    return f"{behind} as {name}" if behind and os.getuid() == 0 else name


def _approvals(heat_conf: Path) -> Approvals:
    path = service_setting(heat_conf, "approval", "file")
    if not Path(path).is_file():
        raise InputError([Diagnostic("unreadable", f"{path} is not there: nothing was asked yet")])
    return Approvals(path)


def _text(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True)


def _done(step: Callable[[], Answer]) -> Answer:
    try:
        return step()
    except ApprovalError as error:
        raise InputError([Diagnostic("unreadable", str(error))]) from None
