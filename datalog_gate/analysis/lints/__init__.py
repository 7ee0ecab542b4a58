"""Lints: findings about rules that load but are hardly meant.

Each module is one lint: its docstring explains it, and `LINT` has its code, an example of what it reports, one of what
it does not, and its function. A new lint is a new module here; `analysis.linting` finds it.

>>> from datalog_gate.decision.policy_set import RuleFile, load
>>> text = '@deny("size", "{server}") p(server) :- os:nova:server(_id=server, flavor=flavour).'
>>> [(warning.code, warning.message) for warning in load([RuleFile("m", "m.dl", text)]).warnings]
[('used-once', 'flavour is a variable that occurs once')]
"""
