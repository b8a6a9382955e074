"""Makes the tables of a run, with figures by phase and manager, and ratios between managers. Pure.

A ratio is taken within a round, since rounds differ in the other load of the machine.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from dev.bench.output import value_at
from kube.model.meta import JSON


@dataclass(frozen=True, slots=True)
class Spread:
    """The range and the median of figures."""

    low: float
    median: float
    high: float

    @classmethod
    def from_figures(cls, figures: Iterable[float]) -> Spread | None:
        """The spread of figures; None without figures."""
        values = list(figures)
        return cls(min(values), statistics.median(values), max(values)) if values else None

    @classmethod
    def at(cls, phases: Iterable[JSON], path: str) -> Spread | None:
        """The spread of the figure at a path, over the phases that have it."""
        return cls.from_figures(value for phase in phases if (value := value_at(phase, path)) is not None)

    def text(self, digits: int = 1) -> str:
        """The median, with the range if the figures differ."""
        middle = f"{self.median:.{digits}f}"
        return middle if self.low == self.high else f"{middle} ({self.low:.{digits}f}-{self.high:.{digits}f})"


def figures_by_round(results: JSON, manager: str, name: str) -> dict[int, JSON]:
    """The figures of a phase of a manager, by round."""
    return {
        turn["round"]: turn["phases"][name]
        for turn in results["turns"]
        if turn["manager"] == manager and name in turn["phases"]
    }


def phase_names(results: JSON) -> list[str]:
    """The names of the phases in the order in which they were measured."""
    return list(dict.fromkeys(name for turn in results["turns"] for name in turn["phases"]))


def manager_names(results: JSON, *, floor: bool | None = None) -> list[str]:
    """The names of all managers, or only of the floors (`floor` True), or only of the others (`floor` False)."""
    return [manager["name"] for manager in results["managers"] if floor in {None, manager["floor"]}]


def errors(results: JSON) -> list[str]:
    """The measurements that failed or had a wrong result."""
    turn_errors = [
        f"{turn['manager']}, round {turn['round']}: {error}" for turn in results["turns"] for error in turn["errors"]
    ]
    return [*turn_errors, *results["errors"]]


def seconds(results: JSON, manager: str, name: str) -> Spread | None:
    return Spread.at(figures_by_round(results, manager, name).values(), "seconds")


def fastest_floor(results: JSON, name: str) -> str | None:
    """The floor that was fastest in a phase; None if no floor has run the phase."""
    medians = [
        (measured.median, manager)
        for manager in manager_names(results, floor=True)
        if (measured := seconds(results, manager, name))
    ]
    return min(medians)[1] if medians else None


def ratio(results: JSON, measured: tuple[str, str], base: tuple[str, str]) -> Spread | None:
    """The ratios of the times of one (manager, phase) to the times of another, round by round."""
    measured_rounds, base_rounds = figures_by_round(results, *measured), figures_by_round(results, *base)
    return Spread.from_figures(
        measured_rounds[n]["seconds"] / base_rounds[n]["seconds"] for n in measured_rounds.keys() & base_rounds.keys()
    )


PLAIN_PHASES = {f"P3 {step}": f"P3 plain {step}" for step in ("create", "restart")}
"""Phases that no floor runs, with the phases of the same manager with which they are compared."""


def base_of(results: JSON, manager: str, name: str) -> tuple[str, str]:
    """The (manager, phase) that a phase is compared with: the same phase of the fastest floor, or plain pods."""
    floor = fastest_floor(results, name)
    return (floor, name) if floor else (manager, PLAIN_PHASES.get(name, ""))


MIN_FITTED_SIZE = 1000
"""The size from which on growth is fitted. Below this size, the constant part of a figure dominates."""


def exponent(points: Iterable[tuple[float, float]]) -> float | None:
    """Least-squares exponent of a figure over the size: 1 is linear, 2 is quadratic. None for fewer than two points.

    Points are (size, figure). Only points with a size of at least `MIN_FITTED_SIZE` count.
    """
    fitted = [(math.log(size), math.log(figure)) for size, figure in points if size >= MIN_FITTED_SIZE]
    return statistics.linear_regression(*zip(*fitted, strict=True)).slope if len(fitted) > 1 else None


COLUMNS = {
    "pods/s": ("pods_per_second", 0),
    "reported (s)": ("reported_seconds", 1),
    "CPU (s)": ("manager_cpu_seconds", 2),
    "MiB": ("peak_rss_mib", 0),
    "pods refused": ("pod_creates_refused", 0),
    "calls": ("manager.requests", 0),
    "dry runs": ("manager.dry_runs", 0),
    "creates": ("manager.creates", 0),
    "duplicates": ("manager.duplicates", 0),
    "deletes": ("manager.deletes", 0),
    "status": ("manager.status_writes", 0),
    "conflicts": ("manager.conflicts", 0),
}
"""By the title of a column, the path of its figure and the number of its digits."""

SPECIAL_COLUMNS = {
    "p50 (ms)": ("p50_ms", 0),
    "p99 (ms)": ("p99_ms", 0),
    "PSS (MiB)": ("pss_mib", 0),
}
"""Further columns of phases that have such figures."""


def phase_rows(results: JSON, name: str) -> list[dict[str, str]]:
    """A row for each manager that has run the phase, with the text by title of the column."""
    rows = []
    for manager in manager_names(results):
        phases = list(figures_by_round(results, manager, name).values())
        if not phases:
            continue
        base = base_of(results, manager, name)
        time, ratios = seconds(results, manager, name), ratio(results, (manager, name), base)
        special = {title: column for title, column in SPECIAL_COLUMNS.items() if column[0] in phases[0]}
        columns = [(title, Spread.at(phases, path), digits) for title, (path, digits) in {**COLUMNS, **special}.items()]
        rows.append(
            {
                "manager": manager,
                "runs": str(len(phases)),
                "seconds": time.text() if time else "-",
                "x plain" if base[1] in PLAIN_PHASES.values() else "x floor": ratios.text(2) if ratios else "-",
                **{title: f"{figure.median:.{digits}f}" if figure else "-" for title, figure, digits in columns},
            }
        )
    return rows


def call_rows(results: JSON, name: str) -> list[dict[str, str]]:
    """A row for each verb, resource and code of calls in a phase, with the median of the rounds for each manager."""
    medians_by_key: dict[tuple[str, str, int], dict[str, str]] = {}
    columns = [manager for manager in manager_names(results) if figures_by_round(results, manager, name)]
    for manager in columns:
        counts_by_round = [
            {(call["verb"], call["resource"], call["code"]): call["count"] for call in phase["calls"]}
            for phase in figures_by_round(results, manager, name).values()
        ]
        for key in {key for calls in counts_by_round for key in calls}:
            middle = statistics.median(calls.get(key, 0) for calls in counts_by_round)
            medians_by_key.setdefault(key, {})[manager] = f"{middle:g}"
    return [
        {"verb": verb, "resource": resource, "code": str(code)}
        | {manager: counts.get(manager, "0") for manager in columns}
        for (verb, resource, code), counts in sorted(medians_by_key.items())
    ]
