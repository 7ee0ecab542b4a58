"""Evaluates checked programs as SQL, over facts that a database stores.

`tables` says how a relation is a table, `database` talks to DuckDB and PostgreSQL, `compiler` makes queries of rules,
`evaluation` runs them and says what they do not settle, `doubts` finds the stacks whose tables lack what a rule reads.
Needs the extra `scan`; no command but `scan` imports it.

>>> from datalog_gate.engine.sql.database import open_database
>>> from datalog_gate.engine.sql.tables import RelationTable
>>> from datalog_gate.schema.catalogue import SHIPPED
>>> table = RelationTable.of("heat:change", SHIPPED.relation("heat:change"), lifted=True)
>>> with open_database() as database:
...     database.execute(table.create())
>>> table.name, table.names
('heat__change', ('_root', 'id', 'change'))
"""
