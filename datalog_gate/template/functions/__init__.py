"""The functions of templates, HOT and CloudFormation.

`pure` needs only the arguments, `attributes` reads other resources, `yaql` runs a query with limits.

>>> from datalog_gate.template.functions.pure import function
>>> list_join = function("list_join", "2018-08-31", spend=print)
>>> list_join(["-", ["web", "1"]])
'web-1'
"""
