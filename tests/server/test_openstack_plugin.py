"""`openstack gate` asks a server as users of a Keystone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from datalog_gate.services.approval import Approvals
from tests.ledger import request
from tests.server.rig import Site

TEMPLATE = """\
heat_template_version: 2018-08-31
parameters:
  characters: {type: number, default: 99}
resources:
  word:
    type: OS::Heat::RandomString
    properties:
      length: {get_param: characters}
"""
NESTED = """\
heat_template_version: 2018-08-31
resources:
  inner:
    type: word.yaml
    properties: {characters: 77}
  note:
    type: OS::Heat::Value
    properties:
      value: {get_file: note.txt}
"""


def run(site: Site, user: str, *arguments: str) -> tuple[int, Any]:
    """The exit code, and the JSON that is printed, or else the error."""
    done = site.openstack(user, "gate", *arguments, "-f", "json", folder=site.folder / "work")
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr.partition(" (HTTP")[0].strip()


def write_templates(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "word.yaml").write_text(TEMPLATE)
    (folder / "nested.yaml").write_text(NESTED)
    (folder / "note.txt").write_text("a note")
    (folder / "short.yaml").write_text("parameters: {characters: 9}")


def test_a_stack_is_judged_with_its_files_and_environments(site: Site) -> None:
    write_templates(site.folder / "work")
    code, decision = run(site, "ann", "check", "word.yaml")
    [finding] = decision["violations"]
    place = {"file": "<template>", "line": 3, "column": 39}
    assert (code, decision["outcome"], decision["stacks"], finding["place"]) == (1, "deny", ["word"], place)
    code, allowed = run(site, "ann", "check", "word.yaml", "-e", "short.yaml", "--stack-name", "web")
    assert (code, allowed["outcome"], allowed["stacks"], allowed["violations"]) == (0, "allow", ["web"], [])
    code, nested = run(site, "ann", "check", "nested.yaml")
    assert (code, [finding["resource"] for finding in nested["violations"]]) == (1, ["nested/inner/word"])
    code, updated = run(site, "ann", "check", "word.yaml", "--against", "word.yaml", "-P", "characters=98")
    assert (code, updated["action"], updated["violations"][0]["change"]) == (0, "update", "preexisting")
    assert run(site, "ann", "decision", "show", allowed["id"]) == (
        0,
        {**allowed, "clean": allowed_clean(site, allowed)},
    )
    assert run(site, "bob", "decision", "show", allowed["id"]) == (
        1,
        "there is no such decision, or it belongs to another project",
    )
    printed = site.openstack("ann", "gate", "check", "word.yaml", folder=site.folder / "work").stdout
    assert "3:39: deny[length] word has 99 characters (ask for 64 at most)" in printed


def allowed_clean(site: Site, decision: Any) -> Any:
    return site.ask("ann", "GET", f"/v2/decisions/{decision['id']}").json()["clean"]


def test_policies_findings_and_stacks_are_listed(site: Site) -> None:
    (site.folder / "work").mkdir(exist_ok=True)
    listed = site.ask("ann", "GET", "/v2/policies").json()["policies"]
    columns = ("id", "level", "mode", "on", "message")
    assert run(site, "ann", "policy", "list", "--level", "deny") == (
        0,
        [{name: policy[name] for name in columns} for policy in listed],
    )
    shown = site.ask("ann", "GET", "/v2/policies/length").json()
    assert run(site, "ann", "policy", "show", "length") == (0, shown)
    assert {name: shown[name] for name in listed[0]} == listed[0]
    assert run(site, "ann", "policy", "show", "lenght") == (1, "there is no policy of this id")
    code, findings = run(site, "ann", "finding", "list")
    assert (code, [(row["root"], row["policy"]) for row in findings]) == (0, [("r1", "length")])
    code, stacks = run(site, "adam", "scan", "list", "--outcome", "deny")
    assert (code, [(row["root"], row["findings"]) for row in stacks]) == (0, [("r1", 1), ("r3", 1)])
    code, stack = run(site, "bob", "scan", "show", "r3")
    assert (code, stack["outcome"], stack["open"][0]["message"]) == (0, "deny", "word has 77 characters")


def test_requests_are_answered_and_waivers_given_and_ended(site: Site) -> None:
    (site.folder / "work").mkdir(exist_ok=True)
    approvals = Approvals(f"sqlite:///{site.folder}/store")
    demo = site.projects["demo"]
    names = [
        approvals.use(request(uuid, "seat", project=demo, stack=uuid), 1_900_000_000.0, 1e9)[1] for uuid in ("v1", "v2")
    ]
    first, second = [name.name for name in names if name]
    code, waiting = run(site, "ann", "approval", "list", "--state", "awaiting")
    assert (code, [row["id"] for row in waiting]) == (0, [first, second])
    code, approved = run(site, "adam", "approval", "approve", first, "--why", "for March")
    assert (code, approved["state"], approved["said"][0]["why"]) == (0, "approved", "for March")
    assert run(site, "adam", "approval", "refuse", second)[1]["state"] == "refused"
    assert run(site, "ann", "approval", "show", first) == (0, approved)
    code, refusal = run(site, "ann", "approval", "approve", second)
    assert (code, refusal) == (1, "the policy datalog_gate:approval:answer does not allow you this operation")
    given = ("length", "--reason", "the old app", "--expires", "2127-01-01", "--project", demo, "--key", "r=s/word")
    code, waiver = run(site, "adam", "waiver", "create", *given)
    assert (code, waiver["key"], waiver["policy"]) == (0, {"r": "s/word"}, "length")
    assert [row["id"] for row in run(site, "ann", "waiver", "list")[1]] == [waiver["id"]]
    assert run(site, "ann", "waiver", "show", waiver["id"])[1]["reason"] == "the old app"
    assert run(site, "adam", "waiver", "delete", waiver["id"])[0] == 0
    assert run(site, "ann", "waiver", "list") == (0, [])
