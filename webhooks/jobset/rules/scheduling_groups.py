"""The groups of spec.scheduling: their ReplicatedJobs, their minimum sizes, and gangs that can start together."""

from collections.abc import Iterator

from api.batch import pods_at_once
from api.gangs import MAX_JOBS, ROOT, Group, grouped_jobs
from api.jobset import ReplicatedJob
from api.scheduling import MAX_TEMPLATES, EntryScheduling, GroupsPolicy
from api.stages import is_ordered, stages
from kube.model.field import ErrorType, FieldError, Path, join_names
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.scheduling import ENTRIES, POLICY, SCHEDULING
from webhooks.jobset.rules.targets import unknown_targets
from webhooks.jobset.subject import Subject

_TARGETS = "targetReplicatedJobs"
_MIN_GROUP_COUNT = (POLICY, "gang", "minGroupCount")

_SOURCE = Source("spec.scheduling")
_KEP_969 = Source("KEP-969")
NO_TARGETS = _SOURCE.error(
    "scheduling-no-targets",
    "an entry is about one ReplicatedJob at least",
    "name them, or remove the entry",
    ErrorType.REQUIRED,
)
UNKNOWN_TARGET = _KEP_969.error(
    "scheduling-target-unknown",
    "there is no ReplicatedJob of that name",
    "{names_that_exist}",
)
TARGET_AGAIN = _KEP_969.error(
    "scheduling-target-again",
    "entry {first} has it already, and a pod can be in one group only",
    "remove it from one of them",
    ErrorType.DUPLICATE,
)
NOT_TARGETED = _KEP_969.error(
    "scheduling-not-targeted",
    "no entry has {names}: every ReplicatedJob needs one where nothing is said of the whole set",
    "add `- targetReplicatedJobs: [{first}]`, with `schedulingPolicy: {{basic: {{}}}}` where its pods are to be"
    " scheduled one by one",
    ErrorType.REQUIRED,
)
TOO_MANY_PODS = _SOURCE.error(
    "scheduling-min-count",
    'a Job of "{name}" has {pods} at once: the gang would never be complete',
    "write {count} or less, or leave it out: all pods of a Job then",
)
TOO_MANY_GROUPS = _SOURCE.error(
    "scheduling-min-group-count",
    "{count} are below it: the gang would never be complete",
    "write {count} or less, or leave it out: all of them then",
)
NOTHING_TO_COUNT = _KEP_969.error(
    "scheduling-nothing-to-count",
    "nothing to count: all pods of {owner} are one group",
    "{fix}, or remove minGroupCount: all pods have to fit together then",
)
STAGES = _KEP_969.error(
    "scheduling-gang-of-stages",
    'a gang starts together, but "{later}" waits for "{earlier}": neither would ever run',
    "{fix}",
)
TOO_MANY_TEMPLATES = Source("Kubernetes 1.37: Workload").error(
    "scheduling-too-many-groups",
    "{count} ReplicatedJobs or entries become groups of their own here, and Kubernetes takes at most"
    f" {MAX_TEMPLATES}",
    "let one entry without job have several ReplicatedJobs, or make several JobSets",
)

TOO_MANY_JOBS = _SOURCE.error(
    "scheduling-too-many-jobs",
    f"a JobSet with spec.scheduling may have {MAX_JOBS} Jobs, and this one has {{count}}",
    "split it, or leave out spec.scheduling",
    ErrorType.FORBIDDEN,
)


def check_job_count(subject: Subject) -> Iterator[FieldError]:
    """Check that a set with spec.scheduling has at most MAX_JOBS Jobs."""
    count = grouped_jobs(subject.js)
    if count > MAX_JOBS:
        yield TOO_MANY_JOBS.at(SCHEDULING, count=count)


def check_targets(subject: Subject) -> Iterator[FieldError]:
    """Check that entries name existing ReplicatedJobs, each once, and all if the whole set has no policy of its own."""
    spec = subject.js.spec.scheduling
    if spec is None or not spec.replicated_jobs:
        return
    first_entries: dict[str, int] = {}
    for k, entry in enumerate(spec.replicated_jobs):
        path = ENTRIES.at(k, _TARGETS)
        if not entry.target_replicated_jobs:
            yield NO_TARGETS.at(path)
        yield from unknown_targets(subject, UNKNOWN_TARGET, entry.target_replicated_jobs, path)
        for target_path, name in path.each(entry.target_replicated_jobs):
            if first_entries.setdefault(name, k) != k:
                yield TARGET_AGAIN.at(target_path, name, first=first_entries[name])
    set_has_policy = spec.scheduling_policy or spec.scheduling_constraints or spec.disruption_mode
    workers = (rjob.name for rjob in subject.js.spec.replicated_jobs if not rjob.spare_for)
    untargeted = [name for name in workers if name not in first_entries]
    if untargeted and not set_has_policy:
        names = join_names([f'"{name}"' for name in untargeted])
        yield NOT_TARGETED.at(ENTRIES, names=names, first=untargeted[0])


def check_minimum_counts(subject: Subject) -> Iterator[FieldError]:
    """Check that minimum counts of gangs do not exceed the number of their members."""
    spec = subject.js.spec.scheduling
    if spec is None:
        return
    minimum = _minimum_groups(spec.scheduling_policy)
    if minimum is not None and not spec.replicated_jobs:
        name = subject.replicated_job_names[0] if subject.replicated_job_names else "NAME"
        fix = f"add `replicatedJobs: [{{targetReplicatedJobs: [{name}], job: {{}}}}]` to count Jobs"
        yield NOTHING_TO_COUNT.at(SCHEDULING.at(*_MIN_GROUP_COUNT), minimum, owner="the set", fix=fix)
    elif minimum is not None:
        yield from _check_group_count(SCHEDULING, minimum, _groups_below_root(subject))
    for path, entry in ENTRIES.each(spec.replicated_jobs):
        yield from _check_entry(subject, entry, path)


def _check_entry(subject: Subject, entry: EntryScheduling, path: Path) -> Iterator[FieldError]:
    """Check the minimum counts of an entry: of its Jobs, and of the pods of each Job."""
    minimum = _minimum_groups(entry.scheduling_policy)
    rjobs = [
        subject.entries_by_name[name].rjob for name in entry.target_replicated_jobs if name in subject.entries_by_name
    ]
    if minimum is not None and entry.job is None:
        fix = "add `job: {}` to count Jobs"
        yield NOTHING_TO_COUNT.at(path.at(*_MIN_GROUP_COUNT), minimum, owner="the entry", fix=fix)
    elif minimum is not None:
        yield from _check_group_count(path, minimum, sum(rjob.replicas for rjob in rjobs if pods_at_once(rjob)))
    job_policy = entry.job.scheduling_policy if entry.job is not None else None
    minimum_pods = job_policy.gang.min_count if job_policy is not None and job_policy.gang is not None else None
    if minimum_pods is None:
        return
    for rjob in rjobs:
        count = pods_at_once(rjob)
        if 0 < count < minimum_pods:
            words = f"{count} pod" if count == 1 else f"{count} pods"
            count_path = path.at("job", POLICY, "gang", "minCount")
            yield TOO_MANY_PODS.at(count_path, minimum_pods, name=rjob.name, pods=words, count=count)
            return


def _minimum_groups(policy: GroupsPolicy | None) -> int | None:
    return None if policy is None or policy.gang is None else policy.gang.min_group_count


def _check_group_count(path: Path, minimum: int, existing: int) -> Iterator[FieldError]:
    if 0 < existing < minimum:
        yield TOO_MANY_GROUPS.at(path.at(*_MIN_GROUP_COUNT), minimum, count=existing)


def _groups_below_root(subject: Subject) -> int:
    """The number of groups directly below the group of the set; 0 if the set has no group."""
    roots = subject.forest_of_single_jobs.roots if subject.forest_of_single_jobs is not None else ()
    # There is a group for each Job, but this forest has only one Job of each ReplicatedJob.
    return sum(
        subject.entries_by_name[child.replicated_jobs[0]].rjob.replicas if child.template.startswith("job-") else 1
        for root in roots
        for child in (root.children if root.template == ROOT else ())
    )


def check_stages(subject: Subject) -> Iterator[FieldError]:
    """Check that no gang has members that wait for each other: a gang is scheduled only once all its pods exist."""
    for root in subject.forest_of_single_jobs.roots if subject.forest_of_single_jobs is not None else ():
        yield from _check_group(subject, root)


def _check_group(subject: Subject, group: Group) -> Iterator[FieldError]:
    rjobs = (subject.entries_by_name[name].rjob for name in group.replicated_jobs)
    members = frozenset(rjob.name for rjob in rjobs if rjob.replicas and pods_at_once(rjob))
    pair = _waiting_pair(subject, members) if group.gang_size is not None and len(members) > 1 else None
    if pair is None:
        for child in group.children:
            yield from _check_group(subject, child)
        return
    earlier, later = pair
    path = _path_of(subject, group)
    if path == SCHEDULING:
        fix = (
            "remove schedulingPolicy: each ReplicatedJob is a gang of its own then; or write `basic: {}` here and an"
            " entry for each in replicatedJobs"
        )
    else:
        fix = "give each an entry of its own; `basic: {}` for the whole set keeps them in one topology"
    yield STAGES.at(path.at(POLICY), {"gang": {}}, earlier=earlier, later=later, fix=fix)


def _path_of(subject: Subject, group: Group) -> Path:
    """The path of the level from which a group of several ReplicatedJobs comes."""
    spec = subject.js.spec.scheduling
    entries = spec.replicated_jobs if spec is not None else ()
    if group.template == ROOT and (not entries or (spec is not None and spec.scheduling_policy is not None)):
        return SCHEDULING
    first = group.replicated_jobs[0]
    indexes = (k for k, entry in enumerate(entries) if first in entry.target_replicated_jobs)
    return next((ENTRIES.at(k) for k in indexes), SCHEDULING)


def _waiting_pair(subject: Subject, members: frozenset[str]) -> tuple[str, str] | None:
    """A pair of members of which the second starts only after the first; None if all can start together."""
    spec = subject.js.spec
    if is_ordered(spec):
        ordered = [name for name in subject.replicated_job_names if name in members]
        return (ordered[0], ordered[1]) if len(ordered) > 1 else None
    stage_by_name = {rjob.name: k for k, stage in enumerate(stages(spec)) for rjob in stage if rjob.name in members}
    if len({*stage_by_name.values()}) > 1:
        earlier, *_ = stage_by_name
        return earlier, next(name for name in stage_by_name if stage_by_name[name] != stage_by_name[earlier])
    return _dependent_pair(subject.js.spec.replicated_jobs, members)


def _dependent_pair(rjobs: tuple[ReplicatedJob, ...], members: frozenset[str]) -> tuple[str, str] | None:
    """A member, and a member that waits for it by dependsOn, directly or through other ReplicatedJobs."""
    awaited_member: dict[str, str] = {}
    for rjob in rjobs:
        for item in rjob.depends_on or ():
            earlier = item.name if item.name in members else awaited_member.get(item.name)
            if earlier is not None and earlier != rjob.name:
                awaited_member.setdefault(rjob.name, earlier)
        if rjob.name in members and rjob.name in awaited_member:
            return awaited_member[rjob.name], rjob.name
    return None


def check_template_counts(subject: Subject) -> Iterator[FieldError]:
    """Check that no list of group templates is longer than Kubernetes allows."""
    forest = subject.forest_of_single_jobs
    if forest is None:
        return
    yield from _check_templates(forest.roots, SCHEDULING)
    for group in forest.groups():
        yield from _check_templates(group.children, _path_of(subject, group))


def _check_templates(groups: tuple[Group, ...], path: Path) -> Iterator[FieldError]:
    for composite in (False, True):
        count = len({group.template for group in groups if group.is_composite is composite})
        if count > MAX_TEMPLATES:
            yield TOO_MANY_TEMPLATES.at(path, count, count=count)
