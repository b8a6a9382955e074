"""Says why logs cannot be read, each cause once: a kubelet that is away has many pods. Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jobset_client.words import count_noun

_KUBELET = re.compile(r'Get "https?://(?P<host>[^/"]+?)(?::\d+)?/containerLogs[^"]*": (?P<why>.*)', re.DOTALL)
"""What the API server says when it does not reach a kubelet."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A log that there is not: how its lines would begin, and what the API server says."""

    prefix: str
    said: str

    @property
    def cause(self) -> str:
        """The same for all that cannot be read for one reason."""
        return "kubelet" if self._kubelet else self.said

    @property
    def host(self) -> str:
        """The node whose kubelet is not reached; empty for other causes."""
        return self._kubelet["host"] if self._kubelet else ""

    @property
    def why(self) -> str:
        """The cause in words."""
        return self._kubelet["why"] if self._kubelet else self.said

    @property
    def _kubelet(self) -> re.Match[str] | None:
        return _KUBELET.fullmatch(self.said)


def reasons(unread: Iterable[Unread]) -> Iterator[str]:
    """One line for each cause, by the first log that has it."""
    causes: dict[str, list[Unread]] = {}
    for each in unread:
        causes.setdefault(each.cause, []).append(each)
    for those in causes.values():
        first, more = those[0], len(those) - 1
        who = f"{first.prefix} and {more} more have" if more else f"{first.prefix} has"
        if not first.host:
            yield f"{who} no log: {first.why}"
            continue
        hosts = len({each.host for each in those}) - 1
        nodes = f"neither that of {first.host} nor those of {count_noun(hosts, 'more node')}"
        reached = f"reaches {nodes}" if hosts else f"does not reach that of {first.host}"
        yield (
            f"{who} no log, which the kubelet keeps: the API server {reached}: {first.why}; a node that is down gives"
            " none, and a fake one (jobset demo) has none"
        )
