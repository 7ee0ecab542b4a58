"""The service `rack_affinity`: places servers and volumes together or apart.

Layer 5: may import layers 0 to 4, and beside it `plugins` and `services`. `demand` reads the request of a
grant, `places` the available places, `greedy` tries a first placement, `solver` runs CP-SAT in a process of its own,
and `conflict` explains why there is no placement.

>>> from datalog_gate.rack_affinity.problem import Place
>>> Place("server", "host-1", "rack-a", "nova-1", {"VCPU": 8}).at("rack")
'rack-a'
"""
