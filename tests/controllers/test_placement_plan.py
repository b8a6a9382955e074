"""What is decided about the pods of one exclusive Job."""

from typing import Any

import pytest

from api import keys
from api.exclusive import Domain
from controllers.placement.plan import is_misplaced, pending_note
from tests.support.objects.placement import RACK, leader_of, moment, placed, pod_json

HOME = Domain("r1", "js-w-0-0-abcde", "n1")
NODES = {"n1": "r1", "n1b": "r1", "n2": "r2"}
OURS = {"schedulingGates": [{"name": keys.PLACEMENT_GATE}]}
OTHER_GATE = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}


def own_affinity(topology: str) -> dict[str, Any]:
    term = {"topologyKey": topology, "labelSelector": {"matchLabels": {keys.JOB_KEY: "k"}}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def wanting(rack: str, key: str = RACK) -> dict[str, Any]:
    return {"nodeSelector": {"disk": "ssd", key: rack}}


def wrong(pod: dict[str, Any]) -> bool:
    return is_misplaced(placed(pod), HOME, RACK, NODES.get)


class TestMisplaced:
    @pytest.mark.parametrize(
        ("spec", "misplaced"),
        [
            ({"nodeName": "n1"}, False),
            ({"nodeName": "n1b"}, False),
            ({"nodeName": "n2"}, True),
            ({"nodeName": "n2", **wanting("r1")}, True),
            ({"nodeName": "n1", **wanting("r2")}, False),
            ({"nodeName": "n2", **own_affinity(RACK)}, True),
            ({"nodeName": "unknown"}, False),
            ({"nodeName": "unknown", **wanting("r2")}, False),
            (wanting("r1"), False),
            (wanting("r2"), True),
            (wanting(""), True),
            ({**wanting("r2"), **own_affinity(RACK)}, True),
            ({**wanting("r1"), **own_affinity(RACK)}, False),
            ({}, True),
            ({"nodeSelector": {"disk": "ssd"}}, True),
            (wanting("r1", key="zone"), True),
            (own_affinity(RACK), False),
            (own_affinity("zone"), True),
            (OURS, False),
            ({**OURS, **wanting("r2")}, False),
            ({**OTHER_GATE, **wanting("r1")}, False),
            ({**OTHER_GATE, **wanting("r2")}, True),
            (OTHER_GATE, True),
        ],
    )
    def test_a_follower_is_misplaced(self, spec, misplaced):
        pod = pod_json(index=3, spec=spec)
        assert wrong(pod) == misplaced

    @pytest.mark.parametrize("index", [1, 7, None])
    @pytest.mark.parametrize("phase", ["", "Pending", "Running", "Unknown"])
    def test_every_live_follower_counts(self, index, phase):
        assert wrong(pod_json(index=index, spec={"nodeName": "n2"}, status={"phase": phase}))

    @pytest.mark.parametrize(
        "pod",
        [
            pod_json(index=0, spec={"nodeName": "n2"}),
            pod_json(index=3, spec={"nodeName": "n2"}, meta={"deletionTimestamp": moment()}),
            pod_json(index=3, spec={"nodeName": "n2"}, status={"phase": "Succeeded"}),
            pod_json(index=3, spec={"nodeName": "n2"}, status={"phase": "Failed"}),
            pod_json(index=3, spec={"nodeName": "n2"}, meta={"annotations": {keys.JOBSET_NAME: "js"}}),
            pod_json(
                index=3,
                spec={"nodeName": "n2"},
                meta={
                    "annotations": {
                        keys.JOBSET_NAME: "js",
                        keys.EXCLUSIVE_TOPOLOGY: RACK,
                        keys.NODE_SELECTOR_STRATEGY: "true",
                    }
                },
            ),
        ],
        ids=["leader", "deleting", "succeeded", "failed", "ordinary", "node-selector strategy"],
    )
    def test_other_pods_are_left_alone(self, pod):
        assert not wrong(pod)


class TestNote:
    def test_where_the_scheduler_has_not_reported(self):
        note = pending_note([leader_of(created=moment(3))])
        assert "since 2026-01-01T00:00:03Z" in note
        assert note.endswith(": the scheduler has not said why")

    @pytest.mark.parametrize(
        ("jobs", "more"), [(2, "(1 more of its Jobs waits likewise)"), (4, "(3 more of its Jobs wait likewise)")]
    )
    def test_of_many_the_one_that_has_waited_longest(self, jobs, more):
        waiting = [leader_of(f"js-w-{n}", created=moment(9 - n), since=moment(20 - n)) for n in range(jobs)]
        note = pending_note(waiting)
        assert f"of Job js-w-{jobs - 1} " in note
        assert f"since {moment(20 - jobs + 1)} " in note
        assert more in note
        assert pending_note(waiting[::-1]) == note
