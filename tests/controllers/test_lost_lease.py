"""A process that was stopped until its lease ran out writes nothing, and its log does not say that it does."""

import logging

import pytest

from kube.leader import LeadershipLostError
from tests.support.blind import Blind
from tests.support.memory_api import MemoryApi
from tests.support.stored_sets import jobset, rjob


async def test_what_is_not_written_is_not_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "controllers.jobset.controller")
    api = MemoryApi()
    blind = Blind(api, jobset(rjob("workers", 2)))
    lost = True

    def guard() -> None:
        if lost:
            raise LeadershipLostError("lease x was not renewed in time: nothing is written")

    blind.reconciler._client = blind.reconciler._client.guarded(guard)
    with pytest.raises(LeadershipLostError, match="nothing is written"):
        await blind.reconcile()
    assert caplog.messages == []
    lost = False
    await blind.reconcile()
    assert any("create 1 Service, create 2 Jobs" in line for line in caplog.messages)
