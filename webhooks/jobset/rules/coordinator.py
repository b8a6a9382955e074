"""The coordinator: its pod has to exist, and its address has to be a label value.

See docs/reference/validation.md#coordinator.
"""

from collections.abc import Iterator
from functools import partial

from api.jobset import Coordinator
from api.keys import COORDINATOR
from api.names import coordinator_endpoint
from kube.model.field import SPEC, ErrorType, FieldError
from kube.model.validation import label_value
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.targets import name_suggestion
from webhooks.jobset.subject import Entry, Subject

PATH = SPEC.at("coordinator")

_DOCS = Source("docs/reference/validation.md#coordinator")
UNKNOWN = _DOCS.error(
    "coordinator-replicated-job",
    "coordinator replicatedJob {name} does not exist",
    "{names_that_exist}",
)
UNNAMED = _DOCS.error(
    "coordinator-unnamed",
    UNKNOWN.message,
    "name the ReplicatedJob that it is a pod of; {names_that_exist}",
    ErrorType.REQUIRED,
)
JOB_INDEX = _DOCS.error(
    "coordinator-job-index",
    "coordinator job index {index} is invalid for replicatedJob {name}",
    "it has {count} Jobs, numbered from 0: {remedy}",
)
COMPLETION_MODE = _DOCS.error(
    "coordinator-completion-mode",
    "job for coordinator pod must be indexed completion mode, and completions number must be set",
    "set completionMode: Indexed and completions, so that the pod has a fixed name",
)
COMPLETIONS = _DOCS.error(
    "coordinator-completions",
    "job for coordinator pod must be indexed completion mode, and completions number must be set",
    "set completions to the number of pods of one Job",
    ErrorType.REQUIRED,
)
POD_INDEX = _DOCS.error(
    "coordinator-pod-index",
    "coordinator pod index {index} is invalid for replicatedJob {name} job index {job_index}",
    "the Job has {count} completions, numbered from 0: {remedy}",
)
LABEL = _DOCS.error(
    "coordinator-label",
    'spec will lead to invalid label value "{endpoint}" for coordinator label "' + COORDINATOR + '"'
    " (long JobSet / ReplicatedJob / SubDomain name?): {complaints}",
    "shorten one of those names: the name of the coordinator pod, a dot and the subdomain share 63 characters",
)


def check_coordinator(subject: Subject) -> Iterator[FieldError]:
    """Check that a pod has the indexes of the coordinator, and that its address is a valid label value."""
    coordinator = subject.js.spec.coordinator
    if coordinator is None:
        return
    entry = subject.entries_by_name.get(coordinator.replicated_job)
    if entry is None:
        name = coordinator.replicated_job
        suggestion = partial(name_suggestion, subject, name, if_none="there is no ReplicatedJob")
        rule = UNKNOWN if name else UNNAMED
        yield rule.at(PATH.at("replicatedJob"), name, name=name, names_that_exist=suggestion)
    else:
        yield from _check_pod(entry, coordinator)
    endpoint = coordinator_endpoint(subject.js) or ""
    complaints = label_value(endpoint)
    if complaints:
        yield LABEL.at(PATH, endpoint, endpoint=endpoint, complaints=", ".join(complaints))


def _check_pod(entry: Entry, coordinator: Coordinator) -> Iterator[FieldError]:
    name, job, replicas = coordinator.replicated_job, entry.job, entry.rjob.replicas
    job_index, pod_index = coordinator.job_index, coordinator.pod_index
    if not 0 <= job_index < replicas:
        words = {"index": job_index, "name": name, "count": replicas, "remedy": _remedy("replicas", replicas)}
        yield JOB_INDEX.at(PATH.at("jobIndex"), job_index, **words)
    if job.completion_mode != "Indexed":
        yield COMPLETION_MODE.at(entry.job_path.at("completionMode"), job.completion_mode)
    elif job.completions is None:
        yield COMPLETIONS.at(entry.job_path.at("completions"))
    elif not 0 <= pod_index < job.completions:
        words = {"index": pod_index, "name": name, "job_index": job_index, "count": job.completions}
        yield POD_INDEX.at(PATH.at("podIndex"), pod_index, **words, remedy=_remedy("completions", job.completions))


def _remedy(field: str, count: int) -> str:
    return f"use a number below {count}" if count else f"set {field} to 1 or more, or name another pod"
