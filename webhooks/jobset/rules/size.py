"""How many Jobs and pods one set may have: a set that is too large would cost all others their controller. Pure.

See docs/reference/validation.md#size.
"""

from collections.abc import Iterator

from api.batch import pods_at_once
from api.field import ErrorType, FieldError, Rule
from api.keys import MAX_INT32
from webhooks.jobset.subject import Entry, Subject

JOBS = Rule(
    id="jobs-per-set",
    type=ErrorType.FORBIDDEN,
    message="a JobSet may have {most} Jobs, and this one has {count}",
    fix="split it, or raise limits.jobsPerSet in the manager's configuration",
    source="docs/reference/validation.md#size",
)
PODS = Rule(
    id="pods-per-set",
    type=ErrorType.FORBIDDEN,
    message="a JobSet may have {most} pods at once, and this one has {count}",
    fix="split it, or raise limits.podsPerSet in the manager's configuration",
    source="docs/reference/validation.md#size",
)


def size(js: Subject) -> Iterator[FieldError]:
    """Whether the whole set is within the limits; the ReplicatedJob with the most of it is named."""
    for rule, most, count in ((JOBS, js.limits.jobs, _jobs), (PODS, js.limits.pods, _pods)):
        total = sum(map(count, js.entries))
        if total > most:
            largest = max(js.entries, key=count)
            yield rule.at(largest.path.at("replicas"), most=most, count=total)


def _jobs(entry: Entry) -> int:
    return max(entry.rjob.replicas, 0)


def _pods(entry: Entry) -> int:
    """Of those that `names.pod_count` refuses, nothing is said again."""
    pods = _jobs(entry) * max(pods_at_once(entry.job), 0)
    return pods if pods <= MAX_INT32 else 0
