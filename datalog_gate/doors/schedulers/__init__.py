"""Filters for the schedulers of Nova and Cinder.

What a grant of rack_affinity decided is where servers and volumes go. They run in Nova's and Cinder's own processes,
and import only names of the rest of the gate.

>>> from datalog_gate.doors.schedulers.reservation import read_reservation
>>> read_reservation({"group": "web"}, "p1", ask=lambda path: {}) is None
True
"""
