"""One measured phase: when pods run, what the manager used, what it asked of the API server.

The moments come from a watch, requests from the audit log, processor time and memory from /proc. Must not know any
scenario.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from dev.bench.counts import counts
from dev.bench.proc import cpu_seconds, memory_mib, reset_peak
from dev.bench.scene import JSON, BenchmarkError, Event, Scene
from dev.cluster import audit

SETTLE_SECONDS = 1.5
"""After the end of a phase, until what was asked because of it is in the audit log."""

REPORT_SECONDS = 30
"""Until a JobSet's status says what is true of its pods."""


@contextlib.contextmanager
def counted(scene: Scene) -> Iterator[JSON]:
    """What is asked of the API server in the block, by whom, and what it costs the manager."""
    reset_peak(scene.pid)
    offset, busy = audit.size(scene.cluster.audit_log), cpu_seconds(scene.pid)
    phase: JSON = {}
    yield phase
    phase["manager_cpu_seconds"] = cpu_seconds(scene.pid) - busy
    phase["rss_mib"] = memory_mib(scene.pid)
    phase["peak_rss_mib"] = memory_mib(scene.pid, "VmHWM")
    phase |= counts(audit.calls(scene.cluster.audit_log, offset), scene.user)


@contextlib.contextmanager
def measured(
    scene: Scene,
    pods: int,
    *,
    selector: str,
    until: str = "ADDED",
    reported: Callable[[], bool],
) -> Iterator[JSON]:
    """Seconds from the start of the block until half of the pods run and until all do, and all that `counted` gives.

    `selector` is of the pods' labels. `until` DELETED: until they run no more. `reported` asks whether the JobSets'
    status says so, too; the counts go on until then.
    """
    with counted(scene) as phase, running(scene, selector) as events:
        begun = time.monotonic()
        yield phase
        moments = [moment - begun for moment, _ in reaching(events, until, pods)]
        phase |= {"pods": pods, "half_seconds": moments[(pods - 1) // 2], "seconds": moments[-1]}
        phase["pods_per_second"] = pods / phase["seconds"]
        phase["reported_seconds"] = settled(reported) - begun


def running(scene: Scene, selector: str = "") -> contextlib.AbstractContextManager[Iterator[Event]]:
    """Pods with these labels: ADDED once they run, DELETED once they do so no more."""
    return scene.watch(scene.path("pods"), fieldSelector="status.phase=Running", labelSelector=selector)


def reaching(events: Iterator[Event], until: str, pods: int) -> Iterator[tuple[float, JSON]]:
    """Moment and metadata of each of so many pods at its first event of a type, in the order of the moments."""
    seen: set[str] = set()
    while len(seen) < pods:
        event = next(events)
        uid = event.metadata["uid"]
        if event.type == until and uid not in seen:
            seen.add(uid)
            yield event.moment, event.metadata


def settled(said: Callable[[], bool]) -> float:
    """The moment from which on a status says what it should (monotonic seconds), once all is in the audit log."""
    deadline = time.monotonic() + REPORT_SECONDS
    while not said():
        if time.monotonic() > deadline:
            raise BenchmarkError(
                f"the pods are as they should be, but the status has not said so for {REPORT_SECONDS} s"
            )
        time.sleep(0.1)
    moment = time.monotonic()
    time.sleep(SETTLE_SECONDS)
    return moment
