"""The size of one JobSet: a larger JobSet would take too much time of the controller, or not fit into etcd. Pure.

See docs/reference/validation.md#size.
"""

from collections.abc import Iterator

from api.status_size import ETCD_LIMIT, largest_status_size
from kube.model.field import SPEC, ErrorType, FieldError
from kube.model.meta import MAX_INT32
from webhooks.jobset.rules import Source
from webhooks.jobset.subject import Entry, Subject

_DOCS = Source("docs/reference/validation.md#size")
JOBS = _DOCS.error(
    "jobs-per-set",
    "a JobSet may have {most} Jobs, and this one has {count}",
    "split it, or raise limits.jobsPerSet in the manager's configuration",
    ErrorType.FORBIDDEN,
)
PODS = _DOCS.error(
    "pods-per-set",
    "a JobSet may have {most} pods at once, and this one has {count}",
    "split it, or raise limits.podsPerSet in the manager's configuration",
    ErrorType.FORBIDDEN,
)
STORED_SIZE = _DOCS.warning(
    "size-in-etcd",
    "with its status this JobSet may take {size} KiB, and etcd stores at most {most}: then the status cannot be"
    " written, and the set never ends",
    "split it, or move scripts to ConfigMaps",
    ErrorType.TOO_LONG,
)
NEAR_ETCD_LIMIT = ETCD_LIMIT * 9 // 10
"""Bytes from which a set is near the limit. Further clients add entries to its managedFields."""


def check_counts(subject: Subject) -> Iterator[FieldError]:
    """Check the number of Jobs and pods of the set. A finding has the path of the largest ReplicatedJob."""
    for rule, limit, count in ((JOBS, subject.limits.jobs, _job_count), (PODS, subject.limits.pods, _pod_count)):
        total = sum(map(count, subject.entries))
        if total > limit:
            largest = max(subject.entries, key=count)
            yield rule.at(largest.path.at("replicas"), most=limit, count=total)


def check_stored_size(subject: Subject) -> Iterator[FieldError]:
    """A warning if the set with its status may not fit into etcd, whose limit may have been raised."""
    total = subject.size + largest_status_size(subject.js, restarts_single_jobs=bool(subject.part_restarts))
    if total > NEAR_ETCD_LIMIT:
        yield STORED_SIZE.at(SPEC.at("replicatedJobs"), size=f"{total // 1024:,}", most=f"{ETCD_LIMIT // 1024:,}")


def _job_count(entry: Entry) -> int:
    return max(entry.rjob.replicas, 0)


def _pod_count(entry: Entry) -> int:
    """The pods of a ReplicatedJob at once; 0 for a number that `names.check_pod_count` refuses."""
    return entry.pod_count if entry.pod_count <= MAX_INT32 else 0
