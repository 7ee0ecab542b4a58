"""What the packs find in real templates, each kind of finding judged by hand: decision 45."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
import yaml

import datalog_gate as dg
from datalog_gate.enforce.packs import copy_packs
from tests.pages import assert_written

ROOT = Path(__file__).parents[1]
CORPUS = Path(os.environ.get("DATALOG_GATE_SHARED", ROOT.parent / "shared")) / "corpus/templates"
UNREADABLE = "openstack+magnum/contrib/drivers/k8s_opensuse_v1/templates/kubecluster.yaml"
"""Heat refuses it as well: it refers to a resource that it does not have."""
ACTIONS = ("adopt", "delete")
"""All policies are judged by one of them: what is asked of a stack that is created is asked of an adopted one too."""


def limited(folder: Path) -> Path:
    """The packs with the limits of `findings/limits.yaml` in the place of their own."""
    given = yaml.safe_load((ROOT / "tests/findings/limits.yaml").read_text("utf-8"))
    for pack in copy_packs(ROOT / "rules", folder, ()):
        if pack.name in given:
            file = pack / "limits.yaml"
            file.write_text(json.dumps(yaml.safe_load(file.read_text("utf-8")) | given[pack.name]))
    return folder


def findings(rules: dg.Rules) -> str:
    """How many certain findings each policy has, in all and by template; and that no policy fails."""
    found: dict[str, Counter[str]] = {one.id: Counter() for one in rules.policies}
    for line in (CORPUS / "manifest.jsonl").read_text("utf-8").splitlines():
        root, environments = (json.loads(line)[key] for key in ("root", "envs"))
        if root == UNREADABLE:
            continue
        stack = dg.read_stack(CORPUS / root, environments=[CORPUS / one for one in environments], files_root=CORPUS)
        seen = set()
        for action in ACTIONS:
            decision = rules.decide(stack, action=action, now="2027-03-01")
            assert decision.errors == ()
            seen |= {(one.policy, one.row) for one in decision.violations}
        for policy, _ in seen:
            found[policy][root] += 1
    return "".join(
        f"{policy} {where.total()}\n" + "".join(f"  {where[root]} {root}\n" for root in sorted(where))
        for policy, where in sorted(found.items())
    )


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
@pytest.mark.parametrize("limits", ["shipped", "limited"])
def test_packs_find_in_real_templates_what_was_judged(limits: str, tmp_path: Path) -> None:
    packs = ROOT / "rules" if limits == "shipped" else limited(tmp_path / "packs")
    assert_written(ROOT / f"tests/findings/{limits}.txt", findings(dg.load_rules(packs)))
