"""What is kept of each run of the benchmark, and the picture of it in docs/performance.md."""

import json
import sys

import pytest

from dev.bench import runs
from tests.dev.bench.test_report import FLOOR, OURS, phase, results, turn


def two_rounds() -> dict:
    return results(
        turn(OURS, 1, P1=phase(6), P3_plain_create=phase(4), P3_create=phase(6)),
        turn(FLOOR, 1, P1=phase(3)),
        turn(OURS, 2, P1=phase(30), P3_plain_create=phase(4), P3_create=phase(5)),
        turn(FLOOR, 2, P1=phase(20)),
    )


def test_a_line_has_medians_and_the_ratio_to_the_floor_or_to_plain_pods():
    line = runs.run_line(two_rounds(), "2026-01-02")
    assert (line["day"], line["revision"], line["rounds"]) == ("2026-01-02", "abc", 2)
    assert line["machine"]["load_average"] == 0.1
    assert line["phases"] == {
        "P1": {"seconds": {OURS: 18.0, FLOOR: 11.5}, "ratio": 1.75, "calls": 305},
        "P3 plain create": {"seconds": {OURS: 4.0}, "ratio": None, "calls": 305},
        "P3 create": {"seconds": {OURS: 5.5}, "ratio": pytest.approx(1.38), "calls": 305},
    }


def test_runs_of_a_part_or_of_other_managers_are_not_kept():
    assert runs.is_comparable(two_rounds())
    assert not runs.is_comparable({**two_rounds(), "scale": 0.1})
    assert not runs.is_comparable(results(turn("go", 1, P1=phase(5))))


def test_lines_are_added_in_order(tmp_path):
    for day in ("2026-01-02", "2026-01-03"):
        runs.add(tmp_path / "runs.jsonl", runs.run_line(two_rounds(), day))
    kept = runs.read(tmp_path / "runs.jsonl")
    assert runs.ratios(kept)["P1"] == [("2026-01-02 abc", 1.75), ("2026-01-03 abc", 1.75)]
    assert "P3 plain create" not in runs.ratios(kept)


def test_the_picture_in_the_docs_is_that_of_all_runs(tmp_path):
    from dev.bench import plots  # noqa: PLC0415 (matplotlib, which few tests need)

    kept = runs.ratios(runs.read(runs.FILE))
    assert kept
    drawn = plots.draw_ratios(kept, tmp_path)
    stored = (runs.PICTURES / drawn.name).read_text()
    for text in {*kept, *(run for points in kept.values() for run, _ in points)}:
        assert f">{text}<" in stored, "python -m dev.bench.runs draws it again"


def test_a_run_is_kept_when_asked_for_and_only_then(tmp_path, monkeypatch, capsys):
    stored = runs.FILE.read_bytes()
    monkeypatch.setattr(runs, "FILE", tmp_path / "runs.jsonl")
    monkeypatch.setattr(runs, "PICTURES", tmp_path)
    runs.FILE.write_bytes(stored)
    results_file = tmp_path / "results.json"
    results_file.write_text(json.dumps(two_rounds()))
    monkeypatch.setattr(sys, "argv", ["runs", str(results_file)])
    assert runs.main() == 0
    assert len(runs.FILE.read_bytes().splitlines()) == len(stored.splitlines()) + 1
    results_file.write_text(json.dumps({**two_rounds(), "scale": 0.1}))
    with pytest.raises(SystemExit):
        runs.main()
    assert "cannot be compared" in capsys.readouterr().err
