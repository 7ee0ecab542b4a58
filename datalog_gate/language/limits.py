"""Limits: rows of a pack's relations from the operator's `limits.yaml`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from datalog_gate.base.diagnostics import Diagnostic, Span, did_you_mean
from datalog_gate.language.ast import Declaration, Module, Rule

FILE = "limits.yaml"


@dataclass(frozen=True, slots=True)
class Limit:
    """A relation in `limits.yaml`, with its facts."""

    name: str
    span: Span
    facts: tuple[Rule, ...]


def add_limits(module: Module, limits: Sequence[Limit]) -> tuple[Module, list[Diagnostic]]:
    """The module with the facts. Each relation that it declares is given, and nothing else is: a limit that is missing
    or misspelt would be one that holds nothing back. Kinds and columns are checked as those of any fact."""
    declared = {statement.name: statement for statement in module.statements if isinstance(statement, Declaration)}
    diagnostics = []
    for limit in (limit for limit in limits if limit.name not in declared):
        message = f"{module.file} declares no relation {limit.name}"
        advice = did_you_mean(limit.name, declared, f"it declares {', '.join(sorted(declared)) or 'none'}")
        diagnostics.append(Diagnostic("bad-limits", message, limit.span, advice))
    named = {limit.name for limit in limits}
    for name in (name for name in declared if name not in named):
        advice = f"write `{name}:` there, with [] for none"
        diagnostics.append(Diagnostic("bad-limits", f"{FILE} gives no {name}", declared[name].span, advice))
    facts = tuple(fact for limit in limits if limit.name in declared for fact in limit.facts)
    return replace(module, statements=(*module.statements, *facts)), diagnostics
