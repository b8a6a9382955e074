"""JobSets as JSON, in as few words as a test needs. Every call gives fresh objects."""

from typing import Any

JSON = dict[str, Any]


def rjob(
    name: str = "workers",
    *,
    replicas: int = 1,
    parallelism: int | None = 1,
    completions: int | None = 1,
    job: JSON | None = None,
    pod: JSON | None = None,
    **fields: Any,
) -> JSON:
    """One ReplicatedJob: `job` and `pod` are laid over its Job and pod spec; a None number is left out."""
    pod_spec = {"containers": [{"name": "main", "image": "busybox"}], **(pod or {})}
    numbers = {"parallelism": parallelism, "completions": completions}
    job_spec = {key: value for key, value in numbers.items() if value is not None}
    template = {"spec": {**job_spec, "template": {"spec": pod_spec}, **(job or {})}}
    return {"name": name, "replicas": replicas, "template": template, **fields}


def jobset(*rjobs: JSON, name: str = "train", namespace: str = "default", **spec: Any) -> JSON:
    """A JobSet as a user writes it; with no ReplicatedJob given it has one, `rjob()`."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicatedJobs": list(rjobs) or [rjob()], **spec},
    }


def stored(js: JSON) -> JSON:
    """The same as the API server stores it: with the defaults of the schema and of the mutating webhook."""
    spec = {
        "successPolicy": {"operator": "All"},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        **js["spec"],
    }
    spec["network"] = {"enableDNSHostnames": True, "publishNotReadyAddresses": True, **(spec.get("network") or {})}
    spec["replicatedJobs"] = [_stored_rjob(item) for item in spec["replicatedJobs"]]
    if "failurePolicy" in spec:
        policy = {"restartStrategy": "Recreate", **spec["failurePolicy"]}
        if "rules" in policy:
            policy["rules"] = [{"name": f"failurePolicyRule{i}", **rule} for i, rule in enumerate(policy["rules"])]
        spec["failurePolicy"] = policy
    return {**js, "spec": spec}


def _stored_rjob(item: JSON) -> JSON:
    job = item["template"]["spec"]
    pod = job["template"]
    pod = {**pod, "spec": {"restartPolicy": "OnFailure", **pod["spec"]}}
    template = {**item["template"], "spec": {"completionMode": "Indexed", **job, "template": pod}}
    return {"groupName": "default", "replicas": 1, **item, "template": template}
