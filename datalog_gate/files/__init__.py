"""Reads rules, templates, environments and facts from disk.

Layer 5: may import layers 0 to 4. Every file error becomes a diagnostic that names the file.

>>> from pathlib import Path
>>> from datalog_gate.files.rules import read_rules
>>> [rule_file.module for rule_file in read_rules([Path("rules/net")])]
['floating_ip', 'security_group', 'ssh']
"""
