"""A JobSet that etcd stores, and that would be too large with its status: what the API server says, and what is told."""

import pytest

from api.jobset import JobSet
from api.jobset_status import JobSetStatus, ReplicatedJobStatus
from controllers.jobset.execute import Caches, Executor
from controllers.planning.actions import Plan
from controllers.resources import JOBSETS
from kube.controller import is_terminal
from kube.errors import ApiError
from kube.store import Store
from tests.support.cluster.kube_client import connected
from tests.support.cluster.requests import request
from tests.support.model.blind import RecordedEvents
from tests.support.objects.jobsets import jobset, rjob

KIB = 1024


async def test_a_status_for_which_etcd_has_no_room_is_told_in_an_event(jobset_server, namespace):
    large = jobset(
        rjob(pod={"containers": [{"name": "main", "image": "busybox", "args": ["x" * KIB] * 1500}]}),
        namespace=namespace,
    )
    counts = ReplicatedJobStatus(name="workers", ready=1, succeeded=0, failed=0, active=1, suspended=0)
    status = JobSetStatus(replicated_jobs_status=(counts,), ready_jobs="1" * 60 * KIB)
    notes = RecordedEvents()
    assert request(jobset_server, "POST", JOBSETS.path(namespace), large)[0] == 201
    async with connected(jobset_server.kubeconfig) as (client, _):
        stored = await client.get(JOBSETS, "train", type=JobSet, namespace=namespace)
        caches = Caches(Store(), Store(), Store(), Store())
        caches.jobsets.apply(stored)
        executor = Executor(client, caches, notes)
        with pytest.raises(ApiError) as refused:
            await executor.execute(stored, Plan(status=status))
    assert refused.value.too_large
    assert not is_terminal(refused.value)
    assert [reason for reason, _ in notes.notes] == ["StatusTooLarge"]
    assert "etcd" in notes.notes[0][1]
