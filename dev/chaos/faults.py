"""Schedules faults. The same seed gives the same schedule."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

WARM_UP = 8.0
"""Seconds before the first fault, in which the first JobSets start."""

CALM_SECONDS = 40.0
"""Seconds in which only strangers act, each time when all other kinds of faults have had a turn."""

ALONE_SECONDS = 30.0
"""Seconds without any fault before the neighbour acts, in which the time of reviews without it is measured."""

LONG_RUN = 180.0
"""A run of at least this many seconds also has long faults."""


class Kind(StrEnum):
    """A kind of fault. A replica consists of the manager's processes in one pod."""

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
class Traits:
    """Properties of a kind of fault. `seconds`: shortest and longest duration. `strengths`: see `Fault.strength`."""

    meaning: str
    seconds: tuple[float, float] = (0, 0)
    strengths: tuple[float, ...] = (0.0,)
    at_one_replica: bool = False
    """Whether a single replica fails, which is the leader or a follower."""
    is_gentle: bool = False
    """Whether no process ends because of it, so that the memory of processes can be compared."""
    is_at_api_server: bool = False
    """Whether it is a fault of the API server or of the connection to it, for which a review may have to wait."""


TRAITS = {
    Kind.KILL: Traits("A replica gets SIGKILL, and starts again at once", at_one_replica=True),
    Kind.PAUSE: Traits(
        "A replica is stopped (SIGSTOP) for longer than the lease, then continues", (8, 14), at_one_replica=True
    ),
    Kind.PARTITION: Traits(
        "What a replica asks, and the answers, are held back; all of it arrives in the end",
        (8, 14),
        at_one_replica=True,
        is_at_api_server=True,
    ),
    Kind.SLOW: Traits(
        "Each request of every replica takes longer", (5, 10), (0.2, 2.0), is_gentle=True, is_at_api_server=True
    ),
    Kind.ERRORS: Traits(
        "One in five requests is answered with 429, 500 or 504; half of the 504 were carried out",
        (5, 12),
        (0.2,),
        is_gentle=True,
        is_at_api_server=True,
    ),
    Kind.CUT: Traits("All connections of every replica to its API server break", is_gentle=True, is_at_api_server=True),
    Kind.EXPIRE: Traits(
        "Connections break, and for a while watches cannot be resumed (410): every replica lists again",
        (3, 6),
        is_gentle=True,
        is_at_api_server=True,
    ),
    Kind.API_SERVER: Traits("The API server ends and starts again", is_at_api_server=True),
    Kind.ETCD: Traits("etcd gets SIGKILL and starts again", is_at_api_server=True),
    Kind.CERTIFICATE: Traits("The Secret loses its serving pair; the CA stays", is_gentle=True),
    Kind.AUTHORITY: Traits("The Secret loses the key of its CA: a new CA takes over", is_gentle=True),
    Kind.SECRET: Traits("The Secret is deleted and created again, empty"),
    Kind.ROLL: Traits("One replica after another ends by SIGTERM and starts again"),
    Kind.ALL_DOWN: Traits("Every replica gets SIGKILL and stays away for a while", (60, 60)),
    Kind.NAMESPACE: Traits("A namespace with running sets is deleted and created again"),
    Kind.STALE: Traits(
        "The API server of the leader is behind: its watches show everything some seconds late",
        (8, 15),
        (2.0, 6.0),
        is_gentle=True,
        is_at_api_server=True,
    ),
    Kind.STALE_KILL: Traits(
        "The API servers of all replicas are behind, and the leader gets SIGKILL",
        (14, 20),
        (2.0, 6.0),
        is_at_api_server=True,
    ),
    Kind.HOSTILE: Traits(
        "Slow, broken and hostile clients at every port of every replica, beside all other faults", is_gentle=True
    ),
    Kind.NEIGHBOUR: Traits(
        "A client that takes all capacity that a stranger can get, at every replica, beside other faults",
        is_gentle=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that begins `at` seconds after the start and lasts `seconds`. `target`: "leader", "follower" or ""."""

    at: float
    kind: Kind
    target: str
    seconds: float
    strength: float = 0.0
    """Seconds that SLOW adds to a request or STALE to an event of a watch, or the share of requests that ERRORS
    refuses."""

    @property
    def end(self) -> float:
        return self.at + self.seconds


STRANGERS = (Kind.HOSTILE, Kind.NEIGHBOUR)
"""Clients that act during the whole run. Other clients must not notice them."""

AT_API_SERVER = tuple(kind for kind in Kind if TRAITS[kind].is_at_api_server)
GENTLE_KINDS = tuple(kind for kind in Kind if TRAITS[kind].is_gentle)
_LONG_KINDS = {Kind.ALL_DOWN}


def schedule(seed: int, seconds: float, kinds: Sequence[Kind] = tuple(Kind)) -> list[Fault]:
    """The faults of a run of `seconds` seconds, in order. All faults end before the run ends.

    Every kind comes once before any kind comes twice. Some faults begin while the fault before them lasts. Strangers
    act all the time. With a neighbour, no other fault begins before it.
    """
    chance = random.Random(seed)
    strangers = [kind for kind in STRANGERS if kind in kinds]
    first_begin = WARM_UP + ALONE_SECONDS if Kind.NEIGHBOUR in kinds else WARM_UP
    begin_by_stranger = {Kind.HOSTILE: WARM_UP, Kind.NEIGHBOUR: first_begin}
    faults = [
        Fault(begin_by_stranger[kind], kind, "", round(seconds - begin_by_stranger[kind], 1)) for kind in strangers
    ]
    faults = [fault for fault in faults if fault.seconds > 0]
    excluded_kinds = {*STRANGERS} if seconds >= LONG_RUN else {*STRANGERS, *_LONG_KINDS}
    kinds_in_turn = [kind for kind in kinds if kind not in excluded_kinds]
    at = first_begin
    for number, kind in enumerate(_random_kinds(chance, kinds_in_turn)):
        if strangers and number and number % len(kinds_in_turn) == 0:
            at += CALM_SECONDS
        if at >= seconds:
            break
        traits = TRAITS[kind]
        target = chance.choice(("leader", "leader", "follower")) if traits.at_one_replica else ""
        strength = chance.choice(traits.strengths)
        duration = min(chance.uniform(*traits.seconds), seconds - at)
        faults.append(fault := Fault(round(at, 1), kind, target, round(duration, 1), strength))
        at += fault.seconds * chance.uniform(0.6, 1) + chance.uniform(4, 12)
    return faults


def _random_kinds(chance: random.Random, kinds: list[Kind]) -> Iterator[Kind]:
    """Yield all kinds in random order, again and again."""
    while kinds:
        chance.shuffle(kinds)
        yield from list(kinds)
