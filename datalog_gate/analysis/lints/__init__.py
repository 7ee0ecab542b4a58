"""Lints: findings about rules that load but are hardly meant.

Each module is one lint: its docstring explains it, and the function below `@lint` finds it. The decorator has the code,
an example of what is reported and one of what is not. A new lint is a new module here.

>>> from datalog_gate.decision.policy_set import RuleFile, load
>>> text = '@deny("size", "{server}") p(server) :- os:nova:server(_id=server, flavor=flavour).'
>>> [(warning.code, warning.message) for warning in load([RuleFile("m", "m.dl", text)]).warnings]
[('used-once', 'flavour is a variable that occurs once')]
"""
