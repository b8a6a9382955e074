"""Formats that the API server requires of texts in a Job, with its messages. Pure.

The formats of names and labels are in `kube.model.validation`. Each function returns a list of messages, empty if the
text is valid.
"""

import ipaddress
import re

from kube.model.validation import (
    DNS1123_LABEL_FORMAT,
    MAX_SUBDOMAIN,
    QUALIFIED_NAME_FORMAT,
    byte_length,
    dns1123_label,
    dns1123_subdomain,
    qualified_name,
)

_PORT_NAME = re.compile(r"[-a-z0-9]+")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_SEARCH_LABEL = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_SEARCH_FORMAT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start"
    " and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    r" '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
)
_MAX_PORT_NAME = 15


def label_key(key: str) -> list[str]:
    """Key of a label, an annotation or a taint; type of a condition; name of a scheduling gate."""
    if key.count("/") > 1:
        domain = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {QUALIFIED_NAME_FORMAT} {domain}"]
    complaints = qualified_name(key)
    return complaints if key and not key.endswith("/") else [*complaints, f"name part {QUALIFIED_NAME_FORMAT}"]


def label(name: str) -> list[str]:
    """Name of a container, a volume, a host: a DNS label."""
    complaints = dns1123_label(name)
    if "." not in name or dns1123_subdomain(name):
        return complaints
    return ["must not contain dots" if complaint == DNS1123_LABEL_FORMAT else complaint for complaint in complaints]


def port_name(name: str) -> list[str]:
    complaints = []
    if byte_length(name) > _MAX_PORT_NAME:
        complaints.append(f"must be no more than {_MAX_PORT_NAME} characters")
    if not _PORT_NAME.fullmatch(name):
        complaints.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in name):
        complaints.append("must contain at least one letter (a-z)")
    if "--" in name:
        complaints.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        complaints.append("must not begin or end with a hyphen")
    return complaints


def variable_name(name: str) -> list[str]:
    """Name of an environment variable, or the prefix of such names."""
    if all(" " <= char <= "~" and char != "=" for char in name):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def config_key(key: str) -> list[str]:
    """Key of a ConfigMap or Secret."""
    complaints = [f"must be no more than {MAX_SUBDOMAIN} characters"] if byte_length(key) > MAX_SUBDOMAIN else []
    if not _CONFIG_KEY.fullmatch(key):
        complaints.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or"
            " 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
    if key in {".", ".."}:
        complaints.append(f"must not be '{key}'")
    elif key.startswith(".."):
        complaints.append("must not start with '..'")
    return complaints


def header_name(name: str) -> list[str]:
    """Name of an HTTP header."""
    if _HEADER.fullmatch(name):
        return []
    example = "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
    return [f"a valid HTTP header must consist of alphanumeric characters or '-' {example}"]


def ip_address(address: str) -> list[str]:
    """An address of IPv4 or IPv6 without a zone."""
    plain = ".".join(part.lstrip("0") or part[:1] for part in address.split("."))
    try:
        if ":" in address and "%" not in address:
            ipaddress.IPv6Address(address)
            return []
        ipaddress.IPv4Address(plain)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return [] if plain == address else ["must not have leading 0s"]


def search_domain(domain: str) -> list[str]:
    """A search domain of DNS. Its labels may contain underscores; the domain may end with a dot, or be only a dot."""
    if domain == "." or all(map(_SEARCH_LABEL.fullmatch, domain.removesuffix(".").split("."))):
        return []
    return [_SEARCH_FORMAT]


def no_parent_folder(path: str) -> list[str]:
    """A path that does not leave its base folder."""
    return ["must not contain '..'"] if ".." in path.split("/") else []


def relative_path(path: str) -> list[str]:
    """A relative path that does not leave its base folder."""
    return [*(["must be a relative path"] if path.startswith("/") else []), *no_parent_folder(path)]


def file_in_volume(path: str) -> list[str]:
    """A path of a file in a volume, which must not begin like the names that the kubelet creates."""
    reserved = path.startswith("..") and not path.startswith("../")
    return [*relative_path(path), *(["must not start with '..'"] if reserved and path != ".." else [])]
