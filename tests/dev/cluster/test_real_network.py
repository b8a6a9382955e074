"""The way of the API server to nodes and pods: HTTP CONNECT on a Unix socket."""

import asyncio

import pytest

from dev.cluster.real.network import Border


@pytest.fixture
async def ask(tmp_path):
    """Asks for a connection to a port of this machine, sends bytes and gives all that comes back."""
    path = str(tmp_path / "egress.sock")
    server = await asyncio.start_unix_server(Border(-1, 0).to_node, path)

    async def exchange(port: int, data: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() + data)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer

    yield exchange
    server.close()


async def upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers once all of the question is there: the end of one direction does not end the other."""
    writer.write((await reader.read()).upper())
    writer.close()


async def test_bytes_pass_in_both_directions_to_their_ends(ask):
    server = await asyncio.start_server(upper, "127.0.0.1", 0)
    data = b"x" * 300_000
    assert await ask(server.sockets[0].getsockname()[1], data) == b"HTTP/1.1 200 OK\r\n\r\n" + data.upper()
    server.close()


async def test_a_port_where_nothing_listens_is_an_answer_with_the_reason(ask):
    server = await asyncio.start_server(upper, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    assert (await ask(port, b"")).startswith(b"HTTP/1.1 502 Connect call failed")
