"""Which faults come when. Pure: the same seed gives the same schedule."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

WARM_UP = 8.0
"""Seconds before the first fault: the first sets run by then."""

CALM = 40.0
"""Seconds after each turn of all kinds in which nothing acts but strangers: what they do shows by itself."""

ALONE = 30.0
"""Seconds without any fault before the neighbour comes: how quick reviews are on this machine without it."""

LONG_RUN = 180.0
"""Seconds from which on a run has the faults that take long."""


class Kind(StrEnum):
    """What goes wrong. A replica is the processes of the manager in one pod."""

    KILL = "kill"
    PAUSE = "pause"
    PARTITION = "partition"
    SLOW = "slow"
    ERRORS = "errors"
    CUT = "cut"
    EXPIRE = "expire"
    API_SERVER = "api-server"
    ETCD = "etcd"
    CERTIFICATE = "certificate"
    AUTHORITY = "authority"
    SECRET = "secret"  # noqa: S105 (the name of a fault)
    ROLL = "roll"
    ALL_DOWN = "all-down"
    NAMESPACE = "namespace"
    STALE = "stale"
    STALE_KILL = "stale-kill"
    HOSTILE = "hostile"
    NEIGHBOUR = "neighbour"


MEANINGS = {
    Kind.KILL: "A replica gets SIGKILL, and starts again at once",
    Kind.PAUSE: "A replica is stopped (SIGSTOP) for longer than the lease, then continues",
    Kind.PARTITION: "What a replica asks, and the answers, are held back; all of it arrives in the end",
    Kind.SLOW: "Each request of every replica takes longer",
    Kind.ERRORS: "One in five requests is answered with 429, 500 or 504; half of the 504 were carried out",
    Kind.CUT: "All connections of every replica to its API server break",
    Kind.EXPIRE: "Connections break, and for a while watches cannot be resumed (410): every replica lists again",
    Kind.API_SERVER: "The API server ends and starts again",
    Kind.ETCD: "etcd gets SIGKILL and starts again",
    Kind.CERTIFICATE: "The Secret loses its serving pair; the CA stays",
    Kind.AUTHORITY: "The Secret loses the key of its CA: a new CA takes over",
    Kind.SECRET: "The Secret is deleted and created again, empty",
    Kind.ROLL: "One replica after another ends by SIGTERM and starts again",
    Kind.ALL_DOWN: "Every replica gets SIGKILL and stays away for a while",
    Kind.NAMESPACE: "A namespace with running sets is deleted and created again",
    Kind.STALE: "The API server of the leader is behind: its watches show everything some seconds late",
    Kind.STALE_KILL: "The API servers of all replicas are behind, and the leader gets SIGKILL",
    Kind.HOSTILE: "Slow, broken and hostile clients at every port of every replica, beside all other faults",
    Kind.NEIGHBOUR: "Somebody who takes all room and time that strangers can, at every replica, beside other faults",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Begins `at` seconds after the start and lasts `seconds`. `target`: leader or follower where one replica fails."""

    at: float
    kind: Kind
    target: str
    seconds: float
    strength: float = 0.0
    """Seconds that SLOW adds to a request and STALE to an event of a watch; share of requests that ERRORS refuses."""

    @property
    def end(self) -> float:
        return self.at + self.seconds


STRANGERS = (Kind.HOSTILE, Kind.NEIGHBOUR)
"""Clients that are there all the time: others must not notice them."""

AT_API_SERVER = (
    Kind.PARTITION,
    Kind.SLOW,
    Kind.ERRORS,
    Kind.CUT,
    Kind.EXPIRE,
    Kind.API_SERVER,
    Kind.ETCD,
    Kind.STALE,
    Kind.STALE_KILL,
)
"""Faults of the API server or of the way to it, which a review may have to wait for."""

GENTLE = (
    Kind.SLOW,
    Kind.ERRORS,
    Kind.CUT,
    Kind.EXPIRE,
    Kind.CERTIFICATE,
    Kind.AUTHORITY,
    Kind.STALE,
    Kind.HOSTILE,
    Kind.NEIGHBOUR,
)
"""Faults that no process dies of, so that its memory can be compared."""

_SECONDS: dict[Kind, tuple[float, float]] = {
    Kind.KILL: (0, 0),
    Kind.PAUSE: (8, 14),
    Kind.PARTITION: (8, 14),
    Kind.SLOW: (5, 10),
    Kind.ERRORS: (5, 12),
    Kind.CUT: (0, 0),
    Kind.EXPIRE: (3, 6),
    Kind.API_SERVER: (0, 0),
    Kind.ETCD: (0, 0),
    Kind.CERTIFICATE: (0, 0),
    Kind.AUTHORITY: (0, 0),
    Kind.SECRET: (0, 0),
    Kind.ROLL: (0, 0),
    Kind.ALL_DOWN: (60, 60),
    Kind.NAMESPACE: (0, 0),
    Kind.STALE: (8, 15),
    Kind.STALE_KILL: (14, 20),
}
_ONE_REPLICA = {Kind.KILL, Kind.PAUSE, Kind.PARTITION}
_LONG = {Kind.ALL_DOWN}
_STRENGTHS: dict[Kind, tuple[float, ...]] = {
    Kind.SLOW: (0.2, 2.0),
    Kind.ERRORS: (0.2,),
    Kind.STALE: (2.0, 6.0),
    Kind.STALE_KILL: (2.0, 6.0),
}


def schedule(seed: int, seconds: float, kinds: Sequence[Kind] = tuple(Kind)) -> list[Fault]:
    """The faults of a run of so many seconds, in order; all end before it does.

    Every kind comes once before any comes twice. Some begin while the fault before them lasts. Strangers are there all
    the time; with a neighbour, no other fault begins before it.
    """
    chance = random.Random(seed)
    strangers = [kind for kind in STRANGERS if kind in kinds]
    begin = WARM_UP + ALONE if Kind.NEIGHBOUR in kinds else WARM_UP
    comes = {Kind.HOSTILE: WARM_UP, Kind.NEIGHBOUR: begin}
    faults = [Fault(comes[kind], kind, "", round(seconds - comes[kind], 1)) for kind in strangers]
    faults = [fault for fault in faults if fault.seconds > 0]
    left_out = {*STRANGERS} if seconds >= LONG_RUN else {*STRANGERS, *_LONG}
    others = [kind for kind in kinds if kind not in left_out]
    at = begin
    for number, kind in enumerate(_turns(chance, others)):
        if strangers and number and number % len(others) == 0:
            at += CALM
        if at >= seconds:
            break
        low, high = _SECONDS[kind]
        target = chance.choice(("leader", "leader", "follower")) if kind in _ONE_REPLICA else ""
        strength = chance.choice(_STRENGTHS.get(kind, (0.0,)))
        lasts = min(chance.uniform(low, high), seconds - at)
        faults.append(fault := Fault(round(at, 1), kind, target, round(lasts, 1), strength))
        at += fault.seconds * chance.uniform(0.6, 1) + chance.uniform(4, 12)
    return faults


def _turns(chance: random.Random, kinds: list[Kind]) -> Iterator[Kind]:
    """All kinds in random order, again and again."""
    while kinds:
        chance.shuffle(kinds)
        yield from list(kinds)
