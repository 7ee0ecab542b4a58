"""The policy decision point that every door of a running service asks.

Layer 6: may import layers 0 to 5 and `api`. `settings` has every option, `point` answers an operation, `policy_reload`
swaps rules and options in, `break_glass` reads the override file, `log` writes decisions and replays them, and
`metrics_port` tells Prometheus their numbers.

>>> from datalog_gate.decision_point.settings import Settings
>>> Settings(mode="record").mode
'record'
"""
