"""Groups are written with the rights of the manager, by processes that do not know what earlier ones have written."""

from functools import partial

from msgspec.structs import replace

from api.features import FeatureGates
from api.gang_objects import build_group, build_workload
from api.gangs import forest
from api.jobset import JobSet
from controllers.gang.execute import GroupWriter
from controllers.gang.watches import GroupWatches
from controllers.planning.actions import CreateGroup
from dev.cluster.cluster import Cluster
from kube.client import Client
from kube.watcher import Init, InitDone
from tests.support.cluster.admission import GROUPS
from tests.support.cluster.kube_client import connected
from tests.support.cluster.manager import USER
from tests.support.cluster.requests import eventually
from tests.support.objects.stored_sets import jobset, rjob

ON = FeatureGates({"JobSetWorkloadAwareSchedulingAPI": True, "JobSetGangOfGangs": True})
NESTED = {
    "schedulingPolicy": {"gang": {}},
    "replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {}}],
}


def creations(js: JobSet) -> list[CreateGroup]:
    """The Workload, the composite and the groups below it."""
    found = forest(js)
    assert found is not None
    made = [CreateGroup("Workload", found.workload, partial(build_workload, js, found), 0)]
    for number, (group, parent) in enumerate(found.roots[0].with_parents(), 1):
        build = partial(build_group, js, found, group, parent, group.gang_size)
        made.append(CreateGroup(group.kind, group.name, build, number))
    return made


def new_process(client: Client) -> tuple[GroupWriter, GroupWatches]:
    """One that has seen nothing yet."""
    watches = GroupWatches(client, ON)
    for informer in watches.by_kind.values():
        informer._receive(Init())
        informer._receive(InitDone(0))
    return GroupWriter(client, watches), watches


async def test_groups_of_an_earlier_process_are_taken_as_they_are(jobset_server: Cluster, namespace: str):
    js = jobset(rjob(parallelism=2), scheduling=NESTED)
    js = replace(js, metadata=replace(js.metadata, namespace=namespace))
    kinds = [creation.kind for creation in creations(js)]
    assert set(kinds) == {"Workload", "CompositePodGroup", "PodGroup"}
    async with connected(jobset_server.kubeconfig_for(USER, GROUPS)) as (client, _):

        async def written() -> bool:
            return await new_process(client)[0].write(js, creations(js)) == []

        await eventually(written, what="the rights of the manager to be in force")
        writer, watches = new_process(client)
        assert await writer.write(js, creations(js)) == []
    known = watches.known_groups(js, None)
    assert len(known.workloads) + len(known.composites) + len(known.pod_groups) == len(kinds)
