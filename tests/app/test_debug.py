"""The debug pages: what they show, who gets them, and that they do not hold up the event loop."""

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from app import logs
from app.debug import pages
from app.debug.objects import objects
from app.debug.pages import LEVEL_PATH, MAX_PAGE, Debug
from app.debug.stacks import stacks
from app.metrics import Metrics
from app.metrics_server import Guard, MetricsApp, User
from tests.support.asgi import post

MAX_GAP = 0.5
"""Seconds of processor time in which the event loop does nothing else. Half of what may delay the lease."""


@pytest.fixture(autouse=True)
def _level() -> Iterator[None]:
    before = logging.getLogger().level
    logs.set_level(logging.INFO)
    yield
    logs.set_level(before)


async def asked(debug: Debug, path: str, method: str = "GET", body: bytes = b"") -> tuple[int, str]:
    answer = await post(debug, path, body, method=method)
    return answer.status, answer.body.decode()


class Secret:
    pass


async def waits_deep(secret: str) -> None:
    assert secret
    await waits_deeper()


async def waits_deeper() -> None:
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def waiting(count: int) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(waits_deep("hunter2"), name=f"waiter-{n}") for n in range(count)]
    await asyncio.sleep(0)
    yield
    for task in tasks:
        task.cancel()


async def test_stacks_of_tasks_lead_to_what_they_wait_for_and_show_no_values() -> None:
    async with waiting(7):
        text = await stacks()
    _, _, entry = text.partition("7 tasks: ")
    lines = entry.splitlines()
    assert "waiter-" in lines[0]
    assert lines[0].endswith(" and 2 more")
    assert [line.split()[0] for line in lines[1:4]] == ["waits_deep", "waits_deeper", "Event.wait"]
    assert f"({__file__}:" in lines[1]
    assert "hunter2" not in text


async def test_stacks_of_threads_are_there_with_their_names() -> None:
    begun, end = threading.Event(), threading.Event()

    def wait_in_thread() -> None:
        begun.set()
        end.wait(30)

    thread = threading.Thread(target=wait_in_thread, name="a-helper-thread")
    thread.start()
    try:
        await asyncio.to_thread(begun.wait, 30)
        _, _, entry = (await stacks()).partition("thread a-helper-thread\n")
    finally:
        end.set()
        thread.join()
    assert "wait_in_thread" in entry.partition("\n\n")[0]


async def test_a_task_that_awaits_a_generator_is_followed_as_far_as_it_goes() -> None:
    async def numbers() -> AsyncIterator[int]:
        await asyncio.Event().wait()
        yield 1

    async def reads() -> None:
        async for _ in numbers():
            pass

    task = asyncio.create_task(reads(), name="reader")
    await asyncio.sleep(0)
    _, _, entry = (await stacks()).partition("1 task: reader\n")
    task.cancel()
    assert "reads" in entry.splitlines()[0]
    assert entry.splitlines()[1] == "  awaits async_generator_asend"


async def test_more_tasks_than_are_looked_at_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.debug.stacks.MAX_TASKS", 3)
    async with waiting(7):
        assert "5 more tasks are not shown" in await stacks()


async def test_objects_are_counted_by_type() -> None:
    kept = [Secret() for _ in range(50_000)]
    text = await objects()
    (line,) = [line for line in text.splitlines() if line.endswith(".Secret")]
    assert int(line.split()[1]) >= len(kept)
    assert int(line.split()[0]) >= len(kept) * 16
    assert " MiB in use" in text


async def test_of_very_many_objects_some_are_looked_at_and_the_rest_is_estimated() -> None:
    kept = [Secret() for _ in range(50_000)]
    text = await objects(max_looked_at=10_000)
    (line,) = [line for line in text.splitlines() if line.endswith(".Secret")]
    assert int(line.split()[1]) == pytest.approx(len(kept), rel=0.2)
    assert "was looked at, numbers are estimates" in text


async def test_with_very_much_memory_in_use_objects_are_not_counted() -> None:
    text = await objects(max_resident=1 << 20)
    assert "objects are not counted: more than 1 MiB are in use" in text
    assert "type" not in text


async def test_the_event_loop_goes_on_while_pages_are_written() -> None:
    kept = [{"number": [n]} for n in range(300_000)]
    gaps = []

    async def tick() -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            gaps.append(time.process_time() - last)
            last = time.process_time()

    async with waiting(5_000):
        ticking = asyncio.create_task(tick())
        await stacks()
        await objects()
        ticking.cancel()
    assert len(kept) == 300_000
    assert len(gaps) > 100
    assert max(gaps) < MAX_GAP


async def test_a_page_has_the_processes_of_the_manager() -> None:
    status, text = await asked(Debug([Other(4711, "where it is\n")]), "/debug/stacks")
    assert status == 200
    assert text.startswith("== process ")
    assert text.endswith("== process 4711: admission\n\nwhere it is\n")


async def test_a_process_that_hangs_is_said_to_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_TIMEOUT", 0.01)
    status, text = await asked(Debug([Other(4711)]), "/debug/stacks")
    assert status == 200
    assert text.endswith("== process 4711: admission\n\nno answer in 0.01 s\n")


async def test_a_page_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async def much() -> str:
        return "x" * (MAX_PAGE + 1)

    monkeypatch.setitem(pages.PAGES, "/debug/stacks", much)
    _, text = await asked(Debug(), "/debug/stacks")
    assert text.endswith("xxx\nthe rest is not shown\n")
    assert len(text) < MAX_PAGE + 100


@pytest.mark.looptime
async def test_one_page_at_a_time_and_a_pause_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow() -> str:
        await asyncio.sleep(2)
        return "done"

    monkeypatch.setitem(pages.PAGES, "/debug/stacks", slow)
    debug = Debug(clock=asyncio.get_running_loop().time)
    first = asyncio.create_task(asked(debug, "/debug/stacks"))
    await asyncio.sleep(0.5)
    assert await asked(debug, "/debug/objects") == (429, "one page at a time: try again in 1 s\n")
    assert (await first)[0] == 200
    assert await asked(debug, "/debug/stacks") == (429, "one page at a time: try again in 8 s\n")
    await asyncio.sleep(8)
    assert (await asked(debug, "/debug/stacks"))[0] == 200


async def test_only_the_level_can_be_changed() -> None:
    assert await asked(Debug(), "/debug/stacks", "PUT") == (405, "PUT is not possible here\n")
    assert await asked(Debug(), LEVEL_PATH, "POST") == (405, "POST is not possible here\n")


class Other:
    """Another process of the manager; None: it never answers."""

    def __init__(self, pid: int, text: str | None = None) -> None:
        self.pid = pid
        self.levels: list[int] = []
        self._text = text

    def set_level(self, level: int) -> None:
        self.levels.append(level)

    async def page(self, command: bytes) -> str:
        assert command in pages.COMMANDS.values()
        if self._text is None:
            await asyncio.Event().wait()
        return self._text or ""


def change(level: str, **more: Any) -> bytes:
    return json.dumps({"level": level, **more}).encode()


@pytest.mark.looptime
async def test_a_level_is_changed_everywhere_for_a_time(caplog: pytest.LogCaptureFixture) -> None:
    other, root = Other(1), logging.getLogger()
    debug = Debug([other])
    assert await asked(debug, LEVEL_PATH) == (200, '{"level":"info"}\n')
    status, text = await asked(debug, LEVEL_PATH, "PUT", change("debug"))
    shown = json.loads(text)
    assert (status, shown["level"], shown["then"]) == (200, "debug", "info")
    assert root.level == logging.DEBUG
    assert other.levels == [logging.DEBUG]
    await asyncio.sleep(15 * 60 - 1)
    assert root.level == logging.DEBUG
    await asyncio.sleep(2)
    assert root.level == logging.INFO
    assert other.levels == [logging.DEBUG, logging.INFO]
    assert await asked(debug, LEVEL_PATH) == (200, '{"level":"info"}\n')
    assert caplog.messages == [f"log level: debug until {shown['until']}", "log level: info, as configured"]


@pytest.mark.looptime
async def test_the_last_change_counts_and_the_configured_level_ends_it() -> None:
    debug, root = Debug(), logging.getLogger()
    await asked(debug, LEVEL_PATH, "PUT", change("debug", **{"for": "1m"}))
    await asked(debug, LEVEL_PATH, "PUT", change("error", **{"for": "1h"}))
    await asyncio.sleep(120)
    assert root.level == logging.ERROR
    assert await asked(debug, LEVEL_PATH, "PUT", change("info")) == (200, '{"level":"info"}\n')
    assert root.level == logging.INFO
    await asked(debug, LEVEL_PATH, "PUT", change("debug", **{"for": "24h"}))
    await asyncio.sleep(3600)
    assert root.level == logging.DEBUG, "the end of the change before counts no more"


async def test_the_line_about_less_logging_is_written(caplog: pytest.LogCaptureFixture) -> None:
    await asked(Debug(), LEVEL_PATH, "PUT", change("error"))
    assert caplog.messages[0].startswith("log level: error until ")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "cannot read the body, write {"),
        (b"\xff", "cannot read the body, write {"),
        (b"null", "cannot read the body, write {"),
        (b"{}", "missing required field `level`"),
        (change("loud"), "level loud: must be one of debug, info, error, panic or a number above 0"),
        (change("debug", seconds=3), "unknown field `seconds`"),
        (change("debug", **{"for": "long"}), "for: 'long' is not a duration"),
        (change("debug", **{"for": "0s"}), "for: must be more than 0 and at most 24h"),
        (change("debug", **{"for": "25h"}), "for: must be more than 0 and at most 24h"),
    ],
)
async def test_a_change_that_cannot_be_understood_changes_nothing(body: bytes, said: str) -> None:
    status, text = await asked(Debug(), LEVEL_PATH, "PUT", body)
    assert status == 400
    assert said in text
    assert logging.getLogger().level == logging.INFO


async def test_a_long_change_is_not_read() -> None:
    assert (await asked(Debug(), LEVEL_PATH, "PUT", b" " * 2000))[0] == 413


class Reviewer:
    """Tokens are user names; `allowed` has who may do what."""

    allowed = frozenset({("scraper", "get", "/metrics"), ("person", "get", LEVEL_PATH), ("person", "get", "/metrics")})

    async def authenticate(self, token: str) -> User | None:
        return User(token)

    async def authorize(self, user: User, verb: str, path: str) -> bool:
        return (user.username, verb, path) in self.allowed


@pytest.mark.parametrize(
    ("who", "method", "path", "status"),
    [
        ("", "GET", "/debug/stacks", 401),
        ("scraper", "GET", "/debug/stacks", 403),
        ("scraper", "GET", "/debug/objects", 403),
        ("scraper", "GET", LEVEL_PATH, 403),
        ("person", "GET", LEVEL_PATH, 200),
        ("person", "PUT", LEVEL_PATH, 403),
        ("person", "GET", "/debug/stacks", 403),
        ("person", "GET", "/metrics", 200),
        ("person", "GET", "/debug", 404),
        ("person", "GET", "/debug/stacks/", 404),
    ],
)
async def test_each_page_is_a_right_of_its_own(who: str, method: str, path: str, status: int) -> None:
    app = MetricsApp(Metrics(), Guard(Reviewer()), Debug())
    headers = {"authorization": f"Bearer {who}"} if who else {}
    answer = await post(app, path, change("error"), method=method, **headers)
    assert answer.status == status
    assert logging.getLogger().level == logging.INFO
