"""A variable that occurs once, in a column given by name."""

from __future__ import annotations

from functools import partial

from datalog_gate.analysis.linting import Found, Review, lint
from datalog_gate.analysis.single_variables import find_single_uses
from datalog_gate.base.records import replace


@lint(
    code="used-once",
    wrong="p(x) :- os:nova:server(_id=x, name=server_name).",
    right="p(x) :- os:nova:server(_id=x, name=_server_name).",
)
def find_unused_variables(review: Review, every: bool = False) -> Found:
    names = review.names
    for rule, module in review.written:
        for slip in find_single_uses(rule, partial(names.relation, module=module), every):
            if module in names.congress:  # there a variable that occurs once is how to say "any"
                yield from [replace(slip, severity="warning")] if slip.code == "forgotten-quotes" else []
            elif slip.severity == "warning":
                yield slip
