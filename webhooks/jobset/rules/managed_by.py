"""Names of the controllers that manage the JobSet and its Jobs, and copies by MultiKueue.

See docs/reference/validation.md#managedby.
"""

from collections.abc import Iterator

from api.keys import JOB_CONTROLLER, MULTIKUEUE, MULTIKUEUE_ORIGIN, OWN_FIELDS_COPY, QUEUE_NAME
from api.own_fields import own_field_locations
from kube.model.field import SPEC, ErrorType, FieldError, Path
from kube.model.validation import byte_length, dns1123_subdomain, http_path
from webhooks.jobset.copies import ANNOTATION, MAX_BYTES, first_difference, own_values, read_values
from webhooks.jobset.rules import Source
from webhooks.jobset.subject import Entry, Subject
from webhooks.work import Work

PATH = SPEC.at("managedBy")
MAX_MANAGER_BYTES = 63

_FIX = "leave it out for this controller, or name another one like kueue.x-k8s.io/multikueue"
_DOCS = Source("docs/reference/validation.md#managedby")
EMPTY = _DOCS.error("managed-by-empty", "", _FIX, ErrorType.REQUIRED)
FORM = _DOCS.error("managed-by-form", 'must be a domain-prefixed path (such as "acme.io/foo")', _FIX)
PART = _DOCS.error("managed-by-part", "{complaint}", _FIX)
TOO_LONG = _DOCS.error(
    "managed-by-length",
    f"may not be more than {MAX_MANAGER_BYTES} bytes",
    "shorten it by {excess} bytes",
    ErrorType.TOO_LONG,
)


JOBS = _DOCS.warning(
    "managed-by-of-jobs",
    "Jobs are left to {name}, not the Job controller",
    "remove it, or set spec.managedBy for the whole set",
)
_COPIES = Source("docs/reference/validation.md#copies-in-worker-clusters")
DROPPED = _COPIES.warning(
    "multikueue-drops-field",
    "worker clusters with the Go JobSet drop it: {happens}",
    "run this controller there",
)
NOT_SENT = _COPIES.error(
    "multikueue-own-fields",
    "MultiKueue copies no field that the Go JobSet lacks, and annotation {key} does not carry {place}",
    f"set this, or the label {QUEUE_NAME}, in the manifest, and keep such fields below {MAX_BYTES // 1024} KiB",
    ErrorType.FORBIDDEN,
)
ALTERED = _COPIES.error(
    "own-fields-altered",
    "does not say what the spec says: {place}",
    "remove the annotation, or create the JobSet as MultiKueue has copied it",
    ErrorType.FORBIDDEN,
)


def check_copied_fields(subject: Subject) -> Iterator[FieldError]:
    """Findings about fields that the Go JobSet does not have, in a set that MultiKueue copies, or in a copy."""
    labels, annotations = subject.js.metadata.labels, subject.js.metadata.annotations
    is_sent = subject.js.spec.managed_by == MULTIKUEUE
    if not is_sent and not (MULTIKUEUE_ORIGIN in labels and OWN_FIELDS_COPY in annotations):
        return
    sent_values, spec_values = read_values(annotations.get(OWN_FIELDS_COPY)), own_values(subject.raw_spec, Work())
    difference = (
        first_difference(spec_values, sent_values or {}) if is_sent else first_difference(sent_values, spec_values)
    )
    if difference is not None:
        rule, path = (NOT_SENT, PATH) if is_sent else (ALTERED, ANNOTATION)
        yield rule.at(path, place=difference, key=OWN_FIELDS_COPY)
    elif is_sent:
        path_by_effect: dict[str, Path] = {}
        for _, field_path, field, value in own_field_locations(subject.raw_spec):
            if field.changes_behavior(value):
                path_by_effect.setdefault(field.effect_of_loss, field_path)
        yield from (DROPPED.at(path, happens=effect) for effect, path in path_by_effect.items())


def check_jobs(_: Subject, entry: Entry) -> Iterator[FieldError]:
    """A finding about Jobs that another controller than the Job controller of Kubernetes manages."""
    name = entry.job.managed_by
    if name and name != JOB_CONTROLLER and entry.rjob.replicas:
        yield JOBS.at(entry.job_path.at("managedBy"), name, name=name)


def check_manager_name(subject: Subject) -> Iterator[FieldError]:
    """Check the form and the length of managedBy."""
    value = subject.js.spec.managed_by
    if value is None:
        return
    yield from _check_form(value)
    if byte_length(value) > MAX_MANAGER_BYTES:
        yield TOO_LONG.at(PATH, excess=byte_length(value) - MAX_MANAGER_BYTES)


def _check_form(value: str) -> Iterator[FieldError]:
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
