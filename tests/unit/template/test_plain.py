"""The fast path for plain resources agrees with the full one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from datalog_gate.base.errors import InputError
from datalog_gate.files.templates import read_stack
from datalog_gate.stack.model import ELSEWHERE, Data

MAPPED = {"resource_registry": {"Nobody::Uses": "OS::Heat::None"}}
"""An environment that maps an unused type. With mappings no resource counts as simple."""
NAMES = ("a", "b", "c")
REFERENCES = st.sampled_from([{"get_resource": name} for name in (*NAMES, *NAMES, "missing")])
FUNCTIONS = st.sampled_from(
    [
        {"get_attr": ["a", "first_address"]},
        {"get_attr": ["c", "name"]},
        {"get_param": "open"},
        {"get_param": "secret"},
        {"if": ["open", {"get_resource": "b"}, 1]},
        {"if": [False, 1]},
        {"list_join": [":", [{"get_param": "secret"}, {"get_attr": ["b", "value"]}]]},
    ]
)
VALUES = st.recursive(
    st.none() | st.integers() | st.sampled_from(["", "m1.small"]) | REFERENCES | FUNCTIONS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "get_param", "get_resource", "Fn::Join"]), inner, max_size=2)
    ),
    max_leaves=4,
)
RESOURCES = st.fixed_dictionaries(
    {"type": st.sampled_from(["OS::Nova::Server", "Unheard::Of", "OS::Heat::Value", *ELSEWHERE])},
    optional={"properties": st.dictionaries(st.sampled_from(["name", "size"]), REFERENCES | VALUES, min_size=1)},
)
KEYS = st.sampled_from([{}, {"condition": True}, {"condition": False}, {"metadata": {"name": 1}}])


def outcome(template: Mapping[str, Data], mapped: bool) -> object:
    """All results of reading: each property with its place and secrecy, or the diagnostics."""
    text = json.dumps(template, indent=1)
    try:
        stack = read_stack(text, stack_name="web", environment=MAPPED if mapped else None)
    except InputError as error:
        return [(diagnostic.code, diagnostic.message, diagnostic.span) for diagnostic in error.diagnostics]
    places = [
        (resource.locate(("properties", key)), resource.locate(()), resource.hides(("properties", key), True))
        for resource in stack.resources
        for key in ("name", *resource.properties)
    ]
    return replace(stack, environments=()), places


SERVER: dict[str, Data] = {"type": "OS::Nova::Server", "properties": {"name": "x"}}
BOTH: dict[str, Data] = {"name": {"get_resource": "a"}, "size": {"get_attr": ["a", "first_address"]}}
"""A resource that needs another in two ways has the first one as the reason."""


@example("2016-10-14", [(SERVER, {}), ({**SERVER, "properties": BOTH}, {}), (SERVER, {})])
@example("2016-10-14", [(SERVER, {}), ({**SERVER, "properties": dict([*BOTH.items()][::-1])}, {}), (SERVER, {})])
@given(st.sampled_from(["2016-10-14", "2021-04-16"]), st.lists(st.tuples(RESOURCES, KEYS), min_size=3, max_size=3))
def test_the_fast_path_reads_a_resource_as_the_general_one(
    version: str, resources: list[tuple[dict[str, Data], dict[str, Data]]]
) -> None:
    named = {name: definition | more for name, (definition, more) in zip(NAMES, resources, strict=True)}
    template = {
        "heat_template_version": version,
        "parameters": {"open": {"type": "string"}, "secret": {"type": "string", "hidden": True, "default": "x"}},
        "conditions": {"open": {"equals": [{"get_param": "open"}, 1]}},
        "resources": named,
    }
    assert outcome(template, mapped=False) == outcome(template, mapped=True)
