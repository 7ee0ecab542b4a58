"""Turns a stack into typed facts with places.

Layer 2: may import layers 0 to 1, and beside it `stack`. `flatten` fills all relations of a stack, `factset` holds
them, `lines` writes and reads them as lines of JSON, `old_relations` adds the stack as it was.

>>> import datalog_gate as dg
>>> from datalog_gate.facts.flatten import flatten
>>> from datalog_gate.schema.catalogue import SHIPPED
>>> facts = flatten(dg.read_stack("fixtures/stacks/bastion/template.yaml"), SHIPPED)
>>> sorted({relation for relation, row, origin in facts if relation.startswith("os:neutron")})
['os:neutron:security_group', 'os:neutron:security_group.rules']
"""
