"""Pods of exclusive Jobs by the way in which they are admitted: webhooks, or policies inside the API server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from prometheus_client.parser import text_string_to_metric_families

from api import keys
from dev.bench.play import Play
from dev.bench.scene import JSON, Scene, wait
from dev.bench.sets import TOPOLOGY

EFFECT_SECONDS = 60
"""Time limit for a new policy to take effect; it takes a few seconds."""

WEBHOOK_TIMES = "apiserver_admission_webhook_admission_duration_seconds"


def with_webhook_calls(act: Callable[[Play], JSON]) -> Callable[[Play], JSON]:
    """The act, with the calls of the webhooks of pods, and the seconds that the creators of pods waited for them."""

    def act_and_count(play: Play) -> JSON:
        before, seconds_before = webhook_times(play.scene)
        phase = act(play)
        after, seconds = webhook_times(play.scene)
        phase["gates_lifted"] = phase["pods_patched_by_manager"]
        return phase | {"pod_webhook_calls": after - before, "pod_webhook_seconds": seconds - seconds_before}

    return act_and_count


def webhook_times(scene: Scene) -> tuple[int, float]:
    """Number and seconds of the calls so far, from the API server's metrics."""
    count, seconds = 0.0, 0.0
    text = "\n".join(line for line in scene.request("GET", "/metrics").splitlines() if WEBHOOK_TIMES in line)
    for family in text_string_to_metric_families(text + "\n"):
        for sample in family.samples:
            if "pod" in sample.labels.get("name", ""):
                count += sample.value if sample.name.endswith("_count") else 0
                seconds += sample.value if sample.name.endswith("_sum") else 0
    return int(count), seconds


@contextlib.contextmanager
def policies_in_force(scene: Scene) -> Iterator[None]:
    """The API server itself changes leaders and followers. Raises `BenchmarkError` if it does not."""
    wait(lambda: all(_is_changed(scene, index) for index in ("0", "1")), EFFECT_SECONDS, "the policies to work")
    yield


def _is_changed(scene: Scene, index: str) -> bool:
    """Whether an exclusive pod with that completion index gets an affinity or a gate. Nothing is stored."""
    own = {keys.JOBSET_NAME: "probe"}
    annotations = {**own, keys.EXCLUSIVE_TOPOLOGY: TOPOLOGY, keys.COMPLETION_INDEX: index}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "probe", "uid": "probe", "controller": True}
    labels = {**own, keys.JOB_KEY: "probe"}
    meta = {"name": "probe", "labels": labels, "annotations": annotations, "ownerReferences": [owner]}
    pod = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "train"}]}}
    with scene.cluster.connect() as connection:
        status, answer = connection.request("POST", f"{scene.path('pods')}?dryRun=All", pod)
    return status == 201 and not {"affinity", "schedulingGates"}.isdisjoint(answer["spec"])
