"""Pages of HTML for people: a decision beside what it would build.

Layer 6: may import layers 0 to 5 and `api`, and beside it `editing`. `layout` places the nodes of a graph, `drawing`
makes a graph of a stack, `source_lines` marks the lines of a template, `fix_diff` shows a fix as such lines,
`decision_page` combines them into the data of a page, and `rendering` makes HTML with the `templates`, which escape all
texts.

>>> from datalog_gate.pages.layout import arrange
>>> arrange({"net": 90.0, "port": 90.0}, [("net", "port")]).positions
{'net': (0.0, 0.0), 'port': (0.0, 88.0)}
"""
