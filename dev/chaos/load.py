"""Makes JobSets of every kind, and decides the next actions of their users and pods, from seed and state. Pure."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from api import keys
from dev.chaos.checks.outcomes import EXPECTED
from dev.cluster.nodes import EXIT_CODE
from kube.model.meta import JSON

TOPOLOGY, POOL = "rack", "pool"
"""Labels of nodes. Only exclusive JobSets use the second pool, since a domain with a pod of any JobSet is taken."""

KINDS = ("plain", "failing", "in-order", "depends-on", "restarting", "suspended", "exclusive", "ttl")
TTL_SECONDS = 3
PODS_OF_EXCLUSIVE = 2
"""Pods of each Job with exclusive placement."""


@dataclass(frozen=True, slots=True)
class Script:
    """A JobSet, and what happens to it.

    One pod fails in each of the first `failures` attempts. The JobSet is resumed `resumes` times before its pods may
    end.
    """

    manifest: JSON
    failures: int = 0
    resumes: int = 0

    @property
    def name(self) -> str:
        name: str = self.manifest["metadata"]["name"]
        return name

    @property
    def is_deleted_after_end(self) -> bool:
        """Whether the JobSet is deleted by its time to live after its end."""
        return "ttlSecondsAfterFinished" in self.manifest["spec"]


@dataclass(frozen=True, slots=True)
class Suspend:
    """Set spec.suspend."""

    value: bool


@dataclass(frozen=True, slots=True)
class End:
    """Let a pod end with this exit code."""

    pod: str
    code: int


def scripts(seed: int) -> Iterator[Script]:
    """Yield scripts forever. Each kind comes once before any kind comes twice."""
    chance = random.Random(seed)
    kinds = list(KINDS)
    number = 0
    while True:
        chance.shuffle(kinds)
        for kind in kinds:
            yield script(chance, kind, f"{kind}-{number}")
            number += 1


def script(chance: random.Random, kind: str, name: str) -> Script:
    job_count, pods = chance.randint(1, 3), chance.randint(1, 2)
    replicated_jobs = [_replicated_job("workers", job_count, pods)]
    spec: JSON = {"replicatedJobs": replicated_jobs, "failurePolicy": {"maxRestarts": 4}}
    annotations: JSON = {}
    failures = resumes = 0
    terminal_state = "Completed"
    match kind:
        case "plain":
            failures = chance.randint(0, 2)
        case "restarting":
            failures = chance.randint(2, 4)
            spec["failurePolicy"]["restartStrategy"] = chance.choice(["Recreate", "BlockingRecreate"])
            replicated_jobs[0] = _replicated_job("workers", chance.randint(3, 12), 1)
        case "failing":
            spec["failurePolicy"]["maxRestarts"] = chance.randint(0, 2)
            failures = spec["failurePolicy"]["maxRestarts"] + 1
            terminal_state = "Failed"
        case "in-order":
            spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
            replicated_jobs.append(_replicated_job("late", 2, 1))
            failures = chance.randint(0, 1)
        case "depends-on":
            replicated_jobs.append(
                {**_replicated_job("late", 2, 1), "dependsOn": [{"name": "workers", "status": "Complete"}]}
            )
            failures = chance.randint(0, 1)
        case "suspended":
            spec["suspend"] = True
            resumes = chance.randint(1, 3)
        case "exclusive":
            replicated_jobs[0] = _replicated_job("workers", 2, PODS_OF_EXCLUSIVE, pool=1)
            annotations[keys.EXCLUSIVE_TOPOLOGY] = TOPOLOGY
            failures = chance.randint(0, 2)
        case "ttl":
            spec["ttlSecondsAfterFinished"] = TTL_SECONDS
    restarts = failures - (terminal_state == "Failed")
    expected = {
        "terminalState": terminal_state,
        "restarts": restarts,
        "executionAttempts": restarts + max(0, resumes - 1),
    }
    annotations[EXPECTED] = json.dumps(expected)
    return Script(_manifest(name, annotations, spec), failures, resumes)


def stuck() -> JSON:
    """A JobSet whose Jobs are refused by a quota of its namespace."""
    return _manifest("stuck", {}, {"replicatedJobs": [_replicated_job("workers", 3, 1)]})


def _manifest(name: str, annotations: JSON, spec: JSON) -> JSON:
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": keys.API_VERSION, "kind": keys.KIND, "metadata": metadata, "spec": spec}


def _replicated_job(name: str, job_count: int, pods: int, *, pool: int = 0) -> JSON:
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {POOL: f"{POOL}-{pool}"},
        "containers": [{"name": "main", "image": "train"}],
    }
    job = {"backoffLimit": 0, "parallelism": pods, "completions": pods, "template": {"spec": pod}}
    return {"name": name, "replicas": job_count, "template": {"spec": job}}


def next_steps(script: Script, js: JSON, pods: Sequence[JSON]) -> list[Suspend | End]:
    """The next steps for a JobSet, according to its state and its pods in the API server. Steps are idempotent.

    Pods of an exclusive Job end only when all of them are bound. If a leader ended before its followers are bound,
    another Job could enter its domain (docs/concepts/exclusive-placement.md).
    """
    status = js.get("status") or {}
    if status.get("terminalState"):
        return []
    running = [pod for pod in pods if pod["status"].get("phase") == "Running" and not _is_ending(pod)]
    if keys.EXCLUSIVE_TOPOLOGY in script.manifest["metadata"].get("annotations", {}):
        bound_counts = Counter(_job_name(pod) for pod in pods if pod["spec"].get("nodeName") and not _is_deleted(pod))
        running = [pod for pod in running if bound_counts[_job_name(pod)] == PODS_OF_EXCLUSIVE]
    resume_count = status.get("executionAttempts", -1) + 1
    if js["spec"].get("suspend"):
        return [Suspend(False)] if _is_suspended(status) and not pods else []
    if resume_count < script.resumes:
        return [Suspend(True)] if running and resume_count > 0 else []
    return [step for pod in running if (step := _end_step(script, pod))]


def _end_step(script: Script, pod: JSON) -> End | None:
    labels = pod["metadata"]["labels"]
    if int(labels[keys.RESTART_ATTEMPT]) >= script.failures:
        return End(pod["metadata"]["name"], 0)
    pod_key = (labels[keys.REPLICATED_JOB_NAME], labels[keys.JOB_INDEX], labels.get(keys.COMPLETION_INDEX, "0"))
    return End(pod["metadata"]["name"], 1) if pod_key == ("workers", "0", "0") else None


def _job_name(pod: JSON) -> str:
    name: str = pod["metadata"]["labels"]["job-name"]
    return name


def _is_deleted(pod: JSON) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_ending(pod: JSON) -> bool:
    return _is_deleted(pod) or EXIT_CODE in (pod["metadata"].get("annotations") or {})


def _is_suspended(status: JSON) -> bool:
    return any(
        condition["type"] == keys.SUSPENDED and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )
