"""Logs of the pods of a JobSet, the container that failed first at the top. Without IO."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobset_client.core import Call, Emit, Operation, ask, path, send
from jobset_client.errors import ApiError, ForbiddenError, RefusedError
from jobset_client.models import JobSet
from jobset_client.states import title
from jobset_client.watching import PAGE
from jobset_client.words import count_noun, did_you_mean

MOST_PODS = 10_000
"""Pods that are looked at, to find those that failed first."""
MOST_LOGS = 100
"""Logs that one call gives."""
MOST_BYTES = 4 << 20
"""Bytes of one log; the API server cuts the rest."""
_UID = "jobset.sigs.k8s.io/jobset-uid"
_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
_JOB = "batch.kubernetes.io/job-name"
_INDEX = "batch.kubernetes.io/job-completion-index"
_GLOBAL = "jobset.sigs.k8s.io/job-global-index"
_NEVER, _LAST = "9999", "9999-"
"""Behind every time of RFC 3339: containers that failed at a time that is not known; those that did not fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLog:
    """What one container has written. `missing` says why there is no text; else it is empty."""

    pod: str
    job: str
    index: str
    """Completion index; empty for a pod without one."""
    container: str
    text: str = ""
    missing: str = ""

    def __str__(self) -> str:
        """Each line with `[JOB/INDEX CONTAINER]` before it."""
        who = f"[{f'{self.job}/{self.index}' if self.job and self.index else self.pod} {self.container}]"
        if self.missing:
            return f"{who} has no log: {self.missing}"
        return "\n".join(f"{who} {line}" for line in self.text.removesuffix("\n").split("\n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Whose logs. Empty: all Jobs, all containers. `attempt` None: the latest with pods. `tail` None: all lines."""

    job: str = ""
    container: str = ""
    attempt: int | None = None
    tail: int | None = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pod:
    name: str
    job: str
    index: str
    global_index: int
    attempt: int
    failed_at: str
    containers: tuple["_Container", ...]
    names: tuple[str, ...]
    """Of all its containers, whether they are shown or not."""


@dataclass(frozen=True, slots=True)
class _Container:
    """`failed_at`: when it failed, now or before its last start, or empty. `waits`: why it has not begun, or empty."""

    name: str
    failed_at: str
    waits: str


def logs(js: JobSet, wanted: Wanted) -> Operation[None]:
    """Emit one log after the other, so that one at a time is kept. Raises `RefusedError` if there is none."""
    pods = yield from _pods(js, wanted)
    chosen = _of_attempt(js, pods, wanted)
    shown = [(pod, status) for pod in sorted(chosen, key=_place) for status in sorted(pod.containers, key=_when)]
    if not shown:
        problem = f"no container {wanted.container}" if wanted.container else "no container that has been created yet"
        if wanted.container and (
            names := did_you_mean(wanted.container, [name for pod in chosen for name in pod.names])
        ):
            raise RefusedError(f"{title(js)}: {problem} in its pods; {names}")
        raise RefusedError(f"{title(js)}: {problem} in its pods; explain({js.metadata.name!r}) says more")
    for pod, container in shown[:MOST_LOGS]:
        yield Emit((yield from _log(js, pod, container, wanted.tail)))
    if len(shown) > MOST_LOGS:
        left = f"{count_noun(len(shown) - MOST_LOGS, 'more container')}: job=... gives those of one Job"
        yield Emit(PodLog(pod="...", job="", index="", container="...", missing=left))


def _log(js: JobSet, pod: _Pod, container: _Container, tail: int | None) -> Operation[PodLog]:
    who = {"pod": pod.name, "job": pod.job, "index": pod.index, "container": container.name}
    if container.waits:
        return PodLog(**who, missing=f"it has not started: {container.waits}")
    query = [("container", container.name), ("limitBytes", str(MOST_BYTES))]
    query += [] if tail is None else [("tailLines", str(tail))]
    place = f"/api/v1/namespaces/{path(js.metadata.namespace or '', 'pods', pod.name, 'log')}"
    task = f"get the log of pod {pod.name}"
    try:
        answer = yield from send(Call(method="GET", path=place, query=tuple(query), task=task, most=MOST_BYTES * 2))
    except ForbiddenError:
        raise
    except ApiError as error:
        return PodLog(**who, missing=str(error))
    return PodLog(**who, text=answer.body.decode("utf-8", "replace"))


def _pods(js: JobSet, wanted: Wanted) -> Operation[list[_Pod]]:
    """The pods of the set, or of one Job of it; of each only what is needed is kept."""
    labels = f"{_UID}={js.metadata.uid}" + (f",{_JOB}={wanted.job}" if wanted.job else "")
    place = f"/api/v1/namespaces/{path(js.metadata.namespace or '')}/pods"
    found: list[_Pod] = []
    token = ""
    while len(found) < MOST_PODS:
        query = [("labelSelector", labels), ("limit", str(PAGE)), *([("continue", token)] if token else [])]
        page = yield from ask(Call(method="GET", path=place, query=tuple(query), task=f"list the pods of {title(js)}"))
        found += [_pod(body, wanted.container) for body in page.get("items") or []]
        token = (page.get("metadata") or {}).get("continue") or ""
        if not token:
            break
    return found


def _of_attempt(js: JobSet, pods: Sequence[_Pod], wanted: Wanted) -> Sequence[_Pod]:
    attempt = max((pod.attempt for pod in pods), default=0) if wanted.attempt is None else wanted.attempt
    chosen = [pod for pod in pods if pod.attempt == attempt]
    if chosen:
        return chosen
    owner = f"Job {wanted.job} of {title(js)}" if wanted.job else title(js)
    problem = f"there are no pods of {owner}" + ("" if wanted.attempt is None else f" of attempt {attempt}")
    last = js.status.attempt_history[-1:]
    known = "".join(
        f"; attempt {end.attempt} failed in pod {end.pod} on node {end.node or 'unknown'}, exit code {end.exit_code}"
        for end in last
        if end.pod
    )
    raise RefusedError(f"{problem}: logs go with their pods, and pods of earlier attempts are deleted{known}")


def _pod(body: Mapping[str, Any], wanted: str) -> _Pod:
    metadata = body.get("metadata") or {}
    labels = metadata.get("labels") or {}
    every = list(_containers(body.get("status") or {}))
    failures = [status.failed_at for status, _ in every if status.failed_at]
    # Of init containers only those that have not succeeded, unless one is asked for by name.
    shown = tuple(status for status, succeeded in every if status.name == wanted or not (wanted or succeeded))
    return _Pod(
        name=metadata.get("name") or "",
        job=labels.get(_JOB) or "",
        index=labels.get(_INDEX) or "",
        global_index=_number(labels.get(_GLOBAL) or ""),
        attempt=_number(labels.get(_ATTEMPT) or ""),
        failed_at=min(failures, default=""),
        containers=shown,
        names=tuple(status.name for status, _ in every),
    )


def _containers(status: Mapping[str, Any]) -> Iterator[tuple[_Container, bool]]:
    """Each container, and whether it is an init container that has succeeded."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or []:
            now = container.get("state") or {}
            ended = now.get("terminated")
            succeeded = kind == "initContainerStatuses" and ended is not None and not ended.get("exitCode")
            yield _container(container.get("name") or "", now, container.get("lastState") or {}), succeeded


def _container(name: str, now: Mapping[str, Any], last: Mapping[str, Any]) -> _Container:
    ends = [state.get("terminated") for state in (last, now)]
    failed = next((end.get("finishedAt") or _NEVER for end in ends if end and end.get("exitCode")), "")
    waiting = now.get("waiting")
    waits = "" if waiting is None or last.get("terminated") else waiting.get("reason") or "Waiting"
    return _Container(name, failed, waits)


def _when(container: _Container) -> str:
    return container.failed_at or _NEVER


def _place(pod: _Pod) -> tuple[str, int, int, str]:
    """By the time of its first failure, then by Job and index."""
    return pod.failed_at or _LAST, pod.global_index, _number(pod.index), pod.name


def _number(text: str) -> int:
    """A number of a label; 0 for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
