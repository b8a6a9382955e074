"""What a real API server says about the children of a JobSet, asked with the manager's rights, and what counts as a fault."""

from __future__ import annotations

import base64
import contextlib
import copy
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from api.features import FeatureGates
from api.field import FieldError
from devcluster.cluster import Cluster
from kube.client import Client
from kube.errors import ApiError
from kube.resources import JOBS, PERSISTENT_VOLUME_CLAIMS, SERVICES, Resource
from manifests import NAMESPACE, SERVICE_ACCOUNT
from tests.support.admission import GROUPS, cluster_with_admission
from tests.support.cluster import drop_namespace, eventually, kubectl, new_namespace, request
from tests.support.jobsets import JSON, jobset, rjob, stored
from tests.support.kube_client import connected
from tests.support.tls import context_with, material, serving
from webhooks.jobset.answers import warning_texts
from webhooks.jobset.cluster import ClusterChecks
from webhooks.review import AdmissionRequest, AdmissionResponse
from webhooks.router import create_app

GATES = FeatureGates()
MANAGER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
BUDGET = 8.0  # seconds: a busy machine is no failure
SPEC = "spec.replicatedJobs[0].template.spec"
POD = f"{SPEC}.template.spec"

QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas")
ADMISSION = "admissionregistration.k8s.io"
POLICIES = Resource(ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
BINDINGS = Resource(
    ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
)
WEBHOOKS = Resource(
    ADMISSION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False
)
NEW_JOBS = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, binaries: Any) -> Iterator[Cluster]:
    """An API server with our webhooks behind it, which ask it about children as the manager."""
    folder = tmp_path_factory.mktemp("dryrun")
    with cluster_with_admission("dryrun", folder, binaries, GATES) as cluster:
        yield cluster


@pytest.fixture
def ns(server: Cluster) -> Iterator[str]:
    name = new_namespace(server)
    yield name
    drop_namespace(server, name)


@pytest.fixture
def manager(server: Cluster) -> Path:
    return server.kubeconfig_for(MANAGER, GROUPS)


@contextlib.asynccontextmanager
async def administrator(server: Cluster) -> AsyncIterator[Client]:
    async with connected(server.kubeconfig) as (client, _):
        yield client


async def ask(kubeconfig: Path, ns: str, *rjobs: JSON, **spec: Any) -> list[FieldError]:
    """Findings about a new JobSet `train`."""
    return await ask_about(kubeconfig, jobset(*rjobs, namespace=ns, **spec))


async def ask_about(kubeconfig: Path, js: JSON) -> list[FieldError]:
    async with connected(kubeconfig) as (client, _):
        return await ClusterChecks(client, budget=BUDGET).create(stored(js), (), GATES)


def errors(found: list[FieldError]) -> list[str]:
    return [str(error) for error in found if not error.is_warning]


def warnings(found: list[FieldError]) -> list[str]:
    return list(warning_texts([error for error in found if error.is_warning]))


def container(**fields: Any) -> JSON:
    return {"name": "main", "image": "busybox", **fields}


def pod(*containers: JSON, **fields: Any) -> JSON:
    return {"containers": list(containers) or [container()], **fields}


async def test_warnings_of_the_api_server_are_passed_on_once(server, manager, ns):
    kubectl(server, "label", "namespace", ns, "pod-security.kubernetes.io/warn=restricted")
    found = await ask(manager, ns, rjob("a", parallelism=1), rjob("b", parallelism=2))
    assert errors(found) == []
    [warning] = [error for error in found if error.is_warning]
    assert str(warning.path) == "spec.replicatedJobs[0]"
    assert warning.detail.startswith('would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false')
    assert warning.detail.endswith(("...", '"Localhost")'))


async def test_a_good_jobset_is_found_good_and_nothing_is_made(server, manager, ns):
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": storage("1Gi")}}
    worker = rjob(pod=pod(container(volumeMounts=[{"name": "data", "mountPath": "/d"}])), replicas=3)
    found = await ask(manager, ns, worker, suspend=True, volumeClaimPolicies=[{"templates": [claim]}])
    assert found == []
    async with administrator(server) as client:
        for resource in (JOBS, SERVICES, PERSISTENT_VOLUME_CLAIMS):
            assert not (await client.list(resource, namespace=ns)).items


async def test_all_faults_of_a_template_come_at_once_for_every_job_that_shares_it(manager, ns):
    bad = rjob(
        "a",
        parallelism=-1,
        job={"backoffLimit": -1},
        pod=pod(
            container(image="", volumeMounts=[{"name": "scratchy", "mountPath": "/x"}]),
            container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            volumes=[{"name": "scratch", "emptyDir": {}}],
            restartPolicy="Always",
        ),
    )
    found = errors(await ask(manager, ns, bad, rjob("good"), {**copy.deepcopy(bad), "name": "c"}))
    above = "must be less than or equal to cpu limit of 1"
    expected = [
        f"{SPEC}.backoffLimit: Invalid value: -1: must be greater than or equal to 0; write 0 or more",
        f"{SPEC}.parallelism: Invalid value: -1: must be greater than or equal to 0; write 0 or more",
        f"{POD}.containers[0].image: Required value: name the image to run",
        f'{POD}.containers[0].volumeMounts[0].name: Not found: "scratchy"; did you mean "scratch"?',
        f'{POD}.containers[1].name: Duplicate value: "main"; give each a name of its own',
        f'{POD}.containers[1].resources.requests: Invalid value: "2": {above}; lower the request or raise the limit',
        f'{POD}.restartPolicy: Required value: valid values: "OnFailure", "Never"; write OnFailure or Never',
    ]
    assert sorted(found) == sorted([*expected, *(text.replace("Jobs[0]", "Jobs[2]") for text in expected)])


RULES = {
    "child-restart-policy": rjob(pod=pod(restartPolicy="Always")),
    "child-restart-policy-never": rjob(
        pod=pod(restartPolicy="OnFailure"),
        job={"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]}},
    ),
    "child-image": rjob(pod=pod(container(image=""))),
    "child-containers": rjob(pod={"containers": []}),
    "child-requests-above-limits": rjob(
        pod=pod(container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}))
    ),
    "child-limits-missing": rjob(pod=pod(container(resources={"requests": {"nvidia.com/gpu": 1}}))),
    "child-resource-name": rjob(pod=pod(container(resources={"limits": {"gpu": 1}}))),
    "child-duplicate": rjob(pod=pod(volumes=[{"name": "v", "emptyDir": {}}] * 2)),
    "child-volume-mount": rjob(pod=pod(container(volumeMounts=[{"name": "x", "mountPath": "/x"}]))),
    "child-mount-path": rjob(
        pod=pod(container(volumeMounts=[{"name": "v", "mountPath": "/x"}] * 2), volumes=[{"name": "v", "emptyDir": {}}])
    ),
    "child-volume-source": rjob(pod=pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}])),
    "child-env-value-from": rjob(
        pod=pod(
            container(
                env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            )
        )
    ),
    "child-env-name": rjob(pod=pod(container(env=[{"name": "A=B", "value": "x"}]))),
    "child-probe": rjob(pod=pod(container(livenessProbe={}))),
    "child-negative": rjob(job={"activeDeadlineSeconds": -1}),
    "child-completions": rjob(completions=None),
    "child-selector": rjob(job={"selector": {"matchLabels": {"a": "b"}}}),
    "child-pod-failure-container": rjob(
        pod=pod(restartPolicy="Never"),
        job={
            "podFailurePolicy": {
                "rules": [{"action": "FailJob", "onExitCodes": {"containerName": "x", "operator": "In", "values": [1]}}]
            }
        },
    ),
    "child-unsupported": rjob(pod=pod(container(imagePullPolicy="always"))),
    "child-type": rjob(parallelism=3_000_000_000),
    "child-job": rjob(pod=pod(container(ports=[{"containerPort": 70000}]))),
}


@pytest.mark.parametrize("rule", RULES)
async def test_each_frequent_fault_is_recognised_by_the_words_of_this_api_server(manager, ns, rule):
    """The ways out hang on the words of the API server: a version that speaks differently shows here."""
    found = [error for error in await ask(manager, ns, copy.deepcopy(RULES[rule])) if not error.is_warning]
    assert {error.rule.id for error in found if error.rule} == {rule}
    assert all(error.fix for error in found) or rule == "child-job"


def codes(**fields: Any) -> JSON:
    return {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3], **fields}}


async def test_what_an_exit_code_policy_is_made_into_is_good(manager, ns):
    own = {"podFailurePolicy": {"rules": [codes()]}}
    policies = ({}, {"permanent": [7, 5]}, {"retryable": [9], "containerName": "main"})
    rjobs = [rjob(f"r{i}", pod=pod(restartPolicy="Never"), exitCodePolicy=policy) for i, policy in enumerate(policies)]
    both = rjob("both", pod=pod(restartPolicy="Never"), job=own, exitCodePolicy={})
    assert await ask(manager, ns, *rjobs, both) == []


async def test_a_fault_of_the_compiled_rules_is_placed_at_the_policy(manager, ns):
    """Asked without the checks of the object, which know most of these faults themselves."""
    bad = {"restartPolicy": "Never"}
    own = {"podFailurePolicy": {"rules": [codes(containerName="x"), codes(containerName="main")]}}
    found = await ask(
        manager,
        ns,
        rjob("a", pod=pod(**bad), exitCodePolicy={"retryable": [3], "containerName": "mainn"}),
        rjob("b", pod=pod(**bad), exitCodePolicy={"permanent": [3]}),
        rjob("c", pod=pod(**bad), job=own, exitCodePolicy={"permanent": [3], "containerName": "y"}),
        rjob("d", pod=pod(**bad), exitCodePolicy={"retryable": [3], "containerName": "mainn"}),
    )
    place = "spec.replicatedJobs[{}].exitCodePolicy.containerName"
    assert {(str(error.path), error.value) for error in found} == {
        (place.format(0), "mainn"),
        (place.format(2), "y"),
        (place.format(3), "mainn"),
        ("spec.replicatedJobs[2].template.spec.podFailurePolicy.rules[0].onExitCodes.containerName", "x"),
    }
    assert {error.rule.id for error in found if error.rule} == {"child-pod-failure-container"}
    assert 'did you mean "main"?' in {error.fix for error in found}


async def test_rules_that_are_too_many_together_are_placed_where_some_of_them_are_written(manager, ns):
    own = {"podFailurePolicy": {"rules": [codes(containerName="main")] * 19}}
    job = {**rjob("a", pod=pod(restartPolicy="Never"), job=own), "exitCodePolicy": {}}
    [error] = await ask(manager, ns, job)
    assert (str(error.path), "20" in str(error)) == (f"{SPEC}.podFailurePolicy.rules", True)


async def test_what_cannot_be_decoded_is_found_with_the_rest(manager, ns):
    bad = rjob(
        parallelism=3_000_000_000,
        pod=pod(
            container(env=[{"name": "A", "value": "1"}, {"name": "B", "value": 2}]),
            container(name="side", resources={"limits": {"cpu": "1x"}}),
            nodeSelector={"zone": True},
            restartPolicy="Always",
        ),
    )
    found = await ask(manager, ns, bad)
    assert sorted((str(error.path), error.value, error.fix) for error in found) == sorted(
        [
            (f"{SPEC}.parallelism", 3_000_000_000, "write a whole number that fits into int32, without quotes"),
            (f"{POD}.containers[0].env[1].value", 2, "put it in quotes"),
            (f"{POD}.containers[1].resources.limits.cpu", "1x", "write an amount such as 500m, 2 or 1Gi"),
            (f"{POD}.nodeSelector.zone", True, "put it in quotes"),
            (f"{POD}.restartPolicy", "Always", "write OnFailure or Never"),
        ]
    )


async def test_bad_metadata_of_pods_is_placed_where_it_was_written(manager, ns):
    template = {
        "metadata": {"labels": {"team": "a b"}, "annotations": {"a b": "c"}},
        "spec": pod(restartPolicy="Never"),
    }
    job = rjob(job={"template": template})
    job["template"]["metadata"] = {"labels": {"job": "a b"}}
    found = await ask(manager, ns, job)
    assert sorted(str(error.path) for error in found) == [
        "spec.replicatedJobs[0].template.metadata.labels",
        f"{SPEC}.template.metadata.annotations",
        f"{SPEC}.template.metadata.labels",
    ]


async def test_names_that_are_too_long_or_wrong_are_placed_where_they_come_from(manager, ns):
    found = await ask(manager, ns, rjob("w" * 60), network={"subdomain": "s" * 64})
    assert {str(error.path) for error in found} == {"spec.replicatedJobs[0].name", "spec.network.subdomain"}
    dotted = jobset(namespace=ns, name="a.b")
    assert {str(error.path) for error in await ask_about(manager, dotted)} == {
        "metadata.name",
        "spec.replicatedJobs[0].name",
    }


async def test_the_whole_way_through_the_webhook_a_fault_is_a_cause_with_the_place_in_the_jobset(server, ns):
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{ns}/jobsets"
    bad = jobset(rjob(pod=pod(container(image=""), restartPolicy="Always")), namespace=ns, managedBy=None)
    bad["metadata"] = {"generateName": "train-", "namespace": ns}
    status, body = request(server, "POST", path, bad)
    assert status == 422, body
    assert {cause["field"] for cause in body["details"]["causes"]} == {
        f"{POD}.containers[0].image",
        f"{POD}.restartPolicy",
    }
    assert request(server, "POST", path, jobset(namespace=ns))[0] == 201


async def test_a_resume_with_a_bad_template_is_refused_and_stays_suspended(server, ns):
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{ns}/jobsets"
    status, js = request(server, "POST", path, jobset(namespace=ns, suspend=True))
    assert status == 201, js
    template = js["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["spec"]["tolerations"] = [{"key": "k", "operator": "Exits"}]
    js["spec"]["suspend"] = False
    status, body = request(server, "PUT", f"{path}/train", js)
    assert status == 422, body
    [cause] = body["details"]["causes"]
    assert cause["field"] == f"{POD}.tolerations[0].operator"
    assert cause["message"].endswith('did you mean "Exists"?')
    template["spec"]["tolerations"][0]["operator"] = "Exists"
    assert request(server, "PUT", f"{path}/train", js)[0] == 200


class TestOthers:
    """What other people refuse does not make a JobSet a bad one."""

    async def test_a_quota_that_is_used_up(self, server, manager, ns):
        hard = {"count/jobs.batch": "0"}
        async with administrator(server) as client:
            await client.create(QUOTAS, {"metadata": {"name": "few"}, "spec": {"hard": hard}}, namespace=ns)
            status = {"status": {"hard": hard, "used": hard}}  # there is no controller that would count
            await client.patch(QUOTAS, "few", status, namespace=ns, subresource="status")
        expected = ["spec.replicatedJobs[0]: Jobs would be refused now: exceeded quota: few"]
        found = await eventually(lambda: ask(manager, ns, rjob("a"), rjob("b", parallelism=0)), what="the quota")
        assert (errors(found), warnings(found)) == ([], expected)

    @pytest.mark.parametrize("reason", ["Invalid", "Forbidden"])
    async def test_a_policy_whatever_code_it_answers_with(self, server, manager, ns, reason):
        policy = {
            "metadata": {"name": ns},
            "spec": {
                "matchConstraints": {"resourceRules": [NEW_JOBS]},
                "validations": [{"expression": "false", "message": "no jobs on Sundays", "reason": reason}],
            },
        }
        selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}}}
        binding = {"policyName": ns, "validationActions": ["Deny"], "matchResources": selector}
        async with administrator(server) as client, removed(client, POLICIES, BINDINGS, name=ns):
            await client.create(POLICIES, policy)
            await client.create(BINDINGS, {"metadata": {"name": ns}, "spec": binding})
            found = await eventually(lambda: ask(manager, ns), what="the policy")
        assert errors(found) == []
        [warning] = warnings(found)
        assert warning.startswith("spec.replicatedJobs[0]: Jobs would be refused now: ValidatingAdmissionPolicy '")

    async def test_a_webhook_that_speaks_like_the_api_server_itself(self, server, manager, ns):
        async with administrator(server) as client, denying() as (port, bundle), hooked(client, ns, port, bundle):
            found = await eventually(lambda: ask(manager, ns), what="the webhook")
        assert errors(found) == []
        [warning] = warnings(found)
        assert warning.startswith(
            'spec.replicatedJobs[0]: Jobs would be refused now: admission webhook "hook.example.com": Job.batch "train'
        )

    async def test_a_webhook_that_is_dead(self, server, manager, ns):
        async with administrator(server) as client, hooked(client, ns, 1, material().authorities):
            found = await eventually(lambda: ask(manager, ns), what="the webhook")
        assert errors(found) == []
        [warning] = warnings(found)
        assert 'not checked against the cluster: 500 failed calling webhook "hook.example.com"' in warning

    async def test_and_a_fault_shows_all_the_same(self, server, manager, ns):
        async with administrator(server) as client, denying() as (port, bundle), hooked(client, ns, port, bundle):
            await eventually(lambda: ask(manager, ns), what="the webhook")
            found = await ask(manager, ns, rjob(job={"backoffLimit": -1}))
        assert [str(error.path) for error in found] == [f"{SPEC}.backoffLimit"]

    async def test_a_namespace_that_is_not_there(self, manager):
        found = await ask(manager, "nowhere")
        assert errors(found) == []
        assert warnings(found) == ['metadata.name: its Service would be refused now: namespaces "nowhere" not found']

    async def test_rights_that_are_missing(self, server, ns):
        nobody = server.kubeconfig_for("nobody")
        found = await ask(nobody, ns)
        assert errors(found) == []
        assert any('User "nobody" cannot create resource' in warning for warning in warnings(found))

    async def test_a_job_of_somebody_else(self, server, manager, ns):
        body = {"metadata": {"name": "train-workers-0"}, "spec": {"template": {"spec": pod(restartPolicy="Never")}}}
        async with administrator(server) as client:
            await client.create(JOBS, body, namespace=ns)
        found = await ask(manager, ns)
        assert errors(found) == []
        assert warnings(found) == [
            "spec.replicatedJobs[0].name: Job train-workers-0 exists and belongs to nobody; rename or delete it"
        ]

    @pytest.mark.parametrize("owner", ["other", "", "train"])
    async def test_a_service_of_that_name(self, server, manager, ns, owner):
        meta: JSON = {"name": "shared"}
        if owner:
            reference = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": owner, "uid": "u"}
            meta["ownerReferences"] = [{**reference, "controller": True}]
        async with administrator(server) as client:
            await client.create(SERVICES, {"metadata": meta, "spec": {"clusterIP": "None"}}, namespace=ns)
        found = await ask(manager, ns, network={"subdomain": "shared"})
        expected = {
            "other": "Service shared is JobSet other's: it finds only its pods, and goes with it; choose another name",
            "": "Service shared exists and is used as it is; it may not find these pods; choose another name",
        }
        assert errors(found) == []
        assert warnings(found) == ([f"spec.network.subdomain: {expected[owner]}"] if owner in expected else [])


@contextlib.asynccontextmanager
async def removed(client: Client, *resources: Resource, name: str) -> AsyncIterator[None]:
    """Cluster-wide objects do not outlive the test."""
    try:
        yield
    finally:
        for resource in resources:
            with contextlib.suppress(ApiError):
                await client.delete(resource, name)


@contextlib.asynccontextmanager
async def denying() -> AsyncIterator[tuple[int, bytes]]:
    """A webhook that refuses every Job in the very words of the API server's own validation."""

    async def deny(review: AdmissionRequest) -> AdmissionResponse:
        name = review.name
        cause = {"reason": "FieldValueInvalid", "message": "Invalid value: 1: no", "field": "spec.parallelism"}
        message = f'Job.batch "{name}" is invalid: spec.parallelism: Invalid value: 1: no'
        details = {"name": name, "group": "batch", "kind": "Job", "causes": [cause]}
        status = {"status": "Failure", "reason": "Invalid", "code": 422, "message": message, "details": details}
        return AdmissionResponse(allowed=False, status=status)

    pair = material()
    async with serving(create_app({"/deny": deny}), context_with(pair)) as hook:
        yield hook.port, pair.authorities


@contextlib.asynccontextmanager
async def hooked(client: Client, ns: str, port: int, bundle: bytes) -> AsyncIterator[None]:
    """That webhook is called for the Jobs of a namespace."""
    hook = {
        "name": "hook.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 3,
        "clientConfig": {"url": f"https://127.0.0.1:{port}/deny", "caBundle": base64.b64encode(bundle).decode()},
        "rules": [NEW_JOBS],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
    }
    async with removed(client, WEBHOOKS, name=ns):
        await client.create(WEBHOOKS, {"metadata": {"name": ns}, "webhooks": [hook]})
        yield


def storage(amount: str) -> JSON:
    return {"requests": {"storage": amount}}


class TestClaims:
    LIVE = {"accessModes": ["ReadWriteOnce"], "resources": storage("1Gi"), "storageClassName": "standard"}
    TEMPLATE = "spec.volumeClaimPolicies[0].template[0]"

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

    async def test_but_not_for_what_it_is_not(self, server, manager, ns):
        async with self.existing(server, ns):
            found = await self.ask(manager, ns, resources=storage("2Gi"), storageClassName="fast")
        [error] = errors(found)
        assert error.startswith(f"{self.TEMPLATE}.spec: Invalid value: ")
        assert f"spec does not match existing PVC data-train in namespace {ns}; " in error
        assert (
            'resources.requests.storage is "1Gi" there, storageClassName is "standard" there: write the same' in error
        )

    async def test_nor_to_be_deleted_with_the_jobset(self, server, manager, ns):
        async with self.existing(server, ns):
            found = await self.ask(manager, ns, retain="Delete", **self.LIVE)
        [error] = found
        assert str(error.path) == "spec.volumeClaimPolicies[0].retentionPolicy.whenDeleted"
        assert error.detail == "retentionPolicy must be retain when PVC exists"

    async def test_one_that_is_on_its_way_out_is_a_warning(self, server, manager, ns):
        async with self.existing(server, ns, finalizers=["example.com/hold"]) as client:
            await client.delete(PERSISTENT_VOLUME_CLAIMS, "data-train", namespace=ns)
            found = await self.ask(manager, ns, retain="Delete", resources=storage("2Gi"))
            await client.patch(PERSISTENT_VOLUME_CLAIMS, "data-train", {"metadata": {"finalizers": None}}, namespace=ns)
        assert errors(found) == []
        assert warnings(found) == [
            f"{self.TEMPLATE}: PVC data-train is being deleted; a new, empty one is made once it is gone"
        ]

    async def test_a_claim_that_could_not_be_made_is_refused(self, manager, ns):
        found = await self.ask(manager, ns, accessModes=["ReadWriteSometimes"])
        assert sorted(str(error.path) for error in found) == [
            f"{self.TEMPLATE}.spec.accessModes",
            f"{self.TEMPLATE}.spec.resources.requests.storage",
        ]

    async def test_a_claim_that_may_not_be_read_is_an_internal_error(self, server, ns):
        found = await self.ask(server.kubeconfig_for("nobody"), ns, **self.LIVE)
        [error] = errors(found)
        assert error.startswith(
            f"{self.TEMPLATE}: Internal error: failed to check for existing PVC data-train: "
            'User "nobody" cannot get resource "persistentvolumeclaims"'
        )
