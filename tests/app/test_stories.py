"""The demo's promise about accelerators is kept, or it fails loudly."""

import io
import json
import subprocess
from typing import Any

import pytest
from rich.console import Console

from app import stories
from app.demo import Demo
from app.local import LocalError


def pod(name: str, phase: str, **limits: str) -> dict[str, Any]:
    """A change as the watch delivers it."""
    labels = {stories.RJOB: name.rpartition("-")[0]}
    containers = [{"resources": {"limits": limits} if limits else {}}]
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": containers},
        "status": {"phase": phase},
    }
    return {"type": "MODIFIED", "object": body}


def done(index: int) -> dict[str, Any]:
    return pod(f"initializer-{index}", "Succeeded")


TRAINER = pod("trainer-0", "Pending", **{"nvidia.com/gpu": "8"})


def check(monkeypatch: pytest.MonkeyPatch, *changes: dict[str, Any]) -> str:
    """What the demo says when the pods have been through this."""
    lines = "".join(json.dumps(change) + "\n" for change in changes)
    answer = subprocess.CompletedProcess([], 0, stdout=lines)
    monkeypatch.setattr(stories, "kubectl", lambda *_: answer)
    return stories.no_early_accelerators(Demo(Console(file=io.StringIO()), None, 0, "fine-tuning"), "1")


def test_accelerators_after_both_initializers_are_fine(monkeypatch):
    said = check(monkeypatch, pod("initializer-0", "Running"), done(0), done(1), TRAINER)
    assert said == "Checked in all 4 changes of pods: none that wants accelerators was there before"


@pytest.mark.parametrize("before", [[], [done(0)], [done(0), done(0)], [done(0), pod("initializer-1", "Running")]])
def test_accelerators_before_that_fail_the_demo(monkeypatch, before):
    with pytest.raises(LocalError, match=r"pod trainer-0 wants accelerators .* of 2 initializers"):
        check(monkeypatch, *before, TRAINER, done(1))


def test_a_history_that_cannot_be_read_proves_nothing(monkeypatch):
    with pytest.raises(LocalError, match="too old"):
        check(monkeypatch, {"type": "ERROR", "object": {"message": "too old resource version"}})
