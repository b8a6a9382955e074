"""Which pods of earlier attempts a restart waits for, by what a real API server stores and sends of them."""

import contextlib
from typing import Any

from msgspec.structs import replace

from api import keys
from api.jobset import JobSet
from controllers.jobset.leftover_pods import LeftoverPods
from controllers.jobset.memory import Memories
from kube.client import Client
from kube.controller import Request
from kube.resources import PODS
from kube.workqueue import WorkQueue
from tests.support.beside import beside
from tests.support.cluster.kube_client import connected
from tests.support.cluster.requests import eventually
from tests.support.objects.stored_sets import jobset, rjob

JSON = dict[str, Any]
MINE = ["example.com/mine"]


def restarted(namespace: str) -> JobSet:
    js = jobset(rjob("w", 4))
    meta = replace(js.metadata, namespace=namespace)
    return replace(js, metadata=meta, status=replace(js.status, restarts=1))


def pod(name: str, job: str, **spec: Any) -> JSON:
    """A pod that says that it is of the first attempt. A finalizer keeps it, as the Job controller's does."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
    labels = {keys.JOBSET_NAME: "js", keys.JOBSET_UID: "js-uid", keys.RESTART_ATTEMPT: "0"}
    meta = {"name": name, "labels": labels, "ownerReferences": [owner], "finalizers": MINE}
    return {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec}}


@contextlib.asynccontextmanager
async def following(client: Client, js: JobSet):
    memories, queue = Memories(), WorkQueue[Request]()
    memories.get_or_create(Request(js.metadata.namespace, "js"), "js-uid")
    leftovers = LeftoverPods(client, memories)
    leftovers.feed(queue)
    async with beside(leftovers.run()):
        leftovers.follow(js, relist=True)
        yield leftovers


async def until(leftovers: LeftoverPods, js: JobSet, names: set[str]) -> None:
    async def waits() -> bool:
        owners = leftovers.owners(js)
        return owners is not None and owners.keys() == names

    await eventually(waits, what=f"it waits for pods of {names}")


async def test_only_pods_that_may_run_are_waited_for(jobset_server, namespace):
    js = restarted(namespace)
    async with connected(jobset_server.kubeconfig) as (client, _):

        async def end(name: str, phase: str) -> None:
            await client.patch(PODS, name, {"status": {"phase": phase}}, namespace=namespace, subresource="status")

        for number, phase in enumerate(("", "", "Succeeded", "Failed")):
            await client.create(PODS, pod(f"p{number}", f"js-w-{number}", nodeName="n"), namespace=namespace)
            if phase:
                await end(f"p{number}", phase)
        await client.create(PODS, pod("waits", "js-w-2"), namespace=namespace)
        await client.create(PODS, pod("stranger", "stranger", nodeName="n"), namespace=namespace)
        async with following(client, js) as leftovers:
            await until(leftovers, js, {"js-w-0", "js-w-1", "js-w-2"})
            await client.delete(PODS, "p0", namespace=namespace)
            await end("p1", "Failed")
            await client.delete(PODS, "waits", namespace=namespace)
            await until(leftovers, js, {"js-w-0"})
            stored = await client.get(PODS, "waits", namespace=namespace)
            assert stored["metadata"]["deletionGracePeriodSeconds"] == 0, (
                "it never had a node, and a finalizer keeps it"
            )
            stored = await client.get(PODS, "p0", namespace=namespace)
            assert stored["metadata"]["deletionGracePeriodSeconds"] == 30, "its kubelet has not ended it"
            await client.delete(PODS, "p0", namespace=namespace, grace_period_seconds=0)
            await until(leftovers, js, set())
        for name in ("p0", "p1", "p2", "p3", "waits", "stranger"):
            unfinished = {"metadata": {"finalizers": None}}
            await client.patch(PODS, name, unfinished, namespace=namespace)
