"""What works while a part of the installation is broken, and how long it takes until it heals (docs/break-glass.md).

Exclusive pods while all replicas are down: `placement/test_without_manager.py`. Webhooks switched off:
`tests/integration/admission/test_break_glass.py`.
"""

import base64
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dev import local
from dev.cluster.assets import Sources
from dev.cluster.cluster import Cluster, running
from dev.cluster.spec import ClusterSpec, FakeNodes
from manifests import crd
from tests.support.cluster.jobs import JOBSETS, Sets, group, manifest
from tests.support.cluster.manager import ManagerProcess
from tests.support.cluster.requests import new_namespace, request, wait_for
from tests.support.cluster.rotation import CONFIGURATIONS, change_webhooks
from tests.support.objects.jobsets import jobset
from tests.support.tls import material

REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, binaries: Path) -> Iterator[tuple[Cluster, ManagerProcess]]:
    """A control plane with a manager that nothing else uses: its installation is broken here."""
    folder = tmp_path_factory.mktemp("blast-radius")
    spec = ClusterSpec(name="broken", nodes=FakeNodes(count=4))
    with running(spec, sources=Sources(assets=binaries), state_root=folder) as cluster:
        manager = ManagerProcess(cluster, folder / "manager")
        local.install(cluster, webhook_port=manager.port)
        manager.start()
        yield cluster, manager
        manager.stop()


@pytest.fixture
def sets(place: tuple[Cluster, ManagerProcess]) -> Sets:
    place[1].start()
    return Sets(place[0], new_namespace(place[0]))


def is_refused(cluster: Cluster) -> bool:
    """Whether the webhook answers: only it refuses this."""
    return request(cluster, "POST", JOBSETS.format("default") + "?dryRun=All", jobset(managedBy=""))[0] == 422


def refused_for(cluster: Cluster, namespace: str) -> str:
    """Why a good set cannot be created."""
    status, answer = request(cluster, "POST", JOBSETS.format(namespace) + "?dryRun=All", manifest(group(), name="x"))
    assert status == 500, answer
    message: str = answer["message"]
    return message


def drop(sets: Sets, name: str) -> None:
    """A JobSet can be deleted, and its Jobs end: in a new cluster once the garbage collector knows of JobSets."""
    assert request(sets.cluster, "DELETE", f"{JOBSETS.format(sets.namespace)}/{name}")[0] == 200
    assert sets.get(name) is None
    wait_for(lambda: sets.jobs(name) == [], timeout=90, what="the end of its Jobs")


def heals(record: Record, what: str, healed: Callable[[], object]) -> None:
    """Wait for it, and keep the seconds that it took."""
    began = time.monotonic()
    wait_for(healed, what=what)
    record(f"seconds until healed: {what}", round(time.monotonic() - began, 1))


@pytest.mark.slow
@pytest.mark.e2e
class TestBlastRadius:
    def test_without_any_replica_sets_run_on_and_can_be_deleted(self, place, sets, record_property):
        cluster, manager = place
        for name in ("stays", "goes"):
            sets.apply(manifest(group(), name=name))
            sets.wait_ready(1, name)
        manager.kill()
        assert "failed calling webhook" in refused_for(cluster, sets.namespace)
        drop(sets, "goes")
        [pod] = sets.pods(name="stays")
        assert pod["status"]["phase"] == "Running"
        sets.end(pod)
        began = time.monotonic()
        manager.start()
        wait_for(lambda: is_refused(cluster), what="the webhooks")
        record_property("seconds until healed: webhooks of a replica that starts", round(time.monotonic() - began, 1))
        sets.wait_state("Completed", "stays")
        record_property("seconds until healed: a set whose pod ended meanwhile", round(time.monotonic() - began, 1))

    def test_webhooks_that_cannot_be_reached_do_not_hold_up_the_reconcile_loop(self, place, sets, record_property):
        cluster, _ = place
        sets.apply(manifest(group(), name="before", failurePolicy={"maxRestarts": 1}))
        sets.wait_ready(1, "before")
        found = [request(cluster, "GET", where)[1] for where in CONFIGURATIONS]
        ours = {hook["name"]: hook["clientConfig"]["url"] for body in found for hook in body["webhooks"]}
        self.call(cluster, dict.fromkeys(ours, "https://127.0.0.1:1/nobody"))
        wait_for(lambda: not is_refused(cluster), what="no webhook")
        assert "connection refused" in refused_for(cluster, sets.namespace)
        [pod] = sets.pods(name="before")
        sets.end(pod, 1)
        wait_for(lambda: sets.status("before").get("restarts") == 1, what="the restart")
        sets.wait_ready(1, "before")
        drop(sets, "before")
        self.call(cluster, ours)
        heals(record_property, "webhooks that can be reached again", lambda: is_refused(cluster))

    @staticmethod
    def call(cluster: Cluster, urls: dict[str, str]) -> None:
        """Have the API server call the webhooks there."""
        for where in CONFIGURATIONS:
            change_webhooks(cluster, where, lambda hook: {"url": urls[hook["name"]]})

    def test_a_wrong_authority_of_the_webhooks_is_put_right(self, place, record_property):
        cluster, _ = place
        other = base64.b64encode(material(datetime.now(UTC)).authorities).decode()
        for where in CONFIGURATIONS:
            change_webhooks(cluster, where, lambda _: {"caBundle": other})

        def ours_again() -> bool:
            hooks = [hook for where in CONFIGURATIONS for hook in request(cluster, "GET", where)[1]["webhooks"]]
            return all(hook["clientConfig"]["caBundle"] != other for hook in hooks)

        heals(record_property, "caBundle", ours_again)
        wait_for(lambda: is_refused(cluster), what="the webhook's answer")

    def test_a_webhook_of_somebody_else_that_refuses_jobs_holds_up_only_new_jobs(self, sets, record_property):
        sets.apply(manifest(group(), name="before"))
        sets.wait_ready(1, "before")
        name = f"deny-{sets.namespace}"
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": "jobs.example.com",
                    "rules": [
                        {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
                    ],
                    "clientConfig": {"url": "https://127.0.0.1:1/nobody"},
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": sets.namespace}},
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "timeoutSeconds": 1,
                }
            ],
        }
        status, answer = request(sets.cluster, "POST", f"{REGISTRATIONS}/validatingwebhookconfigurations", body)
        assert status == 201, answer
        sets.apply(manifest(group(), name="after"))
        wait_for(lambda: "JobCreationFailed" in {reason for _, reason, _ in sets.events("after")}, what="the event")
        assert sets.counts("before")["ready"] == 1
        assert request(sets.cluster, "DELETE", f"{REGISTRATIONS}/validatingwebhookconfigurations/{name}")[0] == 200
        heals(record_property, "Jobs refused by others", lambda: sets.counts("after").get("ready") == 1)

    def test_a_crd_that_was_deleted_takes_all_sets_along_and_works_again(self, place, sets, record_property):
        cluster, manager = place
        sets.apply(manifest(group(), name="gone"))
        sets.wait_ready(1, "gone")
        body = crd()
        assert request(cluster, "DELETE", f"{CRDS}/{body['metadata']['name']}")[0] == 200
        wait_for(lambda: sets.jobs() == [] and sets.pods() == [], what="the end of its Jobs")
        wait_for(lambda: request(cluster, "GET", f"{CRDS}/{body['metadata']['name']}")[0] == 404, what="no CRD")
        status, answer = request(cluster, "POST", CRDS, body)
        assert status == 201, answer
        heals(record_property, "CRD", lambda: request(cluster, "GET", JOBSETS.format("default"))[0] == 200)
        manager.start()
        sets.apply(manifest(group(), name="new"))
        heals(record_property, "a set after the CRD", lambda: sets.counts("new").get("ready") == 1)
