"""Stages and exclusive placement: a stage that is not released holds no rack, and the next takes over those it needs."""

from __future__ import annotations

from tests.support.jobs import manifest
from tests.support.racks import LITTLE, PER_RACK, RACKS, Room, exclusive, worker


def test_each_stage_has_all_the_racks_in_its_turn(room: Room) -> None:
    stages = (worker("data", jobs=RACKS, pods=2, cpu=LITTLE), worker("train", jobs=RACKS, pods=PER_RACK))
    js = manifest(*stages, executionPolicy={"executionPolicyOrder": "InOrder"})
    js["metadata"]["annotations"] = exclusive()["metadata"]["annotations"]
    room.apply(js)
    placed = room.runs(pods=2 * RACKS)
    assert sorted(placed) == [f"js-data-{index}" for index in range(RACKS)]
    room.finish()
    room.until(lambda: len(room.leaders()) == RACKS and "js-train-0" in room.racks(), "the leaders of train")
    placed = room.runs(pods=PER_RACK * RACKS)
    assert sorted(placed) == [f"js-train-{index}" for index in range(RACKS)]
    assert room.refused_pods() == 0
