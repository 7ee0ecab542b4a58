"""Translates hosts to the decision point and back: command line, WSGI, Heat.

Layer 7: may import layers 0 to 6 and `api`. A door holds no policy logic, and doors never import each other.

>>> from datalog_gate.doors.cli.main import main
>>> main(["check", "--rules", "rules/net", "--format", "compact", "fixtures/stacks/bastion/template.yaml"])
fixtures/stacks/bastion/template.yaml:17:34: deny[net.open_ssh] security group bastion_sg lets 0.0.0.0/0 reach port 22
1 denied, 0 warnings, 0 undetermined; 3 policies, 8 facts; deny; decision fdfa4b
1
"""
