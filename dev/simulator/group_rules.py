"""Validation of Workloads, PodGroups and CompositePodGroups (scheduling.k8s.io in Kubernetes 1.37)."""

from collections.abc import Collection, Iterable
from typing import Any

from kube.model.meta import JSON

TEMPLATES = ("podGroupTemplates", "compositePodGroupTemplates")
COUNTS = frozenset({"minCount", "minGroupCount"})
MAX_TEMPLATES = 8
"""Templates in one list of a Workload."""


def refusal(kind: str, spec: JSON) -> str:
    """Why an object of this kind is not valid; "" if it is."""
    if kind == "Workload":
        lists = [name for name in TEMPLATES if spec.get(name)]
        if len(lists) != 1:
            return f"a Workload has one list of templates, not {lists}"
        return f"a list has more than {MAX_TEMPLATES} templates" if max(_widths(spec)) > MAX_TEMPLATES else ""
    fewest = min(spec["schedulingPolicy"].get("gang", {"": 1}).values())
    return f"a gang of {fewest}" if fewest < 1 else ""


def change_refusal(kind: str, old: JSON, new: JSON) -> str:
    """Why the update of a spec is not valid; "" if it is. Only counts of PodGroups are mutable."""
    same = old == new if kind == "CompositePodGroup" else _without_counts(old) == _without_counts(new)
    return "" if same else "spec: field is immutable"


def missing_reference(spec: JSON, workloads: dict[str, JSON], composites: Collection[str]) -> str:
    """The object that a new group refers to and that does not exist; "" if all exist. `workloads`: specs by name."""
    ref, parent = spec["workloadRef"], spec.get("parentCompositePodGroupName")
    if ref["workloadName"] not in workloads:
        return f"Workload {ref['workloadName']}"
    if ref["templateName"] not in _names(workloads[ref["workloadName"]]):
        return f"template {ref['templateName']}"
    return f"CompositePodGroup {parent}" if parent is not None and parent not in composites else ""


def group_of(job: JSON) -> str:
    """The PodGroup that the pods of a Job name, "" for none."""
    name: str = job["spec"]["template"]["spec"].get("schedulingGroup", {}).get("podGroupName", "")
    return name


def has_pods(group: str, jobs: Iterable[JSON]) -> bool:
    """Whether a PodGroup has active pods; its deletion waits until they are gone."""
    return any(group_of(job) == group and (job.get("status") or {}).get("active") for job in jobs)


def _names(spec: JSON) -> list[str]:
    """Names of all templates of a Workload."""
    below = [template for name in TEMPLATES for template in spec.get(name, [])]
    return [name for template in below for name in (template["name"], *_names(template))]


def _widths(spec: JSON) -> list[int]:
    """Lengths of all lists of templates of a Workload."""
    lists = [spec.get(name, []) for name in TEMPLATES]
    return [*map(len, lists), *(width for templates in lists for template in templates for width in _widths(template))]


def _without_counts(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: None if k in COUNTS else _without_counts(v) for k, v in value.items()}
    return [_without_counts(part) for part in value] if isinstance(value, list) else value
