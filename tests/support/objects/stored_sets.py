"""JobSets as the API server stores them: defaults of schema and webhook are in place."""

from typing import Any

import msgspec

from api.jobset import JobSet

JSON = dict[str, Any]


def rjob(name: str = "workers", replicas: int = 1, **extra: Any) -> dict[str, Any]:
    """A ReplicatedJob of one-container pods; `parallelism`, `completions`, `suspend` go into the Job template."""
    job_spec = {k: extra.pop(k) for k in ("parallelism", "completions", "backoffLimit", "suspend") if k in extra}
    annotations = extra.pop("annotations", None)
    pod = extra.pop("pod", {})
    template: dict[str, Any] = {
        "spec": {
            "completionMode": "Indexed",
            **job_spec,
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}], **pod}
            },
        }
    }
    if annotations:
        template["metadata"] = {"annotations": annotations}
    return {"name": name, "groupName": "default", "replicas": replicas, "template": template, **extra}


def jobset(*rjobs: dict[str, Any], name: str = "js", annotations: dict[str, str] | None = None, **spec: Any) -> JobSet:
    """A JobSet as the API server stores it: defaults of schema and webhook are in place."""
    body = {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": "js-uid",
            "resourceVersion": "1",
            "generation": 1,
            "annotations": annotations or {},
        },
        "spec": {
            "replicatedJobs": list(rjobs or (rjob(),)),
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All"},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            **spec,
        },
    }
    return msgspec.convert(body, JobSet)
