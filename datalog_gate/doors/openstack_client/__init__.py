"""`openstack gate ...`, and functions that ask the policy server over keystoneauth.

Layer 7: imports no rules, templates or engine, since the server has them. `gate_client` has the functions, `commands`
what `openstack gate` prints of their answers, and `command_plugin` finds the server.

>>> from keystoneauth1.session import Session
>>> from datalog_gate.doors.openstack_client.gate_client import connect
>>> connect(Session(), "http://127.0.0.1:1789").get_endpoint()
'http://127.0.0.1:1789'
"""
