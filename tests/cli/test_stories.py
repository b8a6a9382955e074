"""The demo's promise about accelerators is kept, or it fails loudly."""

import json
from typing import Any

import pytest

from dev.demo import stories
from dev.demo.cli import STORIES
from dev.local import LocalError


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


def check(*changes: dict[str, Any]) -> str:
    """What the demo says when the pods have been through this."""
    return stories.check_no_early_accelerators("".join(json.dumps(change) + "\n" for change in changes))


def test_the_command_knows_each_story():
    assert {*STORIES} == {*stories.STORIES}


def test_accelerators_after_both_initializers_are_fine():
    said = check(pod("initializer-0", "Running"), done(0), done(1), TRAINER)
    assert said == "Checked in all 4 changes of pods: none that wants accelerators was there before"


@pytest.mark.parametrize("before", [[], [done(0)], [done(0), done(0)], [done(0), pod("initializer-1", "Running")]])
def test_accelerators_before_that_fail_the_demo(before):
    with pytest.raises(LocalError, match=r"pod trainer-0 wants accelerators .* of 2 initializers"):
        check(*before, TRAINER, done(1))


def test_a_history_that_cannot_be_read_proves_nothing():
    with pytest.raises(LocalError, match="too old"):
        check({"type": "ERROR", "object": {"message": "too old resource version"}})
