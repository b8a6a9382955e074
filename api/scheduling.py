"""`spec.scheduling` of a JobSet: which pods kube-scheduler places together, and where (KEP-969, Kubernetes 1.37).

The field has three levels: the whole JobSet (`Scheduling`), an entry with one or several ReplicatedJobs
(`EntryScheduling`), and each Job of an entry (`JobScheduling`). Each level may become a scheduling group of Kubernetes,
and `api.gangs` says which groups result. "Below" means all groups and pods that belong to a level.

`make generate` turns these records into a part of the CRD. The feature gate JobSetWorkloadAwareSchedulingAPI turns the
field on, and JobSetGangOfGangs allows more than one level.
"""

from typing import Annotated, Final

from api.policies import ATOMIC, INT32, MAP_BY_NAME, SET
from kube.model.meta import Base, doc

MAX_TEMPLATES: Final = 8
"""The most templates that Kubernetes allows in a list of a Workload."""
MAX_CLAIMS: Final = 4

ONE_POLICY: Final = "exactly one of basic and gang: gang: {} is all or nothing, basic: {} one by one"
ONE_MODE: Final = "exactly one of single and all: all: {} preempts everything below as one, single: {} pod by pod"
ONE_SOURCE: Final = (
    "exactly one of resourceClaimName, which all groups share, and resourceClaimTemplateName, one for each"
)


def _exactly_one_of(first: str, second: str, message: str) -> dict[str, list[dict[str, str]]]:
    return {"x-kubernetes-validations": [{"rule": f"has(self.{first}) != has(self.{second})", "message": message}]}


_POLICY: Final = _exactly_one_of("basic", "gang", ONE_POLICY)
_MODE: Final = _exactly_one_of("single", "all", ONE_MODE)
_SOURCE: Final = _exactly_one_of("resourceClaimName", "resourceClaimTemplateName", ONE_SOURCE)


class Basic(Base, frozen=True, kw_only=True):
    """Pods, or groups, are scheduled as they come."""


class GangOfGroups(Base, frozen=True, kw_only=True):
    """All or nothing, counted in groups."""

    min_group_count: Annotated[
        int | None,
        doc("Groups directly below that have to fit together. Absent: all of them.", minimum=1, **INT32),
    ] = None


class GangOfPods(Base, frozen=True, kw_only=True):
    """All or nothing, counted in pods."""

    min_count: Annotated[
        int | None, doc("Pods that have to fit together. Absent: all of the Job.", minimum=1, **INT32)
    ] = None


class GroupsPolicy(Base, frozen=True, kw_only=True):
    """Exactly one of basic and gang."""

    basic: Annotated[Basic | None, doc("Groups below are scheduled one by one; they share topology and fate.")] = None
    gang: Annotated[GangOfGroups | None, doc("Groups below are scheduled together or not at all.")] = None


class PodsPolicy(Base, frozen=True, kw_only=True):
    """Exactly one of basic and gang."""

    basic: Annotated[Basic | None, doc("Pods are scheduled one by one; they share topology and fate.")] = None
    gang: Annotated[GangOfPods | None, doc("Pods are scheduled together or not at all.")] = None


class TopologyConstraint(Base, frozen=True, kw_only=True):
    """All pods below go to nodes with one value of a label."""

    key: Annotated[str, doc("Key of the node label whose values are the domains.")]


class SchedulingConstraints(Base, frozen=True, kw_only=True):
    """Where all pods below have to be together."""

    topology: Annotated[
        tuple[TopologyConstraint, ...], doc("At most one, inside the domain of the level above.", maxItems=1, **ATOMIC)
    ] = ()


class Single(Base, frozen=True, kw_only=True):
    """Pods are preempted one by one, unless a level above says all."""


class All(Base, frozen=True, kw_only=True):
    """All pods below are preempted together."""


class DisruptionMode(Base, frozen=True, kw_only=True):
    """Exactly one of single and all."""

    single: Annotated[Single | None, doc("Preempt single pods.")] = None
    all: Annotated[All | None, doc("Preempt all pods below as one.")] = None


class GroupResourceClaim(Base, frozen=True, kw_only=True):
    """A claim for devices that the pods of a group share: exactly one of its two sources."""

    name: Annotated[str, doc("Name by which pods refer to it.")]
    resource_claim_name: Annotated[str, doc("Name of a ResourceClaim that exists.", minLength=1)] = ""
    resource_claim_template_name: Annotated[
        str, doc("Name of the template that each group's claim is made from.", minLength=1)
    ] = ""


Claims = tuple[Annotated[GroupResourceClaim, doc("A claim for devices, and its source.", **_SOURCE)], ...]


class JobScheduling(Base, frozen=True, kw_only=True):
    """Every Job is a group of its own."""

    scheduling_policy: Annotated[
        PodsPolicy | None, doc("How the pods of one Job are scheduled. Absent: as a gang of all of them.", **_POLICY)
    ] = None
    scheduling_constraints: Annotated[SchedulingConstraints | None, doc("Where the pods of one Job go.")] = None
    disruption_mode: Annotated[
        DisruptionMode | None, doc("What is preempted together. Absent: single pods.", **_MODE)
    ] = None
    resource_claims: Annotated[
        Claims,
        doc("Claims that the pods of one Job share.", maxItems=MAX_CLAIMS, **MAP_BY_NAME),
    ] = ()


class EntryScheduling(Base, frozen=True, kw_only=True):
    """Some of the ReplicatedJobs as one group, or, with `job`, as a group of groups."""

    target_replicated_jobs: Annotated[
        tuple[str, ...],
        doc("Names of the ReplicatedJobs, at least one; each is in one entry at most.", **SET),
    ]
    scheduling_policy: Annotated[
        GroupsPolicy | None, doc("How they are scheduled. Absent: as a gang of all of them.", **_POLICY)
    ] = None
    scheduling_constraints: Annotated[SchedulingConstraints | None, doc("Where all their pods go.")] = None
    disruption_mode: Annotated[
        DisruptionMode | None, doc("What is preempted together. Absent: single pods.", **_MODE)
    ] = None
    resource_claims: Annotated[
        Claims,
        doc("Claims that all their pods share; not together with job.", maxItems=MAX_CLAIMS, **MAP_BY_NAME),
    ] = ()
    job: Annotated[JobScheduling | None, doc("Makes every Job of them a group of its own.")] = None


class Scheduling(Base, frozen=True, kw_only=True):
    """Gangs and topology by Kubernetes' own Workload, PodGroup and CompositePodGroup objects."""

    scheduling_policy: Annotated[
        GroupsPolicy | None,
        doc(
            "How the whole set is scheduled. Absent: as a gang of all pods, or basic where replicatedJobs is given.",
            **_POLICY,
        ),
    ] = None
    scheduling_constraints: Annotated[SchedulingConstraints | None, doc("Where all pods of the set go.")] = None
    disruption_mode: Annotated[
        DisruptionMode | None, doc("What is preempted together. Absent: single pods.", **_MODE)
    ] = None
    replicated_jobs: Annotated[
        tuple[EntryScheduling, ...],
        doc("Groups of ReplicatedJobs below the set. At most 8.", maxItems=MAX_TEMPLATES, **ATOMIC),
    ] = ()

    def shared_topology_keys(self, name: str) -> tuple[str, ...]:
        """The keys of the topologies in which all Jobs of ReplicatedJob `name` share one domain, the widest first.

        A constraint on `job` is for each Job alone, so its key is not among them.
        """
        entries = (entry for entry in self.replicated_jobs if name in entry.target_replicated_jobs)
        levels = (self.scheduling_constraints, *(entry.scheduling_constraints for entry in entries))
        return tuple(constraint.key for level in levels if level is not None for constraint in level.topology)

    def job_topology_keys(self, name: str) -> tuple[str, ...]:
        """The keys of the topologies in which each Job of ReplicatedJob `name` has a domain of its own."""
        jobs = (entry.job for entry in self.replicated_jobs if name in entry.target_replicated_jobs)
        levels = (job.scheduling_constraints for job in jobs if job is not None)
        return tuple(constraint.key for level in levels if level is not None for constraint in level.topology)
