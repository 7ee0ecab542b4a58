"""Services that grants unlock: their contract, claims, journal and reconciliation.

Layer 5: may import layers 0 to 4, and beside it `plugins`, `preflight` and `store`. `contract` is the interface for
providers, `conformance` tests an implementation, `broker` connects grants with services and writes each claim to the
`journal` first, `reconcile` settles claims after a crash. `approval` and `licence_pool` are services.

>>> import tempfile
>>> from datalog_gate.services.journal import Journal
>>> with tempfile.TemporaryDirectory() as folder:
...     Journal(f"{folder}/journal").claims()
()
"""
