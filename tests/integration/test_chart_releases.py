"""The chart on a full control plane with Helm 3 and 4: install, upgrade, roll back and uninstall a release."""

import base64
import json
import shutil
from pathlib import Path

import pytest
import yaml

from dev.cluster.spec import ClusterSpec, FakeNodes
from dev.local import SERVED_PATHS
from manifests import files
from tests.support.cluster.helm import CHART, GO_USER, NAMESPACE, RELEASE
from tests.support.cluster.remains import collections, remains
from tests.support.cluster.requests import kubectl, request, serve, wait_for

pytestmark = pytest.mark.slow
"""The first run on a machine builds both Helms, for some minutes."""

MANAGER = "system:serviceaccount:jobset-system:jobset-controller-manager"
MANAGER_GROUPS = ["system:serviceaccounts", "system:serviceaccounts:jobset-system"]
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"
DEPLOYMENT = "/apis/apps/v1/namespaces/jobset-system/deployments/jobset-controller-manager"
FOREIGN = {
    "Certificate": "cert-manager.io/v1",
    "Issuer": "cert-manager.io/v1",
    "ServiceMonitor": "monitoring.coreos.com/v1",
}
"""Kinds of cert-manager and of the Prometheus operator, whose CRDs the cluster does not have."""


@pytest.fixture(scope="module")
def cluster(own_cluster):
    with own_cluster(ClusterSpec(name="chart", nodes=FakeNodes(count=2))) as running_cluster:
        kubectl(running_cluster, "create", "namespace", NAMESPACE)
        yield running_cluster


def old_chart(folder: Path) -> Path:
    """The chart as an earlier version: without one field of the CRD, and with a longer timeout of one webhook."""
    shutil.copytree(CHART, folder)
    crd = folder / "templates" / "crd.yaml"
    crd.write_text(
        crd.read_text().replace("\n              ttlSecondsAfterFinished:\n", "\n              earlierName:\n")
    )
    admission = folder / "templates" / "admission.yaml"
    admission.write_text(admission.read_text().replace("timeoutSeconds: 10", "timeoutSeconds: 20", 1))
    return folder


def release(helm, cluster, verb, *args, **options):
    return helm.run(verb, RELEASE, *args, f"--kubeconfig={cluster.kubeconfig}", "--namespace", NAMESPACE, **options)


def as_manager(cluster, kind, name, change):
    """Replace an object with the manager's own credential, as it writes certificates."""
    credential = f"--kubeconfig={cluster.kubeconfig_for(MANAGER, MANAGER_GROUPS)}"
    found = json.loads(kubectl(cluster, credential, "get", kind, name, "-n", NAMESPACE, "-o", "json"))
    change(found)
    kubectl(cluster, credential, "replace", "-f", "-", stdin=json.dumps(found))


def write_certificates(cluster):
    bundle = base64.b64encode((cluster.plan.layout.pki / "ca.crt").read_bytes()).decode()

    def trust(found):
        for hook in found["webhooks"]:
            hook["clientConfig"]["caBundle"] = bundle

    as_manager(cluster, "secret", "jobset-webhook-server-cert", lambda found: found.update(data={"ca.crt": bundle}))
    for kind in ("mutating", "validating"):
        as_manager(cluster, f"{kind}webhookconfiguration", f"jobset-{kind}-webhook-configuration", trust)
    return bundle


def certificates(cluster):
    """The bundles in the Secret and in every webhook; one if nobody has touched them."""
    core, admission = f"/api/v1/namespaces/{NAMESPACE}", "/apis/admissionregistration.k8s.io/v1"
    found = {(request(cluster, "GET", f"{core}/secrets/jobset-webhook-server-cert")[1].get("data") or {}).get("ca.crt")}
    for kind in ("mutating", "validating"):
        path = f"{admission}/{kind}webhookconfigurations/jobset-{kind}-webhook-configuration"
        found |= {hook["clientConfig"].get("caBundle") for hook in request(cluster, "GET", path)[1]["webhooks"]}
    return found


def timeout(cluster):
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/jobset-mutating-webhook-configuration"
    return request(cluster, "GET", path)[1]["webhooks"][0]["timeoutSeconds"]


def knows_ttl(cluster):
    schema = request(cluster, "GET", CRD)[1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return "ttlSecondsAfterFinished" in schema["properties"]["spec"]["properties"]


def replicas(cluster, path=DEPLOYMENT):
    return request(cluster, "GET", path)[1]["spec"]["replicas"]


def test_a_release_from_its_installation_to_its_end(helm, cluster, tmp_path):
    """The CRD goes with the release and outlives it; what the manager has written nobody touches."""
    kubectl(cluster, "apply", "--server-side", "-f", str(files.ROOT / "crd" / "jobsets.jobset.x-k8s.io.yaml"))
    uid = request(cluster, "GET", CRD)[1]["metadata"]["uid"]
    forced = ("--force-conflicts",) if helm.version == 4 else ()
    wait_for(lambda: all(request(cluster, "GET", path)[0] == 200 for path in SERVED_PATHS), what="JobSets to be served")
    kinds = collections(cluster)
    before = remains(cluster, NAMESPACE, kinds)
    old = str(old_chart(tmp_path / "old"))
    release(helm, cluster, "install", old, "--take-ownership", *forced)
    assert (timeout(cluster), knows_ttl(cluster), replicas(cluster)) == (20, False, 2)
    bundle = write_certificates(cluster)

    release(helm, cluster, "upgrade", str(CHART), values={"controller": {"replicas": 3}})
    assert (timeout(cluster), knows_ttl(cluster), replicas(cluster)) == (10, True, 3)
    assert certificates(cluster) == {bundle}

    release(helm, cluster, "rollback", "1")
    assert (timeout(cluster), knows_ttl(cluster), replicas(cluster)) == (20, False, 2)
    assert certificates(cluster) == {bundle}

    release(helm, cluster, "uninstall")
    assert request(cluster, "GET", CRD)[1]["metadata"]["uid"] == uid, "with the CRD every JobSet would go"
    wait_for(lambda: not left(cluster), timeout=60, what="all else to go")
    wait_for(lambda: remains(cluster, NAMESPACE, kinds) == before, timeout=60, what="all kinds of objects to go")

    release(helm, cluster, "install", str(CHART), values={"crds": {"keep": False}})
    assert request(cluster, "GET", CRD)[1]["metadata"]["uid"] == uid
    release(helm, cluster, "uninstall")
    wait_for(lambda: request(cluster, "GET", CRD)[0] == 404, what="the CRD to go, as asked")


def go_chart(folder: Path) -> Path:
    """A chart with the traits of the Go project's that matter: the CRD in `crds`, and a Deployment of another name."""
    labels = {"app": "jobset-controller"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "controller", "image": "none"}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "{{ .Values.fullnameOverride }}-controller"},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }
    (folder / "crds").mkdir(parents=True)
    (folder / "templates").mkdir()
    (folder / "Chart.yaml").write_text("{apiVersion: v2, name: jobset, version: 0.12.0}")
    shutil.copy(files.ROOT / "crd" / "jobsets.jobset.x-k8s.io.yaml", folder / "crds" / "jobsets.yaml")
    (folder / "templates" / "deployment.yaml").write_text(json.dumps(deployment))
    return folder


def test_a_user_of_the_go_projects_chart_upgrades_in_place_with_his_values(helm, cluster, tmp_path):
    """The CRD becomes part of the release without being created again."""
    for kind, api_version in FOREIGN.items():
        serve(cluster, kind, api_version)
    release(helm, cluster, "install", str(go_chart(tmp_path / "go")), values=GO_USER)
    uid = request(cluster, "GET", CRD)[1]["metadata"]["uid"]
    forced = ("--force-conflicts",) if helm.version == 4 else ()
    values = GO_USER | {"crds": {"keep": False}}
    release(helm, cluster, "upgrade", str(CHART), "--take-ownership", *forced, values=values)
    assert request(cluster, "GET", CRD)[1]["metadata"]["uid"] == uid
    assert replicas(cluster, DEPLOYMENT.replace("jobset-controller-", "ml-jobset-controller-")) == 3
    old = DEPLOYMENT.replace("jobset-controller-manager", "ml-jobset-controller")
    wait_for(lambda: request(cluster, "GET", old)[0] == 404, what="the old Deployment to go")
    issued = kubectl(cluster, "get", "certificates.cert-manager.io", "-n", NAMESPACE, "-o", "name")
    assert sorted(issued.split()) == [
        f"certificate.cert-manager.io/ml-jobset-{name}-server-cert" for name in ("metrics", "webhook")
    ]
    release(helm, cluster, "uninstall")
    wait_for(lambda: request(cluster, "GET", CRD)[0] == 404, what="the CRD to go, as asked")


def left(cluster):
    """What the release has left but the CRD."""
    kinds = (
        "all,secret,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding,poddisruptionbudget,networkpolicy"
    )
    hooks = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
    return kubectl(
        cluster, "get", f"{kinds},{hooks}", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=jobset", "-o", "name"
    )


VALUES = {
    "commonLabels": {"team": "ml"},
    "image": {"pullSecrets": [{"name": "pull"}]},
    "controller": {
        "annotations": {"a": "deployment"},
        "podAnnotations": {"a": "pod"},
        "env": [{"name": "E", "value": "v"}],
        "envFrom": [{"configMapRef": {"name": "more"}}],
        "volumes": [{"name": "extra", "emptyDir": {}}],
        "volumeMounts": [{"name": "extra", "mountPath": "/extra"}],
        "nodeSelector": {"pool": "system"},
        "affinity": {"podAntiAffinity": {}},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "hostNetwork": True,
        "podDisruptionBudget": {"minAvailable": "50%"},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ],
        "priorityClassName": "system-cluster-critical",
        "excludeWebhookPortFromMesh": True,
    },
    "certManager": {"enable": True},
    "prometheus": {"enable": True},
    "jobSetPolicies": {"enable": True},
    "ui": {"enable": True, "proxyImage": "proxy:v1", "tlsSecret": "page", "hosts": ["jobs.example.org"]},
    "networkPolicy": {"webhookFrom": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]},
}
"""Every optional field of every template."""


@pytest.mark.parametrize("pods", ["webhooks", "policies", "policies-without-manager"])
def test_the_api_server_knows_every_field_that_is_rendered(helm, cluster, pods):
    objects = [o for o in helm.objects(VALUES | {"podAdmission": pods}) if o["kind"] not in FOREIGN]
    text = yaml.safe_dump_all(objects)
    shown = kubectl(
        cluster, "apply", "--dry-run=server", "--server-side", "--force-conflicts", "--validate=strict", "-f", "-",
        stdin=text,
    )  # fmt: skip
    assert shown.count("serverside-applied") == len(objects)
