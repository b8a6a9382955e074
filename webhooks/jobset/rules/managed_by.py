"""Name of the managing controller, of the JobSet and of its Jobs.

See docs/reference/validation.md#managedby.
"""

from collections.abc import Iterator

from api.keys import JOB_CONTROLLER
from kube.model.field import SPEC, ErrorType, FieldError
from kube.model.validation import byte_length, dns1123_subdomain, http_path
from webhooks.jobset.rules import Source
from webhooks.jobset.subject import Entry, Subject

PATH = SPEC.at("managedBy")
MAX_BYTES = 63

_FIX = "leave it out for this controller, or name another one like kueue.x-k8s.io/multikueue"
_DOCS = Source("docs/reference/validation.md#managedby")
EMPTY = _DOCS.error("managed-by-empty", "", _FIX, ErrorType.REQUIRED)
FORM = _DOCS.error("managed-by-form", 'must be a domain-prefixed path (such as "acme.io/foo")', _FIX)
PART = _DOCS.error("managed-by-part", "{complaint}", _FIX)
TOO_LONG = _DOCS.error(
    "managed-by-length",
    f"may not be more than {MAX_BYTES} bytes",
    "shorten it by {excess} bytes",
    ErrorType.TOO_LONG,
)


JOBS = _DOCS.warning(
    "managed-by-of-jobs",
    "Jobs are left to {name}, not the Job controller",
    "remove it, or set spec.managedBy for the whole set",
)


def jobs(_: Subject, entry: Entry) -> Iterator[FieldError]:
    """A Job that is left to another controller than Kubernetes' own."""
    name = entry.job.managed_by
    if name and name != JOB_CONTROLLER and entry.rjob.replicas:
        yield JOBS.at(entry.job_path.at("managedBy"), name, name=name)


def domain_prefixed_path(subject: Subject) -> Iterator[FieldError]:
    """Form and length; of one that is empty or lacks a part nothing more is said about the form."""
    value = subject.js.spec.managed_by
    if value is None:
        return
    yield from _form(value)
    if byte_length(value) > MAX_BYTES:
        yield TOO_LONG.at(PATH, excess=byte_length(value) - MAX_BYTES)


def _form(value: str) -> Iterator[FieldError]:
    host, _, path = value.partition("/")
    if not value:
        yield EMPTY.at(PATH)
    elif not host or not path:
        yield FORM.at(PATH, value)
    else:
        for complaint in dns1123_subdomain(host):
            yield PART.at(PATH, host, complaint=complaint)
        for complaint in http_path(path):
            yield PART.at(PATH, path, complaint=complaint)
