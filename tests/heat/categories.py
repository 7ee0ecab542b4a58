"""The known differences between our stacks and Heat's.

In most of these Heat refuses the stack, so there is none to judge; in the others ours is unknown.

Lines are those of openstack-heat 27.0.1. A difference that no category takes fails the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from datalog_gate.base.values import Unknown
from tests.heat.comparison import Difference
from tests.heat.heat_side import Refused


class Category(NamedTuple):
    """Why we differ, the line of Heat behind it, and which differences are of this kind."""

    name: str
    reason: str
    source: str
    takes: Callable[[Difference], bool]


def _refused(pattern: str, ours: Callable[[object], bool] = lambda _: True) -> Callable[[Difference], bool]:
    """Heat can't resolve it in any shape, in one of them in words of that pattern; what we have is such a value, or a
    nested stack."""

    def takes(difference: Difference) -> bool:
        values = list(difference.heat.values()) if isinstance(difference.heat, dict) else [difference.heat]
        reasons = [value.reason for value in values if isinstance(value, Refused)]
        refuses = len(reasons) == len(values) and any(re.search(pattern, reason) for reason in reasons)
        return refuses and (difference.at.endswith(" nested") or ours(difference.ours))

    return takes


def _open(value: object) -> bool:
    """Whether something in it is unknown."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, Unknown) or any(map(_open, parts))


def _called(difference: Difference) -> bool:
    """We have the unknown result of a function of an unknown argument, or a result in which such an argument takes no
    part: then what Heat says of the argument hangs on the cloud."""
    called = isinstance(difference.ours, Unknown) and not difference.ours.expression.startswith(
        ("{get_attr: ", "{get_param: ")
    )
    refused = _refused("^(Type|Value|Attribute|Key)Error: ")(difference) and difference.at != ""
    in_property = difference.at.endswith(" nested") and _refused(_OF_ARGUMENT)(difference)
    return in_property or (refused and (called or isinstance(difference.heat, dict)))


def _only_bad_functions(ours: object) -> bool:
    return isinstance(ours, list) and all(
        isinstance(mine, str) and mine.startswith(("bad-function: ", "newer-version: ")) for mine in ours
    )


_OF_ARGUMENT = r"Property error: Properties\.\w+: '\w+' object has no attribute '\w+'$"
_WRONG = (
    "is not an integer|is not a (list|map|valid boolean)|must be valid JSON|could not convert string to float"
    r"|int\(\) argument must be|Value must be "
)

CATEGORIES = (
    Category(
        "unread function",
        "Fn::GetAZs and a yaql beyond our bounds are unknown here, and marked as what the user can choose: every rule "
        "that reads them decides on the unknown",
        "heat/engine/hot/functions.py:1171",
        lambda difference: re.search(r"\{(Fn::GetAZs|yaql): ", getattr(difference.ours, "expression", "")) is not None,
    ),
    Category(
        "facade of nothing",
        "a template that may be nested is read alone too: what it takes from its facade is unknown here, and takes no "
        "part where nothing hangs on it; Heat, which has no facade for it, refuses the stack, or the output alone",
        "heat/engine/hot/functions.py:707",
        _refused("no attribute '(metadata_get|t)'"),
    ),
    Category(
        "remote template",
        "nothing is fetched: what a template behind an address holds is unknown here, and Heat fetches it",
        "heat/engine/resources/template_resource.py:96",
        _refused("Could not fetch remote template", _open),
    ),
    Category(
        "attribute that the type has not",
        "it is unknown here, since an operator's own resource type may have it, and takes no part where nothing hangs "
        "on it; Heat refuses the stack, or the output alone",
        "heat/engine/stk_defn.py:230",
        _refused("The Referenced Attribute"),
    ),
    Category(
        "function that takes nothing of what the cloud may say",
        "nobody here tries whether any value of an unknown argument would do: the result is unknown, or what it is "
        "without that argument; Heat refuses the stack, or the output alone",
        "heat/engine/hot/functions.py:696",
        _called,
    ),
    Category(
        "parameter of a nested template without a value",
        "it is unknown here, since an environment may still give a default, and Heat refuses the stack; a member's "
        "property that is null counts as null, `check` warns of it, and Heat refuses the member when it creates it",
        "heat/engine/properties.py:534",
        lambda difference: (
            _refused("Property .* not assigned", _open)(difference)
            or _refused("Property value not assigned")(difference)
        ),
    ),
    Category(
        "output of what a condition switches off",
        "a reference to it counts as null here, and Heat refuses the output, and the resource that takes its value; "
        "in a resource both refuse the reference",
        "heat/engine/hot/functions.py:196",
        lambda difference: (
            (" output " in difference.at and _refused("^InvalidTemplateReference: ")(difference))
            or _refused("Error: InvalidTemplateReference: ")(difference)
        ),
    ),
    Category(
        "filter by what only the cloud knows",
        "the list is unknown here, since any of its values may be left out, and in none of the shapes one is; a wrong "
        "function in what to leave out is refused here, and by Heat unless the list turns out to be null",
        "heat/engine/hot/functions.py:1466",
        lambda difference: (
            (
                isinstance(difference.ours, Unknown)
                and "{filter: " in difference.ours.expression
                and isinstance(difference.heat, dict)
            )
            or (_only_bad_functions(difference.ours) and difference.heat == "accepts it where the cloud says none")
        ),
    ),
    Category(
        "form that only Heat looks at",
        "of an empty list nothing is left out, whatever the values are, and a URL with an unknown part is unknown; "
        "Heat looks at the form of the values, and at the port, all the same, and refuses the stack",
        "heat/engine/hot/functions.py:1466",
        lambda difference: difference.at == "" and _refused(r"filter: \[0\]|make_url: Invalid URL port")(difference),
    ),
    Category(
        "property of the wrong kind",
        "a group's size that is not a number is an open group here, and a resource's id is kept as any parameter; Heat "
        "refuses the stack. `check` warns of a member's property, and Heat refuses the member when it creates it, and "
        "what reads the member",
        "heat/engine/properties.py:264",
        lambda difference: (
            (difference.at.endswith(" nested") and _refused(_WRONG)(difference))
            or _refused(rf"Property error: Properties\.\w+: .*({_WRONG})")(difference)
        ),
    ),
)


def category(difference: Difference) -> str | None:
    """The name of the category that takes the difference."""
    return next((known.name for known in CATEGORIES if known.takes(difference)), None)
