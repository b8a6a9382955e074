"""What restarting in place demands of the Jobs (3.2 rows 1, 5f to 5h)."""

from collections.abc import Iterator

from api.field import SPEC, FieldError, forbidden, invalid
from api.keys import MAX_INT32
from webhooks.jobset.subject import Entry, Subject

IN_PLACE = "InPlaceRestart"


def gate(subject: Subject) -> Iterator[FieldError]:
    """Row 1: the strategy needs its feature gate."""
    if subject.failure_policy.restart_strategy == IN_PLACE and not subject.gates["InPlaceRestart"]:
        yield forbidden(
            SPEC.at("failurePolicy", "restartStrategy"),
            "InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled",
        )


def job_template(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Rows 5f to 5h: pods are never given up, never replaced early, and all of them run."""
    if subject.failure_policy.restart_strategy != IN_PLACE or not subject.gates["InPlaceRestart"]:
        return
    job, path, who = entry.job, entry.job_path, f"replicatedJob {entry.rjob.name}: "
    if job.backoff_limit != MAX_INT32:
        detail = f"{who}must be set to {MAX_INT32} (MaxInt32) when in-place restart is enabled"
        yield invalid(path.at("backoffLimit"), job.backoff_limit, detail)
    if job.pod_replacement_policy != "Failed":
        detail = f"{who}must be set to Failed when in-place restart is enabled"
        yield invalid(path.at("podReplacementPolicy"), job.pod_replacement_policy, detail)
    if job.completions is None or job.completions != job.parallelism:
        detail = (
            f"{who}completions and parallelism must be set and equal to each other when in-place restart is enabled"
        )
        yield invalid(path.at("completions"), job.completions, detail)
