"""Rule files in an editor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from lsprotocol import types

from tests.editor.rig import Editor, shown

pytestmark = pytest.mark.asyncio

SSH, GROUP = "rules/net/ssh.dl", "rules/net/own.dl"
OPEN = """\
// Who may reach a port.
relation office(network: string) "The networks of offices".
office("10.0.0.0/8").

@deny("net.own", "{group} lets {src} in", key=["group"])
own(group, src) :-
  os:neutron:security_group.rules(_id=group, remote_ip_prefix=src, port_range_min=min), min ?? 0 <= 22,
  src != null, not inside(src).
inside(src) :-
  os:neutron:security_group.rules(remote_ip_prefix=src), src != null, office(network), cidr_contains(network, src).
"""


async def test_rules_without_a_mistake_have_no_problem(editor: Editor) -> None:
    assert await editor.open(SSH) == []
    assert await editor.open(GROUP, OPEN) == []


async def test_a_mistake_is_reported_with_a_tested_edit(editor: Editor) -> None:
    for wrong, right, problem, title in (
        (
            "security_group.rulez(",
            "security_group.rules(",
            "7:3-34 error [undefined-relation] there is no relation os:neutron:security_group.rulez"
            " / did you mean os:neutron:security_group.rules?",
            "write os:neutron:security_group.rules",
        ),
        (
            "remote_ip_prefx=",
            "remote_ip_prefix=",
            "7:46-65 error [unknown-column] os:neutron:security_group.rules has no column remote_ip_prefx"
            " / did you mean remote_ip_prefix?",
            "write remote_ip_prefix",
        ),
        (
            "min <= 22",
            "min ?? 0 <= 22",
            "7:89-98 error [nullable] min may be null here"
            " / give a default for which the rule matches, `min ?? 0`; with `min != null` a missing value passes",
            "give the default min ?? 0",
        ),
        (
            '"{group} lets {scr} in"',
            '"{group} lets {src} in"',
            "5:1-57 error [message-column] the message names scr, which is not a column of the head / "
            "did you mean src?",
            "write src",
        ),
        (
            "@dney(",
            "@deny(",
            "5:1-57 error [unknown-annotation] there is no annotation @dney / did you mean @deny?",
            "write @deny",
        ),
        (
            'key=["gorup"]',
            'key=["group"]',
            "5:1-57 error [annotation-attribute] key names gorup, which is not a column of the head / "
            "did you mean group?",
            "write group",
        ),
        (
            "src != null not inside",
            "src != null, not inside",
            "8:15-18 error [syntax] missing `,` or `.` before `not` / write `,` before `not`",
            "write ,",
        ),
    ):
        text = OPEN.replace(right, wrong, 1)
        assert text != OPEN
        assert await editor.open(GROUP, text) == [problem]
        assert await editor.actions(GROUP) == [(title, {GROUP: OPEN})]


async def test_a_private_relation_is_exported_by_an_action(editor: Editor) -> None:
    text = OPEN.replace("not inside(src)", "not net:ssh:everywhere(src, _)")
    assert [problem.partition("] ")[0] for problem in await editor.open(GROUP, text)] == [
        "8:20-38 error [private-relation",
        "9:1-7 warning [never-used",
    ]
    [(title, texts)] = await editor.actions(GROUP)
    before = (editor.folder / SSH).read_text()
    assert (title, texts) == ("export everywhere in net:ssh", {SSH: f"{before}\nexport everywhere.\n"})


async def test_a_broken_text_keeps_what_was_known(editor: Editor) -> None:
    await editor.open(GROUP, OPEN)
    broken = f"{OPEN}\nlast(x :- own(x, "
    assert await editor.open(GROUP, broken) == [
        "12:8-10 error [syntax] found `:-`, expected `,` or `)` / write `)` before `:-`",
    ]
    assert await editor.hover(GROUP, "last(x :- ow|n(") == (
        "```text\nnet:own:own\n  group  resource\n  src    string\n```\n\n"
        "The policy `net.own` (deny): {group} lets {src} in"
    )
    assert await editor.definition(GROUP, "last(x :- ow|n(") == [f"{GROUP}:6:1-4"]


async def test_completion_offers_what_may_stand_at_the_cursor(editor: Editor) -> None:
    await editor.open(GROUP, OPEN)

    async def offered(end: str) -> dict[str, str]:
        await editor.open(GROUP, f"{OPEN}\n{end}")
        return await editor.completions(GROUP, f"{end}|")

    assert await offered("p(x) :- os:nova:server_group.p") == {
        "os:nova:server_group.policies": "os:nova:server_group.policies("
    }
    assert await offered("p(x) :- insi") == {"inside": "inside("}
    assert await offered("p(x) :- net:ssh:") == {"net:ssh:open_ssh": "net:ssh:open_ssh("}
    assert await offered("p(x) :- cidr_c") == {"cidr_contains": "cidr_contains("}
    assert await offered("p(x) :- os:neutron:security_group.rules(_id=x, remote_ip") == {
        "remote_ip_prefix": "remote_ip_prefix="
    }
    assert await offered('p(x) :- os:neutron:security_group.rules(_id=x, direction="') == {
        "ingress": "ingress",
        "egress": "egress",
    }
    assert await offered("p(longer) :- inside(lo") == {"longer": "longer"}
    assert await offered("@r") == {"record": "record"}
    assert await offered('@deny("a", "b", on_') == {"on_unknown": "on_unknown="}
    assert await offered('@deny("a", "b", on_unknown="') == {"defer": "defer", "deny": "deny", "allow": "allow"}
    assert await offered('@deny("a", "b", on=["create", "up') == {"update": "update"}
    assert await offered("import net:s") == {"net:security_group": "net:security_group", "net:ssh": "net:ssh"}
    assert await offered("export ins") == {"inside": "inside"}
    assert await offered("relation p(a: str") == {"string": "string"}


async def test_hover_says_what_the_command_relations_prints(editor: Editor) -> None:
    await editor.open(GROUP, OPEN)
    assert await editor.hover(GROUP, "cidr_con|tains(") == (
        "```text\ncidr_contains(network, inner)  All addresses of the inner network or address are in it.\n"
        "  network  string\n  inner  string\n```"
    )
    assert await editor.hover(GROUP, "port_range|_min=") == (
        "`port_range_min` of `os:neutron:security_group.rules`: number or null\n\n"
    )
    assert await editor.hover(GROUP, "src != null, off|ice(") == (
        "```text\nnet:own:office  The networks of offices\n  network  string\n```"
    )
    assert await editor.hover(GROUP, "ke|y=[") == "`key`: The columns that say which finding it is."
    lines = (await editor.hover(GROUP, "security_group.ru|les(") or "").splitlines()
    assert lines[:3] == [
        "```text",
        "os:neutron:security_group.rules  The members of rules.",
        "  _id*              resource                        The resource.",
    ]


async def test_names_lead_to_what_defines_and_uses_them(editor: Editor) -> None:
    await editor.open(GROUP, OPEN)
    assert await editor.definition(GROUP, "src != null, off|ice(") == [f"{GROUP}:2:10-16", f"{GROUP}:3:1-7"]
    assert await editor.references(GROUP, "not ins|ide(") == [f"{GROUP}:8:20-26", f"{GROUP}:9:1-7"]
    assert await editor.references(GROUP, "remote_ip_prefix=s|rc") == [
        f"{GROUP}:{place}" for place in ("6:12-15", "7:63-66", "8:3-6", "8:27-30")
    ]


async def test_renaming_changes_every_place_and_nothing_else(editor: Editor) -> None:
    await editor.open(GROUP, OPEN)
    assert await editor.rename(GROUP, "not ins|ide(", "within") == {GROUP: OPEN.replace("inside", "within")}
    top, end = OPEN.split("inside(src) :-")
    renamed = (
        top.replace("group,", "sg,").replace("=group", "=sg").replace("{group}", "{sg}").replace('["group"]', '["sg"]')
    )
    assert await editor.rename(GROUP, "_id=gr|oup", "sg") == {GROUP: f"{renamed}inside(src) :-{end}"}
    for place, name in (
        ("not ins|ide(", "own"),
        ("_id=gr|oup", "src"),
        ("cidr_con|tains(", "x"),
        ("_id=gr|oup", "not"),
    ):
        assert await editor.rename(GROUP, place, name) is None
    assert editor.client.messages[-1].message == "not is not a name: write letters, digits and _"


async def test_formatting_is_that_of_fmt(editor: Editor) -> None:
    await editor.open(GROUP, OPEN.replace("not inside", "not   inside"))
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    params = types.DocumentFormattingParams(editor.document(GROUP), options)
    edits = await editor.client.text_document_formatting_async(params)
    assert [edit.new_text for edit in edits or ()] == [OPEN]
    await editor.open(GROUP, OPEN)
    assert await editor.client.text_document_formatting_async(params) == ()
    await editor.open(GROUP, "p(")
    assert await editor.client.text_document_formatting_async(params) is None


async def test_the_outline_lists_rules_and_declarations(editor: Editor) -> None:
    await editor.open(GROUP, OPEN)
    symbols = await editor.client.text_document_document_symbol_async(
        types.DocumentSymbolParams(editor.document(GROUP))
    )
    assert [(symbol.name, getattr(symbol, "detail", None)) for symbol in symbols or ()] == [
        ("office", "relation"),
        ("office", ""),
        ("own", "@deny net.own"),
        ("inside", ""),
    ]


async def test_columns_count_units_of_utf_16(editor: Editor) -> None:
    text = OPEN.replace("not inside(src)", 'src != "\N{FIRE}\N{FIRE}", not insid(src)')
    assert await editor.open(GROUP, text) == [
        "8:35-40 error [undefined-relation] there is no relation insid / did you mean inside?",
        "9:1-7 warning [never-used] nothing reads inside / "
        'write @deny("inside", "...") above it, or remove it; `export inside.` for others',
    ]
    assert await editor.actions(GROUP) == [("write inside", {GROUP: text.replace("insid(", "inside(")})]


async def test_an_editor_that_prefers_other_units_is_told_that_they_are_of_utf_16(
    new_editor: Callable[..., Awaitable[Editor]], folder: Path
) -> None:
    assert (await new_editor(folder, "neovim")).units == types.PositionEncodingKind.Utf16


@pytest.mark.parametrize("sign", ["\v", "\f", "\x85", "\u2028"])
async def test_a_line_ends_where_the_protocol_says(editor: Editor, sign: str) -> None:
    text = f"// a{sign}// b\n"
    await editor.open(GROUP, text)
    editor.change(GROUP, len(text) - 1, len(text), "\ninside(1).")
    params = types.DocumentSymbolParams(editor.document(GROUP))
    [symbol] = await editor.client.text_document_document_symbol_async(params) or []
    assert isinstance(symbol, types.DocumentSymbol)
    assert (symbol.name, shown(symbol.range)) == ("inside", "2:1-10")


async def test_the_call_at_the_cursor_is_described(editor: Editor) -> None:
    await editor.open(GROUP, OPEN)
    params = types.SignatureHelpParams(editor.document(GROUP), editor.position(GROUP, "cidr_contains(network, |src"))
    help_ = await editor.client.text_document_signature_help_async(params)
    assert help_
    assert [signature.label for signature in help_.signatures] == ["cidr_contains(network: string, inner: string)"]
    assert help_.active_parameter == 1


async def test_statements_fold_and_policies_are_found(editor: Editor) -> None:
    await editor.open(GROUP, OPEN)
    folds = await editor.client.text_document_folding_range_async(types.FoldingRangeParams(editor.document(GROUP)))
    assert [(fold.start_line, fold.end_line) for fold in folds or ()] == [(5, 7), (8, 9)]
    found = await editor.client.workspace_symbol_async(types.WorkspaceSymbolParams("NET.OWN"))
    assert [symbol.name for symbol in found or ()] == ["own @deny net.own"]


async def test_names_are_told_apart_by_their_role(editor: Editor) -> None:
    await editor.open(GROUP, 'p(x) :- heat:stack(id=x),\n  lower(x) = "a".\n')
    params = types.SemanticTokensParams(editor.document(GROUP))
    answer = await editor.client.text_document_semantic_tokens_full_async(params)
    assert answer
    tokens = [tuple(answer.data[at : at + 4]) for at in range(0, len(answer.data), 5)]
    function, column, variable = 0, 4, 6
    assert tokens == [
        (0, 0, 1, function),
        (0, 2, 1, variable),
        (0, 6, 10, function),
        (0, 11, 2, column),
        (0, 3, 1, variable),
        (1, 2, 5, function),
        (0, 6, 1, variable),
    ]
