"""Heat templates in an editor."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from lsprotocol import types

from tests.editor.rig import Editor

pytestmark = pytest.mark.asyncio

WEB = "web.yaml"
TEXT = """\
heat_template_version: 2018-08-31
parameters:
  prefix: {type: string, default: 10.0.0.0/16}
resources:
  group:
    type: OS::Neutron::SecurityGroup
    properties:
      rules: [{port_range_min: 22, port_range_max: 22, remote_ip_prefix: {get_param: prefix}}]
  port:
    type: OS::Neutron::Port
    properties:
      network: public
      security_groups: [{get_resource: group}]
"""
OPEN_TO_ALL = TEXT.replace("{get_param: prefix}", "0.0.0.0/0")
DENIED = (
    "8:74-83 error [net.open_ssh] security group group lets 0.0.0.0/0 reach port 22"
    " / limit remote_ip_prefix to at most a /16, or a /48 of IPv6"
)


async def test_findings_stand_at_their_values_with_the_proved_fix(editor: Editor) -> None:
    assert await editor.open(WEB, TEXT) == []
    assert await editor.open(WEB, OPEN_TO_ALL) == [DENIED]
    [(title, texts)] = await editor.actions(WEB)
    assert title == (
        "set rules.0.remote_ip_prefix of group to a network of your own, at most a /16, such as 10.0.0.0/16"
        " (settles 1 finding)"
    )
    assert texts == {WEB: TEXT.replace("{get_param: prefix}", "10.0.0.0/16")}
    assert await editor.open(WEB, texts[WEB]) == []


async def test_hover_on_a_finding_says_why_it_holds(editor: Editor) -> None:
    await editor.open(WEB, OPEN_TO_ALL)
    lines = (await editor.hover(WEB, "prefix: 0.0.|0.0/0}") or "").splitlines()
    assert lines[:6] == [
        "**net.open_ssh**: security group group lets 0.0.0.0/0 reach port 22",
        "",
        "hint: limit remote_ip_prefix to at most a /16, or a /48 of IPv6",
        "",
        "```text",
        "  why   ingress(web/group, 0.0.0.0/0, tcp, 22, 22)                                 rules/net/ssh.dl:24",
    ]
    assert lines[-2].startswith("  fix   set rules.0.remote_ip_prefix of group to a network of your own")


async def test_what_is_not_known_is_a_warning_at_its_value(editor: Editor) -> None:
    text = TEXT.replace(", default: 10.0.0.0/16", "")
    assert await editor.open(WEB, text) == [
        "8:74-93 warning [net.open_ssh] security group group lets ? reach port 22: "
        "depends on parameter prefix / limit remote_ip_prefix to at most a /16, or a /48 of IPv6"
    ]


async def test_the_environment_beside_a_template_is_read(editor: Editor) -> None:
    (editor.folder / "web.env.yaml").write_text("parameters: {prefix: 0.0.0.0/0}\n")
    assert await editor.open(WEB, TEXT) == []
    assert editor.problems("web.env.yaml") == [DENIED.replace("8:74-83", "1:22-31")]


async def test_what_is_wrong_with_a_template_has_an_edit(editor: Editor) -> None:
    await editor.open(WEB, TEXT)
    wrong = TEXT.replace("get_resource: group", "get_resource: grop")
    assert await editor.open(WEB, wrong) == [
        "13:40-44 error [bad-reference] there is no resource `grop` / did you mean `group`?"
    ]
    assert await editor.actions(WEB) == [("write group", {WEB: TEXT})]
    assert [problem.partition("]")[0] for problem in await editor.open(WEB, f"{TEXT}  x: {{")] == ["14:7-7 error [yaml"]
    assert await editor.hover(WEB, "OS::Neutron::Po|rt") == (
        "**OS::Neutron::Port**: `os:neutron:port` in rules. 19 properties. Required: `network`."
    )


async def test_what_heat_would_refuse_is_shown_while_it_is_typed_as_check_says_it(editor: Editor) -> None:
    await editor.open(WEB, TEXT)
    at = TEXT.index("security_groups: [")
    editor.change(WEB, at, at, "nmae: x\n      ")
    (editor.folder / WEB).write_text(editor.texts[WEB])
    command = [sys.executable, "-m", "datalog_gate", "check", WEB, "--format", "json"]
    checked = subprocess.run(command, cwd=editor.folder, capture_output=True, text=True, check=False)
    [refusal] = json.loads(checked.stdout)["refusals"]
    place = f"{refusal['place']['line']}:{refusal['place']['column']}"
    problem = f"{place}-11 error [{refusal['code']}] {refusal['message']} / {refusal['suggestion']}"
    assert problem == "13:7-11 error [unknown-property] OS::Neutron::Port has no property `nmae` / did you mean `name`?"
    assert await told(editor, WEB, [problem]) == [problem]


async def test_a_finding_links_to_the_page_of_its_policy(editor: Editor) -> None:
    rule = '@deny("own", "{p}", url="https://example.org/own")\nown(p) :- os:neutron:port(_id=p).\n'
    (editor.folder / "rules" / "own.dl").write_text(rule)
    await editor.open(WEB, TEXT)
    [problem] = editor.client.diagnostics[editor.uri(WEB)]
    assert (problem.code, problem.code_description) == ("own", types.CodeDescription("https://example.org/own"))


async def test_hover_says_what_the_catalogue_has(editor: Editor) -> None:
    await editor.open(WEB, TEXT)
    assert await editor.hover(WEB, "port_range|_min") == (
        "**port_range_min**: integer\n\nfrom 0 to 65535; a change replaces the resource"
    )
    assert await editor.hover(WEB, "get_|param") == (
        "`get_param: NAME or [NAME, KEY...]`\n\nThe value of a parameter, or a part of it."
    )
    assert await editor.hover(WEB, "get_param: pre|fix") == (
        "The parameter `prefix`, type: string, default: 10.0.0.0/16, here: 10.0.0.0/16 (default)"
    )
    assert await editor.hover(WEB, "get_resource: gro|up") == "`group`: OS::Neutron::SecurityGroup"


async def test_names_lead_to_parameters_resources_and_files(editor: Editor) -> None:
    (editor.folder / "nested.yaml").write_text(TEXT)
    text = f"{TEXT}  inner:\n    type: nested.yaml\n    depends_on: port\n"
    await editor.open(WEB, text)
    assert await editor.definition(WEB, "get_param: pre|fix") == [f"{WEB}:3:3-9"]
    assert await editor.definition(WEB, "get_resource: gro|up") == [f"{WEB}:5:3-8"]
    assert await editor.definition(WEB, "depends_on: po|rt") == [f"{WEB}:9:3-7"]
    assert await editor.definition(WEB, "type: nes|ted.yaml") == ["nested.yaml:1:1-1"]
    assert (await editor.references(WEB, "get_param: pre|fix"))[0] == f"{WEB}:3:3-9"
    symbols = await editor.client.text_document_document_symbol_async(types.DocumentSymbolParams(editor.document(WEB)))
    assert [symbol.name for symbol in symbols or ()][-1] == "inner"


async def test_completion_offers_what_may_stand_at_the_cursor(editor: Editor) -> None:
    (editor.folder / "nested.yaml").write_text(TEXT)
    await editor.open(WEB, TEXT)

    async def offered(end: str) -> dict[str, str]:
        await editor.open(WEB, TEXT + end)
        return await editor.completions(WEB, f"{end}|")

    assert await offered("out") == {"outputs": "outputs:"}
    assert await offered("  x:\n    ty") == {"type": "type: "}
    assert await offered("  x:\n    type: OS::Nova::KeyP") == {"OS::Nova::KeyPair": "OS::Nova::KeyPair"}
    assert await offered("  x:\n    type: nes") == {"nested.yaml": "nested.yaml"}
    server = "  x:\n    type: OS::Nova::Server\n    properties:\n      "
    assert await offered(f"{server}key") == {"key_name": "key_name: "}
    assert await offered(f"{server}diskConfig: A") == {"AUTO": "AUTO"}
    assert await offered(f"{server}config_drive: ") == {"true": "true", "false": "false"}
    assert await offered(f"{server}networks: [{{po") == {
        "port": "port: ",
        "port_extra_properties": "port_extra_properties: ",
    }
    assert await offered(f"{server}name: {{get_p") == {"get_param": "get_param: "}
    assert await offered(f"{server}name: {{get_param: pre") == {"prefix": "prefix"}
    assert await offered(f"{server}name: {{get_attr: [po") == {"port": "port"}
    assert await offered(f"{server}name: {{get_attr: [port, mac") == {"mac_address": "mac_address"}
    assert await offered("  x:\n    type: nested.yaml\n    properties: {pre") == {"prefix": "prefix: "}


async def told(editor: Editor, name: str, problems: list[str]) -> list[str]:
    """The problems of a file, at the latest when they are these."""
    for _ in range(100):
        if editor.problems(name) == problems:
            break
        await asyncio.sleep(0.1)
    return editor.problems(name)


async def test_changed_rules_judge_the_open_template_again(editor: Editor) -> None:
    assert await editor.open(WEB, OPEN_TO_ALL) == [DENIED]
    name = "rules/net/ssh.dl"
    rules = (editor.folder / name).read_text()
    await editor.open(name, rules.replace("lets {src} reach port 22", "is open"))
    changed = [DENIED.replace("lets 0.0.0.0/0 reach port 22", "is open")]
    assert await told(editor, WEB, changed) == changed


async def test_a_changed_file_judges_the_open_template_that_reads_it_again(editor: Editor) -> None:
    name = "web.env.yaml"
    (editor.folder / name).write_text("parameters: {}\n")
    assert await editor.open(WEB, TEXT) == []
    found = [DENIED.replace("8:74-83", "1:22-31")]
    await editor.open(name, "parameters: {prefix: 0.0.0.0/0}\n")
    assert await told(editor, name, found) == found
    await editor.open(name, "parameters: {}\n")
    assert await told(editor, name, []) == []
    await editor.open(name, "parameters: {prefix: 0.0.0.0/0}\n")
    assert await told(editor, name, found) == found
    editor.client.text_document_did_close(types.DidCloseTextDocumentParams(editor.document(name)))
    assert await told(editor, name, []) == []


async def test_files_are_named_as_the_editor_names_them(
    folder: Path, new_editor: Callable[[Path], Awaitable[Editor]]
) -> None:
    link = folder.with_name(f"link-{folder.name}")
    link.symlink_to(folder)
    (folder / "nested.yaml").write_text(OPEN_TO_ALL)
    editor = await new_editor(link)
    root = "heat_template_version: 2018-08-31\nresources: {n: {type: nested.yaml}}\n"
    assert await editor.open("root.yaml", root) == []
    assert await told(editor, "nested.yaml", [DENIED]) == [DENIED]
    assert await editor.definition("root.yaml", "nes|ted.yaml") == ["nested.yaml:1:1-1"]


async def test_a_link_to_a_template_is_judged_under_its_own_name(
    folder: Path, new_editor: Callable[[], Awaitable[Editor]]
) -> None:
    (folder / "datalog-gate.toml").write_text(
        '[[templates]]\npath = "live/*.yaml"\nparameter = {prefix = "0.0.0.0/0"}\n'
    )
    (folder / WEB).write_text(TEXT)
    (folder / "live").mkdir()
    (folder / "live" / "prod.yaml").symlink_to(folder / WEB)
    editor = await new_editor()
    assert await editor.open("live/prod.yaml") == [DENIED.replace("-83", "-93")]
    assert "ingress(prod/group," in (await editor.hover("live/prod.yaml", "{get_param: pre|fix}") or "")
