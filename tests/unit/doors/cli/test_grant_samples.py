"""The templates of docs/grants.md, with and without their services."""

from __future__ import annotations

import re

import pytest

import datalog_gate as dg
from datalog_gate.api import Rules
from datalog_gate.decision_point.grant_lines import format_grants
from tests.pages import DOCS
from tests.unit.decision.test_decision import NOW

SAMPLES = DOCS / "samples" / "grants"
REQUESTS = {
    "same_rack": ("rack_affinity", "placement asks rack_affinity for db, db_volume (same: rack)", "allow"),
    "spread": ("rack_affinity", "apart asks rack_affinity for web (spread: {level: rack, at_least: 3})", "allow"),
    "licence": ("licence", "seats asks licence for db (name: acme_db, seats: 2)", "deny"),
    "approval": ("approval", "approved asks approval for model (reason: the weather model of March)", "deny"),
    "edge": ("edge", "public asks edge for address", "deny"),
}


def test_the_page_shows_every_template_of_the_folder() -> None:
    assert {path.stem for path in SAMPLES.glob("*.yaml")} - {"test", "spread_member"} == REQUESTS.keys()


@pytest.fixture(scope="module")
def rules() -> Rules:
    """All packs, and the rule that unlocks services."""
    return dg.load_rules(DOCS.parent / "rules", SAMPLES / "unlock.dl")


@pytest.mark.parametrize(("name", "service", "line", "without"), [(name, *sample) for name, sample in REQUESTS.items()])
def test_a_template_is_allowed_with_its_service(rules: Rules, name: str, service: str, line: str, without: str) -> None:
    stack = dg.read_stack(SAMPLES / f"{name}.yaml")
    decision = rules.decide(stack, services=[service], now=NOW)
    assert (decision.outcome, format_grants([stack], decision)) == ("allow", (f"grant {name}/{line}",))
    locked = rules.decide(stack, now=NOW)
    assert (locked.outcome, format_grants([stack], locked)) == (without, ())


LATE = {"get_attr": ["one", "name"]}
WRONG = {
    "g1": {"service": LATE, "scope": [LATE, {"get_resource": "one"}, "gone", "one"], "expires": LATE},
    "g2": {"service": "nosuch", "scope": "one", "expires": "soon"},
    "g3": {"service": "nosuch", "scope": LATE, "expires": "2020-01-01"},
}
MORE = {"g1": {"deletion_policy": "Retain"}, "g2": {"external_id": "x"}, "g3": {}}
RESOURCES = {
    name: {"type": "DatalogGate::Policy", "properties": properties, **MORE[name]} for name, properties in WRONG.items()
} | {"one": {"type": "OS::Nova::KeyPair", "properties": {"name": "k"}}}
STACK = dg.read_stack({"heat_template_version": "2018-08-31", "resources": RESOURCES}, stack_name="s")
VALUES = re.compile(r"\{get_attr: \[one, name\]\} in s|\b(one|gone|nosuch|Retain|soon|2020-01-01)\b")
REASONS = {
    VALUES.sub("...", problem).partition(":")[0]
    for grant in dg.load_rules(SAMPLES / "unlock.dl").decide(STACK, now=NOW).grants
    for problem in grant.reason.split("; ")
}


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_the_page_shows_the_fix_of_each_problem(reason: str) -> None:
    assert reason in (DOCS / "grants.md").read_text("utf-8")
