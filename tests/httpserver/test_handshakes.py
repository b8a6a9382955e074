"""Accepting goes on where the system refuses a connection for a moment."""

import errno
import socket

import pytest

from httpserver import handshakes
from tests.support.serving import fetch
from tests.support.tls import context_with, material, serving
from tests.support.webhook_app import APP


async def test_a_client_that_is_gone_and_a_lack_of_sockets_do_not_end_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    errors = [BlockingIOError(), ConnectionAbortedError(), OSError(errno.EMFILE, "Too many open files")]
    accept = socket.socket.accept

    def failing(listener: socket.socket) -> tuple[socket.socket, object]:
        if errors:
            raise errors.pop(0)
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", failing)
    monkeypatch.setattr(handshakes, "ACCEPT_PAUSE", 0.01)
    async with serving(APP, context_with(material())) as server:
        assert (await fetch(f"https://127.0.0.1:{server.port}/"))[0] == 404
    assert caplog.messages == ["cannot accept connections for 0.01 s: [Errno 24] Too many open files"]
