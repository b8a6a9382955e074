"""One measured phase: when pods run, the manager's processor time and memory, and its requests to the API server.

Moments come from a watch, requests from the audit log, processor time and memory from /proc.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from dev.bench.counts import counts
from dev.bench.proc import cpu_seconds, memory_mib, reset_peak, shared_once_mib
from dev.bench.scene import BenchmarkError, Event, Scene
from dev.cluster import audit
from kube.model.meta import JSON

SETTLE_SECONDS = 1.5
"""Time after a phase until its last requests are in the audit log."""

REPORT_SECONDS = 30
"""Time limit for the status of a JobSet to agree with its pods."""


@contextlib.contextmanager
def count_requests(scene: Scene) -> Iterator[JSON]:
    """Requests in the block by client, and the manager's processor time and memory."""
    reset_peak(scene.pid)
    offset, busy = audit.log_size(scene.cluster.audit_log), cpu_seconds(scene.pid)
    phase: JSON = {}
    yield phase
    phase["manager_cpu_seconds"] = cpu_seconds(scene.pid) - busy
    phase["rss_mib"], phase["pss_mib"] = memory_mib(scene.pid), shared_once_mib(scene.pid)
    phase["peak_rss_mib"] = memory_mib(scene.pid, "VmHWM")
    phase |= counts(audit.calls(scene.cluster.audit_log, offset), scene.user)


@contextlib.contextmanager
def measure_pods(
    scene: Scene, pods: int, *, selector: str, until: str = "ADDED", reported: Callable[[], bool]
) -> Iterator[JSON]:
    """Seconds from the start of the block until half of the pods run and until all do, and `count_requests`.

    `selector` selects pods by labels. `until` DELETED: until none runs any more. `reported`: whether the status of the
    JobSets agrees; requests are counted until then.
    """
    with count_requests(scene) as phase, running(scene, selector) as events:
        start = time.monotonic()
        yield phase
        phase.update(figures([moment for moment, _ in reaching(events, until, pods)], start))
        phase["reported_seconds"] = wait_for_status(reported) - start


def figures(moments: Sequence[float], start: float) -> JSON:
    """Seconds until half of the pods and all of them reached a state, from the moment of each."""
    after = sorted(moment - start for moment in moments)
    count, seconds = len(after), after[-1]
    return {
        "pods": count,
        "half_seconds": after[(count - 1) // 2],
        "seconds": seconds,
        "pods_per_second": count / seconds,
    }


def running(scene: Scene, selector: str = "") -> contextlib.AbstractContextManager[Iterator[Event]]:
    """Pods with these labels: ADDED once they run, DELETED once they do not run any more."""
    return scene.watch(scene.path("pods"), fieldSelector="status.phase=Running", labelSelector=selector)


def reaching(events: Iterator[Event], until: str, pods: int) -> Iterator[tuple[float, JSON]]:
    """Moment and metadata of each of that many pods at its first event of a type, in the order of the moments."""
    for event in first_events(events, lambda event: event.type == until, pods):
        yield event.moment, event.metadata


def first_events(events: Iterator[Event], is_wanted: Callable[[Event], bool], count: int) -> Iterator[Event]:
    """The first wanted event of each of that many objects."""
    seen: set[str] = set()
    while len(seen) < count:
        event = next(events)
        if is_wanted(event) and event.metadata["uid"] not in seen:
            seen.add(event.metadata["uid"])
            yield event


def wait_for_status(reported: Callable[[], bool]) -> float:
    """The moment at which a status agrees with the pods (monotonic seconds); returns once its request is in the log."""
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
