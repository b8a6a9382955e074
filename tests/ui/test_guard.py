"""Which requests are answered, and what every answer tells the browser."""

import pytest

from httpserver.asgi import respond
from tests.support.asgi import post
from ui.guard import HEADERS, Guard


async def page(_scope, _receive, send) -> None:
    await respond(send, 200, "shown")


async def ask(host: str = "127.0.0.1:8790", *, method: str = "GET", path: str = "/", **headers: str):
    return await post(Guard(page, ["jobs.example.org"]), path, b"", method=method, host=host, **headers)


OWN = ("127.0.0.1:8790", "localhost:9000", "LOCALHOST", "[::1]:8790", "[::1]", "jobs.example.org")
ATTACKERS = ("attacker.example", "attacker.example:8790", "127.0.0.1.attacker.example", "[::2]:8790", "", "[::1", "a b")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        *[({"host": host}, 200) for host in OWN],
        *[({"host": host}, 421) for host in ATTACKERS],
        *[({"method": method}, 405) for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS")],
        ({"path": "/api/map", "sec_fetch_site": "same-origin"}, 200),
        ({"path": "/api/map", "sec_fetch_site": "none"}, 200),
        ({"path": "/api/map", "sec_fetch_site": "cross-site"}, 403),
        ({"path": "/api/events", "sec_fetch_site": "same-site"}, 403),
        ({"path": "/", "sec_fetch_site": "cross-site"}, 200),
    ],
    ids=str,
)
async def test_only_reading_from_this_page_at_an_own_host_is_allowed(request_, status):
    assert (await ask(**request_)).status == status


async def test_a_request_without_a_host_is_refused():
    assert (await post(Guard(page), "/", b"", method="GET")).status == 421


@pytest.mark.parametrize("host", ["localhost", "attacker.example"])
async def test_every_answer_says_what_a_browser_may_do_with_it(host):
    answer = await ask(host)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "//" not in policy
