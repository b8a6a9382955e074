"""What browsers are answered, by a real server."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from cli.ui.run import LIMITS
from httpserver.address import bind
from httpserver.server import Server
from kube.errors import Forbidden, Status, TransportError
from tests.support.serving import LOCAL, serving
from ui import server as servers
from ui.board import Board
from ui.guard import HEADERS, Guard
from ui.server import Pages

KEY = ("ns", "train")


class Shown:
    """One set, and how often it was explained."""

    def __init__(self) -> None:
        self.explained = 0
        self.detailed = 0
        self.fault: Exception | None = None

    def has_jobset(self, key) -> bool:
        return key == KEY

    def detail(self, key):
        self.detailed += 1
        return {"name": "<b>train</b>"} if key == KEY else None

    def topology_map(self, topology):
        return {"topology": topology}

    async def explain(self, key):
        self.explained += 1
        if self.fault is not None:
            raise self.fault
        return {"name": key[1], "state": "waits"}


class Browser:
    """Talks to pages that are served."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session = session
        self.base = base

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(self.base + path) as answer:
            assert {name: answer.headers[name] for name in HEADERS} == HEADERS
            return answer.status, await answer.text()

    async def json(self, path: str):
        status, text = await self.get(path)
        assert status == 200, text
        return json.loads(text)


@pytest.fixture
async def shown() -> Shown:
    return Shown()


@pytest.fixture
async def board() -> Board:
    return Board("e")


@pytest.fixture
async def pages(board, shown) -> Pages:
    return Pages(board, shown, shown.explain)


@pytest.fixture
async def browser(pages) -> AsyncIterator[Browser]:
    server = Server(Guard(pages.app()), bind(LOCAL, "test"), limits=LIMITS)
    async with serving(server) as port, aiohttp.ClientSession() as session:
        yield Browser(session, f"http://127.0.0.1:{port}")
        pages.close()


async def test_the_page_and_its_files_are_served(browser):
    for path, kind in [("/", "<!doctype html>"), ("/ui.js", "EventSource"), ("/ui.css", "color-scheme")]:
        status, text = await browser.get(path)
        assert status == 200
        assert kind in text
    assert (await browser.get("/../run.py"))[0] == 404
    assert (await browser.get("/%2e%2e/run.py"))[0] == 404


async def test_a_set_and_a_map_are_json(browser):
    assert await browser.json("/api/sets/ns/train") == {"name": "<b>train</b>"}
    assert await browser.json("/api/map?topology=rack") == {"topology": "rack"}
    assert (await browser.get("/api/sets/ns/nobody"))[0] == 404


async def test_a_set_is_drawn_once_for_many_browsers_until_something_changes(browser, board, shown):
    for _ in range(3):
        await browser.json("/api/sets/ns/train")
    assert shown.detailed == 1
    board.touch(KEY)
    board.publish(lambda _: {})
    await browser.json("/api/sets/ns/train")
    assert shown.detailed == 2


async def test_only_so_many_answers_are_kept(browser, pages):
    for index in range(servers.MAX_ANSWERS + 5):
        await browser.json(f"/api/map?topology={index}")
    assert len(pages._answers) == servers.MAX_ANSWERS


async def test_an_explanation_is_made_once_for_many_browsers(browser, shown):
    for _ in range(3):
        assert (await browser.json("/api/sets/ns/train/explanation"))["state"] == "waits"
    assert shown.explained == 1


async def test_no_name_that_is_made_up_is_asked_of_the_api_server(browser, shown):
    assert (await browser.get("/api/sets/ns/nobody/explanation"))[0] == 404
    assert shown.explained == 0


@pytest.mark.parametrize(
    ("fault", "status"),
    [(Forbidden(403, Status(message="no right")), 403), (TransportError("no route"), 502), (TimeoutError(), 504)],
)
async def test_an_explanation_that_fails_says_why(browser, shown, fault, status):
    shown.fault = fault
    assert (await browser.get("/api/sets/ns/train/explanation"))[0] == status


async def event(stream: aiohttp.StreamReader) -> dict[str, str]:
    """The next event; comments and settings are passed over."""
    found: dict[str, str] = {}
    while True:
        line = (await stream.readline()).decode().rstrip("\n")
        name, _, value = line.partition(": ")
        if line and name:
            found[name] = value
        elif "data" in found:
            return found
        elif not line:
            found = {}


async def test_a_stream_brings_everything_and_then_what_changes(browser, board):
    rows = {("ns", "a"): {"name": "a"}}
    board.touch(("ns", "a"))
    board.publish(rows.get)
    async with browser.session.get(browser.base + "/api/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        first = await event(answer.content)
        assert json.loads(first["data"])["whole"] is True
        rows["ns", "b"] = {"name": "b"}
        board.touch(("ns", "b"))
        board.publish(rows.get)
        second = await event(answer.content)
    assert json.loads(second["data"]) == {"whole": False, "rows": [{"name": "b"}], "gone": [], "notes": []}
    async with browser.session.get(browser.base + "/api/events", headers={"Last-Event-ID": first["id"]}) as answer:
        assert json.loads((await event(answer.content))["data"])["rows"] == [{"name": "b"}]


async def test_streams_are_bounded_and_places_become_free(browser, monkeypatch):
    monkeypatch.setattr(servers, "MAX_STREAMS", 1)
    async with browser.session.get(browser.base + "/api/events") as first:
        await event(first.content)
        assert (await browser.get("/api/events"))[0] == 503
    async with asyncio.timeout(10):
        while True:
            async with browser.session.get(browser.base + "/api/events") as again:
                if again.status == 200:
                    return


async def test_streams_end_when_the_server_is_to_stop(browser, pages):
    async with browser.session.get(browser.base + "/api/events") as answer:
        await event(answer.content)
        pages.close()
        assert await answer.content.read() == b""


async def test_a_stream_that_has_nothing_to_say_says_that(browser, monkeypatch):
    monkeypatch.setattr(servers, "HEARTBEAT_SECONDS", 0.01)
    async with browser.session.get(browser.base + "/api/events") as answer:
        await event(answer.content)
        assert await answer.content.readline() == b": still here\n"
