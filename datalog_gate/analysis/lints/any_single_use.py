"""A variable that occurs once, in any place."""

from __future__ import annotations

from functools import partial

from datalog_gate.analysis.linting import Lint
from datalog_gate.analysis.lints.single_use import find_unused_variables

LINT = Lint(
    code="used-once",
    wrong="p(x) :- q(x, y). q(1, 2).",
    right="p(x) :- q(x, _). q(1, 2).",
    find=partial(find_unused_variables, every=True),
    loading=False,
)
