"""Addresses in commands and variables that belong to no pod of the set. Warnings only. Pure.

See docs/reference/validation.md#addresses.
"""

import re
from collections.abc import Iterator
from functools import partial
from itertools import islice

from api.names import pod_base_name, subdomain
from kube.model.field import FieldError, Path
from kube.model.suggest import nearest
from webhooks.jobset.rules import MAX_FINDINGS, Source
from webhooks.jobset.rules.command_texts import command_words, variable_values
from webhooks.jobset.subject import Entry, Subject
from webhooks.jobset.templates import Container

_NAME = r"[a-z0-9](?:[a-z0-9-]{0,62})"
_HOST = re.compile(
    rf"(?:(?<=://)|(?<![\w.$(){{}}%/@-]))({_NAME})((?:\.{_NAME}){{0,8}})(:\d+)?(?![\w$({{%.-])", re.ASCII
)
"""A host name, perhaps with a port, that is not part of a longer word or a path, nor next to a variable."""
_POD_INDEXES = re.compile(r"(?:(.+)-)?(\d{1,9})-(\d{1,9})", re.ASCII)
_ADDRESS_NAME = re.compile(r"(?i)addr|host|endpoint|coordinator")
"""Names of variables and flags whose value is an address of a pod."""

NO_POD = Source("docs/reference/validation.md#addresses").warning(
    "address-of-no-pod",
    "no pod of this set has the address {address}",
    "{guess}",
)


def check_addresses(subject: Subject) -> Iterator[FieldError]:
    """Findings about addresses with the name of this set that belong to none of its pods."""
    if not subject.js.dns_enabled or not subject.name:
        return
    found = (error for entry in subject.entries_with(subject.name) for error in _check_pod(subject, entry))
    yield from islice(found, MAX_FINDINGS)


def _check_pod(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    for path, container in entry.each_container():
        for text_path, text, value_name in _texts(path, container):
            if subject.name in text:
                yield from _check_text(subject, entry, text_path, text, value_name)


def _check_text(subject: Subject, entry: Entry, text_path: Path, text: str, value_name: str) -> Iterator[FieldError]:
    """Findings about host names in a text, which is the value of the variable or flag `value_name`.

    A host name without a domain counts only with a port, or as the whole value of an address variable.
    """
    has_search_domains = entry.job.template.spec.dns_config is not None
    whole_value = text.rpartition("=")[2] if _ADDRESS_NAME.search(value_name) else ""
    for match in _HOST.finditer(text):
        host, domain_text, port = match.groups()
        if host.startswith(f"{subject.name}-"):
            domain = domain_text[1:].split(".") if domain_text else []
            needs_no_domain = not has_search_domains and (bool(port) or match[0] == whole_value)
            if _is_wrong_address(subject, host, domain, needs_no_domain=needs_no_domain):
                address = match[0].removesuffix(port or "")
                yield NO_POD.at(text_path, text, address=address, guess=partial(_suggestion, subject, host))


def _texts(path: Path, container: Container) -> Iterator[tuple[Path, str, str]]:
    """Texts with their paths, and the name of the variable or flag whose value they are."""
    for text_path, text in variable_values(path, container):
        yield text_path, text, container.env[int(text_path.parts[-2])].name
    last_word = ""
    for text_path, text in command_words(path, container):
        yield text_path, text, f"{last_word} {text[:64].partition('=')[0]}"
        last_word = text[:64]


def _is_wrong_address(subject: Subject, host: str, domain: list[str], *, needs_no_domain: bool) -> bool:
    """Whether an address means a pod of this set, but no pod has this address.

    Names of other Services and sets are ignored. `needs_no_domain`: a host name without a domain counts as an address.
    """
    if domain[1:2] == ["svc"]:
        return False
    namespace = subject.js.metadata.namespace
    if namespace and domain[1:] and domain[1] != namespace:
        return False
    is_pod = _has_pod(subject, host)
    if not domain:
        return needs_no_domain and is_pod
    if domain[0] == subdomain(subject.js):
        return not is_pod and _is_like_pod(subject, host)
    return is_pod and (domain[0].startswith(subject.name) or domain[0] in subject.entries_by_name)


def _has_pod(subject: Subject, host: str) -> bool:
    match = _POD_INDEXES.fullmatch(host[len(subject.name) + 1 :])
    entry = subject.entries_by_name.get(match[1] or "") if match else None
    if match is None or entry is None or entry.job.completion_mode == "NonIndexed":
        return False
    job, pod = match[2], match[3]
    has_no_leading_zeros = str(int(job)) == job and str(int(pod)) == pod
    return has_no_leading_zeros and int(job) < entry.rjob.replicas and int(pod) < (entry.job.completions or 1)


def _is_like_pod(subject: Subject, host: str) -> bool:
    """Whether a host name has the form of a name of a pod or of a Job."""
    tail = host[len(subject.name) + 1 :]
    name, _, index = tail.rpartition("-")
    return _POD_INDEXES.fullmatch(tail) is not None or (name in subject.entries_by_name and index.isdigit())


def _suggestion(subject: Subject, host: str) -> str:
    pods = {
        pod_base_name(subject.name, entry.rjob.name, 0, 0): entry
        for entry in subject.entries
        if entry.rjob.replicas and entry.job.completion_mode != "NonIndexed"
    }
    own_subdomain = subdomain(subject.js)
    if host in pods or _has_pod(subject, host):
        return f"write {host}.{own_subdomain}"
    pod_name = nearest(host, pods) or next(iter(pods), "")
    return f"did you mean {pod_name}.{own_subdomain}?" if pod_name else "only pods of Indexed Jobs have addresses"
