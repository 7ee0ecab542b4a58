"""Policy tests in an editor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lsprotocol import types

from tests.editor.rig import Editor

pytestmark = pytest.mark.asyncio

TEST, SSH = "rules/net/test.yaml", "rules/net/ssh.dl"
CASES = """\
cases:
  - name: ssh from everywhere is refused
    stack: ../../fixtures/stacks/bastion
    expect:
      violations:
        - {policy: net.open_ssh, resource: bastion_sg, line: 17}
  - name: nothing is refused
    stack: ../../fixtures/stacks/bastion
    expect: {}
"""


async def test_completion_offers_keys_policies_and_resources(editor: Editor) -> None:
    await editor.open(TEST, CASES)

    async def offered(end: str) -> dict[str, str]:
        await editor.open(TEST, CASES + end)
        return await editor.completions(TEST, f"{end}|")

    assert await offered("  - na") == {"name": "name"}  # before its colon
    assert await offered("    act") == {"action": "action: "}
    assert await offered("    action: up") == {"update": "update"}
    assert await offered("  - expect: {violations: [{policy: net.o") == {"net.open_ssh": "net.open_ssh"}
    stack = "  - stack: ../../fixtures/stacks/bastion\n    expect: {undetermined: [{resource: "
    assert await offered(stack) == {"bastion_sg": "bastion_sg", "bastion": "bastion"}
    update = "  - stack: {resources: {new: {}}}\n    against: {resources: {old: {}}}\n"
    assert await offered(f"{update}    expect: {{undetermined: [{{resource: ") == {"new": "new", "old": "old"}


async def test_names_lead_to_the_policy_and_the_stack(editor: Editor) -> None:
    await editor.open(TEST, CASES)
    assert await editor.definition(TEST, "policy: net.op|en_ssh") == [f"{SSH}:8:1-11:36"]
    assert await editor.definition(TEST, "stacks/bas|tion") == ["fixtures/stacks/bastion/template.yaml:1:1-1"]


async def test_errors_of_a_test_are_shown(editor: Editor) -> None:
    assert await editor.open(TEST, CASES.replace("policy: net.open_ssh", "policy: net.open_shs")) == [
        "6:20-32 error [bad-test] there is no policy net.open_shs beside this file / did you mean net.open_ssh?"
    ]
    assert await editor.open(TEST, CASES.replace("expect: {}", "expcet: {}")) == [
        "7:5-10:1 error [bad-test] `expect` is missing here",
        "9:5-11 error [bad-test] there is no key `expcet` here / did you mean expect?",
    ]


async def test_a_lens_runs_the_cases_of_a_policy_or_a_single_case(editor: Editor) -> None:
    await editor.open(TEST, CASES)
    await editor.open(SSH)
    lenses = await editor.client.text_document_code_lens_async(types.CodeLensParams(editor.document(SSH)))
    [command] = [lens.command for lens in lenses or () if lens.command]
    assert command.title == "run its case"
    assert await run(editor, command) == [{"case": "ssh from everywhere is refused", "report": ""}]
    assert editor.client.messages[-1].message == "1 of 1 cases pass"
    lenses = await editor.client.text_document_code_lens_async(types.CodeLensParams(editor.document(TEST)))
    commands = [lens.command for lens in lenses or () if lens.command]
    assert [command.title for command in commands] == ["run this case", "run this case"]
    [result] = await run(editor, commands[1])
    assert result["case"] == "nothing is refused"
    added = "  + violations: {policy: net.open_ssh, resource: bastion_sg, line: 17}"
    assert result["report"].splitlines()[0] == added
    assert [problem.partition(" / ")[0] for problem in editor.problems(TEST)] == [f"7:1-2 error [bad-test] {added}"]


async def test_the_command_runs_cases_where_pytest_lsp_is_a_plugin(folder: Path) -> None:
    (folder / TEST).write_text(CASES.partition("  - name: nothing")[0])
    command = [sys.executable, "-m", "datalog_gate.doors.cli.main", "test", "rules/net"]
    tested = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (tested.returncode, tested.stdout.partition(" in ")[0].split("\n")[-1]) == (0, "1 passed"), tested.stdout


async def run(editor: Editor, command: types.Command) -> list[dict[str, str]]:
    params = types.ExecuteCommandParams(command.command, list(command.arguments or ()))
    answer = await editor.client.workspace_execute_command_async(params)
    assert answer is not None
    return [{"case": item["case"], "report": item["report"]} for item in answer]
