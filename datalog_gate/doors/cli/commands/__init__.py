"""Commands of the command line, a module for each.

>>> from pathlib import Path
>>> from datalog_gate.doors.cli.commands.packs import packs
>>> [pack.name for pack in packs(Path("rules"))][:3]
['breakpoints', 'capacity', 'congress']
"""
