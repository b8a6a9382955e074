"""What quotas, policies, webhooks and existing objects refuse is a warning and no fault of the JobSet."""

import base64
import contextlib
from collections.abc import AsyncIterator

import pytest

from kube.client import Client
from kube.errors import ApiError
from kube.model.jsontree import dig
from kube.resources import JOBS, SERVICES, Resource
from tests.support.cluster.dry_run import POD, SPEC, administrator, ask, errors, pod, warnings
from tests.support.cluster.requests import eventually
from tests.support.objects.jobsets import JSON, rjob
from tests.support.tls import context_with, material, serving
from webhooks.review import AdmissionRequest, AdmissionResponse, Handler
from webhooks.router import create_app

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


class TestOthers:
    """What other people refuse does not make a JobSet a bad one."""

    async def test_a_quota_that_is_used_up(self, server, manager, ns):
        hard = {"count/jobs.batch": "0"}
        async with administrator(server) as client:
            await client.create(QUOTAS, {"metadata": {"name": "few"}, "spec": {"hard": hard}}, namespace=ns)
            status = {"status": {"hard": hard, "used": hard}}  # there is no controller that would count
            await client.patch(QUOTAS, "few", status, namespace=ns, subresource="status")
        expected = ["spec.replicatedJobs[0]: Jobs would be refused now: exceeded quota"]
        found = await eventually(lambda: ask(manager, ns, rjob("a"), rjob("b", parallelism=0)), what="the quota")
        assert (errors(found), warnings(found)) == ([], expected)

    @pytest.mark.parametrize("reason", ["Invalid", "Forbidden"])
    async def test_a_validating_policy_with_any_reason(self, server, manager, ns, reason):
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

    async def test_a_webhook_that_answers_like_the_api_server_itself(self, server, manager, ns):
        async with administrator(server) as client, answering(deny) as (port, bundle), hooked(client, ns, port, bundle):
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

    async def test_a_fault_is_reported_although_a_webhook_refuses_jobs(self, server, manager, ns):
        async with administrator(server) as client, answering(deny) as (port, bundle), hooked(client, ns, port, bundle):
            await eventually(lambda: ask(manager, ns), what="the webhook")
            found = await ask(manager, ns, rjob(job={"backoffLimit": -1}))
        assert [str(error.path) for error in found] == [f"{SPEC}.backoffLimit"]

    async def test_a_webhook_that_looks_for_the_jobset_which_is_not_stored_yet(self, server, manager, ns):
        mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        faulty = rjob(pod={"containers": [{"name": "c", "image": "i", **mount}]})
        async with administrator(server) as client, answering(owner_missing) as (port, bundle):
            body = {"metadata": owned("probe"), "spec": {"template": {"spec": pod(restartPolicy="Never")}}}
            async with hooked(client, ns, port, bundle):
                await eventually(lambda: refused(client, body, ns), what="the webhook")
                found = await ask(manager, ns)
                faults = await ask(manager, ns, faulty)
        assert not any("refused now" in warning for warning in warnings(found))
        assert errors(found) == []
        assert [str(error.path) for error in faults] == [f"{POD}.containers[0].volumeMounts[0].name"]

    async def test_a_namespace_that_is_not_there(self, manager):
        found = await ask(manager, "nowhere")
        assert errors(found) == []
        assert warnings(found) == ['metadata.name: its Service would be refused now: namespaces "nowhere" not found']

    async def test_rights_that_are_missing(self, server, ns):
        stranger = server.kubeconfig_for("stranger")
        found = await ask(stranger, ns)
        assert errors(found) == []
        assert any('User "stranger" cannot create ' in warning for warning in warnings(found))

    async def test_a_job_of_somebody_else(self, server, manager, ns):
        body = {"metadata": {"name": "train-workers-0"}, "spec": {"template": {"spec": pod(restartPolicy="Never")}}}
        async with administrator(server) as client:
            await client.create(JOBS, body, namespace=ns)
        found = await ask(manager, ns)
        assert errors(found) == []
        assert warnings(found) == [
            "spec.replicatedJobs[0].name: Job train-workers-0 exists and is not this JobSet's; rename or delete it"
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
        warned = "Service shared exists and is not this JobSet's: pods get DNS names only if it selects them; delete it, or set spec.network.subdomain to another name"
        assert errors(found) == []
        assert warnings(found) == ([] if owner == "train" else [f"spec.network.subdomain: {warned}"])


@contextlib.asynccontextmanager
async def removed(client: Client, *resources: Resource, name: str) -> AsyncIterator[None]:
    """Cluster-wide objects do not outlive the test."""
    try:
        yield
    finally:
        for resource in resources:
            with contextlib.suppress(ApiError):
                await client.delete(resource, name)


async def deny(review: AdmissionRequest) -> AdmissionResponse:
    """Refuses every Job in the very words of the API server's own validation."""
    name = dig(review.object, "metadata", "name")
    cause = {"reason": "FieldValueInvalid", "message": "Invalid value: 1: no", "field": "spec.parallelism"}
    message = f'Job.batch "{name}" is invalid: spec.parallelism: Invalid value: 1: no'
    details = {"name": name, "group": "batch", "kind": "Job", "causes": [cause]}
    status = {"status": "Failure", "reason": "Invalid", "code": 422, "message": message, "details": details}
    return AdmissionResponse(allowed=False, status=status)


async def owner_missing(review: AdmissionRequest) -> AdmissionResponse:
    """Refuses every Job that has an owner, in the words of Kueue's webhook where that owner is not stored."""
    owners = (review.object or {})["metadata"].get("ownerReferences") or []
    message = "".join(f'{owner["kind"]}.jobset.x-k8s.io "{owner["name"]}" not found' for owner in owners)
    status = {"status": "Failure", "reason": "NotFound", "code": 404, "message": message}
    return AdmissionResponse(allowed=not owners, status=status if owners else None)


def owned(name: str) -> JSON:
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": name, "uid": "u"}
    return {"name": name, "ownerReferences": [owner]}


async def refused(client: Client, body: JSON, ns: str) -> bool:
    try:
        await client.create(JOBS, body, namespace=ns, dry_run=True)
    except ApiError as error:
        return error.code == 404
    return False


@contextlib.asynccontextmanager
async def answering(handler: Handler) -> AsyncIterator[tuple[int, bytes]]:
    """A webhook: its port and the certificates that it is trusted by."""
    pair = material()
    async with serving(create_app({"/deny": handler}), context_with(pair)) as hook:
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
