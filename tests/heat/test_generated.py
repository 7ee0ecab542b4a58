"""Generated templates, resolved by us and by Heat."""

# ruff: noqa: E501 - one function a line

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.heat.categories import category
from tests.heat.inputs import compare_body

EXAMPLES, SHARDS = int(os.environ.get("DATALOG_GATE_GENERATED", "5000")), 20
VERSIONS = (
    *("2013-05-23", "2014-10-16", "2015-04-30", "2015-10-15", "2016-04-08", "2016-10-14", "2017-02-24"),
    *("2017-09-01", "2018-03-02", "2018-08-31", "2021-04-16", "newton", "ocata", "pike", "queens", "rocky", "wallaby"),
)
PARAMETERS: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "default": "a,b"},
    "number": {"type": "number", "default": 2},
    "items": {"type": "comma_delimited_list", "default": "x,y"},
    "data": {"type": "json", "default": {"a": ["b", {"c": 1}], "k": "v"}},
    "flag": {"type": "boolean", "default": True},
}
VALUES_OF_TYPE: dict[str, Any] = {
    "text": st.sampled_from(["", "a", "x y", "7"]),
    "number": st.sampled_from([0, 3, "4", 1.5]),
    "items": st.sampled_from(["", "p", "p,q", ["r", "s"], [1]]),
    "data": st.sampled_from([{}, {"a": 1}, [1, 2], '{"k": ["v"]}']),
    "flag": st.sampled_from([False, "no", "on", 0]),
}
NAMES = ("one", "two", "three")
SCALARS = st.none() | st.booleans() | st.integers(-2, 9) | st.sampled_from(["", "a", "b,c", "on", "one", "2.5"])
PASSED = (
    *({"type": kind} for kind in ("string", "json", "number", "boolean", "comma_delimited_list")),
    {"type": "string", "default": "own"},
)
CONDITIONS = ("ever", "never", "maybe")
DEPLOYMENTS = "OS::Heat::SoftwareDeploymentGroup"


def listed(*parts: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.tuples(*parts).map(list)


def call(**forms: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One of the functions; its name with `__` for `::`. In a version that has it not it is plain data."""
    return st.one_of([st.fixed_dictionaries({name.replace("__", "::"): form}) for name, form in forms.items()])


def truths() -> st.SearchStrategy[Any]:
    """What may stand for a condition."""
    plain = st.booleans() | st.just({"get_param": "flag"})
    return st.recursive(
        plain | call(equals=listed(SCALARS, SCALARS | st.just({"get_param": "text"}))),
        lambda part: call(
            **{"not": part, "and": st.lists(part, min_size=2, max_size=3), "or": st.lists(part, min_size=2, max_size=3)}
        ),
        max_leaves=3,
    )


LITERALS = st.sampled_from(["a", "a-b", "a,b", ",", "-", "", "<%a%>", "7"])
KEYS = st.sampled_from(["a", "b", "k", "<%a%>"])
ATTRIBUTES = st.sampled_from(
    [[name, *rest] for name in NAMES for rest in (["value"], ["value", "a"], ["value", 0], ["name"], ["out"], ["refs"])]
)


@st.deferred
def TEXT() -> st.SearchStrategy[Any]:  # noqa: N802
    replaced = st.fixed_dictionaries(
        {"template": ANYTEXT, "params": st.dictionaries(KEYS, ANYTEXT, min_size=1, max_size=2)}
    )
    url = st.fixed_dictionaries(
        {"scheme": st.just("https"), "host": LITERALS},
        optional={"port": st.sampled_from([80, "443", ""]), "path": ANYTEXT, "query": ANYMAP},
    )
    return LITERALS | call(
        get_param=st.sampled_from(["text", ["data", "k"], ["data", "a", 0], ["items", 0]]),
        get_attr=ATTRIBUTES,
        get_file=st.just("note.txt"),
        str_replace=replaced,
        str_replace_strict=replaced,
        str_replace_vstrict=replaced,
        make_url=url,
        digest=listed(st.sampled_from(["md5", "sha256"]), ANYTEXT),
        list_join=listed(LITERALS, ANYLIST) | listed(LITERALS, ANYLIST, ANYLIST),
        str_split=listed(LITERALS, ANYTEXT, st.integers(0, 1)),
        Fn__Join=listed(LITERALS, ANYLIST),
    )


@st.deferred
def LIST() -> st.SearchStrategy[Any]:  # noqa: N802
    lists = st.dictionaries(KEYS, ANYLIST, min_size=1, max_size=2)
    repeated = st.fixed_dictionaries(
        {"template": ANYTEXT | ANYMAP, "for_each": lists}, optional={"permutations": st.booleans()}
    )
    return (
        st.lists(ANYTEXT, max_size=3)
        | st.lists(ANYTEXT, max_size=3)
        | st.lists(ANY, max_size=2)
        | call(
            get_param=st.sampled_from(["items", ["data", "a"]]),
            str_split=listed(LITERALS, ANYTEXT),
            repeat=repeated,
            filter=listed(ANYLIST, ANYLIST),
            list_concat=st.lists(ANYLIST, max_size=3),
            list_concat_unique=st.lists(ANYLIST, max_size=3),
        )
    )


@st.deferred
def MAP() -> st.SearchStrategy[Any]:  # noqa: N802
    changes = st.fixed_dictionaries(
        {}, optional={"keys": st.dictionaries(KEYS, KEYS, max_size=1), "values": st.dictionaries(KEYS, ANY, max_size=1)}
    )
    return st.dictionaries(KEYS, ANY, max_size=2) | call(
        get_param=st.just("data"), map_merge=st.lists(ANYMAP, max_size=3), map_replace=listed(ANYMAP, changes)
    )


@st.deferred
def ANY() -> st.SearchStrategy[Any]:  # noqa: N802
    chosen = st.sampled_from(CONDITIONS) | truths()
    return SCALARS | TEXT | LIST | MAP | call(
        get_param=st.sampled_from([*PARAMETERS, ["data", "zz"]]), get_resource=st.sampled_from(NAMES), get_attr=ATTRIBUTES,
        contains=listed(SCALARS, ANYLIST), resource_facade=st.sampled_from(["metadata", "deletion_policy"]), Fn__Select=listed(st.integers(0, 1), ANYLIST),
    ) | call(**{"if": listed(chosen, ANYTEXT, ANYMAP) | listed(chosen, ANYTEXT)})  # fmt: skip


def mostly(kind: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What a function wants, or seldom something else."""
    return st.integers(0, 60).flatmap(lambda luck: kind if luck else ANY)


ANYTEXT, ANYLIST, ANYMAP = map(mostly, (TEXT, LIST, MAP))
VALUES = ANY
PLAIN = SCALARS | st.sampled_from([{"get_param": "text"}, {"get_param": "data"}])
"""What is in a resource that may be switched off: there Heat looks at the forms of arguments, and we at nothing."""


def fitted(data: Any, version: str, known: Sequence[str]) -> Any:
    """The data with references to known resources only, and with functions in the forms that the version takes."""
    match data:
        case {"get_resource": str(name)} if len(data) == 1 and name not in known:
            return {"get_resource": known[-1]} if known else name
        case {"get_attr": [name, *rest]} if len(data) == 1 and name not in known:
            return {"get_attr": [known[-1], *rest]} if known else name
        case {"if": [condition, first]} if len(data) == 1 and version not in ("2021-04-16", "wallaby"):
            return {"if": [condition, fitted(first, version, known), None]}
        case {"Fn::Join": _} | {"Fn::Select": _} if len(data) == 1 and version > "2014-10-15":
            return "removed"
        case dict():
            return {key: fitted(value, version, known) for key, value in data.items()}
        case list():
            return [fitted(value, version, known) for value in data]
    return data


@st.composite
def templates(draw: st.DrawFn, nested: bool = False) -> dict[str, Any]:
    """A template with up to three resources; one that may be nested takes a parameter and has an output."""
    version = draw(st.sampled_from(VERSIONS))
    kinds = ["OS::Heat::Value", "OS::Heat::Value", "OS::Nova::Server", "Unheard::Of"]
    kinds += [] if nested else ["below.yaml", "OS::Heat::ResourceGroup", DEPLOYMENTS]
    resources: dict[str, Any] = {}
    definition: dict[str, Any]
    for name in NAMES:
        condition = draw(st.sampled_from((None, *CONDITIONS))) if version >= "2016-10-14" else None
        values = PLAIN if condition in ("never", "maybe") else VALUES
        kind = draw(st.sampled_from(kinds))
        properties: dict[str, Any] = (
            {"value": draw(values)} if kind.startswith("OS::Heat::V") else {"flavor": draw(values)}
        )
        if kind == "below.yaml":
            properties = {"passed": draw(values)}
        if kind == "OS::Heat::ResourceGroup":
            definition = {"type": draw(st.sampled_from(["OS::Heat::Value", "below.yaml"]))}
            definition["properties"] = {
                "passed" if definition["type"] == "below.yaml" else "value": draw(values | st.just("%index%"))
            }
            properties = {
                "count": draw(st.sampled_from([0, 1, 2, {"get_param": "number"}])),
                "resource_def": definition,
            }
        if kind == DEPLOYMENTS:
            servers = st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2)
            properties = {"config": draw(LITERALS), "servers": draw(servers | st.just({"get_param": "data"}))}
        known = [resource for resource in resources if resources[resource].get("condition", "ever") == "ever"]
        resources[name] = {"type": kind, "properties": fitted(properties, version, known)}
        if condition:
            resources[name]["condition"] = condition
        if draw(st.integers(0, 5)) == 0:
            resources[name]["metadata"] = {"m": fitted(draw(values), version, known)}
    template: dict[str, Any] = {
        "heat_template_version": version,
        "parameters": dict(PARAMETERS),
        "resources": resources,
    }
    template["outputs"] = {"out": {"value": fitted(draw(VALUES), version, list(resources))}}
    if version >= "2016-10-14":
        template["conditions"] = {"ever": True, "never": {"equals": ["a", "b"]}, "maybe": draw(truths())}
    if nested:
        template["parameters"]["passed"] = draw(st.sampled_from(PASSED))
    return template


@pytest.mark.parametrize("shard", range(SHARDS))
def test_heat_resolves_a_generated_template_as_we_do(shard: int) -> None:
    known: Counter[str | None] = Counter()
    counts: Counter[str] = Counter()

    @seed(shard)
    @settings(
        max_examples=EXAMPLES // SHARDS,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],  # to shrink one takes minutes, since Heat reads each seven times
    )
    @given(templates(), templates(nested=True), st.fixed_dictionaries({}, optional=VALUES_OF_TYPE))
    def compared(template: dict[str, Any], below: dict[str, Any], parameters: dict[str, Any]) -> None:
        files = {"below.yaml": json.dumps(below), "note.txt": "a note, of two"}
        report = compare_body(json.dumps(template), {"parameters": parameters}, files)
        counts["resources"] += report.compared
        strange = [difference for difference in report.differences if category(difference) is None]
        known.update(category(difference) for difference in report.differences)
        assert strange == []

    compared()
    print(f"{counts['resources']} resources compared; differences by category: {dict(known)}")
