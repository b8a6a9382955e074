"""A training of ranks that make each step together, for real nodes: from its log one reads when it went on."""

from typing import Any, NamedTuple

from tests.support.cluster.jobs import Sets
from tests.support.cluster.real import create_pod, logs, pod, running
from tests.support.cluster.requests import wait_for

STORE = "store"
_STORE = """
import asyncio, time
waiting, step = {}, 0
async def serve(reader, writer):
    global step
    try:
        while line := await reader.readline():
            rank, size = map(int, line.split())
            waiting[rank] = size, writer
            if all(waiting.get(each, (0,))[0] == size for each in range(size)):
                step += 1
                print(time.time(), step, size, flush=True)
                for each in range(size):
                    waiting.pop(each)[1].write(b"go\\n")
    finally:
        for rank in [rank for rank, (_, end) in waiting.items() if end is writer]:
            del waiting[rank]
        writer.close()
async def main():
    async with await asyncio.start_server(serve, "", 8000) as server:
        await server.serve_forever()
asyncio.run(main())
"""
"""Makes a step once all ranks of one size have asked for it, counts it and prints it: it is the network and the checkpoints.

A rank that has ended asks no more: its connection does. The ranks of a node without power stay, until others replace them.
"""
_TRAINS = """
import os, pathlib, signal, socket, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
pathlib.Path("/tmp/pid").write_text(str(os.getpid()))
store = socket.create_connection((os.environ["STORE"], 8000)).makefile("rw")
while True:
    time.sleep(0.2)
    print(os.environ["RANK"], os.environ["SIZE"], file=store, flush=True)
    if not store.readline():
        raise SystemExit("the storage is gone")
"""
FAIL = ("sh", "-c", "kill $(cat /tmp/pid)")
"""The command that has a rank end with an error, in its container."""
_LABELS = {"RANK": "job-index", "SIZE": "replicatedjob-replicas"}


class Step(NamedTuple):
    at: float
    number: int
    ranks: int


def create_store(sets: Sets, node: str) -> str:
    """The pod that the ranks connect to, on this node; its address."""
    create_pod(sets.cluster, sets.namespace, STORE, "", **running(["python3", "-c", _STORE], nodeName=node))

    def address() -> str:
        found = pod(sets.cluster, sets.namespace, STORE).get("status", {})
        return str(found.get("podIP", "")) if found.get("phase") == "Running" else ""

    return wait_for(address, what="the storage")


def rank(image: str, store: str, resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The pod spec of a rank: a Job of one pod, whose index is its number."""
    spec = running(["python3", "-c", _TRAINS], resources=resources, **more)
    [container] = spec["containers"]
    container["image"] = image
    container["env"] = [{"name": "STORE", "value": store}] + [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['jobset.sigs.k8s.io/{label}']"}}}
        for name, label in _LABELS.items()
    ]
    return spec


def steps(sets: Sets) -> list[Step]:
    """All steps up to now; their numbers have no gap."""
    lines = [line.split() for line in logs(sets.cluster, sets.namespace, STORE).splitlines()]
    return [Step(float(at), int(number), int(ranks)) for at, number, ranks in lines]


def wait_step(sets: Sets, ranks: int, since: float, timeout: float) -> Step:
    """The first step of so many ranks after a time."""

    def found() -> Step | None:
        return next((step for step in steps(sets) if step.at > since and step.ranks == ranks), None)

    return wait_for(found, timeout=timeout, what=f"a step of {ranks} ranks", last=sets.explain)
