"""Name of the managing controller (3.2 row 4)."""

from collections.abc import Iterator

from api.field import SPEC, FieldError, invalid, required, too_long
from api.validation import byte_length, dns1123_subdomain, http_path
from webhooks.jobset.subject import Subject

PATH = SPEC.at("managedBy")
MAX_BYTES = 63


def domain_prefixed_path(subject: Subject) -> Iterator[FieldError]:
    """Rows 4a to 4d (the first that fails of a and b ends them), then 4e."""
    value = subject.js.spec.managed_by
    if value is None:
        return
    yield from _form(value)
    if byte_length(value) > MAX_BYTES:
        yield too_long(PATH, MAX_BYTES)


def _form(value: str) -> Iterator[FieldError]:
    host, _, path = value.partition("/")
    if not value:
        yield required(PATH)
    elif not host or not path:
        yield invalid(PATH, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        for complaint in dns1123_subdomain(host):
            yield invalid(PATH, host, complaint)
        for complaint in http_path(path):
            yield invalid(PATH, path, complaint)
