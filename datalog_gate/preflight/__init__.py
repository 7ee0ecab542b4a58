"""Consults plugins before an operation and tells them how it ended.

Layer 5: may import layers 0 to 4, and beside it `plugins`. `plugin` is the interface for providers, `snapshot` the data
that plugins get, `chain` orders and runs all plugins; `licence_server` is a plugin that asks over HTTP.

>>> from datalog_gate.preflight.chain import order_plugins
>>> from datalog_gate.preflight.plugin import Plugin
>>> class Audit(Plugin):
...     after = ("quota",)
>>> list(order_plugins({"audit": Audit(), "quota": Plugin()}))
['quota', 'audit']
"""
