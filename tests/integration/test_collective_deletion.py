"""What the real API server makes of the selectors by which Jobs of large sets are found."""

import asyncio
from typing import Any

import msgspec
from msgspec.structs import replace

from api.batch import Job
from api.children import build_job
from api.features import FeatureGates
from api.jobset import JobSet
from api.layout import layout_of
from controllers.planning.batch_deletion import batch_deletions
from controllers.planning.child_jobs import sort_jobs
from controllers.planning.limits import DEFAULT_LIMITS
from dev.cluster.cluster import Cluster
from kube.client import Client
from kube.resources import JOBS
from tests.support.cluster.kube_client import connected
from tests.support.objects.stored_sets import jobset, rjob

SET = jobset(rjob("workers", 40))


def of(uid: str, restarts: int) -> JobSet:
    return replace(SET, metadata=replace(SET.metadata, uid=uid), status=replace(SET.status, restarts=restarts))


async def create(client: Client, namespace: str, js: JobSet, name: str, index: int) -> dict[str, Any]:
    """A Job of that set, attempt and index, suspended; under another name if it is to stand beside others."""
    layout = layout_of(js)
    [jobs] = layout.ranges
    body = build_job(js, layout, jobs, jobs.position("js", index))
    body["metadata"] |= {"name": name, "namespace": namespace}
    body["spec"]["suspend"] = True
    return await client.create(JOBS, body, namespace=namespace)


async def names(client: Client, namespace: str) -> set[str]:
    page = await client.list(JOBS, namespace=namespace)
    return {job["metadata"]["name"] for job in page.items or []}


async def test_exactly_those_jobs_go_and_at_once(jobset_server: Cluster, namespace: str):
    async with connected(jobset_server.kubeconfig) as (client, _):
        old, new, other = of("one", 0), of("one", 1), of("two", 0)
        made = await asyncio.gather(
            *(create(client, namespace, old, f"js-workers-{index}", index) for index in range(40) if index != 7)
        )
        await create(client, namespace, new, "js-workers-7", 7)
        await create(client, namespace, other, "theirs", 3)
        jobs = [msgspec.convert(job, Job) for job in made]
        previous = sort_jobs(new, jobs, layout_of(new), FeatureGates({})).previous
        deletions = batch_deletions(new, previous, layout_of(new), DEFAULT_LIMITS)
        assert [len(batch.jobs) for batch in deletions] == [30, 9]
        for batch, left in zip(deletions, (11, 2), strict=True):
            await client.delete_collection(
                JOBS, label_selector=batch.selector, namespace=namespace, propagation_policy="Background"
            )
            assert len(await names(client, namespace)) == left
        assert await names(client, namespace) == {"js-workers-7", "theirs"}


async def test_a_job_with_a_finalizer_is_left_to_itself_and_one_that_got_it_late_stays(
    jobset_server: Cluster, namespace: str
):
    """Nothing is forced: it is in deletion, and goes when its finalizer is removed."""
    async with connected(jobset_server.kubeconfig) as (client, _):
        old, new = of("one", 0), of("one", 1)
        made = [await create(client, namespace, old, f"js-workers-{index}", index) for index in range(2)]
        jobs = [msgspec.convert(job, Job) for job in made]
        held = {"metadata": {"finalizers": ["example.com/mine"]}}
        kept = msgspec.convert(await client.patch(JOBS, "js-workers-1", held, namespace=namespace), Job)
        layout = layout_of(new)
        seen = sort_jobs(new, [jobs[0], kept], layout, FeatureGates({})).previous
        assert [batch.jobs for batch in batch_deletions(new, seen, layout, DEFAULT_LIMITS)] == [
            (("js-workers-0", jobs[0].metadata.uid),)
        ]
        [batch] = batch_deletions(new, sort_jobs(new, jobs, layout, FeatureGates({})).previous, layout, DEFAULT_LIMITS)
        await client.delete_collection(
            JOBS, label_selector=batch.selector, namespace=namespace, propagation_policy="Background"
        )
        assert await names(client, namespace) == {"js-workers-1"}
        await client.patch(JOBS, "js-workers-1", {"metadata": {"finalizers": None}}, namespace=namespace)
        assert await names(client, namespace) == set()
