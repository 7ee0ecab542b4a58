"""A language server for each test, with a folder of its own.

These tests need pytest-lsp: they run in the tox environment `editor` alone.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.sources import ROOT

if find_spec("pytest_lsp"):
    import pytest_asyncio
    import pytest_lsp
    from lsprotocol import types
    from pytest_lsp import ClientServerConfig, LanguageClient

    from tests.editor.rig import Editor

COMMAND = [sys.executable, "-m", "datalog_gate.doors.cli.main", "lsp"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the pack `net`, and a template."""
    shutil.copytree(ROOT / "rules" / "net", tmp_path / "rules" / "net")
    shutil.copytree(ROOT / "fixtures" / "stacks" / "bastion", tmp_path / "fixtures" / "stacks" / "bastion")
    return tmp_path.resolve()


if find_spec("pytest_lsp"):

    def session_of(folder: Path, program: str = "visual-studio-code") -> types.InitializeParams:
        return types.InitializeParams(
            capabilities=pytest_lsp.client_capabilities(program),
            workspace_folders=[types.WorkspaceFolder(folder.as_uri(), "work")],
        )

    @pytest_lsp.fixture(config=ClientServerConfig(server_command=COMMAND))
    async def client(lsp_client: LanguageClient, folder: Path) -> AsyncIterator[None]:
        await lsp_client.initialize_session(session_of(folder))
        yield
        await lsp_client.shutdown_session()

    @pytest_asyncio.fixture
    async def new_editor(folder: Path) -> AsyncIterator[Callable[..., Awaitable[Editor]]]:
        """Start one more server in the folder, or in another; the one before ends."""
        clients: list[LanguageClient] = []
        config = ClientServerConfig(server_command=COMMAND)

        async def end() -> None:
            if clients:
                await clients.pop().shutdown_session()

        async def start(top: Path = folder, program: str = "visual-studio-code") -> Editor:
            await end()
            client = await config.start()
            assert isinstance(client, LanguageClient)
            clients.append(client)
            answer = await client.initialize_session(session_of(top, program))
            return Editor(client, top, units=answer.capabilities.position_encoding)

        yield start
        await end()

    @pytest.fixture
    def editor(client: LanguageClient, folder: Path) -> Editor:
        return Editor(client, folder)


else:
    collect_ignore_glob = ["test_*.py"]
