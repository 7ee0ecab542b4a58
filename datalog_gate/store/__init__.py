"""The shared store: tables on SQLAlchemy, transactions, leases and migrations.

Layer 5: may import layers 0 to 4. `transaction` opens a database by its URL and runs work in it, `tables` holds the
schema, `leases` says who may go on with what takes longer than a transaction, `generations` keeps the inventory,
`api_records` what the server has answered, `stored_waivers` the waivers that it was given, `migration` runs the
`migrations`, `old_files` reads the files of version 0.1, and `exchange` moves rows between stores.

>>> import tempfile
>>> from datalog_gate.store.transaction import Store
>>> with tempfile.TemporaryDirectory() as folder:
...     Store(f"sqlite:///{folder}/store").revision()
'0004'
"""
