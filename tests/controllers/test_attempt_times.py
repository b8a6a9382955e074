"""How long attempts took until their Jobs existed and were ready, each reported once."""

from typing import Any

import msgspec
import pytest

from api import keys
from api.batch import Job
from api.jobset import JobSet
from controllers.jobset.memory import Memories
from controllers.jobset.milestones import Stopwatch
from kube.controller import Request
from tests.support.model.tally import Tally

WHO = Request("ns", "a")
CREATED_AT = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""


def counts(**of: int) -> list[dict[str, Any]]:
    zero = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
    return [{"name": "workers", **zero, **of}]


def jobset(replicas: int = 2, *, uid: str = "1", suspend: bool = False, **status: Any) -> JobSet:
    body = {
        "metadata": {"namespace": "ns", "name": "a", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"suspend": suspend, "replicatedJobs": [{"name": "workers", "replicas": replicas, "template": {}}]},
        "status": status,
    }
    return msgspec.convert(body, JobSet)


def jobs(*indexes: int, attempt: int = 0) -> list[Job]:
    def body(index: int) -> dict[str, Any]:
        place = {keys.REPLICATED_JOB_NAME: "workers", keys.JOB_INDEX: str(index), keys.RESTART_ATTEMPT: str(attempt)}
        return {"metadata": {"name": f"a-workers-{index}", "labels": place}}

    return [msgspec.convert(body(index), Job) for index in indexes]


READY = jobset(replicatedJobsStatus=counts(ready=2))
UNREADY = jobset(replicatedJobsStatus=counts(ready=1))
SUSPENDED = jobset(suspend=True, replicatedJobsStatus=counts(suspended=2))


class Watch:
    """A stopwatch, with what a reconciler remembers between its looks."""

    def __init__(self, tally: Tally) -> None:
        self.stopwatch, self.memories = Stopwatch(tally), Memories()

    def saw(self, js: JobSet, jobs: list[Job], now: float) -> None:
        memory = self.memories.get_or_create(WHO, js.metadata.uid)
        memory.attempt_times = self.stopwatch.note(memory.attempt_times, js, jobs, now)

    def measures(self, uid: str = "1") -> bool:
        memory = self.memories.get(WHO, uid)
        return memory is not None and memory.attempt_times is not None


class TestStopwatch:
    @pytest.fixture
    def tally(self):
        return Tally()

    @pytest.fixture
    def watch(self, tally):
        return Watch(tally)

    def test_an_attempt_is_measured_from_creation(self, watch, tally):
        watch.saw(jobset(), [], CREATED_AT + 0.25)
        watch.saw(jobset(), jobs(0), CREATED_AT + 0.5)
        assert tally.times == []
        watch.saw(jobset(replicatedJobsStatus=counts()), jobs(0, 1), CREATED_AT + 0.75)
        assert tally.times == [("created", 0.5)]
        watch.saw(UNREADY, jobs(0, 1), CREATED_AT + 3)
        watch.saw(READY, jobs(0, 1), CREATED_AT + 4)
        assert tally.times == [("created", 0.5), ("ready", 3.75)]

    def test_an_api_server_whose_clock_is_ahead_gives_no_negative_times(self, watch, tally):
        watch.saw(jobset(), [], CREATED_AT - 5)
        watch.saw(READY, jobs(0, 1), CREATED_AT - 4)
        assert tally.times == [("created", 1), ("ready", 1)]

    def test_a_clock_that_is_set_back_gives_no_negative_times(self, watch, tally):
        watch.saw(jobset(), [], CREATED_AT + 0.5)
        watch.saw(READY, jobs(0, 1), CREATED_AT - 100)
        assert tally.times == [("created", 0), ("ready", 0)]

    def test_each_time_is_reported_once_whatever_happens_later(self, watch, tally):
        watch.saw(jobset(), [], CREATED_AT)
        for second in range(1, 10):
            watch.saw(READY if second % 2 else UNREADY, jobs(0, 1) if second % 3 else jobs(0), CREATED_AT + second)
        assert tally.times == [("created", 1), ("ready", 1)]

    def test_what_an_earlier_process_began_is_not_measured(self, watch, tally):
        watch.saw(UNREADY, jobs(0), CREATED_AT + 3600)
        watch.saw(READY, jobs(0, 1), CREATED_AT + 3601)
        assert tally.times == []

    def test_a_set_that_was_ready_before_this_process_is_not_reported(self, watch, tally):
        for second in range(3):
            watch.saw(READY, jobs(0, 1), CREATED_AT + second)
        assert tally.times == []

    def test_a_set_that_is_created_suspended_has_its_jobs_measured_and_is_not_ready(self, watch, tally):
        watch.saw(jobset(suspend=True), [], CREATED_AT)
        watch.saw(jobset(suspend=True, replicatedJobsStatus=counts(ready=2)), jobs(0, 1), CREATED_AT + 2)
        assert tally.times == [("created", 2)]

    def test_a_suspension_in_mid_start_breaks_it_off(self, watch, tally):
        watch.saw(jobset(), [], CREATED_AT)
        watch.saw(SUSPENDED, jobs(0), CREATED_AT + 1)
        watch.saw(SUSPENDED, jobs(0, 1), CREATED_AT + 2)
        assert tally.times == []

    def test_a_restart_before_the_first_ready_is_reported_as_a_restart_only(self, watch, tally):
        watch.saw(jobset(), [], CREATED_AT)
        watch.saw(UNREADY, jobs(0, 1), CREATED_AT + 1)
        last = {"reason": "DefaultFailurePolicy", "startTime": "2026-01-01T00:00:02Z"}
        for second in (2, 3):
            again = jobset(restarts=1, replicatedJobsStatus=counts(), lastRestart=last)
            watch.saw(again, jobs(*range(second - 2), attempt=1), CREATED_AT + second)
        over = {"restarts": 1, "replicatedJobsStatus": counts(ready=2), "lastRestart": {**last, "durationSeconds": 7}}
        for second in (9, 10):
            watch.saw(jobset(**over), jobs(0, 1, attempt=1), CREATED_AT + second)
        assert tally.times == [("created", 1), ("restarted", 7)]

    def test_a_restart_that_was_over_before_this_process_is_not_reported(self, watch, tally):
        over = {"startTime": "2026-01-01T00:00:02Z", "durationSeconds": 7}
        watch.saw(jobset(restarts=1, replicatedJobsStatus=counts(), lastRestart=over), [], CREATED_AT + 9)
        assert tally.times == []

    def test_a_restart_that_another_one_overtook_is_not_reported(self, watch, tally):
        def at(second: int, **more: int) -> JobSet:
            last = {"startTime": f"2026-01-01T00:00:0{second}Z", **more}
            return jobset(restarts=second, replicatedJobsStatus=counts(), lastRestart=last)

        for seen in (at(1), at(2), at(2, durationSeconds=3), at(3), at(4, durationSeconds=9)):
            watch.saw(seen, [], CREATED_AT + 60)
        assert tally.times == [("restarted", 3)], "the third was never seen to end"

    def test_jobs_of_an_earlier_attempt_and_jobs_in_deletion_do_not_exist(self, watch, tally):
        started = jobset(replicatedJobsStatus=counts(), restarts=1)
        watch.saw(SUSPENDED, [], CREATED_AT)
        watch.saw(started, [], CREATED_AT + 1)
        leaving = [msgspec.structs.replace(job, metadata=_deleted(job)) for job in jobs(1, attempt=1)]
        watch.saw(started, [*jobs(0, attempt=1), *jobs(1), *leaving], CREATED_AT + 2)
        assert tally.times == []
        watch.saw(started, jobs(0, 1, attempt=1), CREATED_AT + 3)
        assert tally.times == [("created", 2)]

    def test_a_set_that_ends_at_once_was_ready_and_a_failed_one_was_not(self, watch, tally):
        watch.saw(jobset(), [], CREATED_AT)
        end = jobset(replicatedJobsStatus=counts(succeeded=2), terminalState="Completed")
        watch.saw(end, jobs(0, 1), CREATED_AT + 1)
        assert tally.times == [("created", 1), ("ready", 1)]
        watch.saw(jobset(uid="2"), [], CREATED_AT + 2)
        end = jobset(uid="2", replicatedJobsStatus=counts(failed=2), terminalState="Failed")
        watch.saw(end, [], CREATED_AT + 3)
        assert len(tally.times) == 2

    def test_memory_holds_live_jobsets_only(self, watch):
        for number in range(100):
            watch.saw(jobset(uid=str(number)), [], CREATED_AT)
        assert len(watch.memories) == 1, "one of that name"
        watch.memories.forget(WHO)
        watch.memories.forget(Request("ns", "never-seen"))
        assert len(watch.memories) == 0
        watch.saw(jobset(), [], CREATED_AT)
        for _ in range(2):
            watch.saw(jobset(terminalState="Failed"), [], CREATED_AT)
            assert not watch.measures(), "the end is the end, looked at again too"
        theirs = msgspec.structs.replace(jobset().spec, managed_by="kueue.x-k8s.io/multikueue")
        watch.saw(msgspec.structs.replace(jobset(), spec=theirs), [], CREATED_AT)
        assert not watch.measures(), "those of other controllers are not measured"


def _deleted(job: Job) -> Any:
    return msgspec.structs.replace(job.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
