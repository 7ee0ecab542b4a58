"""What `heat` and `openstack` print of an operation that is denied."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from heatclient.exc import HTTPException

from tests.heat.doors.rig import PROJECT, Heat, wait
from tests.heat.doors.templates import CLEAN, LONG, string, template, why

STAYS = "The policies deny this stack: {}: s {} at resources.s"
OPENSTACK: Mapping[str, tuple[tuple[str, ...], object, str]] = {
    "create": (("create", "-t", "long.json", "NEW"), None, why()),
    "create, waiting": (("create", "--wait", "-t", "long.json", "NEW"), None, why()),
    "preview": (("create", "--dry-run", "-t", "long.json", "NEW"), None, why()),
    "adopt": (("adopt", "--adopt-file", "adopt.json", "NEW"), None, why()),
    "update": (("update", "-t", "long.json", "STACK"), CLEAN, why()),
    "update, existing": (("update", "--existing", "-t", "long.json", "STACK"), CLEAN, why()),
    "update, waiting": (("update", "--wait", "-t", "long.json", "STACK"), CLEAN, why()),
    "preview of an update": (("update", "--dry-run", "-t", "long.json", "STACK"), CLEAN, why()),
    "suspend": (("suspend", "STACK"), "suspend", STAYS.format("suspend", "stays awake")),
    "resume": (("resume", "STACK"), "resume", STAYS.format("resume", "stays asleep")),
    "check": (("check", "STACK"), "check", STAYS.format("check", "is not looked at")),
    "snapshot": (("snapshot", "create", "STACK"), "snapshot", STAYS.format("snapshot", "is not copied")),
    "delete": (("delete", "--yes", "STACK"), "delete", STAYS.format("delete", "is here to stay")),
    "delete, waiting": (("delete", "--yes", "--wait", "STACK"), "delete", STAYS.format("delete", "is here to stay")),
    "abandon": (("abandon", "STACK"), "delete", STAYS.format("delete", "is here to stay")),
}
"""The words of a command of `openstack stack`, the template of its stack or what that denies, and the reason."""
HEATCLIENT: Mapping[str, Callable[[Any, str], object]] = {
    "suspend": lambda client, stack: client.actions.suspend(stack),
    "resume": lambda client, stack: client.actions.resume(stack),
    "check": lambda client, stack: client.actions.check(stack),
    "snapshot": lambda client, stack: client.stacks.snapshot(stack),
    "delete": lambda client, stack: client.stacks.delete(stack),
    "abandon": lambda client, stack: client.stacks.abandon(stack),
    "update": lambda client, stack: client.stacks.update(stack, template=LONG),
    "update, existing": lambda client, stack: client.stacks.update(stack, template=LONG, existing=True),
    "preview of an update": lambda client, stack: client.stacks.preview_update(stack, template=LONG),
    "create": lambda client, stack: client.stacks.create(stack_name=stack, template=LONG),
    "preview": lambda client, stack: client.stacks.preview(stack_name=stack, template=LONG),
}
"""The same by python-heatclient, which raises the reason."""


@pytest.mark.parametrize("operation", OPENSTACK)
def test_the_command_prints_the_reason(operation: str, filtered: Heat, tmp_path: Path) -> None:
    words, before, reason = OPENSTACK[operation]
    (tmp_path / "long.json").write_text(json.dumps(LONG))
    if operation == "adopt":
        data = filtered.on(filtered.created(CLEAN), "DELETE", "/abandon").json()
        (tmp_path / "adopt.json").write_text(json.dumps({**data, "template": LONG}))
    stack = created(filtered, before)
    named = [{"STACK": stack, "NEW": stack}.get(word, word) for word in words]
    access = ["--os-auth-type", "none", "--os-endpoint", f"{filtered.url}/v1/{PROJECT}"]
    # a process of its own, since other tests here have configured the log that it prints errors by
    command = [sys.executable, "-W", "ignore", "-m", "openstackclient.shell", *access, "stack", *named]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = {without_id(line) for line in done.stderr.splitlines() if line.startswith("ERROR")}  # beside logs
    assert (done.returncode, done.stdout, errors) == (1, "", {f"ERROR: {reason}"}), done.stderr


@pytest.mark.parametrize("operation", HEATCLIENT)
def test_the_library_raises_the_reason(operation: str, filtered: Heat) -> None:
    _, before, reason = OPENSTACK[operation]
    stack = created(filtered, before)
    with pytest.raises(HTTPException) as raised:
        HEATCLIENT[operation](filtered.client(), stack)
    assert without_id(str(raised.value)) == f"ERROR: {reason}"
    assert raised.value.code == (409 if operation == "delete" else 403)


def created(heat: Heat, before: object) -> str:
    """A stack of a template, or one that denies an action; without either, a name that no stack has."""
    if before is None:
        return heat.name()
    name = heat.created(template(s=string(salt=f"no {before}")) if isinstance(before, str) else before)
    if before == "resume":
        heat.on(name, "POST", "/actions", suspend=None)
        wait(lambda: heat.stack(name)["stack_status"] == "SUSPEND_COMPLETE")
    return name


def without_id(text: str) -> str:
    return re.sub(r" \[decision [0-9a-f]+\]$", "", text)
