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
from webhooks.jobset.rules.command_texts import values, words
from webhooks.jobset.subject import Container, Entry, Subject

_NAME = r"[a-z0-9](?:[a-z0-9-]{0,62})"
_HOST = re.compile(
    rf"(?:(?<=://)|(?<![\w.$(){{}}%/@-]))({_NAME})((?:\.{_NAME}){{0,8}})(:\d+)?(?![\w$({{%.-])", re.ASCII
)
"""A host name and a port, not as a part of a longer word, of a path, or beside a variable."""
_OF_POD = re.compile(r"(?:(.+)-)?(\d{1,9})-(\d{1,9})", re.ASCII)
_PEER = re.compile(r"(?i)addr|host|endpoint|coordinator")
"""Names of variables and flags whose value is an address."""

NO_POD = Source("docs/reference/validation.md#addresses").warning(
    "address-of-no-pod",
    "no pod of this set has the address {address}",
    "{guess}",
)


def check_addresses(js: Subject) -> Iterator[FieldError]:
    """Findings about addresses with the name of this set that belong to none of its pods."""
    if not js.js.dns_enabled or not js.name:
        return
    yield from islice((error for entry in js.entries for error in _check_pod(js, entry)), MAX_FINDINGS)


def _check_pod(js: Subject, entry: Entry) -> Iterator[FieldError]:
    for path, container in entry.each_container():
        for text_path, text, subject in _texts(path, container):
            if js.name in text:
                yield from _check_text(js, entry, text_path, text, subject)


def _check_text(js: Subject, entry: Entry, text_path: Path, text: str, subject: str) -> Iterator[FieldError]:
    """Names in a text. One without a domain counts only with a port, or as the whole value of an address variable."""
    completes = entry.job.template.spec.dns_config is not None
    peer = text.rpartition("=")[2] if _PEER.search(subject) else ""
    for found in _HOST.finditer(text):
        if found[1].startswith(f"{js.name}-"):
            domain = found[2][1:].split(".") if found[2] else []
            bare = not completes and (bool(found[3]) or found[0] == peer)
            if _is_missing(js, found[1], domain, bare=bare):
                address = found[0].removesuffix(found[3] or "")
                yield NO_POD.at(text_path, text, address=address, guess=partial(_suggestion, js, found[1]))


def _texts(path: Path, container: Container) -> Iterator[tuple[Path, str, str]]:
    """Texts with their paths, and the variable or flag that they belong to."""
    for text_path, text in values(path, container):
        yield text_path, text, container.env[int(text_path.parts[-2])].name
    last = ""
    for text_path, text in words(path, container):
        yield text_path, text, f"{last} {text[:64].partition('=')[0]}"
        last = text[:64]


def _is_missing(js: Subject, host: str, domain: list[str], *, bare: bool) -> bool:
    """Whether a name means a pod of this set that does not exist. Names of other Services and sets are ignored."""
    if domain[1:2] == ["svc"]:
        return False
    namespace = js.js.metadata.namespace
    if namespace and domain[1:] and domain[1] != namespace:
        return False
    is_pod = _has_pod(js, host)
    if not domain:
        return bare and is_pod
    if domain[0] == subdomain(js.js):
        return not is_pod and _is_like_pod(js, host)
    return is_pod and (domain[0].startswith(js.name) or domain[0] in js.by_name)


def _has_pod(js: Subject, host: str) -> bool:
    found = _OF_POD.fullmatch(host[len(js.name) + 1 :])
    entry = js.by_name.get(found[1] or "") if found else None
    if found is None or entry is None or entry.job.completion_mode == "NonIndexed":
        return False
    job, pod = found[2], found[3]
    plain = str(int(job)) == job and str(int(pod)) == pod
    return plain and int(job) < entry.rjob.replicas and int(pod) < (entry.job.completions or 1)


def _is_like_pod(js: Subject, host: str) -> bool:
    """Whether it has the form of a pod's name, or of a Job's."""
    tail = host[len(js.name) + 1 :]
    name, _, index = tail.rpartition("-")
    return _OF_POD.fullmatch(tail) is not None or (name in js.by_name and index.isdigit())


def _suggestion(js: Subject, host: str) -> str:
    pods = {
        pod_base_name(js.name, entry.rjob.name, 0, 0): entry
        for entry in js.entries
        if entry.rjob.replicas and entry.job.completion_mode != "NonIndexed"
    }
    own = subdomain(js.js)
    if host in pods or _has_pod(js, host):
        return f"write {host}.{own}"
    close = nearest(host, pods) or next(iter(pods), "")
    return f"did you mean {close}.{own}?" if close else "only pods of Indexed Jobs have addresses"
