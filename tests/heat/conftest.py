"""Tests that need Heat's own package: tox environment `heat`."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("heat") else ["test_*.py", "doors"]
