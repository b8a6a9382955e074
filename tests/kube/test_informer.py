"""Which keys an informer puts into a queue, and with what priority."""

import asyncio

import pytest

from api.jobset import JobSet
from controllers.resources import JOBSETS
from kube.client import Client
from kube.informer import Informer
from kube.workqueue import LOW_PRIORITY, WorkQueue
from tests.support.model.memory_api import MemoryApi


@pytest.mark.looptime
@pytest.mark.parametrize("takes_over", [False, True], ids=["fed from the start", "takes over later"])
async def test_what_changes_goes_before_what_was_there_already(takes_over: bool):
    """A standby has all JobSets when it takes over: one that fails then does not wait for the others."""
    api, queue = MemoryApi(), WorkQueue[str]()
    for name in ("a", "b", "c"):
        api.put("jobsets", name, "ns", spec={})
    informer = Informer(Client(api), JOBSETS, JobSet)
    if not takes_over:
        informer.enqueue(queue, lambda js: [js.metadata.name])
    async with asyncio.TaskGroup() as group:
        running = group.create_task(informer.run())
        await informer.wait_synced(60)
        if takes_over:
            informer.enqueue(queue, lambda js: [js.metadata.name])
        assert queue.depth() == {LOW_PRIORITY: 3}
        api.put("jobsets", "c", "ns", metadata={"labels": {"changed": "true"}}, spec={})
        await asyncio.sleep(1)
        assert queue.depth() == {LOW_PRIORITY: 2, 0: 1}
        assert [await queue.get() for _ in range(3)] == ["c", "a", "b"]
        running.cancel()
