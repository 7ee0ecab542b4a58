"""Generate docs/inventory.md from the descriptions of tables."""

from __future__ import annotations

from itertools import groupby

from datalog_gate.inventory.collector import load_collectors
from datalog_gate.inventory.snapshot import TABLES
from datalog_gate.inventory.table_sources import CONVERSIONS, ApiList, ColumnSource, Lookup, TableSource
from datalog_gate.schema import cloud

START = """# The inventory

For operators, and authors of rules. Rules read the state of the cloud from an inventory
([relations.md](relations.md#the-cloud)). `inventory pull` collects it from the cloud's APIs, as an admin from
`clouds.yaml` or `OS_*` sees them. It needs the extra `inventory`:

```bash
pip install 'datalog-gate[inventory]'
datalog-gate inventory pull --cloud prod --output cloud.jsonl
datalog-gate check web.yaml --inventory cloud.jsonl
datalog-gate query 'nova:quotas(project_id="p1")' --rules rules --facts cloud.jsonl
```

- **Tables**: `--tables nova:servers,'neutronv2:*'` reads only these tables, and those that they look up, as
  `nova:flavors` for `nova:servers`; the file's other tables stay unchanged. A service that is missing from the
  catalogue, or a list that the service does not have, is skipped and named.
- **Failures**: a request is repeated after 429, 500, 502, 503, 504 and lost connections. A table that can't be read
  keeps its rows and their age, and is named on stderr; so is a table with a field that is missing or of another kind.
  The exit code is 3 if such a table has no older rows, or the login fails, else 0. With `--every` the line of each pull
  on stdout says so, and the command goes on. A row of `gate:inventory` shows for each table when it was read and why it
  was not read since: `gate:inventory(table=t, problem=why), why != null`.
- **Rights**: without the role admin, Neutron, Cinder and Glance return only one project's data, without an error; the
  command says so on stderr. Other services refuse their lists.
- **Load**: at most eight requests run at once, and `--rate 5` starts at most five a second. Quotas take one request for
  each project and service, Placement four for each resource provider, Heat's resources one for each stack, Swift's
  objects one for each container, Keystone's `group_users` one for each group.
- **Changes**: if servers, their addresses and their tags are all read, and were read completely less than half an hour
  ago, a pull asks Nova only for the servers that changed since (`changes-since`), and removes deleted ones. With
  `--every` that takes 0.2 s for 200 servers, instead of 6 s for all; a single command takes half a second more to
  start. Nova counts neither a new address nor a new tag as a change, so `nova:servers.addresses` and `nova:tags` keep
  the time of the last complete read. Everything else is read completely each time: Neutron refuses `changed_since` for
  ports, and a list of only their ids takes it nearly as long as one of all fields; Cinder and Glance report updates,
  but not deletions; Heat, Keystone, Placement and Nova's other lists report neither.
- **Quotas**: for policies about quotas, read `nova:quotas`, or the sizes in `nova:servers`. Nova does not return the id
  of a server's flavor: `flavor_id` is that of the flavor with the same name and sizes. It is null if the flavor was
  deleted or recreated with other sizes. A rule that joins `nova:flavors` does not see such servers.
- **Keep it fresh**: `--heat-conf heat.conf` or `--store URL` keeps the inventory in the gate's store instead of a file,
  and `--every 5m` repeats the pull ([install.md](install.md#9-run-it)). Rules read the age of a table as
  `gate:inventory_age`.
- **Heat** shows the stacks of all projects only to users whom its policy `stacks:global_index` allows, by default
  nobody. Otherwise the tables have the stacks of one project, and the problem says so.

The columns below are filled from these fields of the responses: `a.b` is the field b of a, `a[]` each entry of the list
or map a, a name in *italics* the key of an entry. APIs leave out fields marked "if any", depending on their extensions
or rights; the column is then null. This page is generated with `REGENERATE=1 pytest tests/test_inventory_page.py`.
"""
UNFILLED = """
## Tables that nothing fills

No collector of this package fills these. An inventory made by hand may, or a collector in your own package (a subclass
of `datalog_gate.inventory.collector.Collector` with an entry point of the group `datalog_gate.inventory`).

"""


def inventory_page() -> str:
    """The text of docs/inventory.md."""
    sources = [source for collector in load_collectors().values() for source in collector.tables]
    text = START
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
    lines = "".join(
        f"| `{column.name}` | {columns.get(column.name, 'null: the API has no such field')} |\n"
        for column in relation.columns
    )
    return f"\n### {source.relation}\n\n{_request(source.api)}\n\n| column | from |\n|---|---|\n{lines}"


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
