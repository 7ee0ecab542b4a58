"""The VS Code extension: what its manifest names is there."""

from __future__ import annotations

import json
import re

import pytest

from datalog_gate.decision.policy_set import RuleFile, load
from tests.sources import ROOT

EXTENSION = ROOT / "examples" / "vscode"
MANIFEST = json.loads((EXTENSION / "package.json").read_text("utf-8"))
POLICY = '@deny("z", "{stack}") z(stack) :- heat:root(stack=stack).\n'
SNIPPETS = json.loads((EXTENSION / "snippets" / "datalog-gate.json").read_text("utf-8"))


def test_each_command_of_the_palette_is_registered() -> None:
    named = [command["command"] for command in MANIFEST["contributes"]["commands"]]
    registered = re.findall(r'^  "(datalogGate\.\w+)": \(', (EXTENSION / "extension.js").read_text("utf-8"), re.M)
    assert named == registered


def test_each_file_of_the_manifest_is_there() -> None:
    snippets = [snippet["path"] for snippet in MANIFEST["contributes"]["snippets"]]
    assert [path for path in (MANIFEST["icon"], *snippets) if not (EXTENSION / path).is_file()] == []


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_is_a_rule_as_it_stands(name: str) -> None:
    text = re.sub(r"\$\{\d+:([^}]*)\}", r"\1", "\n".join(SNIPPETS[name]["body"]))
    limits = "export most.\n" if name == "Limit" else ""
    rules = load([RuleFile("m", "m.dl", f"{limits}{POLICY}{text}\n")])
    assert "z" in [policy.id for policy in rules.policies]
