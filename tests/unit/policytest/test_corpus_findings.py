"""The findings of the packs in real templates, judged by hand.

Decision 45 says how.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import datalog_gate as dg
from datalog_gate.files.packs import copy_packs
from datalog_gate.policytest.testfile import read_cases
from datalog_gate.template.document import read_document
from tests.pages import assert_written

ROOT = Path(__file__).parents[3]
CORPUS = Path(os.environ.get("DATALOG_GATE_SHARED", ROOT.parent / "shared")) / "corpus/templates"
UNREADABLE = "openstack+magnum/contrib/drivers/k8s_opensuse_v1/templates/kubecluster.yaml"
"""Heat refuses it as well: it refers to a resource that it does not have."""
ACTIONS = ("adopt", "delete")
"""All policies are judged by one of them: what is asked of a stack that is created is asked of an adopted one too."""
LIMITS = yaml.safe_load((ROOT / "tests/findings/limits.yaml").read_text("utf-8"))
CHANGED = ("put", "in", "environment")
JUDGED = sorted((ROOT / "tests/findings/judged").glob("*.yaml"))
ASKED = ("action", "caller", "inventory", "now", "services")
"""What an entry of a record may put into its stack, and give to the request, as a case of a policy test does."""


def limited(folder: Path) -> Path:
    """The packs with the limits of `findings/limits.yaml` instead of their own."""
    for pack in copy_packs(ROOT / "rules", folder, ()):
        limit(pack, LIMITS.get(pack.name, {}))
    return folder


def limit(pack: Path, limits: Mapping[str, object]) -> None:
    file = pack / "limits.yaml"
    if limits:
        file.write_text(json.dumps(yaml.safe_load(file.read_text("utf-8")) | limits))


def findings(rules: dg.Rules) -> str:
    """Count the certain findings of each policy, in all and by template, and assert that no policy fails."""
    roots: dict[str, Counter[str]] = {policy.id: Counter() for policy in rules.policies}
    for line in (CORPUS / "manifest.jsonl").read_text("utf-8").splitlines():
        root, environments = (json.loads(line)[key] for key in ("root", "envs"))
        if root == UNREADABLE:
            continue
        stack = dg.read_stack(
            CORPUS / root, environments=[CORPUS / environment for environment in environments], files_root=CORPUS
        )
        violations = set()
        for action in ACTIONS:
            decision = rules.decide(stack, action=action, now="2027-03-01")
            assert decision.errors == ()
            violations |= {(violation.policy, violation.row) for violation in decision.violations}
        for policy, _ in violations:
            roots[policy][root] += 1
    return "".join(
        f"{policy} {where.total()}\n" + "".join(f"  {where[root]} {root}\n" for root in sorted(where))
        for policy, where in sorted(roots.items())
    )


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
@pytest.mark.parametrize("limits", ["shipped", "limited"])
def test_packs_find_in_real_templates_what_was_judged(limits: str, tmp_path: Path) -> None:
    packs = ROOT / "rules" if limits == "shipped" else limited(tmp_path / "packs")
    assert_written(ROOT / f"tests/findings/{limits}.txt", findings(dg.load_rules(packs)))


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_each_undetermined_finding_in_real_templates_names_one_cause() -> None:
    rules, several = dg.load_rules(ROOT / "rules"), []
    for line in (CORPUS / "manifest.jsonl").read_text("utf-8").splitlines():
        if (root := json.loads(line)["root"]) != UNREADABLE:
            for violation in rules.decide(
                dg.read_stack(CORPUS / root, files_root=CORPUS), now="2027-03-01"
            ).undetermined:
                if len(violation.because) != 1:
                    several.append(f"{root}: {violation.full_message}")
    assert several == []


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
@pytest.mark.parametrize("record", JUDGED, ids=lambda path: str(path.stem))
def test_three_findings_of_each_policy_were_judged_by_hand(record: Path, tmp_path: Path) -> None:
    """A record holds for each policy of its pack three entries or more: of a `template`, a root of the corpus, what
    one or some findings `says`, `why` that is right, and the `case` of the pack's tests that has this shape. What is
    `put` into the root (or into the file `in`), mapping by mapping, null to take away, or into its `environment`, is a
    fault: then all is said that was not before. `modules` are other roots, by names, that are judged together with it.
    With the action `update` it is held against what it was. `limits` go over those of `findings/limits.yaml`, and of a
    request there may be what `ASKED` names."""
    judge = Judge(ROOT / "rules" / record.stem, tmp_path)
    entries: dict[str, list[dict[str, Any]]] = yaml.safe_load(record.read_text("utf-8"))
    assert {policy: [judge.newly(policy, entry) for entry in some] for policy, some in entries.items()} == {
        policy: [read_messages(entry) for entry in some] for policy, some in entries.items()
    }
    expected = {case.name: {policy for policy, _ in case.policies} for case in read_cases(judge.pack / "test.yaml")}
    assert [
        f"{policy}: {entry['case']}"
        for policy, some in entries.items()
        for entry in some
        if policy not in expected.get(entry["case"], ())
    ] == []
    different = {
        policy: {(entry["template"], *read_messages(entry)) for entry in some if entry["why"]}
        for policy, some in entries.items()
    }
    assert {policy for policy in different if len(different[policy]) >= 3} == {
        policy.id for policy in judge.rules("{}").policies
    }


def test_the_findings_of_each_pack_were_judged() -> None:
    """Of those that a template has findings of: `cloud` and `drift` judge what lives, of which the corpus has none, and
    Heat itself judges those of `heat` (tests/heat/test_own_checks.py)."""
    packs = {path.name for path in (ROOT / "rules").iterdir()}
    assert {path.stem for path in JUDGED} == packs - {"cloud", "drift", "heat"}


def read_messages(entry: Mapping[str, Any]) -> list[str]:
    return sorted([entry["says"]] if isinstance(entry["says"], str) else entry["says"])


class Judge:
    """One pack over the corpus with edits. Stacks and findings are cached."""

    def __init__(self, pack: Path, folder: Path) -> None:
        self.pack, self._folder = pack, folder
        self._roots = {
            entry["root"]: entry for entry in map(json.loads, (CORPUS / "manifest.jsonl").open(encoding="utf-8"))
        }
        shutil.copytree(CORPUS, folder / "corpus", copy_function=shutil.copyfile)
        self.rules, self._stack, self._found = cache(self._rules), cache(self._read), cache(self._decide)

    def newly(self, policy: str, entry: Mapping[str, Any]) -> list[str]:
        """The findings of the policy on the entry's template with its edit and not without; without an edit, the
        findings that the entry names."""
        changed = {key: entry[key] for key in CHANGED if key in entry}
        together = {"modules": entry["modules"]} if "modules" in entry else {}
        options = json.dumps({key: entry[key] for key in ASKED if key in entry})
        after, before = (
            [
                message
                for found_policy, message in self._found(
                    entry["template"], put, options, json.dumps(entry.get("limits", {}))
                )
                if found_policy == policy
            ]
            for put in (json.dumps(together | changed), json.dumps(together))
        )
        if not changed:
            return sorted(set(after) & set(read_messages(entry)))
        return sorted((Counter(after) - Counter(before)).elements())

    def _decide(self, root: str, put: str, options: str, limits: str) -> list[tuple[str, str]]:
        decide_options = {"now": "2027-03-01", **json.loads(options)}
        against = self._stack(root, "{}") if decide_options.get("action") == "update" else ()
        decision = self.rules(limits).decide(self._stack(root, put), against=against, **decide_options)
        assert decision.errors == ()
        return [
            (violation.policy, violation.full_message) for violation in (*decision.violations, *decision.undetermined)
        ]

    def _rules(self, limits: str) -> dg.Rules:
        folder = self._folder / f"rules{len(list(self._folder.iterdir()))}"
        shutil.copytree(self.pack, folder / self.pack.name)
        limit(folder / self.pack.name, LIMITS.get(self.pack.name, {}) | json.loads(limits))
        return dg.load_rules(folder / self.pack.name)

    def _read(self, root: str, put: str) -> list[dg.Stack]:
        """Read the stack of a root and its modules, with their edits, which are undone afterwards."""
        edit, corpus = json.loads(put), self._folder / "corpus"
        file = corpus / edit.get("in", root)
        text = file.read_text("utf-8")
        if "put" in edit:
            file.write_text(json.dumps(merged(read_document(text, root).data, edit["put"])), "utf-8")
        try:
            return [
                dg.read_stack(
                    corpus / path,
                    environments=[corpus / its for its in self._roots[path]["envs"]],
                    environment=None if name else edit.get("environment"),
                    files_root=corpus,
                    stack_name=name,
                )
                for name, path in {None: root, **edit.get("modules", {})}.items()
            ]
        finally:
            file.write_text(text, "utf-8")


def merged(data: Any, put: Any) -> Any:
    """Merge the edit into the data, mapping by mapping; null removes a key."""
    if not (isinstance(data, dict) and isinstance(put, dict)):
        return put
    both = {key: merged(data.get(key), put[key]) if key in put else data[key] for key in {**data, **put}}
    return {key: value for key, value in both.items() if put.get(key, "") is not None}
