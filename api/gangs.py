"""Computes the scheduling groups of a JobSet with `spec.scheduling`. Pure.

A scheduling group tells kube-scheduler which pods belong together. Kubernetes 1.37 has two kinds of groups: the members
of a PodGroup are pods, and the members of a CompositePodGroup are other groups. A group is a gang if kube-scheduler
places a number of its members at once or none of them. Otherwise its policy is `basic`, and members are placed one by
one. A third kind of object, the Workload, has the templates from which the groups of one JobSet are made.

`spec.scheduling` has fields for the whole JobSet, for entries, and for the Jobs of an entry. An entry is an item of
`spec.scheduling.replicatedJobs`, which names one or several ReplicatedJobs. This module translates these three levels
into trees of groups: PodGroups, and above them at most two levels of CompositePodGroups. A level becomes a group if the
user sets a field of the level, or if Kubernetes requires the group.

Admission checks the trees, `jobset render` prints their objects, and the controller creates these objects.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from api.batch import pods_at_once
from api.jobset import JobSet, JobSetSpec, ReplicatedJob
from api.names import job_name_prefix
from api.scheduling import EntryScheduling, GroupResourceClaim, JobScheduling, PodsPolicy, Scheduling
from api.spares import running_part
from api.stages import is_ordered, is_staged

WORKLOAD, COMPOSITE, POD_GROUP = "Workload", "CompositePodGroup", "PodGroup"
"""Kinds of scheduling.k8s.io."""

ROOT = "jobset"
"""Name of the template of the group that has all pods of the JobSet."""
MAX_JOBS = 10_000
"""A JobSet with more Jobs gets no groups, since each reconcile reads all groups of its JobSet."""
_MAX_NAME_LENGTH = 63
_HASH_LENGTH = 10
_MAX_PREFIX_LENGTH = _MAX_NAME_LENGTH - _HASH_LENGTH - 1

_Level = Scheduling | EntryScheduling
"""A level of `spec.scheduling` that can become a CompositePodGroup: the whole JobSet, or an entry."""
_LEVEL_FIELDS = ("scheduling_policy", "scheduling_constraints", "disruption_mode")


class Group(msgspec.Struct, frozen=True):
    """A PodGroup, which has `jobs`, or a CompositePodGroup, which has `children`.

    - `template`: name of the group's template in the Workload. Several groups may have the same template.
    - `name`: name of the PodGroup or CompositePodGroup.
    - `gang_size`: how many pods of a PodGroup, or children of a CompositePodGroup, are placed at once; None: no gang.
    - `jobs`: of each Job whose pods are members, its name and how many pods it has at the same time.
    - `topology_key`: the key of a node label. All pods of the group go to nodes with the same value; empty: any nodes.
    - `disruption_mode`: `all` if the pods of the group are preempted together, else `single`, or empty for the default.
    - `resource_claims`: claims for devices that the pods of the group share.
    - `replicated_jobs`: names of the ReplicatedJobs whose pods belong to the group or to groups below it.
    """

    template: str
    name: str
    gang_size: int | None
    jobs: tuple[tuple[str, int], ...] = ()
    children: tuple["Group", ...] = ()
    topology_key: str = ""
    disruption_mode: str = ""
    resource_claims: tuple[GroupResourceClaim, ...] = ()
    replicated_jobs: tuple[str, ...] = ()

    @property
    def is_composite(self) -> bool:
        return bool(self.children)

    @property
    def kind(self) -> str:
        return COMPOSITE if self.children else POD_GROUP

    @property
    def pods(self) -> int:
        """How many pods are in the group and in all groups below it."""
        return sum(pods for _, pods in self.jobs) + sum(child.pods for child in self.children)

    def walk(self) -> Iterator["Group"]:
        """The group and all groups below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def with_parents(self, parent: str = "") -> Iterator[tuple["Group", str]]:
        """The group and all groups below it, parents first, each with the name of its parent.

        `parent`: the name of this group's own parent; empty for a group without a parent.
        """
        yield self, parent
        for child in self.children:
            yield from child.with_parents(self.name)


@dataclass(frozen=True, slots=True)
class Forest:
    """All trees of groups of a JobSet, and the name of its Workload.

    - `roots`: the groups without a parent, one for each tree.
    - `priority_class`: name of the priority class of the pods; empty if they have none.
    """

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
        """The root of the tree that has the PodGroup of a Job; None if the Job is in no group."""
        group_and_root = self._groups_by_job.get(name)
        return None if group_and_root is None else group_and_root[1]

    def groups(self) -> Iterator[Group]:
        """All groups of all trees, parents first."""
        for root in self.roots:
            yield from root.walk()

    @property
    def needs_composites(self) -> bool:
        """Whether the trees have CompositePodGroups, which not every cluster with PodGroups serves."""
        return any(root.is_composite for root in self.roots)


def is_sequenced(spec: JobSetSpec) -> bool:
    """Whether some ReplicatedJobs start after other ReplicatedJobs."""
    return is_ordered(spec) or is_staged(spec) or any(rjob.depends_on for rjob in spec.replicated_jobs)


def grouped_jobs(js: JobSet) -> int:
    """How many Jobs of the JobSet need groups. Spares (`api.spares`) need none."""
    return sum(max(rjob.replicas, 0) for rjob in js.spec.replicated_jobs if not rjob.spare_for)


def forest(js: JobSet) -> Forest | None:
    """The trees of groups; None if the JobSet has no `spec.scheduling`, or more than `MAX_JOBS` Jobs.

    ReplicatedJobs without pods get no group. Spares get no group either, since a gang must not wait for them.
    """
    if js.spec.scheduling is None or grouped_jobs(js) > MAX_JOBS:
        return None
    return _ForestBuilder(running_part(js), js.spec.scheduling).forest()


def forest_of_single_jobs(js: JobSet) -> Forest | None:
    """The trees as if each ReplicatedJob had at most one Job.

    They have all kinds, templates and fields of the full trees, and few groups.
    """
    if js.spec.scheduling is None:
        return None
    rjobs = tuple(replace(rjob, replicas=min(rjob.replicas, 1)) for rjob in js.spec.replicated_jobs)
    return forest(replace(js, spec=replace(js.spec, replicated_jobs=rjobs)))


class _ForestBuilder:
    """Builds the trees of one JobSet, which has no spares."""

    def __init__(self, js: JobSet, scheduling: Scheduling) -> None:
        self._js = js
        self._scheduling = scheduling
        self._rjobs_by_name = {rjob.name: rjob for rjob in js.spec.replicated_jobs}
        self._identity = f"{js.metadata.namespace}/{js.metadata.name}/{js.metadata.uid}"

    def forest(self) -> Forest:
        roots = self._roots_with_entries() if self._scheduling.replicated_jobs else self._roots_without_entries()
        priority_classes = (rjob.pod_spec.get("priorityClassName") for rjob in self._js.spec.replicated_jobs)
        return Forest(
            workload=self._object_name("", WORKLOAD),
            roots=tuple(_with_inherited_mode(root, "") for root in roots),
            priority_class=next(filter(None, priority_classes), ""),
        )

    def _roots_without_entries(self) -> tuple[Group, ...]:
        """The roots of trees if `spec.scheduling` has no entries.

        All pods are in one PodGroup. If ReplicatedJobs start one after another, each has a PodGroup of its own, unless
        the user sets a policy, which holds for all pods.
        """
        scheduling, rjobs = self._scheduling, self._js.spec.replicated_jobs
        if not is_sequenced(self._js.spec) or scheduling.scheduling_policy is not None:
            group = self._pod_group(ROOT, rjobs, is_gang=_is_gang(scheduling, default=True))
            return () if group is None else (_with_fields(group, scheduling),)
        groups = tuple(filter(None, (self._pod_group(f"rj-{rjob.name}", (rjob,), is_gang=True) for rjob in rjobs)))
        return self._composite(ROOT, groups, scheduling, gang_default=False) if _has_fields(scheduling) else groups

    def _roots_with_entries(self) -> tuple[Group, ...]:
        """The roots of trees if `spec.scheduling` has entries.

        If the user sets fields of the whole JobSet, there is one tree, else at least one tree for each entry.
        """
        scheduling = self._scheduling
        if _has_fields(scheduling):
            merged_root = self._merged_root()
            return self._root_above_entries() if merged_root is None else merged_root
        roots = [root for entry in scheduling.replicated_jobs for root in self._groups_of_entry(entry)]
        if len({root.is_composite for root in roots}) < 2:
            return tuple(roots)
        # Kubernetes requires that all roots are of one kind, so each PodGroup gets a CompositePodGroup around it.
        return tuple(root if root.is_composite else self._wrap_in_composite(root) for root in roots)

    def _root_above_entries(self) -> tuple[Group, ...]:
        """A CompositePodGroup of the whole JobSet, above the groups of entries and of ReplicatedJobs without an entry.

        Its children are in the order of the ReplicatedJobs.
        """
        scheduling, rjobs = self._scheduling, self._js.spec.replicated_jobs
        is_gang = _is_gang(scheduling, default=False)
        names_in_entries = {name for entry in scheduling.replicated_jobs for name in entry.target_replicated_jobs}
        children: list[Group] = []
        for entry in scheduling.replicated_jobs:
            children += self._groups_of_entry(entry, is_below_root=True)
        for rjob in rjobs:
            if rjob.name not in names_in_entries:
                children += filter(None, [self._pod_group(f"rj-{rjob.name}", (rjob,), is_gang=is_gang)])
        positions = {rjob.name: position for position, rjob in enumerate(rjobs)}
        children.sort(key=lambda child: positions[child.replicated_jobs[0]])
        return self._composite(ROOT, tuple(children), scheduling, gang_default=False)

    def _merged_root(self) -> tuple[Group, ...] | None:
        """One CompositePodGroup for the whole JobSet and its entry, which saves a level; None if they need two groups.

        One group is enough if the only entry has all ReplicatedJobs and makes each Job a group, and if no field is set
        both for the JobSet and for the entry. The tuple is empty if there are no pods.
        """
        scheduling = self._scheduling
        if len(scheduling.replicated_jobs) != 1:
            return None
        entry = scheduling.replicated_jobs[0]
        if entry.job is None or {*entry.target_replicated_jobs} != {*self._rjobs_by_name}:
            return None
        if any(getattr(scheduling, name) is not None and getattr(entry, name) is not None for name in _LEVEL_FIELDS):
            return None
        entry_fields = {name: getattr(entry, name) for name in _LEVEL_FIELDS if getattr(scheduling, name) is None}
        job_groups = tuple(self._groups_of_jobs(entry, entry.job))
        return self._composite(ROOT, job_groups, replace(scheduling, **entry_fields), gang_default=True)

    def _groups_of_entry(self, entry: EntryScheduling, *, is_below_root: bool = False) -> tuple[Group, ...]:
        """The highest groups of an entry; empty if it has no pods.

        They are one PodGroup, or, if the entry has fields for Jobs, one PodGroup for each Job. A CompositePodGroup is
        added above the PodGroups of Jobs if the entry has fields of its own, or if another group is above it.
        """
        rjobs = tuple(self._rjobs_by_name[name] for name in entry.target_replicated_jobs if name in self._rjobs_by_name)
        names = "-".join(entry.target_replicated_jobs)
        template = _dns_label(f"rj-{names}", with_hash=len(entry.target_replicated_jobs) != 1)
        if entry.job is None:
            group = self._pod_group(template, rjobs, is_gang=_is_gang(entry, default=True))
            return (
                () if group is None else (replace(_with_fields(group, entry), resource_claims=entry.resource_claims),)
            )
        job_groups = tuple(self._groups_of_jobs(entry, entry.job))
        if not (_has_fields(entry) or is_below_root):
            return job_groups
        return self._composite(template, job_groups, entry, gang_default=True)

    def _groups_of_jobs(self, entry: EntryScheduling, job: JobScheduling) -> Iterator[Group]:
        """One PodGroup for each Job of the entry. The PodGroups of one ReplicatedJob share a template."""
        for target in entry.target_replicated_jobs:
            rjob = self._rjobs_by_name.get(target)
            pods = 0 if rjob is None else pods_at_once(rjob)
            if rjob is None or not pods:
                continue
            template, prefix = _dns_label(f"job-{target}"), job_name_prefix(self._js.metadata.name, target)
            group = Group(
                template=template,
                name="",
                gang_size=_gang_size(job.scheduling_policy, pods),
                resource_claims=job.resource_claims,
                replicated_jobs=(target,),
            )
            group = _with_fields(group, job)
            for index in range(rjob.replicas):
                name = self._object_name(f"{template}-{index}", POD_GROUP)
                yield replace(group, name=name, jobs=((f"{prefix}{index}", pods),))

    def _pod_group(self, template: str, rjobs: tuple[ReplicatedJob, ...], *, is_gang: bool) -> Group | None:
        """One PodGroup for all pods of these ReplicatedJobs; None if they have no pods."""
        jobset_name = self._js.metadata.name
        prefixes_and_pods = [(job_name_prefix(jobset_name, rjob.name), pods_at_once(rjob), rjob) for rjob in rjobs]
        jobs = tuple(
            (f"{prefix}{index}", pods)
            for prefix, pods, rjob in prefixes_and_pods
            for index in range(rjob.replicas if pods else 0)
        )
        if not jobs:
            return None
        return Group(
            template=template,
            name=self._object_name(template, POD_GROUP),
            gang_size=sum(pods for _, pods in jobs) if is_gang else None,
            jobs=jobs,
            replicated_jobs=tuple(rjob.name for rjob in rjobs),
        )

    def _composite(
        self, template: str, children: tuple[Group, ...], level: _Level, *, gang_default: bool
    ) -> tuple[Group, ...]:
        """The CompositePodGroup of a level, above these groups; empty if there are no groups.

        `gang_default`: whether the group is a gang if the level has no policy.
        """
        if not children:
            return ()
        gang = None if level.scheduling_policy is None else level.scheduling_policy.gang
        min_group_count = None if gang is None else gang.min_group_count
        size = len(children) if min_group_count is None else min_group_count
        group = Group(
            template=template,
            name=self._object_name(template, COMPOSITE),
            gang_size=size if _is_gang(level, default=gang_default) else None,
            children=children,
            replicated_jobs=tuple(dict.fromkeys(name for child in children for name in child.replicated_jobs)),
        )
        return (_with_fields(group, level),)

    def _wrap_in_composite(self, group: Group) -> Group:
        """A CompositePodGroup with one PodGroup. It has no effect on the scheduling of the PodGroup."""
        template = _dns_label(f"root-{group.template}")
        return Group(
            template=template,
            name=self._object_name(template, f"{COMPOSITE}/{group.name}"),
            gang_size=None,
            children=(group,),
            replicated_jobs=group.replicated_jobs,
        )

    def _object_name(self, suffix: str, kind: str) -> str:
        """`<jobset>-<suffix>-<hash>`, where the first two parts may be cut; `<jobset>-<hash>` without a suffix.

        The hash tells the object from objects of another kind or suffix, and of earlier JobSets of the same name.
        """
        name = self._js.metadata.name
        prefix = f"{name}-{suffix}" if suffix else name
        return f"{prefix[:_MAX_PREFIX_LENGTH].rstrip('-.')}-{_hash(f'{kind}/{self._identity}/{suffix}')}"


def _hash(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]


def _dns_label(text: str, *, with_hash: bool = False) -> str:
    """The text as a DNS label. It ends with a hash if the text is too long, or if `with_hash`."""
    if with_hash or len(text) > _MAX_NAME_LENGTH:
        return f"{text[:_MAX_PREFIX_LENGTH].rstrip('-')}-{_hash(text)}"
    return text


def _has_fields(level: _Level) -> bool:
    """Whether the user sets a field that belongs to the group of this level."""
    return any(getattr(level, name) is not None for name in _LEVEL_FIELDS)


def _is_gang(level: _Level, *, default: bool) -> bool:
    """Whether the group of this level is a gang. `default`: the answer for a level without a policy."""
    return default if level.scheduling_policy is None else level.scheduling_policy.basic is None


def _gang_size(policy: PodsPolicy | None, pods: int) -> int | None:
    """The gang size of the PodGroup of a Job with this number of pods; None if the policy is basic."""
    if policy is not None and policy.basic is not None:
        return None
    min_count = policy.gang.min_count if policy is not None and policy.gang is not None else None
    return pods if min_count is None else min_count


def _with_fields(group: Group, level: _Level | JobScheduling) -> Group:
    """The group with the topology and the disruption mode that the user sets for this level."""
    constraints, mode = level.scheduling_constraints, level.disruption_mode
    topology_key = constraints.topology[0].key if constraints is not None and constraints.topology else ""
    mode_name = "" if mode is None else "all" if mode.all is not None else "single"
    return replace(group, topology_key=topology_key, disruption_mode=mode_name)


def _with_inherited_mode(group: Group, parent_mode: str) -> Group:
    """The tree in which groups without a disruption mode have the mode `all` of their parent.

    Then each object states its mode. `parent_mode`: `all` if the parent has this mode, else empty.
    """
    mode = group.disruption_mode or parent_mode
    if mode == group.disruption_mode and not group.children:
        return group
    mode_for_children = "all" if mode == "all" else ""
    children = tuple(_with_inherited_mode(child, mode_for_children) for child in group.children)
    return replace(group, disruption_mode=mode, children=children)
