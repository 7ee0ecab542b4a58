"""Checks rules and lowers them to a program for an engine.

Layer 2: may import layers 0 to 1. The passes in order: `resolve` finds what names mean, `lower` makes plain rules of
bodies, `types` infers kinds, `safety` orders literals, `strata` orders relations. `check` runs them all.

>>> from datalog_gate.analysis.check import check
>>> from datalog_gate.language.parser import parse
>>> rules = "link(1, 2). reach(x, y) :- link(x, y). reach(x, z) :- reach(x, y), link(y, z)."
>>> module, _ = parse(rules, "m.dl", "m")
>>> [(stratum.relations, stratum.recursive) for stratum in check([module]).program.strata]
[(('m:link',), False), (('m:reach',), True)]
"""
