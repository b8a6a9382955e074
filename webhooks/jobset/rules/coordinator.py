"""The coordinator has to be a pod that will exist, and its name a label value (3.2 row 8)."""

from collections.abc import Iterator

from api.field import SPEC, FieldError, Path, invalid, required
from api.jobset import Coordinator
from api.keys import COORDINATOR
from api.names import coordinator_endpoint
from api.validation import label_value
from webhooks.jobset.subject import Subject

PATH = SPEC.at("coordinator")


def coordinator(subject: Subject) -> Iterator[FieldError]:
    """Row 8: the first that fails of a to d, then e."""
    at = subject.js.spec.coordinator
    if at is None:
        return
    yield from _pod(subject, at)
    endpoint = coordinator_endpoint(subject.js) or ""
    complaints = label_value(endpoint)
    if complaints:
        detail = (
            f'spec will lead to invalid label value "{endpoint}" for coordinator label "{COORDINATOR}"'
            f" (long JobSet / ReplicatedJob / SubDomain name?): {', '.join(complaints)}"
        )
        yield invalid(PATH, endpoint, detail)


def _pod(subject: Subject, at: Coordinator) -> Iterator[FieldError]:
    entry = subject.entry(at.replicated_job)
    if entry is None:
        detail = f"coordinator replicatedJob {at.replicated_job} does not exist"
        yield invalid(PATH.at("replicatedJob"), at.replicated_job, detail)
        return
    completions = entry.job.completions
    if not 0 <= at.job_index < entry.rjob.replicas:
        detail = f"coordinator job index {at.job_index} is invalid for replicatedJob {at.replicated_job}"
        yield invalid(PATH.at("jobIndex"), at.job_index, detail)
    elif entry.job.completion_mode != "Indexed" or completions is None:
        yield _not_indexed(entry.job_path, entry.job.completion_mode)
    elif not 0 <= at.pod_index < completions:
        detail = (
            f"coordinator pod index {at.pod_index} is invalid for replicatedJob {at.replicated_job}"
            f" job index {at.job_index}"
        )
        yield invalid(PATH.at("podIndex"), at.pod_index, detail)


def _not_indexed(job_path: Path, mode: str | None) -> FieldError:
    detail = "job for coordinator pod must be indexed completion mode, and completions number must be set"
    if mode == "Indexed":
        return required(job_path.at("completions"), detail)
    return invalid(job_path.at("completionMode"), mode, detail)
