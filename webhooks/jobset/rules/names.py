"""Names of Jobs, pods, groups and the Service, which Kubernetes has to accept.

See docs/reference/validation.md#names.
"""

from collections.abc import Iterator

from api.names import job_name, pod_base_name
from kube.model.field import SPEC, ErrorType, FieldError, Path, Rule, quote
from kube.model.meta import MAX_INT32
from kube.model.validation import MAX_LABEL, TOO_LONG_LABEL, as_label, byte_length, dns1035_label, dns1123_subdomain
from webhooks.jobset.rules import Source, blame
from webhooks.jobset.subject import Entry, Subject

POD_SUFFIX = "abcde"
"""The placeholder for the random suffix of pod names, with the length of the suffix."""

_FORM_FIX = "use lower case letters, digits and '-', beginning with a letter{example}"
_DOCS = Source("docs/reference/validation.md#names")
SUBDOMAIN = _DOCS.error("subdomain-form", "{complaint}", _FORM_FIX)
SUBDOMAIN_LENGTH = _DOCS.error(
    "subdomain-length",
    ".spec.network.subdomain is too long, must be less than 63 characters",
    "shorten it by {excess}",
)
POD_COUNT = _DOCS.error(
    "pod-count",
    f"the product of replicas and parallelism must not exceed {MAX_INT32} for replicatedJob '{{name}}'",
    "with parallelism {parallelism} there may be at most {most} replicas",
)
GROUP = _DOCS.error("group-name-form", "{complaint}", _FORM_FIX)
GROUP_LENGTH = _DOCS.error(
    "group-name-length",
    ".spec.replicatedJob[].groupName is too long, must be less than 63 characters",
    "shorten it by {excess}",
)
UNNAMED = _DOCS.warning(
    "replicated-job-unnamed",
    'no name: its Jobs are called "{first}" and so on',
    'write one, such as "workers"',
    ErrorType.REQUIRED,
)
JOB = _DOCS.error("job-name-form", "{complaint}", "Jobs are named <JobSet>-<ReplicatedJob>-<index>: {change}")
JOB_LENGTH = _DOCS.error(
    "job-name-length",
    "JobSet name is too long, job names generated for this JobSet will exceed 63 characters",
    "{change}",
)
POD_LENGTH = _DOCS.error(
    "pod-name-length",
    "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters",
    "{change}",
)
JOB_NAME_RULES = (JOB, JOB_LENGTH, POD_LENGTH)
"""Rules about names that are composed of the names of the JobSet and of a ReplicatedJob."""


def check_subdomain(subject: Subject) -> Iterator[FieldError]:
    """Check the name of the headless Service."""
    network = subject.js.spec.network
    if network is None or not network.subdomain:
        return
    path, name = SPEC.at("network", "subdomain"), network.subdomain
    for complaint in dns1123_subdomain(name):
        yield SUBDOMAIN.at(path, name, complaint=complaint, example=_example(name))
    yield from _check_label((SUBDOMAIN, SUBDOMAIN_LENGTH), path, name)


def check_pod_count(_: Subject, entry: Entry) -> Iterator[FieldError]:
    """Check that the number of pods fits into 32 bits."""
    rjob = entry.rjob
    parallelism = 1 if entry.job.parallelism is None else entry.job.parallelism
    if parallelism * rjob.replicas > MAX_INT32:
        words = {"name": rjob.name, "parallelism": parallelism, "most": MAX_INT32 // parallelism}
        yield POD_COUNT.at(entry.path.at("replicas"), rjob.replicas, **words)


def check_group_name(_: Subject, entry: Entry) -> Iterator[FieldError]:
    """Check that the group name is a DNS label."""
    yield from _check_label((GROUP, GROUP_LENGTH), entry.path.at("groupName"), entry.rjob.group_name)


def check_name(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Check that the name is not empty. The mutating webhook sets an empty name if it is absent."""
    if not entry.rjob.name:
        yield UNNAMED.at(entry.path.at("name"), first=job_name(subject.name, "", 0))


def check_job_names(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Check the longest Job name. The fix says whether the JobSet or the ReplicatedJob has to be renamed."""
    name, rjob = longest_job_name(subject, entry), entry.rjob.name
    path = entry.path.at("name")
    for complaint in dns1035_label(name):
        if complaint == TOO_LONG_LABEL:
            excess = byte_length(name) - MAX_LABEL
            yield JOB_LENGTH.at(path, name, change=blame.blame_for_length(_jobset_name(subject), rjob, excess).change)
        else:
            yield JOB.at(
                path, name, complaint=complaint, change=blame.blame_for_characters(_jobset_name(subject), rjob).change
            )


def check_pod_names(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Check the length of the longest pod name. The message shows the Job name, whose form is checked already."""
    if entry.job.completion_mode != "Indexed" or entry.job.completions is None:
        return
    rjob = entry.rjob
    pod = pod_base_name(subject.name, rjob.name, rjob.replicas - 1, entry.job.completions - 1) + f"-{POD_SUFFIX}"
    if (excess := byte_length(pod) - MAX_LABEL) > 0:
        change = blame.blame_for_length(_jobset_name(subject), rjob.name, excess).change
        yield POD_LENGTH.at(entry.path.at("name"), longest_job_name(subject, entry), change=change)


def is_jobset_name_to_blame(error: FieldError, jobset_name: blame.JobSetName, rjob_name: str) -> bool:
    """Whether only the JobSet's name makes the names of a ReplicatedJob's Jobs and pods invalid."""
    if error.rule is JOB:
        form = blame.blame_for_characters(jobset_name, rjob_name)
        return form.blames_jobset and not form.blames_replicated_job
    return error.rule in JOB_NAME_RULES and blame.blame_for_length(jobset_name, rjob_name, 1).blames_jobset


def _jobset_name(subject: Subject) -> blame.JobSetName:
    meta = subject.js.metadata
    return blame.jobset_name_of(meta.name, meta.generate_name)


def longest_job_name(subject: Subject, entry: Entry) -> str:
    """The name of the Job with the highest index."""
    return job_name(subject.name, entry.rjob.name, entry.rjob.replicas - 1)


def _check_label(rules: tuple[Rule, Rule], path: Path, text: str) -> Iterator[FieldError]:
    """Check that a text is a DNS label. `rules`: about its form, and about its length."""
    form, length = rules
    for complaint in dns1035_label(text):
        if complaint == TOO_LONG_LABEL:
            yield length.at(path, text, excess=byte_length(text) - MAX_LABEL)
        else:
            yield form.at(path, text, complaint=complaint, example=_example(text))


def _example(text: str) -> str:
    example = as_label(text)
    return f", such as {quote(example)}" if example else ""
