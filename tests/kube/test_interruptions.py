"""A watch that fails fills no log: a line at the begin, one a minute, one at the end."""

import asyncio
import logging

import pytest

from kube.client import Client
from kube.errors import Forbidden, KubeError, NotFound, Status, TransportError
from kube.informer import Informer
from kube.interruptions import Interruptions
from kube.transport import Response
from tests.support.model.memory_api import MemoryApi, refuse, serve
from tests.support.model.virtual import run
from tests.support.objects.kube_objects import THINGS, Thing

pytestmark = pytest.mark.looptime

DENIED = Forbidden(403, Status(message="no things for you"))
DENY = refuse(403, "no things for you")
LOGGER = logging.getLogger("kube.reflector")


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kube.reflector")


async def test_a_right_that_is_missing_is_named_at_once_and_then_once_a_minute(caplog: pytest.LogCaptureFixture):
    api = MemoryApi(answering=DENY)
    informer = Informer(Client(api), THINGS, Thing)
    task = asyncio.create_task(informer.run())
    await asyncio.sleep(600)
    api.answering = serve
    api.put(THINGS.plural, "a")
    await informer.wait_synced(60)
    await asyncio.sleep(1)
    task.cancel()
    lines = [record.getMessage() for record in caplog.records]
    right = f"the right to list and watch {THINGS} is missing, apply the manager's ClusterRoles again: kubectl "
    assert lines[0].startswith(f"the watch of {THINGS} fails, for 0 s now (tries: 1): {right}")
    assert "no things for you" in lines[0]
    assert 4 <= len(lines) - 2 <= 10, lines
    assert lines[-1].startswith(f"the watch of {THINGS} works again after 6")


def test_a_watch_that_is_refused_is_not_called_working_because_the_list_works(caplog: pytest.LogCaptureFixture):
    async def story() -> list[str]:
        api = MemoryApi(answering=refuse(403, "no things for you", verb="watch"))
        informer = Informer(Client(api), THINGS, Thing)
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(200)
        assert informer.synced, "the list works"
        before = [record.getMessage() for record in caplog.records]
        api.answering = serve
        await asyncio.sleep(61)
        task.cancel()
        return before

    before = run(story)
    assert not [line for line in before if "works again" in line]
    assert 3 <= len(before) <= 5, before
    assert all("the right to list and watch" in line and "no things for you" in line for line in before)
    after = [record.getMessage() for record in caplog.records[len(before) :]]
    assert len(after) == 1
    assert after[0].startswith(f"the watch of {THINGS} works again after 2")


async def test_a_resource_that_is_not_served_any_more_is_named_until_it_is_served(caplog: pytest.LogCaptureFixture):
    api = MemoryApi()
    informer = Informer(Client(api), THINGS, Thing)
    task = asyncio.create_task(informer.run())
    await informer.wait_synced(10)
    assert not informer.not_served
    api.answering = lambda _: Response(404, {}, b"404 page not found")
    api.cut_streams()
    await asyncio.sleep(30)
    assert informer.not_served
    assert any(f"the cluster does not serve {THINGS}: " in record.getMessage() for record in caplog.records)
    api.answering = serve
    await asyncio.sleep(120)
    assert not informer.not_served
    task.cancel()


async def test_watches_of_one_resource_are_told_apart_by_their_selectors(caplog: pytest.LogCaptureFixture):
    api = MemoryApi(answering=DENY)
    informer = Informer(Client(api), THINGS, Thing, label_selector="a=b", field_selector="c=d", remedy="ask for it")
    task = asyncio.create_task(informer.run())
    await asyncio.sleep(1)
    task.cancel()
    wanted = f"the watch of {THINGS} with a=b, c=d fails, for 0 s now (tries: 1): the right to list and watch {THINGS} is missing, ask for it: "
    assert caplog.records[0].getMessage().startswith(wanted)


def test_a_watch_that_opens_and_breaks_before_it_delivers_does_not_work(caplog: pytest.LogCaptureFixture):
    log = Log(caplog)
    log.failed(TransportError("reset"))
    log.interruptions.on_open()
    assert [level for level, _ in log.failed(TransportError("reset"))] == ["WARNING"]
    assert log.failed(NotFound(404, Status(message="gone"))) == [
        ("WARNING", "the watch of pods fails, for 2 s now (tries: 3): the cluster does not serve pods: 404: gone")
    ]


class Log:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 0.0
        self._records = caplog.records
        self.interruptions = Interruptions("pods", LOGGER, lambda: self.now, remedy="ask for it")

    def failed(self, error: KubeError, *, after: float = 1.0) -> list[tuple[str, str]]:
        self.now += after
        self._records.clear()
        self.interruptions.on_failure(error)
        return [(record.levelname, record.getMessage()) for record in self._records]


def test_one_interruption_is_no_warning_and_another_kind_of_failure_is_told_at_once(caplog):
    log, reset = Log(caplog), TransportError("connection reset")
    assert log.failed(reset) == [("INFO", "the watch of pods is interrupted: connection reset")]
    log.interruptions.end()
    assert len(caplog.records) == 1, "an end of what was not a problem is no news"
    assert [level for level, _ in log.failed(reset)] == ["INFO"]
    assert log.failed(reset) == [("WARNING", "the watch of pods fails, for 1 s now (tries: 2): connection reset")]
    assert log.failed(reset, after=50) == []
    assert len(log.failed(DENIED)) == 1
    assert log.failed(DENIED, after=59) == []
    assert len(log.failed(DENIED, after=1)) == 1
    caplog.records.clear()
    log.interruptions.end()
    log.interruptions.end()
    assert [record.getMessage() for record in caplog.records] == ["the watch of pods works again after 112 s"], "once"
