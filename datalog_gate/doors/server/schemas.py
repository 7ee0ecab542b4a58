"""Schemas of JSON, as OpenAPI 3.1 has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator, ValidationError, validators

Schema = Mapping[str, Any]


def _match_pattern(_validator: object, pattern: str, value: object, _schema: object) -> Iterator[ValidationError]:
    """Check a pattern, in which ``$`` is the end alone. For Python it is also before a line break at the end."""
    if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


Validator = validators.extend(Draft202012Validator, {"pattern": _match_pattern})
"""Checks data by a schema."""


def describe_object(*required: str, **properties: Schema) -> Schema:
    """The schema of an object with these members, and perhaps others."""
    return {"type": "object", "required": list(required), **({"properties": properties} if properties else {})}


def describe_body(*required: str, **properties: Schema) -> Schema:
    """The schema of an object with no other members than these properties."""
    return {**describe_object(*required, **properties), "additionalProperties": False}


def describe_text(description: str) -> Schema:
    """The schema of a parameter that selects rows."""
    return {"type": "string", "maxLength": 255, "description": description}


def describe_page(name: str, item: Schema) -> Schema:
    """The schema of an answer with a page."""
    return describe_object(name, **{name: {"type": "array", "items": item}})


LIMIT: Schema = {
    "type": "integer",
    "minimum": 1,
    "maximum": 1000,
    "default": 100,
    "description": "the maximum number of items",
}
MARKER: Schema = {"type": "string", "maxLength": 4000, "description": "`next` of the previous answer"}
PAGES = {"limit": LIMIT, "marker": MARKER}
WITH_PAGE = {"page": {"type": "boolean", "default": False, "description": "with everything that its page shows"}}
PROJECT, POLICY = describe_text("only those of this project"), describe_text("only those of this policy")
