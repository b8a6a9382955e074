"""`python -m dev.chaos.neighbour`: a client that reaches every port of every replica, and uses all capacity it can get.

A hostile client makes one mistake. The neighbour sends what delays others, as much as a laptop can; the most expensive
part goes to one replica at a time. Prints its number of connections by purpose.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from dev.chaos import beside, hostile
from dev.chaos.hostile import Parts, Port, client, get, post, review
from webhooks.review import MAX_FIELDS, fields_of

NAMESPACE = "chaos-neighbour"
MAX_JOBS = 4
"""Jobs that a policy allows a JobSet in the namespace."""

TURN = 15.0
"""Seconds for which one replica gets the requests that are not for all."""

RATE = 5_000_000
"""Bytes of large bodies in a second."""

CHUNK = 64 * 1024
LARGE = 7 * 2**20 - 2048
"""Bytes of a list: the review is a little smaller than the largest that is read."""

WARNED = 3000
"""Requests for another protocol on one connection."""

VARIABLES = 700
"""Variables of a JobSet of 20 KiB: more fields than the event loop works on."""

NICE = 10
"""Its niceness: it plays a client on another machine."""


@dataclass(frozen=True, slots=True)
class Habit:
    """What the neighbour sends to the ports in `serves`: again every `every` seconds, for at most `stays` seconds.

    `pause`: seconds between two parts. `turns`: whether one replica at a time gets it, or all.
    """

    name: str
    parts: Parts
    serves: tuple[str, ...]
    every: float
    stays: float
    leaves_early: bool = False
    """Whether it leaves at any time until then."""
    pause: float = hostile.PAUSE
    turns: bool = False


@cache
def _list(field: str) -> bytes:
    """The largest review that is read, of a JobSet with a list of as many items as are decoded."""
    whole = review({"replicatedJobs": [group(1)], field: ["..."]})
    items = [b"{}"] * (MAX_FIELDS - fields_of(whole))
    return whole.replace(b'"..."', b",".join(items).ljust(LARGE))


def _large_list(chance: random.Random) -> bytes:
    return _list(chance.choice(("replicatedJobs", "volumeClaimPolicies")))


def _set_of(variables: int, jobs: int = 1) -> bytes:
    return review({"replicatedJobs": [group(variables, jobs)]}, "neighbour", NAMESPACE)


def _control_characters(port: Port, chance: random.Random) -> Iterator[bytes]:
    text = "a\x1b[2Jb\x85c\u2028d\x07"
    field = chance.choice(("uid", "operation"))
    yield post(port, review({"replicatedJobs": [group(1)]}, text, text, **{field: text}))
    yield f"GET /{text} HTTP/1.1\r\nhost: {text}\r\n\r\n".encode()


WEBHOOKS, EVERYWHERE = ("webhooks",), ("webhooks", "probes", "metrics")
UPGRADE = ("connection: upgrade", "upgrade: x")
HABITS = (
    Habit(
        "large list",
        lambda port, chance: _chunks(post(port, _large_list(chance))),
        WEBHOOKS,
        LARGE * 1.25 / RATE,
        20.0,
        pause=CHUNK / RATE,
        turns=True,
    ),
    Habit(
        "half a large body",
        lambda port, _: _chunks(post(port, _list("replicatedJobs")), share=0.5),
        WEBHOOKS,
        LARGE * 2.5 / RATE,
        20.0,
        pause=CHUNK / RATE,
        turns=True,
    ),
    Habit(
        "left in any state",
        lambda port, chance: chance.choice([*hostile.CLIENTS.values()])(port, chance),
        EVERYWHERE,
        0.5,
        0.5,
        leaves_early=True,
    ),
    Habit("readiness left", lambda port, _: [_get(port, "/readyz")], ("probes",), 0.05, 0.2),
    Habit("liveness", lambda port, _: [_get(port, "/healthz")], ("probes",), 0.5, 2.0),
    Habit("many variables", lambda port, _: [post(port, _set_of(VARIABLES))], WEBHOOKS, 1.0, 10.0),
    Habit("denied by policy", lambda port, _: [post(port, _set_of(1, MAX_JOBS + 1))], WEBHOOKS, 0.5, 10.0),
    Habit("control characters", _control_characters, EVERYWHERE, 1.0, 2.0),
    Habit(
        "warned of",
        lambda port, _: [_get(port, "/", *UPGRADE)] * WARNED,
        EVERYWHERE,
        10.0,
        10.0,
        pause=0.0005,
        turns=True,
    ),
)


async def play(task: Any) -> None:
    """All habits at once, until it is cancelled."""
    ports = [Port(**port) for port in task["ports"]]
    requests: Counter[str] = Counter()
    try:
        async with asyncio.TaskGroup() as group:
            for habit in HABITS:
                for serves in habit.serves:
                    those = [port for port in ports if port.serves == serves]
                    for number, some in enumerate([those] if habit.turns else [[port] for port in those]):
                        chance = random.Random(f"{task['seed']} {habit.name} {serves} {number}")
                        group.create_task(_keep_up(habit, some, chance, requests))
    finally:
        print(json.dumps(requests))


async def _keep_up(habit: Habit, ports: Sequence[Port], chance: random.Random, requests: Counter[str]) -> None:
    """One habit, at these ports in turn."""
    now = asyncio.get_running_loop().time
    async with asyncio.TaskGroup() as group:
        while True:
            port = ports[int(now() / TURN) % len(ports)]
            stays = chance.uniform(0, habit.stays) if habit.leaves_early else habit.stays
            done = partial(requests.update, (habit.name,))
            group.create_task(client(port, habit.parts, chance, done, stays=stays, pause=habit.pause))
            await asyncio.sleep(habit.every)


def group(variables: int, jobs: int = 1) -> dict[str, Any]:
    """A replicated Job with one container."""
    env = [{"name": f"A{number:03}", "value": "1"} for number in range(variables)]
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train", "env": env}]}
    return {"name": "w", "replicas": jobs, "template": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}}


def policy() -> dict[str, Any]:
    """The policy of its namespace."""
    match = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}}
    spec = {"match": match, "validationActions": ["Deny"], "rules": {"maxJobs": {"max": MAX_JOBS}}}
    return {
        "apiVersion": "policy.jobset.x-k8s.io/v1alpha1",
        "kind": "JobSetPolicy",
        "metadata": {"name": "neighbour"},
        "spec": spec,
    }


def _chunks(data: bytes, share: float = 1) -> Iterator[bytes]:
    """The first part of the data."""
    end = int(len(data) * share)
    for begin in range(0, end, CHUNK):
        yield data[begin : min(begin + CHUNK, end)]


def _get(port: Port, path: str, *headers: str) -> bytes:
    return get(replace(port, path=path), "accept: */*", *headers)


if __name__ == "__main__":
    beside.give_way(NICE)
    beside.work(play)
