"""Values assumed for unknowns, used when the template would create these.

Users name an unknown by its expression, as findings print it; the gate itself uses its structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from datalog_gate.base.diagnostics import Diagnostic, closest
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.unknown import LOGIC
from datalog_gate.base.values import Unknown
from datalog_gate.stack.model import Data
from datalog_gate.template.document import read_document

Assumed = Mapping[str, Data] | Sequence[str]
"""Values by expression, or texts of the form ``EXPRESSION=VALUE``, where both parts may hold an equals sign."""


@dataclass(slots=True)
class Assumptions:
    """Assumed values, and which of them a reading of a template has used."""

    values: Mapping[Unknown, Data] = field(default_factory=dict)
    """Values by unknown."""
    assumed: Assumed = ()
    """The assumptions of the user."""
    expressions: dict[str, str] = field(default_factory=dict)
    """The longest expression found so far at the start of each text."""
    incomplete: bool = False
    """Whether a longer expression was found after a shorter one was used: everything must be read again."""
    used: set[str] = field(default_factory=set)
    """The texts, or expressions, that matched an unknown."""
    known: set[str] = field(default_factory=set)
    """The expressions whose value the template determines."""
    wrong: dict[str, str] = field(default_factory=dict)
    """The expressions of conditions that are assumed to be something else than a truth value, by text."""
    offered: dict[str, None] = field(default_factory=dict)
    """All expressions for which a value could be assumed."""

    def of(self, unknown: Unknown) -> Data:
        """The assumed value of the unknown, or the unknown itself."""
        if unknown in self.values:
            return self.values[unknown]
        if not self.assumed:
            return unknown
        expression = unknown.expression
        self.offered[expression] = None
        text = next((text for text in self.assumed if self._tells(text, expression)), None)
        if text is None or len(taken := self.expressions.setdefault(text, expression)) > len(expression):
            return unknown
        if taken != expression:
            self.expressions[text] = expression
            self.incomplete = True
        self.used.add(text)
        if isinstance(self.assumed, Mapping):
            value = self.assumed[expression]
        else:
            written = text[len(expression) + 1 :]
            value = read_document(written, "--assume").data if written else None
        if unknown.source.function in LOGIC and not isinstance(value, bool):
            self.wrong[text] = expression
            return unknown
        return value

    def within(self, data: Data) -> Data:
        """The data with its unknowns replaced by assumed values."""
        match data:
            case _ if not (self.values or self.assumed):
                return data
            case Unknown():
                return self.of(data)
            case dict():
                return {key: self.within(value) for key, value in data.items()}
            case list():
                return [self.within(value) for value in data]
        return data

    def note_known(self, unknown: Unknown) -> None:
        """Record that the template determines the value, so that nothing can be assumed."""
        if self.assumed:
            self.known.add(unknown.expression)

    def problems(self) -> Iterator[Diagnostic]:
        """The problems of the user's assumptions, after reading everything."""
        for text in self.assumed:
            known = [expression for expression in self.known if self._tells(text, expression)]
            if text in self.wrong:
                message = f"`{self.wrong[text]}` is a condition: assume true or false"
                yield Diagnostic("bad-assumption", message)
            elif text not in self.used and known:
                message = f"`{max(known, key=len)}` is known, and an assumption does not change it"
                yield Diagnostic("bad-assumption", message, None, "remove the assumption")
            elif text not in self.used:
                expression = text if isinstance(self.assumed, Mapping) else text.rpartition("=")[0]
                near = closest(expression, self.offered)
                message = f"the stack has no unknown value `{expression}`"
                if expression[:1] != "{":  # open data such as a template at a URL, or computed for rules
                    message = f"`{expression}` is not a function of a template: its value can't be assumed"
                    named = f"{{get_param: {expression.rpartition(' ')[2]}}} in "  # as messages show it
                    near = near or next((offer for offer in self.offered if offer.startswith(named)), None)
                yield Diagnostic("bad-assumption", message, None, near and f"did you mean `{near}`?")

    def _tells(self, text: str, expression: str) -> bool:
        return text == expression if isinstance(self.assumed, Mapping) else text.startswith(f"{expression}=")
