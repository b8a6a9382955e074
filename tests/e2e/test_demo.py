"""The stories of `jobset demo`, as it plays them, on the tests' cluster."""

import io
import time
from collections.abc import Iterator

import pytest
from rich.console import Console

from dev.cluster.contents import STORAGE_CLASS, create_volumes
from dev.demo.demo import ACCELERATOR, Demo
from dev.demo.stories import STORIES, TENANT
from tests.support.cluster.requests import kubectl, more_capacity

FIRST = next(iter(STORIES))
"""The story of `make demo`."""


@pytest.fixture
def stage(full_cluster, manager) -> Iterator[None]:
    """What the demo's own cluster has: accelerators, volumes, and nothing in the namespace `default`."""
    with full_cluster.connect() as connection:
        create_volumes(connection, 2)
    with more_capacity(full_cluster, [f"node-{index:04d}" for index in range(4)], ACCELERATOR, "8"):
        yield
    kubectl(full_cluster, "delete", "jobsets", "--all", "--cascade=foreground")
    kubectl(full_cluster, "delete", "pvc", "--all")
    kubectl(full_cluster, "delete", "pv", "--all")
    kubectl(full_cluster, "delete", "storageclass", STORAGE_CLASS)


@pytest.mark.usefixtures("stage")
@pytest.mark.parametrize(
    "name",
    [
        name if name == FIRST else pytest.param(name, marks=pytest.mark.slow)
        for name, story in STORIES.items()
        if not story.policies
    ],
)
def test_every_story_is_played_to_its_end(full_cluster, name):
    play(full_cluster, name)


@pytest.mark.slow
@pytest.mark.manager(featureGates={"JobSetPolicies": True})
@pytest.mark.usefixtures("stage", "served_policies")
@pytest.mark.parametrize("name", [name for name, story in STORIES.items() if story.policies])
def test_every_story_with_policies_is_played_to_its_end(full_cluster, name):
    try:
        play(full_cluster, name)
    finally:
        kubectl(full_cluster, "label", "namespace", "default", *(f"{label.partition('=')[0]}-" for label in TENANT))


def play(full_cluster, name):
    output = io.StringIO()
    story = STORIES[name]
    story.play(Demo(Console(file=output, soft_wrap=True), full_cluster, time.monotonic(), story.jobset))
    assert "Completed. What happened, as its events say:" in output.getvalue()
