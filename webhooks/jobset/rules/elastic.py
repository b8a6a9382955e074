"""Elastic ReplicatedJobs: the smallest number of Jobs has to satisfy all fields that depend on it. Pure.

See docs/reference/validation.md#elastic-replicas.
"""

from collections.abc import Iterator

import msgspec

from api import share
from api.elastic import GATE
from kube.model.field import SPEC, ErrorType, FieldError
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.coordinator import PATH as COORDINATOR
from webhooks.jobset.rules.success import MIN_SUCCEEDED, units
from webhooks.jobset.subject import Subject

_DOCS = Source("docs/reference/validation.md#elastic-replicas")
NO_GATE = _DOCS.gate("elastic-gate", GATE, "replicas has no bounds, and the set never runs with fewer Jobs")
ORDER = _DOCS.error("elastic-min-above-max", "must be at most max, which is {most}", "lower min, or raise max")
BOUNDS = _DOCS.error(
    "elastic-replicas",
    "must be from {least} to {most}, as elastic says: {why}",
    "write a number from {least} to {most}, or create the JobSet with other bounds",
)
COORDINATOR_INDEX = _DOCS.error(
    "elastic-coordinator",
    "with {least} Jobs, which elastic of replicatedJob {name} allows, there is no Job {index} for the coordinator",
    "use a number below {least}, or raise elastic.min",
)
MIN_SUCCEEDED_NEVER = _DOCS.error(
    "elastic-min-succeeded",
    "never met with the fewest Jobs that elastic allows: {units} that the success policy counts: {total}",
    'write at most {total}, or a share such as "80%", or raise elastic.min',
)

GANG = _DOCS.error(
    "no-capacity-gang",
    "not together with spec.scheduling: where the pods of a gang find no nodes, all of them wait, and it is not known"
    " for how many there is room",
    "remove whenNoCapacity, or spec.scheduling",
    ErrorType.FORBIDDEN,
)
NO_GROUP = _DOCS.warning(
    "no-capacity-no-group",
    "no effect: no ReplicatedJob may run with fewer Jobs than replicas says",
    "write elastic with a min below replicas into a ReplicatedJob, or remove whenNoCapacity",
)
WHEN_NO_CAPACITY = SPEC.at("failurePolicy", "nodeFailure", "whenNoCapacity")


def check_gate(subject: Subject) -> Iterator[FieldError]:
    """Findings about fields that are set while their feature gate is off."""
    if not subject.gates[GATE]:
        if _has_when_no_capacity(subject):
            yield NO_GATE.at(WHEN_NO_CAPACITY)
        for entry in subject.entries:
            if entry.rjob.elastic is not None:
                yield NO_GATE.at(entry.path.at("elastic"))


def check_bounds(subject: Subject) -> Iterator[FieldError]:
    """Check that the number of Jobs is within its bounds, and that the coordinator exists with the fewest Jobs.

    Updates are checked, too.
    """
    if not subject.gates[GATE]:
        return
    for entry in subject.entries:
        elastic, replicas = entry.rjob.elastic, entry.rjob.replicas
        if elastic is None:
            continue
        if elastic.min > elastic.max:
            yield ORDER.at(entry.path.at("elastic", "min"), elastic.min, most=elastic.max)
        elif not elastic.min <= replicas <= elastic.max:
            reason = "its program works with no fewer" if replicas < elastic.min else "more were not planned for"
            yield BOUNDS.at(entry.path.at("replicas"), replicas, least=elastic.min, most=elastic.max, why=reason)
    coordinator = subject.js.spec.coordinator
    coordinator_entry = subject.entries_by_name.get(coordinator.replicated_job) if coordinator is not None else None
    if coordinator is not None and coordinator_entry is not None and coordinator_entry.rjob.elastic is not None:
        fewest_jobs = coordinator_entry.rjob.elastic.min
        if fewest_jobs <= coordinator.job_index < coordinator_entry.rjob.replicas:
            words = {"name": coordinator_entry.rjob.name, "index": coordinator.job_index, "least": fewest_jobs}
            yield COORDINATOR_INDEX.at(COORDINATOR.at("jobIndex"), coordinator.job_index, **words)


def check_min_succeeded(subject: Subject) -> Iterator[FieldError]:
    """Check that minSucceeded can be reached with the fewest Jobs, if it can be reached with the present number."""
    spec, policy = subject.js.spec, subject.js.spec.success_policy
    if policy is None or not isinstance(policy.min_succeeded, int) or not subject.gates[GATE]:
        return
    smallest_rjobs = tuple(
        rjob if rjob.elastic is None else msgspec.structs.replace(rjob, replicas=min(rjob.elastic.min, rjob.replicas))
        for rjob in spec.replicated_jobs
    )
    total = share.possible_successes(spec)
    fewest_total = share.possible_successes(msgspec.structs.replace(spec, replicated_jobs=smallest_rjobs))
    if fewest_total is not None and total is not None and fewest_total < policy.min_succeeded <= total:
        yield MIN_SUCCEEDED_NEVER.at(MIN_SUCCEEDED, policy.min_succeeded, total=fewest_total, units=units(policy))


def check_no_capacity(subject: Subject) -> Iterator[FieldError]:
    """Check that a set with whenNoCapacity has elastic ReplicatedJobs, and no gangs."""
    if not (_has_when_no_capacity(subject) and subject.gates[GATE]):
        return
    if subject.js.spec.scheduling is not None:
        yield GANG.at(WHEN_NO_CAPACITY)
    elastic = ((entry.rjob, entry.rjob.elastic) for entry in subject.entries if entry.rjob.elastic is not None)
    if not any(bounds.min < rjob.replicas for rjob, bounds in elastic):
        yield NO_GROUP.at(WHEN_NO_CAPACITY)


def _has_when_no_capacity(subject: Subject) -> bool:
    node_failure = subject.failure_policy.node_failure
    return node_failure is not None and node_failure.when_no_capacity is not None
