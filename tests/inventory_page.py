"""Generate docs/inventory.md from the descriptions of tables."""

from __future__ import annotations

from itertools import groupby

from datalog_gate.inventory.collector import load_collectors
from datalog_gate.inventory.snapshot import TABLES
from datalog_gate.inventory.table_sources import CONVERSIONS, ApiList, ColumnSource, Lookup, TableSource
from datalog_gate.schema import cloud

UNFILLED = """
## Tables that nothing fills

No collector of this package fills these. An inventory made by hand may, or a collector in your own package (a subclass
of `datalog_gate.inventory.collector.Collector` with an entry point of the group `datalog_gate.inventory`).

"""


def inventory_page() -> str:
    """The generated part of docs/inventory.md."""
    sources = [source for collector in load_collectors().values() for source in collector.tables]
    text = ""
    for service, of_service in groupby(sources, lambda source: source.api.service):
        version = f" in microversion {service.microversion}" if service.microversion else ""
        text += f"\n## {service.name}\n\nThe service of type `{service.type}` in the catalogue{version}.\n"
        text += "".join(map(_section, of_service))
    filled = {source.relation for source in sources} | {TABLES}
    names = [name for name in cloud.names() if name not in filled]
    spaces = [(space, list(of_space)) for space, of_space in groupby(names, lambda name: name.partition(":")[0])]
    return text + UNFILLED + "".join(f"- {', '.join(f'`{name}`' for name in of_space)}\n" for _, of_space in spaces)


def _section(source: TableSource) -> str:
    relation = cloud.relation(source.relation)
    assert relation is not None
    columns = {column.column: _field(source, column) for column in source.columns}
    columns |= {name: _lookup(lookup) for name, lookup in source.lookups.items()}
    origins = {column.name: columns.get(column.name, "null: the API has no such field") for column in relation.columns}
    alike = ""
    for title, end in (("Fields of the same name", ""), ("Likewise, if any", ", if any")):
        same = [name for name, origin in origins.items() if origin == f"`{name}`{end}"]
        alike += f"\n{title}: {', '.join(f'`{name}`' for name in same)}.\n" if same else ""
        origins = {name: origin for name, origin in origins.items() if name not in same}
    lines = "".join(f"| `{name}` | {origin} |\n" for name, origin in origins.items())
    table = f"\n| column | from |\n|---|---|\n{lines}" if lines else ""
    return f"\n### {source.relation}\n\n{_request(source.api)}\n{alike}{table}"


def _request(api: ApiList) -> str:
    parents = f" for each of `{api.parents.path}`" if api.parents else ""
    fallback = f"; `{api.fallback}` where that is refused" if api.fallback else ""
    return f"`GET {api.path}`{parents}{fallback}" + (", the list " + f"`{api.key}`" if api.key else "")


def _field(source: TableSource, column: ColumnSource) -> str:
    base = {"": source.each, "^": (), "$": (), "@": ()}[column.origin]
    if column.origin == "@":
        entries = [at for at, key in enumerate(source.each) if key in ("*", "{}")]
        return f"the key of *{_path(source.each[: entries[int(column.path[0])]])}*"
    text = f"`{_path((*base, *column.path))}`"
    if column.origin == "$":
        text += " of what the request is for"
    if column.optional:
        text += ", if any"
    if column.conversion:
        text += f", {CONVERSIONS[column.conversion][0]}"
    return text


def _path(keys: tuple[str, ...]) -> str:
    return ".".join(keys).replace(".*", "[]").replace(".{}", "[]")


def _lookup(lookup: Lookup) -> str:
    same = ", ".join(f"`{theirs}` as `{own}`" for theirs, own in lookup.agreeing.items())
    return f"`{lookup.column}` of the only row of `{lookup.relation}` with {same}"
