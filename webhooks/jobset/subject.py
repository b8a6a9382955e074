"""The subject of the checks: a JobSet with typed fields, and its raw JSON for messages. Pure.

A JobSet that has only `generateName` gets a name with a placeholder for the random characters.
Normally the API server's schema has checked the object. If it has not, a value that cannot be decoded becomes a field
error.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from api.batch import pods_at_once
from api.children import affinity_topology
from api.features import FeatureGates
from api.gangs import Forest, forest_of_single_jobs
from api.jobset import JobSet, ReplicatedJob
from api.named_actions import NamedAction, named_actions
from api.paths import claim_templates, replicated_jobs
from api.policies import FailurePolicy
from api.restart_agent import jobs_without_agent
from kube.model.field import ErrorType, FieldError, Layer, Path, Rule
from kube.model.jsontree import dig, items, json_bytes, rephrase_for_json, without_nulls
from kube.model.meta import JSON
from webhooks.jobset.templates import ClaimTemplate, Container, JobSpec, JobTemplate, Volume
from webhooks.work import Work

MAX_GENERATED_PREFIX_BYTES = 58
"""The most bytes of `generateName` that the API server uses."""
GENERATED_SUFFIX = "xxxxx"
"""Placeholder for the five random characters of a generated name. It makes answers repeatable."""

UNREADABLE = Rule(
    id="unreadable",
    type=ErrorType.TYPE_INVALID,
    message="{what}",
    fix="`kubectl explain jobset.spec --recursive` shows the shape",
    source="CRD schema",
    layer=Layer.SCHEMA,
)
T = TypeVar("T")
_STEPS_PER_REPLICATED_JOB = 120
"""What reading one ReplicatedJob takes of the steps that a review may take (`Work`), without `steps_per_check`."""


@dataclass(frozen=True)
class Entry:
    """One ReplicatedJob: its path, its own fields, and its Job."""

    index: int
    path: Path
    rjob: ReplicatedJob
    template: JobTemplate

    @cached_property
    def job(self) -> JobSpec:
        return self.template.spec

    @cached_property
    def job_path(self) -> Path:
        return self.path.at("template", "spec")

    @cached_property
    def pod_path(self) -> Path:
        return self.path.at("template", "spec", "template")

    @property
    def never_restarts(self) -> bool:
        """Whether containers are never restarted in their pod. Only then does podFailurePolicy see its exit codes."""
        return self.job.template.spec.restart_policy == "Never"

    @cached_property
    def steps_per_check(self) -> int:
        """Steps of work for one check: one for each item that the check may read, and a few more."""
        pod = self.job.template.spec
        steps = 5 + len(pod.volumes)
        for each in pod.all_containers:  # a sum over a generator takes twice as long, in every review
            steps += 1 + len(each.command) + len(each.args) + len(each.env) + len(each.ports) + len(each.volume_mounts)
        return steps

    @cached_property
    def pod_count(self) -> int:
        """The number of pods that run at once in all Jobs of the ReplicatedJob."""
        return max(self.rjob.replicas, 0) * max(pods_at_once(self.job), 0)

    @cached_property
    def all_text(self) -> str:
        """Commands, arguments and values of variables of all containers, one a line, for a fast search."""
        containers = self.job.template.spec.all_containers
        lists = [(*each.command, *each.args, *[variable.value for variable in each.env]) for each in containers]
        return "\n".join([text for texts in lists for text in texts if isinstance(text, str)])

    @cached_property
    def variable_names(self) -> frozenset[str]:
        """Names of the variables in `env` of all containers."""
        return frozenset([variable.name for each in self.job.template.spec.all_containers for variable in each.env])

    @cached_property
    def container_names(self) -> tuple[str, ...]:
        """Names of containers and init containers."""
        return tuple(container.name for container in self.job.template.spec.all_containers)

    def each_container(self) -> Iterator[tuple[Path, Container]]:
        """Init containers and containers with their paths, in the order in which they run."""
        pod = self.job.template.spec
        for key, containers in (("initContainers", pod.init_containers), ("containers", pod.containers)):
            if containers:
                yield from self.pod_path.at("spec", key).each(containers)

    def each_volume(self) -> Iterable[tuple[Path, Volume]]:
        volumes = self.job.template.spec.volumes
        return self.pod_path.at("spec", "volumes").each(volumes) if volumes else ()

    @cached_property
    def mounted_volume_names(self) -> frozenset[str]:
        """Names of the volumes that some container mounts."""
        containers = self.job.template.spec.all_containers
        return frozenset(mount.name for container in containers for mount in container.volume_mounts)


@dataclass(frozen=True, slots=True)
class Claim:
    """One volume claim template and its path."""

    path: Path
    name: str
    namespace: str


@dataclass(frozen=True, slots=True)
class SetLimits:
    """The most Jobs, and pods at once, of one JobSet."""

    jobs: int = 100_000
    pods: int = 2**31 - 1


DEFAULT_LIMITS = SetLimits()


@dataclass(frozen=True)
class Subject:
    """A JobSet with all data that a check may read. `js.metadata.name` is the name that the object has or will have.

    `size`: bytes of the JSON of the object without the status.
    """

    js: JobSet
    size: int
    raw_spec: JSON
    entries: tuple[Entry, ...]
    claims: tuple[Claim, ...]
    gates: FeatureGates
    limits: SetLimits

    @cached_property
    def names_without_agent(self) -> frozenset[str]:
        """Names of the ReplicatedJobs that get no agent for restarts in place."""
        return jobs_without_agent(self.js)

    @property
    def name(self) -> str:
        return self.js.metadata.name

    @cached_property
    def steps_per_check(self) -> int:
        """Steps of work for one check: one for each item that the check may read, and a few more."""
        rules, success = self.failure_policy.rules, self.js.spec.success_policy
        targets = sum(1 + len(rule.target_replicated_jobs) for rule in rules)
        targets += len(success.target_replicated_jobs) if success else 0
        return sum(entry.steps_per_check for entry in self.entries) + len(self.claims) + targets

    @property
    def failure_policy(self) -> FailurePolicy:
        """The failure policy; a policy without rules if the JobSet has none."""
        return self.js.spec.failure_policy or FailurePolicy()

    @cached_property
    def used_keys(self) -> frozenset[str]:
        """The keys in labels, annotations, the spec, its direct objects and its ReplicatedJobs."""
        metadata, spec = self.js.metadata, self.raw_spec
        values = (*spec.values(), *items(spec, "replicatedJobs"))
        objects = [value for value in values if isinstance(value, dict)]
        return frozenset(spec).union(metadata.labels, metadata.annotations, *objects)

    @cached_property
    def named_actions(self) -> tuple[NamedAction, ...]:
        """The actions that the failure policy may take."""
        return tuple(named_actions(self.failure_policy))

    @cached_property
    def part_restarts(self) -> tuple[str, ...]:
        """Names of the enabled actions of the failure policy that restart a part of the set."""
        actions = [named.action for named in self.named_actions]
        return tuple(dict.fromkeys(each.name for each in actions if each.restarts_part and each.is_enabled(self.gates)))

    @cached_property
    def topologies(self) -> tuple[str | None, ...]:
        """For each ReplicatedJob the topology of its exclusive placement by affinity; None without such a placement."""
        return tuple(affinity_topology(self.js, entry.rjob) for entry in self.entries)

    @cached_property
    def entries_by_name(self) -> dict[str, Entry]:
        """The ReplicatedJobs by name. If a name is repeated, the first ReplicatedJob has it."""
        return {entry.rjob.name: entry for entry in reversed(self.entries)}

    def entries_with(self, text: str) -> Iterator[Entry]:
        """The ReplicatedJobs that have this text in a command, an argument or the value of a variable."""
        return (entry for entry in self.entries if text in entry.all_text)

    @cached_property
    def dependents_on_ready(self) -> dict[str, str]:
        """By name of a ReplicatedJob that others wait for to be Ready, the name of the first of these others."""
        waits = ((entry.rjob.name, wait) for entry in reversed(self.entries) for wait in entry.rjob.depends_on or ())
        return {wait.name: dependent for dependent, wait in waits if wait.status == "Ready"}

    @cached_property
    def pod_count(self) -> int:
        """The number of pods that run at once in the whole set."""
        return sum(entry.pod_count for entry in self.entries)

    @cached_property
    def replicated_job_names(self) -> tuple[str, ...]:
        """Names of the ReplicatedJobs, in their order."""
        return tuple(entry.rjob.name for entry in self.entries)

    @cached_property
    def forest_of_single_jobs(self) -> Forest | None:
        """The trees of groups of spec.scheduling, as if no ReplicatedJob had more than one Job; None without groups."""
        return forest_of_single_jobs(self.js)

    @cached_property
    def mounted_volume_names(self) -> frozenset[str]:
        """Names of the volumes that some container of some ReplicatedJob mounts."""
        return frozenset().union(*(entry.mounted_volume_names for entry in self.entries))

    def targets(self, names: Sequence[str]) -> list[Entry]:
        """The ReplicatedJobs with the names in `targetReplicatedJobs` of a policy; no names mean all."""
        if not names:
            return list(self.entries)
        return [self.entries_by_name[name] for name in names if name in self.entries_by_name]


class Unreadable(Exception):  # noqa: N818 -- the name says how the object is
    """The object does not have the form of a JobSet; `error` has the path."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


def subject_of(obj: JSON, gates: FeatureGates, limits: SetLimits = DEFAULT_LIMITS, work: Work | None = None) -> Subject:
    """The subject of the checks of a JobSet. Raises `Unreadable`."""
    content = {key: dig(obj, key) or {} for key in ("metadata", "spec")}
    text = json_bytes(content)
    js = _read(without_nulls(content) if text is None or b"null" in text else content, JobSet, Path())
    meta = js.metadata
    if not meta.name and meta.generate_name:
        prefix = meta.generate_name.encode()[:MAX_GENERATED_PREFIX_BYTES].decode(errors="ignore")
        js = msgspec.structs.replace(js, metadata=msgspec.structs.replace(meta, name=prefix + GENERATED_SUFFIX))
    entries = tuple(_entries(js, work or Work()))
    return Subject(js, len(text or b""), content["spec"], entries, tuple(_claims(js)), gates, limits)


def _entries(js: JobSet, work: Work) -> Iterator[Entry]:
    for i, (path, rjob) in enumerate(replicated_jobs(js)):
        entry = Entry(i, path, rjob, _read(rjob.template, JobTemplate, path.at("template")))
        work.spend(_STEPS_PER_REPLICATED_JOB + entry.steps_per_check)
        yield entry


def _claims(js: JobSet) -> Iterator[Claim]:
    for path, template, _, _ in claim_templates(js):
        meta = _read(template, ClaimTemplate, path).metadata
        yield Claim(path, meta.name, meta.namespace)


def _read(value: Any, kind: type[T], base_path: Path) -> T:
    try:
        # Not strict, to accept integers written as 2.0: the schema has refused all other wrong types.
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        complaint, _, location = str(error).partition(" - at `")
        path = base_path.at(*_parts(location))
        offending = dig(value, *path.parts[len(base_path.parts) :])
        raise Unreadable(UNREADABLE.at(path, offending, what=rephrase_for_json(complaint))) from None


def _parts(location: str) -> list[str | int]:
    """Parts of a path as msgspec writes it: `$.spec.rules[0].name`."""
    return [int(index) if index else key for key, index in re.findall(r"\.([A-Za-z][^.\[`]*)|\[(\d+)\]", location)]
