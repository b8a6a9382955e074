"""Patches that suspend and resume child Jobs (KEP-1150 for resources of containers).

See docs/reference/lifecycle.md#suspend-and-resume.

Resume rebuilds the five fields that a queue may set for one admission, from the ReplicatedJob as it is now: selectors,
tolerations and gates of an earlier admission are removed (defect 3 in docs/reference/defects.md). Labels of the Job
controller stay.
"""

from collections.abc import Mapping

from api import keys
from api.batch import JOB_CONTROLLER_LABELS
from api.exclusive import topology_of
from controllers.planning.actions import PatchJob
from controllers.planning.child_jobs import Child, integer
from kube.model.meta import JSON

_JOB_CONTROLLER_PREFIX = "batch.kubernetes.io/"


def suspend(child: Child) -> PatchJob:
    """Suspend one Job; its controller then ends the pods."""
    return PatchJob(child.name, guard(child, {"spec": {"suspend": True}}))


def resume(child: Child, wanted: JSON, *, resources: bool) -> PatchJob | None:
    """Resume one Job with the scheduling fields of `wanted`, the Job as it would be built now. None: it has to wait.

    `resources`: requests and limits of containers are set, too (gate MutablePodResourcesForSuspendedJobSets).

    The API server accepts a changed template only after the Job's pods are gone and, if the Job ever started, after the
    Job controller has set its condition Suspended. The next change of the Job leads to the next plan. A Job with
    exclusive placement waits until its old pods have ended: a leader that is created before has an affinity to them,
    and kube-scheduler does not notice when they are gone.
    """
    if child.job.status.terminating and topology_of(child.job.spec.template.metadata.annotations) is not None:
        return None
    template = _template_patch(child, wanted["spec"]["template"])
    if resources:
        _add_resources(template, wanted["spec"]["template"]["spec"])
    attempt = wanted["metadata"]["annotations"].get(keys.EXECUTION_ATTEMPT)
    patch: JSON = {"spec": {"suspend": False}}
    if attempt is not None:
        patch["metadata"] = {"annotations": {keys.EXECUTION_ATTEMPT: attempt}}
    if not template:
        return PatchJob(child.name, guard(child, patch))
    status = child.job.status
    halted = any(c.type == "Suspended" and c.status == "True" for c in status.conditions)
    if status.active > 0 or (status.start_time is not None and not halted):
        return None
    patch["spec"]["template"] = template
    return PatchJob(child.name, guard(child, patch), True, resources)


def guard(child: Child, patch: JSON) -> JSON:
    """The patch with a precondition: the API server refuses it if the Job has changed or was replaced.

    The UID alone is not enough: a delayed patch may arrive after another leader has suspended and resumed the Job.
    """
    return {**patch, "metadata": {**patch.get("metadata", {}), **child.job.metadata.precondition}}


def attempt_of(child: Child) -> int | None:
    """The Job's own restart counter in its label, which does not change."""
    return integer(child.job.metadata.labels.get(keys.JOB_RESTART_ATTEMPT))


def _add_resources(template: JSON, wanted: JSON) -> None:
    """Add the containers' requests and limits. `$patch: replace` keeps a strategic merge patch from merging values."""
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
    """Merge patch from the Job's five fields to the wanted ones; empty if they are equal."""
    have = child.job.spec.template
    meta, spec = wanted["metadata"], wanted["spec"]
    metadata: JSON = {
        field: diff
        for field, diff in (
            ("labels", _map_patch(have.metadata.labels, meta.get("labels") or {})),
            ("annotations", _map_patch(have.metadata.annotations, meta.get("annotations") or {})),
        )
        if diff
    }
    fields: JSON = {}
    selector = _map_patch(have.spec.node_selector, spec.get("nodeSelector") or {})
    if selector:
        fields["nodeSelector"] = selector
    if list(have.spec.tolerations) != (spec.get("tolerations") or []):
        fields["tolerations"] = spec.get("tolerations")
    if list(have.spec.scheduling_gates) != (spec.get("schedulingGates") or []):
        fields["schedulingGates"] = spec.get("schedulingGates")
    return {name: part for name, part in (("metadata", metadata), ("spec", fields)) if part}


def _map_patch(have: Mapping[str, str], wanted: dict[str, str]) -> dict[str, str | None]:
    """Merge patch between two maps; null removes a key. Keys of the Job controller are kept."""
    patch: dict[str, str | None] = {k: v for k, v in wanted.items() if have.get(k) != v}
    for key in have.keys() - wanted.keys():
        if not key.startswith(_JOB_CONTROLLER_PREFIX) and key not in JOB_CONTROLLER_LABELS:
            patch[key] = None
    return patch
