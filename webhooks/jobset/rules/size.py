"""The size of one JobSet: a larger one would take the controller's time from all others. Pure.

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
    """Whether the whole set is within the limits; a finding is about the ReplicatedJob with the most Jobs or pods."""
    for rule, most, count in ((JOBS, js.limits.jobs, _jobs), (PODS, js.limits.pods, _pods)):
        total = sum(map(count, js.entries))
        if total > most:
            largest = max(js.entries, key=count)
            yield rule.at(largest.path.at("replicas"), most=most, count=total)


def _jobs(entry: Entry) -> int:
    return max(entry.rjob.replicas, 0)


def _pods(entry: Entry) -> int:
    """The pods of a ReplicatedJob at once; 0 for a number that `names.pod_count` refuses."""
    pods = _jobs(entry) * max(pods_at_once(entry.job), 0)
    return pods if pods <= MAX_INT32 else 0
