"""A text or pattern that finds something else than meant."""

from __future__ import annotations

import re

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import TESTS
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.diagnostics import Span, suggest_code
from datalog_gate.base.patterns import find_problem
from datalog_gate.base.values import Value, print_value
from datalog_gate.language import ast
from datalog_gate.schema.signatures import PATTERN, Builtin

LIKE_PATTERN = re.compile(r"\.[*+]|\[[^]]+\][*+]|\[\^?\w-\w\]|^\^|\$$|[\w-]\*$|\w\|\w|[A-Za-z-]%$")
_PARTS = re.compile(r"(?s)\\.|\[\^?\]?(?:\\.|[^\\\]])*\]?|.")
"""What a pattern consists of: characters, some escaped, and classes, in which a first ``]`` is a character."""


@lint(
    code="loose-pattern",
    wrong='p(x) :- heat:resource(id=x, name=n), matches(n, "^web|db$").',
    right='p(x) :- heat:resource(id=x, name=n), matches(n, "^(web|db)$").',
)
def find_text_searches(review: Review) -> Found:
    for node, module in review.nodes:
        if isinstance(node, ast.Atom) and isinstance(builtin := review.names.relation(node, module), Builtin):
            for column, term in zip(builtin.inputs, node.arguments, strict=False):
                if column.name == PATTERN and isinstance(term, ast.Constant):
                    yield from _find_loose(term.value, term.span)
    for call, body in review.calls:
        if call.builtin in TESTS:
            yield from _find(call, body)


def _find_loose(pattern: Value, span: Span) -> Found:
    if isinstance(pattern, str) and not find_problem(pattern) and (loose := _find_looseness(pattern)):
        yield warn("loose-pattern", loose[0], span, loose[1])


def _find(call: ir.Call, body: BodyFacts) -> Found:
    part = call.inputs[1]
    for wanted, span in body.texts(part, call.span):
        if call.builtin == "matches":
            if isinstance(part, ir.Var):
                yield from _find_loose(wanted, span)
        elif LIKE_PATTERN.search(wanted):
            message = f"{call.builtin} looks for {print_value(wanted)} literally, not as a pattern"
            yield warn("loose-pattern", message, span, "use matches, or remove the wildcards")


def _find_looseness(pattern: str) -> tuple[str, str] | None:
    """What is probably wrong with a pattern, and what to write: an anchor on one of several alternatives, or a ``*``
    used as in a shell."""
    branches = _branches(re.sub(r"^\(\?[a-zA-Z]+\)", "", pattern))
    for bound, anchor, where in ((_starts_bound, "^", "first"), (_ends_bound, "$", "last")):
        if len(branches) > 1 and len(set(map(bound, branches))) > 1:
            bare = "|".join(branch.removeprefix("^").removesuffix("$") for branch in branches)
            front = "^" if any(map(_starts_bound, branches)) else ""
            back = "$" if any(map(_ends_bound, branches)) else ""
            which = f"the {where} alternative" if bound(branches[0 if anchor == "^" else -1]) else "some alternatives"
            return f"`{anchor}` applies to {which} only", suggest_code(f'"{front}({bare}){back}"')
    if re.search(r"\[[^]]*?A-z", pattern):
        return "`A-z` also matches the signs between `Z` and `a`", 'write "A-Za-z" in the brackets'
    if "*" in pattern and not set(pattern) & set("^$.[]()|\\+?{}"):
        return "`*` repeats the character before it", suggest_code(f'"^{pattern.replace("*", ".*")}$"')
    return None


def _starts_bound(branch: str) -> bool:
    return branch.startswith(("^", "\\A"))


def _ends_bound(branch: str) -> bool:
    return branch.endswith("\\z") or (branch.endswith("$") and not branch.endswith("\\$"))


def _branches(pattern: str) -> list[str]:
    """The alternatives of a pattern outside of all parentheses."""
    branches, depth = [""], 0
    for part in _PARTS.findall(pattern):
        depth += (part == "(") - (part == ")")
        if part == "|" and depth == 0:
            branches.append("")
        else:
            branches[-1] += part
    return branches
