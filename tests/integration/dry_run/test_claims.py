"""What a real API server says about the volume claims of a JobSet."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dev.cluster.cluster import Cluster
from kube.client import Client
from kube.model.field import FieldError
from kube.resources import PERSISTENT_VOLUME_CLAIMS
from tests.support.cluster.dry_run import administrator, ask, container, errors, pod, storage, warnings
from tests.support.objects.jobsets import rjob


class TestClaims:
    LIVE = {"accessModes": ["ReadWriteOnce"], "resources": storage("1Gi"), "storageClassName": "standard"}
    TEMPLATE = "spec.volumeClaimPolicies[0].templates[0]"

    async def ask(self, kubeconfig: Path, ns: str, *, retain: str = "Retain", **spec: Any) -> list[FieldError]:
        worker = rjob(pod=pod(container(volumeMounts=[{"name": "data", "mountPath": "/d"}])))
        templates = [{"metadata": {"name": "data"}, "spec": spec}]
        policy = {"templates": templates, "retentionPolicy": {"whenDeleted": retain}}
        return await ask(kubeconfig, ns, worker, volumeClaimPolicies=[policy])

    @contextlib.asynccontextmanager
    async def existing(self, server: Cluster, ns: str, **meta: Any) -> AsyncIterator[Client]:
        body = {"metadata": {"name": "data-train", **meta}, "spec": self.LIVE}
        async with administrator(server) as client:
            await client.create(PERSISTENT_VOLUME_CLAIMS, body, namespace=ns)
            yield client

    @pytest.mark.parametrize(
        "template",
        [
            {"accessModes": ["ReadWriteOnce"], "resources": storage("1Gi")},
            {"accessModes": ["ReadWriteOnce"], "resources": storage("1024Mi"), "storageClassName": "standard"},
            {"resources": storage("1073741824")},
        ],
    )
    async def test_a_retained_claim_is_used_again(self, server, manager, ns, template):
        async with self.existing(server, ns):
            assert await self.ask(manager, ns, **template) == []

    async def test_a_retained_claim_of_another_spec_is_refused(self, server, manager, ns):
        async with self.existing(server, ns):
            found = await self.ask(manager, ns, resources=storage("2Gi"), storageClassName="fast")
        [error] = errors(found)
        assert error.startswith(f"{self.TEMPLATE}.spec: Invalid value: ")
        assert f"spec does not match existing PVC data-train in namespace {ns}; " in error
        assert (
            "resources.requests.storage is different there, storageClassName is different there: write the same"
            in error
        )

    async def test_a_retained_claim_is_not_deleted_with_the_jobset(self, server, manager, ns):
        async with self.existing(server, ns):
            found = await self.ask(manager, ns, retain="Delete", **self.LIVE)
        [error] = found
        assert str(error.path) == "spec.volumeClaimPolicies[0].retentionPolicy.whenDeleted"
        assert error.detail == "retentionPolicy must be retain when PVC exists"

    async def test_a_claim_in_deletion_is_a_warning(self, server, manager, ns):
        async with self.existing(server, ns, finalizers=["example.com/hold"]) as client:
            await client.delete(PERSISTENT_VOLUME_CLAIMS, "data-train", namespace=ns)
            found = await self.ask(manager, ns, retain="Delete", resources=storage("2Gi"))
            await client.patch(PERSISTENT_VOLUME_CLAIMS, "data-train", {"metadata": {"finalizers": None}}, namespace=ns)
        assert errors(found) == []
        assert warnings(found) == [
            f"{self.TEMPLATE}: PVC data-train is being deleted; a new, empty one is created once it is gone"
        ]

    async def test_a_claim_that_could_not_be_made_is_refused(self, manager, ns):
        found = await self.ask(manager, ns, accessModes=["ReadWriteSometimes"])
        assert sorted(str(error.path) for error in found) == [
            f"{self.TEMPLATE}.spec.accessModes",
            f"{self.TEMPLATE}.spec.resources.requests.storage",
        ]

    async def test_a_claim_that_may_not_be_read_is_an_internal_error(self, server, ns):
        found = await self.ask(server.kubeconfig_for("stranger"), ns, **self.LIVE)
        [error] = errors(found)
        assert error.startswith(
            f"{self.TEMPLATE}: Internal error: failed to check for existing PVC data-train: "
            'User "stranger" cannot get persistentvolumeclaims'
        )
