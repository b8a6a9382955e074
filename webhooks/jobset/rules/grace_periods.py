"""How long pods may take to end when the set restarts.

See docs/concepts/recovery.md#how-long-pods-take-to-end.
"""

from collections.abc import Iterator

from api.batch import pods_at_once
from kube.model.field import FieldError
from kube.model.jsontree import dig
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.failure import FAILURE
from webhooks.jobset.rules.in_place import IN_PLACE
from webhooks.jobset.subject import Entry, Subject

_DEFAULT_SECONDS = 30

IN_A_ROW = Source("docs/concepts/recovery.md#how-long-pods-take-to-end").warning(
    "grace-periods-in-a-row",
    "pods that do not handle SIGTERM delay a restart by {seconds} s: those of the failed Job end first, then all"
    " others",
    "set failOn: FailureTarget, so that all end at once",
)


def check_grace_periods(subject: Subject) -> Iterator[FieldError]:
    """A warning about a restart that waits for two grace periods, one after the other, if one is not the default.

    Two default grace periods cause no warning: nearly every set has them, and most programs end at SIGTERM.
    """
    policy = subject.failure_policy
    periods = [_seconds(entry) for entry in subject.entries]
    # If the only pod of a Job fails, no other pod of this Job has to end.
    periods_of_failed_job = [_seconds(entry) for entry in subject.entries if pods_at_once(entry.job) > 1]
    has_one_job = sum(entry.rjob.replicas for entry in subject.entries) < 2
    ends_at_once = policy.restart_strategy == IN_PLACE or policy.fail_on == "FailureTarget" or has_one_job
    if not policy.max_restarts or ends_at_once:
        return
    seconds = max(periods_of_failed_job, default=0) + max(periods, default=0)
    if periods_of_failed_job and seconds > 2 * _DEFAULT_SECONDS:
        yield IN_A_ROW.at(FAILURE.at("failOn"), policy.fail_on, seconds=seconds)


def _seconds(entry: Entry) -> int:
    """The grace period of the pods; the default for an invalid or absent one."""
    seconds = dig(entry.rjob.pod_spec, "terminationGracePeriodSeconds")
    return seconds if isinstance(seconds, int) else _DEFAULT_SECONDS
