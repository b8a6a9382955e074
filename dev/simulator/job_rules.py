"""Set the defaults of Jobs (batch/v1), and validate new Jobs and updates.

The refusals are those of ValidateJob and ValidateJobUpdate that a JobSet controller can run into.
"""

import re

from dev.simulator.job_status import TERMINAL_CONDITIONS, has_condition, is_finished, is_suspended, sizes
from kube.model.meta import JSON

UID_LABEL, NAME_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
MUTABLE_POD_FIELDS = frozenset({"nodeSelector", "tolerations", "schedulingGates"})
"""Fields of the pod template's spec that may change while a Job is suspended. Resources of containers may, too."""

IMMUTABLE = "field is immutable"
_LABEL_VALUE = re.compile(r"(?=.{0,63}\Z)([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def with_defaults(job: JSON) -> JSON:
    """Return a new Job with the defaults of batch/v1, the selector and the pod labels. `job` has a name and a UID."""
    meta = job["metadata"]
    spec = {field: value for field, value in job["spec"].items() if value is not None}
    template = spec["template"]
    pod_metadata = template.get("metadata") or {}
    uid_label = {UID_LABEL: meta["uid"]}
    owner_labels = {**uid_label, NAME_LABEL: meta["name"], "controller-uid": meta["uid"], "job-name": meta["name"]}
    pod_metadata = {
        **pod_metadata,
        "labels": {**(pod_metadata.get("labels") or {}), **owner_labels},
        "annotations": pod_metadata.get("annotations") or {},
    }
    parallelism, completions = sizes(spec)
    defaults = {"completionMode": "NonIndexed", "backoffLimit": 6, "suspend": False, "parallelism": parallelism}
    if completions is not None:
        defaults["completions"] = completions
    full_spec = {
        **defaults,
        **spec,
        "selector": {"matchLabels": uid_label},
        "template": {**template, "metadata": pod_metadata},
    }
    return {**job, "spec": full_spec, "status": {}}


def refusal(job: JSON) -> str:
    """Return why a new Job with its defaults is not valid; "" if it is."""
    spec = job["spec"]
    if spec["completionMode"] == "Indexed" and "completions" not in spec:
        return "spec.completions: Required value: when completion mode is Indexed"
    for meta in (job["metadata"], spec["template"]["metadata"]):
        for key, value in (meta.get("labels") or {}).items():
            if not _LABEL_VALUE.fullmatch(value):
                return f"metadata.labels[{key}]: Invalid value: {value}"
    return ""


def change_refusal(old: JSON, new: JSON, *, before_1_36: bool = False) -> str:
    """Return why the update of a Job is not valid; "" if it is.

    `before_1_36`: whether the pod template of a Job that has ever started is immutable, even while it is suspended.
    """
    old_spec, new_spec = old["spec"], new["spec"]
    is_elastic = new_spec.get("completionMode") == "Indexed" and new_spec.get("completions") == new_spec.get(
        "parallelism"
    )
    if old_spec.get("completions") != new_spec.get("completions") and not is_elastic:
        return f"spec.completions: {IMMUTABLE}"
    if old_spec["template"] == new_spec["template"]:
        return ""
    status = old.get("status") or {}
    never_started = "startTime" not in status
    is_mutable = never_started if before_1_36 else not status.get("active") and (never_started or is_suspended(old))
    if (
        old_spec.get("suspend")
        and is_mutable
        and _immutable_fields(old_spec["template"]) == _immutable_fields(new_spec["template"])
    ):
        return ""
    return f"spec.template: {IMMUTABLE}"


def status_refusal(old: JSON, new: JSON) -> str:
    """Return why the update of a Job's status is not valid; "" if it is."""
    old_status, status = old.get("status") or {}, new.get("status") or {}
    if "startTime" in old_status and "startTime" not in status and not old["spec"].get("suspend"):
        return "status.startTime: Required value: startTime cannot be removed for unsuspended job"
    if lost_conditions := [
        kind for kind in sorted(TERMINAL_CONDITIONS) if has_condition(old, kind) and not has_condition(new, kind)
    ]:
        return f"status.conditions: Invalid value: cannot disable the terminal {lost_conditions[0]} condition"
    if all(has_condition(new, kind) for kind in TERMINAL_CONDITIONS):
        return "status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions"
    if is_finished(new) and status.get("active"):
        return "status.active: Invalid value: active>0 is invalid for finished job"
    if status.get("ready", 0) > status.get("active", 0):
        return "status.ready: Invalid value: cannot set more ready pods than active"
    return ""


def _immutable_fields(template: JSON) -> JSON:
    """Return a pod template without the fields that may change while its Job is suspended."""
    spec = {field: value for field, value in template["spec"].items() if field not in MUTABLE_POD_FIELDS}
    for kind in ("containers", "initContainers"):
        spec[kind] = [{k: v for k, v in c.items() if k != "resources"} for c in spec.get(kind) or []]
    meta = {
        field: value
        for field, value in (template.get("metadata") or {}).items()
        if field not in {"labels", "annotations"}
    }
    return {**template, "metadata": meta, "spec": spec}
