"""Fields of pod and Job templates that conflict with spec.scheduling, and limits of other schedulers."""

import re
from collections.abc import Collection, Iterator

from api import stages
from api.batch import pods_at_once
from api.keys import EXCLUSIVE_TOPOLOGY, QUEUE_NAME
from api.pod import DEFAULT_SCHEDULER
from kube.model.field import SPEC, ErrorType, FieldError, Rule
from webhooks.jobset.rules import Source
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
"""The most pod sets of a Workload of Kueue (v1beta2): each ReplicatedJob is a pod set."""
POD_SETS = Source("docs/reference/validation.md#kueue").warning(
    "kueue-pod-sets",
    "{count} ReplicatedJobs, and Kueue takes at most {most}: it makes no Workload, and the set stays suspended",
    "merge some of them by replicas, or remove the label {label}",
)

KAI = "kai-scheduler"
KAI_GANG_SIZE = "kai.scheduler/batch-min-member"
"""The annotation of a JobSet for how many ReplicatedJobs KAI Scheduler schedules together; absent: all."""
KAI_STAGES = Source("docs/reference/validation.md#kai-scheduler").warning(
    "kai-scheduler-stages",
    "KAI places none before {wanted} ReplicatedJobs have pods, and at the start {at_once} have some",
    'annotate the JobSet {key}: "{at_once}", for KAI 0.15 or newer',
)


def check_templates(subject: Subject) -> Iterator[FieldError]:
    """Findings about fields of pod and Job templates that exclude spec.scheduling."""
    for entry in subject.entries:
        pod, pod_path = entry.rjob.pod_spec, entry.pod_path.at("spec")
        if entry.rjob.job_spec.get("scheduling") is not None:
            yield JOB_SCHEDULING.at(entry.job_path.at("scheduling"))
        if pod.get("schedulingGroup") is not None:
            yield OWN_GROUP.at(pod_path.at("schedulingGroup"))
        if pod.get("evictionResponders"):
            yield EVICTION.at(pod_path.at("evictionResponders"))


def check_ignored_field(subject: Subject) -> Iterator[FieldError]:
    """Findings about the field of Job templates that has no effect in a set without spec.scheduling."""
    for entry in subject.entries if subject.js.spec.scheduling is None else ():
        if entry.rjob.job_spec.get("scheduling") is not None:
            yield JOB_SCHEDULING_IGNORED.at(entry.job_path.at("scheduling"))


def check_exclusive_placement(subject: Subject) -> Iterator[FieldError]:
    """Check that no set with groups has exclusive placement by affinity.

    Followers are gated until their leader has a node, and kube-scheduler tries no group that has a gated pod.
    """
    for entry in subject.entries:
        topology = subject.topologies[entry.index]
        if topology is not None and pods_at_once(entry.rjob) > 1:
            words = {"topology": topology, "key": EXCLUSIVE_TOPOLOGY}
            yield EXCLUSIVE.at(entry.path.at("template"), entry.rjob.name, **words)


def check_equal_fields(subject: Subject) -> Iterator[FieldError]:
    """Check that all pods of a group have the same priority and scheduler: else the group is never scheduled."""
    forest = subject.forest_of_single_jobs
    if forest is None:
        return
    entries = [subject.entries_by_name[name] for root in forest.roots for name in root.replicated_jobs]
    yield from _difference_findings(entries, PRIORITY, "priorityClassName", "")
    for root in forest.roots:
        entries = [subject.entries_by_name[name] for name in root.replicated_jobs]
        yield from _difference_findings(entries, ONE_SCHEDULING, "schedulerName", DEFAULT_SCHEDULER)
        yield from _difference_findings(entries, ONE_SCHEDULING, "preemptionPolicy", "")


def _difference_findings(entries: list[Entry], rule: Rule, field: str, default: str) -> Iterator[FieldError]:
    """A finding of `rule` for each entry whose field of the pod differs from the field of the first entry."""
    ordered = sorted(entries, key=lambda entry: entry.index)
    for entry in ordered[1:]:
        first_value, value = (each.rjob.pod_spec.get(field) or default for each in (ordered[0], entry))
        if value != first_value:
            words = {"other": f'"{ordered[0].rjob.name}"', "theirs": f'"{first_value}"' if first_value else "none"}
            yield rule.at(entry.pod_path.at("spec", field), value, field=field, **words)


def check_kueue_topology(subject: Subject) -> Iterator[FieldError]:
    """Findings about Kueue's topology request beside a topology constraint: both choose a domain for the same pods."""
    constrained = {name for line in lines(subject) for level in line if level.topology for name in level.targets}
    for entry in subject.entries:
        if entry.rjob.name in constrained and KUEUE_TOPOLOGY in entry.job.template.metadata.annotations:
            yield KUEUE.at(entry.pod_path.at("metadata", "annotations", KUEUE_TOPOLOGY))


def check_pod_set_count(subject: Subject) -> Iterator[FieldError]:
    """Check that a set in a queue has no more ReplicatedJobs than a Workload of Kueue may have pod sets."""
    count = len(subject.entries)
    if count > MAX_POD_SETS and subject.js.metadata.labels.get(QUEUE_NAME):
        yield POD_SETS.at(SPEC.at("replicatedJobs"), count=count, most=MAX_POD_SETS, label=QUEUE_NAME)


def check_kai_stages(subject: Subject) -> Iterator[FieldError]:
    """Check that the gang that KAI Scheduler makes of all ReplicatedJobs can begin: none may wait for another."""
    kai_entries = {
        entry.rjob.name: entry for entry in subject.entries if entry.rjob.pod_spec.get("schedulerName") == KAI
    }
    if not kai_entries or stages.is_ordered(subject.js.spec):
        return
    count = len(subject.entries)
    value = subject.js.metadata.annotations.get(KAI_GANG_SIZE, "")
    gang_size = min(int(value), count) if re.fullmatch("[0-9]{1,9}", value, re.ASCII) else count
    at_once = count - _missing_at_start(subject, kai_entries)
    if at_once < gang_size:
        path = next(iter(kai_entries.values())).pod_path.at("spec", "schedulerName")
        yield KAI_STAGES.at(path, KAI, wanted=gang_size, at_once=at_once, key=KAI_GANG_SIZE)


def _missing_at_start(subject: Subject, kai_names: Collection[str]) -> int:
    """The number of ReplicatedJobs without pods for KAI at the start: they wait, or have another scheduler."""
    count, blocked_names, next_stage_waits = 0, set[str](), False
    for stage in stages.stages(subject.js.spec) or (subject.js.spec.replicated_jobs,):
        for rjob in (rjob for rjob in stage if rjob.replicas):
            waits = next_stage_waits or any(item.name in blocked_names for item in rjob.depends_on or ())
            count += waits or rjob.name not in kai_names
            if waits or rjob.name in kai_names:
                blocked_names.add(rjob.name)
        next_stage_waits = bool(blocked_names)
    return count
