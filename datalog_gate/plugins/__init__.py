"""Loads plugins that operators configure by name, and guards calls to them.

Layer 5: may import layers 0 to 4. `loader` finds entry points, `breaker` bounds what a plugin can cost,
`plugin_settings` reads its settings, `plugin_errors` are those of all plugins.

>>> from datalog_gate.plugins.breaker import Breaker
>>> breaker = Breaker(clock=lambda: 0.0, limit=2)
>>> breaker.failed(), breaker.admits(), breaker.failed(), breaker.admits()
(None, True, None, False)
"""
