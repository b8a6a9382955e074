"""The child Jobs that are sent as dry runs for a JobSet, and the path in the JobSet of each of their fields. Pure.

One Job stands for its ReplicatedJob and for all ReplicatedJobs with an equal template, as they have the same faults.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from api import keys
from api.children import NO_UID, build_job, job_labels
from api.features import FeatureGates
from api.jobset import JobSet
from api.layout import JobPosition, JobRange, Layout, layout_of
from api.names import namespaced_job
from api.paths import REPLICATED_JOBS, claim_templates
from kube.model.field import NAME_PATH, SPEC, FieldError, Parts, Path
from kube.model.jsontree import dig
from kube.model.meta import JSON
from webhooks.jobset.rules.managed_by import PATH as MANAGED_BY

_FIELDS_WITH_NAMES = {("labels",), ("annotations",), ("nodeSelector",)}
"""Fields into which the controller writes names."""


@dataclass(frozen=True, slots=True)
class ChildJob:
    """The first Job of a ReplicatedJob.

    `raw` is the JobSet as JSON, for looking up values. `index` is the index of the ReplicatedJob, and `equal_indices`
    are the indices of all ReplicatedJobs with an equal template, `index` included. `body` is the Job. `name_paths` maps
    each name that the controller writes into the Job to the path from which the name comes.
    """

    raw: JSON
    js: JobSet
    index: int
    equal_indices: tuple[int, ...]
    body: JSON
    name_paths: Mapping[str, Path]

    @property
    def name(self) -> str:
        name: str = self.body["metadata"]["name"]
        return name

    @property
    def path(self) -> Path:
        return REPLICATED_JOBS.at(self.index)

    @property
    def pod_spec(self) -> JSON:
        spec: JSON = self.body["spec"]["template"]["spec"]
        return spec

    def has_items_on(self, parts: Parts) -> bool:
        """Whether the Job as sent has every list item on this path. If not, a mutating webhook has added the item."""
        return all(
            dig(self.body, *parts[:depth]) is None or part < len(dig(self.body, *parts[:depth]))
            for depth, part in enumerate(parts)
            if isinstance(part, int)
        )

    def jobset_paths(self, parts: Parts, value: str) -> list[Path]:
        """The paths in the JobSet from which a field of the Job comes, for each affected ReplicatedJob.

        `value` is the offending text, if known. If the controller wrote it, only this ReplicatedJob is affected.
        """
        if parts[:2] == ("metadata", "name"):
            return [self.path.at("name")]
        if value in self.name_paths and parts[-1:] in _FIELDS_WITH_NAMES:
            return [self.name_paths[value]]
        if parts[:4] == ("spec", "template", "spec", "subdomain") and self.js.dns_enabled:
            return [service_name_path(self.js)]
        if path := self._appended_item_path(parts):
            return [path]
        if policy_parts := self._exit_code_policy_parts(parts):
            return [REPLICATED_JOBS.at(i).at(*policy_parts) for i in self.equal_indices]
        return [REPLICATED_JOBS.at(i).at("template", *_template_parts(parts)) for i in self.equal_indices]

    def _appended_item_path(self, parts: Parts) -> Path | None:
        """The source of an item that the controller appended to a list of the pod."""
        match parts:
            case ("spec", "template", "spec", "volumes" | "tolerations" as key, int(number), *rest):
                items = dig(self.raw, *self.path.at("template", "spec", "template", "spec", key).parts) or ()
                if number < len(items):
                    return None
                if key == "tolerations":
                    return self.path.at("name")
                claim = dig(self.pod_spec, "volumes", number, "name")
                paths = {template["metadata"]["name"]: path for path, template, _, _ in claim_templates(self.js)}
                return paths[claim].at(*(NAME_PATH.parts if rest == ["name"] else ()))
        return None

    def _exit_code_policy_parts(self, parts: Parts) -> Parts:
        """The path of exitCodePolicy, below the ReplicatedJob, if `parts` is in a rule compiled from it; else empty.

        The rules of podFailurePolicy that the author wrote come first.
        """
        rules = ("spec", "podFailurePolicy", "rules")
        policy = self.js.spec.replicated_jobs[self.index].exit_code_policy
        authors_rule_count = len(dig(self.raw, *self.path.at("template", *rules).parts) or ())
        if policy is None or parts[:2] != rules[:2] or (authors_rule_count and parts[3:4] < (authors_rule_count,)):
            return ()
        return ("exitCodePolicy", *(["containerName"] if parts[-1] == "containerName" else []))


def _template_parts(parts: Parts) -> Parts:
    """The path below a Job template; the API server leaves `metadata` out of some paths in a pod template."""
    if parts[:2] == ("spec", "template") and parts[2:3] in {("labels",), ("annotations",)}:
        return ("spec", "template", "metadata", *parts[2:])
    is_in_template = parts[:1] == ("spec",) or parts[:2] in {("metadata", "labels"), ("metadata", "annotations")}
    return parts if is_in_template else ()


def service_name_path(js: JobSet) -> Path:
    """Path of the value from which the headless Service gets its name."""
    return SPEC.at("network", "subdomain") if js.spec.network and js.spec.network.subdomain else NAME_PATH


def is_managed_by_us(js: JobSet, errors: Iterable[FieldError]) -> bool:
    """Whether our controller will create the children of a JobSet with these errors.

    An invalid `managedBy` names no controller. Once it is corrected, it may name ours.
    """
    return js.is_ours or any(error.path == MANAGED_BY for error in errors)


def with_identity(js: JobSet, namespace: str) -> JobSet:
    """The JobSet in this namespace, with its UID; an object that is not stored yet gets a placeholder."""
    meta = js.metadata
    new_meta = msgspec.structs.replace(meta, uid=meta.uid or NO_UID, namespace=namespace)
    return msgspec.structs.replace(js, metadata=new_meta)


def child_jobs(raw: JSON, js: JobSet, gates: FeatureGates, indices: Iterable[int]) -> list[ChildJob]:
    """One child for each different template of the ReplicatedJobs at these indices that have replicas."""
    layout = layout_of(js)
    indices_by_template: dict[bytes, list[int]] = {}
    for index in indices:
        rjob = js.spec.replicated_jobs[index]
        if rjob.replicas > 0:
            template = (rjob.template, rjob.exit_code_policy)
            indices_by_template.setdefault(msgspec.json.encode(template, order="deterministic"), []).append(index)
    return [_child(raw, js, gates, layout, tuple(equal_indices)) for equal_indices in indices_by_template.values()]


def _child(raw: JSON, js: JobSet, gates: FeatureGates, layout: Layout, equal_indices: tuple[int, ...]) -> ChildJob:
    index = equal_indices[0]
    jobs = layout.ranges[index]
    position = next(jobs.positions(js.metadata.name))
    body = build_job(js, layout, jobs, position, gates=gates)
    name_paths = _name_paths(js, jobs, position, layout.global_replicas, REPLICATED_JOBS.at(index))
    return ChildJob(raw, js, index, equal_indices, body, name_paths)


def _name_paths(js: JobSet, jobs: JobRange, position: JobPosition, global_replicas: int, path: Path) -> dict[str, Path]:
    labels = job_labels(js, jobs, position, global_replicas=global_replicas, job_restart_attempt=None)
    sources = {
        keys.GROUP_NAME: path.at("groupName"),
        keys.REPLICATED_JOB_NAME: path.at("name"),
        keys.JOBSET_NAME: NAME_PATH,
        keys.COORDINATOR: SPEC.at("coordinator"),
    }
    name_paths = {labels[key]: source for key, source in sources.items() if labels.get(key)}
    for name in (position.name, namespaced_job(js.metadata.namespace, position.name)):
        name_paths[name] = path.at("name")
    return name_paths


def claim_names(js: JobSet) -> list[str]:
    """Names of the volume claim templates, which are also the names of their volumes."""
    return [template["metadata"]["name"] for _, template, _, _ in claim_templates(js)]
