"""Checks of the arguments of template functions.

Errors: BadFunction, which tells the form that a function takes; Undecided where it depends on an unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Never

from datalog_gate.base.unknown import leaves
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.stack.model import Data


class BadFunction(Exception):  # noqa: N818 - not every wrong argument is an error of ours
    """Arguments that the function can't take."""


class TooLarge(BadFunction):
    """A result beyond all bounds."""


class Undecided(Exception):  # noqa: N818 - an answer, not an error
    """The value depends on what nobody knows."""


def expect(form: str) -> Never:
    """Errors: BadFunction with the form that a function takes."""
    raise BadFunction(f"takes {form}")


def items_of(arguments: Data, count: int, form: str) -> list[Data]:
    """The arguments as a list of that many."""
    if not isinstance(arguments, list) or len(arguments) != count:
        expect(form)
    return arguments


def list_of(value: Data, form: str) -> list[Data]:
    """An argument as a list."""
    if isinstance(value, Unknown | ResourceId):
        raise Undecided
    return value if isinstance(value, list) else expect(form)


def map_of(value: Data, form: str) -> Mapping[Data, Data]:
    """An argument as a map; null is an empty one."""
    if isinstance(value, Unknown | ResourceId):
        raise Undecided
    if value is not None and not isinstance(value, dict):
        expect(form)
    return value or {}


def all_known(data: Data) -> None:
    """Raises Undecided for a value from which no text can be made yet: a reference is known, its text is not."""
    if any(isinstance(leaf, Unknown | ResourceId) for leaf in leaves(data)):
        raise Undecided
