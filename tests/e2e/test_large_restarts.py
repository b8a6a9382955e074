"""Large sets that restart while their old pods take time to end: what was, from the history of watches and the audit log."""

from collections.abc import Iterator
from typing import Any

import pytest

from dev.cluster import audit
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import history, version_now, wait_for

JSON = dict[str, Any]

GRACE = "kwok.jobset.dev/grace-seconds"
ATTEMPT, JOB = "jobset.sigs.k8s.io/restart-attempt", "batch.kubernetes.io/job-name"
JOBS = 12


class Changes:
    """What happens to Jobs and pods of a namespace from now on."""

    def __init__(self, sets: Sets) -> None:
        self._cluster = sets.cluster
        self._paths = {
            "pods": f"/api/v1/namespaces/{sets.namespace}/pods",
            "jobs": f"/apis/batch/v1/namespaces/{sets.namespace}/jobs",
        }
        # Not from the beginning: the API server keeps some hundred events of a kind.
        self._since = {kind: version_now(self._cluster, path) for kind, path in self._paths.items()}

    def created(self, attempt: int) -> dict[str, int]:
        """When each Job of an attempt was created, by name."""
        found = [job for kind, job in self._events("jobs", attempt) if kind == "ADDED"]
        assert len({job["metadata"]["name"] for job in found}) == len(found), "a Job was created twice"
        return {job["metadata"]["name"]: int(job["metadata"]["resourceVersion"]) for job in found}

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
        for event in history(self._cluster, self._paths[kind], self._since[kind]):
            if event["object"]["metadata"]["labels"].get(ATTEMPT) == str(attempt):
                yield event["type"], event["object"]


@pytest.mark.timeout(120)
def test_one_call_deletes_and_no_job_meets_its_old_pods(sets: Sets, manager):
    rjob = group(replicas=JOBS, pods_per_job=2, annotations={GRACE: "3"})
    sets.apply(manifest(rjob, failurePolicy={"maxRestarts": 3}))
    sets.wait_ready(JOBS)
    changes, start = Changes(sets), audit.log_size(sets.cluster.audit_log)
    sets.end(sets.pods()[0], 1)
    wait_for(lambda: sets.status().get("restarts") == 1, what="the restart")
    sets.wait_ready(JOBS)
    created, ended = changes.created(1), changes.ended(0)
    assert len(created) == len(ended) == JOBS
    early = {job: (ended[job], version) for job, version in created.items() if ended[job] > version}
    assert early == {}, "created while pods of the earlier attempt could run"
    calls = manager.calls(start, namespace=sets.namespace)
    assert calls["deletecollection", "jobs", 200] == 1
    assert calls["delete", "jobs", 200] == 0
    assert calls["create", "jobs", 201] == JOBS
    assert {key for key in calls if key[2] >= 400} == set(), "nothing refused, nothing in conflict"
