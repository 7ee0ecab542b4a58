"""Generated texts of templates and environments, compared with Heat.

``DATALOG_GATE_TEXTS=1000000 pytest tests/heat/test_texts.py`` tries so many of each kind, from ``DATALOG_GATE_SEED``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from heat.common import template_format
from oslo_serialization import jsonutils

from datalog_gate.base.errors import InputError
from datalog_gate.doors.wsgi.body import parse_object
from datalog_gate.doors.wsgi.heat_reading import find_difference, load_environment
from datalog_gate.files.templates import read_stack
from datalog_gate.stack.model import Data
from datalog_gate.template.document import Document, Documents, read_document
from datalog_gate.template.reader import TemplateSource
from tests.sampling import sample

COUNT = int(os.environ.get("DATALOG_GATE_TEXTS", sample(80_000)))
SEED = int(os.environ.get("DATALOG_GATE_SEED", "1"))

TAGGED = """! 1;! "1";! x;!!int "3";!!str 3;!!int 08;!!int 0b1;!!int "1:30";!!float 1;!!float "1:30.5";
!!null "";!!bool yes;
!!binary "aGk=";!!timestamp "2001-01-01";!!set {a};!!map {a: 1};!!seq [1];! [1];! {a: 1};
!<tag:yaml.org,2002:int> 5;!x y"""
NUMBERS = """1;0x40;0b11;0o17;08;1_000;1__0;_1;1:04;190:20:30.15;1e1;1e+1;1.e+1;1.5e3;1.5e+3;.5;.;..;-.inf;
.nan;NaN;+1;-0;1."""
WORDS = """yes;off;~;null;"";'1';"1";2013-05-23;2013-05-23 10:00:00;=;<<;"\\u0041";"\\x41";a b;a: b;- x;? x;
\u00e9;\u0085;\u2028"""
FLOWS = """*a;*b;*k;&a 1;&b {k: 1};[1, 2,];{a, b: 1};{a: 1, a: 2};{a: 1, a: 1};{1: a, 1.0: b};{true: a, 1: b};
{<<: {z: 1}};
{<<: [{z: 1}, {z: 2}]};{<<: {z: 1}, <<: {z: 2}};{<<: [{zz: 1}, {zz: 2}]};&a {<<: *b, kk: 1};&b {kk: 2};
{<<: [*b, *a]};{<<: [*a, *b], kk: 1};{<<: {z: 1}, z: 3};{z: 3, <<: {z: 1}, <<: {y: 2, z: 9}}"""
SCALARS = ";".join([TAGGED, NUMBERS, WORDS, FLOWS]).replace("\n", "").split(";")
KEYS = """a;b;"a";'b';1;1.0;true;yes;null;~;<<;"<<";=;0x1;! a;!!str 1;!!int "1";&k a;*k;parameters;resources;
2013-05-23;[x]"""
JSON_SCALARS = """1;1.0;1e1;1E1;-0;-0.0;1e400;"1";true;null;"\\ud800";"\\u0085";"\u0085";NaN;Infinity;
-Infinity;"a\\/b";1.;01;"yes";
12345678901234567890;1e-1"""
JSON_KEYS = """"a";"b";"<<";"parameters";"1";a"""
BEGINNINGS = ["---\n", "%YAML 1.1\n---\n", "\ufeff", "\u00a0", " ", "\t", "# c\n"]
NOISE = "{}[]:,\"'#&*!|>-? \n\t\\0e\x00\x85\u2028"


def _load_body(text: str) -> Data:
    """As heat/common/wsgi.py:276 does."""
    data: Data = jsonutils.loads(text.encode("utf-8", "surrogatepass"))
    return data


Read = Callable[[str], Data]
KINDS: dict[str, tuple[Read, Read]] = {
    "templates and adopted data": (lambda text: read_document(text, "text").data, template_format.simple_parse),
    "environments": (lambda text: read_document(text, "text", as_json=False).data, load_environment),
    "bodies": (lambda text: parse_object(text.encode("utf-8", "surrogatepass")), _load_body),
}
"""How a kind of text is read by us and by Heat."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_read_as_heat_reads_it_or_refused(kind: str) -> None:
    ours, theirs = KINDS[kind]
    random = Random(SEED)
    compared = 0
    for number in range(COUNT):
        text = _text(random)
        try:
            read = ours(text)
        except InputError:
            continue
        try:
            loaded = theirs(text)
        except Exception:  # noqa: BLE001 - Heat refuses a text by any error
            continue
        compared += 1
        assert _typed(read) == _typed(loaded), (SEED, number, text)
    assert compared > COUNT // 30


def _typed(data: Data) -> object:
    """The data with the type of each part, whatever the order of keys."""
    match data:
        case dict():
            return "map", sorted(repr((_typed(key), _typed(value))) for key, value in data.items())
        case list():
            return "list", [_typed(item) for item in data]
    return type(data).__name__, repr(data)


def _text(random: Random) -> str:
    kind = random.random()
    if kind < 0.3:
        text = _json(random, 0)
    elif kind < 0.9:
        text = "\n".join(f"{_one_of(random, KEYS)}: {_yaml(random, 0, 0)}" for _ in range(random.randint(1, 4)))
    else:
        text = random.choice(BEGINNINGS) + random.choice([_json(random, 0), f"a: {_yaml(random, 0, 0)}"])
    if random.random() < 0.15:
        at = random.randrange(len(text))
        text = text[:at] + random.choice(NOISE) + text[at + random.randint(0, 1) :]
    return text


def _json(random: Random, depth: int) -> str:
    kind = random.random()
    if depth and (kind < 0.5 or depth > 2):
        return _one_of(random, JSON_SCALARS)
    values = [_json(random, depth + 1) for _ in range(random.randint(0, 3))]
    if depth and kind > 0.75:
        return f"[{','.join(values)}]"
    colon = random.choice([":", ": ", " : "])
    pairs = [f"{_one_of(random, JSON_KEYS)}{colon}{value}" for value in values]
    return "{" + random.choice(["", " ", "\n"]) + ", ".join(pairs) + "}"


def _yaml(random: Random, indent: int, depth: int) -> str:
    kind = random.random()
    if kind < 0.55 or depth > 2:
        return random.choice(SCALARS)
    values = [_yaml(random, indent + 2, depth + 1) for _ in range(random.randint(1, 3))]
    pairs = [f"{_one_of(random, KEYS)}: {value}" for value in values]
    begin = "\n" + " " * (indent + 2)
    if kind < 0.7:
        return "{" + ", ".join(pairs) + "}"
    if kind < 0.8:
        return "[" + ", ".join(values) + "]"
    if kind < 0.95:
        return random.choice(["", "&a ", "! ", "!!map "]) + begin + begin.join(pairs)
    return begin + begin.join(f"- {value}" for value in values)


def _one_of(random: Random, words: str) -> str:
    return random.choice(words.replace("\n", "").split(";"))


@pytest.mark.parametrize(
    ("texts", "difference"),
    [
        ({}, None),
        ({"t.yaml": "a: 1"}, None),
        ({"t.yaml": "a: 1.0"}, "Heat reads t.yaml differently"),
        ({"t.yaml": "{1: a}"}, "Heat reads t.yaml differently"),
        ({"t.yaml": "b: {1: 2}"}, "Heat reads t.yaml differently"),
        ({"t.yaml": "b: {1: 1}"}, None),
        ({"t.yaml": "a: [1"}, None),  # Heat refuses it
        ({"t.yaml": "a: !!int ''"}, None),  # by an IndexError
    ],
)
def test_a_text_that_heat_reads_in_another_way_is_found(texts: dict[str, str], difference: str | None) -> None:
    stack = read_stack(template={"heat_template_version": "2018-08-31", "resources": {}}, stack_name="s")
    source = stack.source
    assert isinstance(source, TemplateSource)
    for as_json in (True, False):
        documents = {
            (text, as_json): Document(name, text, {"b": {"1": 1}} if "b" in text else {"a": 1})
            for name, text in texts.items()
        }
        assert (
            find_difference(replace(stack, source=replace(source, documents=Documents(sent=documents)))) == difference
        )
