"""The goals of a manager, and whether it reaches them. Pure.

For a time, the median of the ratios in each round has to reach the goal. For a count, the worst round has to reach it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dev.bench.report import fastest_floor, ratio, rounds
from kube.model.meta import JSON


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure and its bound. `value` has to be at most `limit`, or, if `is_minimum`, at least `limit`."""

    name: str
    value: float
    limit: float
    unit: str = ""
    is_minimum: bool = False

    @property
    def is_reached(self) -> bool:
        return self.value >= self.limit if self.is_minimum else self.value <= self.limit

    def verdict(self) -> str:
        """Whether the goal is reached, or by how much it is missed."""
        if self.is_reached:
            return "reached"
        return f"missed by {abs(self.value - self.limit) / self.limit:.0%}" if self.limit else "missed"

    def row(self) -> dict[str, str]:
        bound = ">=" if self.is_minimum else "<="
        return {
            "goal": self.name,
            "is": f"{self.value:,.4g}{self.unit}",
            "should be": f"{bound} {self.limit:,.4g}{self.unit}",
            "verdict": self.verdict(),
        }


MAX_RATIO_TO_FLOOR = {"P1": 0.9, "P2": 0.9, "P4": 1.25, "P5 suspend": 1.1, "P5 resume": 1.1}
"""For each phase, the largest ratio of its time to the time of the fastest floor."""

MAX_RATIO_TO_PLAIN = 1.15
SMALL_WAIT_SECONDS = 1.0
STATUS_WRITES, CONFLICTS = 20, 2
SINGLE_JOBSET_PHASES = ("P1", "P2", "P3 create", "P3 restart", "P5 suspend", "P5 resume")
"""Phases of a single JobSet, for which status writes are bounded."""

CREATION_PHASES = ("P1", "P2", "P3 create", "P3 restart", "P4")
"""Phases in which every Job is created once."""

MEMORY_PHASES = ("P1", "P2", "P3 plain create", "P3 plain restart", "P3 create", "P3 restart", "P4")
MEMORY_MIB, IDLE_MIB = 80, 64
ADMISSION_CONNECTIONS, ADMISSION_SIZE, ADMISSION_P99_MS = 16, "2 KB", 12
ADMISSION_PER_SECOND = {("mutate", 1): 4000, ("validate", 1): 3500, ("mutate", 2): 6000, ("validate", 2): 6000}
"""The least number of reviews a second, by webhook and number of processes."""

PLAN_MS, PLAN_JOBS = 50, (10_000, 10_000_000)
EXPONENT = 1.1
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
        *_admission_goals(results["admission"].get(manager) or []),
        *_plan_goals(results.get("plan") or []),
        *_round_goals(results, manager),
    ]


def _round_goals(results: JSON, manager: str) -> Iterator[Goal]:
    for name, text, figure, limit, unit in ROUND_GOALS:
        for phase in rounds(results, manager, name).values():
            yield Goal(f"{name}: {text}", phase[figure], limit, unit)


def _time_goals(results: JSON, manager: str) -> Iterator[Goal]:
    for name, limit in MAX_RATIO_TO_FLOOR.items():
        floor = fastest_floor(results, name)
        if floor and (ratios := ratio(results, (manager, name), (floor, name))):
            yield Goal(f"{name}: time over {floor}", ratios.median, limit)
    for step in ("create", "restart"):
        if ratios := ratio(results, (manager, f"P3 {step}"), (manager, f"P3 plain {step}")):
            yield Goal(f"P3 {step}: time over the same pods without exclusivity", ratios.median, MAX_RATIO_TO_PLAIN)
    alone_rounds, beside_rounds = rounds(results, manager, "P6 alone"), rounds(results, manager, "P6 beside")
    if common_rounds := alone_rounds.keys() & beside_rounds.keys():
        for key, title in (("half_seconds", "median"), ("seconds", "longest")):
            extra_wait = max(beside_rounds[n][key] - alone_rounds[n][key] for n in common_rounds)
            yield Goal(
                f"P6: {title} wait beside a large set, longer than alone by", extra_wait, SMALL_WAIT_SECONDS, " s"
            )


def _count_goals(results: JSON, manager: str) -> Iterator[Goal]:
    """Yield a goal for each kind of call, for the phase with the highest count."""
    rounds_by_phase = {
        name: list(rounds(results, manager, name).values()) for name in {*CREATION_PHASES, *SINGLE_JOBSET_PHASES}
    }
    creating = {name: rounds_by_phase[name] for name in CREATION_PHASES if rounds_by_phase[name]}
    one_set = {name: rounds_by_phase[name] for name in SINGLE_JOBSET_PHASES if rounds_by_phase[name]}
    exclusive = {name: figures for name, figures in creating.items() if name.startswith("P3")}
    kinds: tuple[tuple[str, dict[str, list[JSON]], Callable[[JSON], int], int], ...] = (
        (
            "Jobs created beyond or short of those that are needed",
            creating,
            lambda phase: abs(int(phase["manager"]["creates"]) - int(phase["jobs"])),
            0,
        ),
        (
            "deletions beyond the number of Jobs",
            creating,
            lambda phase: max(0, int(phase["manager"]["deletes"]) - int(phase["jobs"])),
            0,
        ),
        ("duplicate creations", creating, lambda phase: int(phase["manager"]["duplicates"]), 0),
        ("conflicting writes", creating | one_set, lambda phase: int(phase["manager"]["conflicts"]), CONFLICTS),
        ("status writes", one_set, lambda phase: int(phase["manager"]["status_writes"]), STATUS_WRITES),
        ("refused creations of pods", exclusive, lambda phase: int(phase["pod_creates_refused"]), 0),
    )
    for title, phases, count, limit in kinds:
        if phases:
            value, name = max((max(map(count, figures)), name) for name, figures in phases.items())
            yield Goal(f"{title} in {name}, the worst of {len(phases)} phases", value, limit)


def _queue_goals(results: JSON, manager: str) -> Iterator[Goal]:
    """P13: the calls for all JobSets from their creation to their end, and the time until they are created."""
    phases = [rounds(results, manager, name) for name in QUEUE_PHASES]
    if all(phases):
        calls_of_phases = [phase[1]["manager"] for phase in phases]
        calls = sum(figures["requests"] + figures["dry_runs"] for figures in calls_of_phases)
        yield Goal("P13: calls, dry runs included", calls, MAX_QUEUE_CALLS)
        yield Goal(
            "P13: until the JobSets are created", phases[0][1]["created_seconds"], MAX_QUEUE_CREATE_SECONDS, " s"
        )


def _memory_goals(results: JSON, manager: str) -> Iterator[Goal]:
    """P10: memory when idle, and after P4, the last of P1 to P4. Pages that processes share are counted once."""
    turns = [turn for turn in results["turns"] if turn["manager"] == manager]
    idle_memory = [turn["idle_pss_mib"] for turn in turns if "idle_pss_mib" in turn]
    memory_after = [
        phase["pss_mib"] for phase in rounds(results, manager, MEMORY_PHASES[-1]).values() if "pss_mib" in phase
    ]
    if idle_memory:
        yield Goal("P10: memory when idle", max(idle_memory), IDLE_MIB, " MiB")
    if memory_after:
        yield Goal("P10: memory after P1 to P4", max(memory_after), MEMORY_MIB, " MiB")


def cpu_seconds(results: JSON, manager: str) -> list[float]:
    """P10: processor time of a manager through P1 to P4, a figure for each round with all of these phases."""
    rounds_of_phases = [rounds(results, manager, name) for name in MEMORY_PHASES if rounds(results, manager, name)]
    complete_rounds = set.intersection(*(set(phases) for phases in rounds_of_phases)) if rounds_of_phases else set()
    return [
        sum(phases[number]["manager_cpu_seconds"] for phases in rounds_of_phases) for number in sorted(complete_rounds)
    ]


def _admission_goals(rows: list[JSON]) -> Iterator[Goal]:
    for row in rows:
        if (row["connections"], row["size"]) == (ADMISSION_CONNECTIONS, ADMISSION_SIZE):
            webhook, workers = row["webhook"], row["workers"]
            code = {"mutate": "P8", "validate": "P9"}[webhook]
            title = f"{code} {webhook}, {workers} process{'es' if workers > 1 else ''}"
            limit = ADMISSION_PER_SECOND[webhook, workers]
            yield Goal(f"{title}: reviews", row["per_s"], limit, "/s", is_minimum=True)
            yield Goal(f"{title}: p99", row["p99_ms"], ADMISSION_P99_MS, " ms")


def _plan_goals(rows: list[JSON]) -> Iterator[Goal]:
    """P11: the time of a plan, and how it grows with the number of Jobs."""
    for row in rows:
        for jobs in PLAN_JOBS:
            if seconds := row["seconds"].get(str(jobs)):
                yield Goal(f"P11 {row['scenario']}: {jobs:,} Jobs", seconds * 1e3, PLAN_MS, " ms")
        if row["slope"] is not None:
            yield Goal(f"P11 {row['scenario']}: exponent of the curve", row["slope"], EXPONENT)
