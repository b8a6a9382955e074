"""What all scenarios share: their size, and how a group of them is described."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from dev.bench.scene import JSON, Scene

Result = tuple[str, JSON]
"""Name of a phase, which begins with its scenario's, and its figures."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of a scenario is run: 1 is all that the figures are about, less is for trying things out."""

    scale: float = 1.0

    def of(self, count: int) -> int:
        """The part of a count, at least 2."""
        return max(2, round(count * self.scale))


Run = Callable[[Scene, Size, frozenset[str]], Iterator[Result]]
"""Runs in an empty namespace; gets the scenarios that are wanted, for those that can be left out."""


@dataclass(frozen=True, slots=True)
class Group:
    """Scenarios that build on each other.

    `floors`: they are run by floors, too. `once`: in the first round alone. `apart`: on a cluster of their own, with a
    manager that has these feature `gates`.
    """

    scenarios: tuple[str, ...]
    run: Run
    floors: bool = True
    once: bool = False
    apart: bool = False
    gates: Mapping[str, bool] = field(default_factory=dict)
