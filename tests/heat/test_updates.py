"""Compare predicted changes of resources with Heat's own preview."""

from __future__ import annotations

import pytest
from heat.common import template_format
from heat.engine import environment, stack, template, update

from tests.heat.heat_side import _context
from tests.unit.stack.test_update import HEAD, PAIRS

CHANGES = {"added": "create", "deleted": "delete", "updated": "update", "replaced": "replace", "unchanged": "unchanged"}
BEYOND = {
    "a type that was renamed": "only the update itself looks for what a type was renamed to (update.py:166)",
    "what exists already": "only the update itself passes it over (resource.py:1641)",
    "a reference to what is replaced, which can be updated": "the preview has the ids of what is there now",
    "a reference to what is replaced, which can't be, and so on": "likewise",
}
"""Where a preview does not say what the update does."""
CERTAIN = [case for case in PAIRS if not any("?" in row for row in PAIRS[case][2])]


def heat_has(resources: str) -> stack.Stack:
    """A stack as Heat has it when all was created."""
    text = HEAD + "".join(f"  {line}\n" for line in resources.splitlines())
    env = environment.Environment({"parameters": {"p": "x", "q": "y"}})
    built = stack.Stack(_context("word"), "s", template.Template(template_format.parse(text), env=env))
    for resource in built.resources.values():
        resource.action, resource.status, resource.resource_id = "CREATE", "COMPLETE", f"id of {resource.name}"
    return built


@pytest.mark.parametrize("case", [case for case in CERTAIN if case not in BEYOND])
def test_heat_previews_the_same_change(case: str) -> None:
    old, new, expected = PAIRS[case]
    preview = update.StackUpdate(heat_has(old), heat_has(new), None).preview()
    rows = [f"s/{name} {CHANGES[change]}" for change, names in preview.items() for name in names]
    assert sorted(rows) == [row for row in expected if row.split()[1] in CHANGES.values()]
