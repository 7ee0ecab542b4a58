"""Reading YAML with places, as Heat's loader does."""

from __future__ import annotations

import json
from functools import partial

import pytest

from datalog_gate.base.diagnostics import Span
from datalog_gate.stack.model import Data, Path
from datalog_gate.template.document import MAX_DEPTH, MAX_NODES, Documents, data_document, read_document, size_of
from tests.refusals import refusals

TEXT = "a:\n  - x\n  - {b: 'two words', 3: four}\nm: &m {k: v}\nn: {<<: *m, own: 1}\n"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("day: 2014-10-16", {"day": "2014-10-16"}),
        (
            "a: yes\nb: 'yes'\nc: 0x10\nd: 1e3\ne: 1.5\nf: ~",
            {"a": True, "b": "yes", "c": 16, "d": "1e3", "e": 1.5, "f": None},
        ),
        ("on: 1\n7: x", {True: 1, 7: "x"}),
        ('x: "\\0 \U0001f600 \\") :- \\""', {"x": '\0 \U0001f600 ") :- "'}),
        ("base: &b {x: 1, y: 2}\nover: {<<: *b, y: 3}", {"base": {"x": 1, "y": 2}, "over": {"x": 1, "y": 3}}),
        (
            "a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}",
            {"a": {"x": 1}, "b": {"x": 2, "y": 2}, "c": {"x": 1, "y": 2}},
        ),
        (
            "a: &a {xx: 1}\nb: &b {xx: 2}\nc: {<<: *a, <<: *b}\nd: {xx: 3, <<: [*a, *b], <<: *b}",
            {"a": {"xx": 1}, "b": {"xx": 2}, "c": {"xx": 2}, "d": {"xx": 3}},
        ),
        (
            "a: &a {xx: 1}\nb: &b {<<: *a, xx: 2}\nc: {<<: *b}\nd: {<<: [*b, *a]}\ne: {<<: [{z: {k: 1}}, {z: {k: 1}}]}",
            {"a": {"xx": 1}, "b": {"xx": 2}, "c": {"xx": 2}, "d": {"xx": 2}, "e": {"z": {"k": 1}}},
        ),
        ("a: ! 1\nb: ! '1'\n! c: ! x", {"a": 1, "b": 1, "c": "x"}),
        ('{"a": 1, "a": 1, "b": 1e1}', {"a": 1, "b": 10.0}),
        ('{"a": "\\ud83d\\ude00", "b": 1e3, "c": true}', {"a": "\U0001f600", "b": 1000.0, "c": True}),
        ("", {}),
        ("parameters: {p: {type: string}, p: {type: number}}", {"parameters": {"p": {"type": "number"}}}),
    ],
)
def test_a_text_is_read_as_heat_reads_it(text: str, data: Data) -> None:
    assert read_document(text, "t.yaml").data == data


def test_the_text_of_an_environment_is_never_json() -> None:
    data = read_document('{"a": 1e1, "b": NaN, "c": [1, "x\x85y"]}', "env.yaml", as_json=False).data
    assert data == {"a": "1e1", "b": "NaN", "c": [1, "x y"]}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), (1, 1, 6, 1)),
        (("a", 0), (2, 5, 2, 6)),
        (("a", 1, "b"), (3, 9, 3, 20)),
        (("a", 1, 3), (3, 25, 3, 29)),
        (("a", 1, "absent", "deeper"), (3, 5, 3, 30)),
        (("n", "k"), (4, 11, 4, 12)),
    ],
)
def test_the_deepest_place_of_a_path_is_given(path: Path, place: tuple[int, int, int, int]) -> None:
    assert read_document(TEXT, "t.yaml").place(path) == Span("t.yaml", *place)


def test_the_place_of_a_key_is_the_key_itself() -> None:
    document = read_document(TEXT, "t.yaml")
    assert document.key_place(("a", 1, "b")) == Span("t.yaml", 3, 6, 3, 7)
    assert document.key_place(("a", "none", "b")) == document.place(("a",))


@pytest.mark.parametrize("text", ["a: [x]\na: [x]\n", '{"a": ["x"], "a": ["x"]}'])
def test_a_repeated_key_with_the_same_value_is_no_duplicate(text: str) -> None:
    assert read_document(text, "t.yaml").data == {"a": ["x"]}


def test_json_has_places_too() -> None:
    document = read_document('{"a": [1,\n  "x"]}', "t.json")
    assert document.place(("a", 1)) == Span("t.json", 2, 3, 2, 6)


def test_the_data_of_a_request_has_paths_and_no_lines() -> None:
    document = data_document({"a": {1: ("x",)}}, "<body>", has_paths=True)
    assert document.data == {"a": {"1": ["x"]}}
    assert [document.place(path) for path in ((), ("b",), ("a",), ("a", "1", 0), ("a", "1", 1, "x"))] == [
        None,
        None,
        *(Span("<body>", 0, 0, 0, 0, path) for path in ("a", "a.1.0", "a.1")),
    ]


@pytest.mark.parametrize(
    ("text", "data", "first", "place"),
    [
        ("a: 1\na: true\n", {"a": True}, "1:1", (2, 1)),
        ('{"a": 1,\n "b": 2, "a": 1e1}', {"a": 10.0, "b": 2}, "1:2", (2, 10)),
        ("parameters: {p: {q: 1, q: 2}}", {"parameters": {"p": {"q": 2}}}, "1:18", (1, 24)),
        ("{a: {1: b}, c: 1, 'c': {d: 2}}", {"a": {1: "b"}, "c": {"d": 2}}, "1:13", (1, 19)),
    ],
)
def test_of_equal_keys_the_last_counts_with_a_warning(
    text: str, data: Data, first: str, place: tuple[int, int]
) -> None:
    document = read_document(text, "x.yaml").named("y.yaml")
    assert document.data == data
    [warning] = document.repeated
    assert warning.span
    assert (warning.span.file, warning.span[1:3], warning.severity) == ("y.yaml", place, "warning")
    assert f"already, at {first}:" in warning.message


@pytest.mark.parametrize(("end", "path"), [("\n", "a.b"), ("}", "a.b"), ("\n}", "")])
def test_json_on_one_line_has_paths_too(end: str, path: str) -> None:
    text = '{"a": {"b": [1]}' + ("}" + end if end == "\n" else end)
    assert read_document(text, "x.json").place(("a", "b")) == Span("x.json", 1, 13, 1, 16, path)


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("a: [1\n]]", "yaml", (2, 2)),
        ("a: !Ref b", "yaml", (1, 4)),
        ("a: &a [*a]", "yaml", (1, 8)),
        ("[a]: 1", "yaml", (1, 1)),
        ("{<<: 3}", "yaml", (1, 6)),
        ("{<<: [{a: 1}, 3]}", "yaml", (1, 15)),
        # PyYAML 6.0.4 reads these otherwise than the versions before it
        ("a: {<<: {z: 1}, <<: {z: 2}}", "duplicate-key", (1, 4)),
        ("a: {<<: [{zz: 1}, {zz: 2}]}", "duplicate-key", (1, 4)),
        ("a: {<<: [{1: 1}, {'1': 1}]}", "duplicate-key", (1, 4)),
        ("a: {<<: [{~: 1}, {'~': 1}]}", "duplicate-key", (1, 4)),
        ("{<<: [{!!str 1: 1}, {1: 2}], yes: 3}", "duplicate-key", (1, 1)),
        ("a: &a {z: 1}\nb: &b {<<: *a, z: 2}\nc: {<<: *b}", "duplicate-key", (3, 4)),
        ("a: &a {zz: 1}\nb: &b {<<: *a, zz: 2}\nc: {<<: [*a, *b]}", "duplicate-key", (3, 4)),
        ("parameters: &p {p: 1, p: 2}\nresources: {<<: *p}", "duplicate-key", (1, 23)),
        ("a: {<<: {z: 1, z: 2}}", "duplicate-key", (1, 16)),
        ("a: {<<: [{z: 1, z: 2}]}", "duplicate-key", (1, 17)),
        ("a: 1\n---\nb: 2\n", "yaml", (2, 1)),
        ("a: " + "9" * 5000, "yaml", (1, 4)),
        ("a: \0", "yaml", (1, 4)),
        ("a: 1\nb: '\ud800'", "yaml", (2, 5)),
        ("[" * 500, "too-large", (1, MAX_DEPTH + 1)),
        ('{"a": ' * 5000, "too-large", (1, 6 * MAX_DEPTH + 1)),
        ('{"a":' * 90 + "1" + "}" * 90, "too-large", None),
        ("x" * 4_000_001, "too-large", None),
        (
            "a0: &a0 [x, x, x, x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 9)),
            "too-large",
            (6, 5),
        ),
    ],
)
def test_a_text_that_heat_must_not_see_is_refused_with_its_place(
    text: str, code: str, place: tuple[int, int] | None
) -> None:
    [(refused, span)] = refusals(lambda: read_document(text, "t.yaml"), "code", "span")
    assert (refused, span and (span.line, span.column)) == (code, place)


def test_brackets_are_too_deep_wherever_libyaml_gives_up() -> None:
    [(code, message, line)] = [
        (refused, message, span.line)
        for refused, message, span in refusals(lambda: read_document("[" * 5000, "t.yaml"), "code", "message", "span")
    ]
    assert (code, message, line) == ("too-large", f"nested deeper than {MAX_DEPTH} levels", 1)


def test_data_that_is_no_json_is_refused() -> None:
    circle: dict[str, Data] = {}
    circle["self"] = circle
    for body in ({"a": {1, 2}}, circle):
        assert refusals(partial(data_document, body, "<body>", has_paths=True), "code") == ["yaml"]


def test_the_size_counts_what_is_shared_wherever_it_occurs() -> None:
    pair: Data = ["x", "y"]
    assert (size_of([0] * (MAX_NODES - 1)), size_of([0] * MAX_NODES)) == (MAX_NODES, None)
    assert (size_of([pair, pair]), size_of({"a": json.loads("[" * 70 + "]" * 70)})) == (7, None)


def test_a_text_that_was_read_as_another_file_is_sent_with_keys_that_are_texts() -> None:
    documents = Documents()
    text = "a: {n: {1: x}}\nb: {n: {<<: {true: y}}}\n"
    assert documents.read(text, "a.yaml").data == {"a": {"n": {1: "x"}}, "b": {"n": {True: "y"}}}
    sent = documents.read_sent(text, "b.yaml", as_json=True, spend=lambda _steps: None)
    assert sent.data == {"a": {"n": {"1": "x"}}, "b": {"n": {"true": "y"}}}
    assert sent.place(("a", "n", "1")) == Span("b.yaml", 1, 12, 1, 13)
