"""The overlays of manifests/in-api-server on a real API server: applied, applied again, changed over and back."""

import base64
import json
from functools import partial

import pytest

from dev.cluster.spec import ClusterSpec
from manifests import files, install_objects
from tests.support.cluster.requests import kubectl, replace_object, request

WITH_WEBHOOKS = files.ROOT
IN_API_SERVER = files.ROOT / "in-api-server"
WITHOUT_MANAGER = IN_API_SERVER / "without-manager"
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = {"jobset-pod-checks", "jobset-pod-follower", "jobset-pod-leader", "jobset-pod-priority"}


@pytest.fixture(scope="module")
def server(own_cluster):
    with own_cluster(ClusterSpec(name="overlays", profile="api")) as cluster:
        yield cluster


def apply(server, folder):
    """As the manuals say; conflicts would be errors."""
    kubectl(server, "apply", "--server-side", "-k", str(folder))


def items(server, resource):
    return request(server, "GET", f"{ADMISSION}/{resource}")[1]["items"]


def webhooks(server):
    """Name of each of our webhooks -> its CA bundle."""
    hooks = [hook for kind in CONFIGURATIONS for item in items(server, kind) for hook in item["webhooks"]]
    return {hook["name"]: hook["clientConfig"].get("caBundle") for hook in hooks}


def policies(server):
    """Names of policies that are bound."""
    found = set()
    for kind in ("mutatingadmissionpolicies", "validatingadmissionpolicies"):
        bound = {item["spec"]["policyName"] for item in items(server, kind.replace("policies", "policybindings"))}
        found |= bound & {item["metadata"]["name"] for item in items(server, kind)}
    return found


def trust(bundle, configuration):
    for hook in configuration["webhooks"]:
        hook["clientConfig"]["caBundle"] = bundle


def tell_authority(server):
    """Write the CA bundle into every webhook as the manager does: by replacing the object."""
    bundle = base64.b64encode((server.plan.layout.pki / "ca.crt").read_bytes()).decode()
    for kind in CONFIGURATIONS:
        for item in items(server, kind):
            path = f"{ADMISSION}/{kind}/{item['metadata']['name']}"
            status, answer = replace_object(partial(request, server), path, partial(trust, bundle))
            assert status == 200, answer
    return bundle


def generations(server, folder):
    """(kind, name) -> generation and resourceVersion of all that an overlay holds."""
    found = json.loads(kubectl(server, "get", "-k", str(folder), "-o", "json"))["items"]
    metadata = {(item["kind"], item["metadata"]["name"]): item["metadata"] for item in found}
    return {key: (meta.get("generation"), meta["resourceVersion"]) for key, meta in metadata.items()}


@pytest.mark.parametrize(
    ("folder", "pods"),
    [(IN_API_SERVER, "policies"), (WITHOUT_MANAGER, "policies-without-manager")],
    ids=["in-api-server", "without-manager"],
)
def test_an_overlay_holds_the_install_objects_and_applies_again_without_a_change(server, folder, pods):
    apply(server, folder)
    crd = "customresourcedefinition/jobsets.jobset.x-k8s.io"
    kubectl(server, "wait", "--for=create", crd)
    kubectl(server, "wait", "--for=condition=NamesAccepted", crd)
    before = generations(server, folder)
    assert before.keys() == {(o["kind"], o["metadata"]["name"]) for o in install_objects(pods=pods)}
    apply(server, folder)
    assert generations(server, folder) == before


def test_changing_over_leaves_no_moment_without_admission_of_pods(server):
    apply(server, WITH_WEBHOOKS)
    bundle = tell_authority(server)
    jobsets = {"mjobset.kb.io": bundle, "vjobset.kb.io": bundle}
    pods = {"mpod.kb.io": bundle, "mpodlabel.kb.io": bundle, "mpodspare.kb.io": bundle, "vpod.kb.io": bundle}
    assert webhooks(server) == jobsets | pods

    apply(server, IN_API_SERVER / "policies")
    assert (webhooks(server), policies(server)) == (jobsets | pods, POLICIES)
    apply(server, IN_API_SERVER)
    assert (webhooks(server), policies(server)) == (jobsets, POLICIES)

    apply(server, WITH_WEBHOOKS)
    assert webhooks(server) == jobsets | dict.fromkeys(pods)
    assert policies(server) == POLICIES
    tell_authority(server)
    kubectl(server, "delete", "-k", str(IN_API_SERVER / "policies"))
    assert (webhooks(server), policies(server)) == (jobsets | pods, set())


def test_the_variants_of_the_policies_replace_each_other(server):
    apply(server, WITHOUT_MANAGER)
    alone = generations(server, WITHOUT_MANAGER / "policies")
    apply(server, IN_API_SERVER)
    gated = generations(server, IN_API_SERVER / "policies")
    assert gated.keys() == alone.keys()
    assert {name for (_, name), state in gated.items() if state != alone[_, name]} == {
        "jobset-pod-checks",
        "jobset-pod-follower",
    }
