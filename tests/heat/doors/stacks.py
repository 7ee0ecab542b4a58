"""Templates for the tests of the doors: none needs a cloud."""

from __future__ import annotations

from typing import Any


def string(length: int = 8, salt: str = "") -> dict[str, Any]:
    """A resource that is there at once."""
    return {"type": "OS::Heat::RandomString", "properties": {"length": length, "salt": salt}}


def template(**resources: Any) -> dict[str, Any]:
    """A template of resources."""
    return {"heat_template_version": "2018-08-31", "resources": resources}


def denial(reason: str) -> dict[str, Any]:
    """The record of a denial."""
    return {"type": "DatalogGate::Denial", "properties": {"reason": reason}}


CLEAN = template(s=string())
LONG = template(s=string(64))


def why(stack: str, finding: str = "length: s has 64 characters", hint: str = " (32 are enough)") -> str:
    """What the policies say of the stack, before the decision's id. Without a finding, what they say of LONG."""
    return f"The policies deny this stack: {finding} at {stack}/s{hint}"
