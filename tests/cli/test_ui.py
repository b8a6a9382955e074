"""`jobset ui` on the command line, up to the moment when it serves. What it serves is in the files beside this one."""

import pytest

from dev.local import free_port
from httpserver.address import bind, parse_bind_address
from tests.support.explain.objects import made
from tests.support.objects.jobsets import jobset, stored
from ui.guard import browser_host, exposure_warning

SET = made(stored(jobset(namespace="team-a")))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--address", "nonsense"], "write host:port"),
        (["--address", "0"], "listens nowhere"),
        (["--address", "127.0.0.1:99999"], "write host:port"),
        (["-n", "No/Name"], "is not a name"),
        (["-n", "team-a,team-b"], "one page shows one namespace, or all (-A): start one for each"),
    ],
)
def test_wrong_usage_is_said_in_one_line(command, connected, args, says):
    connected(SET)
    code, out, err = command("ui", *args)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_an_address_that_is_in_use_is_said(command, connected):
    connected(SET)
    port = free_port()
    with bind(("127.0.0.1", port), "test"):
        code, _, err = command("ui", "--address", f"127.0.0.1:{port}")
    assert code == 2
    assert "another process has it" in err


@pytest.mark.parametrize(
    ("address", "opened", "warned"),
    [
        ("127.0.0.1:8790", "127.0.0.1", ""),
        ("localhost:8790", "localhost", ""),
        ("[::1]:8790", "[::1]", ""),
        ("127.0.0.2:8790", "127.0.0.2", ""),
        (":8790", "127.0.0.1", "on all interfaces"),
        ("0.0.0.0:8790", "127.0.0.1", "on all interfaces"),
        ("[::]:8790", "[::1]", "on all interfaces"),
        ("10.1.2.3:8790", "10.1.2.3", "on 10.1.2.3"),
        ("login.example.org:8790", "login.example.org", "on login.example.org"),
    ],
)
def test_an_address_that_others_reach_is_warned_of_and_the_one_to_open_is_told(address, opened, warned):
    parsed = parse_bind_address(address)
    assert parsed is not None
    assert browser_host(parsed) == opened
    warning = exposure_warning(parsed)
    assert warning.startswith(f"jobset ui: warning: it listens {warned}. Whoever reaches this port") is bool(warned)
    assert warning.count("\n") == bool(warned)
