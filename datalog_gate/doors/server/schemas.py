"""Schemas of JSON, as OpenAPI 3.1 has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def describe_object(*required: str, **properties: Schema) -> Schema:
    """The schema of an object with these members, and perhaps others."""
    return {"type": "object", "required": list(required), **({"properties": properties} if properties else {})}


def describe_body(*required: str, **properties: Schema) -> Schema:
    """The schema of an object with no other members than these properties."""
    return {**describe_object(*required, **properties), "additionalProperties": False}


def describe_text(description: str) -> Schema:
    """The schema of a parameter that selects rows."""
    return {"type": "string", "maxLength": 255, "description": description}


def describe_order(*names: str) -> Schema:
    """The schema of a parameter with the orders of a list, the default first."""
    return {
        "enum": list(names),
        "default": names[0],
        "description": "the order: numbers and times begin with the largest",
    }


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
SEARCH = describe_text("only those whose name contains this, in any case")
PROJECT, POLICY = describe_text("only those of this project"), describe_text("only those of this policy")
