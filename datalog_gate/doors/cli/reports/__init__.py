"""Reports of decisions for people and programs.

A format is one module, and a line in `formats`. `entries` has what they all tell. Names from templates are escaped, so
that they cannot change the structure of a report.

>>> from datalog_gate.doors.cli.reports.formats import DOCUMENTS, FOR_PEOPLE, FOR_PROGRAMS
>>> [*FOR_PEOPLE, *FOR_PROGRAMS, *DOCUMENTS]
['text', 'compact', 'json', 'github', 'junit', 'sarif', 'html']
"""
