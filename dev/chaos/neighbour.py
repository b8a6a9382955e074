"""`python -m dev.chaos.neighbour`: a client that reaches every port of every replica, and uses all capacity it can get.

While a hostile client makes one mistake, the neighbour sends requests that delay other clients, as many as a laptop
can. It sends the most expensive requests to one replica at a time. It prints its number of connections by purpose.
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
from dev.chaos.hostile import Parts, Port, get_request, post_request, review_body, run_client
from webhooks.review import MAX_FIELDS, field_count

NAMESPACE = "chaos-neighbour"
MAX_JOBS = 4
"""Number of Jobs that a policy allows a JobSet in the namespace."""

TURN_SECONDS = 15.0
"""Seconds for which one replica gets the requests that go to one replica at a time."""

BYTES_PER_SECOND = 5_000_000
"""Bytes of large bodies that are sent in a second."""

CHUNK_BYTES = 64 * 1024
LARGE_BYTES = 7 * 2**20 - 2048
"""Bytes of a list, so that the review is a little smaller than the largest review that is read."""

UPGRADE_REQUESTS = 3000
"""Number of requests for another protocol on one connection."""

VARIABLE_COUNT = 700
"""Number of variables of a JobSet of 20 KiB, which has more fields than the event loop works on."""

NICENESS = 10
"""The niceness of the neighbour, which plays a client on another machine."""


@dataclass(frozen=True, slots=True)
class Habit:
    """Data that the neighbour sends to the ports of `serves`, every `period` seconds, for at most `max_seconds`.

    `pause`: seconds between two parts. `one_replica_at_a_time`: else all replicas get the data.
    """

    name: str
    parts: Parts
    serves: tuple[str, ...]
    period: float
    max_seconds: float
    leaves_early: bool = False
    """Whether it leaves at a random time within `max_seconds`."""
    pause: float = hostile.PAUSE_SECONDS
    one_replica_at_a_time: bool = False


@cache
def _largest_review(field: str) -> bytes:
    """The largest review that is read. Its JobSet has a list with as many items as are decoded."""
    template = review_body({"replicatedJobs": [replicated_job(1)], field: ["..."]})
    items = [b"{}"] * (MAX_FIELDS - field_count(template))
    return template.replace(b'"..."', b",".join(items).ljust(LARGE_BYTES))


def _large_list(chance: random.Random) -> bytes:
    return _largest_review(chance.choice(("replicatedJobs", "volumeClaimPolicies")))


def _jobset_review(variables: int, jobs: int = 1) -> bytes:
    return review_body({"replicatedJobs": [replicated_job(variables, jobs)]}, "neighbour", NAMESPACE)


def _control_characters(port: Port, chance: random.Random) -> Iterator[bytes]:
    text = "a\x1b[2Jb\x85c\u2028d\x07"
    field = chance.choice(("uid", "operation"))
    yield post_request(port, review_body({"replicatedJobs": [replicated_job(1)]}, text, text, **{field: text}))
    yield f"GET /{text} HTTP/1.1\r\nhost: {text}\r\n\r\n".encode()


WEBHOOKS, EVERYWHERE = ("webhooks",), ("webhooks", "probes", "metrics")
UPGRADE = ("connection: upgrade", "upgrade: x")
HABITS = (
    Habit(
        "large list",
        lambda port, chance: _chunks(post_request(port, _large_list(chance))),
        WEBHOOKS,
        LARGE_BYTES * 1.25 / BYTES_PER_SECOND,
        20.0,
        pause=CHUNK_BYTES / BYTES_PER_SECOND,
        one_replica_at_a_time=True,
    ),
    Habit(
        "half a large body",
        lambda port, _: _chunks(post_request(port, _largest_review("replicatedJobs")), share=0.5),
        WEBHOOKS,
        LARGE_BYTES * 2.5 / BYTES_PER_SECOND,
        20.0,
        pause=CHUNK_BYTES / BYTES_PER_SECOND,
        one_replica_at_a_time=True,
    ),
    Habit(
        "left in any state",
        lambda port, chance: chance.choice([*hostile.CLIENTS.values()])(port, chance),
        EVERYWHERE,
        0.5,
        0.5,
        leaves_early=True,
    ),
    Habit("readiness left", lambda port, _: [_get_request(port, "/readyz")], ("probes",), 0.05, 0.2),
    Habit("liveness", lambda port, _: [_get_request(port, "/healthz")], ("probes",), 0.5, 2.0),
    Habit("many variables", lambda port, _: [post_request(port, _jobset_review(VARIABLE_COUNT))], WEBHOOKS, 1.0, 10.0),
    Habit(
        "denied by policy", lambda port, _: [post_request(port, _jobset_review(1, MAX_JOBS + 1))], WEBHOOKS, 0.5, 10.0
    ),
    Habit("control characters", _control_characters, EVERYWHERE, 1.0, 2.0),
    Habit(
        "warned of",
        lambda port, _: [_get_request(port, "/", *UPGRADE)] * UPGRADE_REQUESTS,
        EVERYWHERE,
        10.0,
        10.0,
        pause=0.0005,
        one_replica_at_a_time=True,
    ),
)


async def play(task: Any) -> None:
    """Play all habits at once, until cancelled."""
    ports = [Port(**port) for port in task["ports"]]
    requests: Counter[str] = Counter()
    try:
        async with asyncio.TaskGroup() as tasks:
            for habit in HABITS:
                for serves in habit.serves:
                    serving_ports = [port for port in ports if port.serves == serves]
                    for number, habit_ports in enumerate(
                        [serving_ports] if habit.one_replica_at_a_time else [[port] for port in serving_ports]
                    ):
                        chance = random.Random(f"{task['seed']} {habit.name} {serves} {number}")
                        tasks.create_task(_repeat_habit(habit, habit_ports, chance, requests))
    finally:
        print(json.dumps(requests))


async def _repeat_habit(habit: Habit, ports: Sequence[Port], chance: random.Random, requests: Counter[str]) -> None:
    """Play one habit at these ports in turn."""
    now = asyncio.get_running_loop().time
    async with asyncio.TaskGroup() as tasks:
        while True:
            port = ports[int(now() / TURN_SECONDS) % len(ports)]
            max_seconds = chance.uniform(0, habit.max_seconds) if habit.leaves_early else habit.max_seconds
            count_connection = partial(requests.update, (habit.name,))
            tasks.create_task(
                run_client(port, habit.parts, chance, count_connection, max_seconds=max_seconds, pause=habit.pause)
            )
            await asyncio.sleep(habit.period)


def replicated_job(variables: int, jobs: int = 1) -> dict[str, Any]:
    """A ReplicatedJob with one container."""
    env = [{"name": f"A{number:03}", "value": "1"} for number in range(variables)]
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train", "env": env}]}
    return {"name": "w", "replicas": jobs, "template": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}}


def policy() -> dict[str, Any]:
    """The JobSetPolicy of the neighbour's namespace."""
    match = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}}
    spec = {"match": match, "validationActions": ["Deny"], "rules": {"maxJobs": {"max": MAX_JOBS}}}
    return {
        "apiVersion": "policy.jobset.x-k8s.io/v1alpha1",
        "kind": "JobSetPolicy",
        "metadata": {"name": "neighbour"},
        "spec": spec,
    }


def _chunks(data: bytes, share: float = 1) -> Iterator[bytes]:
    """Yield the first `share` of the data, in chunks."""
    end = int(len(data) * share)
    for begin in range(0, end, CHUNK_BYTES):
        yield data[begin : min(begin + CHUNK_BYTES, end)]


def _get_request(port: Port, path: str, *headers: str) -> bytes:
    return get_request(replace(port, path=path), "accept: */*", *headers)


if __name__ == "__main__":
    beside.lower_priority(NICENESS)
    beside.run_task(play)
