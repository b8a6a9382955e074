"""Validate Workloads, PodGroups and CompositePodGroups (scheduling.k8s.io in Kubernetes 1.37)."""

from collections.abc import Collection, Iterable
from typing import Any

from kube.model.meta import JSON

TEMPLATES = ("podGroupTemplates", "compositePodGroupTemplates")
MUTABLE_COUNTS = frozenset({"minCount", "minGroupCount"})
MAX_TEMPLATES = 8
"""Largest number of templates in one list of a Workload."""


def refusal(kind: str, spec: JSON) -> str:
    """Return why an object of this kind is not valid; "" if it is."""
    if kind == "Workload":
        lists = [name for name in TEMPLATES if spec.get(name)]
        if len(lists) != 1:
            return f"a Workload has one list of templates, not {lists}"
        return f"a list has more than {MAX_TEMPLATES} templates" if max(_list_lengths(spec)) > MAX_TEMPLATES else ""
    smallest_count = min(spec["schedulingPolicy"].get("gang", {"": 1}).values())
    return f"a gang of {smallest_count}" if smallest_count < 1 else ""


def change_refusal(kind: str, old: JSON, new: JSON) -> str:
    """Return why the update of a spec is not valid; "" if it is. Only `MUTABLE_COUNTS` may change."""
    is_equal = old == new if kind == "CompositePodGroup" else _without_counts(old) == _without_counts(new)
    return "" if is_equal else "spec: field is immutable"


def missing_reference(spec: JSON, workloads: dict[str, JSON], composites: Collection[str]) -> str:
    """Return the object that a new group refers to and that does not exist; "" if all exist.

    `workloads`: specs of Workloads by name. `composites`: names of CompositePodGroups.
    """
    ref, parent = spec["workloadRef"], spec.get("parentCompositePodGroupName")
    if ref["workloadName"] not in workloads:
        return f"Workload {ref['workloadName']}"
    if ref["templateName"] not in _template_names(workloads[ref["workloadName"]]):
        return f"template {ref['templateName']}"
    return f"CompositePodGroup {parent}" if parent is not None and parent not in composites else ""


def group_of(job: JSON) -> str:
    """Return the name of the PodGroup of a Job's pods; "" if they have none."""
    name: str = job["spec"]["template"]["spec"].get("schedulingGroup", {}).get("podGroupName", "")
    return name


def has_pods(group: str, jobs: Iterable[JSON]) -> bool:
    """Whether one of these Jobs has active pods in a PodGroup. The deletion of the PodGroup waits until they end."""
    return any(group_of(job) == group and (job.get("status") or {}).get("active") for job in jobs)


def _template_names(spec: JSON) -> list[str]:
    """Return the names of all templates of a Workload."""
    templates = [template for name in TEMPLATES for template in spec.get(name, [])]
    return [name for template in templates for name in (template["name"], *_template_names(template))]


def _list_lengths(spec: JSON) -> list[int]:
    """Return the lengths of all lists of templates of a Workload."""
    lists = [spec.get(name, []) for name in TEMPLATES]
    return [
        *map(len, lists),
        *(width for templates in lists for template in templates for width in _list_lengths(template)),
    ]


def _without_counts(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: None if k in MUTABLE_COUNTS else _without_counts(v) for k, v in value.items()}
    return [_without_counts(part) for part in value] if isinstance(value, list) else value
