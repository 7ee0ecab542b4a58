"""Reads policies of OpenStack Congress and writes them as rule files.

`library` reads a library of rules, and `convert` writes what `congress_translation.py` of `analysis` makes of it.

>>> from datalog_gate.language.congress.library import Entry, parse_library
>>> from datalog_gate.language.printer import print_module
>>> entry = Entry("error(x) :- nova:servers(id=x, flavor_id='m1.huge')", line=3, column=9, comment="too large")
>>> module, diagnostics = parse_library([entry], "huge.yaml", "huge")
>>> print(print_module(module), end="")
@deny(message="too large: {x}")
error(x) :- nova:servers(id=x, flavor_id="m1.huge").
"""
