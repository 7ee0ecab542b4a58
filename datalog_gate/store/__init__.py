"""The shared store: tables on SQLAlchemy, transactions and leases.

Layer 5: may import layers 0 to 4. `transaction` opens a database by its URL and runs work in it, `tables` holds the
schema, `leases` protects work that takes longer than a transaction, `generations` stores the inventory, `api_records`
the server's answers, `stored_waivers` the waivers created at the server, and `exchange` moves rows between stores.

>>> import tempfile
>>> from datalog_gate.store.transaction import Store
>>> with tempfile.TemporaryDirectory() as folder:
...     Store(f"sqlite:///{folder}/store").revision()
'0001'
"""
