"""What is killed, and when: paths of a JobSet, the writes on them, and the sites at which a process may die."""

import enum
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from controllers.planning.limits import DEFAULT_LIMITS
from kube.resources import JOBS
from tests.support.played.namespace import PlayedCluster, Snapshot

Step = Callable[[PlayedCluster, Snapshot], Awaitable[None]]


@dataclass(frozen=True)
class Early:
    """A step that comes while the controller still waits for a time, which other steps let pass: once `due` holds."""

    step: Step
    due: Callable[[Snapshot], bool]

    async def __call__(self, world: PlayedCluster, seen: Snapshot) -> None:
        await self.step(world, seen)


@dataclass(frozen=True)
class Path:
    """What happens to a JobSet: its first manifest, then what its user and its pods do, one by one.

    `ends` is the `summary` of what it comes to, so that a path that leads nowhere is noticed. The rest are settings of
    the controller: the feature gates that are on, whether a suspended set gets its Jobs, and how many Jobs make a set
    large. `timers`: it looks at starting Jobs from time to time, and what the cluster does does not wait for that.
    """

    name: str
    ends: str
    manifest: dict[str, Any]
    steps: tuple[Step, ...] = ()
    gates: frozenset[str] = frozenset()
    create_suspended: bool = True
    timers: bool = False
    large: int = DEFAULT_LIMITS.batch_deletion_from


@dataclass(frozen=True)
class Write:
    """A write by what it does, not by its number: parallel writes have no order. `occurrence` counts from 1."""

    verb: str
    resource: str
    name: str
    occurrence: int

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.name} #{self.occurrence}"


class When(enum.Enum):
    """The moment of a kill, beside a write."""

    BEFORE = "before"
    """Nothing was sent."""
    AFTER = "after"
    """It was applied, and the answer is not seen."""
    LATE = "late"
    """It was sent, and arrives when the next controller has brought everything to its end."""


class Pattern(enum.Enum):
    """What is wrong about what the next controller reads: the three patterns of Sieve (OSDI 2022)."""

    INTERMEDIATE = "intermediate state"
    """Some writes of a plan were made, and others not."""
    UNOBSERVED = "unobserved state"
    """Things came and went that it never saw."""
    STALE = "stale state"
    """Its caches are behind what the last controller knew and wrote."""


@dataclass(frozen=True)
class Kill:
    """How to kill. While no controller runs the world stands still, or goes on as far as it can (`away`).

    `behind`: the next controller first sees what there was before the last so many writes, and acts upon that. The
    watch of the resource `first` catches up before the others, and it acts upon that, too.
    """

    when: When
    away: bool = False
    behind: int = 0
    first: str = JOBS.plural

    @property
    def pattern(self) -> Pattern:
        """What it makes the next controller read."""
        if self.behind:
            return Pattern.STALE
        return Pattern.UNOBSERVED if self.away else Pattern.INTERMEDIATE


KILLS = tuple(Kill(when, away) for when in When for away in (False, True) if (when, away) != (When.LATE, True))


@dataclass(frozen=True)
class Site:
    """Where to kill, and how."""

    write: Write
    kill: Kill

    def __str__(self) -> str:
        return f"{self.kill.when.value} {self.write}{', away' if self.kill.away else ''}{self._behind}"

    @property
    def _behind(self) -> str:
        return f", {self.kill.behind} writes behind, {self.kill.first} first" if self.kill.behind else ""


@dataclass
class Record:
    """What one run did and what it came to. `begun` is how many writes were the way to the first step of the path.

    `created` counts by kind, name and attempt.
    """

    writes: list[Write] = field(default_factory=list)
    begun: int = 0
    created: Counter[tuple[str, ...]] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    end: dict[str, Any] = field(default_factory=dict)
    killed: bool = False

    def sites_in_turn(self, kills: tuple[Kill, ...]) -> list[Site]:
        """Writes from the first step on, each with one of these kills: the first, the second, ... in turn."""
        return [
            Site(write, kill) for write, kill in zip(self.writes[self.begun :], itertools.cycle(kills), strict=False)
        ]

    def all_sites(self) -> list[Site]:
        """Every write with all `KILLS`, also those on the way to the first step."""
        return [Site(write, kill) for write in self.writes for kill in KILLS]
