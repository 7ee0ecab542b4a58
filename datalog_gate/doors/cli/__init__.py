"""The command line `datalog-gate`.

`arguments` declares the options, `main` turns errors into exit codes, `commands` has a module for each larger command,
`doctor` examines the doors into a Heat.

>>> from datalog_gate.doors.cli.main import main
>>> main(["query", "offered_flavor(name)", "--rules", "rules/security/limits.dl"])
c1.large
m1.large
m1.medium
m1.small
r1.large
0
"""
