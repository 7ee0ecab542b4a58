"""Every template function in every version, resolved by us and by Heat.

The expressions stand in a property, or in a condition, of one template in all its versions: where a version has no such
function it is plain data on both sides. Where Heat refuses we must refuse, and the other way round.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import yaml
from heat.engine import template
from heat.engine.function import Invalid
from heat.engine.hot.functions import Removed

from tests.heat.categories import category
from tests.heat.comparison import Difference, stack_refusals
from tests.heat.heat_side import HeatStack, Refused, refusals, resolve
from tests.heat.inputs import compare_body, ours_of

HOT: tuple[str, ...] = (
    "2013-05-23", "2014-10-16", "2015-04-30", "2015-10-15", "2016-04-08", "2016-10-14", "2017-02-24", "2017-09-01",
    "2018-03-02", "2018-08-31", "2021-04-16",
)  # fmt: skip
if os.environ.get("DATALOG_GATE_HEAT") == "short":  # the generated templates are of all versions
    HOT = HOT[::5]
CFN = (("HeatTemplateFormatVersion", "2012-12-12"), ("AWSTemplateFormatVersion", "2010-09-09"))
VERSIONS = (*(("heat_template_version", version) for version in HOT), *CFN)

VALUES = """
{get_param: text}
{get_param: [map, a]}
{get_param: [map, list, -1]}
{get_param: [map, list, 7]}
{get_param: [map, {get_param: key}]}
{get_param: [list, 1]}
{get_param: [number, 0]}
{get_param: null}
{get_param: {get_param: key}}
{get_param: 'OS::stack_name'}
{get_resource: net}
{get_resource: absent}
{get_resource: {get_param: name}}
{get_attr: [net, mtu]}
{get_attr: [net, {get_param: key}]}
{get_attr: net.mtu}
{get_attr: [absent, mtu]}
{get_attr: [echo, value]}
{get_attr: [echo, value, list, 1]}
{get_attr: [echo, value, {get_attr: [net, mtu]}]}
{get_file: some.txt}
{get_file: {get_param: file}}
{get_file: absent.txt}
{str_replace: {template: 'a b c', params: {a: 1, b: x}}}
{str_replace: {template: 'a ab b', params: {ab: x, a: y, b: z}}}
{str_replace: {template: 'a', params: {a: {b: [1, null]}}}}
{str_replace: {template: 'a', params: {'': b}}}
{str_replace: {template: 'n m', params: {n: {get_resource: net}, m: {get_attr: [net, mtu]}}}}
{str_replace: {template: 'n', params: {n: x, m: {get_attr: [net, mtu]}}}}
{str_replace: {template: {get_attr: [net, name]}, params: {n: x}}}
{str_replace_strict: {template: 'a b', params: {a: 1, b: 2}}}
{str_replace_strict: {template: 'ab', params: {ab: 1, b: 2}}}
{str_replace_strict: {template: 'a', params: {a: {get_attr: [net, mtu]}, b: 1}}}
{str_replace_vstrict: {template: 'a b', params: {a: 1, b: 2}}}
{str_replace_vstrict: {template: 'a', params: {a: ''}}}
{str_replace_vstrict: {template: 'a', params: {a: []}}}
{list_join: [',', [a, b]]}
{list_join: [',', [a, null, '']]}
{list_join: [',', [1]]}
{list_join: [',', [{a: 1, c: [2]}]]}
{list_join: [null, [a, b]]}
{list_join: [{get_param: text}, {get_param: list}]}
{list_join: [',', [{get_attr: [net, mtu]}, b]]}
{list_join: [',', [{get_resource: net}]]}
{str_split: [',', 'a,b']}
{str_split: [',', 'a,b', -1]}
{str_split: [',', 'a,b', 1.7]}
{str_split: [',', null]}
{str_split: [null, 'a b']}
{str_split: [',', 5]}
{str_split: [',', {get_attr: [net, mtu]}]}
{repeat: {template: {'%x%': '%y%'}, for_each: {'%x%': [a, b], '%y%': [c, d]}}}
{repeat: {template: '%x%', for_each: {'%x%': [[1], {a: b}]}}}
{repeat: {template: 'is %x%', for_each: {'%x%': [{a: b}]}}}
{repeat: {template: '%x%', for_each: {'%x%': {a: 1, b: 2}}}}
{repeat: {template: '%x%', for_each: {'%x%': null}}}
{repeat: {template: '%x%', for_each: {'': [a]}}}
{repeat: {template: '%x%%y%', for_each: {'%x%': [a, b], '%y%': [c, d]}, permutations: false}}
{repeat: {template: '%x%%y%', for_each: {'%x%': [a, b], '%y%': [c]}, permutations: false}}
{repeat: {template: '%x%', for_each: {'%x%': [a, b]}, permutations: 'no'}}
{repeat: {template: {str_replace: {template: 'q%x%', params: {q: '%x%'}}}, for_each: {'%x%': [a, b]}}}
{repeat: {template: {get_param: '%x%'}, for_each: {'%x%': [text]}}}
{repeat: {template: '%x%', for_each: {'%x%': [{get_attr: [net, mtu]}, a]}}}
{repeat: {template: 'is %x%', for_each: {'%x%': [{get_attr: [net, mtu]}, a]}}}
{repeat: {template: {get_attr: [net, mtu]}, for_each: {'%x%': [a]}}}
{repeat: {template: 'is %x%', for_each: {'%x%': [{get_resource: net}]}}}
{repeat: {template: {get_resource: net}, for_each: {a: [x]}}}
{repeat: {template: [{get_resource: net}], for_each: {'': [x]}}}
{repeat: {template: {get_resource: net}, for_each: {'%x%': [x]}}}
{repeat: {template: {get_resource: net}, for_each: {'%x%': [1]}}}
{digest: [md5, a]}
{digest: [sha256, 'é']}
{digest: [sha256, '€']}
{digest: [none, a]}
{digest: [md5, {get_attr: [net, mtu]}]}
{map_merge: [{a: 1}, {a: 2, b: 3}]}
{map_merge: [{a: 1}, [b]]}
{map_merge: [{get_attr: [net, x]}, {b: 2}]}
{map_merge: [{a: {get_attr: [net, x]}}, {b: 2}]}
{map_replace: [{a: b, c: d}, {keys: {a: x}, values: {d: y}}]}
{map_replace: [{a: b, c: d}, {keys: {a: c}}]}
{map_replace: [{a: b, c: d}, {keys: {a: c, c: a}}]}
{map_replace: [{a: 1, b: true, c: 0}, {values: {1: one, 0: zero}}]}
{map_replace: [{a: b}, {values: {b: null}}]}
{map_replace: [{a: b}, {keys: {a: [x]}}]}
{map_replace: [{a: {get_attr: [net, x]}}, {keys: {a: z}}]}
{map_replace: [{a: {get_attr: [net, x]}}, {values: {b: z}}]}
{if: [yes_, a, b]}
{if: [no_, a, b]}
{if: [no_, a]}
{if: [{equals: [1, 1]}, a, b]}
{if: [null, a, b]}
{if: [yes_]}
{if: [no_, {get_param: absent}, b]}
{if: [yes_, {get_attr: [net, mtu]}, b]}
[{if: [no_, a]}, b]
{a: {if: [no_, a]}, b: c}
{list_concat: [[{if: [no_, a]}], [b]]}
{yaql: {expression: '$.data.a', data: {a: 1}}}
{yaql: {expression: '$.data', data: {get_attr: [net, mtu]}}}
{yaql: {expression: 5, data: {a: 1}}}
{yaql: {data: 1}}
{yaql: {expression: {get_attr: [net, mtu]}}}
{yaql: {expression: '$.data.a.b', data: {a: {b: [1, null, true, 1.5, x]}}}}
{yaql: {expression: '$.data.absent', data: {a: 1}}}
{yaql: {expression: '$.data.list.select($ + 1)', data: {get_param: map}}}
{yaql: {expression: {get_param: text}, data: {}}}
{yaql: {expression: 'nothing()'}}
{yaql: {expression: "'\\N{none}'"}}
{yaql: {expression: '7 / 2 + 7 mod 4 * 2 - abs(-1.5)'}}
{yaql: {expression: '{a => 1}.set(b, 2).delete(a).items().toList()'}}
{yaql: {expression: '$.data.orderByDescending($.n).thenBy($.m).m', data: [{n: 1, m: 2}, {n: 2, m: 2}, {n: 2, m: 1}]}}
{yaql: {expression: '$.data.mergeWith({a => {c => 2}, l => [2, 3]})', data: {a: {b: 1}, l: [1, 2]}}}
{yaql: {expression: '[$.data.any($ > 2), $.data.all($ > 2), $.data.sum(), $.data.max(), $.data.min()]', data: [1, 3]}}
{yaql: {expression: '" A b ".trim().toLower().replace(b, c).split(" ")'}}
{yaql: {expression: '[str(null), str(true), str(1.50), int("5"), float("1.5"), bool("")]'}}
{yaql: {expression: '[not true or false and null, 1 in [1], a in abc, 1 <= 2, null < 1]'}}
{yaql: {expression: '[isString(a), isList([]), isDict({}), isInteger(1), isNumber(true), isBoolean(null)]'}}
{yaql: {expression: '"aaaaaaaaaa" * 1000'}}
{yaql: {expression: '$.data.x', data: {x: {get_resource: net}}}}
{yaql: {expression: '$.data.y', data: {x: {get_attr: [net, mtu]}, y: 1}}}
{filter: [[a], [a, b, a]]}
{filter: [[1], [1, true, 1.0, '1']]}
{filter: [[{a: b}], [{a: b}, c]]}
{filter: [[a], a]}
{filter: [[a], {get_attr: [net, subnets]}]}
{filter: [[a], [{get_attr: [net, mtu]}, b]]}
{filter: [[a, {get_attr: [net, mtu]}], [a]]}
{make_url: {scheme: http, host: example.com, path: /a b, port: 80}}
{make_url: {scheme: http, username: 'a:b', password: 'c@d', host: h, path: /x, query: {a: 1, b: x y}, fragment: f}}
{make_url: {host: '::1', scheme: https}}
{make_url: {host: '[::1]', scheme: https, port: '443'}}
{make_url: {scheme: 'http:', host: h}}
{make_url: {scheme: http, host: h, port: 70000}}
{make_url: {scheme: http, host: h, other: x}}
{make_url: {scheme: http, host: {get_attr: [net, mtu]}}}
{list_concat: [[a], [b, a]]}
{list_concat: [[a], null]}
{list_concat: [{get_attr: [net, subnets]}, [c]]}
{list_concat: [[{get_attr: [net, mtu]}], [c]]}
{list_concat_unique: [[1, true], [1.0, '1']]}
{list_concat_unique: [[{a: b}], [{a: b}, [c]]]}
{list_concat_unique: [[a], b]}
{list_concat_unique: [[{get_attr: [net, mtu]}], [c]]}
{contains: [a, [a, b]]}
{contains: [a, 5]}
{contains: [{a: b}, [{a: b}]]}
{contains: [a, {get_attr: [net, subnets]}]}
{contains: [{get_attr: [net, mtu]}, [a]]}
{resource_facade: metadata}
{resource_facade: nothing}
{equals: [a, a]}
{not: yes_}
{and: [yes_, no_]}
{or: [yes_, no_]}
{Ref: text}
{Ref: net}
{Ref: absent}
{Ref: 'AWS::Region'}
{Ref: 'AWS::StackName'}
{'Fn::GetAtt': [net, mtu]}
{'Fn::GetAtt': net.mtu}
{'Fn::GetAtt': [echo, value]}
{'Fn::GetAZs': ''}
{'Fn::Join': [',']}
{'Fn::Join': [',', [a, b]]}
{'Fn::Join': [',', [a, null]]}
{'Fn::Join': [',', null]}
{'Fn::Join': [',', [{Ref: text}, {Ref: net}]]}
{'Fn::Split': [',', 'a,b']}
{'Fn::Split': [',', null]}
{'Fn::Replace': [{a: b}, 5]}
{'Fn::Replace': [{a: b}, 'a c']}
{'Fn::Replace': [{a: 1, b: null}, 'a b']}
{'Fn::Replace': [{a: {Ref: net}}, 'a c']}
{'Fn::Select': [0, [a, b]]}
{'Fn::Select': [-1, [a, b]]}
{'Fn::Select': [a, {a: b}]}
{'Fn::Select': [0, null]}
{'Fn::Select': [a, '{"a": "b"}']}
{'Fn::Select': [null, [a]]}
{'Fn::Select': [0, {'Fn::GetAtt': [net, subnets]}]}
{'Fn::Select': [{Ref: number}, [a, b]]}
{'Fn::Base64': a}
{'Fn::Base64': 5}
{'Fn::Base64': {Ref: text}}
{'Fn::MemberListToMap': [Name, Value, ['.member.0.Name=a', '.member.0.Value=b']]}
{'Fn::MemberListToMap': [Name, Value, a]}
{'Fn::ResourceFacade': Metadata}
{'Fn::ResourceFacade': Nothing}
{'Fn::FindInMap': [M, k]}
{'Fn::FindInMap': [M, k, v]}
{'Fn::FindInMap': [M, {Ref: key}, v]}
{'Fn::If': [yes_, a, b]}
{'Fn::If': [no_, a, b]}
{'Fn::If': [no_, a]}
{a: {get_param: text}, b: 1}
{get_param: text, other: 1}
[{get_param: text}, [{get_param: number}]]
"""

DEPENDENCIES = """
net
[net]
[net, net]
[]
''
null
5
absent
{get_param: name}
[{get_param: name}]
[{get_resource: net}]
{Ref: net}
[{Ref: net}]
{list_join: ['', [net]]}
"""

OUTPUTS = """
{get_resource: absent}
{get_param: absent}
{get_attr: [absent, name]}
{get_resource: net}
{list: [a, {get_resource: absent}]}
{list_join: [',', [a, {get_param: absent}]]}
{str_split: [',', {get_param: absent}]}
{str_split: [',', {get_attr: [absent, name]}]}
{get_attr: [{get_param: absent}, value]}
{get_attr: [echo, {get_param: absent}]}
{get_param: [map, {get_param: absent}]}
{if: [yes_, {get_param: absent}, a]}
{if: [no_, {get_param: absent}, a]}
{if: [{equals: [{get_param: absent}, 1]}, a, b]}
{get_file: {get_param: absent}}
{Ref: absent}
{Ref: net}
{'Fn::GetAtt': [absent, name]}
{'Fn::Join': [',', [a, {Ref: absent}]]}
{'Fn::Select': [0, [{Ref: absent}, b]]}
"""

CONDITIONS = """
{equals: [1, 1]}
{equals: [1, '1']}
{equals: [{a: [1]}, {a: [1.0]}]}
{equals: [{get_param: text}, 'one two']}
{equals: [{get_param: absent}, a]}
{equals: {a: b}}
{equals: [{not: yes_}, false]}
{equals: [{get_resource: net}, net]}
{equals: [{get_attr: [net, mtu]}, 5]}
{equals: [{list_join: [',', [a, b]]}, 'a,b']}
{not: yes_}
{not: [yes_]}
{not: null}
{and: [yes_, no_]}
{and: []}
{and: [no_, {equals: [{get_param: absent}, 1]}]}
{and: [{or: [yes_, no_]}, {not: no_}, yes_]}
{or: [yes_, no_]}
{or: [yes_, absent]}
{or: {a: b}}
yes_
absent
true
false
'true'
5
null
[yes_]
{get_param: flag}
{get_param: text}
{yaql: {expression: '$.data = 1', data: 1}}
{yaql: {expression: '$.data', data: 1}}
{yaql: {expression: '$.data.absent', data: {}}}
{contains: [a, [a]]}
{contains: [a]}
{'Fn::Equals': [1, 1]}
{'Fn::Equals': [{Ref: text}, 'one two']}
{'Fn::Equals': [{Ref: net}, net]}
{'Fn::Equals': [{'Fn::FindInMap': [M, k, v]}, w]}
{'Fn::FindInMap': [M, k, flag]}
{'Fn::FindInMap': [M, k, v]}
{'Fn::Equals': a}
{'Fn::Not': [yes_, no_]}
{'Fn::Not': [yes_]}
{'Fn::And': [yes_, no_]}
{'Fn::And': [yes_]}
{'Fn::Or': [no_, {'Fn::Not': [yes_]}]}
{'Fn::Or': absent}
{Ref: flag}
{Ref: text}
self
"""

PARAMETERS: dict[str, tuple[str, Any]] = {
    "text": ("String", "one two"),
    "number": ("Number", 1),
    "list": ("CommaDelimitedList", "one,two"),
    "map": ("Json", {"a": "one", "list": [1, "x"], "none": None}),
    "flag": ("Boolean", True),
    "key": ("String", "a"),
    "name": ("String", "net"),
    "file": ("String", "some.txt"),
}
FILES = {"some.txt": "the file's text"}
HOT_TYPES = {"CommaDelimitedList": "comma_delimited_list"}


def body(version: tuple[str, str], value: Any = 1, condition: Any = None) -> str:
    """A template of that version with the value in a property, or the condition of that name in its conditions."""
    hot = version[0] == "heat_template_version"
    decides = version[1] >= "2016-10-14" if hot else version == CFN[1]
    types = {name: HOT_TYPES.get(kind, kind.lower()) if hot else kind for name, (kind, _) in PARAMETERS.items()}
    mapped = {"a": "one", "list": [1, "x"]}
    sections: dict[str, Any] = {
        "parameters": {name: {"type": types[name], "default": default} for name, (_, default) in PARAMETERS.items()},
        "resources": {
            "net": {"type": "OS::Neutron::Net"},
            "echo": {"type": "OS::Heat::Value", "properties": {"value": mapped}},
            "vm": {"type": "OS::Nova::Server", "properties": {"flavor": value}},
        },
        "outputs": {"x": {"value": value}},
    }
    if not hot:
        sections["mappings"] = {"M": {"k": {"v": "w", "flag": True}, "a": {"v": "z"}}}
    if decides:
        yes, no = ({"equals" if hot else "Fn::Equals": pair} for pair in ([1, 1], [1, 2]))
        sections["conditions"] = {"yes_": yes, "no_": no}
        if condition is not None:
            sections["conditions"]["self"] = condition
            sections["resources"]["net"]["condition"] = "self"
    return json.dumps({version[0]: version[1], **(sections if hot else _cfn(sections))})


def _cfn(sections: dict[str, Any]) -> dict[str, Any]:
    inner = {"parameters", "resources", "outputs"}
    return {
        section.capitalize(): {
            name: {key.capitalize(): value for key, value in entry.items()} if section in inner else entry
            for name, entry in part.items()
        }
        for section, part in sections.items()
    }


def expressions(lines: str) -> list[Any]:
    """The expressions, one a line."""
    return [yaml.safe_load(line) for line in lines.strip().splitlines()]


def differences(text: str) -> list[Difference]:
    """Where the two sides differ, and no category takes it."""
    return [found for found in compare_body(text, {}, FILES).differences if category(found) is None]


def tried(lines: str, name: str, texts: list[str]) -> set[bool]:
    """Whether Heat takes a case of the function, and whether it refuses one."""
    heat = [
        resolve(text, FILES, {}, "word")
        for value, text in zip(expressions(lines), texts, strict=True)
        if isinstance(value, dict) and [*value] == [name]
    ]
    return {isinstance(answer, HeatStack) and not stack_refusals(answer) for answer in heat}


@pytest.mark.parametrize("version", VERSIONS, ids=" ".join)
def test_every_function_gives_what_it_gives_in_heat(version: tuple[str, str]) -> None:
    problems = [(value, some) for value in expressions(VALUES) if (some := differences(body(version, value)))]
    assert problems == []


@pytest.mark.parametrize("version", VERSIONS, ids=" ".join)
def test_an_output_that_refers_to_nothing_is_refused_or_without_a_value_as_in_heat(version: tuple[str, str]) -> None:
    outcomes = []
    for value in expressions(OUTPUTS):
        parts = json.loads(body(version, value))
        del parts["resources" if version[0] == "heat_template_version" else "Resources"]["vm"]
        text = json.dumps(parts)
        heat, ours = resolve(text, FILES, {}, "word"), ours_of(template=text, files=FILES)
        outcomes.append(
            (
                value,
                None if isinstance(heat, Refused) else not list(refusals(heat.outputs)),
                None if isinstance(ours, list) else ours.outputs["x"] is not None,
            )
        )
    assert [outcome for outcome in outcomes if outcome[1] is not outcome[2]] == []
    assert {heat for _, heat, _ in outcomes} == {None, False, True}


@pytest.mark.parametrize("version", VERSIONS, ids=" ".join)
def test_every_condition_is_decided_as_in_heat(version: tuple[str, str]) -> None:
    cases = expressions(CONDITIONS) if "onditions" in body(version, 1, True) else []
    problems = [(value, some) for value in cases if (some := differences(body(version, 1, value)))]
    assert problems == []


@pytest.mark.parametrize("version", VERSIONS, ids=" ".join)
def test_every_function_of_every_version_has_a_case_that_heat_takes_and_one_that_it_refuses(
    version: tuple[str, str],
) -> None:
    known = type(template.Template({version[0]: version[1]}))
    functions = {name for name, function in known.functions.items() if function is not Removed}
    conditional = {
        name
        for name, function in (getattr(known, "condition_functions", None) or {}).items()
        if function is not Invalid
    }
    values = [body(version, value) for value in expressions(VALUES)]
    conditions = [body(version, 1, value) for value in expressions(CONDITIONS)]
    lacking = {name: outcomes for name in functions if (outcomes := tried(VALUES, name, values)) != {True, False}}
    lacking |= {
        f"condition {name}": outcomes
        for name in conditional
        if (outcomes := tried(CONDITIONS, name, conditions)) != {True, False}
    }
    alone = {"Fn::GetAZs": {True}, "resource_facade": {False}, "Fn::ResourceFacade": {False}}  # facades: see below
    assert lacking == {name: tries for name, tries in alone.items() if name in functions}


@pytest.mark.parametrize("version", VERSIONS, ids=" ".join)
def test_a_facade_gives_what_it_gives_in_heat(version: tuple[str, str]) -> None:
    hot = version[0] == "heat_template_version"
    names = ("metadata", "deletion_policy", "update_policy") if hot else ("Metadata", "DeletionPolicy", "UpdatePolicy")
    inner = body(version, [{"resource_facade" if hot else "Fn::ResourceFacade": name} for name in names])
    problems = []
    for more in ({}, dict(zip(names, ({"a": "b"}, "Retain", {"c": {"d": 1}}), strict=True))):
        outer = json.loads(body(version))
        outer["resources" if hot else "Resources"]["in"] = {"type" if hot else "Type": "inner.yaml", **more}
        problems += [compare_body(json.dumps(outer), {}, {"inner.yaml": inner}).differences]
    assert problems == [[], []]


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-3], *CFN], ids=" ".join)
def test_what_a_resource_depends_on_is_refused_as_in_heat(version: tuple[str, str]) -> None:
    hot, problems = version[0] == "heat_template_version", []
    for value in expressions(DEPENDENCIES):
        template = json.loads(body(version))
        template["resources" if hot else "Resources"]["vm"]["depends_on" if hot else "DependsOn"] = value
        problems += [(value, some) for some in compare_body(json.dumps(template), {}, FILES).differences]
    assert problems == []
