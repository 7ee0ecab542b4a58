"""Reports of decisions for people and programs.

A format is one module, a line in `formats`, and its name in `files/check_options.py`. `entries` has what they all tell.
Names from templates are escaped, so that they cannot change the structure of a report.

>>> from datalog_gate.doors.cli.reports.formats import FOR_PEOPLE
>>> [*FOR_PEOPLE]
['text', 'compact']
"""
