"""Services for grants and for every stack, with their claims and journal.

Layer 5: may import layers 0 to 4, and beside it `plugins` and `store`. `contract` is the interface for providers, which
see the `parts` of a stack; `conformance` tests an implementation. `broker` connects grants with services and writes
each claim to the `journal` first, `consultation` asks those for every stack, `reconcile` settles claims later.
`approval`, `licence_pool` and `licence_server` are services.

>>> import tempfile
>>> from datalog_gate.services.journal import Journal
>>> with tempfile.TemporaryDirectory() as folder:
...     Journal(f"{folder}/journal").claims()
()
"""
