"""The judged JobSet: a JobSet in the form that rules of policies read, with its templates and its size. Pure.

Rules read the template of each ReplicatedJob once, since all its Jobs have the same template. They read the pod spec
that the controller will build, with the containers and volumes that other fields of the JobSet add. A violation by an
added container or volume has the path of the field that adds it. Rules do not read what exclusive placement adds
(labels, a node selector and a toleration), as the author has not written it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

from api import restart_agent
from api.batch import pods_at_once
from api.children import built_pod_spec
from api.jobset import JobSet, ReplicatedJob
from api.paths import replicated_jobs
from api.scheduling import Claims, EntryScheduling
from kube.model.field import SPEC, Path
from kube.model.meta import JSON
from kube.model.requests import (
    Amounts,
    PodClaims,
    countable_amount,
    pod_claims,
    pod_requests,
    stated_amounts,
    sum_requests,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Template:
    """One ReplicatedJob, with the numbers of its Jobs and pods, and the spec of its pods."""

    path: Path
    rjob: ReplicatedJob
    js: JobSet

    @property
    def job_count(self) -> int:
        return max(self.rjob.replicas, 0)

    @cached_property
    def pods_per_job(self) -> int:
        """The number of pods that one of its Jobs has at once."""
        return max(pods_at_once(self.rjob), 0)

    @property
    def pod_count(self) -> int:
        """The number of pods that all its Jobs together have at once."""
        return self.job_count * self.pods_per_job

    @property
    def job_path(self) -> Path:
        return self.path.at("template", "spec")

    @cached_property
    def pod_path(self) -> Path:
        return self.path.at("template", "spec", "template", "spec")

    @cached_property
    def pod(self) -> JSON:
        """The pod spec that the controller will build, or the pod spec of the template if it cannot build one."""
        try:
            return built_pod_spec(self.js, self.rjob)
        except (AttributeError, KeyError, TypeError):
            return self.rjob.pod_spec

    def at(self, *parts: str | int) -> Path:
        """The path in the JobSet of the value at `parts` below the pod spec, or of the field that adds this value."""
        match parts:
            case (str(field), int(index), *inner) if index >= len(self.rjob.pod_spec.get(field) or ()):
                return _path_of_adding_field(self.pod[field][index], inner)
        return self.pod_path.at(*parts)

    @cached_property
    def requests(self) -> Amounts:
        """The requests of one pod."""
        return pod_requests(self.pod)

    @cached_property
    def claims(self) -> PodClaims:
        """The claims for devices (ResourceClaims) of each pod."""
        return pod_claims(self.pod)

    @property
    def claims_of_job(self) -> Sequence[JSON]:
        """The claims for devices that the pods of one of its Jobs share."""
        return (self.rjob.job_spec.get("scheduling") or {}).get("resourceClaims") or ()

    @cached_property
    def containers(self) -> tuple[tuple[str, int, JSON], ...]:
        """Containers and init containers, each after its field of the pod spec and its index in that field."""
        return _containers(self.pod)

    @property
    def own_containers(self) -> tuple[tuple[str, int, JSON], ...]:
        """The containers that the author has written, whose requests the author can change, as in `containers`."""
        return _containers(self.rjob.pod_spec)

    def request_path(self, resource: str) -> Path:
        """The path of the largest request of a resource by a container or pod; else the path of the pod spec."""
        largest, path = Fraction(-1), self.pod_path
        for parts, name, value in stated_amounts(self.pod):
            amount = countable_amount(name, value) if name == resource and parts[0] != "overhead" else None
            if amount is not None and amount > largest:
                largest, path = Fraction(amount), self.at(*parts)
        return path

    @cached_property
    def uncountable_amounts(self) -> tuple[tuple[Path, str, Any], ...]:
        """Amounts that are no numbers, or that no pod could get, each as path, resource and value."""
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


def _path_of_adding_field(item: JSON, parts: Sequence[str | int]) -> Path:
    """The path of the field of the JobSet that adds the container or volume `item`. `parts`: a path inside `item`."""
    if item.get("name") != restart_agent.NAME:
        return SPEC.at("volumeClaimPolicies")
    return AGENT_IMAGE if parts[:1] == ["image"] else AGENT


@dataclass(frozen=True)
class JudgedJobSet:
    """A JobSet that is checked by policies, with the defaults that admission sets."""

    js: JobSet
    _results: dict[Callable[[Template], Any], Sequence[Any]] = field(default_factory=dict, compare=False, repr=False)

    def each(self, compute: Callable[[Template], T]) -> Sequence[T]:
        """The result of `compute` for each template. All policies share the results, so they have to be small."""
        if compute not in self._results:
            self._results[compute] = tuple(map(compute, self.templates))
        return self._results[compute]

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        return tuple(Template(path, rjob, self.js) for path, rjob in replicated_jobs(self.js))

    @cached_property
    def job_count(self) -> int:
        return sum(template.job_count for template in self.templates)

    @cached_property
    def pod_count(self) -> int:
        """The number of pods while all Jobs run."""
        return sum(template.pod_count for template in self.templates)

    @cached_property
    def requests(self) -> Amounts:
        """The sum of the requests of all pods while all Jobs run."""
        return sum_requests((template.requests, template.pod_count) for template in self.templates)

    @cached_property
    def claims_of_groups(self) -> int:
        """The number of claims for devices that are created for groups of pods, whose pods share them."""
        claims = sum(
            template.job_count * sum(not claim.get("resourceClaimName") for claim in template.claims_of_job)
            for template in self.templates
        )
        for entry in self.groups:
            jobs = sum(item.job_count for item in self.templates if item.rjob.name in entry.target_replicated_jobs)
            claims += _claims_by_template(entry.resource_claims)
            claims += jobs * _claims_by_template(entry.job.resource_claims if entry.job else ())
        return claims

    @cached_property
    def named_claims(self) -> frozenset[str]:
        """The names of existing claims for devices that the JobSet uses."""
        claim_lists = [entry.resource_claims for entry in self.groups]
        claim_lists += [entry.job.resource_claims for entry in self.groups if entry.job]
        names = {claim.resource_claim_name for claims in claim_lists for claim in claims}
        names |= {claim.get("resourceClaimName") or "" for item in self.templates for claim in item.claims_of_job}
        return frozenset(names - {""}).union(*(template.claims.existing for template in self.templates))

    @property
    def groups(self) -> tuple[EntryScheduling, ...]:
        """The entries of `spec.scheduling.replicatedJobs`."""
        return self.js.spec.scheduling.replicated_jobs if self.js.spec.scheduling else ()


def _claims_by_template(claims: Claims) -> int:
    """The number of claims that are created from a template."""
    return sum(not claim.resource_claim_name for claim in claims)


@dataclass(frozen=True, slots=True)
class Namespace:
    """The fields of the namespace of a JobSet that policies read."""

    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


METADATA = Path(("metadata",))
