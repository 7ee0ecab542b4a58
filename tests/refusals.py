"""What is said of input that is refused, and of rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import pytest

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import DiagnosticsError, RulesError
from datalog_gate.decision.policy_set import RuleFile, load


def refusals(call: Callable[[], object], *fields: str) -> list[Any]:
    """The fields of each diagnostic, `code` or `span.line`: the one that is asked for, or a tuple of several."""
    with pytest.raises(DiagnosticsError) as error:
        call()
    return [*map(attrgetter(*fields), error.value.diagnostics)]


def rule_problems(text: str) -> Sequence[Diagnostic]:
    """The errors of the rules of a module `m`, or their warnings if there is no error."""
    try:
        return load([RuleFile("m", "m.dl", text)]).warnings
    except RulesError as error:
        return error.diagnostics
