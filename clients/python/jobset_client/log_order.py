"""Decides which logs are read, and in which order. The container that failed first comes first. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobset_client.errors import RefusedError
from jobset_client.states import AnyJobSet, end_words, title

JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
_INDEX = "batch.kubernetes.io/job-completion-index"
_GLOBAL_INDEX = "jobset.sigs.k8s.io/job-global-index"
_UNKNOWN_TIME, _NO_FAILURE = "9999", "9999-"
"""Sort keys after every RFC 3339 time, for a container that failed at an unknown time, and for a pod without
failures."""
LOGS_ARE_GONE = "logs go with their pods, and pods of earlier attempts are deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The status of one container.

    - `failed_at`: the time of its failure, now or before its last start; empty without a failure.
    - `wait_reason`: the reason why it does not run, such as ImagePullBackOff; empty if it runs, has ended, or has the
      state of an earlier run.
    """

    name: str
    is_init: bool
    restarts: int
    failed_at: str
    wait_reason: str
    has_ended: bool
    has_succeeded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPod:
    """The fields of a pod that matter for its logs."""

    name: str
    uid: str
    job: str
    index: str
    global_index: int
    attempt: int
    containers: tuple[Container, ...]

    def containers_named(self, container: str) -> Iterator[Container]:
        """The containers with this name. Without a name, all except init containers that have succeeded."""
        for each in self.containers:
            if each.name == container or not (container or (each.is_init and each.has_succeeded)):
                yield each


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One log. `index`: the completion index, or empty. `run`: the pod's UID and the container's restarts.

    `wait_reason`: the reason why there is no log yet, or empty. `has_ended`: whether the log is complete.
    """

    pod: str
    job: str
    index: str
    container: str
    wait_reason: str
    run: tuple[str, int]
    has_ended: bool

    @property
    def prefix(self) -> str:
        return prefix(self.pod, self.job, self.index, self.container)


def prefix(pod: str, job: str, index: str, container: str) -> str:
    """A prefix for lines such as `[train-workers-0/3 main]`, or with the pod's name if the pod has no index."""
    return f"[{f'{job}/{index}' if job and index else pod} {container}]"


def selector(js: AnyJobSet, job: str) -> str:
    """Label selector for the pods of this JobSet, by its UID, or of one of its Jobs."""
    return f"{JOBSET_UID}={js.metadata.uid}" + (f",{JOB_NAME}={job}" if job else "")


def log_pod(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> LogPod:
    """A pod from its JSON."""
    labels = metadata.get("labels") or {}
    return LogPod(
        name=metadata.get("name") or "",
        uid=metadata.get("uid") or "",
        job=labels.get(JOB_NAME) or "",
        index=labels.get(_INDEX) or "",
        global_index=_number(labels.get(_GLOBAL_INDEX) or ""),
        attempt=_number(labels.get(_ATTEMPT) or ""),
        containers=(
            *(_container(body, is_init=True) for body in status.get("initContainerStatuses") or ()),
            *(_container(body, is_init=False) for body in status.get("containerStatuses") or ()),
        ),
    )


def _container(body: Mapping[str, Any], *, is_init: bool) -> Container:
    state, last = body.get("state") or {}, body.get("lastState") or {}
    end, waiting = state.get("terminated"), state.get("waiting")
    ends = (last.get("terminated"), end)
    return Container(
        name=body.get("name") or "",
        is_init=is_init,
        restarts=body.get("restartCount") or 0,
        failed_at=next((each.get("finishedAt") or _UNKNOWN_TIME for each in ends if each and each.get("exitCode")), ""),
        wait_reason="" if waiting is None or last.get("terminated") else waiting.get("reason") or "Waiting",
        has_ended=end is not None,
        has_succeeded=end is not None and not end.get("exitCode"),
    )


def newest_attempt(pods: Iterable[LogPod]) -> int:
    """The latest attempt that has pods; 0 without pods."""
    return max((pod.attempt for pod in pods), default=0)


def logs(pods: Iterable[LogPod], container: str = "") -> list[Log]:
    """The logs of these pods by time of first failure, then Job and index. `container`: only logs of this container."""
    return [
        Log(
            pod=pod.name,
            job=pod.job,
            index=pod.index,
            container=each.name,
            wait_reason=each.wait_reason,
            run=(pod.uid, each.restarts),
            has_ended=each.has_ended,
        )
        for pod in sorted(pods, key=_sort_key)
        for each in sorted(pod.containers_named(container), key=lambda each: each.failed_at or _UNKNOWN_TIME)
    ]


def pods_of_attempt(
    js: AnyJobSet, pods: Sequence[LogPod], job: str, attempt: int | None, reason: str = LOGS_ARE_GONE, hint: str = ""
) -> Sequence[LogPod]:
    """The pods of the attempt; None for the latest attempt that has pods. Raises `RefusedError` if there are none.

    `reason` and `hint` are parts of the error message: why there are no pods, and where to read more.
    """
    chosen_attempt = newest_attempt(pods) if attempt is None else attempt
    attempt_pods = [pod for pod in pods if pod.attempt == chosen_attempt]
    if attempt_pods:
        return attempt_pods
    owner = f"Job {job} of {title(js)}" if job else title(js)
    problem = f"there are no pods of {owner}" + ("" if attempt is None else f" of attempt {attempt}")
    failure = "".join(
        f"; attempt {end.attempt} failed: {end_words(end)}" for end in js.status.attempt_history[-1:] if end.pod
    )
    raise RefusedError(f"{problem}: {reason}{failure}{hint}")


def _sort_key(pod: LogPod) -> tuple[str, int, int, str]:
    failed_at = min((each.failed_at for each in pod.containers if each.failed_at), default=_NO_FAILURE)
    return failed_at, pod.global_index, _number(pod.index), pod.name


def _number(text: str) -> int:
    """The number in the value of a label; 0 if it is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
