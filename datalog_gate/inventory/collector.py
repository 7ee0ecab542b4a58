"""The collector of a service's tables, named by entry points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points

from datalog_gate.inventory.table_sources import TableSource
from datalog_gate.plugins.loader import load_plugins
from datalog_gate.plugins.plugin_errors import PluginLoadError
from datalog_gate.schema import cloud

GROUP = "datalog_gate.inventory"


class Collector:
    """The tables that a service fills. Collectors of other tables are subclasses with their own entry point."""

    tables: tuple[TableSource, ...] = ()

    def __init__(self, settings: Mapping[str, str]) -> None:
        """The collectors of this package have no settings."""


def load_collectors() -> dict[str, Collector]:
    """The installed collectors by name. Errors: PluginLoadError."""
    names = sorted({point.name for point in entry_points(group=GROUP)})
    if not names:  # an inventory without a table would look like an empty cloud
        raise PluginLoadError(f"nothing is installed as {GROUP}: reinstall datalog-gate")
    collectors = load_plugins(GROUP, Collector, names, {})  # type: ignore[type-abstract,unused-ignore]
    problems = [
        f"the collector {name} can't fill {source.relation}: {problem}"
        for name, collector in collectors.items()
        for source in collector.tables
        for problem in _find_problems(source)
    ]
    if problems:
        raise PluginLoadError("; ".join(problems))
    return collectors


def _find_problems(source: TableSource) -> Iterator[str]:
    relation = cloud.relation(source.relation)
    if relation is None:
        yield "it is no table of docs/inventory.md"
        return
    filled = dict.fromkeys([*(column.column for column in source.columns), *source.lookups])
    yield from (f"it has no column {name}" for name in filled if name not in relation.positions)
    yield from (f"its key {name} is missing" for name in relation.key if name not in filled)
