"""A running Heat with the gate shows no hidden value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import yaml

from tests.heat.doors.rig import Heat, heats
from tests.heat.doors.templates import string, template

MARK = "odd S3CR3T'\\Q"
NUMBER = 73519462
SHOWN = re.compile("S3CR3T|s3cr3t|UzNDUjNU|73519462")
TYPES: dict[str, Any] = {
    "string": MARK,
    "number": NUMBER,
    "comma_delimited_list": [MARK, str(NUMBER)],
    "json": {f"key {MARK}": [MARK, NUMBER]},
}
USES: dict[str, Any] = {
    "plain": {"get_param": "pw"},
    "replaced": {"str_replace": {"template": "odd X", "params": {"X": {"get_param": "pw"}}}},
    "joined": {"list_join": [" ", ["odd", {"get_param": "pw"}]]},
    "digest": {"digest": ["sha512", {"list_join": [" ", ["odd", {"get_param": "pw"}]]}]},
    "made": {"yaql": {"expression": "'odd ' + str($.data)", "data": {"get_param": "pw"}}},
}

UNREADABLE = (
    *("*S3CR3T", "!S3CR3T x", "!S3CR3T!x x", "&S3CR3T", "%S3CR3T", "@S3CR3T", "`S3CR3T", "- S3CR3T\n b", "? S3CR3T"),
    *("'S3CR3T", '"S3CR3T\\y"', "[S3CR3T", "{S3CR3T", "S3CR3T: x: y", "|9 S3CR3T", "!S3CR3T {a: b}", "!S3CR3T [a]"),
    *(f"!!{tag} S3CR3T" for tag in ("int", "float", "bool", "binary", "timestamp", "set")),
)
"""What a password that nobody put in quotes may be to YAML."""


def make_body(kind: str, use: str, **more: Any) -> dict[str, Any]:
    """A template that makes a salt of a hidden parameter."""
    body = template(s=string(salt=USES[use]))
    return body | {"parameters": {"pw": {"type": kind, "hidden": True, **more}}}


def bodies() -> Iterator[dict[str, Any]]:
    """Requests that hold the secret in every way."""
    for (kind, value), use in product(TYPES.items(), USES):
        yield {"template": make_body(kind, use, default=value)}
        yield {"template": make_body(kind, use), "parameters": {"pw": value}}
    for kind, value in TYPES.items():
        written = yaml.safe_dump({"parameters": {"pw": value}})
        yield {"template": make_body(kind, "joined"), "environment": {"parameter_defaults": {"pw": value}}}
        yield {"template": make_body(kind, "joined"), "environment": written}
        yield {"template": make_body(kind, "joined"), "files": {"e": written}, "environment_files": ["e"]}
        yield {"template": yaml.safe_dump(make_body(kind, "joined", default=value))}
        inner = {"files": {"inner.yaml": yaml.safe_dump(make_body(kind, "joined"))}}
        yield {"template": template(inner={"type": "inner.yaml", "properties": {"pw": value}}), **inner}
        yield {"template": yaml.safe_dump(template(inner={"type": "inner.yaml", "properties": {"pw": value}})), **inner}
    for constraint in (
        {"length": {"max": 3}},
        {"allowed_pattern": "[a-c]+"},
        {"allowed_values": ["a", "b"]},
        {"range": {"max": 3}},
        {"custom_constraint": "nova.flavor"},
        {"modulo": {"step": 7, "offset": 1}},
    ):
        for kind, value in TYPES.items():
            yield {"template": make_body(kind, "plain", constraints=[constraint]), "parameters": {"pw": value}}
            yield {"template": make_body(kind, "plain", constraints=[constraint], default=value)}
    for kind, value in product((*TYPES, "boolean"), (*TYPES.values(), f"{{{MARK}", f"[{MARK}", True, None)):
        yield {"template": make_body(kind, "plain"), "parameters": {"pw": value}}
        yield {"template": make_body(kind, "plain", default=value)}
    for text in UNREADABLE:
        yield {"template": make_body("string", "plain"), "environment": f"parameters:\n  pw: {text}\n"}
        yield {
            "template": make_body("string", "plain"),
            "files": {"e": f"parameters:\n  pw: {text}\n"}, "environment_files": ["e"],
        }  # fmt: skip
        yield {"template": f"heat_template_version: wallaby\nparameters:\n  pw: {{hidden: true, default: {text}}}\n"}
    yield {"template": make_body("string", "plain"), "environment": MARK}
    yield {"template": make_body("string", "plain"), "environment": {"parameters": MARK}}
    yield {"template": make_body("string", "plain"), "environment": {"parameters": [MARK]}}
    yield {"template": make_body("string", "plain"), "parameters": [MARK]}
    yield {"template": make_body("string", "plain"), "parameters": {"pw": {"a": MARK}}}
    yield {"template": make_body("string", "plain"), "parameters": MARK}


heat = heats("filter", "plugin", options={"decision_log": "{folder}/decisions.jsonl"})


def test_no_output_of_the_gate_shows_a_secret(heat: Heat) -> None:
    texts, filtered = [], "filter" in heat.folder.name
    if filtered:
        for body in bodies():
            answer = heat.ask("POST", "stacks/preview", stack_name="x", **body)
            texts += [answer.headers.get("Datalog-Gate", "")]
            texts += [answer.text] if answer.status_code >= 400 and " [decision " in answer.text else []
        name = heat.created(make_body("string", "plain", default="fine"))
        answers = [
            heat.on(name, "PATCH", parameters={"pw": MARK}),
            heat.on(name, "PATCH", existing=True, environment={"parameters": {"pw": MARK}}),
            heat.on(name, "PUT", template=make_body("string", "made"), parameters={"pw": MARK}),
        ]
        assert [answer.status_code for answer in answers] == [403] * 3
        texts += [answer.text for answer in answers]
    alone = [body["template"] for body in bodies() if [*body] == ["template"]]
    names = [heat.create(body)[0] for body in alone[::3]]
    texts += [why for name in names if heat.stack(name) for why in heat.ended(name)]
    log = re.split(r"(?m)^(?=\d{4}-\d\d-\d\d )", (heat.folder / "heat.log").read_text())
    texts += [part for part in log if " datalog_gate." in part.partition("\n")[0]]
    texts += (heat.folder / "decisions.jsonl").read_text().splitlines()
    words = {word for text in texts for word in ("denied", "unreadable") if f'"verdict": "{word}"' in text}
    assert words == ({"denied", "unreadable"} if filtered else {"denied"})  # Heat itself reads before the plugin does
    assert [text for text in texts if SHOWN.search(text)] == []
