"""One run of the placement benchmark: a JobSet from its creation until all pods run, then a failure and the same again.

Webhook calls come from the API server's metrics, all else is measured as everywhere. Must not know how placement is
done, only how its result looks.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from dev.bench.phases import counted, measured
from dev.bench.proc import memory_mib
from dev.bench.scene import JSON, Scene
from dev.bench.sets import GROUP, attempt, check_exclusive, fail_one, jobset, says

HALF_A_NODE = "16"
"""CPUs of a pod: a rack holds one Job of twice its nodes."""

WEBHOOK_TIMES = "apiserver_admission_webhook_admission_duration_seconds"


@dataclass(frozen=True, slots=True)
class Size:
    """What is placed, and where."""

    racks: int = 60
    nodes: int = 10
    jobs: int = 40
    pods: int = 10

    def running(self, *, exclusive: bool) -> int:
        """Jobs that find a place: each exclusive Job needs a rack of its own."""
        return min(self.jobs, self.racks) if exclusive else self.jobs


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a run happens, and of what."""

    scene: Scene
    size: Size
    exclusive: bool


def run(bench: Bench, wait_seconds: float) -> JSON:
    """Start and restart. Where Jobs have to wait for a rack, also what they cost in `wait_seconds` of waiting."""
    scene, size = bench.scene, bench.size
    result: JSON = {"idle_rss_mib": memory_mib(scene.pid)}
    manifest = jobset(size.jobs, size.pods, cpu=HALF_A_NODE, exclusive=bench.exclusive)
    with _measured(bench, restarts=0) as result["start"]:
        scene.request("POST", scene.path("jobsets", GROUP), manifest)
    pods = _placed(bench)
    if bench.exclusive and size.jobs > size.racks:
        with _webhooks_counted(scene) as calls, counted(scene) as result["waiting"]:
            time.sleep(wait_seconds)
        result["waiting"].update(calls)
        _placed(bench)
    with _measured(bench, restarts=1) as result["restart"]:
        fail_one(scene, pods)
    _placed(bench)
    peak = max(phase["peak_rss_mib"] for phase in result.values() if isinstance(phase, dict))
    return {**result, "rss_mib": memory_mib(scene.pid), "peak_rss_mib": peak}


@contextlib.contextmanager
def _measured(bench: Bench, *, restarts: int) -> Iterator[JSON]:
    """All that `measured` gives of the pods that find a place, and the calls of webhooks."""
    jobs = bench.size.running(exclusive=bench.exclusive)
    with (
        _webhooks_counted(bench.scene) as calls,
        measured(
            bench.scene,
            jobs * bench.size.pods,
            selector=attempt(restarts),
            reported=lambda: says(bench.scene, restarts=restarts, ready=jobs),
        ) as phase,
    ):
        yield phase
    phase.update(calls)


@contextlib.contextmanager
def _webhooks_counted(scene: Scene) -> Iterator[JSON]:
    """Calls of the webhooks of pods in the block, and the seconds that those who create pods waited for them."""
    calls: JSON = {}
    before, held = webhook_times(scene)
    yield calls
    after, holding = webhook_times(scene)
    calls |= {"pod_webhook_calls": after - before, "pod_webhook_seconds": holding - held}


def webhook_times(scene: Scene) -> tuple[int, float]:
    """Both so far."""
    count, seconds = 0.0, 0.0
    text = "\n".join(line for line in scene.request("GET", "/metrics").splitlines() if WEBHOOK_TIMES in line)
    for family in text_string_to_metric_families(text + "\n"):
        for sample in family.samples:
            if "pod" not in sample.labels.get("name", ""):
                continue
            count += sample.value if sample.name.endswith("_count") else 0
            seconds += sample.value if sample.name.endswith("_sum") else 0
    return int(count), seconds


def _placed(bench: Bench) -> list[JSON]:
    """The running pods. Raises `BenchmarkError` unless each exclusive Job has one rack alone."""
    path = f"{bench.scene.path('pods')}?fieldSelector=status.phase%3DRunning"
    pods: list[JSON] = bench.scene.request("GET", path)["items"]
    if bench.exclusive:
        check_exclusive(bench.scene, pods)
    return pods
