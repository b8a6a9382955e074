"""What the benchmark says of its figures: ratios by round, goals and by how much they are missed, tables, pictures."""

import io
import json

import pytest
from rich.console import Console

from dev.bench import goals, output, report, show
from dev.bench.goals import Goal
from dev.bench.report import Spread

OURS, FLOOR, SLOW = "jobset", "floor-background", "floor"


def phase(seconds: float, *, jobs: int = 300, refused_pods: int = 0, rss: float = 70.0, **manager: int) -> dict:
    zero = dict.fromkeys(
        ("requests", "writes", "refused", "creates", "duplicates", "deletes", "conflicts", "status_writes"), 0
    )
    return {
        "seconds": seconds,
        "half_seconds": seconds / 2,
        "pods": jobs,
        "jobs": jobs,
        "pods_per_second": jobs / seconds,
        "reported_seconds": seconds + 1,
        "manager_cpu_seconds": 0.5,
        "rss_mib": 2 * rss,
        "pss_mib": rss,
        "peak_rss_mib": rss + 5,
        "pod_creates_refused": refused_pods,
        "manager": {**zero, "requests": jobs + 5, "creates": jobs, **manager},
        "calls": [{"verb": "create", "resource": "jobs", "code": 201, "count": jobs}],
    }


def turn(manager: str, number: int, **phases: dict) -> dict:
    named = {name.replace("_", " "): phase for name, phase in phases.items()}
    idle = {"idle_rss_mib": 90.0, "idle_pss_mib": 60.0}
    return {"manager": manager, "round": number, "phases": named, "errors": [], **idle}


def results(*turns: dict, **more: object) -> dict:
    seen = dict.fromkeys(turn["manager"] for turn in turns)
    return {
        "machine": {"python": "3.11", "system": "Linux", "cores": 2, "load_average": 0.1},
        "revision": "abc",
        "nodes": 600,
        "scale": 1.0,
        "seconds": 60.0,
        "managers": [{"name": name, "command": [], "floor": name.startswith("floor")} for name in seen],
        "turns": list(turns),
        "admission": {},
        "errors": [],
        **more,
    }


def goal_of(found: dict, begins: str) -> Goal:
    [goal] = [goal for goal in goals.goals(found, OURS) if goal.name.startswith(begins)]
    return goal


def test_a_ratio_is_taken_within_rounds():
    found = results(
        turn(OURS, 1, P1=phase(6)),
        turn(FLOOR, 1, P1=phase(3)),
        turn(OURS, 2, P1=phase(30)),
        turn(FLOOR, 2, P1=phase(20)),
        turn(OURS, 3, P1=phase(10)),
        turn(FLOOR, 3, P1=phase(10)),
        turn(OURS, 4, P1=phase(1000)),
    )
    assert report.ratio(found, (OURS, "P1"), (FLOOR, "P1")) == Spread(1.0, 1.5, 2.0)
    assert report.ratio(found, (OURS, "P1"), (FLOOR, "P2")) is None


def test_the_fastest_floor_is_what_others_are_compared_with():
    found = results(
        turn(OURS, 1, P2=phase(12), P3_create=phase(8)), turn(SLOW, 1, P2=phase(15)), turn(FLOOR, 1, P2=phase(10))
    )
    assert report.fastest_floor(found, "P2") == FLOOR
    assert report.fastest_floor(found, "P3 create") is None
    rows = {row["manager"]: row for row in report.phase_rows(found, "P2")}
    assert [rows[name]["x floor"] for name in (OURS, SLOW, FLOOR)] == ["1.20", "1.50", "1.00"]
    assert report.phase_rows(found, "P3 create")[0]["x plain"] == "-"


def test_a_row_has_the_median_with_its_range():
    found = results(*(turn(OURS, n, P1=phase(s, status_writes=n)) for n, s in enumerate((4.0, 9.0, 5.0), start=1)))
    [row] = report.phase_rows(found, "P1")
    assert (row["runs"], row["seconds"], row["status"]) == ("3", "5.0 (4.0-9.0)", "2")


def test_exact_calls_are_medians_and_zero_where_there_were_none():
    odd = {**phase(5), "calls": [{"verb": "delete", "resource": "jobs", "code": 200, "count": 7}]}
    found = results(turn(OURS, 1, P1=phase(5)), turn(FLOOR, 1, P1=odd))
    assert report.call_rows(found, "P1") == [
        {"verb": "create", "resource": "jobs", "code": "201", OURS: "300", FLOOR: "0"},
        {"verb": "delete", "resource": "jobs", "code": "200", OURS: "0", FLOOR: "7"},
    ]


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [
        (Goal("at most", 1.3, 1.3), "reached"),
        (Goal("at most", 1.56, 1.3), "missed by 20%"),
        (Goal("none", 0, 0), "reached"),
        (Goal("none", 3, 0), "missed"),
    ],
)
def test_a_goal_says_by_how_much_it_is_missed(goal, verdict):
    assert goal.verdict() == verdict


def test_times_are_judged_by_the_median_of_ratios():
    turns = [turn(OURS, n, P1=phase(s), P4=phase(2), P5_resume=phase(11)) for n, s in enumerate((12, 14, 40), start=1)]
    turns += [turn(FLOOR, n, P1=phase(10), P4=phase(1), P5_resume=phase(10)) for n in (1, 2, 3)]
    found = results(*turns)
    assert goal_of(found, "P1:").value == pytest.approx(1.4)
    assert goal_of(found, "P4:").verdict() == "missed by 60%"
    assert goal_of(found, "P5 resume:").is_reached
    assert not [goal for goal in goals.goals(found, OURS) if goal.name.startswith("P2")], "not measured, not judged"


def test_exclusive_placement_is_compared_with_the_managers_own_plain_pods():
    plain = {"P3_plain_create": phase(4), "P3_plain_restart": phase(10)}
    found = results(turn(OURS, 1, P3_create=phase(7, refused_pods=2), P3_restart=phase(11), **plain))
    assert goal_of(found, "P3 create").value == 1.75
    assert goal_of(found, "P3 restart").is_reached
    assert goal_of(found, "refused creations of pods").verdict() == "missed"


def test_counts_are_judged_by_the_worst_round_of_the_worst_phase():
    found = results(
        turn(OURS, 1, P1=phase(5), P2=phase(5, deletes=302, status_writes=25)),
        turn(OURS, 2, P1=phase(5, creates=298, duplicates=2, conflicts=3), P2=phase(5, deletes=300)),
    )
    named = {goal.name.partition(" in P")[0]: goal for goal in goals.goals(found, OURS)}
    assert named["Jobs created beyond or short of those that are needed"].value == 2
    assert named["deletions beyond the number of Jobs"].value == 2
    assert named["duplicate creations"].name.startswith("duplicate creations in P1")
    assert named["conflicting writes"].verdict() == "missed by 50%"
    assert (named["status writes"].value, named["status writes"].is_reached) == (25, False)


def test_many_sets_may_write_more_than_one():
    found = results(turn(OURS, 1, P4=phase(5, status_writes=310)))
    assert not [goal for goal in goals.goals(found, OURS) if goal.name.startswith("status writes")]


def test_small_sets_are_compared_with_themselves_alone():
    found = results(turn(OURS, 1, P6_alone=phase(1.0), P6_beside=phase(2.6)))
    median, longest = (goal for goal in goals.goals(found, OURS) if goal.name.startswith("P6"))
    assert (median.value, median.is_reached) == (pytest.approx(0.8), True)
    assert (longest.value, longest.is_reached) == (pytest.approx(1.6), False)


def test_many_sets_are_judged_at_rest_after_failures_and_at_a_takeover():
    phases = {"P19_rest": phase(30) | {"percent": 1.2}, "P19_failures": phase(100) | {"p50_ms": 30.0, "p99_ms": 71.0}}
    found = results(turn(OURS, 1, P19_takeover=phase(1.1), **phases))
    judged = [(goal.value, goal.is_reached) for goal in goals.goals(found, OURS) if goal.name.startswith("P19")]
    assert judged == [(1.2, False), (71.0, True), (1.1, True)]
    assert report.phase_rows(found, "P19 failures")[0]["p99 (ms)"] == "71"
    assert "p99 (ms)" not in report.phase_rows(found, "P19 rest")[0]


def test_memory_is_read_after_p4_and_processor_time_is_the_sum_of_whole_rounds():
    found = results(
        turn(OURS, 1, P1=phase(5, rss=90), P2=phase(5), P4=phase(5, rss=79)),
        turn(OURS, 2, P1=phase(5), P2=phase(5), P4=phase(5, rss=82)),
        turn(OURS, 3, P1=phase(5)),
    )
    judged = [(goal.value, goal.is_reached) for goal in goals.goals(found, OURS) if goal.name.startswith("P10")]
    assert judged == [(60.0, True), (82, False)]
    assert goals.cpu_seconds(found, OURS) == [1.5, 1.5]


def saturation_row(webhook: str, workers: int, cpu_us: float, connections: int = 16, size: str = "2 KB") -> dict:
    return {
        "webhook": webhook,
        "workers": workers,
        "size": size,
        "connections": connections,
        "requests": int(cpu_us),
        "cpu_us": cpu_us,
        "per_s": 1e6 / max(cpu_us, 1),
        "p50_ms": 3.0,
        "p99_ms": 13.0,
        "refused": 0,
        "lost": 0,
    }


def once() -> dict:
    rows = [
        saturation_row("mutate", 1, 400),
        saturation_row("validate", 1, 500),
        saturation_row("mutate", 2, 2000),
        saturation_row("mutate", 1, 9000, connections=64),
        saturation_row("mutate", 1, 900, size="20 KB"),
        saturation_row("validate", 1, 900, size="20 KB"),
    ]
    go_rows = [
        saturation_row("mutate", 1, 600),
        saturation_row("validate", 1, 400),
        saturation_row("mutate", 1, 0, size="20 KB"),
        saturation_row("validate", 1, 100, size="20 KB"),
    ]
    plan = [
        {"scenario": "all ready", "seconds": {"100": 0.001, "10000": 0.06}, "slope": 1.0},
        {"scenario": "suspended", "seconds": {"10000000": 0.04}, "slope": None},
    ]
    return {"admission": {OURS: rows, "go": go_rows}, "plan": plan}


def test_the_reviews_of_a_new_jobset_are_judged_by_those_of_another_manager():
    found = results(turn(OURS, 1, P1=phase(5)), **once())
    judged = [goal for goal in goals.goals(found, OURS) if goal.name.startswith("P8")]
    assert [(goal.name, round(goal.value, 2), goal.is_reached) for goal in judged] == [
        ("P8 and P9, 2 KB: processor time of the reviews of a new JobSet over go", 0.9, True)
    ], "one process, 16 connections, sizes of which both webhooks of both managers have answered"


def test_the_plan_is_judged_by_its_time_and_growth():
    found = results(turn(OURS, 1, P1=phase(5)), **once())
    assert goal_of(found, "P11 all ready: 10,000 Jobs").verdict() == "missed by 20%"
    assert goal_of(found, "P11 suspended: 10,000,000 Jobs").is_reached


def whole() -> dict:
    turns = [turn(name, n, P1=phase(5 + n), P4=phase(7), P14=phase(9)) for n in (1, 2) for name in (OURS, FLOOR)]
    turns[0]["errors"] = ["P2: 3 Jobs were created while pods of attempt 0 were there"]
    return json.loads(json.dumps(results(*turns, **once())))


def test_everything_is_printed_with_what_failed(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(output, "console", lambda: Console(file=out, width=200))
    show.show(whole(), calls=True)
    said = out.getvalue()
    for part in ("P1: a JobSet of 300 Jobs", "P1: calls by verb", "P10", "P8 and P9", "P11", "goals: jobset"):
        assert part in said
    assert "P14" not in said, "a scenario of earlier versions"
    assert "failed: jobset, round 1: P2: 3 Jobs were created while pods" in said
    assert report.errors(whole()) == ["jobset, round 1: P2: 3 Jobs were created while pods of attempt 0 were there"]


def test_pictures_are_drawn_the_same_each_time(tmp_path):
    from dev.bench import plots  # noqa: PLC0415 (matplotlib, which few tests need)

    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        paths = plots.draw(whole(), tmp_path / folder)
        assert [path.name for path in paths] == ["times.svg", "calls.svg", "memory.svg"]
    for path in paths:
        assert path.stat().st_size > 1000
        assert path.read_bytes() == (tmp_path / "a" / path.name).read_bytes()
        assert "jobset" in path.read_text()


def test_nothing_is_drawn_of_nothing(tmp_path):
    from dev.bench import plots  # noqa: PLC0415 (matplotlib, which few tests need)

    assert plots.draw(results(), tmp_path) == []
