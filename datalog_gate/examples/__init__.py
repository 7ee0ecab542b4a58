"""Finds the smallest stacks that a policy denies.

Layer 4: may import layers 0 to 3, and beside it `decision`. `unfolding` turns a rule backwards to rows and
conditions, `valuation` chooses values, `case_building` makes a case of them, `judge` judges it, and `variations` makes
it smaller and finds near ones that pass. `example_search` leads, `differences` compares two rule sets.

>>> import datalog_gate as dg
>>> found = dg.load_rules("rules/net").examples("net.open_ssh")
>>> found.examples[0].case["stack"]["resources"]["security_group"]["properties"]
{'rules': [{}]}
>>> [flip.condition for flip in found.examples[0].flips][:2]
['lowest <= 22', 'highest >= 22']
"""
