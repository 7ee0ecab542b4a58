"""Reads policies of OpenStack Congress and converts them to this language.

`library` reads a library of rules, `normalize` says in this language what Congress means, `convert` prints the result.

>>> from datalog_gate.analysis.congress.library import Entry, parse_library
>>> from datalog_gate.language.printer import print_module
>>> entry = Entry("error(x) :- nova:servers(id=x, flavor_id='m1.huge')", line=3, column=9, comment="too large")
>>> module, diagnostics = parse_library([entry], "huge.yaml", "huge")
>>> print(print_module(module), end="")
@deny(message="too large: {x}")
error(x) :- nova:servers(id=x, flavor_id="m1.huge").
"""
