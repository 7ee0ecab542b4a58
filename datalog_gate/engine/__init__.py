"""Evaluates a checked program over facts and returns its model.

Layer 3: may import layers 0 to 2. `plan` orders the steps of a rule, `codegen` makes a Python function of them,
`native` evaluates the strata, `builtins` computes, `provenance` finds derivations. `pydatalog` is a second engine, in a
process of its own. An engine is imported only when it is asked for.

>>> from datalog_gate.analysis.check import check
>>> from datalog_gate.language.parser import parse
>>> rules = "link(1, 2). link(2, 3). reach(x, y) :- link(x, y). reach(x, z) :- reach(x, y), link(y, z)."
>>> module, _ = parse(rules, "m.dl", "m")
>>> model = engine("native")(check([module]).program, {})
>>> sorted(model.rows("m:reach"))
[(1, 2), (1, 3), (2, 3)]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datalog_gate.engine.least_model import Engine

ENGINES = ("native", "pydatalog")


def engine(name: str) -> Engine:
    """The engine of that name, one of `ENGINES`. Errors: ValueError."""
    if name not in ENGINES:
        raise ValueError(f"there is no engine {name}: use one of {', '.join(ENGINES)}")
    evaluate: Engine = import_module(f"datalog_gate.engine.{name}").evaluate
    return evaluate
