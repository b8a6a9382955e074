"""What a run of the benchmark says: figures by phase, ratios between managers, goals. Pure: results in, rows out.

A ratio is taken within a round, since rounds differ in what else the machine did.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Spread:
    """Several figures of the same thing."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, figures: Iterable[float]) -> Spread | None:
        """None without figures."""
        found = list(figures)
        return cls(min(found), statistics.median(found), max(found)) if found else None

    def text(self, digits: int = 1) -> str:
        """The median with the range, where there is one."""
        middle = f"{self.median:.{digits}f}"
        spread = f" ({self.low:.{digits}f}-{self.high:.{digits}f})"
        return middle if self.low == self.high else middle + spread


def rounds(results: JSON, manager: str, name: str) -> dict[int, JSON]:
    """A phase of a manager by round."""
    return {
        turn["round"]: turn["phases"][name]
        for turn in results["turns"]
        if turn["manager"] == manager and name in turn["phases"]
    }


def names(results: JSON) -> list[str]:
    """The phases in the order in which they were measured."""
    return list(dict.fromkeys(name for turn in results["turns"] for name in turn["phases"]))


def managers(results: JSON, *, floor: bool | None = None) -> list[str]:
    """Names of the managers: of all, of those that are floors, or of those that are not."""
    return [manager["name"] for manager in results["managers"] if floor in {None, manager["floor"]}]


def seconds(results: JSON, manager: str, name: str) -> Spread | None:
    return Spread.of(phase["seconds"] for phase in rounds(results, manager, name).values())


def reference(results: JSON, name: str) -> str | None:
    """The floor that was fastest in a phase; None where no floor has run it."""
    found = [
        (taken.median, manager)
        for manager in managers(results, floor=True)
        if (taken := seconds(results, manager, name))
    ]
    return min(found)[1] if found else None


def ratio(results: JSON, measured: tuple[str, str], base: tuple[str, str]) -> Spread | None:
    """The times of one (manager, phase) over those of another, round by round."""
    ours, theirs = rounds(results, *measured), rounds(results, *base)
    return Spread.of(ours[n]["seconds"] / theirs[n]["seconds"] for n in ours.keys() & theirs.keys())


def phase_rows(results: JSON, name: str) -> list[dict[str, str]]:
    """Column -> text for each manager that has run a phase."""
    floor = reference(results, name)
    rows = []
    for manager in managers(results):
        found = list(rounds(results, manager, name).values())
        if not found:
            continue
        over = ratio(results, (manager, name), (floor, name)) if floor else None
        rows.append(
            {
                "manager": manager,
                "runs": str(len(found)),
                "seconds": _spread(found, "seconds"),
                "x floor": over.text(2) if over else "-",
                "pods/s": _median(found, "pods_per_second", 0),
                "reported (s)": _median(found, "reported_seconds", 1),
                "CPU (s)": _median(found, "manager_cpu_seconds", 2),
                "MiB": _median(found, "peak_rss_mib", 0),
                "pods refused": _median(found, "pod_creates_refused", 0),
                **{column: _median([phase["manager"] for phase in found], key, 0) for column, key in COUNTS.items()},
                **{column: _median(found, key, 1) for column, key in OF_AGENTS.items() if key in found[0]},
            }
        )
    return rows


COUNTS = {
    "calls": "requests",
    "dry runs": "dry_runs",
    "creates": "creates",
    "duplicates": "duplicates",
    "deletes": "deletes",
    "status": "status_writes",
    "conflicts": "conflicts",
}
"""Columns of what the manager asked for."""

OF_AGENTS = {"writes/agent": "writes_per_agent", "watched MiB": "watched_mib"}
"""Columns of phases with agents: what each writes, and what the API server sends to all."""


def _spread(found: Sequence[JSON], key: str) -> str:
    spread = Spread.of(phase[key] for phase in found)
    return spread.text() if spread else "-"


def _median(found: Sequence[JSON], key: str, digits: int) -> str:
    values = [figures[key] for figures in found if key in figures]
    return f"{statistics.median(values):.{digits}f}" if values else "-"


def call_rows(results: JSON, name: str) -> list[dict[str, str]]:
    """The exact calls of a phase by verb, resource and code: the median of the rounds for each manager."""
    found: dict[tuple[str, str, int], dict[str, str]] = {}
    columns = [manager for manager in managers(results) if rounds(results, manager, name)]
    for manager in columns:
        counted = [
            {(call["verb"], call["resource"], call["code"]): call["count"] for call in phase["calls"]}
            for phase in rounds(results, manager, name).values()
        ]
        for key in {key for calls in counted for key in calls}:
            middle = statistics.median(calls.get(key, 0) for calls in counted)
            found.setdefault(key, {})[manager] = f"{middle:g}"
    return [
        {
            "verb": verb,
            "resource": resource,
            "code": str(code),
            **{manager: counts.get(manager, "0") for manager in columns},
        }
        for (verb, resource, code), counts in sorted(found.items())
    ]


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be reached: `value` is to be at most `limit`, or `at_least` so much."""

    name: str
    value: float
    limit: float
    unit: str = ""
    at_least: bool = False

    @property
    def reached(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def verdict(self) -> str:
        """Reached, or missed and by how much."""
        if self.reached:
            return "reached"
        if not self.limit:
            return "missed"
        return f"missed by {abs(self.value - self.limit) / self.limit:.0%}"

    def row(self) -> dict[str, str]:
        bound = ">=" if self.at_least else "<="
        return {
            "goal": self.name,
            "is": f"{self.value:,.4g}{self.unit}",
            "should be": f"{bound} {self.limit:,.4g}{self.unit}",
            "verdict": self.verdict(),
        }
