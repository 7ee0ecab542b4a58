"""The values that an operator sets for a pack, as facts of the module that declares them (layer 1).

In: the module of a pack's `limits.dl`, and what the `limits.yaml` beside it gives. Out: one module with both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from datalog_gate.base.diagnostics import Diagnostic, Span, did_you_mean
from datalog_gate.language.ast import Declaration, Module, Rule

FILE = "limits.yaml"


@dataclass(frozen=True, slots=True)
class Limit:
    """A relation that `limits.yaml` names, and the facts that it gives for it."""

    name: str
    span: Span
    facts: tuple[Rule, ...]


def with_limits(module: Module, limits: Sequence[Limit]) -> tuple[Module, list[Diagnostic]]:
    """The module with the facts. Each relation that it declares is given, and nothing else is: a limit that is missing
    or misspelt would be one that holds nothing back. Kinds and columns are checked as those of any fact."""
    declared = {one.name: one for one in module.statements if isinstance(one, Declaration)}
    found = [
        Diagnostic(
            "bad-limits",
            f"{module.file} declares no relation {one.name}",
            one.span,
            did_you_mean(one.name, declared, f"it declares {', '.join(sorted(declared)) or 'none'}"),
        )
        for one in limits
        if one.name not in declared
    ]
    given = {one.name for one in limits}
    found += [
        Diagnostic("bad-limits", f"{FILE} gives no {name}", one.span, f"write `{name}:` there, with [] for none")
        for name, one in declared.items()
        if name not in given
    ]
    facts = tuple(fact for one in limits if one.name in declared for fact in one.facts)
    return replace(module, statements=(*module.statements, *facts)), found
