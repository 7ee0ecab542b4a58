"""Runs policy tests, and measures how good they are.

Layer 5: may import layers 0 to 4, and beside it `files`. `testfile` reads a `test.yaml`, `suite` judges its cases,
`pytest_plugin` makes a test of each, `mutation` measures them, `editor` writes cases.

>>> from pathlib import Path
>>> from datalog_gate.policytest.testfile import read_cases
>>> read_cases(Path("rules/net/test.yaml"))[0].name
'ssh from everywhere is refused'
"""
