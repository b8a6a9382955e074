"""Names that the set leads to have to be names that Kubernetes takes (3.2 rows 3, 5a to 5d)."""

from collections.abc import Iterator

from api.field import SPEC, FieldError, Path, invalid
from api.keys import MAX_INT32
from api.names import job_name, pod_base_name
from api.validation import TOO_LONG_LABEL, dns1035_label, dns1123_subdomain
from webhooks.jobset.subject import Entry, Subject

POD_SUFFIX = "abcde"
"""As long as the random suffix that the Job controller gives to pod names."""


def subdomain(subject: Subject) -> Iterator[FieldError]:
    """Rows 3a, 3b: the name of the headless Service."""
    network = subject.js.spec.network
    if network is None or not network.subdomain:
        return
    path = SPEC.at("network", "subdomain")
    for complaint in dns1123_subdomain(network.subdomain):
        yield invalid(path, network.subdomain, complaint)
    too_long = ".spec.network.subdomain is too long, must be less than 63 characters"
    yield from _label(path, network.subdomain, network.subdomain, too_long)


def pod_count(_: Subject, entry: Entry) -> Iterator[FieldError]:
    """Row 5a: pods are counted in 32 bits."""
    rjob = entry.rjob
    parallelism = 1 if entry.job.parallelism is None else entry.job.parallelism
    if parallelism * rjob.replicas > MAX_INT32:
        yield invalid(
            entry.path.at("replicas"),
            rjob.replicas,
            f"the product of replicas and parallelism must not exceed {MAX_INT32} for replicatedJob '{rjob.name}'",
        )


def group_name(_: Subject, entry: Entry) -> Iterator[FieldError]:
    """Row 5b: the group is a label value."""
    group = entry.rjob.group_name
    too_long = ".spec.replicatedJob[].groupName is too long, must be less than 63 characters"
    yield from _label(entry.path.at("groupName"), group, group, too_long)


def job_names(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Row 5c: the longest Job name."""
    too_long = "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"
    name = _longest_job_name(subject, entry)
    yield from _label(entry.path.at("name"), name, name, too_long)


def pod_names(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Row 5d: the longest pod name. The message shows the Job name, as it always has."""
    if entry.job.completion_mode != "Indexed" or entry.job.completions is None:
        return
    too_long = "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
    rjob = entry.rjob
    pod = pod_base_name(subject.name, rjob.name, rjob.replicas - 1, entry.job.completions - 1) + f"-{POD_SUFFIX}"
    yield from _label(entry.path.at("name"), pod, _longest_job_name(subject, entry), too_long)


def _longest_job_name(subject: Subject, entry: Entry) -> str:
    return job_name(subject.name, entry.rjob.name, entry.rjob.replicas - 1)


def _label(path: Path, text: str, shown: str, too_long: str) -> Iterator[FieldError]:
    for complaint in dns1035_label(text):
        yield invalid(path, shown, too_long if complaint == TOO_LONG_LABEL else complaint)
