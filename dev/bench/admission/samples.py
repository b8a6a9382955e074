"""Makes the reviews that the benchmark sends, of a training JobSet as written, as stored, and with faults.

It has the same parts as JobSets of trainers and queueing systems: a coordinator that the workers depend on,
environment, volumes, resources, policies. This module does not use the code under test.
"""

import copy
import json

from kube.model.meta import JSON

NAMESPACE = "research"
RESOURCE = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "resource": "jobsets"}
KIND = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"}


def jobset(rjobs: int = 8, env: int = 21) -> JSON:
    """A JobSet as its author writes it. With 8 ReplicatedJobs of 21 variables each, its review has 20 KB."""
    names = ["coordinator", *(f"workers-{i}" for i in range(1, rjobs))]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": "llm-pretraining",
            "namespace": NAMESPACE,
            "labels": {"kueue.x-k8s.io/queue-name": "research-queue", "app.kubernetes.io/part-of": "llm"},
            "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"},
        },
        "spec": {
            "replicatedJobs": [_rjob(name, i, env) for i, name in enumerate(names)],
            "network": {"enableDNSHostnames": True, "subdomain": "llm-pretraining"},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": names[1:] or names},
            "failurePolicy": {
                "maxRestarts": 5,
                "rules": [
                    {
                        "name": "broken_host",
                        "action": "RestartJobSetAndIgnoreMaxRestarts",
                        "onJobFailureReasons": ["PodFailurePolicy"],
                    },
                    {"action": "FailJobSet", "targetReplicatedJobs": ["coordinator"]},
                ],
            },
            "coordinator": {"replicatedJob": "coordinator", "jobIndex": 0, "podIndex": 0},
        },
    }


def exception(policy_name: str) -> JSON:
    """An exception from a policy, which applies to the JobSet of `jobset`."""
    return {
        "apiVersion": "policy.jobset.x-k8s.io/v1alpha1",
        "kind": "JobSetPolicyException",
        "metadata": {"name": f"from-{policy_name}", "namespace": NAMESPACE},
        "spec": {
            "policy": policy_name,
            "rules": ["maxTotals"],
            "reason": "a large run",
            "expiresAt": "2999-01-01T00:00:00Z",
        },
    }


def policy(name: str) -> JSON:
    """A policy of ten rules that the JobSet of `jobset` meets, with two defaults."""
    return {
        "apiVersion": "policy.jobset.x-k8s.io/v1alpha1",
        "kind": "JobSetPolicy",
        "metadata": {"name": name},
        "spec": {
            "match": {"namespaceSelector": {"matchLabels": {"example.com/tenant": "true"}}},
            "validationActions": ["Deny"],
            "exceptions": {"allowedNamespaces": {}, "maxDuration": "30d"},
            "defaults": {"ttlSecondsAfterFinished": 3600, "labels": {"example.com/team": "research"}},
            "rules": {
                "requiredQueue": {},
                "maxTotals": {
                    "pods": {"max": 100_000},
                    "resources": [{"name": "nvidia.com/gpu", "max": 1_000_000}, {"name": "memory", "max": "1Pi"}],
                },
                "maxReplicatedJobs": {"max": 100},
                "maxJobs": {"max": 10_000},
                "maxRestarts": {"max": 10},
                "ttl": {"max": 604_800},
                "requiredLabels": [{"key": "app.kubernetes.io/part-of", "pattern": "[a-z]+"}],
                "forbid": ["hostNetwork", "hostPath", "hostPorts", "privileged"],
                "backoffLimit": {"max": 6},
                "restartStrategies": {"allowed": ["Recreate", "BlockingRecreate"]},
            },
        },
    }


def _rjob(name: str, index: int, env: int) -> JSON:
    spec: JSON = {
        "parallelism": 4,
        "completions": 4,
        "backoffLimit": 0,
        "podFailurePolicy": {
            "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42, 43]}}],
        },
        "template": {
            "metadata": {"labels": {"role": name}, "annotations": {"prometheus.io/scrape": "true"}},
            "spec": _pod(name, env),
        },
    }
    spec["template"]["spec"]["restartPolicy"] = "Never"
    depends = {"dependsOn": [{"name": "coordinator", "status": "Ready"}]} if index else {}
    return {"name": name, "replicas": 2 if index else 1, "template": {"spec": spec}, **depends}


def _pod(name: str, env: int) -> JSON:
    variables = [{"name": f"TRAINING_SETTING_{i:02}", "value": f"{name}-value-{i * 37:04}"} for i in range(env)]
    return {
        "nodeSelector": {"cloud.google.com/gke-accelerator": "tpu-v5-lite-podslice"},
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "scratch", "emptyDir": {}},
        ],
        "containers": [
            {
                "name": "main",
                "image": "registry.example.com/research/trainer:2026.11",
                "command": ["python", "-m", "trainer", "--config", "/etc/trainer/config.yaml"],
                "ports": [{"containerPort": 8471}, {"containerPort": 8080}],
                "env": variables,
                "resources": {
                    "requests": {"cpu": "8", "memory": "64Gi"},
                    "limits": {"google.com/tpu": 4, "memory": "64Gi"},
                },
                "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "scratch", "mountPath": "/scratch"}],
            }
        ],
    }


def with_defaults(js: JSON) -> JSON:
    """The JobSet with every default, as the validating webhook sees it."""
    js = copy.deepcopy(js)
    js["metadata"] |= {"uid": "4f1c2f5a-8a39-4f7d-9f43-3c1f3f9e0d11", "generation": 1, "resourceVersion": "4711"}
    spec = js["spec"]
    spec["startupPolicy"] = {"startupPolicyOrder": "AnyOrder"}
    spec["network"]["publishNotReadyAddresses"] = True
    spec["failurePolicy"]["restartStrategy"] = "Recreate"
    for i, rule in enumerate(spec["failurePolicy"]["rules"]):
        rule.setdefault("name", f"failurePolicyRule{i}")
    for rjob in spec["replicatedJobs"]:
        rjob["groupName"] = "default"
        rjob["template"]["spec"]["completionMode"] = "Indexed"
    return js


def suspended_set(js: JSON) -> JSON:
    """The JobSet while a queueing system holds it back."""
    js = with_defaults(js)
    js["spec"]["suspend"] = True
    return js


def resumed_set(js: JSON) -> JSON:
    """The JobSet that a queueing system resumes, with a node selector in every template."""
    js = with_defaults(js)
    js["spec"]["suspend"] = False
    for rjob in js["spec"]["replicatedJobs"]:
        rjob["template"]["spec"]["template"]["spec"]["nodeSelector"]["topology.example.com/block"] = "b7"
    return js


def five_faults() -> JSON:
    """A JobSet with five mistakes, in different parts of validation."""
    js = with_defaults(jobset())
    spec = js["spec"]
    spec["successPolicy"]["operator"] = "Most"
    spec["replicatedJobs"][1]["replicas"] = "two"
    spec["replicatedJobs"][2]["dependsOn"][0]["name"] = "coordinater"
    spec["failurePolicy"]["rules"][1]["targetReplicatedJobs"] = ["cordinator"]
    spec["coordinator"]["replicatedJob"] = "leader"
    return js


def review(obj: JSON, old: JSON | None = None, uid: str = "705ab4f5-6393-11e8-b7cc-42010a800002") -> bytes:
    """The body that an API server sends for the creation of `obj`, or for an update of `old` to `obj`."""
    request = {
        "uid": uid,
        "kind": KIND,
        "resource": RESOURCE,
        "requestKind": KIND,
        "requestResource": RESOURCE,
        "name": obj["metadata"]["name"],
        "namespace": obj["metadata"]["namespace"],
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "researcher@example.com", "groups": ["system:authenticated", "research"]},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", "fieldManager": "kubectl-create"},
    }
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(document, separators=(",", ":")).encode()
