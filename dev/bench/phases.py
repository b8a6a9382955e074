"""Measures one phase: the times of its pods, and the processor time, memory and requests of the manager.

The times of pods come from a watch, requests from the audit log, processor time and memory from /proc.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from dev.bench.counts import counts
from dev.bench.proc import cpu_seconds, memory_mib, reset_peak, shared_once_mib
from dev.bench.scene import BenchmarkError, Event, Scene
from dev.cluster import audit
from kube.model.meta import JSON
from manifests import SERVICE_ACCOUNT

SETTLE_SECONDS = 1.5
"""Time after a phase until its last requests are in the audit log."""

REPORT_SECONDS = 30
"""Time limit for the status of a JobSet to agree with its pods."""


@contextlib.contextmanager
def count_requests(scene: Scene) -> Iterator[JSON]:
    """Yield the figures of the block (requests by client, the manager's processor time and memory).

    They are complete after the block.
    """
    reset_peak(scene.pid)
    offset, cpu_before = audit.log_size(scene.cluster.audit_log), cpu_seconds(scene.pid)
    phase: JSON = {}
    yield phase
    phase["manager_cpu_seconds"] = cpu_seconds(scene.pid) - cpu_before
    phase["rss_mib"], phase["pss_mib"] = memory_mib(scene.pid), shared_once_mib(scene.pid)
    phase["peak_rss_mib"] = memory_mib(scene.pid, "VmHWM")
    phase |= counts(audit.calls(scene.cluster.audit_log, offset), SERVICE_ACCOUNT)


@contextlib.contextmanager
def measure_pods(
    scene: Scene, pods: int, *, selector: str, event_type: str = "ADDED", reported: Callable[[], bool]
) -> Iterator[JSON]:
    """Yield the figures of `count_requests`, and the seconds until half of the pods run and until all pods run.

    `selector` selects pods by labels. With `event_type` DELETED, the seconds last until the pods do not run any more.
    Requests are counted until `reported` returns that the status of the JobSets agrees with the pods.
    """
    with count_requests(scene) as phase, watch_running_pods(scene, selector) as events:
        start = time.monotonic()
        yield phase
        phase.update(pod_figures([moment for moment, _ in pods_at(events, event_type, pods)], start))
        phase["reported_seconds"] = wait_for_status(reported) - start


def pod_figures(times: Sequence[float], start: float) -> JSON:
    """Seconds from `start` until half of the pods, and until all pods, reached a state. `times`: one for each pod."""
    seconds_after_start = sorted(moment - start for moment in times)
    count, seconds = len(seconds_after_start), seconds_after_start[-1]
    return {
        "pods": count,
        "half_seconds": seconds_after_start[(count - 1) // 2],
        "seconds": seconds,
        "pods_per_second": count / seconds,
    }


def watch_running_pods(scene: Scene, selector: str = "") -> contextlib.AbstractContextManager[Iterator[Event]]:
    """A watch of pods with these labels. A pod is ADDED once it runs, and DELETED once it does not run any more."""
    return scene.watch(scene.path("pods"), fieldSelector="status.phase=Running", labelSelector=selector)


def pods_at(events: Iterator[Event], event_type: str, pods: int) -> Iterator[tuple[float, JSON]]:
    """Yield the time and metadata of the first event of this type of each of `pods` pods, in the order of times."""
    for event in first_events(events, lambda event: event.type == event_type, pods):
        yield event.moment, event.metadata


def first_events(events: Iterator[Event], is_wanted: Callable[[Event], bool], count: int) -> Iterator[Event]:
    """Yield the first wanted event of each object, until `count` objects had one."""
    uids: set[str] = set()
    while len(uids) < count:
        event = next(events)
        if is_wanted(event) and event.metadata["uid"] not in uids:
            uids.add(event.metadata["uid"])
            yield event


def wait_for_status(reported: Callable[[], bool]) -> float:
    """Wait until the status agrees with the pods and its request is in the log. Returns when it agreed (monotonic)."""
    deadline = time.monotonic() + REPORT_SECONDS
    while not reported():
        if time.monotonic() > deadline:
            raise BenchmarkError(
                f"the pods are as they should be, but the status has not said so for {REPORT_SECONDS} s"
            )
        time.sleep(0.1)
    moment = time.monotonic()
    time.sleep(SETTLE_SECONDS)
    return moment
