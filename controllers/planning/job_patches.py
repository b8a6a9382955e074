"""Patches that suspend and resume child Jobs (KEP-1150 for resources of containers).

See docs/reference/lifecycle.md#suspend-and-resume.

When a queue such as Kueue admits a set, it may change five fields of the pod template in the ReplicatedJob, and then
resumes the set: labels, annotations, nodeSelector, tolerations and schedulingGates. The resume of a Job gives these
fields the values that the ReplicatedJob has now. So values of an earlier admission are removed (defect 3 in
docs/reference/defects.md). Labels of the Job controller are kept.
"""

from collections.abc import Mapping

from api import keys
from api.batch import JOB_CONTROLLER_LABELS
from controllers.planning.actions import PatchJob
from controllers.planning.child_jobs import Child, integer
from kube.model.meta import JSON, is_true

_JOB_CONTROLLER_PREFIX = "batch.kubernetes.io/"


def suspension_patch(child: Child) -> PatchJob:
    """The patch that suspends one Job. The Job controller then deletes the pods."""
    return PatchJob(child.name, guarded_patch(child, {"spec": {"suspend": True}}))


def resume_patch(child: Child, wanted: JSON, *, sets_resources: bool) -> PatchJob | None:
    """The patch that resumes one Job with the five fields of `wanted`; None if the Job has to wait.

    `wanted`: the body of the Job as it would be built now. `sets_resources`: whether the patch also sets requests and
    limits of containers (gate MutablePodResourcesForSuspendedJobSets).

    A Job waits in two cases. No timer is needed: the change that it waits for leads to the next plan.
    - The template changes. The API server accepts that only after the Job's pods are gone and, if the Job ever started,
      after the Job controller has set the condition Suspended.
    - The Job uses exclusive placement, and its old pods have not ended. If its first new pod were created now, that pod
      would have an affinity to the old pods, and kube-scheduler would not notice when they are gone.
    """
    if child.job.status.terminating and child.job.topology is not None:
        return None
    template = _template_patch(child, wanted["spec"]["template"])
    if sets_resources:
        _add_resources(template, wanted["spec"]["template"]["spec"])
    attempt = wanted["metadata"]["annotations"].get(keys.EXECUTION_ATTEMPT)
    patch: JSON = {"spec": {"suspend": False}}
    if attempt is not None:
        patch["metadata"] = {"annotations": {keys.EXECUTION_ATTEMPT: attempt}}
    if not template:
        return PatchJob(child.name, guarded_patch(child, patch))
    status = child.job.status
    if status.active > 0 or (status.start_time is not None and not is_true(status.conditions, keys.JOB_SUSPENDED)):
        return None
    patch["spec"]["template"] = template
    return PatchJob(child.name, guarded_patch(child, patch), changes_template=True, changes_resources=sets_resources)


def guarded_patch(child: Child, patch: JSON) -> JSON:
    """The patch with UID and resourceVersion: the API server refuses it if the Job has changed or was replaced.

    The UID alone is not enough: a delayed patch may arrive after another process has got the lease, and has suspended
    and resumed the Job.
    """
    return {**patch, "metadata": {**patch.get("metadata", {}), **child.job.metadata.precondition}}


def restart_counter(child: Child) -> int | None:
    """The Job's own restart counter, from its label; None if the label is missing or not a number."""
    return integer(child.job.metadata.labels.get(keys.JOB_RESTART_ATTEMPT))


def _add_resources(template: JSON, wanted: JSON) -> None:
    """Add the requests and limits of the `wanted` pod spec to the template of a patch.

    A strategic merge patch merges values with those of the Job. The directive `$patch: replace` prevents that.
    """
    spec = template.setdefault("spec", {})
    if "schedulingGates" in spec:
        spec["schedulingGates"] = [*(spec["schedulingGates"] or []), {"$patch": "replace"}]
    for kind in ("containers", "initContainers"):
        containers = [
            {"name": c["name"], "resources": {**(c.get("resources") or {}), "$patch": "replace"}}
            for c in wanted.get(kind) or []
        ]
        if containers:
            spec[kind] = containers


def _template_patch(child: Child, wanted: JSON) -> JSON:
    """The merge patch that gives the Job the five fields of the `wanted` template; empty if the Job has them."""
    current = child.job.spec.template
    meta, spec = wanted["metadata"], wanted["spec"]
    metadata: JSON = {
        field: diff
        for field, diff in (
            ("labels", _map_patch(current.metadata.labels, meta.get("labels") or {})),
            ("annotations", _map_patch(current.metadata.annotations, meta.get("annotations") or {})),
        )
        if diff
    }
    fields: JSON = {}
    selector = _map_patch(current.spec.node_selector, spec.get("nodeSelector") or {})
    if selector:
        fields["nodeSelector"] = selector
    if list(current.spec.tolerations) != (spec.get("tolerations") or []):
        fields["tolerations"] = spec.get("tolerations")
    if list(current.spec.scheduling_gates) != (spec.get("schedulingGates") or []):
        fields["schedulingGates"] = spec.get("schedulingGates")
    return {name: value for name, value in (("metadata", metadata), ("spec", fields)) if value}


def _map_patch(current: Mapping[str, str], wanted: dict[str, str]) -> dict[str, str | None]:
    """The merge patch that changes `current` to `wanted`, in which None removes a key.

    Keys of the Job controller are kept.
    """
    patch: dict[str, str | None] = {k: v for k, v in wanted.items() if current.get(k) != v}
    for key in current.keys() - wanted.keys():
        if not key.startswith(_JOB_CONTROLLER_PREFIX) and key not in JOB_CONTROLLER_LABELS:
            patch[key] = None
    return patch
