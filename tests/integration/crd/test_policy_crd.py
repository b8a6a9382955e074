"""A real API server takes the CRD of policies, the examples of every rule, and refuses what its schema excludes."""

from collections.abc import Iterator

import pytest
import yaml

from manifests.definition import policy_crd
from tests.support.cluster.requests import request, wait_for
from tests.support.objects.policies import manifest
from tests.support.pages.files import ROOT

pytestmark = pytest.mark.integration

POLICIES = "/apis/policy.jobset.x-k8s.io/v1alpha1/jobsetpolicies"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def served(jobset_server) -> Iterator[object]:
    status, body = request(jobset_server, "POST", DEFINITIONS, policy_crd())
    assert status == 201, body
    wait_for(lambda: request(jobset_server, "GET", POLICIES)[0] == 200)
    yield jobset_server
    request(jobset_server, "DELETE", f"{DEFINITIONS}/{policy_crd()['metadata']['name']}")
    wait_for(lambda: request(jobset_server, "GET", POLICIES)[0] == 404)


def test_the_policy_of_each_example_is_stored(served):
    files = sorted((ROOT / "examples/policies").glob("*.yaml"))
    answers = [request(served, "POST", POLICIES, next(yaml.safe_load_all(file.read_text()))) for file in files]
    assert [status for status, _ in answers] == [201] * len(files), answers


def test_warn_is_the_default(served):
    obj = manifest("default", requiredQueue={})
    del obj["spec"]["validationActions"]
    status, stored = request(served, "POST", POLICIES, obj)
    assert (status, stored["spec"]["validationActions"]) == (201, ["Warn"])
    assert stored["spec"]["rules"]["requiredQueue"]["labels"] == ["kueue.x-k8s.io/queue-name"]


def test_its_schema_refuses_what_is_no_quantity_and_what_is_no_action(served):
    status, body = request(served, "POST", POLICIES, manifest("bad", ("Refuse",), maxJobs={"max": "8 Jobs"}))
    assert status == 422
    assert {cause["field"] for cause in body["details"]["causes"]} >= {
        "spec.validationActions[0]",
        "spec.rules.maxJobs.max",
    }
