"""The quick way of reading simple resources gives what the full one gives."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from datalog_gate.errors import InputError
from datalog_gate.facts.stack import Data
from datalog_gate.sources import read_stack

MAPPED = {"resource_registry": {"Nobody::Uses": "OS::Heat::None"}}
"""An environment that changes nothing, but that a type may be mapped: then no resource is simple."""
NAMES = st.sampled_from(["a", "b", "c", "d/e"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", "m1.small"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "size", "get_resource", "get_param", "Fn::Join"]), inner, max_size=2)
        | NAMES.map(lambda name: {"get_resource": name})
    ),
    max_leaves=6,
)
RESOURCES = st.fixed_dictionaries(
    {"type": st.sampled_from(["OS::Nova::Server", "OS::Cinder::Volume", "Unheard::Of", "x.yaml", "OS::Heat::Value"])},
    optional={
        "properties": st.dictionaries(st.sampled_from(["name", "size", "get_resource"]), VALUES, max_size=3),
        "condition": st.booleans(),
        "metadata": VALUES,
    },
)


def outcome(template: Mapping[str, Data], mapped: bool) -> object:
    """All that reading gives, with the place of each property; or what it finds wrong."""
    text = json.dumps(template, indent=1)
    try:
        stack = read_stack(text, stack_name="web", environment=MAPPED if mapped else None)
    except InputError as error:
        return [(one.code, one.message, one.span) for one in error.diagnostics]
    places = [
        (one.locate(("properties", key)), one.locate(()))
        for one in stack.resources
        for key in ("name", *one.properties)
    ]
    return stack, places


@given(st.dictionaries(NAMES, RESOURCES, min_size=1, max_size=4))
def test_a_simple_resource_is_read_as_any_other(resources: dict[str, Data]) -> None:
    template = {"heat_template_version": "2016-10-14", "resources": resources}
    assert outcome(template, mapped=False) == outcome(template, mapped=True)
