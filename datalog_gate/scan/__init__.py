"""Judges every stack of a cloud, a decision log or a folder.

Layer 5: may import layers 0 to 4, and beside it `files`, `inventory`, `plugins` and `store`. A `feed` yields the stacks
that there are; what reads and judges them need not know where they come from.

>>> from datalog_gate.files.stack_definition import StackDefinition
>>> from datalog_gate.scan.feed import StackEntry, read
>>> template = {"heat_template_version": "2018-08-31", "resources": {"net": {"type": "OS::Neutron::Net"}}}
>>> entry = StackEntry(root="5c2e", name="web", project="p1", source=StackDefinition(template))
>>> [resource.id.path for resource in read(entry).resources]
['web/net']
"""
