"""`python -m dev.chaos.neighbour`: one who reaches every port of every replica, and takes all the room that there is.

A hostile client makes one mistake. The neighbour does what holds up others, as much at once as a laptop can send; the
most expensive part goes to one replica at a time. Prints how many connections it has made for what.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from dev.chaos import beside, hostile
from dev.chaos.hostile import Parts, Port, client, head, post, review
from webhooks.review import MOST_FIELDS, fields_of

NAMESPACE = "chaos-neighbour"
MOST_JOBS = 4
"""Of a JobSet in the namespace, by a policy."""

TURN = 15.0
"""Seconds for which one replica gets what does not come to all."""

RATE = 5_000_000
"""Bytes of large bodies in a second."""

CHUNK = 64 * 1024
LARGE = 7 * 2**20 - 2048
"""Bytes of a list: the review is a little smaller than the largest that is read."""

WARNED = 3000
"""Requests for another protocol on one connection."""

VARIABLES = 700
"""Of a JobSet with 20 KiB: more fields than are worked on in the event loop."""

NICE = 10
"""It has a machine of its own, whose time is not the replicas'."""


@dataclass(frozen=True, slots=True)
class Habit:
    """What it does at the ports that serve so, `every` so many seconds, and leaves after `stays` at most.

    `pause`: seconds between two parts. `turns`: whether one replica at a time gets it, or all.
    """

    parts: Parts
    serves: tuple[str, ...]
    every: float
    stays: float
    leaves_early: bool = False
    """Whether it leaves at any time until then."""
    pause: float = hostile.PAUSE
    turns: bool = False

    @property
    def name(self) -> str:
        return self.parts.__name__.strip("_").replace("_", " ")


def _large_list(port: Port, chance: random.Random) -> Iterator[bytes]:
    yield from _chunks(post(port, _list(chance.choice(("replicatedJobs", "volumeClaimPolicies")))))


def _half_a_large_body(port: Port, _chance: random.Random) -> Iterator[bytes]:
    whole = post(port, _list("replicatedJobs"))
    yield from _chunks(whole[: len(whole) // 2])


def _left_in_any_state(port: Port, chance: random.Random) -> Iterator[bytes]:
    yield from chance.choice(hostile.CLIENTS)(port, chance)


def _readiness_left(port: Port, _chance: random.Random) -> Iterator[bytes]:
    yield _get(port, "/readyz")


def _liveness(port: Port, _chance: random.Random) -> Iterator[bytes]:
    yield _get(port, "/healthz")


def _many_variables(port: Port, _chance: random.Random) -> Iterator[bytes]:
    yield post(port, review({"replicatedJobs": [group(VARIABLES)]}, "neighbour", NAMESPACE))


def _denied_by_policy(port: Port, _chance: random.Random) -> Iterator[bytes]:
    yield post(port, review({"replicatedJobs": [group(1, jobs=MOST_JOBS + 1)]}, "neighbour", NAMESPACE))


def _control_characters(port: Port, chance: random.Random) -> Iterator[bytes]:
    text = "a\x1b[2Jb\x85c\u2028d\x07"
    field = chance.choice(("uid", "operation"))
    yield post(port, review({"replicatedJobs": [group(1)]}, text, text, **{field: text}))
    yield f"GET /{text} HTTP/1.1\r\nhost: {text}\r\n\r\n".encode()


def _warned_of(port: Port, _chance: random.Random) -> Iterator[bytes]:
    for _ in range(WARNED):
        yield _get(port, "/", "connection: upgrade", "upgrade: x")


HABITS = (
    Habit(_large_list, ("webhooks",), LARGE * 1.25 / RATE, 20.0, pause=CHUNK / RATE, turns=True),
    Habit(_half_a_large_body, ("webhooks",), LARGE * 2.5 / RATE, 20.0, pause=CHUNK / RATE, turns=True),
    Habit(_left_in_any_state, ("webhooks", "probes", "metrics"), 0.5, 0.5, leaves_early=True),
    Habit(_readiness_left, ("probes",), 0.05, 0.2),
    Habit(_liveness, ("probes",), 0.5, 2.0),
    Habit(_many_variables, ("webhooks",), 1.0, 10.0),
    Habit(_denied_by_policy, ("webhooks",), 0.5, 10.0),
    Habit(_control_characters, ("webhooks", "probes", "metrics"), 1.0, 2.0),
    Habit(_warned_of, ("webhooks", "probes", "metrics"), 10.0, 10.0, pause=0.0005, turns=True),
)


async def play(task: Any) -> None:
    """All habits at once, until it is cancelled."""
    ports = [Port(**port) for port in task["ports"]]
    made: Counter[str] = Counter()
    try:
        async with asyncio.TaskGroup() as group:
            for habit in HABITS:
                for serves in habit.serves:
                    those = [port for port in ports if port.serves == serves]
                    for number, some in enumerate([those] if habit.turns else [[port] for port in those]):
                        chance = random.Random(f"{task['seed']} {habit.name} {serves} {number}")
                        group.create_task(_keep_up(habit, some, chance, made))
    finally:
        print(json.dumps(made))


async def _keep_up(habit: Habit, ports: Sequence[Port], chance: random.Random, made: Counter[str]) -> None:
    """One habit, at these ports in turn."""
    now = asyncio.get_running_loop().time
    async with asyncio.TaskGroup() as group:
        while True:
            port = ports[int(now() / TURN) % len(ports)]
            stays = chance.uniform(0, habit.stays) if habit.leaves_early else habit.stays
            done = partial(made.update, (habit.name,))
            group.create_task(client(port, habit.parts, chance, done, stays=stays, pause=habit.pause))
            await asyncio.sleep(habit.every)


def group(variables: int, jobs: int = 1) -> dict[str, Any]:
    """A replicated Job with one container."""
    env = [{"name": f"A{number:03}", "value": "1"} for number in range(variables)]
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train", "env": env}]}
    return {"name": "w", "replicas": jobs, "template": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}}


def policy() -> dict[str, Any]:
    """The policy of its namespace."""
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}}
    spec = {"match": where, "validationActions": ["Deny"], "rules": {"maxJobs": {"max": MOST_JOBS}}}
    return {
        "apiVersion": "policy.jobset.x-k8s.io/v1alpha1",
        "kind": "JobSetPolicy",
        "metadata": {"name": "neighbour"},
        "spec": spec,
    }


@cache
def _list(field: str) -> bytes:
    """The largest review that is read, of a JobSet with a list of as many items as are decoded."""
    whole = review({"replicatedJobs": [group(1)], field: ["..."]})
    items = [b"{}"] * (MOST_FIELDS - fields_of(whole))
    return whole.replace(b'"..."', b",".join(items).ljust(LARGE))


def _chunks(data: bytes) -> Iterator[bytes]:
    for begin in range(0, len(data), CHUNK):
        yield data[begin : begin + CHUNK]


def _get(port: Port, path: str, *headers: str) -> bytes:
    return head(Port(port.serves, port.number, path), "accept: */*", *headers).replace(b"POST", b"GET", 1)


if __name__ == "__main__":
    beside.give_way(NICE)
    beside.work(play)
