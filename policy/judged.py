"""The JobSet as rules read it: its templates, its size, its namespace. Pure.

The Jobs of a ReplicatedJob have the same template, so rules read each template once, however many Jobs are made from
it. They read the pod as it will be built, with the containers and volumes that other fields of the JobSet add to it; a
finding about one of those has the path of that field. Rules do not read what exclusive placement adds (labels, its own
node selector and toleration), as the author has not written it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

from api import restart_agent
from api.batch import pods_at_once
from api.children import built_pod
from api.jobset import JobSet, ReplicatedJob
from api.paths import replicated_jobs
from api.scheduling import Claims, EntryScheduling
from kube.model.field import SPEC, Path
from kube.model.meta import JSON
from kube.model.requests import Amounts, countable_amount, pod_claims, pod_requests, stated_amounts, sum_requests

T = TypeVar("T")


@dataclass(frozen=True)
class Template:
    """One ReplicatedJob: its numbers of Jobs and pods, and the spec of its pods."""

    path: Path
    rjob: ReplicatedJob
    js: JobSet

    @property
    def jobs(self) -> int:
        return max(self.rjob.replicas, 0)

    @cached_property
    def pods_of_job(self) -> int:
        """Pods that one of its Jobs has at once."""
        return max(pods_at_once(self.rjob), 0)

    @property
    def pods(self) -> int:
        """Pods that all its Jobs have at once."""
        return self.jobs * self.pods_of_job

    @property
    def job_path(self) -> Path:
        return self.path.at("template", "spec")

    @cached_property
    def pod_path(self) -> Path:
        """The path of the pod's spec."""
        return self.path.at("template", "spec", "template", "spec")

    @cached_property
    def pod(self) -> JSON:
        """The spec of its pods as they will be built; that of the template if the controller cannot build one."""
        try:
            return built_pod(self.js, self.rjob)
        except (AttributeError, KeyError, TypeError):
            return self.rjob.pod_spec

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of its pods that the author has written."""
        return ((self.rjob.job_spec.get("template") or {}).get("metadata") or {}).get("annotations") or {}

    def at(self, *parts: str | int) -> Path:
        """The path at which the author has written the value of a path below the pod's spec."""
        match parts:
            case (str(field), int(index), *inner) if index >= len(self.rjob.pod_spec.get(field) or ()):
                return _added_by(self.pod[field][index], inner)
        return self.pod_path.at(*parts)

    @cached_property
    def requests(self) -> Amounts:
        """The requests of one pod."""
        return pod_requests(self.pod)

    @cached_property
    def claims(self) -> tuple[int, frozenset[str]]:
        """Claims for devices: how many are created for each pod, and names of those that exist."""
        return pod_claims(self.pod)

    @property
    def claims_of_job(self) -> Sequence[JSON]:
        """Claims for devices that all pods of one of its Jobs share."""
        return (self.rjob.job_spec.get("scheduling") or {}).get("resourceClaims") or ()

    @cached_property
    def containers(self) -> tuple[tuple[str, int, JSON], ...]:
        """Containers and init containers, each with its list and its index there."""
        return _containers(self.pod)

    @property
    def own_containers(self) -> tuple[tuple[str, int, JSON], ...]:
        """The containers that the author has written: only their requests can be changed."""
        return _containers(self.rjob.pod_spec)

    def request_path(self, resource: str) -> Path:
        """The path of the largest request of that resource."""
        best, path = Fraction(-1), self.pod_path
        for parts, name, value in stated_amounts(self.pod):
            amount = countable_amount(name, value) if name == resource and parts[0] != "overhead" else None
            if amount is not None and amount > best:
                best, path = Fraction(amount), self.at(*parts)
        return path

    @cached_property
    def uncountable_amounts(self) -> tuple[tuple[Path, str, Any], ...]:
        """Amounts that cannot be counted: path, resource and value of each."""
        return tuple(
            (self.at(*parts), name, value)
            for parts, name, value in stated_amounts(self.pod)
            if countable_amount(name, value) is None
        )


def _containers(pod: JSON) -> tuple[tuple[str, int, JSON], ...]:
    return tuple(
        (field, i, container)
        for field in ("containers", "initContainers")
        for i, container in enumerate(pod.get(field) or ())
    )


AGENT = SPEC.at("failurePolicy", "agent")
AGENT_IMAGE = AGENT.at("image")


def _added_by(item: JSON, parts: Sequence[str | int]) -> Path:
    """The field of the JobSet that has added a container or volume to a pod; `parts`: the path inside it."""
    if item.get("name") != restart_agent.NAME:
        return SPEC.at("volumeClaimPolicies")
    return AGENT_IMAGE if parts[:1] == ["image"] else AGENT


@dataclass(frozen=True)
class JudgedJobSet:
    """A JobSet with its defaults."""

    js: JobSet
    _known: dict[Callable[[Template], Any], Sequence[Any]] = field(default_factory=dict, compare=False, repr=False)

    def each(self, look: Callable[[Template], T]) -> Sequence[T]:
        """The result of `look` for each template, computed once for all policies, so it has to be small."""
        if look not in self._known:
            self._known[look] = tuple(map(look, self.templates))
        return self._known[look]

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        return tuple(Template(path, rjob, self.js) for path, rjob in replicated_jobs(self.js))

    @cached_property
    def jobs(self) -> int:
        return sum(template.jobs for template in self.templates)

    @cached_property
    def pods(self) -> int:
        """Pods at once while all Jobs run."""
        return sum(template.pods for template in self.templates)

    @cached_property
    def requests(self) -> Amounts:
        """The requests of all these pods together."""
        return sum_requests((template.requests, template.pods) for template in self.templates)

    @cached_property
    def claims_of_groups(self) -> int:
        """Claims for devices that are made for groups of pods, which these share."""
        return sum(
            _claims_by_template(entry.resource_claims)
            + sum(template.jobs for template in self.templates if template.rjob.name in entry.target_replicated_jobs)
            * _claims_by_template(entry.job.resource_claims if entry.job else ())
            for entry in self._groups
        ) + sum(
            template.jobs * sum(not claim.get("resourceClaimName") for claim in template.claims_of_job)
            for template in self.templates
        )

    @cached_property
    def named_claims(self) -> frozenset[str]:
        """Names of claims that exist already, each of which counts once."""
        shared = [entry.resource_claims for entry in self._groups]
        shared += [entry.job.resource_claims for entry in self._groups if entry.job]
        names = {claim.resource_claim_name for claims in shared for claim in claims}
        names |= {claim.get("resourceClaimName") or "" for each in self.templates for claim in each.claims_of_job}
        return frozenset(names - {""}).union(*(template.claims[1] for template in self.templates))

    @property
    def _groups(self) -> tuple[EntryScheduling, ...]:
        return self.js.spec.scheduling.replicated_jobs if self.js.spec.scheduling else ()


def _claims_by_template(claims: Claims) -> int:
    """Claims that are made from a template."""
    return sum(not claim.resource_claim_name for claim in claims)


@dataclass(frozen=True, slots=True)
class Namespace:
    """The namespace of a JobSet, as far as policies read it."""

    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


METADATA = Path(("metadata",))
