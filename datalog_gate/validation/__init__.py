"""What Heat's own validation would refuse.

Layer 2: may import layers 0 to 1, and beside it `stack` and `template`. `refusals` walks a stack, `properties` checks
values by the catalogue, and `texts` decides the constraints of Heat that need no service. `deprecation` finds what
Heat accepts but hides or deprecates.

>>> import datalog_gate as dg
>>> from datalog_gate.schema.catalogue import SHIPPED
>>> from datalog_gate.validation.refusals import find_refusals
>>> text = "heat_template_version: 2018-08-31\\nresources: {net: {type: OS::Neutron::Nett}}"
>>> [(refusal.message, refusal.suggestion) for refusal in find_refusals(dg.read_stack(text), SHIPPED)]
[('there is no resource type OS::Neutron::Nett', 'did you mean `OS::Neutron::Net`?')]
"""
