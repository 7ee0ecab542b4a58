"""Generations of the inventory; doors use the newest.

The previous one is kept. A generation has the lines of facts of each table. Unchanged lines are not written again. A
generation becomes the newest by one transaction.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from datalog_gate.base.records import dataclass
from datalog_gate.store.tables import inventory_generations as generations
from datalog_gate.store.tables import inventory_rows, inventory_tables
from datalog_gate.store.transaction import Store, take_turn

KEPT = 2
"""The number of stored generations. A reader has time until the second next one is written."""
MOST_BYTES = 8 * 1024 * 1024
"""The maximum compressed size of a table's lines, some 100,000 ports: MariaDB accepts no longer statements than
`max_allowed_packet`, which is 16 MiB."""


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of the inventory."""

    number: int
    at: float
    """When it was written, in seconds since 1970."""
    sizes: Mapping[str, int]
    """The number of rows of each table."""


def find_newest(store: Store) -> Generation | None:
    """The newest generation; None before the first. Errors: those of the store."""

    def work(rows: Connection) -> Generation | None:
        newest = select(func.max(generations.c.number)).scalar_subquery()
        tables = generations.outerjoin(inventory_tables, inventory_tables.c.generation == generations.c.number)
        query = select(generations, inventory_tables.c.relation, inventory_tables.c.size).select_from(tables)
        written = rows.execute(query.where(generations.c.number == newest)).all()
        if not written:
            return None
        sizes = {row.relation: row.size for row in written if row.relation is not None}
        return Generation(written[0].number, written[0].at, dict(sorted(sizes.items())))

    return store.run(None, work, reads=True)


def read_lines(store: Store, number: int) -> str | None:
    """The lines of a generation, in the order of their relations; None if it was removed. Errors: those of the
    store."""

    def work(rows: Connection) -> str | None:
        tables = inventory_tables.join(inventory_rows, inventory_tables.c.digest == inventory_rows.c.digest)
        query = select(inventory_rows.c.content).select_from(tables).where(inventory_tables.c.generation == number)
        contents = rows.execute(query.order_by(inventory_tables.c.relation)).scalars().all()
        return "".join(zlib.decompress(content).decode() for content in contents) if contents else None

    return store.run(None, work, reads=True)


def write_generation(store: Store, tables: Mapping[str, Sequence[str]], now: float) -> Generation:
    """Write a generation of the lines of each relation, and remove all but the previous one. Errors: those of the
    store, also for a table that is too large; then nothing is written."""
    texts = {relation: "".join(f"{line}\n" for line in lines) for relation, lines in tables.items()}
    digests = {relation: sha256(text.encode()).hexdigest() for relation, text in texts.items()}

    def work(rows: Connection) -> Generation:
        number = take_turn(rows, "inventory")
        known = set(rows.execute(select(inventory_rows.c.digest)).scalars())
        for relation, digest in digests.items():
            if digest not in known:
                content = zlib.compress(texts[relation].encode())
                if len(content) > MOST_BYTES:
                    message = f"the inventory's table {relation} takes {len(content)} bytes, but at most {MOST_BYTES}"
                    raise store.error_type(f"{message} can be kept")
                rows.execute(inventory_rows.insert().values(digest=digest, content=content))
                known.add(digest)
        sizes = {relation: len(lines) for relation, lines in sorted(tables.items())}
        rows.execute(generations.insert().values(number=number, at=now))
        for relation, size in sizes.items():
            values = {"generation": number, "relation": relation, "size": size, "digest": digests[relation]}
            rows.execute(inventory_tables.insert().values(**values))
        _remove_old(rows)
        return Generation(number, now, sizes)

    return store.run("inventory", work)


def _remove_old(rows: Connection) -> None:
    numbers = rows.execute(select(generations.c.number).order_by(generations.c.number.desc())).scalars().all()
    rows.execute(generations.delete().where(generations.c.number.in_(numbers[KEPT:])))
    rows.execute(inventory_tables.delete().where(inventory_tables.c.generation.in_(numbers[KEPT:])))
    rows.execute(inventory_rows.delete().where(inventory_rows.c.digest.not_in(select(inventory_tables.c.digest))))
