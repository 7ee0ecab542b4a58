"""What is assumed of expressions that nobody knows yet (layer 2).

In: values by the expressions of unknowns, as findings print them. Out: the value where a template would have made that
unknown, so that all functions over it see it; and what is wrong with assumptions that no template asks for, or that it
knows already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from datalog_gate.base.diagnostics import Diagnostic, closest
from datalog_gate.base.values import Unknown
from datalog_gate.stack.model import Data
from datalog_gate.template.expressions import LOGIC

ASSUMED = "<assumptions>"


@dataclass(slots=True)
class Assumptions:
    """Assumed values, and what of the expressions was met: `used` ones were unknown, `known` ones were not, `wrong`
    ones can't have the value. All expressions that were `offered` are kept for suggestions."""

    values: Mapping[str, Data] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    wrong: dict[str, str] = field(default_factory=dict)
    offered: dict[str, None] = field(default_factory=dict)

    def of(self, unknown: Unknown) -> Data:
        """The value assumed of the unknown, or else itself."""
        if not self.values:
            return unknown
        self.offered[unknown.expression] = None
        if unknown.expression not in self.values:
            return unknown
        self.used.add(unknown.expression)
        value = self.values[unknown.expression]
        if unknown.expression[1:].partition(":")[0] in LOGIC and not isinstance(value, bool):
            self.wrong[unknown.expression] = "is a condition: it is true or false"
            return unknown
        return value

    def within(self, data: Data) -> Data:
        """The data with all unknowns in it that something is assumed of replaced."""
        match data:
            case _ if not self.values:
                return data
            case Unknown():
                return self.of(data)
            case dict():
                return {key: self.within(value) for key, value in data.items()}
            case list():
                return [self.within(value) for value in data]
        return data

    def problems(self) -> Iterator[Diagnostic]:
        """What is wrong with the assumptions, once all is read."""
        for expression in self.values:
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
