"""Objects as the Go manager leaves them in a cluster, written by hand under its field manager; no manager runs.

The labels are of its version 0.12, or the six that versions up to 0.5 wrote. Must not use our code for child objects.
"""

import copy
import hashlib
from typing import Any

from dev.cluster.cluster import Cluster
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import listed, request, wait_for
from tests.support.objects.jobsets import stored

JSON = dict[str, Any]
PREFIX = "jobset.sigs.k8s.io/"
WHEN = "2026-01-01T00:00:00Z"


def condition(kind: str, reason: str, message: str, *, true: bool = True) -> JSON:
    status = "True" if true else "False"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": WHEN}


def counts(name: str, **of: int) -> JSON:
    """An entry of `replicatedJobsStatus`; what is not named is 0."""
    return {"name": name, **dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0), **of}


class GoManager:
    """Writes into one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def write(self, method: str, path: str, body: JSON) -> JSON:
        code, answer = request(self.cluster, method, f"{path}?fieldManager=jobset", body)
        assert code in {200, 201}, answer
        return answer  # type: ignore[no-any-return]

    def create(self, body: JSON, *, attempt: int = 0, old: bool = False) -> JSON:
        """A JobSet as a user wrote it, with the defaults of the webhooks, its Service and its Jobs."""
        body = copy.deepcopy(stored(body))
        for rjob in body["spec"]["replicatedJobs"]:
            # Empty objects that its mutating webhook adds.
            rjob["template"] = {"metadata": {}, **rjob["template"]}
        js = self.write("POST", JOBSETS.format(self.namespace), body)
        if "managedBy" in js["spec"]:
            return js
        name = js["metadata"]["name"]
        spec = {"clusterIP": "None", "selector": {f"{PREFIX}jobset-name": name}, "publishNotReadyAddresses": True}
        service = {"metadata": {"name": name, "ownerReferences": [_owner(js)]}, "spec": spec}
        self.write("POST", f"/api/v1/namespaces/{self.namespace}/services", service)
        for policy in js["spec"].get("volumeClaimPolicies", []):
            for claim in policy["templates"]:
                self._claim(js, claim)
        for rjob in js["spec"]["replicatedJobs"]:
            for index in range(rjob["replicas"]):
                self._job(js, rjob, index, attempt, old=old)
        return js

    def status(self, js: JSON, entries: list[JSON], *conditions: JSON, restarts: int = 0, state: str = "") -> None:
        """What it last wrote: the whole object, as it does."""
        path = f"{JOBSETS.format(self.namespace)}/{js['metadata']['name']}"
        status: JSON = {"restarts": restarts, "replicatedJobsStatus": entries}
        status |= {"conditions": list(conditions)} if conditions else {}
        status |= {"restartsCountTowardsMax": restarts} if restarts else {}
        status |= {"terminalState": state} if state else {}
        self.write("PUT", f"{path}/status", {**request(self.cluster, "GET", path)[1], "status": status})

    def jobs(self, name: str) -> list[JSON]:
        return listed(self.cluster, f"/apis/batch/v1/namespaces/{self.namespace}/jobs", f"{PREFIX}jobset-name={name}")

    def wait_jobs(self, name: str, count: int, **status: int) -> None:
        """Until so many Jobs of a set have these numbers in their status."""

        def probe() -> bool:
            return sum(status.items() <= job["status"].items() for job in self.jobs(name)) == count

        wait_for(probe, timeout=60, what=f"{count} Jobs of {name} with {status}", last=lambda: self.jobs(name))

    def _claim(self, js: JSON, template: JSON) -> None:
        name = js["metadata"]["name"]
        meta = {"name": f"{template['metadata']['name']}-{name}", "labels": {f"{PREFIX}jobset-name": name}}
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"
        self.write("POST", path, {"metadata": {**meta, "ownerReferences": [_owner(js)]}, "spec": template["spec"]})

    def _job(self, js: JSON, rjob: JSON, index: int, attempt: int, *, old: bool) -> None:
        name = f"{js['metadata']['name']}-{rjob['name']}-{index}"
        labels = _labels(js, rjob, index, attempt, hashlib.sha1(f"{self.namespace}/{name}".encode()).hexdigest())  # noqa: S324 -- as clients compute it
        if old:
            labels = {key: labels[key] for key in OLD}
        spec = copy.deepcopy(rjob["template"]["spec"])
        meta = spec["template"].get("metadata", {})
        spec["template"]["metadata"] = {"labels": labels, "annotations": {**meta.get("annotations", {}), **labels}}
        pod = spec["template"]["spec"] = {**spec["template"]["spec"], "subdomain": js["metadata"]["name"]}
        for policy in js["spec"].get("volumeClaimPolicies", []):
            for claim in policy["templates"]:
                title = claim["metadata"]["name"]
                source = {"claimName": f"{title}-{js['metadata']['name']}"}
                pod["volumes"] = [*pod.get("volumes", []), {"name": title, "persistentVolumeClaim": source}]
        body = {
            "metadata": {"name": name, "labels": labels, "annotations": labels, "ownerReferences": [_owner(js)]},
            "spec": {**spec, "suspend": bool(js["spec"].get("suspend"))},
        }
        self.write("POST", f"/apis/batch/v1/namespaces/{self.namespace}/jobs", body)


def _owner(js: JSON) -> JSON:
    of = {key: js["metadata"][key] for key in ("name", "uid")}
    kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    return {**kind, **of, "controller": True, "blockOwnerDeletion": True}


OLD = tuple(
    PREFIX + key
    for key in (
        "jobset-name",
        "replicatedjob-name",
        "restart-attempt",
        "replicatedjob-replicas",
        "job-index",
        "job-key",
    )
)


def _labels(js: JSON, rjob: JSON, index: int, attempt: int, job_key: str) -> dict[str, str]:
    """With the feature gate RestartJob off: no job-restart-attempt."""
    rjobs = js["spec"]["replicatedJobs"]
    before = sum(other["replicas"] for other in rjobs[: rjobs.index(rjob)])
    everything = sum(other["replicas"] for other in rjobs)
    values = {
        "jobset-name": js["metadata"]["name"],
        "jobset-uid": js["metadata"]["uid"],
        "replicatedjob-name": rjob["name"],
        "restart-attempt": attempt,
        "replicatedjob-replicas": rjob["replicas"],
        "global-replicas": everything,
        "job-index": index,
        "job-key": job_key,
        "job-global-index": before + index,
        "group-name": rjob["groupName"],
        "group-replicas": everything,
        "job-group-index": before + index,
    }
    return {PREFIX + key: str(value) for key, value in values.items()}
