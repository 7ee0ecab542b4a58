"""Reads templates, environments and nested files into a `Stack`.

Layer 2: may import layers 0 to 1, and beside it `stack`. `document` reads YAML with the place of each part, `resolver`
resolves the functions of one template, `resources` and `nesting` create resources and nested stacks, `reader` combines
them. The caller passes a function that fetches files: nothing here reads from disk.

>>> from datalog_gate.template.reader import TemplateSource, read_template
>>> text = (
...     "{heat_template_version: 2018-08-31, parameters: {size: {type: number, default: 5}},"
...     " resources: {disk: {type: OS::Cinder::Volume, properties: {size: {get_param: size}}}}}"
... )
>>> stack = read_template(TemplateSource(text, "disk.yaml", "disk"), lambda name, base: None)
>>> stack.resources[0].properties
{'size': 5}
"""
