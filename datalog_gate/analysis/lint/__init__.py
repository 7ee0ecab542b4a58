"""Lints: findings about rules that load but are hardly meant.

A lint changes nothing that rules derive. `lints` runs all of them, `single_use` finds names that occur once,
`allowed_values` finds texts that a column never holds.

>>> from datalog_gate.decision.policy_set import RuleFile, load
>>> text = '@deny("size", "{server}") p(server) :- os:nova:server(_id=server, flavor=flavour).'
>>> [(warning.code, warning.message) for warning in load([RuleFile("m", "m.dl", text)]).warnings]
[('used-once', 'flavour is a variable that occurs once')]
"""
