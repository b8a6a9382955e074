"""What the commands say about a cluster that is not up while others are."""

from pathlib import Path
from typing import Any

import pytest

from dev.cluster import cluster as clusters
from dev.cluster.errors import DevclusterError


@pytest.mark.parametrize(
    ("phases", "says"),
    [
        ({}, "start it with `jobset cluster up --name default`."),
        ({"demo": "ready"}, "up are demo: use --name demo, or start it with `jobset cluster up --name default`."),
        ({"a": "gone", "b": "failed", "c": "degraded", "d": "ready"}, "up are c, d: use --name c, or start it with"),
    ],
)
def test_the_clusters_that_are_up_are_named(monkeypatch, tmp_path: Path, phases: dict[str, str], says: str):
    def statuses(*, state_root: Path | None) -> list[dict[str, Any]]:
        assert state_root == tmp_path
        return [{"name": name, "phase": phase} for name, phase in phases.items()]

    monkeypatch.setattr(clusters, "statuses", statuses)
    with pytest.raises(DevclusterError) as error:
        clusters.get("default", state_root=tmp_path)
    assert str(error.value).startswith(f"cluster 'default' is not up: {says}")
