"""The model of a stack, and what an update does to it.

Layer 2: may import layers 0 to 1. `template` creates a `Stack` and `facts` reads it. `translation` moves properties to
the names that Heat reads; `replacement` and `update` predict what an update does to each resource.

>>> import datalog_gate as dg
>>> stack = dg.read_stack("fixtures/stacks/bastion/template.yaml")
>>> [(resource.name, resource.type) for resource in stack.resources]
[('bastion_sg', 'OS::Neutron::SecurityGroup'), ('bastion', 'OS::Nova::Server')]
"""
