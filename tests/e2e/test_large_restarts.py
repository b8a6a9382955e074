"""Large sets that restart while their old pods take time to end: what was, from the history of watches and the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dev.cluster import audit
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import MERGE, history, request, version_now, wait_for

JSON = dict[str, Any]

GRACE = "kwok.jobset.dev/grace-seconds"
ATTEMPT, JOB = "jobset.sigs.k8s.io/restart-attempt", "batch.kubernetes.io/job-name"
JOBS = 12
BLOCKING = {"maxRestarts": 3, "restartStrategy": "BlockingRecreate"}


class Restarts:
    """A set of twelve Jobs of two pods, each pod Terminating for `grace` seconds, and what happened to it."""

    def __init__(self, sets: Sets, grace: int, **policy: Any) -> None:
        self.sets = sets
        self._paths = {
            "pods": f"/api/v1/namespaces/{sets.namespace}/pods",
            "jobs": f"/apis/batch/v1/namespaces/{sets.namespace}/jobs",
        }
        rjob = group(replicas=JOBS, pods_per_job=2, annotations={GRACE: str(grace)})
        sets.apply(manifest(rjob, failurePolicy={"maxRestarts": 3, **policy}))
        sets.wait_ready(JOBS)
        # Not from the beginning: the API server keeps some hundred events of a kind.
        self._since = {kind: version_now(sets.cluster, path) for kind, path in self._paths.items()}

    def fail(self, job: str = "js-workers-0", attempt: int = 0) -> None:
        """Fail a Job, and wait until the restart is counted and every Job of that attempt is gone.

        A Job has failed when its other pods have ended.
        """
        self.sets.end(self.sets.pods(f"{JOB}={job}")[0], 1)
        self.let_go(job, attempt=attempt)
        wait_for(lambda: self.sets.status().get("restarts") == attempt + 1, what="the restart")
        wait_for(lambda: not self.of_attempt(attempt), what=f"no Job of attempt {attempt}")

    def of_attempt(self, number: int) -> list[str]:
        path = f"{self._paths['jobs']}?labelSelector={ATTEMPT}={number}"
        return sorted(job["metadata"]["name"] for job in request(self.sets.cluster, "GET", path)[1]["items"])

    def let_go(self, *jobs: str, attempt: int = 0) -> None:
        """Their old pods need no more time; those of all Jobs by default."""
        selector = f"{ATTEMPT}={attempt}" + (f",{JOB} in ({','.join(jobs)})" if jobs else "")
        path = self._paths["pods"]
        for pod in self.sets.pods(selector, ending=True):
            name, patch = pod["metadata"]["name"], {"metadata": {"annotations": {GRACE: None}}}
            status, _ = request(self.sets.cluster, "PATCH", f"{path}/{name}", patch, MERGE)
            assert status in {200, 404}

    def created(self, attempt: int) -> dict[str, int]:
        """When each Job of an attempt was created, by name."""
        found = [job for kind, job in self._events("jobs", attempt) if kind == "ADDED"]
        assert len({of["metadata"]["name"] for of in found}) == len(found), "a Job was created twice"
        return {of["metadata"]["name"]: int(of["metadata"]["resourceVersion"]) for of in found}

    def ended(self, attempt: int) -> dict[str, int]:
        """When the last pod of each Job of an attempt could not run any more, by name of the Job."""
        pods: dict[str, tuple[str, int]] = {}
        for kind, pod in self._events("pods", attempt):
            meta = pod["metadata"]
            is_only_finalized = "deletionTimestamp" in meta and meta["deletionGracePeriodSeconds"] == 0
            if kind == "DELETED" or is_only_finalized or pod["status"]["phase"] in {"Succeeded", "Failed"}:
                pods.setdefault(meta["uid"], (meta["labels"][JOB], int(meta["resourceVersion"])))
        return {name: max(version for job, version in pods.values() if job == name) for name, _ in pods.values()}

    def _events(self, kind: str, attempt: int) -> Iterator[tuple[str, JSON]]:
        for event in history(self.sets.cluster, self._paths[kind], self._since[kind]):
            if event["object"]["metadata"]["labels"].get(ATTEMPT) == str(attempt):
                yield event["type"], event["object"]

    def old_pods_went_first(self) -> None:
        created, ended = self.created(1), self.ended(0)
        assert len(created) == len(ended) == JOBS
        early = {job: (ended[job], version) for job, version in created.items() if ended[job] > version}
        assert early == {}, "created while pods of the earlier attempt could run"


@pytest.mark.timeout(120)
def test_one_call_deletes_and_no_job_meets_its_old_pods(sets: Sets, manager):
    restarts = Restarts(sets, grace=3)
    start = audit.size(sets.cluster.audit_log)
    restarts.fail()
    sets.wait_ready(JOBS)
    restarts.old_pods_went_first()
    calls = manager.calls(start, namespace=sets.namespace)
    assert calls["deletecollection", "jobs", 200] == 1
    assert calls["delete", "jobs", 200] == 0
    assert calls["create", "jobs", 201] == JOBS
    assert {key for key in calls if key[2] >= 400} == set(), "nothing refused, nothing in conflict"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_manager_killed_while_old_pods_are_left_keeps_the_promise(sets: Sets, manager):
    restarts = Restarts(sets, grace=600)
    restarts.fail()
    manager.kill()
    manager.start()
    restarts.let_go("js-workers-3")
    free = ["js-workers-0", "js-workers-3"]
    wait_for(lambda: restarts.of_attempt(1) == free, what="the first Jobs of the new manager")
    manager.kill()
    restarts.let_go("js-workers-4", "js-workers-5")
    manager.start()
    wait_for(lambda: restarts.of_attempt(1) == [*free, "js-workers-4", "js-workers-5"], what="two more")
    restarts.let_go()
    sets.wait_ready(JOBS)
    restarts.old_pods_went_first()
    assert sets.status()["restarts"] == 1


@pytest.mark.timeout(120)
@pytest.mark.slow
def test_blocking_recreate_waits_for_the_last_pod(sets: Sets):
    restarts = Restarts(sets, grace=600, **BLOCKING)
    restarts.fail()
    restarts.let_go(*(f"js-workers-{index}" for index in range(JOBS - 1)))
    wait_for(lambda: len(sets.pods(f"{ATTEMPT}=0", ending=True)) == 2, what="only the pods of the last Job are left")
    restarts.let_go()
    sets.wait_ready(JOBS)
    assert min(restarts.created(1).values()) > max(restarts.ended(0).values())


@pytest.mark.timeout(120)
@pytest.mark.slow
def test_a_restart_in_the_middle_of_another_waits_for_the_pods_of_both(sets: Sets):
    restarts = Restarts(sets, grace=600)
    restarts.fail()
    restarts.let_go("js-workers-1", "js-workers-2")
    wait_for(lambda: sets.counts()["ready"] == 3, what="three Jobs of the second attempt")
    restarts.fail("js-workers-1", attempt=1)
    restarts.let_go("js-workers-7")
    free = ["js-workers-1", "js-workers-7"]
    wait_for(lambda: restarts.of_attempt(2) == free, what="the Jobs without old pods")
    restarts.let_go()
    restarts.let_go(attempt=1)
    sets.wait_ready(JOBS)
    created, before = restarts.created(2), [restarts.ended(attempt) for attempt in (0, 1)]
    assert len(created) == JOBS
    assert all(version > of.get(job, 0) for job, version in created.items() for of in before)
