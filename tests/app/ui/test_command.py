"""`jobset ui` on the command line, up to the moment when it serves. What it serves is in the files beside this one."""

from __future__ import annotations

import pytest

from app.local import free_port
from httpserver.address import bind
from tests.support.explained import made
from tests.support.jobsets import jobset, stored

SET = made(stored(jobset(namespace="team-a")))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--address", "nonsense"], "write host:port"),
        (["--address", "0"], "listens nowhere"),
        (["--address", "127.0.0.1:99999"], "write host:port"),
        (["-n", "No/Name"], "is no name"),
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


def test_help_says_who_can_open_the_page(command):
    code, out, _ = command("ui", "--help")
    assert code == 0
    assert "every user of this machine can open it" in " ".join(out.split())
