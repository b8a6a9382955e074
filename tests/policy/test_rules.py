"""What each rule demands beyond its example in examples/policies."""

from typing import Any

import pytest

from api.jobset import JobSet
from kube.model.images import full_name
from kube.model.meta import ObjectMeta
from policy.evaluate import numbers_by_rule
from policy.judged import JudgedJobSet, Namespace
from tests.support.objects.jobsets import rjob
from tests.support.objects.policies import judged, of_pod, places, policy, texts

QUEUE = "kueue.x-k8s.io/queue-name"
TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
JOB = "spec.replicatedJobs[0].template."


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({}, [f"metadata.labels[{QUEUE}]"]),
        ({QUEUE: ""}, [f"metadata.labels[{QUEUE}]"]),
        ({"queue": "a"}, []),
        ({QUEUE: "a"}, []),
        ({QUEUE: "c"}, [f"metadata.labels[{QUEUE}]"]),
        ({QUEUE: "a", "queue": "c"}, ["metadata.labels.queue"]),
    ],
)
def test_required_queue(labels: dict[str, str], found: list[str]):
    js = judged(metadata={"labels": labels})
    assert places(js, requiredQueue={"labels": [QUEUE, "queue"], "allowed": ["a", "b"]}) == found


def test_the_queue_label_of_kueue_is_the_default():
    assert places(judged(), requiredQueue={}) == [f"metadata.labels[{QUEUE}]"]


@pytest.mark.parametrize("kind", ["Labels", "Annotations"])
@pytest.mark.parametrize(
    ("value", "pattern", "good"),
    [
        ("x", "", True), ("abc", "b", False), ("abc", ".b.", True), ("a\nb", "a.b", False), ("a", "a|bc", True),
        (None, "", False), ("a", "a(", False),
    ],
)  # fmt: skip
def test_required_pairs_match_as_a_whole(kind: str, value: str | None, pattern: str, good: bool):
    js = judged(metadata={kind.lower(): {} if value is None else {"key": value}})
    pair = {"key": "key", "pattern": pattern} if pattern else {"key": "key"}
    assert (places(js, **{f"required{kind}": [pair]}) == []) is good


def test_a_missing_label_says_what_its_value_has_to_match():
    (text,) = texts(judged(), policy(requiredLabels=[{"key": "a", "pattern": "[0-9]+"}]))
    assert (
        text == "metadata.labels.a: Required value: policy limits; add the label a with a value that matches '[0-9]+'"
    )


def test_the_request_of_a_pod_as_a_whole_is_pointed_at():
    js = of_pod(containers=[{}], resources={"limits": {"cpu": 3}})
    assert places(js, maxTotals={"resources": [{"name": "cpu", "max": 1}]}) == ["resources.limits.cpu"]


def test_a_set_without_replicated_jobs_has_totals_of_0():
    js = JudgedJobSet(JobSet(metadata=ObjectMeta()))
    rules = {"maxTotals": {"pods": {"max": 0}, "resources": [{"name": "cpu", "max": 0}]}, "maxJobs": {"max": 0}}
    assert places(js, **rules) == []
    compared = numbers_by_rule(policy(**rules), js, Namespace())
    assert {str(number.find_path()) for each in compared.values() for number in each} == {"spec.replicatedJobs"}


def test_many_templates_are_not_all_listed():
    js = judged(*(rjob(f"r{i}") for i in range(12)))
    (text,) = texts(js, policy(maxJobs={"max": 3}))
    assert text.endswith("r7 has 1; and others")


RULES = [
    {"name": "free", "action": "RestartJobSetAndIgnoreMaxRestarts"},
    {"name": "limited", "action": "RestartJobSetAndIgnoreMaxRestarts", "maxRestarts": 1},
    {"name": "fails", "action": "FailJobSet"},
    {"name": "counted", "action": "RestartJob"},
    {"name": "job", "action": "RestartJobAndIgnoreMaxRestarts"},
]


def test_unlimited_actions_are_those_that_nothing_counts():
    js = judged(failurePolicy={"maxRestarts": 1, "rules": RULES})
    assert places(js, maxRestarts={"forbidUnlimitedActions": True}) == [
        "spec.failurePolicy.rules[0].action",
        "spec.failurePolicy.rules[4].action",
    ]


def test_a_set_without_failure_policy_restarts_never():
    assert places(judged(), maxRestarts={"max": 0}, restartStrategies={"allowed": ["BlockingRecreate"]}) == []


@pytest.mark.parametrize(
    ("job", "place"),
    [
        ({}, "backoffLimit"),
        ({"backoffLimit": 5}, "backoffLimit"),
        ({"backoffLimit": 4}, ""),
        ({"backoffLimitPerIndex": 5}, "backoffLimitPerIndex"),
        ({"backoffLimitPerIndex": 5, "backoffLimit": 1}, ""),
    ],
)
def test_backoff_limit(job: dict[str, Any], place: str):
    template = rjob()
    template["template"]["spec"] |= job
    found = [f"{JOB}spec.{place}"] if place else []
    assert places(judged(template), backoffLimit={"max": 4}) == found


@pytest.mark.parametrize(("restarts", "found"), [(0, []), (1, [f"{JOB}spec.backoffLimit"])])
def test_backoff_limit_is_0_only_where_the_set_restarts(restarts: int, found: list[str]):
    js = judged(failurePolicy={"maxRestarts": restarts})
    assert places(js, backoffLimit={"zeroWithRestarts": True}) == found


@pytest.mark.parametrize(
    ("rule", "field"), [("ttl", "ttlSecondsAfterFinished"), ("activeDeadline", "activeDeadlineSeconds")]
)
@pytest.mark.parametrize(
    ("demanded", "seconds", "good"),
    [
        ({"required": True}, None, False), ({"required": True}, 9, True), ({"max": 5}, None, True), ({"max": 5}, 5, True),
        ({"max": 5}, 6, False), ({"max": "2m"}, 120, True), ({"max": "2m"}, 121, False),
    ],
)  # fmt: skip
def test_seconds(rule: str, field: str, demanded: dict[str, Any], seconds: int | None, good: bool):
    js = judged(**({} if seconds is None else {field: seconds}))
    assert places(js, **{rule: demanded}) == ([] if good else [f"spec.{field}"])


@pytest.mark.parametrize(
    ("name", "required", "good"), [(None, False, True), (None, True, False), ("a", True, True), ("b", False, False)]
)
def test_priority_classes(name: str | None, required: bool, good: bool):
    js = of_pod(**({"priorityClassName": name} if name else {}))
    found = places(js, priorityClasses={"allowed": ["a"], "required": required})
    assert found == ([] if good else ["priorityClassName"])


@pytest.mark.parametrize(
    ("own", "whole", "rule", "found"),
    [
        (None, None, {"required": True}, [f"{JOB}metadata.annotations[{TOPOLOGY}]", f"spec.replicatedJobs[1].template.metadata.annotations[{TOPOLOGY}]"]),
        ("rack", None, {"required": True}, [f"spec.replicatedJobs[1].template.metadata.annotations[{TOPOLOGY}]"]),
        (None, "rack", {"required": True}, []),
        (None, "zone", {"allowed": ["rack"]}, [f"metadata.annotations[{TOPOLOGY}]"]),
        ("zone", "rack", {"allowed": ["rack"]}, [f"{JOB}metadata.annotations[{TOPOLOGY}]"]),
        (None, None, {"allowed": ["rack"]}, []),
    ],
)  # fmt: skip
def test_exclusive_topologies(own: str | None, whole: str | None, rule: dict[str, Any], found: list[str]):
    first = rjob("a")
    if own:
        first["template"]["metadata"] = {"annotations": {TOPOLOGY: own}}
    js = judged(first, rjob("b"), metadata={"annotations": {TOPOLOGY: whole}} if whole else {})
    assert places(js, exclusiveTopologies=rule) == found


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("nginx", "docker.io/library/nginx"),
        ("nginx:1.2", "docker.io/library/nginx"),
        ("team/nginx", "docker.io/team/nginx"),
        ("index.docker.io/team/nginx", "docker.io/team/nginx"),
        ("localhost/a", "localhost/a"),
        ("EVIL/foo", "EVIL/foo"),
        ("evil/foo", "docker.io/evil/foo"),
        ("reg:5000/a:b", "reg:5000/a"),
        ("reg.example.com/a/b@sha256:0", "reg.example.com/a/b"),
        ("reg.example.com/a/b:1@sha256:0", "reg.example.com/a/b"),
    ],
)
def test_full_names_of_images(image: str, name: str):
    assert full_name(image) == name


@pytest.mark.parametrize(
    ("image", "good"),
    [
        ("reg.example.com/team/a:1", True),
        ("reg.example.com/team", True),
        ("reg.example.com/team-b/a", False),
        ("reg.example.com.evil.com/team/a", False),
        ("reg:5000/x", True),
        ("a", False),
    ],
)
def test_an_entry_allows_what_is_below_it(image: str, good: bool):
    js = of_pod(containers=[{"image": image}])
    assert (places(js, imageRegistries={"allowed": ["reg.example.com/team", "reg:5000/"]}) == []) is good


def test_all_images_of_a_pod_are_looked_at():
    js = of_pod(
        containers=[{"image": "a"}, {}],
        initContainers=[{"image": "b"}],
        volumes=[{"name": "v", "image": {"reference": "c"}}, {"name": "w"}],
    )
    found = ["containers[0].image", "initContainers[0].image", "volumes[0].image.reference"]
    assert places(js, imagesByDigest=True) == found
    assert places(js, imageRegistries={"allowed": ["quay.io"]}) == found


@pytest.mark.parametrize(
    ("rule", "pod", "found"),
    [
        ("requiredRequests", {"containers": [{"resources": {"limits": {"cpu": 1}}}, {}]}, ["containers[1].resources.requests.cpu"]),
        ("requiredRequests", {"containers": [{}], "resources": {"limits": {"cpu": 1}}}, []),
        ("requiredLimits", {"containers": [{}], "resources": {"requests": {"cpu": 1}}}, ["containers[0].resources.limits.cpu"]),
        ("requiredLimits", {"containers": [{}], "resources": {"limits": {"cpu": 1}}}, []),
        ("requiredLimits", {"containers": [{"resources": {"limits": {"cpu": 1}}}], "initContainers": [{}]}, ["initContainers[0].resources.limits.cpu"]),
    ],
)  # fmt: skip
def test_required_amounts(rule: str, pod: dict[str, Any], found: list[str]):
    assert places(of_pod(**pod), **{rule: {"resources": ["cpu"]}}) == found


def test_devices_are_stated_by_containers():
    js = of_pod(containers=[{}], resources={"requests": {"x/gpu": 1}})
    assert places(js, requiredRequests={"resources": ["x/gpu"]}) == ["containers[0].resources.requests[x/gpu]"]


def affinity(operator: str, key: str, values: list[str] | None = None) -> dict[str, Any]:
    expression = {"key": key, "operator": operator, **({"values": values} if values else {})}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [expression]}]
            }
        }
    }


TERM = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
PREFERRED = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchFields": [{}]}}]
    }
}


@pytest.mark.parametrize(
    ("pod", "found"),
    [
        ({"nodeSelector": {"free": "x", "pool": "a"}}, []),
        ({"nodeSelector": {"pool": "c"}}, ["nodeSelector.pool"]),
        ({"nodeSelector": {"other": "c"}}, ["nodeSelector.other"]),
        ({"nodeName": "n"}, ["nodeName"]),
        ({"affinity": affinity("In", "pool", ["a", "b"])}, []),
        ({"affinity": affinity("In", "pool", ["a", "c"])}, [f"{TERM}.matchExpressions[0]"]),
        ({"affinity": affinity("NotIn", "pool", ["a"])}, [f"{TERM}.matchExpressions[0]"]),
        ({"affinity": affinity("Exists", "free")}, []),
        ({"affinity": affinity("Exists", "other")}, [f"{TERM}.matchExpressions[0]"]),
        ({"affinity": PREFERRED}, ["affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields"]),
        ({"affinity": {"podAffinity": {}}}, []),
    ],
)  # fmt: skip
def test_node_selectors(pod: dict[str, Any], found: list[str]):
    assert (
        places(of_pod(**pod), nodeSelectors={"allowed": [{"key": "free"}, {"key": "pool", "values": ["a", "b"]}]})
        == found
    )


@pytest.mark.parametrize(
    ("toleration", "what"),
    [
        ({"key": "free", "operator": "Exists"}, ""),
        ({"operator": "Exists"}, "every taint"),
        ({"key": "other", "value": "x"}, "the taint other"),
        ({"key": "gpu", "value": "a", "effect": "NoSchedule"}, ""),
        ({"key": "gpu", "value": "b", "effect": "NoSchedule"}, "this value of the taint gpu"),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, "every value of the taint gpu"),
        (
            {"key": "gpu", "operator": "Exists", "value": "a", "effect": "NoSchedule"},
            "every value of the taint gpu",
        ),
        ({"key": "gpu", "value": "a"}, "every effect of the taint gpu"),
        ({"key": "gpu", "value": "a", "effect": "NoExecute"}, "NoExecute of the taint gpu"),
    ],
)
def test_tolerations(toleration: dict[str, Any], what: str):
    rule = {"allowed": [{"key": "free"}, {"key": "gpu", "values": ["a"], "effects": ["NoSchedule"]}]}
    found = texts(of_pod(tolerations=[toleration]), policy(tolerations=rule))
    wanted = f"policy limits: {what} may not be tolerated; allowed are: free, gpu=a:NoSchedule"
    assert [text.partition("Forbidden: ")[2] for text in found] == ([wanted] if what else [])


def test_what_exclusive_placement_adds_is_never_a_violation():
    strategy = {TOPOLOGY: "rack", "alpha.jobset.sigs.k8s.io/node-selector": "true"}
    js = judged(metadata={"annotations": strategy})
    assert places(js, nodeSelectors={"allowed": [{"key": "x"}]}, tolerations={"allowed": [{"key": "x"}]}) == []


def test_forbidden_uses_of_a_node():
    ports = {"ports": [{"containerPort": 1}, {"containerPort": 2, "hostPort": 2}]}
    js = of_pod(
        hostNetwork=True,
        containers=[ports, {"securityContext": {"privileged": False}}],
        initContainers=[{"securityContext": {"privileged": True}}],
        volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/"}}],
    )
    for what, place in {
        "hostNetwork": "hostNetwork",
        "hostPorts": "containers[0].ports[1].hostPort",
        "privileged": "initContainers[0].securityContext.privileged",
        "hostPath": "volumes[1].hostPath",
    }.items():
        assert places(js, forbid=[what]) == [place]


@pytest.mark.parametrize(("wanted", "enabled", "good"), [("Enabled", True, True), ("Enabled", False, False), ("Disabled", True, False), ("Disabled", False, True)])  # fmt: skip
def test_network_dns(wanted: str, enabled: bool, good: bool):
    js = judged(network={"enableDNSHostnames": enabled})
    assert places(js, networkDNS=wanted) == ([] if good else ["spec.network.enableDNSHostnames"])


def test_a_topology_of_the_pod_template_counts_too():
    template = rjob()
    template["template"]["spec"]["template"]["metadata"] = {"annotations": {TOPOLOGY: "zone"}}
    place = f"{JOB}spec.template.metadata.annotations[{TOPOLOGY}]"
    assert places(judged(template), exclusiveTopologies={"allowed": ["rack"]}) == [place]
    assert places(judged(template), exclusiveTopologies={"required": True}) == []


def test_a_set_without_managed_by_is_this_controllers():
    assert places(judged(), managedBy={"allowed": ["example.com/x"]}) == ["spec.managedBy"]
    assert places(judged(), managedBy={"allowed": ["jobset.sigs.k8s.io/jobset-controller"]}) == []
