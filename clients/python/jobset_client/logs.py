"""Reads the logs of the pods of a JobSet, starting with the container that failed first. Without IO."""

from dataclasses import dataclass

from jobset_client.core import Call, Emit, Emitter, Operation, ask, path, send
from jobset_client.errors import ApiError, ForbiddenError, RefusedError
from jobset_client.log_order import Log, LogPod, log_pod, pods_of_attempt, prefix, selector
from jobset_client.log_order import logs as ordered_logs
from jobset_client.models import JobSet
from jobset_client.states import title
from jobset_client.watching import PAGE
from jobset_client.words import count_noun, did_you_mean

MAX_PODS = 10_000
"""Largest number of pods that are read to find the pods that failed first."""
MAX_LOGS = 100
"""Largest number of logs that one call returns."""
MAX_BYTES = 4 << 20
"""Bytes after which the API server cuts a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLog:
    """The log of one container. `missing`: the reason why there is no text, or empty."""

    pod: str
    job: str
    index: str
    """Completion index; empty for a pod without one."""
    container: str
    text: str = ""
    missing: str = ""

    def __str__(self) -> str:
        """The log, in which each line begins with `[JOB/INDEX CONTAINER]`."""
        line_prefix = prefix(self.pod, self.job, self.index, self.container)
        if self.missing:
            return f"{line_prefix} has no log: {self.missing}"
        return "\n".join(f"{line_prefix} {line}" for line in self.text.removesuffix("\n").split("\n"))


def logs(js: JobSet, *, job: str, container: str, attempt: int | None, tail: int | None) -> Emitter[PodLog]:
    """Emit one log after the other, so that only one log is in memory. Raises `RefusedError` without logs."""
    pods = yield from _list_pods(js, job)
    attempt_pods = pods_of_attempt(js, pods, job, attempt)
    chosen_logs = ordered_logs(attempt_pods, container)
    if not chosen_logs:
        problem = f"no container {container}" if container else "no container that has been created yet"
        names = [each.name for pod in attempt_pods for each in pod.containers]
        if container and (guess := did_you_mean(container, names)):
            raise RefusedError(f"{title(js)}: {problem} in its pods; {guess}")
        raise RefusedError(f"{title(js)}: {problem} in its pods; explain({js.metadata.name!r}) says more")
    for log in chosen_logs[:MAX_LOGS]:
        yield Emit((yield from _read_log(js, log, tail)))
    if len(chosen_logs) > MAX_LOGS:
        hidden_logs = f"{count_noun(len(chosen_logs) - MAX_LOGS, 'more container')}: job=... gives those of one Job"
        yield Emit(PodLog(pod="...", job="", index="", container="...", missing=hidden_logs))


def _read_log(js: JobSet, log: Log, tail: int | None) -> Operation[PodLog]:
    fields = {"pod": log.pod, "job": log.job, "index": log.index, "container": log.container}
    if log.wait_reason:
        return PodLog(**fields, missing=f"it has not started: {log.wait_reason}")
    query = [("container", log.container), ("limitBytes", str(MAX_BYTES))]
    query += [] if tail is None else [("tailLines", str(tail))]
    url_path = f"/api/v1/namespaces/{path(js.metadata.namespace or '', 'pods', log.pod, 'log')}"
    task = f"get the log of pod {log.pod}"
    try:
        answer = yield from send(
            Call(method="GET", path=url_path, query=tuple(query), task=task, max_bytes=MAX_BYTES * 2)
        )
    except ForbiddenError:
        raise
    except ApiError as error:
        return PodLog(**fields, missing=str(error))
    return PodLog(**fields, text=answer.body.decode("utf-8", "replace"))


def _list_pods(js: JobSet, job: str) -> Operation[list[LogPod]]:
    """The pods of the JobSet, or of one of its Jobs, as records with the needed fields."""
    url_path = f"/api/v1/namespaces/{path(js.metadata.namespace or '')}/pods"
    task = f"list the pods of {title(js)}"
    pods: list[LogPod] = []
    token = ""
    while len(pods) < MAX_PODS:
        query = (("labelSelector", selector(js, job)), ("limit", str(PAGE)), *([("continue", token)] if token else []))
        page = yield from ask(Call(method="GET", path=url_path, query=query, task=task))
        pods += [log_pod(body.get("metadata") or {}, body.get("status") or {}) for body in page.get("items") or []]
        token = (page.get("metadata") or {}).get("continue") or ""
        if not token:
            break
    return pods
