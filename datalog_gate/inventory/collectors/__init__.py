"""The tables of each service of OpenStack, as data.

Layer 5: may import layers 0 to 4, and beside it `files` and `plugins`.

>>> from datalog_gate.inventory.collectors.glance import Glance
>>> [source.relation for source in Glance.tables]
['glancev2:images', 'glancev2:tags']
"""
