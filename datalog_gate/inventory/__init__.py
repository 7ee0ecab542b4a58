"""Collects what there is in the cloud for rules to read.

Layer 5: may import layers 0 to 4, and beside it `files`, `plugins` and `store`. `snapshot` is an inventory with the age
of each table, and its file. `pull` builds one from the descriptions in `collectors`, using `cloud_api`, and stores it
in `targets`. `heat_stack` reads a stack through Heat's API.

>>> import tempfile
>>> from datetime import UTC, datetime
>>> from pathlib import Path
>>> from datalog_gate.inventory.snapshot import Snapshot, Table, read_snapshot, write_snapshot
>>> tags = Table("nova:tags", ({"server_id": "s-17", "tag": "front"},), datetime(2027, 3, 1, 12, tzinfo=UTC))
>>> with tempfile.TemporaryDirectory() as folder:
...     write_snapshot(Path(folder) / "cloud.jsonl", Snapshot({"nova:tags": tags}))
...     read_snapshot(Path(folder) / "cloud.jsonl") == Snapshot({"nova:tags": tags})
True
"""
