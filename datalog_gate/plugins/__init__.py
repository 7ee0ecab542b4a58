"""Loads plugins that operators configure by name, and guards calls to them.

Layer 5: may import layers 0 to 4. `loader` finds entry points, `breaker` bounds what a plugin can cost,
`plugin_settings` reads its settings, `plugin_errors` are those of all plugins.

>>> from datalog_gate.plugins.breaker import Guard
>>> guard = Guard("edge", ticks=lambda: 0.0)
>>> guard(1.0, lambda: "granted")
'granted'
"""
