"""The page, `jobset explain` and the Python client give a set the same state."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from api.jobset import JobSet
from diagnose.reasons import explain
from diagnose.states import State
from jobset_client.models import JobSet as ClientJobSet
from jobset_client.states import state_in_words
from tests.support.explain.objects import MOMENT, NOW, at, condition, facts, job_of, lease, made
from tests.support.objects.jobsets import jobset, rjob, stored
from ui.records import trimmed_jobset
from ui.views import row

JSON = dict[str, Any]
COUNTS = {"name": "workers", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
RESTARTING = condition("RestartingJobSet", "DefaultFailurePolicy")


def failed(*minutes: float) -> JSON:
    """The history of a set of which attempts failed so many minutes ago."""
    times = [at(NOW - timedelta(minutes=ago)) for ago in minutes]
    history = [{"attempt": n, "time": time, "failedJob": "train-workers-0"} for n, time in enumerate(times)]
    return {"restarts": len(history), "attemptHistory": history}


CASES = {
    "new": ({}, {}, State.WAITING),
    "runs": ({}, {"replicatedJobsStatus": [COUNTS]}, State.RUNNING),
    "completed": ({}, {"terminalState": "Completed", "conditions": [condition("Completed", "x")]}, State.COMPLETED),
    "failed": ({}, {"terminalState": "Failed", "conditions": [condition("Failed", "x")]}, State.FAILED),
    "suspended": ({"suspend": True}, {"conditions": [condition("Suspended", "SuspendedJobs")]}, State.SUSPENDED),
    "restarts": ({}, {"conditions": [RESTARTING], **failed(1)}, State.RESTARTING),
    "keeps failing, and restarts": ({}, {"conditions": [RESTARTING], **failed(9, 1)}, State.KEEPS_FAILING),
    "keeps failing, and runs": ({}, {"replicatedJobsStatus": [COUNTS], **failed(59, 1)}, State.KEEPS_FAILING),
    "has failed long ago": ({}, {"replicatedJobsStatus": [COUNTS], **failed(62, 1)}, State.RUNNING),
    "elsewhere": ({"managedBy": "kueue.x-k8s.io/multikueue"}, {}, State.ELSEWHERE),
    "ours by name": ({"managedBy": "jobset.sigs.k8s.io/jobset-controller"}, {}, State.WAITING),
}


@pytest.mark.parametrize(("spec", "status", "state"), CASES.values(), ids=CASES)
def test_all_three_say_the_same_state(spec: JSON, status: JSON, state: State):
    body = made(stored(jobset(rjob(), **spec)), **status)
    js = msgspec.convert(body, JobSet)
    attempt = 0 if state is State.RESTARTING else status.get("restarts", 0)
    job = made(job_of(body, 0, attempt=attempt), active=1, ready=1)
    here = [] if state in {State.SUSPENDED, State.ELSEWHERE, State.WAITING} else [job]
    assert explain(facts(body, here, [], lease=lease())).state is state
    assert row(js, NOW)["state"] == state.word
    assert state_in_words(ClientJobSet.from_dict(body), NOW) == state.phrase


def test_a_set_that_is_being_deleted():
    body = made(stored(jobset(rjob())))
    body["metadata"]["deletionTimestamp"] = at(MOMENT)
    assert explain(facts(body, [], [], lease=lease())).state is State.DELETED
    assert row(msgspec.convert(body, JobSet), NOW)["state"] == State.DELETED.word
    assert state_in_words(ClientJobSet.from_dict(body), NOW) == State.DELETED.phrase


@pytest.mark.parametrize(
    ("restarts", "minutes", "state"),
    [([2], 9, State.KEEPS_FAILING), ([1], 9, State.RUNNING), ([2], 61, State.RUNNING)],
)
def test_a_set_whose_job_is_restarted_alone_again_and_again(restarts: list[int], minutes: float, state: State):
    body = made(stored(jobset(rjob())), replicatedJobsStatus=[{**COUNTS, "jobRestarts": restarts}])
    job = made(job_of(body, 0, attempt=0), active=1, ready=1)
    job["metadata"]["labels"]["jobset.sigs.k8s.io/job-restart-attempt"] = str(restarts[0])
    job["metadata"]["creationTimestamp"] = at(NOW - timedelta(minutes=minutes))
    assert explain(facts(body, [job], [], lease=lease())).state is state
    kept = trimmed_jobset(msgspec.convert(body, JobSet))
    assert row(kept, NOW, {job["metadata"]["name"]: job["metadata"]["creationTimestamp"]})["state"] == state.word
    assert row(kept, NOW)["state"] == State.RUNNING.word
