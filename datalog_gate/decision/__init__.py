"""Judges stacks by a policy set and returns a `Decision`.

Layer 4: may import layers 0 to 3. `policy_set` loads rules, `evaluation` runs the engine, `findings` reads violations
off the model, `case_analysis` tries values of unknowns, `waivers` and `grants` apply theirs, `judgement` puts all
together. `whole_cloud` judges policies over all stacks of a cloud.

>>> from datalog_gate.decision.policy_set import RuleFile, load
>>> text = '@deny("size", "{server} is huge") p(server) :- os:nova:server(_id=server, flavor="m1.huge").'
>>> rules = load([RuleFile("m", "m.dl", text)])
>>> [(policy.id, policy.level, policy.relation) for policy in rules.policies]
[('size', 'deny', 'm:p')]
"""
