"""The templates of docs/grants.md, with and without their services."""

from __future__ import annotations

import pytest

import datalog_gate as dg
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.grants import problems_of
from datalog_gate.doors.cli.commands.check_stacks import format_grant_requests
from tests.expressions import worded
from tests.pages import DOCS
from tests.test_decision import NOW

SAMPLES = DOCS / "samples" / "grants"
RULES = dg.load_rules(DOCS.parent / "rules", SAMPLES / "unlock.dl")
REQUESTS = {
    "same_rack": ("rack_affinity", "placement asks rack_affinity for db, db_volume (same: rack)", "allow"),
    "spread": ("rack_affinity", "apart asks rack_affinity for web (spread: {level: rack, at_least: 3})", "allow"),
    "licence": ("licence", "seats asks licence for db (name: acme_db, seats: 2)", "deny"),
    "approval": ("approval", "approved asks approval for model (reason: the weather model of March)", "deny"),
    "edge": ("edge", "public asks edge for address", "deny"),
}


def test_the_page_shows_every_template_of_the_folder() -> None:
    assert {path.stem for path in SAMPLES.glob("*.yaml")} - {"test", "spread_member"} == REQUESTS.keys()


@pytest.mark.parametrize(("name", "service", "line", "without"), [(name, *sample) for name, sample in REQUESTS.items()])
def test_a_template_is_allowed_with_its_service(name: str, service: str, line: str, without: str) -> None:
    stack = dg.read_stack(SAMPLES / f"{name}.yaml")
    decision = RULES.decide(stack, services=[service], now=NOW)
    assert (decision.outcome, format_grant_requests([stack], decision)) == ("allow", (f"grant {name}/{line}",))
    locked = RULES.decide(stack, now=NOW)
    assert (locked.outcome, format_grant_requests([stack], locked)) == (without, ())


WRONG = problems_of(
    service=worded("..."), scope=[worded("..."), ResourceId("s/..."), "...", "needed"], expires=worded("..."),
    deletion_policy="...", external_id=None, names={"needed"}, needed={"needed"}, services=(), now=NOW,
) + problems_of(
    service="...", scope="a", expires="...", deletion_policy=None, external_id="x", names=(), needed=(), services=(),
    now=NOW,
) + problems_of(
    service="...", scope=worded("..."), expires="2020-01-01", deletion_policy=None, external_id=None, names=(),
    needed=(), services=(), now=NOW,
)  # fmt: skip


REASONS = {reason.partition(":")[0].replace("needed", "...").replace("2020-01-01", "...") for reason in WRONG}


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_the_page_says_what_to_change_for_each_thing_that_is_wrong(reason: str) -> None:
    assert reason in (DOCS / "grants.md").read_text("utf-8")
