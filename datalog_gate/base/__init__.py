"""Values, diagnostics and errors that every room uses.

Layer 0: imports no other room. `values` has what facts and rules are made of, `secrecy` masks what is hidden of them,
`diagnostics` has places in files and what is wrong there, `errors` has the exceptions, `patterns` searches texts, `gc`
pauses the collector.

>>> from decimal import Decimal
>>> from datalog_gate.base.values import from_python, show
>>> [show(from_python(data)) for data in (None, True, "m1.small", Decimal("1.50"))]
['null', 'true', 'm1.small', '1.5']
"""
