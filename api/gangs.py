"""Builds the trees of groups that `spec.scheduling` asks for. All readers of that field use it. Pure.

The three levels of the spec (the set, its entries in `replicatedJobs`, and Jobs) become at most two levels of
CompositePodGroups above PodGroups. There is a group for each level whose fields the user sets, and where Kubernetes
needs one. Admission checks these trees, `jobset render` draws them, and the controller creates them. Pods are counted
as they can exist at the same time, never more than a Job has completions.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from api.batch import pods_at_once
from api.jobset import JobSet, JobSetSpec, ReplicatedJob
from api.names import job_name_prefix
from api.scheduling import (
    DisruptionMode,
    EntryScheduling,
    GroupResourceClaim,
    GroupsPolicy,
    JobScheduling,
    PodsPolicy,
    Scheduling,
    SchedulingConstraints,
)
from api.spares import running_part
from api.stages import is_ordered, is_staged

WORKLOAD, COMPOSITE, POD_GROUP = "Workload", "CompositePodGroup", "PodGroup"
"""Kinds of scheduling.k8s.io."""

ROOT = "jobset"
MAX_JOBS = 10_000
"""A set with more Jobs gets no groups, since each plan reads every group."""
_NAME_LIMIT = 63
_HASH_LENGTH = 10
_PREFIX_LENGTH = _NAME_LIMIT - _HASH_LENGTH - 1


class Group(msgspec.Struct, frozen=True):
    """One node of a tree: a PodGroup if it has Jobs, else a CompositePodGroup with `children`.

    - `name`: the name of the object. `template`: the name of its template in the Workload. The PodGroups of all Jobs of
      one ReplicatedJob share a template.
    - `gang_size`: how many pods of a PodGroup, or children of a composite, are placed together; None: basic policy.
    - `jobs`: name and number of pods, at the same time, of each Job whose pods belong to the group.
    - `topology`: node label key. `mode`: disruption mode, `all` or `single`; empty if the spec has none.
    """

    template: str
    name: str
    gang_size: int | None
    jobs: tuple[tuple[str, int], ...] = ()
    children: tuple["Group", ...] = ()
    topology: str = ""
    mode: str = ""
    claims: tuple[GroupResourceClaim, ...] = ()
    replicated_jobs: tuple[str, ...] = ()

    @property
    def is_composite(self) -> bool:
        return bool(self.children)

    @property
    def kind(self) -> str:
        return COMPOSITE if self.children else POD_GROUP

    @property
    def pods(self) -> int:
        """How many pods the group has, with all groups below it."""
        return sum(pods for _, pods in self.jobs) + sum(child.pods for child in self.children)

    def walk(self) -> Iterator["Group"]:
        """The group and all groups below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def with_parents(self, parent: str = "") -> Iterator[tuple["Group", str]]:
        """The group and all groups below it, parents first, each with the name of its parent; empty for a root."""
        yield self, parent
        for child in self.children:
            yield from child.with_parents(self.name)


@dataclass(frozen=True, slots=True)
class Forest:
    """All trees of a set. `workload`: the name of the Workload. `priority_class`: the priority class of the pods."""

    workload: str
    roots: tuple[Group, ...]
    priority_class: str = ""
    _groups_by_job: dict[str, tuple[Group, Group]] = field(init=False, default_factory=dict, repr=False, compare=False)
    """PodGroup and root group by name of the Job."""

    def __post_init__(self) -> None:
        for root in self.roots:
            for group in root.walk():
                group_and_root = (group, root)
                for job, _ in group.jobs:
                    self._groups_by_job[job] = group_and_root

    def of_job(self, name: str) -> Group | None:
        """The PodGroup of a Job; None if the Job is in no group."""
        group_and_root = self._groups_by_job.get(name)
        return None if group_and_root is None else group_and_root[0]

    def root_of_job(self, name: str) -> Group | None:
        """The root group of the tree that a Job is in; None if the Job is in no group."""
        group_and_root = self._groups_by_job.get(name)
        return None if group_and_root is None else group_and_root[1]

    def groups(self) -> Iterator[Group]:
        """All groups of all trees, parents first."""
        for root in self.roots:
            yield from root.walk()

    @property
    def needs_composites(self) -> bool:
        return any(root.is_composite for root in self.roots)


def is_sequenced(spec: JobSetSpec) -> bool:
    """Whether some ReplicatedJobs start after other ReplicatedJobs."""
    return is_ordered(spec) or is_staged(spec) or any(rjob.depends_on for rjob in spec.replicated_jobs)


def grouped_jobs(js: JobSet) -> int:
    """How many Jobs need groups. Spares do not."""
    return sum(max(rjob.replicas, 0) for rjob in js.spec.replicated_jobs if not rjob.spare_for)


def forest(js: JobSet) -> Forest | None:
    """The trees of groups; None if the set has no `spec.scheduling`, or too many Jobs.

    ReplicatedJobs that have no pods get no group, nor do spares, so that no gang waits for them.
    """
    if js.spec.scheduling is None or grouped_jobs(js) > MAX_JOBS:
        return None
    return _Compiler(running_part(js), js.spec.scheduling).forest()


def sample_forest(js: JobSet) -> Forest | None:
    """The trees as if no ReplicatedJob had more than one Job: they are small, for callers that do not count Jobs."""
    if js.spec.scheduling is None:
        return None
    rjobs = tuple(replace(rjob, replicas=min(rjob.replicas, 1)) for rjob in js.spec.replicated_jobs)
    return forest(replace(js, spec=replace(js.spec, replicated_jobs=rjobs)))


class _Compiler:
    """Builds the trees of one JobSet."""

    def __init__(self, js: JobSet, scheduling: Scheduling) -> None:
        self._js = js
        self._spec = scheduling
        self._rjobs = {rjob.name: rjob for rjob in js.spec.replicated_jobs}
        self._identity = f"{js.metadata.namespace}/{js.metadata.name}/{js.metadata.uid}"

    def forest(self) -> Forest:
        entries = self._spec.replicated_jobs
        roots = self._trees_of_entries() if entries else self._trees_of_whole_set()
        names = (rjob.pod_spec.get("priorityClassName") for rjob in self._js.spec.replicated_jobs)
        return Forest(
            workload=self._object_name("", WORKLOAD),
            roots=tuple(_inherit_mode(root, "") for root in roots),
            priority_class=next(filter(None, names), ""),
        )

    def _trees_of_whole_set(self) -> tuple[Group, ...]:
        """The trees of a spec without entries: one PodGroup, or one for each ReplicatedJob if they start in order."""
        spec, rjobs = self._spec, self._js.spec.replicated_jobs
        if not is_sequenced(self._js.spec) or spec.scheduling_policy is not None:
            group = self._pod_group(ROOT, rjobs, _is_gang(spec.scheduling_policy))
            return _as_tuple(
                None if group is None else _with_constraints(group, spec.scheduling_constraints, spec.disruption_mode)
            )
        groups_or_none = (self._pod_group(f"rj-{rjob.name}", (rjob,), gang=True) for rjob in rjobs)
        groups = tuple(group for group in groups_or_none if group is not None)
        if spec.scheduling_constraints is None and spec.disruption_mode is None:
            return groups
        return _as_tuple(self._composite(ROOT, groups, None, spec.scheduling_constraints, spec.disruption_mode))

    def _trees_of_entries(self) -> tuple[Group, ...]:
        """The trees of a spec with entries."""
        spec = self._spec
        if spec.scheduling_policy or spec.scheduling_constraints or spec.disruption_mode:
            return self._groups_below_root()
        roots = [root for entry in spec.replicated_jobs for root in self._groups_of_entry(entry)]
        if len({root.is_composite for root in roots}) < 2:
            return tuple(roots)
        # All roots of a Workload must be of one kind, so a PodGroup beside composites gets a composite of its own.
        return tuple(root if root.is_composite else self._wrap_in_composite(root) for root in roots)

    def _groups_below_root(self) -> tuple[Group, ...]:
        """The tree of a spec with entries, if the whole set has fields of its own."""
        spec = self._spec
        merged = self._merged_levels()
        if merged is not None:
            return merged
        targeted = {name for entry in spec.replicated_jobs for name in entry.target_replicated_jobs}
        untargeted = [rjob for rjob in self._js.spec.replicated_jobs if rjob.name not in targeted]
        gang = _is_gang(spec.scheduling_policy) and spec.scheduling_policy is not None
        children: list[Group] = []
        for entry in spec.replicated_jobs:
            children += self._groups_of_entry(entry, below_root=True)
        children += filter(None, (self._pod_group(f"rj-{rjob.name}", (rjob,), gang) for rjob in untargeted))
        order = {rjob.name: number for number, rjob in enumerate(self._js.spec.replicated_jobs)}
        children.sort(key=lambda child: order[child.replicated_jobs[0]])
        policy = spec.scheduling_policy
        return _as_tuple(
            self._composite(ROOT, tuple(children), policy, spec.scheduling_constraints, spec.disruption_mode)
        )

    def _merged_levels(self) -> tuple[Group, ...] | None:
        """The set and its only entry as one composite; None if the entry lacks Jobs, or both set the same field."""
        spec = self._spec
        if len(spec.replicated_jobs) != 1:
            return None
        entry = spec.replicated_jobs[0]
        if entry.job is None or {*entry.target_replicated_jobs} != {*self._rjobs}:
            return None
        fields = ("scheduling_policy", "scheduling_constraints", "disruption_mode")
        if any(getattr(spec, name) is not None and getattr(entry, name) is not None for name in fields):
            return None
        policy, constraints, mode = (
            getattr(entry, name) if getattr(spec, name) is None else getattr(spec, name) for name in fields
        )
        jobs = tuple(self._groups_of_jobs(entry, entry.job))
        return _as_tuple(self._composite(ROOT, jobs, policy or GANG, constraints, mode))

    def _groups_of_entry(self, entry: EntryScheduling, *, below_root: bool = False) -> tuple[Group, ...]:
        """The groups of an entry: one PodGroup, a PodGroup for each Job, or a composite of the latter."""
        rjobs = tuple(self._rjobs[name] for name in entry.target_replicated_jobs if name in self._rjobs)
        names = "-".join(entry.target_replicated_jobs)
        template = _dns_label(f"rj-{names}", hashed=len(entry.target_replicated_jobs) != 1)
        if entry.job is None:
            group = self._pod_group(template, rjobs, _is_gang(entry.scheduling_policy))
            if group is None:
                return ()
            group = _with_constraints(group, entry.scheduling_constraints, entry.disruption_mode)
            return (replace(group, claims=entry.resource_claims),)
        jobs = tuple(self._groups_of_jobs(entry, entry.job))
        has_fields = entry.scheduling_policy or entry.scheduling_constraints or entry.disruption_mode
        if not (has_fields or below_root):
            return jobs
        policy = entry.scheduling_policy or GANG
        return _as_tuple(self._composite(template, jobs, policy, entry.scheduling_constraints, entry.disruption_mode))

    def _groups_of_jobs(self, entry: EntryScheduling, job: JobScheduling) -> Iterator[Group]:
        """One PodGroup for each Job of the entry. The PodGroups of one ReplicatedJob share a template."""
        for target in entry.target_replicated_jobs:
            rjob = self._rjobs.get(target)
            pods = 0 if rjob is None else pods_at_once(rjob)
            if rjob is None or not pods:
                continue
            template, prefix = _dns_label(f"job-{target}"), job_name_prefix(self._js.metadata.name, target)
            group = Group(
                template=template,
                name="",
                gang_size=_min_count(job.scheduling_policy, pods),
                claims=job.resource_claims,
                replicated_jobs=(target,),
            )
            group = _with_constraints(group, job.scheduling_constraints, job.disruption_mode)
            for index in range(rjob.replicas):
                name = self._object_name(f"{template}-{index}", POD_GROUP)
                yield replace(group, name=name, jobs=((f"{prefix}{index}", pods),))

    def _pod_group(self, template: str, rjobs: tuple[ReplicatedJob, ...], gang: bool) -> Group | None:
        """One PodGroup for all pods of these ReplicatedJobs; None if they have no pods."""
        jobs_with_pods = [
            (job_name_prefix(self._js.metadata.name, rjob.name), rjob, pods_at_once(rjob)) for rjob in rjobs
        ]
        jobs = tuple(
            (f"{prefix}{index}", pods)
            for prefix, rjob, pods in jobs_with_pods
            for index in range(rjob.replicas if pods else 0)
        )
        if not jobs:
            return None
        return Group(
            template=template,
            name=self._object_name(template, POD_GROUP),
            gang_size=sum(pods for _, pods in jobs) if gang else None,
            jobs=jobs,
            replicated_jobs=tuple(rjob.name for rjob in rjobs),
        )

    def _composite(
        self,
        template: str,
        children: tuple[Group, ...],
        policy: GroupsPolicy | None,
        constraints: SchedulingConstraints | None,
        mode: DisruptionMode | None,
    ) -> Group | None:
        """A composite above these groups; None if there are none."""
        if not children:
            return None
        min_groups = policy.gang.min_group_count if policy is not None and policy.gang is not None else None
        is_gang = policy is not None and _is_gang(policy)
        group = Group(
            template=template,
            name=self._object_name(template, COMPOSITE),
            gang_size=(len(children) if min_groups is None else min_groups) if is_gang else None,
            children=children,
            replicated_jobs=tuple(dict.fromkeys(name for child in children for name in child.replicated_jobs)),
        )
        return _with_constraints(group, constraints, mode)

    def _wrap_in_composite(self, group: Group) -> Group:
        """A composite around one PodGroup that changes nothing."""
        template = _dns_label(f"root-{group.template}")
        return Group(
            template=template,
            name=self._object_name(template, f"{COMPOSITE}/{group.name}"),
            gang_size=None,
            children=(group,),
            replicated_jobs=group.replicated_jobs,
        )

    def _object_name(self, role: str, kind: str) -> str:
        """The name of the object of a group. It is unique among groups, kinds, and earlier JobSets of the same name."""
        name = self._js.metadata.name
        prefix = f"{name}-{role}" if role else name
        return f"{prefix[:_PREFIX_LENGTH].rstrip('-.')}-{_digest(f'{kind}/{self._identity}/{role}')}"


def _digest(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]


def _dns_label(text: str, *, hashed: bool = False) -> str:
    """A text as a DNS label, which ends with a hash if the text is too long, or if `hashed`."""
    return f"{text[:_PREFIX_LENGTH].rstrip('-')}-{_digest(text)}" if hashed or len(text) > _NAME_LIMIT else text


GANG = GroupsPolicy()
"""The policy of an entry without one: a gang of all its Jobs."""


def _is_gang(policy: GroupsPolicy | None) -> bool:
    """Whether a level with this policy is a gang, as it is without a policy."""
    return policy is None or policy.basic is None


def _min_count(policy: PodsPolicy | None, pods: int) -> int | None:
    """How many pods of a Job are placed together; None if its policy is basic."""
    if policy is not None and policy.basic is not None:
        return None
    min_count = policy.gang.min_count if policy is not None and policy.gang is not None else None
    return pods if min_count is None else min_count


def _with_constraints(group: Group, constraints: SchedulingConstraints | None, mode: DisruptionMode | None) -> Group:
    topology = constraints.topology[0].key if constraints is not None and constraints.topology else ""
    mode_name = "" if mode is None else "all" if mode.all is not None else "single"
    return replace(group, topology=topology, mode=mode_name)


def _inherit_mode(group: Group, mode: str) -> Group:
    """Copy the disruption mode `all` to groups below that have no mode, so that each object states its mode.

    `mode`: the mode that the group inherits.
    """
    own_mode = group.mode or mode
    child_mode = "all" if own_mode == "all" else ""
    if own_mode == group.mode and not group.children:
        return group
    return replace(group, mode=own_mode, children=tuple(_inherit_mode(child, child_mode) for child in group.children))


def _as_tuple(group: Group | None) -> tuple[Group, ...]:
    return () if group is None else (group,)
