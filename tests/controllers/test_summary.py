"""What the log says of a plan: what is done, and why, in one line that can be joined with the line of its admission."""

import logging
from typing import get_args

import pytest

from controllers.planning.actions import (
    Action,
    CreateGroup,
    DeleteGroup,
    DeleteJobs,
    DeleteJobSet,
    Event,
    PatchGroup,
    Plan,
)
from controllers.planning.summary import MAX_LINE, VERBS_AND_KINDS, summary
from kube.log_fields import current, log_fields
from tests.support.model.blind import Blind
from tests.support.model.memory_api import MemoryApi
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob


def said(world: World) -> str:
    return summary(world.observe().jobset, world.plan())


def test_what_is_created_is_counted():
    assert said(World(jobset(rjob("driver", 1), rjob("workers", 3)))).startswith("create 1 Service, create 4 Jobs")


def test_each_kind_of_write_has_words():
    actions = (
        CreateGroup("PodGroup", "a", dict, 1),
        PatchGroup("PodGroup", "b", "u", "1", {}),
        DeleteGroup("Workload", "c", "u"),
        DeleteGroup("Workload", "d", "u"),
        DeleteJobs("x=y", (("a", "1"), ("b", "2"), ("c", "3"))),
        DeleteJobSet(),
    )
    line = summary(World(jobset()).observe().jobset, Plan(actions=actions))
    assert line == "create 1 PodGroup, patch 1 PodGroup, delete 2 Workloads, delete 3 Jobs, delete 1 JobSet"


def test_no_kind_of_action_is_forgotten():
    assert {*get_args(Action)} == {*VERBS_AND_KINDS, CreateGroup, PatchGroup, DeleteGroup}


def test_a_line_is_bounded():
    line = summary(World(jobset()).observe().jobset, Plan(events=(Event("Warning", "R", "x" * 9_000),)))
    assert line.startswith("R: xxx")
    assert len(line) <= MAX_LINE + len("...")


async def test_the_reconciler_says_it_with_the_uid_and_generation_of_the_set(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    blind = Blind(MemoryApi(), jobset(rjob("workers", 3)))
    js = blind.jobsets.get("ns", "js")
    with log_fields(reconcileID="r1"):
        await blind.reconcile()
        fields = current.get()
    assert caplog.messages[0].startswith("jobset ns/js: create 1 Service, create 3 Jobs")
    assert fields == {
        "reconcileID": "r1",
        "namespace": "ns",
        "name": "js",
        "uid": js.metadata.uid,
        "generation": js.metadata.generation,
    }
    caplog.clear()
    await blind.reconcile()
    assert caplog.messages == [], "nothing was decided"
