"""A watch that fails fills no log: a line at the begin, one a minute, one at the end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kube.client import Client
from kube.errors import Forbidden, KubeError, Status, TransportError
from kube.informer import Informer
from kube.interruptions import Interruptions
from kube.transport import Request, Response
from tests.support.kube_objects import THINGS, Thing
from tests.support.memory_api import MemoryApi
from tests.support.virtual import run

DENIED = Forbidden(403, Status(message="no things for you"))
LOGGER = logging.getLogger("kube.reflector")


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kube.reflector")


class Forbidding(MemoryApi):
    """Refuses everything while `denied`."""

    denied = True

    async def send(self, request: Request) -> Response:
        if self.denied:
            return Response(403, {}, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no things for you"}')
        return await super().send(request)

    def stream(self, request: Request):
        if self.denied:
            raise DENIED
        return super().stream(request)


def test_a_right_that_is_missing_is_named_at_once_and_then_once_a_minute(caplog: pytest.LogCaptureFixture):
    async def story() -> None:
        api = Forbidding()
        informer = Informer(Client(api), THINGS, Thing)
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(600)
        api.denied = False
        api.put(THINGS.plural, "a")
        await informer.wait_synced(60)
        task.cancel()

    run(story)
    lines = [record.getMessage() for record in caplog.records]
    right = f"the right to list and watch {THINGS} is missing, apply the manager's ClusterRoles again: "
    assert lines[0].startswith(f"the watch of {THINGS} fails, for 0 s now (tries: 1): {right}")
    assert "no things for you" in lines[0]
    assert 4 <= len(lines) - 2 <= 10, lines
    assert lines[-1].startswith(f"the watch of {THINGS} works again after 6")


class Log:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 0.0
        self._records = caplog.records
        self.interruptions = Interruptions("pods", LOGGER, lambda: self.now)

    def failed(self, error: KubeError, *, after: float = 1.0) -> list[tuple[str, str]]:
        self.now += after
        self._records.clear()
        self.interruptions.failed(error)
        return [(record.levelname, record.getMessage()) for record in self._records]


def test_one_interruption_is_no_warning_and_another_kind_of_failure_is_told_at_once(caplog):
    log, reset = Log(caplog), TransportError("connection reset")
    assert log.failed(reset) == [("INFO", "the watch of pods is interrupted: connection reset")]
    log.interruptions.over()
    assert len(caplog.records) == 1, "an end of what was no problem is no news"
    assert [level for level, _ in log.failed(reset)] == ["INFO"]
    assert log.failed(reset) == [("WARNING", "the watch of pods fails, for 1 s now (tries: 2): connection reset")]
    assert log.failed(reset, after=50) == []
    assert len(log.failed(DENIED)) == 1
    assert log.failed(DENIED, after=59) == []
    assert len(log.failed(DENIED, after=1)) == 1
