"""The fields of batch/v1 Job, core/v1 Service and PersistentVolumeClaim that decisions read.

The containers of a Job are never read after its creation, so they are not cached, and a cached Job is small. No object
is written from these records: patches name single fields.
"""

import functools
import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Protocol

import msgspec
from msgspec.structs import force_setattr

from api.exclusive import topology_of
from api.keys import JOB_COMPLETE, JOB_CONTROLLER, JOB_FAILED, JOB_FAILURE_TARGET, JOB_SUSPENDED
from kube.model.meta import JSON, Base, Condition, Identity, ObjectMeta, is_true, share_texts

JOB_CONTROLLER_LABELS = frozenset(
    {"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"}
)
"""Labels that the API server gives to a Job's pod template, with the Job's UID and name."""


class TemplateMeta(Base, frozen=True, kw_only=True):
    """Metadata of a Job's pod template, without the labels that the API server adds."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class SchedulingGroup(Base, frozen=True, kw_only=True):
    """core/v1 PodSchedulingGroup."""

    pod_group_name: str = ""


class SchedulingFields(Base, frozen=True, kw_only=True):
    """The fields of a Job's pod template that may change while it is suspended."""

    node_selector: dict[str, str] = {}
    tolerations: tuple[JSON, ...] = ()
    scheduling_gates: tuple[JSON, ...] = ()
    scheduling_group: SchedulingGroup | None = None

    @property
    def pod_group(self) -> str:
        """Name of the PodGroup of the pods, empty for none. It never changes in a Job."""
        return "" if self.scheduling_group is None else self.scheduling_group.pod_group_name


_NO_FIELDS = SchedulingFields()


class PodTemplate(Base, frozen=True, kw_only=True):
    """A Job's pod template without its containers."""

    metadata: TemplateMeta = TemplateMeta()
    spec: SchedulingFields = _NO_FIELDS

    def __post_init__(self) -> None:
        if self.spec == _NO_FIELDS:
            force_setattr(self, "spec", _NO_FIELDS)


class JobSpec(Base, frozen=True, kw_only=True):
    """The fields of batch/v1 JobSpec that are compared or counted."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    managed_by: str | None = None
    template: PodTemplate = PodTemplate()


class JobSize(Protocol):
    """The spec of a Job, or a ReplicatedJob: how many pods run and how many have to succeed. None: not set."""

    @property
    def parallelism(self) -> int | None: ...

    @property
    def completions(self) -> int | None: ...


def pods_at_once(job: JobSize) -> int:
    """How many pods one Job has at the same time: its parallelism (default 1), but not more than have to succeed."""
    parallelism = 1 if job.parallelism is None else job.parallelism
    return parallelism if job.completions is None else min(parallelism, job.completions)


def is_job_ready(job: "Job") -> bool:
    """Whether all pods that the Job has at the same time are ready or have succeeded."""
    return job.status.succeeded + (job.status.ready or 0) >= pods_at_once(job.spec)


class JobStatus(Base, frozen=True, kw_only=True):
    """batch/v1 JobStatus. `ready` and `terminating` are None until the Job controller has counted."""

    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    start_time: str | None = None
    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        if self.start_time is not None:
            force_setattr(self, "start_time", sys.intern(self.start_time))


class _ExtendedMap(Mapping[str, str]):
    """A shared map with a few additional keys. Only the additional keys are stored here."""

    __slots__ = ("_added_entries", "_shared_entries")

    def __init__(self, shared_entries: dict[str, str], added_entries: dict[str, str]) -> None:
        self._shared_entries = shared_entries
        self._added_entries = added_entries

    def __getitem__(self, key: str) -> str:
        added_value = self._added_entries.get(key)
        return self._shared_entries[key] if added_value is None else added_value

    def __iter__(self) -> Iterator[str]:
        return chain(self._shared_entries, self._added_entries)

    def __len__(self) -> int:
        return len(self._shared_entries) + len(self._added_entries)


def _share_map(texts: dict[str, str], base: dict[str, str]) -> Mapping[str, str]:
    """A map equal to `texts`, which shares the entries of `base` if `texts` has all of them."""
    added_entries = texts.items() - base.items()
    if len(texts) - len(added_entries) != len(base):
        return share_texts(texts)
    return _ExtendedMap(base, _shared_map_of(tuple(sorted(added_entries)))) if added_entries else base


@functools.lru_cache(maxsize=256)
def _shared_map_of(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """One map that many Jobs share. In most cases its only entry is the label with the priority of the pods."""
    return share_texts(dict(items))


class Job(Base, frozen=True, kw_only=True):
    """A child Job as it is cached."""

    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    def __post_init__(self) -> None:
        """Share equal maps and texts between Jobs and within a Job, since they take most of its memory."""
        template, meta = self.spec.template.metadata, self.metadata
        labels = {key: value for key, value in template.labels.items() if key not in JOB_CONTROLLER_LABELS}
        force_setattr(template, "labels", _share_map(labels, meta.labels))
        force_setattr(template, "annotations", _share_map(template.annotations, meta.annotations))

    @property
    def topology(self) -> str | None:
        """The topology key of the exclusive placement of its pods; None without exclusive placement."""
        return topology_of(self.spec.template.metadata.annotations)

    @property
    def outcome(self) -> str | None:
        """`Complete` or `Failed`, whichever condition is the first that is True; None while the Job is unfinished."""
        for condition in self.status.conditions:
            if condition.status == "True" and condition.type in {JOB_COMPLETE, JOB_FAILED}:
                return condition.type
        return None

    @property
    def awaits_job_controller(self) -> bool:
        """Whether the Job may run, and the Job controller of Kubernetes has not taken it up yet."""
        spec, status = self.spec, self.status
        if status.start_time is not None and not status.conditions:
            return False  # for speed: most Jobs have no conditions, and every plan reads this of every Job
        if spec.suspend or spec.managed_by not in {None, JOB_CONTROLLER} or self.outcome is not None:
            return False
        is_new = status.start_time is None and not status.active
        return is_new or is_true(status.conditions, JOB_SUSPENDED)

    @property
    def is_failing(self) -> bool:
        """Whether the Job is bound to fail or has failed, even if pods still run (FailureTarget=True)."""
        return is_true(self.status.conditions, JOB_FAILURE_TARGET)

    @property
    def failure(self) -> Condition | None:
        """The condition Failed if it is True, else FailureTarget, which has the same reason and is set earlier."""
        by_type = {condition.type: condition for condition in self.status.conditions if condition.status == "True"}
        return by_type.get(JOB_FAILED) or by_type.get(JOB_FAILURE_TARGET)


class OwnedObject(Base, frozen=True, kw_only=True):
    """An object of which only the owner is read."""

    metadata: Identity


class LabelledIdentity(Identity, frozen=True, kw_only=True):
    """Identity and labels."""

    labels: dict[str, str] = {}


class Claim(Base, frozen=True, kw_only=True):
    """A volume claim as it is cached. A retained claim has no owner, only a label with the name of its JobSet."""

    metadata: LabelledIdentity


class ServiceSpec(Base, frozen=True, kw_only=True):
    """The fields that make a Service headless, and its selector."""

    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    selector: dict[str, str] = {}


class Service(Base, frozen=True, kw_only=True):
    """A Service as it is cached."""

    metadata: Identity
    spec: ServiceSpec = ServiceSpec()
