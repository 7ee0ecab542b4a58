"""The relations, builtins and resource types that rules may name.

Layer 1: may import layer 0. `relations` and `signatures` are written by hand, `cloud` has the tables of an inventory,
`data` the resource types harvested from Heat, `operator_files` reads types that operators add, and `property_paths`
reads paths into their properties. `descriptions` documents each relation for rule authors.

>>> from datalog_gate.schema.catalogue import SHIPPED
>>> from datalog_gate.schema.relations import FIXED
>>> [column.name for column in FIXED["heat:resource"].columns]
['id', 'stack', 'name', 'type', 'declared']
>>> [column.name for column in SHIPPED.relation("os:cinder:volume_attachment").columns]
['_id', '_stack', 'instance_uuid', 'mountpoint', 'volume_id']
"""
