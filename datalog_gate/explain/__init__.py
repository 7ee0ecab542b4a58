"""Explains a finding: why it holds, and what to change.

Layer 4: may import layers 0 to 3, and beside it `decision`. `why` walks derivations, `instruction` reads what
a hint says to write, `fix` tries changes and judges the stack again, `template_change` makes these, `explanation` puts
both in lines with places.

>>> import datalog_gate as dg
>>> decision = dg.load_rules("rules/net").decide(dg.read_stack("fixtures/stacks/bastion/template.yaml"), explain=True)
>>> for line in decision.explanation.of(decision.violations[0]).lines[:2]:
...     print(line.text, line.where)
ingress(template/bastion_sg, 0.0.0.0/0, tcp, 22, 22) rules/net/ssh.dl:24
os:neutron:security_group.rules(template/bastion_sg, 0, ...) fixtures/stacks/bastion/template.yaml:17
"""
