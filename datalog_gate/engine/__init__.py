"""The engines (layer 3). Each is imported only when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datalog_gate.engine.model import Engine

ENGINES = ("native", "pydatalog")


def engine(name: str) -> Engine:
    """The engine of that name, one of `ENGINES`. Errors: ValueError."""
    match name:
        case "native":
            from datalog_gate.engine.native import evaluate

            return evaluate
        case "pydatalog":
            from datalog_gate.engine.pydatalog import evaluate as evaluate_apart

            return evaluate_apart
    raise ValueError(f"there is no engine {name}: one of {', '.join(ENGINES)}")
