"""30 policies and 300 JobSets, made from a table of what may be wrong with a JobSet and which policy says so where.

The verdicts come from the table alone, so that neither `jobset policy test` nor an API server can make them.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

from tests.support.objects.policies import manifest
from webhooks.jobset.cluster.answer_texts import parts_of

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
    """One thing that is wrong: of which part, what is changed (None: removed), and which policies say so, and where.

    A JobSet has at most one mistake of a part.
    """

    name: str
    part: str
    changes: dict[str, Any]
    said: dict[str, str]

    def make(self, js: JSON) -> None:
        for path, value in self.changes.items():
            *parents, last = parts_of(path)
            node: Any = js
            for key in parents:
                node = node[key]
            if value is None:
                del node[last]
            elif isinstance(node, list) and last == len(node):
                node.append(value)
            else:
                node[last] = value


def _at(name: str, part: str, path: str, value: Any, *policies: str) -> Mistake:
    """A mistake that these policies report where it is."""
    return Mistake(name, part, {path: value}, dict.fromkeys(policies, path))


RESOURCES, RJOB, RJOBS = f"{MAIN}.resources", "spec.replicatedJobs[0]", "spec.replicatedJobs"
AT_QUEUE, AT_CENTER, AT_OWNER = (
    f"metadata.labels[{QUEUE}]",
    f"metadata.labels[{CENTER}]",
    f"metadata.annotations[{OWNER}]",
)
FREE = [{"name": "free", "action": "RestartJobSetAndIgnoreMaxRestarts"}]
EXTRA = {**good()["spec"]["replicatedJobs"][0], "name": "extra", "replicas": 1}
MISTAKES = (
    _at("no-queue", "queue", AT_QUEUE, None, "queue"),
    _at("other-queue", "queue", AT_QUEUE, "mine", "queue"),
    Mistake("many-pods", "pods", {f"{JOB}.parallelism": 5, f"{JOB}.completions": 5}, {"pods": f"{RJOB}.replicas"}),
    _at("gpus", "gpus", f"{RESOURCES}.limits[nvidia.com/gpu]", 9, "gpus"),
    Mistake(
        "memory", "memory", {f"{RESOURCES}.{kind}.memory": "40Gi" for kind in ("requests", "limits")},
        {"memory": f"{RESOURCES}.requests.memory"},
    ),
    Mistake("groups", "groups", {f"{RJOBS}[1]": EXTRA}, {"groups": RJOBS}),
    _at("many-jobs", "jobs", f"{RJOB}.replicas", 6, "jobs"),
    _at("restarts", "restarts", "spec.failurePolicy.maxRestarts", 9, "restarts"),
    Mistake("unlimited", "rules", {"spec.failurePolicy.rules": FREE}, {"unlimited": "spec.failurePolicy.rules[0].action"}),
    _at("no-ttl", "ttl", "spec.ttlSecondsAfterFinished", None, "ttl"),
    _at("long-ttl", "ttl", "spec.ttlSecondsAfterFinished", 90000, "ttl-max"),
    _at("no-deadline", "deadline", "spec.activeDeadlineSeconds", None, "deadline"),
    _at("late-deadline", "deadline", "spec.activeDeadlineSeconds", 604801, "deadline-max"),
    _at("priority", "priority", f"{POD}.priorityClassName", "gold", "priorities"),
    _at("topology", "topology", f"metadata.annotations[{TOPOLOGY}]", ZONE, "topologies"),
    _at("registry", "image", f"{MAIN}.image", "busybox", "registries", "digests"),
    _at("tag", "image", f"{MAIN}.image", "registry.example.com/team/trainer:1.4", "digests"),
    Mistake(
        "no-cpu", "cpu", {f"{RESOURCES}.{kind}.cpu": None for kind in ("requests", "limits")},
        {"requests": f"{RESOURCES}.requests.cpu"},
    ),
    _at("no-memory-limit", "limits", f"{RESOURCES}.limits.memory", None, "limits"),
    _at("no-center", "center", AT_CENTER, None, "labels", "label-values"),
    _at("center", "center", AT_CENTER, "x", "label-values"),
    _at("owner", "owner", AT_OWNER, "ann", "owners"),
    Mistake(
        "pool", "pool", {f"{POD}.nodeSelector": {"example.com/pool": "mine"}},
        {"selectors": f"{POD}.nodeSelector[example.com/pool]"},
    ),
    Mistake(
        "toleration", "tolerations", {f"{POD}.tolerations": [{"operator": "Exists"}]},
        {"tolerations": f"{POD}.tolerations[0]"},
    ),
    _at("host-network", "host-network", f"{POD}.hostNetwork", True, "host-network"),
    Mistake(
        "host-path", "volumes", {f"{POD}.volumes": [{"name": "host", "hostPath": {"path": "/var"}}]},
        {"host-paths": f"{POD}.volumes[0].hostPath"},
    ),
    Mistake(
        "privileged", "security", {f"{MAIN}.securityContext": {"privileged": True}},
        {"privileged": f"{MAIN}.securityContext.privileged"},
    ),
    _at("backoff", "backoff", f"{JOB}.backoffLimit", 5, "backoff"),
    _at("dns", "dns", "spec.network.enableDNSHostnames", False, "dns"),
    _at("manager", "manager", "spec.managedBy", "example.com/mine", "managers"),
    _at("strategy", "strategy", "spec.failurePolicy.restartStrategy", "Recreate", "strategies"),
)  # fmt: skip


def _chosen() -> Iterator[tuple[Mistake, ...]]:
    """None, each alone, all, then pairs."""
    yield ()
    yield from combinations(MISTAKES, 1)
    yield tuple({mistake.part: mistake for mistake in MISTAKES}.values())
    yield from (pair for pair in combinations(MISTAKES, 2) if pair[0].part != pair[1].part)


def jobsets() -> Iterator[tuple[JSON, list[tuple[str, str]]]]:
    """Each JobSet, with the policies that it breaks and where."""
    for number, mistakes in enumerate(islice(_chosen(), JOBSETS)):
        js = good(f"set-{number:03}")
        for mistake in copy.deepcopy(mistakes):
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
