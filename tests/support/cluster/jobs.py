"""What end-to-end tests do with JobSets: apply, watch the status, end pods."""

import io
import json
from collections import Counter
from typing import Any

from cli.explain.run import Options, run
from dev.cluster.cluster import Cluster
from tests.support.cluster.requests import (
    MERGE,
    apply,
    drop_namespace,
    empty,
    finish_pod,
    listed,
    pods,
    request,
    wait_for,
)

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"


def manifest(*rjobs: dict[str, Any], name: str = "js", **spec: Any) -> dict[str, Any]:
    """A JobSet as a user writes it."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": list(rjobs), **spec},
    }


def group(name: str = "workers", replicas: int = 1, pods_per_job: int = 1, **extra: Any) -> dict[str, Any]:
    """A ReplicatedJob whose Jobs fail with their first failed pod; `pod` goes into the pod spec.

    `job` goes into the Job's; what is None there is left out.
    """
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}], **extra.pop("pod", {})}
    template = {"spec": pod, "metadata": {"annotations": extra.pop("annotations", {})}}
    spec = {"parallelism": pods_per_job, "completions": pods_per_job, "backoffLimit": 0, "template": template}
    spec = {key: value for key, value in {**spec, **extra.pop("job", {})}.items() if value is not None}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **extra}


class Sets:
    """JobSets of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._path = JOBSETS.format(namespace)

    def close(self) -> None:
        """Delete the namespace, and wait until none of its pods takes up a node."""
        drop_namespace(self.cluster, self.namespace)
        what = f"the end of the pods in {self.namespace}"
        wait_for(lambda: empty(self.cluster, self.namespace), timeout=60, what=what)

    def apply(self, body: dict[str, Any]) -> None:
        """Create or change a JobSet."""
        apply(self.cluster, self._path, body)

    def get(self, name: str = "js") -> dict[str, Any] | None:
        status, body = request(self.cluster, "GET", f"{self._path}/{name}")
        return body if status == 200 else None

    def status(self, name: str = "js") -> dict[str, Any]:
        """The status as a client with Go's types reads it: no restarts and no entries until it is first written."""
        return {"restarts": 0, "replicatedJobsStatus": []} | ((self.get(name) or {}).get("status") or {})

    def patch(self, spec: dict[str, Any], name: str = "js") -> None:
        code, body = request(self.cluster, "PATCH", f"{self._path}/{name}", {"spec": spec}, MERGE)
        assert code == 200, body

    def counts(self, name: str = "js") -> dict[str, int]:
        """Counters of all ReplicatedJobs together."""
        entries = self.status(name)["replicatedJobsStatus"]
        return {key: sum(r[key] for r in entries) for key in ("ready", "succeeded", "failed", "active", "suspended")}

    def condition(self, kind: str, name: str = "js") -> dict[str, Any] | None:
        return next((c for c in self.status(name).get("conditions", []) if c["type"] == kind), None)

    def jobs(self, name: str = "js") -> list[dict[str, Any]]:
        """The set's Jobs that are not in deletion."""
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs"
        found = listed(self.cluster, path, f"jobset.sigs.k8s.io/jobset-name={name}")
        return [job for job in found if "deletionTimestamp" not in job["metadata"]]

    def pods(self, selector: str = "", name: str = "js", *, ending: bool = False) -> list[dict[str, Any]]:
        """The set's living pods that are to stay; with `ending` also those in deletion."""
        chosen = ",".join(filter(None, [f"jobset.sigs.k8s.io/jobset-name={name}", selector]))
        living = [
            p for p in pods(self.cluster, self.namespace, chosen) if p["status"]["phase"] in {"Pending", "Running"}
        ]
        return [p for p in living if ending or "deletionTimestamp" not in p["metadata"]]

    def end(self, pod: dict[str, Any], code: int = 0) -> None:
        finish_pod(self.cluster, self.namespace, pod["metadata"]["name"], code)

    def wait_ready(self, jobs: int, name: str = "js", timeout: float = 60) -> None:
        """Until so many Jobs are ready, as the status says."""
        try:
            wait_for(lambda: self.counts(name).get("ready") == jobs, timeout=timeout, what=f"{jobs} ready Jobs")
        except AssertionError as late:
            phases = Counter(pod["status"]["phase"] for pod in self.pods("", name))
            found = f"{self.counts(name)}, {len(self.jobs(name))} Jobs, pods {dict(phases)}"
            raise AssertionError(f"{late}; found {found}; events {self.events(name)}") from None

    def wait_attempt(self, attempt: int, timeout: float = 60) -> None:
        """Until this attempt in place has begun. Pods of an agent are ready while it still waits for the others."""
        what = f"attempt {attempt} in place"
        wait_for(
            lambda: self.status().get("currentInPlaceRestartAttempt") == attempt,
            timeout=timeout,
            what=what,
            last=self.explain,
        )

    def wait_state(self, state: str, name: str = "js", timeout: float = 60) -> None:
        wait_for(lambda: self.status(name).get("terminalState") == state, timeout=timeout, what=f"{name} {state}")

    def events(self, name: str = "js") -> list[tuple[str, str, str]]:
        """(type, reason, note) of the events about a set, in order."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        found = listed(self.cluster, path, fields=f"regarding.kind=JobSet,regarding.name={name}")
        return [(e["type"], e["reason"], e["note"]) for e in sorted(found, key=lambda e: e["eventTime"])]

    def explain(self, name: str | None = "js", output: str = "text") -> str:
        """What `jobset explain` prints."""
        out, err = io.StringIO(), io.StringIO()
        kubeconfig = str(self.cluster.kubeconfig)
        options = Options(name=name, namespace=self.namespace, kubeconfig=kubeconfig, output=output)
        assert run(options, out, err) == 0, err.getvalue()
        return out.getvalue()

    def causes(self) -> dict[str, str]:
        """By name the cause of each JobSet in one line, as `jobset explain` without a name shows it."""
        lines = [line.split("  ") for line in self.explain(None).splitlines()[1:]]
        return {cells[0].strip(): cells[-1].strip() for cells in lines}

    def explanation(self) -> dict[str, Any]:
        """What `jobset explain -o json` prints."""
        body: dict[str, Any] = json.loads(self.explain(output="json"))
        return body

    def wait_explained(self, *words: str) -> str:
        """What `jobset explain` prints, once all these words are in it."""

        def probe() -> str:
            text = self.explain()
            return text if all(word in text for word in words) else ""

        return wait_for(probe, timeout=60, what=f"explain to say {words}", last=self.explain)
