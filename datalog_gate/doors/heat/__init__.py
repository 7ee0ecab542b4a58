"""The lifecycle plugin and the resource types inside Heat's engine.

Only this package knows Heat's own classes, and it imports them where it uses them. `resources` is for the option
`plugin_dirs` of Heat.

>>> from datalog_gate.doors.heat.lifecycle import LifecyclePlugin
>>> LifecyclePlugin().get_ordinal()
100
"""
