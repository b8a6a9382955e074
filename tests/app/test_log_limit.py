"""Nobody who reaches a port can fill the log, whichever part of the program or of a library writes the lines."""

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from app import logs
from app.health import Health
from app.log_limit import LINES_PER_SECOND, OWN_LINES, UNLIMITED
from tests.support.objects.jobsets import jobset
from tests.support.objects.reviews import review
from tests.support.webhook_app import ask
from webhooks.jobset.handlers import VALIDATE_PATH
from webhooks.review import AdmissionResponse
from webhooks.router import create_app


class Seconds:
    """The time of records."""

    now = 1_000.0


@pytest.fixture
def seconds() -> Iterator[Seconds]:
    """Time passes when a test says so."""
    factory, when = logging.getLogRecordFactory(), Seconds()

    def record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        made = factory(*args, **kwargs)
        made.created = when.now
        return made

    logging.setLogRecordFactory(record)
    yield when
    logging.setLogRecordFactory(factory)


@pytest.fixture
def out(seconds: Seconds) -> Iterator[io.StringIO]:
    """What the handler of the manager writes, as JSON."""
    del seconds
    root = logging.getLogger()
    levels = {name: logging.getLogger(name).level for name in (None, *logs.QUIET_LIBRARIES)}
    handlers, stream = list(root.handlers), io.StringIO()
    logs.configure(logs.parse(devel=False), stream)
    yield stream
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def messages(out: io.StringIO) -> list[str]:
    return [json.loads(line)["msg"] for line in out.getvalue().splitlines()]


async def test_connections_cannot_fill_the_log(out: io.StringIO):
    server = Health().server(("127.0.0.1", 0))
    running = asyncio.create_task(server.run())
    await server.started.wait()
    for _ in range(2 * LINES_PER_SECOND):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"garbage\r\n\r\n")
        await reader.read()
        writer.close()
    server.stop()
    await running
    said = messages(out)
    assert said, "uvicorn warns of each of these requests"
    assert len(said) <= LINES_PER_SECOND


async def test_reviews_of_strangers_cannot_fill_the_log(out: io.StringIO, seconds: Seconds):
    app = create_app({VALIDATE_PATH: lambda _: AdmissionResponse()}, validating_paths={VALIDATE_PATH})
    for _ in range(LINES_PER_SECOND + 5):
        await ask(review(jobset()), app=app)
    assert messages(out) == ["admitted CREATE default/train"] * LINES_PER_SECOND
    seconds.now += 1
    await ask(review(jobset()), app=app)
    assert messages(out)[LINES_PER_SECOND:] == [
        f"lines left out, beyond {LINES_PER_SECOND} in a second: 5, such as: admitted %s",
        "admitted CREATE default/train",
    ]


@pytest.mark.parametrize("name", ["uvicorn.error", "asyncio", "httpserver.protocol", "a.logger.of.tomorrow"])
def test_every_logger_is_limited_without_being_named_anywhere(name: str, out: io.StringIO, seconds: Seconds):
    for number in range(3 * LINES_PER_SECOND):
        logging.getLogger(name).warning(f"what {number} strangers write")  # noqa: G004 -- as libraries do it
    assert len(messages(out)) == LINES_PER_SECOND
    logging.getLogger(name).warning("another place has lines of its own")
    seconds.now += 1
    logging.getLogger("any.other").error("later")
    assert messages(out)[LINES_PER_SECOND:] == [
        "another place has lines of its own",
        f"lines left out, beyond {LINES_PER_SECOND} in a second: {2 * LINES_PER_SECOND}, such as: what 100 strangers write",
        "later",
    ]


def test_all_places_share_the_lines_of_a_second_and_each_has_a_few_of_its_own(out: io.StringIO):
    names = [f"place.{number}" for number in range(10)]
    for _ in range(LINES_PER_SECOND):
        for name in names:
            logging.getLogger(name).warning("line of %s", name)
    logging.getLogger("quiet.so.far").error("the certificate cannot be renewed")
    said = messages(out)
    assert len(said) == LINES_PER_SECOND + 1
    assert said[-1] == "the certificate cannot be renewed"
    assert all(said.count(f"line of {name}") >= OWN_LINES for name in names)


def test_what_was_left_out_last_is_said_at_the_end(out: io.StringIO):
    for _ in range(LINES_PER_SECOND + 1):
        logging.getLogger("uvicorn.error").warning("again")
    logging.getLogger().handlers[0].close()
    assert messages(out)[-1] == f"lines left out, beyond {LINES_PER_SECOND} in a second: 1, such as: again"


def test_requests_reach_no_logger_without_a_limit():
    """What serves requests does not even load these modules."""
    served = "httpserver.server, webhooks.router, webhooks.jobset.handlers, webhooks.pod.handlers, app.metrics_server"
    asked = f"import sys, {served}; print([name for name in {list(UNLIMITED)} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)  # noqa: S603 (ourselves)
    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize("name", UNLIMITED)
def test_the_decisions_of_the_controller_are_all_written(name: str, out: io.StringIO):
    for _ in range(2 * LINES_PER_SECOND):
        logging.getLogger(name).info("restart 1")
    assert len(messages(out)) == 2 * LINES_PER_SECOND
