"""Commands of the command line, a module for each.

>>> from pathlib import Path
>>> from datalog_gate.doors.cli.commands.rule_files import find_packs
>>> [pack.name for pack in find_packs(Path("rules"))][:3]
['breakpoints', 'capacity', 'cloud']
"""
