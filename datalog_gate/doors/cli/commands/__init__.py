"""Commands of the command line, a module for each.

>>> from argparse import Namespace
>>> from datalog_gate.doors.cli.commands.rule_files import fmt
>>> fmt(Namespace(path=["rules"], from_congress=False, modern=False, check=True))
0
"""
