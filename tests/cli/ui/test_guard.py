"""Which requests are answered, and what every answer tells the browser."""

from __future__ import annotations

import pytest

from cli.ui.guard import HEADERS, Guard
from httpserver.asgi import respond
from tests.support.asgi import post


async def page(_scope, _receive, send) -> None:
    await respond(send, 200, "shown")


async def ask(host: str = "127.0.0.1:8790", *, method: str = "GET", path: str = "/", **headers: str):
    return await post(Guard(page, ["jobs.example.org"]), path, b"", method=method, host=host, **headers)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8790", "localhost:9000", "LOCALHOST", "[::1]:8790", "[::1]", "jobs.example.org"]
)
async def test_a_browser_may_ask_for_this_machine_and_for_hosts_that_are_named(host):
    assert (await ask(host)).status == 200


@pytest.mark.parametrize(
    "host", ["attacker.example", "attacker.example:8790", "127.0.0.1.attacker.example", "[::2]:8790", "", "[::1", "a b"]
)
async def test_a_name_that_was_pointed_at_this_machine_is_refused(host):
    assert (await ask(host)).status == 421


async def test_a_request_without_a_host_is_refused():
    assert (await post(Guard(page), "/", b"", method="GET")).status == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_nothing_can_be_changed(method):
    assert (await ask(method=method)).status == 405


@pytest.mark.parametrize(
    ("site", "path", "status"),
    [
        ("same-origin", "/api/map", 200),
        ("none", "/api/map", 200),
        ("cross-site", "/api/map", 403),
        ("same-site", "/api/events", 403),
        ("cross-site", "/", 200),
    ],
)
async def test_data_are_for_this_page_alone(site, path, status):
    assert (await ask(path=path, sec_fetch_site=site)).status == status


@pytest.mark.parametrize("host", ["localhost", "attacker.example"])
async def test_every_answer_says_what_a_browser_may_do_with_it(host):
    answer = await ask(host)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "//" not in policy
