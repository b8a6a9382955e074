"""What `jobset explain` makes of events: only those of this JobSet count, not those of an earlier one of its name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.explain.objects import MOMENT, NOW, at, causes, event, explanation_of, facts, lease
from tests.support.explain.stuck import a_set, gone, started

JSON = dict[str, Any]
BEFORE = (NOW - MOMENT).total_seconds() + 60
"""Seconds ago, a minute before the set was created."""


def warned(**of: Any) -> JSON:
    return event("HeadlessServiceCreationFailed", "Service train exists already", **of)


@pytest.mark.parametrize(
    ("warning", "reported"),
    [
        (warned(about="uid-train", ago=60), True),
        (warned(about="uid-of-another", ago=60), False),
        (warned(ago=60), True),
        (warned(ago=BEFORE), False),
    ],
)
def test_warnings_about_an_earlier_set_of_the_same_name_are_left_out(warning: JSON, reported: bool):
    js = a_set()
    _, body = explanation_of(facts(js, [started(js, ready=1)], [], warnings=[warning], lease=lease()))
    assert causes(body) == (["warning"] if reported else [])


def test_a_refusal_of_an_earlier_set_is_no_reason():
    note = 'job "train-workers-0" creation failed with error: User "m" cannot create resource "jobs"'
    js = a_set()
    given = facts(js, [], warnings=[event("JobCreationFailed", note, about="uid-of-another")], lease=lease())
    assert "cannot create resource" not in explanation_of(given)[0]


@pytest.mark.parametrize(("ago", "reported"), [(60, True), (BEFORE, False)])
def test_pods_of_an_earlier_set_that_were_preempted_are_left_out(ago: float, reported: bool):
    js = a_set()
    ended = [gone("Preempted", "Preempted by pod 1 on node n", eventTime=at(NOW - timedelta(seconds=ago)))]
    _, body = explanation_of(facts(js, [started(js)], [], ends=ended, lease=lease()))
    assert ("preempted" in causes(body)) is reported


def test_the_time_of_a_warning_is_written_as_all_others():
    js = a_set()
    text, _ = explanation_of(facts(js, [started(js, ready=1)], [], warnings=[warned(ago=60)], lease=lease()))
    assert "Warning HeadlessServiceCreationFailed, last at 14:16:03Z: Service train exists already" in text
