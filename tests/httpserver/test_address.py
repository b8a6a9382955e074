"""Addresses to listen on: which texts are valid, and the errors about all others."""

import socket

import pytest

from httpserver.address import BindError, bind, check_host, network_of, parse_bind_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8443", ("", 8443)),
        ("127.0.0.1:8081", ("127.0.0.1", 8081)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:8443", ("::1", 8443)),
        ("[::]:65535", ("::", 65535)),
        ("0", None),
    ],
)
def test_bind_addresses(text: str, address: tuple[str, int] | None) -> None:
    assert parse_bind_address(text) == address


@pytest.mark.parametrize("host", ["a b", "-", "a/b", "[::1]", "1::2::3", "host:1", "-a", "a-", "é"])
def test_what_no_host_can_be_called_is_named(host: str) -> None:
    with pytest.raises(BindError, match="is neither an address nor the name of a host") as caught:
        check_host(host)
    assert repr(host) in str(caught.value)


@pytest.mark.parametrize("host", ["", "localhost", "10.0.0.7", "::1", "node_1.example.com.", "A-1"])
def test_names_and_addresses_of_hosts(host: str) -> None:
    check_host(host)


@pytest.mark.parametrize(
    "text", ["", ":", "8443", "host", "host:", ":http", "::1:8443", ":65536", ":-1", "[::1]", ":²"]
)
def test_bad_bind_addresses_are_named(text: str) -> None:
    with pytest.raises(BindError) as caught:
        parse_bind_address(text)
    assert repr(text) in str(caught.value)
    assert ":port" in str(caught.value)


def test_a_port_in_use_is_told_in_the_systems_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BindError) as caught:
            bind(("127.0.0.1", port), "probes")
    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1:{port} for probes: Address already in use (another process has it: stop that one or"
        " choose another port)"
    )


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
    ],
)
def test_the_network_of_a_client_is_what_it_cannot_choose(host: str, network: str) -> None:
    assert network_of(host) == network
