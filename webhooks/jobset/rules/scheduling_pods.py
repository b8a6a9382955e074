"""Fields of pod and Job templates that conflict with spec.scheduling."""

import re
from collections.abc import Collection, Iterator

from api import stages
from api.batch import pods_at_once
from api.keys import EXCLUSIVE_TOPOLOGY, QUEUE_NAME
from api.pod import DEFAULT_SCHEDULER
from kube.model.field import SPEC, ErrorType, FieldError, Rule
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.placement import by_affinity
from webhooks.jobset.rules.scheduling import lines
from webhooks.jobset.subject import Entry, Subject

KUEUE_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"

OWN_GROUP = Source("KEP-969").error(
    "scheduling-own-group",
    "a pod is in one group, and spec.scheduling makes it",
    "remove it, or remove spec.scheduling and keep to groups of your own",
    ErrorType.FORBIDDEN,
)
JOB_SCHEDULING = Source("KEP-6089").error(
    "scheduling-of-the-job",
    "the groups of a JobSet's Jobs are made by the JobSet",
    "move it to `job` of an entry of spec.scheduling.replicatedJobs, where it has the same fields",
    ErrorType.FORBIDDEN,
)
JOB_SCHEDULING_IGNORED = Source("Kubernetes 1.37: Job controller").warning(
    "scheduling-of-the-job-ignored",
    "ignored for Jobs of a JobSet",
    "use spec.scheduling",
)
PRIORITY = Source("Kubernetes 1.37: Workload").error(
    "scheduling-priority",
    "all groups of a set have one priority class, and that of {other} is {theirs}",
    "write the same one in all pod templates",
)
ONE_SCHEDULING = Source("Kubernetes 1.37: kube-scheduler").error(
    "scheduling-same-scheduler",
    "pods that are scheduled together have one {field}, and that of {other} is {theirs}",
    "write the same one in both, or give them entries of their own below nothing common",
)
EXCLUSIVE = Source("docs/concepts/exclusive-placement.md#how-it-works").error(
    "scheduling-exclusive",
    "exclusive placement by {topology} lets no pod of a Job be scheduled before its leader has a node, and a"
    " group none before all can be: neither would ever run",
    "remove the annotation {key} and write topology {topology} in schedulingConstraints of `job`; to have the"
    " domains alone, too, use the node-selector strategy",
)
EVICTION = Source("Kubernetes 1.37: Pod").error(
    "scheduling-eviction-responders",
    "the API server refuses pods that have both a group and evictionResponders",
    "remove them, or remove spec.scheduling",
    ErrorType.FORBIDDEN,
)
KUEUE = Source("Kueue: topology-aware scheduling").warning(
    "scheduling-kueue-topology",
    "schedulingConstraints may ask for another domain",
    "keep one",
)
MAX_POD_SETS = 18
"""Pod sets that Kueue's Workload takes (v1beta2): each ReplicatedJob is one."""
POD_SETS = Source("docs/reference/validation.md#kueue").warning(
    "kueue-pod-sets",
    "{count} ReplicatedJobs, and Kueue takes at most {most}: it makes no Workload, and the set stays suspended",
    "merge some of them by replicas, or remove the label {label}",
)

KAI = "kai-scheduler"
KAI_AT_ONCE = "kai.scheduler/batch-min-member"
"""How many ReplicatedJobs KAI Scheduler schedules together, as an annotation of the JobSet; absent: all."""
KAI_STAGES = Source("docs/reference/validation.md#kai-scheduler").warning(
    "kai-scheduler-stages",
    "KAI places none before {wanted} ReplicatedJobs have pods, and at the start {at_once} have some",
    'annotate the JobSet {key}: "{at_once}", for KAI 0.15 or newer',
)


def check_templates(subject: Subject) -> Iterator[FieldError]:
    """Fields of pod and Job templates that exclude spec.scheduling, or have no effect."""
    grouped = subject.js.spec.scheduling is not None
    for entry in subject.entries:
        path, pod, spec = entry.job_path.at("scheduling"), entry.rjob.pod_spec, entry.pod_path.at("spec")
        if entry.rjob.job_spec.get("scheduling") is not None:
            yield JOB_SCHEDULING.at(path) if grouped else JOB_SCHEDULING_IGNORED.at(path)
        if grouped and pod.get("schedulingGroup") is not None:
            yield OWN_GROUP.at(spec.at("schedulingGroup"))
        if grouped and pod.get("evictionResponders"):
            yield EVICTION.at(spec.at("evictionResponders"))


def check_exclusive_placement(subject: Subject) -> Iterator[FieldError]:
    """A follower is gated until its leader has a node; kube-scheduler tries no group that has a gated pod."""
    for entry in subject.entries if subject.js.spec.scheduling is not None else ():
        topology = by_affinity(subject, entry)
        if topology is not None and pods_at_once(entry.rjob) > 1:
            words = {"topology": topology, "key": EXCLUSIVE_TOPOLOGY}
            yield EXCLUSIVE.at(entry.path.at("template"), entry.rjob.name, **words)


def check_equal_fields(subject: Subject) -> Iterator[FieldError]:
    """Priorities and schedulers must be the same for all pods of one group, or it is never scheduled."""
    wanted = subject.shape
    if wanted is None:
        return
    grouped = [subject.by_name[name] for root in wanted.roots for name in root.replicated_jobs]
    yield from _alike(grouped, PRIORITY, "priorityClassName", "")
    for root in wanted.roots:
        entries = [subject.by_name[name] for name in root.replicated_jobs]
        yield from _alike(entries, ONE_SCHEDULING, "schedulerName", DEFAULT_SCHEDULER)
        yield from _alike(entries, ONE_SCHEDULING, "preemptionPolicy", "")


def _alike(entries: list[Entry], rule: Rule, field: str, default: str) -> Iterator[FieldError]:
    """Entries that differ from the first one."""
    ordered = sorted(entries, key=lambda entry: entry.index)
    for entry in ordered[1:]:
        first, own = (each.rjob.pod_spec.get(field) or default for each in (ordered[0], entry))
        if own != first:
            other, theirs = f'"{ordered[0].rjob.name}"', f'"{first}"' if first else "none"
            yield rule.at(entry.pod_path.at("spec", field), own, field=field, other=other, theirs=theirs)


def check_kueue_topology(subject: Subject) -> Iterator[FieldError]:
    """Kueue's topology request and a topology constraint here both choose a domain for the same pods."""
    constrained = {name for line in lines(subject) for level in line if level.topology for name in level.targets}
    for entry in subject.entries:
        if entry.rjob.name in constrained and KUEUE_TOPOLOGY in entry.job.template.metadata.annotations:
            yield KUEUE.at(entry.pod_path.at("metadata", "annotations", KUEUE_TOPOLOGY))


def check_pod_set_count(subject: Subject) -> Iterator[FieldError]:
    """Kueue never admits a set with more ReplicatedJobs than a Workload may have pod sets."""
    count = len(subject.entries)
    if count > MAX_POD_SETS and subject.js.metadata.labels.get(QUEUE_NAME):
        yield POD_SETS.at(SPEC.at("replicatedJobs"), count=count, most=MAX_POD_SETS, label=QUEUE_NAME)


def check_kai_stages(subject: Subject) -> Iterator[FieldError]:
    """KAI Scheduler makes one gang of all ReplicatedJobs: it never begins if some of them wait for the others."""
    placed = {entry.rjob.name: entry for entry in subject.entries if entry.rjob.pod_spec.get("schedulerName") == KAI}
    if not placed or stages.is_ordered(subject.js.spec):
        return
    count = len(subject.entries)
    value = subject.js.metadata.annotations.get(KAI_AT_ONCE, "")
    wanted = min(int(value), count) if re.fullmatch("[0-9]{1,9}", value, re.ASCII) else count
    at_once = count - _missing_at_first(subject, placed)
    if at_once < wanted:
        path = next(iter(placed.values())).pod_path.at("spec", "schedulerName")
        yield KAI_STAGES.at(path, KAI, wanted=wanted, at_once=at_once, key=KAI_AT_ONCE)


def _missing_at_first(subject: Subject, placed: Collection[str]) -> int:
    """ReplicatedJobs without pods for KAI at the start: they wait for others, or have another scheduler."""
    missing, behind, next_stage_waits = 0, set[str](), False
    for stage in stages.stages(subject.js.spec) or (subject.js.spec.replicated_jobs,):
        for rjob in (rjob for rjob in stage if rjob.replicas):
            waits = next_stage_waits or any(item.name in behind for item in rjob.depends_on or ())
            missing += waits or rjob.name not in placed
            if waits or rjob.name in placed:
                behind.add(rjob.name)
        next_stage_waits = bool(behind)
    return missing
