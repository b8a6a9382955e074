"""Why logs cannot be read, each cause once: an unreachable kubelet has many pods. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jobset_client.words import count_noun

_KUBELET = re.compile(r'Get "https?://(?P<host>[^/"]+?)(?::\d+)?/containerLogs[^"]*": (?P<why>.*)', re.DOTALL)
"""The API server's message when it does not reach a kubelet."""


class Unread(NamedTuple):
    """A log that cannot be read: the prefix of its lines, and why.

    `host`: the node whose kubelet is not reached; empty for other causes.
    """

    prefix: str
    why: str
    host: str = ""

    @property
    def cause(self) -> str:
        """A key that is equal for logs with the same cause."""
        return "kubelet" if self.host else self.why


def unread_log(prefix: str, refusal: str) -> Unread:
    """A log that the API server could not read, with this message."""
    found = _KUBELET.fullmatch(refusal)
    return Unread(prefix, found["why"], found["host"]) if found else Unread(prefix, refusal)


def reasons(logs: Iterable[Unread]) -> Iterator[str]:
    """One line for each cause, by the first log that has it."""
    causes: dict[str, list[Unread]] = {}
    for each in logs:
        causes.setdefault(each.cause, []).append(each)
    for those in causes.values():
        first, more = those[0], len(those) - 1
        subject = f"{first.prefix} and {more} more have" if more else f"{first.prefix} has"
        if not first.host:
            yield f"{subject} no log: {first.why}"
            continue
        hosts = len({each.host for each in those}) - 1
        nodes = f"neither that of {first.host} nor those of {count_noun(hosts, 'more node')}"
        reached = f"reaches {nodes}" if hosts else f"does not reach that of {first.host}"
        yield (
            f"{subject} no log, which the kubelet keeps: the API server {reached}: {first.why}; a node that is down"
            " gives none, and a fake one (jobset demo) has none"
        )
