"""Answers the questions of editors and prompts about rules, templates and tests.

Layer 6: may import layers 0 to 5 and `api`. `workspace` has the open texts and checks them; `rule_names`,
`rule_completion`, `template_answers` and `case_answers` answer about an offset in one; `actions` finds edits. What they
say is data of `answers`, in offsets.

>>> from datalog_gate.editing.yaml_outline import slot_at
>>> text = "resources:\\n  web:\\n    ty"
>>> slot_at(text, len(text)).path
('resources', 'web')
"""
