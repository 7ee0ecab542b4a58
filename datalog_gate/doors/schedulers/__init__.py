"""Filters for the schedulers of Nova and Cinder.

They place servers and volumes where a grant of rack_affinity decided. They run in the processes of Nova and Cinder, and
import almost nothing of the gate.

>>> from datalog_gate.doors.schedulers.reservation import read_reservation
>>> read_reservation({"group": "web"}, "p1", ask=lambda path: {}) is None
True
"""
