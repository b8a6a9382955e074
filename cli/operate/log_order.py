"""Whose logs are shown, and in which order: the container that failed first comes first. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from api import keys
from kube.model.meta import Base

JOB_NAME = "batch.kubernetes.io/job-name"
"""Label of the pods of a Job."""
_NEVER = "9999"
"""Behind every time of RFC 3339."""


class _Ended(Base, frozen=True, kw_only=True):
    exit_code: int = 0
    finished_at: str | None = None


class _Waits(Base, frozen=True, kw_only=True):
    reason: str = ""


class _State(Base, frozen=True, kw_only=True):
    waiting: _Waits | None = None
    terminated: _Ended | None = None


class Container(Base, frozen=True, kw_only=True):
    """Status of one container."""

    name: str
    restart_count: int = 0
    state: _State = _State()
    last_state: _State = _State()

    @property
    def failed_at(self) -> str:
        """When it failed, now or before its last start; empty if it did not."""
        ends = (self.last_state.terminated, self.state.terminated)
        return next((end.finished_at or _NEVER for end in ends if end is not None and end.exit_code), "")

    @property
    def ended(self) -> bool:
        return self.state.terminated is not None

    @property
    def waits(self) -> str:
        """Why it does not run, such as ImagePullBackOff; empty if it runs, has ended, or its last run is known."""
        if self.state.waiting is None or self.last_state.terminated is not None:
            return ""
        return self.state.waiting.reason or "Waiting"


class _Containers(Base, frozen=True, kw_only=True):
    init_container_statuses: tuple[Container, ...] = ()
    container_statuses: tuple[Container, ...] = ()


class _Meta(Base, frozen=True, kw_only=True):
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class LogPod(Base, frozen=True, kw_only=True):
    """A pod, as far as its logs are concerned."""

    metadata: _Meta
    status: _Containers = _Containers()

    @property
    def attempt(self) -> int:
        return _number(self.metadata.labels.get(keys.RESTART_ATTEMPT, ""))

    @property
    def title(self) -> str:
        """`train-workers-0/3`: Job and completion index; the pod's name where it has no index."""
        labels = self.metadata.labels
        job, index = labels.get(JOB_NAME, ""), labels.get(keys.COMPLETION_INDEX, "")
        return f"{job}/{index}" if job and index else self.metadata.name


class _JobSpec(Base, frozen=True, kw_only=True):
    suspend: bool = False


class LogJob(Base, frozen=True, kw_only=True):
    """A Job, as far as it says why it has no pods."""

    spec: _JobSpec = _JobSpec()


@dataclass(frozen=True, slots=True)
class Log:
    """One log: whose it is, how its lines begin, and why its container waits (empty where there is a log).

    `run`: the pod's UID and the container's restarts. `ended`: nothing more will be written.
    """

    pod: str
    container: str
    prefix: str
    waits: str
    run: tuple[str, int] = ("", 0)
    ended: bool = False


def newest(pods: Iterable[LogPod]) -> int:
    """The latest attempt that has pods; 0 without pods."""
    return max((pod.attempt for pod in pods), default=0)


def logs(pods: Iterable[LogPod], container: str = "") -> list[Log]:
    """The logs of these pods: by the time of their first failure, then by Job and index.

    `container`: only that one. Of init containers only those that have not succeeded.
    """
    return [
        Log(
            pod.metadata.name,
            one.name,
            f"[{pod.title} {one.name}]",
            one.waits,
            run=(pod.metadata.uid, one.restart_count),
            ended=one.ended,
        )
        for pod in sorted(pods, key=_place)
        for one in sorted(_shown(pod, container), key=lambda one: one.failed_at or _NEVER)
    ]


def _shown(pod: LogPod, container: str) -> Sequence[Container]:
    if container:
        every = (*pod.status.init_container_statuses, *pod.status.container_statuses)
        return [one for one in every if one.name == container]
    unfinished = [one for one in pod.status.init_container_statuses if not _succeeded(one)]
    return [*unfinished, *pod.status.container_statuses]


def _succeeded(container: Container) -> bool:
    end = container.state.terminated
    return end is not None and not end.exit_code


def _place(pod: LogPod) -> tuple[str, int, int, str]:
    labels = pod.metadata.labels
    every = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    failed = min((one.failed_at for one in every if one.failed_at), default=_NEVER + "-")
    index = labels.get(keys.JOB_GLOBAL_INDEX, ""), labels.get(keys.COMPLETION_INDEX, "")
    return failed, _number(index[0]), _number(index[1]), pod.metadata.name


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
