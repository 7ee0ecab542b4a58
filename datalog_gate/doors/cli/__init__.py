"""The command line `datalog-gate`.

`option_parser` declares the options, `main` runs a command of `commands` and turns errors into exit codes, `doctor` has
the checks of the command of that name.

>>> from datalog_gate.doors.cli.main import main
>>> main(["query", "offered_flavor(name)", "--rules", "rules/security/limits.dl"])
c1.large
m1.large
m1.medium
m1.small
r1.large
0
"""
