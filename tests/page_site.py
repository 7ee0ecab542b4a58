"""The files of a policy server with scanned stacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.engine.sql.database import open_database
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.scan.batch import ScanRequest
from datalog_gate.scan.feed import StackEntry
from datalog_gate.scan.scan_run import Judges, run
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.services.approval import Approvals
from tests.ledger import request
from tests.unit.scan.test_scan import ListFeed

RULES = """\
@deny(id="ssh", message="{group} lets {prefix} reach port 22", hint="limit remote_ip_prefix to an office network",
      doc="Machines that the whole world may log in to are taken over in hours.")
open(group, prefix) :-
  os:neutron:security_group.rules(_id=group, remote_ip_prefix=prefix, port_range_min=22), prefix = "0.0.0.0/0".
@warn("size", "{volume} has {size} GiB")
large(volume, size) :- os:cinder:volume(_id=volume, size=size), size != null, size > 100.
"""
HEAD = "heat_template_version: 2018-08-31\nresources:\n"
FIRST = datetime(2027, 3, 1, tzinfo=UTC)


def template(number: int, day: int = 0) -> str:
    """The template of a stack: each third has an open group at first, of which some are closed day by day."""
    opened = number % 3 == 0 and number % 7 >= day
    prefix = "0.0.0.0/0" if opened else "10.0.0.0/24"
    return f"""{HEAD}  ssh:
    type: OS::Neutron::SecurityGroup
    properties:
      rules:
        - {{protocol: tcp, port_range_min: 22, port_range_max: 22, remote_ip_prefix: {prefix}}}
  data: {{type: OS::Cinder::Volume, properties: {{size: {200 if number % 5 == 0 else 10}}}}}
  web:
    type: OS::Nova::Server
    depends_on: data
    properties: {{image: debian-12, flavor: m1.small, security_groups: [{{get_resource: ssh}}]}}
"""


def entries(stacks: int, day: int) -> Iterator[StackEntry]:
    for number in range(stacks):
        project = f"p{number % 2 + 1}"
        caller = {"user": f"user-{number % 4}", "project": project}
        definition = StackDefinition(template(number, day))
        listing = f"{number} {day}"
        yield StackEntry(f"r{number:05}", f"stack-{number}", project, definition, caller=caller, listing=listing)


def fill(
    folder: Path,
    stacks: int = 6,
    days: int = 3,
    problem: str = "the API did not answer",
    more: Sequence[StackEntry] = (),
) -> str:
    """Write the rules and the configuration of a server, and scan its stacks day by day. Returns its store of scans."""
    (folder / "rules").mkdir()
    (folder / "rules" / "site.dl").write_text(RULES)
    rules = load([RuleFile("site", "site.dl", RULES)])
    with open_database(str(folder / "scan")) as database:
        for day in range(days):
            asked = ScanRequest(rules, FIRST + timedelta(days=3 * day), None, (), frozenset())
            feed = ListFeed([*entries(stacks, day), *more])
            run(feed, "list", ScanStore(database), Judges(asked, 1), asked)
    reading = {"table": "nova:flavors", "read": "2027-03-01T12:00:00Z", "problem": problem}
    (folder / "cloud.jsonl").write_text(json.dumps({"relation": "gate:inventory", "row": reading}) + "\n")
    return str(folder / "scan")


def ask_for_approval(server: Any, project: str, stack: str, **options: str) -> None:
    """Ask for an approval, as a stack with a grant does."""
    approvals = Approvals(server.point.settings.store)
    asked = replace(request("u", "seat", project=project, stack=stack), options=options)
    approvals.use(asked, server.now().timestamp(), 86400.0)


HOSTILE = (
    "x</code></style></textarea><script>alert(1)</script>",
    "x\" onload='alert(1)'",
    "x{{ 7 * 7 }}{% raw %}&lt;",
    "x\u202egnp\u2066.\u200b\u061c",
    "x\u001b[2J\u0007\u009b",
    "x" * 1_000_000,
)
"""Texts as templates may have them."""


def hostile_stack() -> str:
    """A hostile template that the rules here deny."""
    rule = "{port_range_min: 22, port_range_max: 22, remote_ip_prefix: 0.0.0.0/0}"
    return hostile_template("OS::Neutron::SecurityGroup", f"rules: [{rule}]")


def fill_hostile(folder: Path) -> Path:
    """As `fill`, with a stack and a rule whose names and texts are hostile. Returns the folder."""
    folder.mkdir()
    name = " ".join(HOSTILE[:5])
    entry = StackEntry("hostile", name, "p1", StackDefinition(hostile_stack()), caller={"user": name, "project": "p1"})
    fill(folder, problem=name, more=[entry])
    rule = """@warn("mark", "{v} </td><script>alert(1)</script>", hint="<img src=x>", doc="<b onload='x'>")"""
    (folder / "rules" / "mark.dl").write_text(f"{rule}\nmark(v) :- os:cinder:volume(_id=v, size=1).\n")
    return folder


def hostile_template(kind: str, properties: str) -> str:
    """A template of resources of a type with these properties, whose names and texts are hostile."""
    names = [value[:200].replace("/", "") for value in HOSTILE]
    lines = "\n".join(
        f"""  {quote(name)}:
    type: {kind}
    depends_on: [{", ".join(map(quote, names[:at]))}]
    properties: {{{properties}, name: {quote(value)}}}"""
        for at, (name, value) in enumerate(zip(names, HOSTILE, strict=True))
    )
    return f"{HEAD}{lines}\n# {' '.join(HOSTILE[:4])}\t<!--\n"


def quote(text: str) -> str:
    """The text as YAML takes it, with escapes."""
    escaped = re.sub(r"[^ !#-\[\]-~]", lambda match: f"\\U{ord(match[0]):08x}", text)
    return f'"{escaped}"'
