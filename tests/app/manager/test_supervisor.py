"""The stop order: which parts are stopped, how long each is waited for, what comes last, and what a failing part does."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from app.manager.supervisor import DEFAULT, Supervisor, supervise
from kube.leader import RELEASE_TIMEOUT
from manifests import objects

pytestmark = pytest.mark.looptime


class Life:
    """Stages that go on until they are cancelled, and a record of what happened when (seconds of virtual time)."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float]] = []
        self.stop = asyncio.Event()

    def note(self, what: str) -> None:
        self.seen.append((what, asyncio.get_running_loop().time()))

    async def part(self, name: str, ends: asyncio.Event | None = None, takes: float = 0.0) -> None:
        """Ends so many seconds after `ends` is set."""
        try:
            await (ends or asyncio.Event()).wait()
            await asyncio.sleep(takes)
        except asyncio.CancelledError:
            self.note(f"{name} is cancelled")
            raise
        self.note(f"{name} ends")

    async def flush(self, seconds: float) -> None:
        self.note(f"flush within {seconds:g} s")

    async def run(self, start: Callable[[Supervisor], None], stages: Any = None, after: float = 1.0) -> None:
        """Start the parts, and stop after so many seconds."""

        async def begin(supervisor: Supervisor) -> None:
            start(supervisor)
            await self.part("stages", **(stages or {}))

        asyncio.get_running_loop().call_later(after, self.stop.set)
        await supervise(begin, self.stop)


async def test_nothing_new_then_what_runs_ends_then_events_then_all_is_cancelled():
    life, stopping = Life(), asyncio.Event()

    def start(supervisor: Supervisor) -> None:
        supervisor.start(life.part("probes"), "probes")
        supervisor.start(life.part("server", stopping, takes=2), "server", stop=stopping.set)
        supervisor.on_stop(lambda: life.note("not ready"))
        supervisor.on_drained(life.flush)

    await life.run(start)
    assert life.seen == [
        ("not ready", 1),
        ("stages is cancelled", 1),
        ("server ends", 3),
        ("flush within 1 s", 3),
        ("probes is cancelled", 3),
    ]


async def test_a_delayed_stop_comes_after_the_others_and_is_waited_for():
    life, reconciles, server = Life(), asyncio.Event(), asyncio.Event()

    def start(supervisor: Supervisor) -> None:
        supervisor.start(life.part("server", server, takes=1), "server", stop=server.set, delayed=True)
        supervisor.on_stop(reconciles.set, ends_stages=True)
        supervisor.on_drained(life.flush)

    await life.run(start, stages={"ends": reconciles, "takes": 0.5})
    ends = 1 + DEFAULT.shutdown_delay + 1
    assert life.seen == [("stages ends", 1.5), ("server ends", ends), ("flush within 1 s", ends)]


async def test_stages_that_would_not_end_are_cancelled_while_others_drain():
    life, stopping = Life(), asyncio.Event()
    await life.run(lambda supervisor: supervisor.start(life.part("server", stopping, 2), "server", stop=stopping.set))
    assert life.seen == [("stages is cancelled", 1), ("server ends", 3)]


@pytest.mark.parametrize("delayed", [False, True])
async def test_a_part_that_starts_after_the_stop_began_is_stopped_at_once(delayed: bool):
    life, begun, late = Life(), asyncio.Event(), asyncio.Event()

    async def begin(supervisor: Supervisor) -> None:
        supervisor.on_stop(begun.set, ends_stages=True)
        await begun.wait()
        await asyncio.sleep(0.5)
        supervisor.start(life.part("late", late, takes=1), "late", stop=late.set, delayed=delayed)
        supervisor.on_stop(lambda: life.note("called at once"))

    asyncio.get_running_loop().call_later(1, life.stop.set)
    await supervise(begin, life.stop)
    assert life.seen == [("called at once", 1.5), ("late ends", 2.5)]


def test_the_stop_fits_into_the_pods_grace_period():
    [deployment] = [each for each in objects("manager/manager.yaml") if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    before = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert before + sum(asdict(DEFAULT).values()) + RELEASE_TIMEOUT < pod["terminationGracePeriodSeconds"]


async def test_stages_that_end_by_themselves_are_waited_for():
    life, stopping = Life(), asyncio.Event()
    await life.run(
        lambda supervisor: supervisor.on_stop(stopping.set, ends_stages=True), stages={"ends": stopping, "takes": 4.0}
    )
    assert life.seen == [("stages ends", 5)]


async def test_stages_that_would_not_end_are_cancelled_at_once():
    life = Life()
    await life.run(lambda supervisor: supervisor.on_stop(lambda: life.note("stopping")))
    assert life.seen == [("stopping", 1), ("stages is cancelled", 1)]


async def test_what_does_not_end_in_time_is_cancelled():
    life, stopping = Life(), asyncio.Event()

    def start(supervisor: Supervisor) -> None:
        supervisor.start(life.part("server", stopping, takes=3600), "server", stop=stopping.set)
        supervisor.on_stop(stopping.set, ends_stages=True)
        supervisor.on_drained(life.flush)

    await life.run(start, stages={"ends": stopping, "takes": 3600})
    late = 1 + DEFAULT.shutdown_delay + DEFAULT.drain
    assert sorted(life.seen) == [
        ("flush within 1 s", late),
        ("server is cancelled", late),
        ("stages is cancelled", late),
    ]


async def test_a_stop_at_once_stops_what_is_there():
    life = Life()
    life.stop.set()
    await life.run(lambda supervisor: supervisor.on_drained(life.flush), after=0)
    assert [what for what, _ in life.seen] == ["stages is cancelled", "flush within 1 s"]


@pytest.mark.parametrize("where", ["part", "stages"])
async def test_a_part_that_fails_ends_everything(where: str):
    life = Life()

    async def broken() -> None:
        await asyncio.sleep(2)
        raise ValueError(where)

    async def begin(supervisor: Supervisor) -> None:
        supervisor.start(life.part("probes"), "probes")
        if where == "stages":
            await broken()
        supervisor.start(broken(), "broken")
        await life.part("stages")

    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match=where)):
        await supervise(begin, life.stop)
    assert ("probes is cancelled", 2) in life.seen
    assert asyncio.get_running_loop().time() == 2


async def test_a_failure_while_stopping_is_not_lost():
    life, stopping = Life(), asyncio.Event()

    async def server() -> None:
        await stopping.wait()
        raise ValueError("while it drained")

    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="while it drained")):
        await life.run(lambda supervisor: supervisor.start(server(), "server", stop=stopping.set))
