"""The goals of a manager, and whether it reaches them. Pure.

For a time, the median of the ratios in each round has to reach the goal. For a count, the worst round has to reach it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dev.bench.report import PLAIN_PHASES, Spread, fastest_floor, figures_by_round, ratio
from kube.model.meta import JSON


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure and its bound. `value` has to be at most `limit`."""

    name: str
    value: float
    limit: float
    unit: str = ""

    @property
    def is_reached(self) -> bool:
        return self.value <= self.limit

    def verdict(self) -> str:
        """Whether the goal is reached, or by how much it is missed."""
        if self.is_reached:
            return "reached"
        return f"missed by {(self.value - self.limit) / self.limit:.0%}" if self.limit else "missed"

    def row(self) -> dict[str, str]:
        return {
            "goal": self.name,
            "is": f"{self.value:,.4g}{self.unit}",
            "should be": f"<= {self.limit:,.4g}{self.unit}",
            "verdict": self.verdict(),
        }


MAX_RATIO_TO_FLOOR = {"P1": 0.9, "P2": 0.9, "P4": 1.25, "P5 suspend": 1.1, "P5 resume": 1.1}
"""For each phase, the largest ratio of its time to the time of the fastest floor."""

MAX_RATIO_TO_PLAIN = 1.15
MAX_EXTRA_WAIT_SECONDS = 1.0
MAX_STATUS_WRITES, MAX_CONFLICTS = 20, 2
SINGLE_JOBSET_PHASES = ("P1", "P2", "P3 create", "P3 restart", "P5 suspend", "P5 resume")
"""Phases of a single JobSet, for which status writes are bounded."""

CREATION_PHASES = ("P1", "P2", "P3 create", "P3 restart", "P4")
"""Phases in which every Job is created once."""

EXCLUSIVE_PHASES = ("P3 create", "P3 restart")
PHASES_OF_P10 = ("P1", "P2", "P3 plain create", "P3 plain restart", "P3 create", "P3 restart", "P4")
MAX_IDLE_MIB, MAX_MIB_AFTER = 64, 80
ADMISSION_CONNECTIONS, MAX_RATIO_OF_REVIEWS = 16, 1.0
MAX_PLAN_MS, PLAN_JOBS = 50, (10_000, 10_000_000)
MAX_PLAN_EXPONENT = 1.1
"""The largest exponent with which the time of a plan may grow with the number of Jobs."""

QUEUE_PHASES = ("P13 create", "P13 admit", "P13 finish")
MAX_QUEUE_CALLS = 657
"""The largest number of calls in P13, including dry runs.

The Go manager, which makes no dry runs, makes one call more for 40 JobSets under Kueue.
"""

MAX_QUEUE_CREATE_SECONDS = 5.1
"""The most seconds in P13 until 40 JobSets are created under Kueue: 1.3 times the 3.9 s of the Go manager."""

ROUND_GOALS: tuple[tuple[str, str, str, float, str], ...] = (
    ("P19 rest", "of a core", "percent", 1, " %"),
    ("P19 failures", "p99 from a failure to its status", "p99_ms", 250, " ms"),
    ("P19 takeover", "from the end of a leader to the next one's Lease", "seconds", 2, " s"),
)
"""Goals that every round has to reach: phase, text, key of the figure, limit and unit of each."""


def goals(results: JSON, manager: str) -> list[Goal]:
    """All goals for which there are figures."""
    return [
        *_time_goals(results, manager),
        *_count_goals(results, manager),
        *_queue_goals(results, manager),
        *_memory_goals(results, manager),
        *_admission_goals(results["admission"], manager),
        *_plan_goals(results.get("plan") or []),
        *_round_goals(results, manager),
    ]


def _round_goals(results: JSON, manager: str) -> Iterator[Goal]:
    for name, text, figure, limit, unit in ROUND_GOALS:
        for phase in figures_by_round(results, manager, name).values():
            yield Goal(f"{name}: {text}", phase[figure], limit, unit)


def _time_goals(results: JSON, manager: str) -> Iterator[Goal]:
    for name, limit in MAX_RATIO_TO_FLOOR.items():
        floor = fastest_floor(results, name)
        if floor and (ratios := ratio(results, (manager, name), (floor, name))):
            yield Goal(f"{name}: time over {floor}", ratios.median, limit)
    for name, plain_name in PLAIN_PHASES.items():
        if ratios := ratio(results, (manager, name), (manager, plain_name)):
            yield Goal(f"{name}: time over the same pods without exclusivity", ratios.median, MAX_RATIO_TO_PLAIN)
    alone, beside = (figures_by_round(results, manager, f"P6 {step}") for step in ("alone", "beside"))
    if common_rounds := alone.keys() & beside.keys():
        for key, title in (("half_seconds", "median"), ("seconds", "longest")):
            extra_wait = max(beside[number][key] - alone[number][key] for number in common_rounds)
            name = f"P6: {title} wait beside a large set, longer than alone by"
            yield Goal(name, extra_wait, MAX_EXTRA_WAIT_SECONDS, " s")


def _count_goals(results: JSON, manager: str) -> Iterator[Goal]:
    """Yield a goal for each kind of call, for the phase with the highest count."""
    kinds: tuple[tuple[str, Iterable[str], Callable[[JSON], int], int], ...] = (
        (
            "Jobs created beyond or short of those that are needed",
            CREATION_PHASES,
            lambda phase: abs(phase["manager"]["creates"] - phase["jobs"]),
            0,
        ),
        (
            "deletions beyond the number of Jobs",
            CREATION_PHASES,
            lambda phase: max(0, phase["manager"]["deletes"] - phase["jobs"]),
            0,
        ),
        ("duplicate creations", CREATION_PHASES, lambda phase: phase["manager"]["duplicates"], 0),
        (
            "conflicting writes",
            {*CREATION_PHASES, *SINGLE_JOBSET_PHASES},
            lambda phase: phase["manager"]["conflicts"],
            MAX_CONFLICTS,
        ),
        ("status writes", SINGLE_JOBSET_PHASES, lambda phase: phase["manager"]["status_writes"], MAX_STATUS_WRITES),
        ("refused creations of pods", EXCLUSIVE_PHASES, lambda phase: phase["pod_creates_refused"], 0),
    )
    for title, names, count, limit in kinds:
        figures = {name: figures_by_round(results, manager, name).values() for name in names}
        if counts := [(max(map(count, phases)), name) for name, phases in figures.items() if phases]:
            value, name = max(counts)
            yield Goal(f"{title} in {name}, the worst of {len(counts)} phases", value, limit)


def _queue_goals(results: JSON, manager: str) -> Iterator[Goal]:
    """P13: the calls for all JobSets from their creation to their end, and the time until they are created."""
    phases = [figures_by_round(results, manager, name) for name in QUEUE_PHASES]
    if all(phases):
        calls_of_phases = [phase[1]["manager"] for phase in phases]
        calls = sum(figures["requests"] + figures["dry_runs"] for figures in calls_of_phases)
        yield Goal("P13: calls, dry runs included", calls, MAX_QUEUE_CALLS)
        created_seconds = phases[0][1]["created_seconds"]
        yield Goal("P13: until the JobSets are created", created_seconds, MAX_QUEUE_CREATE_SECONDS, " s")


def _memory_goals(results: JSON, manager: str) -> Iterator[Goal]:
    """P10: memory when idle, and after P4, the last of P1 to P4. Pages that processes share are counted once."""
    turns = [turn for turn in results["turns"] if turn["manager"] == manager]
    if idle_memory := Spread.at(turns, "idle_pss_mib"):
        yield Goal("P10: memory when idle", idle_memory.high, MAX_IDLE_MIB, " MiB")
    if memory_after := Spread.at(figures_by_round(results, manager, "P4").values(), "pss_mib"):
        yield Goal("P10: memory after P1 to P4", memory_after.high, MAX_MIB_AFTER, " MiB")


def cpu_seconds(results: JSON, manager: str) -> list[float]:
    """P10: processor time of a manager through P1 to P4, in each round with all of the phases that the manager has."""
    phases = [figures for name in PHASES_OF_P10 if (figures := figures_by_round(results, manager, name))]
    return [
        sum(figures[number]["manager_cpu_seconds"] for figures in phases)
        for number in (phases[0] if phases else ())
        if all(number in figures for figures in phases)
    ]


def _admission_goals(rows_by_manager: dict[str, list[JSON]], manager: str) -> Iterator[Goal]:
    """P8 and P9: the processor time of both reviews of a new JobSet, over that of each other measured manager."""
    own_costs = _review_costs(rows_by_manager.get(manager, []))
    for other, rows in rows_by_manager.items():
        for size, cost in _review_costs(rows).items():
            if other != manager and size in own_costs:
                name = f"P8 and P9, {size}: processor time of the reviews of a new JobSet over {other}"
                yield Goal(name, own_costs[size] / cost, MAX_RATIO_OF_REVIEWS)


def _review_costs(rows: list[JSON]) -> dict[str, float]:
    """By size of a review, microseconds for a mutating and a validating one with one process."""
    costs: dict[str, list[float]] = {}
    for row in rows:
        if (row["connections"], row["workers"]) == (ADMISSION_CONNECTIONS, 1) and row["requests"]:
            costs.setdefault(row["size"], []).append(row["cpu_us"])
    return {size: sum(both) for size, both in costs.items() if len(both) == 2}


def _plan_goals(rows: list[JSON]) -> Iterator[Goal]:
    """P11: the time of a plan, and how it grows with the number of Jobs."""
    for row in rows:
        for jobs in PLAN_JOBS:
            if seconds := row["seconds"].get(str(jobs)):
                yield Goal(f"P11 {row['scenario']}: {jobs:,} Jobs", seconds * 1e3, MAX_PLAN_MS, " ms")
        if row["slope"] is not None:
            yield Goal(f"P11 {row['scenario']}: exponent of the curve", row["slope"], MAX_PLAN_EXPONENT)
