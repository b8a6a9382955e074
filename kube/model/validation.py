"""Formats that Kubernetes requires of names and label values, with its messages.

See docs/reference/validation.md#forms-of-names.

Each function returns a list of messages, empty if the text is valid. Lengths are in UTF-8 bytes.
"""

import re

_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS1123_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS1123_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_HTTP_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")

MAX_LABEL = 63
MAX_SUBDOMAIN = 253

TOO_LONG_LABEL = "must be no more than 63 characters"
"""The message about the length of a DNS label, which callers may replace by a more helpful message."""

DNS1035_FORMAT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    " '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
DNS1123_LABEL_FORMAT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
DNS1123_SUBDOMAIN_FORMAT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_VALUE_FORMAT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
QUALIFIED_NAME_FORMAT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    " (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
HTTP_PATH_FORMAT = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"


def byte_length(text: str) -> int:
    """Length as the API server counts it."""
    return len(text.encode())


def dns1035_label(text: str) -> list[str]:
    """Name of a Service, a group, or a Job whose name is part of DNS names."""
    return _complaints(text, _DNS1035, DNS1035_FORMAT, TOO_LONG_LABEL, MAX_LABEL)


def dns1123_label(text: str) -> list[str]:
    """Name of a volume claim template."""
    return _complaints(text, _DNS1123_LABEL, DNS1123_LABEL_FORMAT, TOO_LONG_LABEL, MAX_LABEL)


def dns1123_subdomain(text: str) -> list[str]:
    """Name of an object of most kinds; host part of a domain-prefixed path."""
    long_message = f"must be no more than {MAX_SUBDOMAIN} characters"
    return _complaints(text, _DNS1123_SUBDOMAIN, DNS1123_SUBDOMAIN_FORMAT, long_message, MAX_SUBDOMAIN)


def label_value(text: str) -> list[str]:
    """Value of a label; may be empty."""
    return _complaints(text, _LABEL_VALUE, LABEL_VALUE_FORMAT, f"must be no more than {MAX_LABEL} bytes", MAX_LABEL)


def qualified_name(text: str) -> list[str]:
    """Key of a label, an annotation or a topology: a name, after an optional domain and a slash."""
    domain, slash, name = text.rpartition("/")
    complaints = []
    if slash:
        domain_complaints = dns1123_subdomain(domain) if domain else ["must be non-empty"]
        complaints = [f"prefix part {complaint}" for complaint in domain_complaints]
    if not name:
        return [*complaints, "name part must be non-empty"]
    long_message = f"name part must be no more than {MAX_LABEL} bytes"
    format_message = f"name part {QUALIFIED_NAME_FORMAT}"
    return complaints + _complaints(name, _LABEL_VALUE, format_message, long_message, MAX_LABEL)


def as_label(text: str) -> str:
    """The text changed into a DNS-1035 label; empty if nothing of it can be kept."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower())[: MAX_LABEL + 1]
    return re.sub(r"^[^a-z]+", "", plain)[:MAX_LABEL].rstrip("-")


def http_path(text: str) -> list[str]:
    """Path part of a domain-prefixed path."""
    return [] if _HTTP_PATH.fullmatch(text) else [HTTP_PATH_FORMAT]


def _complaints(text: str, form: re.Pattern[str], form_message: str, long_message: str, limit: int) -> list[str]:
    complaints = [long_message] if byte_length(text) > limit else []
    return complaints if form.fullmatch(text) else [*complaints, form_message]
