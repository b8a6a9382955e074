"""30 policies and 300 JobSets, made from a table of what may be wrong with a JobSet and which policy says so where.

The verdicts come from the table alone, so that neither `jobset policy test` nor an API server can make them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

from tests.support.objects.policies import manifest

JSON = dict[str, Any]
JOBSETS = 300
NAMESPACE = {"name": "team-a", "labels": {"quota.example.com/gpus": "16"}, "annotations": {"example.com/pods": "8"}}
GATES = "--feature-gates=JobSetActiveDeadlineSeconds=true"

QUEUE, CENTER, OWNER = "kueue.x-k8s.io/queue-name", "example.com/cost-center", "example.com/owner"
TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
RACK, ZONE = "cloud.example.com/rack", "cloud.example.com/zone"
IMAGE = f"registry.example.com/team/trainer@sha256:{'0' * 64}"
JOB = "spec.replicatedJobs[0].template.spec"
POD = f"{JOB}.template.spec"
MAIN = f"{POD}.containers[0]"

RULES: dict[str, JSON] = {
    "queue": {"requiredQueue": {"allowed": ["research", "production"]}},
    "pods": {"maxTotals": {"pods": {"fromNamespaceAnnotation": "example.com/pods"}}},
    "gpus": {"maxTotals": {"resources": [{"name": "nvidia.com/gpu", "fromNamespaceLabel": "quota.example.com/gpus"}]}},
    "memory": {"maxTotals": {"resources": [{"name": "memory", "max": "64Gi"}]}},
    "groups": {"maxReplicatedJobs": {"max": 1}},
    "jobs": {"maxJobs": {"max": 4}},
    "restarts": {"maxRestarts": {"max": 3}},
    "unlimited": {"maxRestarts": {"forbidUnlimitedActions": True}},
    "ttl": {"ttl": {"required": True}},
    "ttl-max": {"ttl": {"max": 86400}},
    "deadline": {"activeDeadline": {"required": True}},
    "deadline-max": {"activeDeadline": {"max": 604800}},
    "priorities": {"priorityClasses": {"allowed": ["research", "batch"]}},
    "topologies": {"exclusiveTopologies": {"allowed": [RACK]}},
    "registries": {"imageRegistries": {"allowed": ["registry.example.com/team", "other.example.com"]}},
    "digests": {"imagesByDigest": True},
    "requests": {"requiredRequests": {"resources": ["cpu"]}},
    "limits": {"requiredLimits": {"resources": ["memory"]}},
    "labels": {"requiredLabels": [{"key": CENTER}]},
    "label-values": {"requiredLabels": [{"key": CENTER, "pattern": "([0-9]{4})?"}]},
    "owners": {"requiredAnnotations": [{"key": OWNER, "pattern": "[a-z.]+@example\\.com"}]},
    "selectors": {"nodeSelectors": {"allowed": [{"key": "example.com/pool", "values": ["shared"]}]}},
    "tolerations": {"tolerations": {"allowed": [{"key": "nvidia.com/gpu", "effects": ["NoSchedule"]}]}},
    "host-network": {"forbid": ["hostNetwork"]},
    "host-paths": {"forbid": ["hostPath", "hostPorts"]},
    "privileged": {"forbid": ["privileged"]},
    "backoff": {"backoffLimit": {"max": 4}},
    "dns": {"networkDNS": "Enabled"},
    "managers": {"managedBy": {"allowed": ["jobset.sigs.k8s.io/jobset-controller"]}},
    "strategies": {"restartStrategies": {"allowed": ["BlockingRecreate"]}},
}
ACTIONS = ("Deny", "Deny", "Warn", "Audit")


def action(policy: str) -> str:
    """What a violation of a policy leads to."""
    return ACTIONS[list(RULES).index(policy) % len(ACTIONS)]


def policies() -> list[JSON]:
    return [manifest(name, (action(name),), **rules) for name, rules in RULES.items()]


def good(name: str = "good") -> JSON:
    """A JobSet that meets all of them."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "main", "image": IMAGE, "resources": resources}
    job = {"parallelism": 1, "completions": 1, "backoffLimit": 0}
    job["template"] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": name,
            "labels": {QUEUE: "research", CENTER: "1234"},
            "annotations": {OWNER: "ann.lee@example.com"},
        },
        "spec": {
            "ttlSecondsAfterFinished": 3600,
            "activeDeadlineSeconds": 3600,
            "network": {"enableDNSHostnames": True},
            "failurePolicy": {"maxRestarts": 1, "restartStrategy": "BlockingRecreate"},
            "replicatedJobs": [{"name": "workers", "replicas": 2, "template": {"spec": job}}],
        },
    }


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong: at which place it is made, and which policies say so, and where.

    A JobSet has at most one mistake of a place.
    """

    name: str
    place: str
    make: Callable[[JSON], Any]
    said: dict[str, str]


def _main(js: JSON) -> JSON:
    main: JSON = _pod(js)["containers"][0]
    return main


def _job(js: JSON) -> JSON:
    job: JSON = js["spec"]["replicatedJobs"][0]["template"]["spec"]
    return job


def _pod(js: JSON) -> JSON:
    pod: JSON = _job(js)["template"]["spec"]
    return pod


def _without_cpu(js: JSON) -> None:
    for amounts in _main(js)["resources"].values():
        del amounts["cpu"]


def _gpus(js: JSON) -> None:
    _main(js)["resources"]["limits"]["nvidia.com/gpu"] = 9


def _more_memory(js: JSON) -> None:
    for amounts in _main(js)["resources"].values():
        amounts["memory"] = "40Gi"


def _second_group(js: JSON) -> None:
    js["spec"]["replicatedJobs"].append({**good()["spec"]["replicatedJobs"][0], "name": "extra", "replicas": 1})


def _unlimited(js: JSON) -> None:
    js["spec"]["failurePolicy"]["rules"] = [{"name": "free", "action": "RestartJobSetAndIgnoreMaxRestarts"}]


def _host_path(js: JSON) -> None:
    _pod(js)["volumes"] = [{"name": "host", "hostPath": {"path": "/var"}}]


def _labels(js: JSON) -> JSON:
    labels: JSON = js["metadata"]["labels"]
    return labels


AT_QUEUE, AT_CENTER = f"metadata.labels[{QUEUE}]", f"metadata.labels[{CENTER}]"
MISTAKES = (
    Mistake("no-queue", "queue", lambda js: _labels(js).pop(QUEUE), {"queue": AT_QUEUE}),
    Mistake("other-queue", "queue", lambda js: _labels(js).update({QUEUE: "mine"}), {"queue": AT_QUEUE}),
    Mistake(
        "many-pods",
        "pods",
        lambda js: _job(js).update(parallelism=5, completions=5),
        {"pods": "spec.replicatedJobs[0].replicas"},
    ),
    Mistake("gpus", "gpus", _gpus, {"gpus": f"{MAIN}.resources.limits[nvidia.com/gpu]"}),
    Mistake("memory", "memory", _more_memory, {"memory": f"{MAIN}.resources.requests.memory"}),
    Mistake("groups", "groups", _second_group, {"groups": "spec.replicatedJobs"}),
    Mistake(
        "many-jobs",
        "jobs",
        lambda js: js["spec"]["replicatedJobs"][0].update(replicas=6),
        {"jobs": "spec.replicatedJobs[0].replicas"},
    ),
    Mistake(
        "restarts",
        "restarts",
        lambda js: js["spec"]["failurePolicy"].update(maxRestarts=9),
        {"restarts": "spec.failurePolicy.maxRestarts"},
    ),
    Mistake("unlimited", "rules", _unlimited, {"unlimited": "spec.failurePolicy.rules[0].action"}),
    Mistake(
        "no-ttl",
        "ttl",
        lambda js: js["spec"].pop("ttlSecondsAfterFinished"),
        {"ttl": "spec.ttlSecondsAfterFinished"},
    ),
    Mistake(
        "long-ttl",
        "ttl",
        lambda js: js["spec"].update(ttlSecondsAfterFinished=90000),
        {"ttl-max": "spec.ttlSecondsAfterFinished"},
    ),
    Mistake(
        "no-deadline",
        "deadline",
        lambda js: js["spec"].pop("activeDeadlineSeconds"),
        {"deadline": "spec.activeDeadlineSeconds"},
    ),
    Mistake(
        "late-deadline",
        "deadline",
        lambda js: js["spec"].update(activeDeadlineSeconds=604801),
        {"deadline-max": "spec.activeDeadlineSeconds"},
    ),
    Mistake(
        "priority",
        "priority",
        lambda js: _pod(js).update(priorityClassName="gold"),
        {"priorities": f"{POD}.priorityClassName"},
    ),
    Mistake(
        "topology",
        "topology",
        lambda js: js["metadata"]["annotations"].update({TOPOLOGY: ZONE}),
        {"topologies": f"metadata.annotations[{TOPOLOGY}]"},
    ),
    Mistake(
        "registry",
        "image",
        lambda js: _main(js).update(image="busybox"),
        {"registries": f"{MAIN}.image", "digests": f"{MAIN}.image"},
    ),
    Mistake(
        "tag",
        "image",
        lambda js: _main(js).update(image="registry.example.com/team/trainer:1.4"),
        {"digests": f"{MAIN}.image"},
    ),
    Mistake("no-cpu", "cpu", _without_cpu, {"requests": f"{MAIN}.resources.requests.cpu"}),
    Mistake(
        "no-memory-limit",
        "limits",
        lambda js: _main(js)["resources"]["limits"].pop("memory"),
        {"limits": f"{MAIN}.resources.limits.memory"},
    ),
    Mistake(
        "no-center", "center", lambda js: _labels(js).pop(CENTER), {"labels": AT_CENTER, "label-values": AT_CENTER}
    ),
    Mistake("center", "center", lambda js: _labels(js).update({CENTER: "x"}), {"label-values": AT_CENTER}),
    Mistake(
        "owner",
        "owner",
        lambda js: js["metadata"]["annotations"].update({OWNER: "ann"}),
        {"owners": f"metadata.annotations[{OWNER}]"},
    ),
    Mistake(
        "pool",
        "pool",
        lambda js: _pod(js).update(nodeSelector={"example.com/pool": "mine"}),
        {"selectors": f"{POD}.nodeSelector[example.com/pool]"},
    ),
    Mistake(
        "toleration",
        "tolerations",
        lambda js: _pod(js).update(tolerations=[{"operator": "Exists"}]),
        {"tolerations": f"{POD}.tolerations[0]"},
    ),
    Mistake(
        "host-network",
        "host-network",
        lambda js: _pod(js).update(hostNetwork=True),
        {"host-network": f"{POD}.hostNetwork"},
    ),
    Mistake("host-path", "volumes", _host_path, {"host-paths": f"{POD}.volumes[0].hostPath"}),
    Mistake(
        "privileged",
        "security",
        lambda js: _main(js).update(securityContext={"privileged": True}),
        {"privileged": f"{MAIN}.securityContext.privileged"},
    ),
    Mistake("backoff", "backoff", lambda js: _job(js).update(backoffLimit=5), {"backoff": f"{JOB}.backoffLimit"}),
    Mistake(
        "dns",
        "dns",
        lambda js: js["spec"]["network"].update(enableDNSHostnames=False),
        {"dns": "spec.network.enableDNSHostnames"},
    ),
    Mistake(
        "manager",
        "manager",
        lambda js: js["spec"].update(managedBy="example.com/mine"),
        {"managers": "spec.managedBy"},
    ),
    Mistake(
        "strategy",
        "strategy",
        lambda js: js["spec"]["failurePolicy"].update(restartStrategy="Recreate"),
        {"strategies": "spec.failurePolicy.restartStrategy"},
    ),
)


def _chosen() -> Iterator[tuple[Mistake, ...]]:
    """None, each alone, all, then pairs."""
    yield ()
    yield from combinations(MISTAKES, 1)
    yield tuple({mistake.place: mistake for mistake in MISTAKES}.values())
    yield from (pair for pair in combinations(MISTAKES, 2) if pair[0].place != pair[1].place)


def jobsets() -> Iterator[tuple[JSON, list[tuple[str, str]]]]:
    """Each JobSet, with the policies that it breaks and where."""
    for number, mistakes in enumerate(islice(_chosen(), JOBSETS)):
        js = copy.deepcopy(good(f"set-{number:03}"))
        for mistake in mistakes:
            mistake.make(js)
        yield js, [said for mistake in mistakes for said in mistake.said.items()]


def suite(*names: str) -> list[JSON]:
    """The documents of a suite: these policies, every JobSet, and what they say about each."""
    tests = []
    for js, broken in jobsets():
        expect = [
            {"rule": next(iter(RULES[policy])), "action": action(policy), "policy": policy, "path": path}
            for policy, path in broken
            if policy in names
        ]
        name = js["metadata"]["name"]
        tests.append({"name": name, "jobset": name, "namespace": NAMESPACE, "expect": expect})
    head = {"apiVersion": "policy.jobset.x-k8s.io/v1alpha1", "kind": "JobSetPolicySuite", "tests": tests}
    chosen = [policy for policy in policies() if policy["metadata"]["name"] in names]
    return [*chosen, *(js for js, _ in jobsets()), head]
