"""What the log says is written: nothing once the lease has run out, and nothing twice that is only tried again."""

import contextlib
import logging

import pytest

from kube.errors import KubeError
from tests.support.model.blind import Blind
from tests.support.model.memory_api import MemoryApi, refuse, serve
from tests.support.objects.stored_sets import jobset, rjob


async def test_what_is_tried_again_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "controllers.jobset.controller")
    api = MemoryApi(answering=refuse(403, "no right", verb="create"))
    blind = Blind(api, jobset(rjob("workers", 2)))
    for _ in range(3):
        with contextlib.suppress(ExceptionGroup, KubeError):
            await blind.reconcile()
    said = "create 1 Service, create 2 Jobs"
    assert [said in line for line in caplog.messages].count(True) == 1
    api.answering = serve
    await blind.reconcile()
    assert [said in line for line in caplog.messages].count(True) == 1, "the same, and now it is done"
    assert len(api.objects("jobs")) == 2
