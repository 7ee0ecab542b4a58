"""Where we differ from Heat and know it: no rule of ours decides otherwise because of any of these.

Lines are those of openstack-heat 27.0.1. A difference that no category takes fails the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from datalog_gate.values import Unknown
from tests.heat.compare import Difference
from tests.heat.heat_side import Refused


class Category(NamedTuple):
    """Why we differ, the line of Heat behind it, and which differences are of this kind."""

    name: str
    reason: str
    source: str
    takes: Callable[[Difference], bool]


def _refused(pattern: str) -> Callable[[Difference], bool]:
    """Heat can't resolve it in any shape, in words of that pattern; we can."""

    def takes(one: Difference) -> bool:
        said = list(one.heat.values()) if isinstance(one.heat, dict) else [one.heat]
        return all(isinstance(each, Refused) and re.search(pattern, each.reason) for each in said)

    return takes


CATEGORIES = (
    Category(
        "unread function",
        "Fn::GetAZs and a yaql beyond our bounds are unknown here, and marked as what the user can choose: every rule "
        "that reads them decides on the unknown",
        "heat/engine/hot/functions.py:1171",
        lambda one: isinstance(one.ours, Unknown) and one.ours.unread,
    ),
    Category(
        "facade of nothing",
        "a template that may be nested is read alone too: what it takes from its facade is unknown here, and Heat, "
        "which has no facade for it, fails",
        "heat/engine/hot/functions.py:707",
        _refused("no attribute '(metadata_get|t)'"),
    ),
    Category(
        "remote template",
        "nothing is fetched: what a template behind an address holds is unknown here, and Heat fetches it",
        "heat/engine/resources/template_resource.py:96",
        _refused("Could not fetch remote template"),
    ),
    Category(
        "refused whatever the cloud says",
        "it is unknown here, such as an attribute that the type has not; Heat refuses the stack, or the output alone",
        "heat/engine/stk_defn.py:230",
        lambda one: (
            isinstance(one.heat, Refused)
            and (isinstance(one.ours, Unknown) or _refused("The Referenced Attribute")(one))
        ),
    ),
    Category(
        "parameter of a nested template without a value",
        "it is unknown here, since an environment may still give a default, and Heat refuses the stack",
        "heat/engine/properties.py:534",
        _refused("Property .* not assigned"),
    ),
    Category(
        "reference to what a condition switches off",
        "it is null here, and Heat refuses the stack, or the output alone",
        "heat/engine/hot/functions.py:196",
        _refused("The specified reference"),
    ),
    Category(
        "left out by what only the cloud knows",
        "the list is unknown here, since any of its values may be left out; in none of the shapes one is",
        "heat/engine/hot/functions.py:1478",
        lambda one: isinstance(one.ours, Unknown) and "{filter: " in one.ours.expression and isinstance(one.heat, dict),
    ),
    Category(
        "form of what is ignored",
        "of an empty list nothing is left out, whatever the values are; Heat looks at their form all the same, and "
        "refuses the stack",
        "heat/engine/hot/functions.py:1466",
        _refused(r"filter: \[0\]"),
    ),
    Category(
        "property of the wrong kind",
        "a group's size that is no number is an open group here, a resource's id is kept as any parameter, and an "
        "attribute that the type has not is unknown; Heat refuses the stack",
        "heat/engine/properties.py:264",
        lambda one: one.at.endswith(" nested") and _refused("is not an integer|must be valid JSON|incorrect")(one),
    ),
    Category(
        "built-in load balancer",
        "Heat builds AWS's load balancer as a nested stack of its own; no rule names its parts",
        "heat/engine/resources/aws/lb/loadbalancer.py:36",
        lambda one: one.at.endswith(" nested") and one.ours is None,
    ),
)


def category(one: Difference) -> str | None:
    """The name of the category that takes the difference."""
    return next((each.name for each in CATEGORIES if each.takes(one)), None)
