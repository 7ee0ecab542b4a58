"""Values assumed for unknowns.

A value is assumed where the template would have made the unknown, so that all functions over it see the value. Users
name an unknown by its expression, as findings print it; the gate itself names it by its structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from datalog_gate.base.diagnostics import Diagnostic, closest
from datalog_gate.base.unknown import LOGIC
from datalog_gate.base.values import Unknown
from datalog_gate.stack.model import Data

ASSUMED = "<assumptions>"


@dataclass(slots=True)
class Assumptions:
    """Assumed values, and which of them one reading of a template used."""

    values: Mapping[Unknown, Data] = field(default_factory=dict)
    """Values by the unknown."""
    texts: Mapping[str, Data] = field(default_factory=dict)
    """Values by the printed expression of the unknown."""
    used: set[str] = field(default_factory=set)
    """The expressions that were unknown."""
    known: set[str] = field(default_factory=set)
    """The expressions whose value the template decides."""
    wrong: dict[str, str] = field(default_factory=dict)
    """What is wrong with the value of an expression."""
    offered: dict[str, None] = field(default_factory=dict)
    """All expressions that a value could be assumed for."""

    def of(self, unknown: Unknown) -> Data:
        """The value assumed of the unknown, or else itself."""
        if unknown in self.values:
            return self.values[unknown]
        if not self.texts:
            return unknown
        expression = unknown.expression
        self.offered[expression] = None
        if expression not in self.texts:
            return unknown
        self.used.add(expression)
        value = self.texts[expression]
        if unknown.function in LOGIC and not isinstance(value, bool):
            self.wrong[expression] = "is a condition: it is true or false"
            return unknown
        return value

    def within(self, data: Data) -> Data:
        """The data with all unknowns in it that something is assumed of replaced."""
        match data:
            case _ if not (self.values or self.texts):
                return data
            case Unknown():
                return self.of(data)
            case dict():
                return {key: self.within(value) for key, value in data.items()}
            case list():
                return [self.within(value) for value in data]
        return data

    def problems(self) -> Iterator[Diagnostic]:
        """What is wrong with the assumptions of the user, once all is read."""
        for expression in self.texts:
            if message := self.wrong.get(expression):
                yield Diagnostic("bad-assumption", f"`{expression}` {message}")
            elif expression in self.known and expression not in self.used:
                message = f"`{expression}` is known: an assumption does not change it"
                yield Diagnostic("bad-assumption", message, None, "leave the assumption out")
            elif expression not in self.used:
                near = closest(expression, self.offered)
                message = f"no value of the stack that is not known is written `{expression}`"
                if expression[:1] != "{":  # what is open, as a template at an address, or was made of others for rules
                    message = f"`{expression}` is no function of a template: nothing can be assumed of it"
                yield Diagnostic("bad-assumption", message, None, near and f"did you mean `{near}`?")
