"""Messages about logs that cannot be read, one for each cause, since an unreachable kubelet has many pods. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jobset_client.words import count_noun

_KUBELET_ERROR = re.compile(r'Get "https?://(?P<host>[^/"]+?)(?::\d+)?/containerLogs[^"]*": (?P<reason>.*)', re.DOTALL)
"""The API server's message if it does not reach a kubelet."""


class UnreadLog(NamedTuple):
    """A log that cannot be read.

    - `prefix`: the text that its lines would begin with, as in `[JOB/INDEX CONTAINER]`.
    - `host`: the node whose kubelet the API server does not reach; empty for other causes.
    """

    prefix: str
    reason: str
    host: str = ""

    @property
    def cause(self) -> str:
        """A key that is equal for logs with the same cause."""
        return "kubelet" if self.host else self.reason


def unread_log(prefix: str, refusal: str) -> UnreadLog:
    """The `UnreadLog` for the API server's message `refusal`."""
    match = _KUBELET_ERROR.fullmatch(refusal)
    return UnreadLog(prefix, match["reason"], match["host"]) if match else UnreadLog(prefix, refusal)


def unread_log_messages(logs: Iterable[UnreadLog]) -> Iterator[str]:
    """One message for each cause, about the first log with this cause."""
    logs_by_cause: dict[str, list[UnreadLog]] = {}
    for log in logs:
        logs_by_cause.setdefault(log.cause, []).append(log)
    for same_cause in logs_by_cause.values():
        first, more_logs = same_cause[0], len(same_cause) - 1
        subject = f"{first.prefix} and {more_logs} more have" if more_logs else f"{first.prefix} has"
        if not first.host:
            yield f"{subject} no log: {first.reason}"
            continue
        more_hosts = len({log.host for log in same_cause}) - 1
        kubelets = f"neither that of {first.host} nor those of {count_noun(more_hosts, 'more node')}"
        result = f"reaches {kubelets}" if more_hosts else f"does not reach that of {first.host}"
        yield (
            f"{subject} no log, which the kubelet keeps: the API server {result}: {first.reason}; a node that is down"
            " gives none, and a fake one (jobset demo) has none"
        )
