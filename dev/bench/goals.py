"""What a manager is to reach, and whether it does. Pure: results in, goals out.

Times are medians of ratios within rounds; of counts the worst round has to keep the bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dev.bench.report import Goal, ratio, reference, rounds
from dev.bench.scenarios.hang import DEADLINE_SECONDS
from dev.bench.scenarios.node_lost import AFTER_SECONDS

JSON = dict[str, Any]

OVER_FLOOR = {"P1": 0.9, "P2": 0.9, "P4": 1.25, "P5 suspend": 1.1, "P5 resume": 1.1}
"""Times over the fastest floor's."""

EXCLUSIVE_OVER_PLAIN = 1.15
SMALL_WAIT_SECONDS = 1.0
STATUS_WRITES, CONFLICTS = 20, 2
ONE_SET = ("P1", "P2", "P3 create", "P3 restart", "P5 suspend", "P5 resume")
"""Phases of a single JobSet, for which status writes are bounded."""

CREATING = ("P1", "P2", "P3 create", "P3 restart", "P4")
"""Phases in which every Job is created once."""

MEMORY_AFTER = ("P1", "P2", "P3 plain create", "P3 plain restart", "P3 create", "P3 restart", "P4")
RSS_MIB = 80
ADMISSION_CONNECTIONS, ADMISSION_SIZE, ADMISSION_P99_MS = 16, "2 KB", 12
ADMISSION_PER_SECOND = {"mutate": 4000, "validate": 3500}
ADMISSION_TWO_WORKERS = 6000
PLAN_MS, PLAN_JOBS, PLAN_SLOPE = 50, (10_000, 10_000_000), 1.1
KIB_PER_NODE, PODS_PER_SECOND = 100, 1000


QUEUED_CALLS = 657
"""In P13, dry runs included: one less than the Go manager makes for 40 sets under Kueue, which has no dry runs."""


NODE_LOST_SECONDS = {
    "P14 recreate": 5,
    "P14 recreate 10": 5,
    "P14 recreate lost": 5,
    "P14 in place": 3,
    "P14 worker only": 3,
}
"""In P14, beside those of `AFTER_SECONDS`."""

IN_PLACE_SECONDS, WRITES_PER_AGENT, IN_PLACE_STATUS_WRITES = 10, 2, 4
"""In P15."""

AFTER_DEADLINE_SECONDS = 3
"""In P16, beside `DEADLINE_SECONDS`."""

QUEUED_CREATE_SECONDS = 5.1
"""In P13: 1.3 times what the Go manager takes to have 40 sets created under Kueue (3.9 s)."""


def goals(results: JSON, manager: str) -> list[Goal]:
    """All goals for which there are figures."""
    return [
        *_times(results, manager),
        *_counts(results, manager),
        *_queued(results, manager),
        *_node_lost(results, manager),
        *_in_place(results, manager),
        *_memory(results, manager),
        *_admission(results["admission"].get(manager) or []),
        *_plan(results.get("plan") or []),
        *_simulated(results["simulated"].get(manager)),
    ]


def _times(results: JSON, manager: str) -> Iterator[Goal]:
    for name, limit in OVER_FLOOR.items():
        floor = reference(results, name)
        if floor and (over := ratio(results, (manager, name), (floor, name))):
            yield Goal(f"{name}: time over {floor}", over.median, limit)
    for step in ("create", "restart"):
        if over := ratio(results, (manager, f"P3 {step}"), (manager, f"P3 plain {step}")):
            yield Goal(f"P3 {step}: time over the same pods without exclusivity", over.median, EXCLUSIVE_OVER_PLAIN)
    alone, beside = rounds(results, manager, "P6 alone"), rounds(results, manager, "P6 beside")
    if both := alone.keys() & beside.keys():
        for key, what in (("half_seconds", "median"), ("seconds", "longest")):
            longer = max(beside[n][key] - alone[n][key] for n in both)
            yield Goal(f"P6: {what} wait beside a large set, longer than alone by", longer, SMALL_WAIT_SECONDS, " s")


def _counts(results: JSON, manager: str) -> Iterator[Goal]:
    """One goal for each kind of call: what is reported is the phase that is furthest from keeping it."""
    measured = {name: list(rounds(results, manager, name).values()) for name in {*CREATING, *ONE_SET}}
    creating = {name: measured[name] for name in CREATING if measured[name]}
    one_set = {name: measured[name] for name in ONE_SET if measured[name]}
    exclusive = {name: found for name, found in creating.items() if name.startswith("P3")}
    for what, phases, excess, limit in (
        ("Jobs created beyond or short of those that are needed", creating, _extra_creates, 0),
        ("deletions beyond the number of Jobs", creating, _extra_deletes, 0),
        ("duplicate creations", creating, lambda phase: phase["manager"]["duplicates"], 0),
        ("conflicting writes", {**creating, **one_set}, lambda phase: phase["manager"]["conflicts"], CONFLICTS),
        ("status writes", one_set, lambda phase: phase["manager"]["status_writes"], STATUS_WRITES),
        ("refused creations of pods", exclusive, lambda phase: phase["pod_creates_refused"], 0),
    ):
        if phases:
            value, name = max((max(map(excess, found)), name) for name, found in phases.items())
            yield Goal(f"{what} in {name}, the worst of {len(phases)} phases", value, limit)


def _extra_creates(phase: JSON) -> int:
    return abs(int(phase["manager"]["creates"]) - int(phase["jobs"]))


def _extra_deletes(phase: JSON) -> int:
    return max(0, int(phase["manager"]["deletes"]) - int(phase["jobs"]))


def _queued(results: JSON, manager: str) -> Iterator[Goal]:
    """P13: what a set costs from its creation to its end."""
    phases = [rounds(results, manager, name) for name in ("P13 create", "P13 admit", "P13 finish")]
    if all(phases):
        made = [phase[1]["manager"] for phase in phases]
        calls = sum(figures["requests"] + figures["dry_runs"] for figures in made)
        yield Goal("P13: calls, dry runs included", calls, QUEUED_CALLS)
        yield Goal("P13: until the JobSets are created", phases[0][1]["created_seconds"], QUEUED_CREATE_SECONDS, " s")


def _node_lost(results: JSON, manager: str) -> Iterator[Goal]:
    """P14: beyond the time that the JobSet leaves to the node."""
    for name, limit in NODE_LOST_SECONDS.items():
        for phase in rounds(results, manager, name).values():
            yield Goal(f"{name}: all pods run after the taint", phase["seconds"], AFTER_SECONDS + limit, " s")


def _in_place(results: JSON, manager: str) -> Iterator[Goal]:
    """P15 and P16."""
    for name in ("P15", "P15 worker only"):
        for phase in rounds(results, manager, name).values():
            yield Goal(f"{name}: all agents go on after the failure", phase["seconds"], IN_PLACE_SECONDS, " s")
            yield Goal(f"{name}: writes of each agent", phase["writes_per_agent"], WRITES_PER_AGENT)
            yield Goal(f"{name}: status writes", phase["manager"]["status_writes"], IN_PLACE_STATUS_WRITES)
    for phase in rounds(results, manager, "P16").values():
        limit = DEADLINE_SECONDS + AFTER_DEADLINE_SECONDS
        yield Goal("P16: all programs begin again after the last heartbeat", phase["seconds"], limit, " s")


def _memory(results: JSON, manager: str) -> Iterator[Goal]:
    """P10: what is resident after the last of P1 to P4."""
    if found := rounds(results, manager, MEMORY_AFTER[-1]).values():
        yield Goal("P10: RSS after P1 to P4", max(phase["rss_mib"] for phase in found), RSS_MIB, " MiB")


def cpu_seconds(results: JSON, manager: str) -> list[float]:
    """P10: processor time of a manager through P1 to P4, a figure for each round that has had all of them."""
    measured = [rounds(results, manager, name) for name in MEMORY_AFTER if rounds(results, manager, name)]
    whole = set.intersection(*(set(phases) for phases in measured)) if measured else set()
    return [sum(phases[number]["manager_cpu_seconds"] for phases in measured) for number in sorted(whole)]


def _admission(rows: list[JSON]) -> Iterator[Goal]:
    for row in rows:
        if (row["connections"], row["size"]) != (ADMISSION_CONNECTIONS, ADMISSION_SIZE):
            continue
        scenario = {"mutate": "P8", "validate": "P9"}[row["webhook"]]
        workers = row["workers"]
        limit = ADMISSION_PER_SECOND[row["webhook"]] if workers == 1 else ADMISSION_TWO_WORKERS
        what = f"{scenario} {row['webhook']}, {workers} process{'es' if workers > 1 else ''}"
        yield Goal(f"{what}: reviews", row["per_s"], limit, "/s", at_least=True)
        yield Goal(f"{what}: p99", row["p99_ms"], ADMISSION_P99_MS, " ms")


def _plan(rows: list[JSON]) -> Iterator[Goal]:
    """P11."""
    for row in rows:
        for jobs in PLAN_JOBS:
            if seconds := row["seconds"].get(str(jobs)):
                yield Goal(f"P11 {row['scenario']}: {jobs:,} Jobs", seconds * 1e3, PLAN_MS, " ms")
        if row["slope"] is not None:
            yield Goal(f"P11 {row['scenario']}: exponent of the curve", row["slope"], PLAN_SLOPE)


def _simulated(found: JSON | None) -> Iterator[Goal]:
    """P12."""
    if found is not None:
        yield Goal("P12: memory for each node", found["kib_per_node"], KIB_PER_NODE, " KiB")
        rate = found["restart"]["pods_per_second"]
        yield Goal("P12: restarted pods", rate, PODS_PER_SECOND, "/s", at_least=True)
