"""Bodies of Jobs, Service and claims as the API server gets them (docs/reference/names-and-labels.md)."""

import copy

import msgspec
import pytest

from api import keys
from api.children import Counters, build_job, build_service, build_volume_claim
from api.features import FeatureGates
from api.layout import layout_of
from api.names import job_key
from tests.support.objects.stored_sets import jobset, rjob

EXCLUSIVE, SELECTOR = keys.EXCLUSIVE_TOPOLOGY, keys.NODE_SELECTOR_STRATEGY


def first_job(js, *, rjob_index=0, **options):
    layout = layout_of(js)
    jobs = layout.ranges[rjob_index]
    position = next(iter(jobs.positions(js.metadata.name)))
    return build_job(js, layout, jobs, position, **options)


def pod_of(job):
    return job["spec"]["template"]


ALL_KEYS = {
    keys.JOBSET_NAME: "js",
    keys.JOBSET_UID: "js-uid",
    keys.REPLICATED_JOB_NAME: "workers",
    keys.RESTART_ATTEMPT: "0",
    keys.REPLICATED_JOB_REPLICAS: "2",
    keys.GLOBAL_REPLICAS: "3",
    keys.JOB_INDEX: "0",
    keys.JOB_KEY: job_key("ns", "js-workers-0"),
    keys.JOB_GLOBAL_INDEX: "1",
    keys.GROUP_NAME: "default",
    keys.GROUP_REPLICAS: "3",
    keys.JOB_GROUP_INDEX: "1",
    keys.COORDINATOR: "js-driver-0-0.js",
}


def test_every_key_is_label_and_annotation_of_job_and_pod():
    job = first_job(jobset(rjob("driver"), rjob("workers", 2), coordinator={"replicatedJob": "driver"}), rjob_index=1)
    for meta in (job["metadata"], pod_of(job)["metadata"]):
        assert meta["labels"] == ALL_KEYS
        assert meta["annotations"] == ALL_KEYS


@pytest.mark.parametrize(
    ("gate", "counters", "key", "value"),
    [
        ("RestartJob", {}, keys.JOB_RESTART_ATTEMPT, "0"),
        ("RestartJob", {"job_restarts": 2}, keys.JOB_RESTART_ATTEMPT, "2"),
        ("", {"job_restarts": 2}, keys.JOB_RESTART_ATTEMPT, "2"),
        ("ExecutionAttemptsTracking", {}, keys.EXECUTION_ATTEMPT, "0"),
        ("ExecutionAttemptsTracking", {"execution_attempts": 3}, keys.EXECUTION_ATTEMPT, "3"),
    ],
    ids=["first-run", "restarted", "restarted-before-the-gate-went-off", "first-attempt", "third-resume"],
)
def test_a_gate_adds_its_key_to_job_and_pod(gate, counters, key, value):
    assert key not in first_job(jobset())["metadata"]["annotations"]
    job = first_job(jobset(), gates=FeatureGates({gate: True} if gate else {}), counters=Counters(**counters))
    assert [meta["annotations"][key] for meta in (job["metadata"], pod_of(job)["metadata"])] == [value, value]


def test_suspend_is_always_set_and_overrides_the_template():
    template = rjob()
    template["template"]["spec"]["suspend"] = True
    assert first_job(jobset(template))["spec"]["suspend"] is False
    assert first_job(jobset(suspend=True))["spec"]["suspend"] is True


def test_everything_else_of_the_template_passes_through():
    template = rjob(backoffLimit=3, pod={"subdomain": "mine", "volumes": [{"name": "tmp", "emptyDir": {}}]})
    template["template"]["spec"]["podFailurePolicy"] = {"rules": [{"action": "FailJob", "future": 1}]}
    job = first_job(jobset(template))
    assert job["spec"]["podFailurePolicy"] == {"rules": [{"action": "FailJob", "future": 1}]}
    assert job["spec"]["backoffLimit"] == 3
    assert pod_of(job)["spec"]["subdomain"] == "js", "DNS names need our subdomain"
    assert pod_of(job)["spec"]["volumes"] == [{"name": "tmp", "emptyDir": {}}]


def test_exit_codes_become_rules_of_the_job_after_its_own():
    own = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    template = rjob(exitCodePolicy={"permanent": [3], "retryable": [143], "containerName": "main"})
    template["template"]["spec"]["podFailurePolicy"] = {"rules": [own]}
    assert first_job(jobset(template))["spec"]["podFailurePolicy"]["rules"] == [
        own,
        {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [3]}},
        {"action": "Ignore", "onExitCodes": {"containerName": "main", "operator": "In", "values": [143]}},
    ]


def test_building_changes_nothing_of_the_jobset():
    js = jobset(rjob(annotations={EXCLUSIVE: "rack", SELECTOR: "true"}, pod={"nodeSelector": {"a": "b"}}))
    before = copy.deepcopy(js)
    first_job(js)
    assert js == before


@pytest.mark.parametrize(
    ("on_set", "on_rjob", "effective"),
    [
        ({}, {}, {}),
        ({EXCLUSIVE: "rack"}, {}, {EXCLUSIVE: "rack"}),
        ({EXCLUSIVE: "rack"}, {EXCLUSIVE: "zone"}, {EXCLUSIVE: "zone"}),
        ({EXCLUSIVE: "rack", SELECTOR: "true"}, {}, {EXCLUSIVE: "rack", SELECTOR: "true"}),
        ({SELECTOR: "true"}, {}, {}),
        ({EXCLUSIVE: "rack"}, {SELECTOR: "true"}, {EXCLUSIVE: "rack"}),
        ({}, {EXCLUSIVE: "rack", SELECTOR: "true"}, {EXCLUSIVE: "rack", SELECTOR: "true"}),
    ],
)
def test_placement_annotations_by_level(on_set, on_rjob, effective):
    job = first_job(jobset(rjob(annotations=on_rjob), annotations=on_set))
    found = {k: v for k, v in pod_of(job)["metadata"]["annotations"].items() if k in {EXCLUSIVE, SELECTOR}}
    assert found == effective
    strategy = pod_of(job)["spec"].get("nodeSelector")
    assert strategy == ({keys.NAMESPACED_JOB: "ns_js-workers-0"} if SELECTOR in effective else None)
    assert bool(pod_of(job)["spec"].get("tolerations")) == (SELECTOR in effective)


POLICIES = [
    {
        "templates": [
            {"metadata": {"name": "data", "labels": {"a": "b"}}, "spec": {"storageClassName": "fast"}},
            {"metadata": {"name": "unused"}, "spec": {}},
        ]
    }
]


def test_claims_are_mounted_where_a_container_names_them():
    mounts = {"initContainers": [{"name": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}
    job = first_job(jobset(rjob(pod=mounts), volumeClaimPolicies=POLICIES))
    assert pod_of(job)["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-js"}}]


def test_claims_belong_to_the_set_unless_retained():
    js = jobset(volumeClaimPolicies=POLICIES)
    policy = js.spec.volume_claim_policies[0]
    claim = build_volume_claim(js, policy, policy.templates[0])
    assert claim["metadata"]["name"] == "data-js"
    assert claim["metadata"]["labels"] == {"a": "b", keys.JOBSET_NAME: "js"}
    assert claim["metadata"]["ownerReferences"][0]["uid"] == "js-uid"
    assert claim["spec"] == {"storageClassName": "fast"}
    kept = jobset(volumeClaimPolicies=[{**POLICIES[0], "retentionPolicy": {"whenDeleted": "Retain"}}])
    policy = kept.spec.volume_claim_policies[0]
    assert "ownerReferences" not in build_volume_claim(kept, policy, policy.templates[0])["metadata"]


def test_the_service_is_headless_and_selects_the_set():
    service = build_service(jobset(network={"enableDNSHostnames": True, "subdomain": "net"}))
    assert service["metadata"]["name"] == "net"
    assert "labels" not in service["metadata"]
    assert service["spec"] == {
        "clusterIP": "None",
        "selector": {keys.JOBSET_NAME: "js"},
        "publishNotReadyAddresses": True,
    }
    quiet = build_service(jobset(network={"enableDNSHostnames": True, "publishNotReadyAddresses": False}))
    assert quiet["spec"]["publishNotReadyAddresses"] is False


def test_bodies_are_json():
    assert msgspec.json.decode(msgspec.json.encode(first_job(jobset()))) == first_job(jobset())
