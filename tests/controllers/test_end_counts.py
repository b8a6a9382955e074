"""Ends of JobSets are counted once, when a real informer reports them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from api.jobset import JobSet
from controllers.jobset.endings import Endings
from controllers.jobset.memory import Memories
from controllers.resources import JOBSETS
from kube.client import Client
from kube.errors import TransportError
from kube.informer import Informer
from tests.support.beside import beside
from tests.support.model.faults import FaultyTransport, LostAnswer
from tests.support.model.memory_api import MemoryApi
from tests.support.model.tally import Tally

RUNNING = {"status": {"restarts": 0}}
FAILED = {"status": {"restarts": 0, "terminalState": "Failed"}}
COMPLETED = {"status": {"restarts": 0, "terminalState": "Completed"}}
ONE_FAILED = [("ns", "a", "Failed")]


class Leader:
    """A process whose watch runs; `lead` makes it the one that reconciles."""

    def __init__(self, api: MemoryApi) -> None:
        self.api = api
        self.memories = Memories()
        self.transport = FaultyTransport(api)
        self.client = Client(self.transport)
        self.informer = Informer(self.client, JOBSETS, JobSet)
        self.tally = Tally()
        self.endings = Endings(self.tally, self.memories)

    def lead(self) -> None:
        self.informer.on_event(self.endings.on_event)

    async def caught_up(self) -> None:
        """Wait until the watch has delivered everything; a bookmark comes when there is nothing."""
        while self.informer.store.watched_version < self.api.revision:  # noqa: ASYNC110 -- virtual time, the store has no event
            await asyncio.sleep(1)

    async def write(self, status: dict[str, Any], name: str = "a") -> None:
        """Store a status as a reconcile does: the answer is laid over the store before the watch has seen it."""
        stored = await self.client.patch(JOBSETS, name, status, namespace="ns", subresource="status", type=JobSet)
        self.informer.store.overlay(stored)


@contextlib.asynccontextmanager
async def leader(api: MemoryApi) -> AsyncIterator[Leader]:
    """A process whose caches are synced and that does not lead yet."""
    process = Leader(api)
    async with beside(process.informer.run()):
        await process.informer.wait_synced(60)
        yield process


@pytest.mark.looptime
class TestEndings:
    @pytest.mark.parametrize("end", [FAILED, COMPLETED])
    async def test_defect_10_an_end_is_counted_when_the_watch_shows_it_and_once(self, end):
        api = MemoryApi()
        async with leader(api) as process:
            process.lead()
            api.put("jobsets", "a", **RUNNING)
            await process.caught_up()
            await process.write(end)
            assert process.informer.store.get("ns", "a").status.terminal_state, "readers see it at once"
            assert process.tally.finished_ == [], "it is counted when it is known to be stored, not before"
            await process.caught_up()
            assert process.tally.finished_ == [("ns", "a", end["status"]["terminalState"])]
            api.put("jobsets", "a", **end, metadata={"labels": {"touched": "1"}})
            await process.caught_up()
            assert len(process.tally.finished_) == 1, "a later change of a finished JobSet is no end"

    @pytest.mark.parametrize(("reason", "counted"), [("DeadlineExceeded", [("ns", "a")]), ("FailedJobs", [])])
    async def test_an_end_by_the_deadline_is_counted_beside_it(self, reason, counted):
        api = MemoryApi()
        async with leader(api) as process:
            process.lead()
            api.put("jobsets", "a", **RUNNING)
            await process.caught_up()
            why = {"type": "Failed", "status": "True", "reason": reason}
            await process.write({"status": {**FAILED["status"], "conditions": [why]}})
            await process.caught_up()
        assert (process.tally.finished_, process.tally.too_long) == (ONE_FAILED, counted)

    async def test_what_is_new_counts_though_readers_have_seen_it_in_the_answer(self):
        """The answer to a write is mostly there before the event, and is the `old` of it."""
        api = MemoryApi()
        ended = [{"message": f"{reason}: x", "attempt": 0} for reason in ("StartTimeout", "NodeFailure")]
        async with leader(api) as process:
            process.lead()
            api.put("jobsets", "a", status={"restarts": 0, "recovery": {"runningSeconds": 1, "lostSeconds": 1}})
            await process.caught_up()
            spent = {"runningSeconds": 61, "lostSeconds": 8}
            await process.write({"status": {"restarts": 1, "attemptHistory": ended, "recovery": spent}})
            assert process.tally.by_node == 0
            await process.caught_up()
        tally = process.tally
        assert (tally.too_late, tally.by_node, tally.seconds) == ([("ns", "a")], 1, [(60, 7)])

    async def test_attempts_that_end_because_a_pod_is_late_are_counted_once_each(self):
        api = MemoryApi()
        late, other = ({"message": f"{reason}: x", "attempt": 0} for reason in ("StartTimeout", "BackoffLimitExceeded"))
        async with leader(api) as process:
            process.lead()
            for history in ([], [late], [late], [late, other], [late, other, {**late, "attempt": 2}]):
                api.put("jobsets", "a", status={"restarts": len(history), "attemptHistory": history})
                await process.caught_up()
            api.put("jobsets", "b", status={"restarts": 1, "attemptHistory": [late]})
            await process.caught_up()
        assert process.tally.too_late == [("ns", "a")] * 2, "what an earlier process has counted does not count again"

    async def test_attempts_that_a_node_ended_are_counted_without_names(self):
        api = MemoryApi()
        lost, other = ({"message": f"{reason}: x", "attempt": 0} for reason in ("NodeFailure", "BackoffLimitExceeded"))
        async with leader(api) as process:
            process.lead()
            for history in ([], [lost], [lost, other], [lost, other, {**lost, "attempt": 2}]):
                api.put("jobsets", "a", status={"restarts": len(history), "attemptHistory": history})
                await process.caught_up()
        assert process.tally.by_node == 2

    async def test_seconds_are_counted_as_they_grow_and_only_here(self):
        api = MemoryApi()
        async with leader(api) as process:
            process.lead()
            for running, lost in ((100, 5), (100, 5), (160, 5), (160, 12)):
                spent = {"runningSeconds": running, "lostSeconds": lost}
                api.put("jobsets", "a", status={"restarts": 0, "recovery": spent})
                await process.caught_up()
        assert [sum(of) for of in zip(*process.tally.seconds, strict=True)] == [60, 7]

    async def test_defect_10_a_lost_answer_loses_no_count_and_the_retry_adds_none(self):
        api = MemoryApi()
        async with leader(api) as process:
            process.lead()
            api.put("jobsets", "a", **RUNNING)
            await process.caught_up()
            process.transport.inject(LostAnswer(), verb="patch")
            with pytest.raises(TransportError):
                await process.write(FAILED)
            await process.write(FAILED)
            await process.caught_up()
        assert process.tally.finished_ == ONE_FAILED

    async def test_a_new_jobset_of_the_same_name_is_counted_again(self):
        api = MemoryApi()
        async with leader(api) as process:
            process.lead()
            for end in (FAILED, COMPLETED):
                api.put("jobsets", "a", **RUNNING)
                await process.caught_up()
                api.put("jobsets", "a", **end)
                api.drop("jobsets", "a")
                await process.caught_up()
            assert process.tally.finished_ == [("ns", "a", "Failed"), ("ns", "a", "Completed")]
            assert process.tally.forgotten == [("ns", "a")] * 2

    async def test_a_finished_jobset_of_the_same_name_in_a_new_list_is_not_counted(self):
        api = MemoryApi()
        async with leader(api) as process:
            process.lead()
            api.put("jobsets", "a", **RUNNING)
            await process.caught_up()
            api.drop("jobsets", "a")
            api.put("jobsets", "a", **FAILED)
            api.compact()
            api.cut_streams()
            await process.caught_up()
        assert process.tally.finished_ == []

    async def test_jobsets_of_other_controllers_do_not_count(self):
        api = MemoryApi()
        spec = {"managedBy": "kueue.x-k8s.io/multikueue"}
        async with leader(api) as process:
            process.lead()
            api.put("jobsets", "a", spec=spec, **RUNNING)
            await process.caught_up()
            api.put("jobsets", "a", spec=spec, **COMPLETED)
            await process.caught_up()
        assert process.tally.finished_ == []

    async def test_jobsets_that_ended_or_are_gone_are_forgotten(self):
        api = MemoryApi()
        async with leader(api) as process:
            process.lead()
            for number in range(50):
                api.put("jobsets", f"run-{number}", **RUNNING)
            await process.caught_up()
            assert len(process.memories) == 50
            for number in range(50):
                if number % 2:
                    api.put("jobsets", f"run-{number}", **COMPLETED)
                else:
                    api.drop("jobsets", f"run-{number}")
            await process.caught_up()
            assert len(process.memories) == 25, "one for each that is there"
        assert len(process.tally.finished_) == 25
