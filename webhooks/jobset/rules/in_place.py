"""In-place restart, and what it requires of Jobs.

See docs/reference/validation.md#in-place-restart.
"""

from collections.abc import Iterator

from kube.model.field import SPEC, ErrorType, FieldError
from kube.model.meta import MAX_INT32
from webhooks.jobset.rules import Source
from webhooks.jobset.subject import Entry, Subject

IN_PLACE = "InPlaceRestart"

_DOCS = Source("docs/reference/validation.md#in-place-restart")
GATE = _DOCS.error(
    "in-place-restart-gate",
    "InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled",
    "use Recreate or BlockingRecreate, or run the manager with --feature-gates=InPlaceRestart=true",
    ErrorType.FORBIDDEN,
    gates="InPlaceRestart=true",
)
BACKOFF_LIMIT = _DOCS.error(
    "in-place-restart-backoff-limit",
    "replicatedJob {name}: must be set to 2147483647 (MaxInt32) when in-place restart is enabled",
    "set backoffLimit: 2147483647, so that the Job never gives its pods up",
)
POD_REPLACEMENT = _DOCS.error(
    "in-place-restart-pod-replacement",
    "replicatedJob {name}: must be set to Failed when in-place restart is enabled",
    "set podReplacementPolicy: Failed",
)
COMPLETIONS = _DOCS.error(
    "in-place-restart-completions",
    "replicatedJob {name}: completions and parallelism must be set and equal to each other when in-place restart"
    " is enabled",
    "set both to the number of pods of one Job",
)


def check_gate(subject: Subject) -> Iterator[FieldError]:
    """A finding about the strategy if its feature gate is off."""
    if subject.failure_policy.restart_strategy == IN_PLACE and not subject.gates["InPlaceRestart"]:
        yield GATE.at(SPEC.at("failurePolicy", "restartStrategy"))


def check_job_template(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Check that Jobs keep their pods, replace only failed pods, and run all pods at once. Spares are exempt."""
    if subject.failure_policy.restart_strategy != IN_PLACE or entry.rjob.spare_for:
        return
    job, path, name = entry.job, entry.job_path, entry.rjob.name
    if job.backoff_limit != MAX_INT32:
        yield BACKOFF_LIMIT.at(path.at("backoffLimit"), job.backoff_limit, name=name)
    if job.pod_replacement_policy != "Failed":
        yield POD_REPLACEMENT.at(path.at("podReplacementPolicy"), job.pod_replacement_policy, name=name)
    if job.completions is None or job.completions != job.parallelism:
        yield COMPLETIONS.at(path.at("completions"), job.completions, name=name)
