"""install.yaml on a real API server: it applies twice without a change, and the rights are what the table says."""

import base64
import json
import re

import pytest
import yaml

from dev.cluster.spec import ClusterSpec
from manifests import files, install_objects
from manifests.__main__ import main as refresh_manifests
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import kubectl, request, wait_for

AVAILABILITY = files.ROOT.parent / "docs" / "high-availability.md"
INSTALL = files.ROOT / "install.yaml"
MANAGER = "system:serviceaccount:jobset-system:jobset-controller-manager"
MANAGER_GROUPS = ["system:serviceaccounts", "system:serviceaccounts:jobset-system"]
NAMESPACE = "/api/v1/namespaces/jobset-system"
PODS = f"{NAMESPACE}/pods"


@pytest.fixture(scope="module")
def server(own_cluster):
    """An API server of its own with install.yaml applied: its webhooks have nobody behind them."""
    with own_cluster(ClusterSpec(name="install", profile="api")) as cluster:
        kubectl(cluster, "apply", "--server-side", "-f", str(INSTALL))
        yield cluster


def state(server):
    """(kind, name) -> (generation, resourceVersion) of everything that is installed."""
    items = json.loads(kubectl(server, "get", "-f", str(INSTALL), "-o", "json"))["items"]
    return {
        (i["kind"], i["metadata"]["name"]): (i["metadata"].get("generation"), i["metadata"]["resourceVersion"])
        for i in items
    }


def established(server):
    crd = request(server, "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io")[1]
    return any(c["type"] == "Established" and c["status"] == "True" for c in crd["status"]["conditions"] or ())


def test_applied_again_nothing_changes(server):
    wait_for(lambda: established(server))
    before = state(server)
    assert len(before) == len(install_objects())
    kubectl(server, "apply", "--server-side", "-f", str(INSTALL))
    assert state(server) == before


def test_kustomize_installs_the_same(server):
    wait_for(lambda: established(server))
    before = state(server)
    kubectl(server, "apply", "--server-side", "-k", str(files.ROOT))
    assert state(server) == before


def test_kustomize_overrides_the_image(server, tmp_path):
    target = tmp_path / "own"
    target.mkdir()
    (target / "kustomization.yaml").write_text(
        "resources: [../manifests]\nimages: [{name: jobset, newName: registry.example/jobset, newTag: v1}]\n"
    )
    (tmp_path / "manifests").symlink_to(files.ROOT)
    built = kubectl(server, "kustomize", "--load-restrictor=LoadRestrictionsNone", str(target))
    assert "image: registry.example/jobset:v1\n" in built


def test_kustomize_takes_the_changes_that_the_page_on_availability_shows(server, tmp_path):
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", AVAILABILITY.read_text(), re.MULTILINE | re.DOTALL)
    target = tmp_path / "own"
    target.mkdir()
    (target / "kustomization.yaml").write_text(shown)
    (tmp_path / "manifests").symlink_to(files.ROOT)
    built = kubectl(server, "kustomize", "--load-restrictor=LoadRestrictionsNone", str(target))
    (deployment,) = [o for o in yaml.safe_load_all(built) if o["kind"] == "Deployment"]
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["template"]["spec"]["priorityClassName"] == "system-cluster-critical"


def test_a_certificate_authority_written_by_the_manager_survives_the_next_apply(server):
    """Written with the manager's own credential, as the certificates' owner does it."""
    kind, name = "validatingwebhookconfiguration", "jobset-validating-webhook-configuration"
    bundle = base64.b64encode((server.plan.layout.pki / "ca.crt").read_bytes()).decode()
    as_manager = f"--kubeconfig={server.kubeconfig_for(MANAGER, MANAGER_GROUPS)}"
    config = json.loads(kubectl(server, as_manager, "get", kind, name, "-o", "json"))
    config["webhooks"][0]["clientConfig"]["caBundle"] = bundle
    kubectl(server, as_manager, "replace", "-f", "-", stdin=json.dumps(config))
    kubectl(server, "apply", "--server-side", "-f", str(INSTALL))
    path = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}"
    assert request(server, "GET", path)[1]["webhooks"][0]["clientConfig"]["caBundle"] == bundle


def allowed(server, verb, resource, *, group="", name="", namespace=None, subresource=""):
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "name": name}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": MANAGER, "resourceAttributes": attributes | ({"namespace": namespace} if namespace else {})},
    }
    return request(server, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)[1]["status"]["allowed"]


OWN_SECRET = {"namespace": "jobset-system", "name": "jobset-webhook-server-cert"}
WEBHOOKS = {"group": "admissionregistration.k8s.io", "name": "jobset-mutating-webhook-configuration"}
GRANTED = [
    ("patch", "pods", {"subresource": "status"}),
    ("delete", "jobsets", {"group": "jobset.x-k8s.io"}),
    ("patch", "jobsets", {"group": "jobset.x-k8s.io", "subresource": "status"}),
    ("update", "jobsets", {"group": "jobset.x-k8s.io", "subresource": "finalizers"}),
    ("create", "jobs", {"group": "batch"}),
    ("create", "services", {}),
    ("create", "events", {"group": "events.k8s.io"}),
    ("patch", "leases", {"group": "coordination.k8s.io", "namespace": "jobset-system"}),
    ("update", "secrets", OWN_SECRET),
    ("watch", "secrets", OWN_SECRET),
    ("create", "tokenreviews", {"group": "authentication.k8s.io"}),
    ("update", "mutatingwebhookconfigurations", WEBHOOKS),
]
REFUSED = [
    ("create", "pods", {}),
    ("create", "jobsets", {"group": "jobset.x-k8s.io"}),
    ("get", "secrets", {"namespace": "default"}),
    ("list", "secrets", {}),
    ("list", "secrets", {"namespace": "jobset-system"}),
    ("get", "secrets", {"namespace": "jobset-system", "name": "somebody-elses"}),
    ("patch", "secrets", OWN_SECRET),
    ("create", "secrets", {"namespace": "jobset-system"}),
    ("patch", "jobsets", {"group": "jobset.x-k8s.io"}),
    ("update", "jobs", {"group": "batch"}),
    ("delete", "services", {}),
    ("create", "events", {}),
    ("create", "leases", {"group": "coordination.k8s.io", "namespace": "default"}),
    ("delete", "persistentvolumeclaims", {}),
    ("update", "nodes", {}),
    ("update", "mutatingwebhookconfigurations", WEBHOOKS | {"name": "somebody-elses"}),
    ("get", "mutatingwebhookconfigurations", WEBHOOKS | {"name": "somebody-elses"}),
    ("update", "customresourcedefinitions", {"group": "apiextensions.k8s.io"}),
    ("impersonate", "users", {}),
]


@pytest.mark.parametrize(("verb", "resource", "more"), GRANTED)
def test_the_manager_may(server, verb, resource, more):
    wait_for(lambda: allowed(server, verb, resource, **{"namespace": "default"} | more), timeout=10)


@pytest.mark.parametrize(("verb", "resource", "more"), REFUSED)
def test_the_manager_may_not(server, verb, resource, more):
    assert not allowed(server, verb, resource, **{"namespace": "default"} | more)


def pod():
    (deployment,) = [o for o in install_objects() if o["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"} | template["metadata"],
        "spec": template["spec"],
    }


def test_the_namespace_takes_the_managers_pod_and_no_privileged_one(server):
    dry = f"{PODS}?dryRun=All&fieldValidation=Strict"
    status, answer = request(server, "POST", dry, pod())
    assert status == 201, answer["message"]
    privileged = pod()
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    status, answer = request(server, "POST", dry, privileged)
    assert status == 403
    assert 'violates PodSecurity "restricted:' in answer["message"]


def test_without_a_manager_jobsets_are_refused_and_all_else_works(server):
    """No JobSet slips in undefaulted and unchecked; Jobs and pods of others never wait for us."""
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
    jobs = "/apis/batch/v1/namespaces/default/jobs?dryRun=All"
    assert request(server, "POST", jobs, {"metadata": {"name": "plain"}, "spec": spec})[0] == 201

    def refused():
        body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "a"}, "spec": {}}
        path = JOBSETS.format("default") + "?dryRun=All"
        return 'failed calling webhook "mjobset.kb.io"' in request(server, "POST", path, body)[1].get("message", "")

    wait_for(refused, what="the webhook configuration to take effect")


@pytest.mark.newest
def test_refresh_of_the_embedded_types_reproduces_the_committed_file(server, tmp_path, monkeypatch):
    refreshed = tmp_path / "kubernetes.json"
    monkeypatch.setattr("manifests.__main__.DEFINITIONS_FILE", refreshed)
    options = [f"--kubectl={server.kubectl}", f"--kubeconfig={server.kubeconfig}"]
    assert refresh_manifests(["--check", "--refresh-openapi", *options]) == 0
    assert refreshed.read_text() == (files.ROOT / "openapi" / "kubernetes.json").read_text()
