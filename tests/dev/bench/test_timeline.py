"""The time line of a recovery in docs/concepts/recovery-times.md."""

from __future__ import annotations

from api.jobset_status import AttemptTimes
from dev.bench import plots, timeline


def test_a_step_begins_when_the_one_before_has_ended():
    attempt = AttemptTimes(attempt=0, since="2026-01-01T00:00:00Z", detected_after_seconds=3, ready_after_seconds=7)
    assert [(step.name, step.begin, step.end) for step in timeline.steps(attempt)] == [
        ("detectedAfterSeconds", 0, 3),
        ("readyAfterSeconds", 3, 7),
    ], "a restart in place drains and creates nothing"


def test_the_picture_is_that_of_the_status_on_the_page(tmp_path):
    page = timeline.PAGE.read_text()
    steps = [*timeline.steps(timeline.recovery(page))]
    drawn = plots.draw_recovery(steps, tmp_path)
    stored = timeline.PICTURES / drawn.name
    assert f"../images/{drawn.name}" in page
    for step in steps:
        assert f"{step.name}: {step.end}" in page
        for picture in (drawn, stored):
            for text in (step.name, f"+{step.end} s"):
                assert f">{text}<" in picture.read_text(), "python -m dev.bench.timeline draws it again"
