"""The rule language: lexer, parser, syntax tree, printer and formatter.

Layer 1: may import layer 0. It knows no relation and no builtin: `analysis` finds out what a name means.

>>> from datalog_gate.language.parser import parse
>>> from datalog_gate.language.printer import print_module
>>> module, diagnostics = parse("p(x):-q(x,1).", "rules.dl", "rules")
>>> print(print_module(module), end="")
p(x) :- q(x, 1).
>>> module, diagnostics = parse("p(x) :- q(x) r(x).", "rules.dl", "rules")
>>> [(diagnostic.code, diagnostic.message, diagnostic.suggestion) for diagnostic in diagnostics]
[('syntax', 'missing `,` or `.` before `r`', 'write `,` before `r`')]
"""
