"""What the API server makes of a Job (defaults of batch/v1), and which Jobs and changes of Jobs it refuses.

The refusals are those of ValidateJob and ValidateJobUpdate that a JobSet controller can run into.
"""

from dev.simulator.job_status import sizes, suspended
from dev.simulator.patches import JSON

UID_LABEL, NAME_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
SCHEDULING = frozenset({"nodeSelector", "tolerations", "schedulingGates"})
"""Fields of the pod template's spec that may change while a Job is suspended; of containers their resources may."""

IMMUTABLE = "field is immutable"


def defaulted(job: JSON) -> JSON:
    """A new Job as it is stored: sizes, and the labels by which its controller finds its pods. It has name and UID."""
    meta = job["metadata"]
    spec = {field: value for field, value in job["spec"].items() if value is not None}
    template = spec["template"]
    pods = template.get("metadata") or {}
    uid = {UID_LABEL: meta["uid"]}
    owner_labels = {**uid, NAME_LABEL: meta["name"], "controller-uid": meta["uid"], "job-name": meta["name"]}
    pods = {
        **pods,
        "labels": {**(pods.get("labels") or {}), **owner_labels},
        "annotations": pods.get("annotations") or {},
    }
    parallelism, completions = sizes(spec)
    defaults = {"completionMode": "NonIndexed", "backoffLimit": 6, "suspend": False, "parallelism": parallelism}
    if completions is not None:
        defaults["completions"] = completions
    whole = {**defaults, **spec, "selector": {"matchLabels": uid}, "template": {**template, "metadata": pods}}
    return {**job, "spec": whole, "status": {}}


def refusal(job: JSON) -> str:
    """Why a new Job with its defaults cannot be, "" if it can."""
    spec = job["spec"]
    if spec["completionMode"] == "Indexed" and "completions" not in spec:
        return "spec.completions: Required value: when completion mode is Indexed"
    return ""


def change_refusal(old: JSON, new: JSON, *, before_1_36: bool = False) -> str:
    """Why a Job may not become that, "" if it may. Before 1.36 one that has started keeps its pod template."""
    have, want = old["spec"], new["spec"]
    elastic = want.get("completionMode") == "Indexed" and want.get("completions") == want.get("parallelism")
    if have.get("completions") != want.get("completions") and not elastic:
        return f"spec.completions: {IMMUTABLE}"
    if have["template"] == want["template"]:
        return ""
    status = old.get("status") or {}
    fresh = "startTime" not in status
    mutable = fresh if before_1_36 else not status.get("active") and (fresh or suspended(old))
    if have.get("suspend") and mutable and _fixed(have["template"]) == _fixed(want["template"]):
        return ""
    return f"spec.template: {IMMUTABLE}"


def status_refusal(old: JSON, new: JSON) -> str:
    """The same for a change of the status."""
    had, has = (("startTime" in (job.get("status") or {})) for job in (old, new))
    if had and not has and not old["spec"].get("suspend"):
        return "status.startTime: Required value: startTime cannot be removed for unsuspended job"
    return ""


def _fixed(template: JSON) -> JSON:
    """What may not change in a pod template, whether its Job is suspended or not."""
    spec = {field: value for field, value in template["spec"].items() if field not in SCHEDULING}
    for kind in ("containers", "initContainers"):
        spec[kind] = [{k: v for k, v in c.items() if k != "resources"} for c in spec.get(kind) or []]
    meta = {
        field: value
        for field, value in (template.get("metadata") or {}).items()
        if field not in {"labels", "annotations"}
    }
    return {**template, "metadata": meta, "spec": spec}
