"""Many random edits, after which a server answers as a new one.

`DATALOG_GATE_EDITS` is how many of each file, 10,000 for a release.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable

import pytest
from lsprotocol import types

from datalog_gate.editing.workspace import Workspace
from tests.editor.rig import Editor
from tests.sources import ROOT

EDITS = int(os.environ.get("DATALOG_GATE_EDITS", "60"))
LOOKS = 4
"""How often the answers are compared with those of a new server."""
MOST_GROWTH = 10
"""MB that a server may hold at the end more than after a quarter of the edits."""
PIECES = ["", "x", "\n", "  ", ": ", "{", "}", "[", '"', "(", ")", ":-", ",", ".", "@deny(", "get_param", "resources:"]
PIECES += ["not ", "!= null", "😀", "ü", "\r\n", "\t", "- ", "&a ", "*a", "#", "//", "os:nova:server(_id=s)", "0", "|"]
FILES = {
    "rules/net/ssh.dl": (ROOT / "rules/net/ssh.dl").read_text(),
    "fixtures/stacks/bastion/template.yaml": (ROOT / "fixtures/stacks/bastion/template.yaml").read_text(),
    "rules/net/test.yaml": (ROOT / "rules/net/test.yaml").read_text(),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("name", FILES)
async def test_a_server_takes_any_edit_and_answers_as_a_new_one(
    editor: Editor, new_editor: Callable[[], Awaitable[Editor]], name: str
) -> None:
    chance = random.Random(name)
    memory = []
    await editor.open(name)
    for number in range(EDITS):
        text = editor.texts[name]
        if chance.random() < 0.1:
            text = FILES[name]
            await editor.open(name, text)
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((0, 0, 0, 1, 1, 5, 40)))
        lines = text.splitlines(keepends=True) or [""]
        piece = chance.choice([*PIECES, chance.choice(lines)])
        editor.change(name, start, end, piece)
        await ask(editor, name, chance.randrange(len(editor.texts[name]) + 1), chance.randrange(5))
        if number % (EDITS // LOOKS) == 0:
            memory.append(editor.memory())
            await compare_problems(editor, await new_editor(), name)
    await editor.open(name, FILES[name])
    fresh = await new_editor()
    await compare_problems(editor, fresh, name)
    for offset in range(0, len(FILES[name]), len(FILES[name]) // 20):
        for kind in range(5):
            assert await ask(editor, name, offset, kind) == await ask(fresh, name, offset, kind)
    assert [message.message for message in editor.client.messages] == []
    assert editor.memory() - memory[1] < MOST_GROWTH or EDITS < 1000, memory  # caches fill at first


@pytest.mark.parametrize("name", [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("rules/*/*.dl"))[::18]])
def test_the_quick_check_finds_what_the_check_of_all_rules_finds(name: str) -> None:
    chance = random.Random(name)
    workspace, path = Workspace(ROOT), ROOT / name
    text = path.read_text()
    for _ in range(2):
        at = chance.choice([at for at, letter in enumerate(text) if letter.isalpha()])
        workspace.edit(path, f"{text[:at]}x{text[at:]}")
        assert workspace.check_pack(path)[str(path)] == workspace.check_rules(path)[str(path)]


async def ask(editor: Editor, name: str, offset: int, kind: int) -> object:
    """One answer of the server about a place."""
    document, position = editor.document(name), editor.place(name, offset)
    client = editor.client
    match kind:
        case 0:
            return await client.text_document_completion_async(types.CompletionParams(document, position))
        case 1:
            return await client.text_document_hover_async(types.HoverParams(document, position))
        case 2:
            return await client.text_document_definition_async(types.DefinitionParams(document, position))
        case 3:
            return await client.text_document_document_symbol_async(types.DocumentSymbolParams(document))
    context = types.CodeActionContext([])
    where = types.Range(position, position)
    return await client.text_document_code_action_async(types.CodeActionParams(document, where, context))


async def compare_problems(editor: Editor, fresh: Editor, name: str) -> None:
    """Wait until a new server with the same text tells the same problems."""
    await fresh.open(name, editor.texts[name])
    for _ in range(60):
        await asyncio.sleep(0.5)
        if editor.problems(name) == fresh.problems(name):
            return
    assert editor.problems(name) == fresh.problems(name)
