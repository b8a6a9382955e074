"""What pods need by name is looked for on a real API server, with the manager's rights."""

from api.keys import EXCLUSIVE_TOPOLOGY
from kube.options import METADATA
from kube.resources import (
    CONFIG_MAPS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    STORAGE_CLASSES,
)
from tests.support.cluster.dry_run import POD, administrator, ask_about, container, granted, pod
from tests.support.cluster.kube_client import connected
from tests.support.model.scripted_server import DATA, claims
from tests.support.objects.jobsets import JSON, jobset, rjob


async def test_a_missing_class_and_a_missing_label_are_reported_until_they_exist(server, manager, ns):
    rack = f"example.com/{ns}"
    js = jobset(rjob(pod=pod(priorityClassName=ns, nodeSelector={rack: "a"})), namespace=ns)
    js["metadata"]["annotations"] = {EXCLUSIVE_TOPOLOGY: rack}
    assert {str(found.path): found.detail for found in await ask_about(manager, js)} == {
        f"metadata.annotations[{EXCLUSIVE_TOPOLOGY}]": f"no node has the label {rack}: pods wait for one",
        f"{POD}.priorityClassName": f"no PriorityClass {ns}: no pod runs",
        f"{POD}.nodeSelector": f"no node has the labels {rack}=a: pods wait for one",
    }
    async with administrator(server) as client:
        await client.create(PRIORITY_CLASSES, {"metadata": {"name": ns}, "value": 1})
        await client.create(NODES, {"metadata": {"name": ns, "labels": {rack: "a"}}})
        try:
            assert await ask_about(manager, js) == []
        finally:
            await client.delete(PRIORITY_CLASSES, ns)
            await client.delete(NODES, ns)


async def test_names_in_pods_and_claims_are_reported_until_they_exist(server, manager, ns):
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("data", "own")]
    spec = pod(
        serviceAccountName=ns,
        runtimeClassName=ns,
        nodeName=ns,
        containers=[{"name": "main", "image": "busybox", "volumeMounts": mounts}],
        volumes=[{"name": "own", "persistentVolumeClaim": {"claimName": ns}}],
    )
    js = jobset(rjob(pod=spec), namespace=ns, **claims(storageClassName=ns))
    assert {str(found.path): found.detail for found in await ask_about(manager, js)} == {
        f"{POD}.serviceAccountName": f"no ServiceAccount {ns}: no pod is created",
        f"{POD}.runtimeClassName": f"no RuntimeClass {ns}: no pod is created",
        f"{POD}.nodeName": f"no node is called {ns}: pods wait for it and are deleted",
        f"{POD}.volumes[0].persistentVolumeClaim.claimName": f"no PersistentVolumeClaim {ns}: pods wait for it",
        "spec.volumeClaimPolicies[0].templates[0].spec.storageClassName": (
            f"no StorageClass {ns}: the claim waits for a volume of it"
        ),
    }
    meta = {"metadata": {"name": ns}}
    async with administrator(server) as client:
        await client.create(SERVICE_ACCOUNTS, meta, namespace=ns)
        await client.create(PERSISTENT_VOLUME_CLAIMS, {**meta, "spec": DATA}, namespace=ns)
        await client.create(RUNTIME_CLASSES, {**meta, "handler": "runc"})
        await client.create(NODES, meta)
        await client.create(STORAGE_CLASSES, {**meta, "provisioner": "example.com/disks"})
        try:
            assert await ask_about(manager, js) == []
        finally:
            await client.delete(NODES, ns)
            await client.delete(RUNTIME_CLASSES, ns)
            await client.delete(STORAGE_CLASSES, ns)


async def test_config_maps_and_secrets_are_reported_where_that_is_switched_on(server, manager, ns):
    env = [{"configMapRef": {"name": "app"}}, {"secretRef": {"name": "token"}}]
    js = jobset(rjob(pod=pod(container(envFrom=env))), namespace=ns)
    assert await ask_about(manager, js, looked_up_kinds=(CONFIG_MAPS,)) == [], "without the right nothing is said"
    with granted(server, "config-maps", "secrets"):
        assert await ask_about(manager, js) == [], "nor with the rights alone"
        place = f"{POD}.containers[0].envFrom"
        assert {
            str(each.path): each.detail for each in await ask_about(manager, js, looked_up_kinds=(CONFIG_MAPS, SECRETS))
        } == {
            f"{place}[0].configMapRef.name": "no ConfigMap app: pods wait for it",
            f"{place}[1].secretRef.name": "no Secret token: pods wait for it",
        }
        async with administrator(server) as client:
            await client.create(CONFIG_MAPS, {"metadata": {"name": "app"}}, namespace=ns)
            await client.create(SECRETS, {"metadata": {"name": "token"}, "data": {"key": "djE="}}, namespace=ns)
        assert await ask_about(manager, js, looked_up_kinds=(CONFIG_MAPS, SECRETS)) == []
        async with connected(manager) as (client, _):
            sent = await client.get(SECRETS, "token", namespace=ns, accept=METADATA)
        assert sorted(sent) == ["apiVersion", "kind", "metadata"]


async def test_what_no_node_can_hold_is_reported_until_one_can(server, manager, ns):
    device = f"{ns}.example.com/gpu"

    def needing(resource: str, amount: int) -> JSON:
        main = {"name": "main", "image": "busybox", "resources": {"limits": {resource: amount}}}
        return jobset(rjob(pod=pod(containers=[main])), namespace=ns)

    async def texts_about(js: JSON) -> list[str]:
        return [found.reader_text for found in await ask_about(manager, js)]

    place = f"{POD}.containers[0].resources.limits"
    async with administrator(server) as client:
        await client.create(NODES, {"metadata": {"name": ns}, "status": {"allocatable": {device: "8"}}})
        try:
            assert await ask_about(manager, needing(device, 8)) == []
            words = f"{place}[{device}]: a pod needs 9 {device}, more than any node has: it waits for a larger one"
            fix = "request less, or add larger nodes"
            assert await texts_about(needing(device, 9)) == [f"{words}; {fix}"]
            assert await texts_about(needing(f"{device}s", 1)) == [
                f"{place}[{device}s]: no node offers {device}s: pods wait for one that does; did you mean {device}?"
            ]
        finally:
            await client.delete(NODES, ns)


async def test_a_quota_that_is_too_small_is_reported(server, manager, ns):
    async with administrator(server) as client:
        quota = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "3"}}}
        await client.create(RESOURCE_QUOTAS, quota, namespace=ns)
    main = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "2"}}}
    [found] = await ask_about(manager, jobset(rjob(replicas=2, pod=pod(containers=[main])), namespace=ns))
    assert (str(found.path), found.detail) == (
        "spec.replicatedJobs[0]",
        "needs 4 of cpu at once, more than a quota allows: some pods wait",
    )
