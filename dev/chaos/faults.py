"""Which faults come when. Pure: the same seed gives the same schedule."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

WARM_UP = 8.0
"""Seconds before the first fault: the first sets run by then."""

CALM_SECONDS = 40.0
"""Seconds after each turn of all kinds with strangers only, to see their effect alone."""

ALONE_SECONDS = 30.0
"""Seconds without any fault before the neighbour comes: the time of reviews on this machine without it."""

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


@dataclass(frozen=True, slots=True)
class About:
    """Properties of a kind of fault. `seconds`: its least and greatest duration. `strengths`: see `Fault.strength`."""

    meaning: str
    seconds: tuple[float, float] = (0, 0)
    strengths: tuple[float, ...] = (0.0,)
    of_one: bool = False
    """Whether one replica fails, the leader or a follower."""
    gentle: bool = False
    """Whether no process dies of it, so that its memory can be compared."""
    at_api_server: bool = False
    """Whether it is a fault of the API server or of the way to it, which a review may have to wait for."""


TRAITS = {
    Kind.KILL: About("A replica gets SIGKILL, and starts again at once", of_one=True),
    Kind.PAUSE: About("A replica is stopped (SIGSTOP) for longer than the lease, then continues", (8, 14), of_one=True),
    Kind.PARTITION: About(
        "What a replica asks, and the answers, are held back; all of it arrives in the end",
        (8, 14),
        of_one=True,
        at_api_server=True,
    ),
    Kind.SLOW: About(
        "Each request of every replica takes longer", (5, 10), (0.2, 2.0), gentle=True, at_api_server=True
    ),
    Kind.ERRORS: About(
        "One in five requests is answered with 429, 500 or 504; half of the 504 were carried out",
        (5, 12),
        (0.2,),
        gentle=True,
        at_api_server=True,
    ),
    Kind.CUT: About("All connections of every replica to its API server break", gentle=True, at_api_server=True),
    Kind.EXPIRE: About(
        "Connections break, and for a while watches cannot be resumed (410): every replica lists again",
        (3, 6),
        gentle=True,
        at_api_server=True,
    ),
    Kind.API_SERVER: About("The API server ends and starts again", at_api_server=True),
    Kind.ETCD: About("etcd gets SIGKILL and starts again", at_api_server=True),
    Kind.CERTIFICATE: About("The Secret loses its serving pair; the CA stays", gentle=True),
    Kind.AUTHORITY: About("The Secret loses the key of its CA: a new CA takes over", gentle=True),
    Kind.SECRET: About("The Secret is deleted and created again, empty"),
    Kind.ROLL: About("One replica after another ends by SIGTERM and starts again"),
    Kind.ALL_DOWN: About("Every replica gets SIGKILL and stays away for a while", (60, 60)),
    Kind.NAMESPACE: About("A namespace with running sets is deleted and created again"),
    Kind.STALE: About(
        "The API server of the leader is behind: its watches show everything some seconds late",
        (8, 15),
        (2.0, 6.0),
        gentle=True,
        at_api_server=True,
    ),
    Kind.STALE_KILL: About(
        "The API servers of all replicas are behind, and the leader gets SIGKILL",
        (14, 20),
        (2.0, 6.0),
        at_api_server=True,
    ),
    Kind.HOSTILE: About(
        "Slow, broken and hostile clients at every port of every replica, beside all other faults", gentle=True
    ),
    Kind.NEIGHBOUR: About(
        "A client that takes all capacity that a stranger can get, at every replica, beside other faults", gentle=True
    ),
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
"""Clients that are there during the whole run: others must not notice them."""

AT_API_SERVER = tuple(kind for kind in Kind if TRAITS[kind].at_api_server)
GENTLE_KINDS = tuple(kind for kind in Kind if TRAITS[kind].gentle)
_LONG = {Kind.ALL_DOWN}


def schedule(seed: int, seconds: float, kinds: Sequence[Kind] = tuple(Kind)) -> list[Fault]:
    """The faults of a run of that many seconds, in order; all end before it does.

    Every kind comes once before any comes twice. Some begin while the fault before them lasts. Strangers are there all
    the time; with a neighbour, no other fault begins before it.
    """
    chance = random.Random(seed)
    strangers = [kind for kind in STRANGERS if kind in kinds]
    begin = WARM_UP + ALONE_SECONDS if Kind.NEIGHBOUR in kinds else WARM_UP
    comes = {Kind.HOSTILE: WARM_UP, Kind.NEIGHBOUR: begin}
    faults = [Fault(comes[kind], kind, "", round(seconds - comes[kind], 1)) for kind in strangers]
    faults = [fault for fault in faults if fault.seconds > 0]
    left_out = {*STRANGERS} if seconds >= LONG_RUN else {*STRANGERS, *_LONG}
    others = [kind for kind in kinds if kind not in left_out]
    at = begin
    for number, kind in enumerate(_turns(chance, others)):
        if strangers and number and number % len(others) == 0:
            at += CALM_SECONDS
        if at >= seconds:
            break
        traits = TRAITS[kind]
        target = chance.choice(("leader", "leader", "follower")) if traits.of_one else ""
        strength = chance.choice(traits.strengths)
        lasts = min(chance.uniform(*traits.seconds), seconds - at)
        faults.append(fault := Fault(round(at, 1), kind, target, round(lasts, 1), strength))
        at += fault.seconds * chance.uniform(0.6, 1) + chance.uniform(4, 12)
    return faults


def _turns(chance: random.Random, kinds: list[Kind]) -> Iterator[Kind]:
    """All kinds in random order, again and again."""
    while kinds:
        chance.shuffle(kinds)
        yield from list(kinds)
