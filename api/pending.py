"""Finds out why a pod does not run or keeps failing, from its status. Pure.

The kubelet and kube-scheduler write their reasons and messages into the status.
"""

import re
from typing import NamedTuple

from api.pod import ContainerStatus, DetailedPod, Terminated
from kube.model.field import shorten

CRASH_LOOP = "CrashLoopBackOff"
MAX_WORDS = 400
"""At most this many characters of a message of a container or the kubelet, since tenants choose how long it is."""
_NO_NODE_FITS = re.compile(r"0/[0-9]+ nodes are available: ")
"""The beginning of messages of kube-scheduler."""
_STARTING = {"", "ContainerCreating", "PodInitializing"}
"""Reasons of a waiting container that starts without problems."""
RESTARTED_BY_POD = "RestartingAllContainers"
"""Reason of a container that ended because all containers of its pod restart. It is not a failure of that container."""


class Trouble(NamedTuple):
    """Why a container does not run. `last_end`: how its last run ended, as a text; empty if it has not run."""

    container: str
    reason: str
    restarts: int
    last_end: str
    message: str

    def __str__(self) -> str:
        times = f", restarted {self.restarts} times" if self.restarts else ""
        end = f", it ended with {self.last_end}" if self.last_end else ""
        message = f": {self.message}" if self.message else ""
        return f"container {self.container}: {self.reason}{times}{end}{message}"


def clean_words(text: str, limit: int = MAX_WORDS) -> str:
    """A message of a kubelet or a container as one line, without control characters, of at most `limit` characters."""
    return shorten(" ".join("".join(char if char.isprintable() else " " for char in text).split()), limit)


def exit_words(ended: Terminated) -> str:
    """How a container ended, such as `exit code 137 (OOMKilled)`."""
    return f"exit code {ended.exit_code} ({ended.reason or 'no reason'})"


def trouble_of(container: ContainerStatus) -> Trouble | None:
    """Why a container does not run or keeps failing; None if it runs, starts or has succeeded.

    During a crash loop the state is mostly `terminated`, or `running` in the next run, and seldom CrashLoopBackOff.
    """
    state, restarts = container.state, container.restart_count
    last_run = state.terminated or container.last_state.terminated
    last_end = "" if last_run is None else exit_words(last_run)
    message = "" if last_run is None else clean_words(last_run.message)
    if state.waiting is not None and state.waiting.reason not in _STARTING:
        return Trouble(
            container.name, state.waiting.reason, restarts, last_end, message or clean_words(state.waiting.message)
        )
    if last_run is None or last_run.exit_code == 0 or last_run.reason == RESTARTED_BY_POD or container.ready:
        return None
    return Trouble(container.name, CRASH_LOOP if restarts else "Terminated", restarts, last_end, message)


def first_trouble(pod: DetailedPod) -> Trouble | None:
    """The first trouble of a container of the pod, init containers first; None if no container has any."""
    containers = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next(filter(None, map(trouble_of, containers)), None)


def why_pending(pod: DetailedPod) -> str:
    """Why a pod of phase Pending does not run yet; never empty."""
    scheduled = pod.status.condition("PodScheduled")
    if not pod.spec.node_name:
        reason_and_message = [scheduled.reason, scheduled.message] if scheduled is not None else []
        return ": ".join(filter(None, reason_and_message)) or "the scheduler has said nothing about it"
    containers = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    starting = next((c for c in containers if c.state.waiting is not None and c.state.waiting.reason), None)
    reason = "" if starting is None or starting.state.waiting is None else starting.state.waiting.reason
    progress = (
        f"container {starting.name}: {reason}" if starting is not None else "the kubelet has said nothing about it"
    )
    return f"{first_trouble(pod) or progress} (node {pod.spec.node_name})"


def is_unschedulable(pod: DetailedPod) -> bool:
    """Whether the scheduler has reported that it finds no node for a pod."""
    scheduled = pod.status.condition("PodScheduled")
    return (
        not pod.spec.node_name
        and scheduled is not None
        and scheduled.status == "False"
        and scheduled.reason == "Unschedulable"
    )


def may_lack_a_node(pod: DetailedPod) -> bool:
    """Whether a pod has no node, and might find one if its node affinity were different.

    kube-scheduler's message says so with "affinity/selector". This program does not understand messages of other
    schedulers, so the answer for their pods without a node is always True.
    """
    scheduled = pod.status.condition("PodScheduled")
    message = scheduled.message if scheduled is not None else ""
    return not pod.spec.node_name and (not _NO_NODE_FITS.match(message) or "affinity/selector" in message)
