"""The policy server: what the gate knows and decides, over HTTP.

Layer 7: may import everything but other doors. It never runs in Heat's processes. `api_table` has all endpoints, from
which `application` makes the routes, `access` the rules of oslo.policy and `openapi` the description. `serving` runs
it.

>>> from datalog_gate.doors.server.api_table import ENDPOINTS
>>> [endpoint.name for endpoint in ENDPOINTS if endpoint.path == "/v2/decisions"]
['decision:create', 'decision:list']
"""
