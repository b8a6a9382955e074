"""Lease election: one leader at most, whatever the network does; and always one again once it behaves."""

import asyncio
import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.client import Client
from kube.leader import LeaderElector, LeadershipLostError, LeaseConfig, identity
from kube.transport import Request
from tests.support.model.faults import (
    Answer,
    Fault,
    FaultyTransport,
    Late,
    LostAnswer,
    LostRequest,
    Refused,
    SlowAnswer,
    Stale,
)
from tests.support.model.memory_api import MemoryApi
from tests.support.model.virtual import run

pytestmark = pytest.mark.looptime

CONFIG = LeaseConfig(namespace="ns", name="lock")
KEY = ("ns", "lock")


def clock() -> float:
    return asyncio.get_running_loop().time()


def spec(api: MemoryApi) -> dict:
    return api.objects("leases")[KEY]["spec"]


def elector(transport, name="one", config=CONFIG, **options) -> LeaderElector:
    return LeaderElector(Client(transport), config, identity=name, jitter=lambda: 0.5, **options)


async def forever() -> None:
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def leading(candidate: LeaderElector, work=forever):
    """The candidate's task, once it leads; cancelled at the end."""
    started = asyncio.Event()

    async def wrapped():
        started.set()
        await work()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(candidate.lead(wrapped))
        await started.wait()
        yield task
        task.cancel()


async def test_a_free_lease_is_taken_and_the_record_is_what_others_can_read():
    api = MemoryApi()
    async with leading(elector(api)):
        record = spec(api)
        assert record["holderIdentity"] == "one"
        assert record["leaseDurationSeconds"] == 15
        assert record["leaseTransitions"] == 0
        assert len(record["renewTime"].split(".")[1]) == len("000000Z"), "MicroTime has six digits"


async def test_unknown_fields_of_the_lease_survive_renewal():
    api = MemoryApi()
    api.put("leases", "lock", spec={"holderIdentity": "", "strategy": "OldestEmulationVersion"})
    async with leading(elector(api)):
        await asyncio.sleep(60)
        assert spec(api)["strategy"] == "OldestEmulationVersion"


async def test_a_clean_stop_drains_the_work_still_renewing_and_then_releases():
    api = MemoryApi()
    drained = []

    async def work():
        try:
            await forever()
        finally:
            await asyncio.sleep(40)
            drained.append(spec(api)["holderIdentity"])

    async with leading(elector(api), work):
        await asyncio.sleep(5)
    assert drained == ["one"], "the lease was held until the work had ended"
    assert spec(api)["holderIdentity"] == ""
    start = clock()
    async with leading(elector(api, "two")):
        assert clock() - start < 1, "a released lease is free at once"
        assert spec(api)["leaseTransitions"] == 1


async def test_a_renewal_that_was_cut_off_and_applied_does_not_keep_the_lease():
    api = MemoryApi()
    transport = FaultyTransport(api)
    async with leading(elector(transport)):
        cut_off = transport.inject(LostAnswer(), verb="patch")
        while not cut_off.hits:  # noqa: ASYNC110 - virtual time, and the hit is made inside the transport
            await asyncio.sleep(0.1)
    assert spec(api)["holderIdentity"] == ""


async def test_work_that_ends_or_fails_ends_the_renewal_too():
    api = MemoryApi()

    async def fail():
        await asyncio.sleep(5)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await elector(api).lead(fail)
    assert spec(api)["holderIdentity"] == ""
    revision = api.revision
    await asyncio.sleep(100)
    assert api.revision == revision


async def test_a_lease_expires_by_when_it_was_seen_and_not_by_the_holder_s_clock():
    api = MemoryApi()
    held = {"holderIdentity": "other", "leaseDurationSeconds": 40, "renewTime": "2001-01-01T00:00:00.000000Z"}
    api.put("leases", "lock", spec=held)
    start = clock()
    async with leading(elector(api)):
        assert 40 <= clock() - start <= 45


async def test_losing_the_api_server_is_losing_the_lease_at_the_deadline():
    api = MemoryApi()
    transport = FaultyTransport(api)
    reported, ended = [], []

    async def work():
        try:
            await forever()
        finally:
            ended.append(clock())

    one = elector(transport, on_change=reported.append)
    cut = clock() + 20
    asyncio.get_running_loop().call_at(cut, setattr, transport, "choose", lambda _: LostRequest())
    with pytest.raises(LeadershipLostError, match=r"lease ns/lock was not renewed for 10 s"):
        await one.lead(work)
    assert ended[0] - cut <= 10
    assert reported == [True, False]
    assert not one.is_leader
    assert spec(api)["holderIdentity"] == "one", "a lost lease is not written to again"


async def test_a_process_that_was_stopped_for_longer_than_it_may_lead_writes_nothing():
    one = elector(FaultyTransport(MemoryApi()))
    with pytest.raises(LeadershipLostError):
        one.require_lease()
    async with leading(one):
        one.require_lease()
        one._now = lambda: clock() + CONFIG.renew_deadline + 1  # it wakes up, and the renewal has not run yet
        with pytest.raises(LeadershipLostError, match="nothing is written"):
            one.require_lease()
        del one._now


async def test_a_leader_counts_from_when_it_asked_not_from_when_it_was_answered():
    """The record is as old as the request; the others count from there."""

    api = MemoryApi()
    transport = FaultyTransport(api)
    one = elector(transport)
    async with leading(one):
        await asyncio.sleep(20)
        transport.choose = lambda request: SlowAnswer(4.5) if request.verb == "patch" else None
        revision = api.revision
        while api.revision == revision:  # noqa: ASYNC110 - the server's own count
            await asyncio.sleep(0.1)
        written = clock()
        await asyncio.sleep(4.6)
        assert one._renewed_at <= written


async def test_a_lease_taken_by_somebody_else_ends_the_work_at_once():
    api = MemoryApi()

    async def steal():
        await asyncio.sleep(5)
        api.put("leases", "lock", spec={**spec(api), "holderIdentity": "thief"})

    with pytest.raises(LeadershipLostError, match="taken by thief"):
        await asyncio.gather(elector(api).lead(forever), steal())


async def test_work_that_ignores_cancellation_does_not_keep_the_loss_from_being_reported():
    api = MemoryApi()
    transport = FaultyTransport(api)
    release = asyncio.Event()

    async def stubborn():
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    async def cut():
        await asyncio.sleep(5)
        transport.choose = lambda _: Refused()

    start = clock()
    with pytest.raises(LeadershipLostError):
        await asyncio.gather(elector(transport).lead(stubborn), cut())
    assert clock() - start <= 5 + 10 + 5, "renew deadline, then the grace until others may lead"
    release.set()
    await asyncio.sleep(0)


@pytest.mark.parametrize("fault", [LostAnswer(), LostRequest(), Answer(409), Answer(500), Refused(), Late(4)], ids=repr)
async def test_one_request_that_goes_wrong_is_not_a_loss(fault):
    api = MemoryApi()
    transport = FaultyTransport(api)
    async with leading(elector(transport)) as task:
        for _ in range(3):
            rule = transport.inject(fault, verb="patch")
            await asyncio.sleep(60)
            assert rule.hits
        assert not task.done()
        assert spec(api)["leaseTransitions"] == 0
    await transport.close()


def test_identity_is_unique_per_process_start():
    assert identity() != identity()


@pytest.mark.parametrize("timing", [(15, 15, 2), (15, 10, 9), (10, 12, 2)])
def test_timing_that_cannot_be_safe_is_refused(timing):
    with pytest.raises(ValueError, match="lease ns/lock"):
        LeaseConfig(
            namespace="ns", name="lock", lease_duration=timing[0], renew_deadline=timing[1], retry_period=timing[2]
        )


def network(rng: random.Random, rate: float):
    """A candidate's own network: single faults at a rate, and partitions of some length now and then."""
    until = 0.0

    def choose(_: Request) -> Fault | None:
        nonlocal until
        now = clock()
        if now >= until and rng.random() < rate / 10:
            until = now + rng.choice([3, 12, 40])
        if now < until:
            return rng.choice([Refused(), LostRequest(), LostAnswer()])
        if rng.random() > rate:
            return None
        late = Late(rng.choice([0.5, 4, 12, 25]))
        slow = SlowAnswer(rng.choice([1, 4.5]))
        return rng.choice(
            [LostAnswer(), LostRequest(), late, late, slow, slow, Answer(500), Answer(409), Refused(), Stale()]
        )

    return choose


@pytest.mark.no_cover
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), candidates=st.integers(2, 3), rate=st.sampled_from([0.1, 0.4, 0.8]))
def test_two_never_lead_at_once_and_a_quiet_network_has_a_leader(seed, candidates, rate):
    async def main():
        rng = random.Random(seed)  # noqa: S311
        api = MemoryApi()
        leaders: list[str] = []
        transports = []

        async def work(name):
            leaders.append(name)
            assert len(leaders) == 1, f"{leaders} lead at the same time"
            try:
                await asyncio.sleep(rng.choice([5, 60, 100_000]))
            except asyncio.CancelledError:
                await asyncio.sleep(rng.choice([0, 0, 1, 4]))
                raise
            finally:
                leaders.remove(name)

        async def replica(number):
            """Starts again under a new identity whenever its process ends, as a Deployment does."""
            transport = FaultyTransport(api, choose=network(rng, rate))
            transports.append(transport)
            for start in range(10_000):
                name = f"{number}.{start}"
                with contextlib.suppress(LeadershipLostError):
                    await elector(transport, name).lead(lambda name=name: work(name))
                await asyncio.sleep(rng.choice([0, 2]))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(replica(number)) for number in range(candidates)]
            await asyncio.sleep(400)
            for transport in transports:
                transport.choose = None
            await asyncio.sleep(100)
            held = 0
            for _ in range(200):
                await asyncio.sleep(1)
                held += bool(leaders)
            assert held > 100, "a quiet network has a leader most of the time"
            for task in tasks:
                task.cancel()
        for transport in transports:
            await transport.close()

    run(main)
