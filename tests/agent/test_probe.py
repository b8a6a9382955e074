"""The startup probe against callers that are not the kubelet."""

import contextlib
import socket
import threading
import time

import pytest

from agent.probe import Probe


@pytest.fixture(scope="module")
def probe():
    probe = Probe(0, "/go")
    threading.Thread(target=probe.serve, daemon=True).start()
    return probe


def send(probe, data):
    with socket.create_connection(("127.0.0.1", probe.port), timeout=5) as connection:
        connection.sendall(data)
        with contextlib.suppress(ConnectionResetError):
            return connection.recv(4096).partition(b"\r\n")[0]
    return b"reset"


@pytest.mark.parametrize(
    "data", [b"\r\n\r\n", b"GET\r\n", b"POST /go HTTP/1.1\r\n\r\n", b"GET /other HTTP/1.1\r\n\r\n", b"\x16\x03\x01"]
)
def test_anything_else_is_not_found(probe, data):
    assert send(probe, data) == b"HTTP/1.1 404 Not Found"


def test_up_then_down(probe):
    assert send(probe, b"GET /go HTTP/1.1\r\n\r\n") == b"HTTP/1.1 503 Service Unavailable"
    probe.lift()
    assert send(probe, b"GET /go?x=1 HTTP/1.1\r\n\r\n") == b"HTTP/1.1 200 OK"


def test_idle_and_endless_requests_do_not_delay_others_for_long(probe):
    with socket.create_connection(("127.0.0.1", probe.port), timeout=5), contextlib.suppress(OSError):
        start = time.monotonic()
        send(probe, b"GET /go HTTP/1.1\r\n" + b"x" * 1_000_000)
        assert send(probe, b"GET /go HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1")
        assert time.monotonic() - start < 4


def test_a_taken_port_shows_at_once(probe):
    with pytest.raises(OSError, match="in use"):
        Probe(probe.port, "/go")
