"""The memory that is asked for to read a message from a TLS connection, as client of the API server and as webhook."""

import ssl
import tracemalloc
from contextlib import suppress

import pytest

from kube.config import TlsSettings, _tls_context
from kube.tls import LARGEST_RECORD
from tests.support.tls import context_with, material

BY_EVENT_LOOPS = 256 * 1024
"""Bytes with which asyncio and uvloop read, however short the message is."""


@pytest.fixture
def ends() -> dict[str, ssl.SSLObject]:
    """Both ends of a connection between the program's own contexts; what one writes, the other can read at once."""
    pair = material()
    trust = _tls_context(TlsSettings(pair.authorities), "")
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trust.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = context_with(pair).wrap_bio(to_server, to_client, server_side=True)
    for end in (client, server) * 2:
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    with suppress(ssl.SSLWantReadError):
        client.read(1)  # the session tickets
    return {"client": client, "server": server}


@pytest.mark.parametrize(("reader", "writer"), [("client", "server"), ("server", "client")])
def test_a_short_message_is_read_with_the_memory_of_one_record(reader: str, writer: str, ends):
    ends[writer].write(b"x" * 300)
    tracemalloc.start()
    try:
        read = ends[reader].read(BY_EVENT_LOOPS)
        with pytest.raises(ssl.SSLWantReadError):
            ends[reader].read(BY_EVENT_LOOPS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read == b"x" * 300
    assert peak < 2 * LARGEST_RECORD


@pytest.mark.parametrize(("reader", "writer"), [("client", "server"), ("server", "client")])
def test_a_long_message_comes_whole_into_memory_of_its_own_or_of_the_caller(reader: str, writer: str, ends):
    message, read, buffer = bytes(range(256)) * 1000, b"", bytearray(BY_EVENT_LOOPS)
    for take in (lambda: ends[reader].read(BY_EVENT_LOOPS), lambda: buffer[: ends[reader].read(len(buffer), buffer)]):
        ends[writer].write(message)
        read = b""
        with suppress(ssl.SSLWantReadError):
            while True:
                read += take()
        assert read == message
