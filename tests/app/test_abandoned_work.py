"""Whatever a client has begun ends when the client leaves: every endpoint of every server, in every state."""

import ast
import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.abandoned import SERVERS, STATES, abandon

ROOT = Path(__file__).parents[2]


def _endpoints() -> list[Any]:
    """Server and path. Routes are found in an event loop, which some applications need when they are made."""

    async def found() -> list[tuple[str, str]]:
        every = [(name, make()) for name, make in SERVERS.items()]
        for _, served in every:
            served.server._listener.close()
        return [(name, path) for name, served in every for path in served.paths]

    return asyncio.run(found())


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("name", "path"), _endpoints())
async def test_nothing_outlives_its_client(name: str, path: str, state: str):
    await abandon(SERVERS[name](), path, STATES[state])


def test_every_server_is_looked_at():
    makers = {
        str(file.relative_to(ROOT))
        for room in ("app", "authoring", "cli", "ui")
        for file in (ROOT / room).rglob("*.py")
        if "from httpserver.server import Server" in (text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Server"
    }
    assert makers == set(SERVERS)
