"""Where Jobs are, from caches, and the short wait of webhooks for it."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.exclusive import Domain, NoDomain
from controllers.placement.domains import MAX_WAITING_JOBS, DomainMap, Domains
from controllers.placement.watches import PlacementWatches
from kube.client import Client
from tests.support.model.memory_api import MemoryApi
from tests.support.model.virtual import run
from tests.support.objects.placement import RACK, leader_of, list_empty, moment, node_of, show

pytestmark = pytest.mark.looptime

HOST = "kubernetes.io/hostname"
WAIT = 0.25
NODES = (node_of("n1", rack="r1", row="x"), node_of("n2", rack="r2"), node_of("bare"))
BOUND_TO = ("", "n1", "n2", "bare", "gone")


def watches() -> PlacementWatches:
    """Watches that have listed, and show the nodes above."""
    made = PlacementWatches(Client(MemoryApi()))
    for informer in (made.leaders, made.followers, made.nodes):
        list_empty(informer)
    show(made.nodes, *NODES)
    return made


def map_of(made: PlacementWatches) -> DomainMap:
    return DomainMap(made.leaders.store, made.nodes.store)


leaders = st.lists(
    st.builds(
        lambda name, job, space, attempt, created, state, node: leader_of(
            job,
            name=f"p{name}",
            namespace=space,
            attempt=attempt,
            created=moment(created),
            is_live=state == "live",
            succeeded=state == "succeeded",
            node=node,
        ),
        st.integers(0, 20),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["ns", "other"]),
        st.integers(0, 2),
        st.integers(0, 3),
        st.sampled_from(["live", "succeeded", "ended"]),
        st.sampled_from(BOUND_TO),
    ),
    max_size=6,
    unique_by=lambda pod: pod.name,
)


@given(leaders)
def test_only_a_valid_leader_names_a_domain(found):
    """Of the owner's UID, newest attempt, neither ending nor ended, bound to a node that exists and has the key.

    When there is none that lives, and one that has succeeded, that one: its Job makes no other.
    """

    async def body() -> None:
        made = watches()
        show(made.leaders, *found)
        answer = map_of(made).find("ns", "uid-a", RACK)
        own = [pod for pod in found if pod.job_uid == "uid-a" and pod.namespace == "ns"]
        counting = [pod for pod in own if pod.is_live] or [pod for pod in own if pod.succeeded]
        newest = max(counting, key=lambda pod: (pod.attempt, pod.created, pod.name), default=None)
        if isinstance(answer, Domain):
            assert newest is not None
            assert (answer.leader, answer.node) == (newest.name, newest.node)
            assert answer.value == {"n1": "r1", "n2": "r2"}[newest.node]
        else:
            assert newest is None or newest.node not in {"n1", "n2"}
            assert (answer.leader, answer.node) == (("", "") if newest is None else (newest.name, newest.node))

    run(body)


@pytest.mark.parametrize("uid", ["", "uid-none"])
async def test_a_pod_without_a_job_has_no_leader(uid):
    made = watches()
    show(made.leaders, leader_of(job="", job_uid="", node="n1"))
    assert isinstance(map_of(made).find("ns", uid, RACK), NoDomain)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (None, "its Job has no leader pod (the one with completion index 0)"),
        ({"is_live": False, "node": "n1"}, "its Job has no leader pod (the one with completion index 0)"),
        ({}, "its leader pod js-w-0-0-abcde is not scheduled"),
        ({"reason": "0/9 nodes"}, "its leader pod js-w-0-0-abcde is not scheduled: 0/9 nodes"),
        ({"node": "gone"}, "its leader pod js-w-0-0-abcde runs on node gone, which does not exist"),
        ({"node": "bare"}, "its leader pod js-w-0-0-abcde runs on node bare, which has no label rack"),
        (
            {"node": "n1", "topology": "row"},
            "its leader pod js-w-0-0-abcde runs on node n1, whose labels are being read",
        ),
    ],
)
async def test_why_there_is_none(fields, why):
    made = watches()
    if fields is not None:
        show(made.leaders, leader_of(**fields))
    answer = map_of(made).find("ns", "uid-js-w-0", (fields or {}).get("topology", RACK))
    assert isinstance(answer, NoDomain)
    assert answer.reason == why


# The wait. Time is virtual: what takes a while takes exactly that.


def clock() -> float:
    return asyncio.get_running_loop().time()


async def timed(domains: Domains, job: str = "js-w-0") -> tuple[Domain | NoDomain, float]:
    """The answer, and how long it took."""
    began = clock()
    return await domains.wait_for_domain("ns", f"uid-{job}", RACK), clock() - began


async def later(seconds: float, then: Callable[[], None]) -> None:
    await asyncio.sleep(seconds)
    then()


def about(seconds: float) -> object:
    return pytest.approx(seconds, abs=0.005)


class TestSettle:
    async def test_what_is_known_is_answered_at_once(self):
        made = watches()
        domains = Domains(made, WAIT)
        show(made.leaders, leader_of(node="n1"))
        assert await timed(domains) == (Domain("r1", "js-w-0-0-abcde", "n1"), 0)

    async def test_a_pod_of_another_namespace_with_the_uid_of_a_job_takes_nothing_from_it(self):
        """Neither the wait for it nor a part of its time: whoever creates a pod writes its owner."""

        made = watches()
        domains = Domains(made, WAIT)
        await domains.wait_for_domain("other", "uid-js-w-0", RACK)
        stranger = asyncio.create_task(domains.wait_for_domain("other", "uid-js-w-0", RACK))
        await asyncio.sleep(WAIT / 2)
        answer, took = await timed(domains)
        assert (isinstance(answer, NoDomain), took) == (True, about(WAIT))
        await stranger

    async def test_without_a_wait_time_the_answer_comes_at_once(self):
        domains = Domains(watches(), 0)
        assert (await timed(domains))[1] == 0

    async def test_a_pod_that_no_job_controls_does_not_wait(self):
        domains = Domains(watches(), WAIT)
        began = clock()
        assert isinstance(await domains.wait_for_domain("ns", "", RACK), NoDomain)
        assert clock() == began

    @pytest.mark.parametrize("steps", ["leader", "node"])
    async def test_the_answer_comes_as_soon_as_it_is_known(self, steps):
        made = watches()
        domains = Domains(made, WAIT)
        if steps == "node":
            show(made.leaders, leader_of(node="late"))
            happens = later(0.1, lambda: show(made.nodes, node_of("late", rack="r7")))
            expected = Domain("r7", "js-w-0-0-abcde", "late")
        else:
            show(made.leaders, leader_of())
            happens = later(0.1, lambda: show(made.leaders, leader_of(node="n1")))
            expected = Domain("r1", "js-w-0-0-abcde", "n1")
        (answer, took), _ = await asyncio.gather(timed(domains), happens)
        assert answer == expected
        assert took == about(0.1)

    async def test_changes_of_other_jobs_do_not_end_the_wait(self):
        made = watches()
        domains = Domains(made, WAIT)
        happens = later(0.1, lambda: show(made.leaders, leader_of("js-w-1", node="n1"), leader_of()))
        (answer, took), _ = await asyncio.gather(timed(domains), happens)
        assert (isinstance(answer, NoDomain), took) == (True, about(WAIT))

    async def test_followers_of_a_job_share_one_wait_and_all_get_the_answer(self):
        made = watches()
        domains = Domains(made, WAIT)
        happens = later(0.1, lambda: show(made.leaders, leader_of(node="n1")))
        *answers, _ = await asyncio.gather(*(timed(domains) for _ in range(50)), happens)
        assert {answer for answer, _ in answers} == {Domain("r1", "js-w-0-0-abcde", "n1")}
        assert all(took == about(0.1) for _, took in answers)

    async def test_one_that_comes_late_waits_no_longer_than_the_first(self):
        """One leader holds up the Job controller's workers for one wait in all."""

        domains = Domains(watches(), WAIT)

        async def late() -> tuple[Domain | NoDomain, float]:
            await asyncio.sleep(WAIT * 0.8)
            return await timed(domains)

        _, (answer, took) = await asyncio.gather(timed(domains), late())
        assert isinstance(answer, NoDomain)
        assert took <= WAIT * 0.2 + 0.005

    async def test_only_a_few_jobs_are_waited_for_at_once(self):
        domains = Domains(watches(), WAIT)
        answers = await asyncio.gather(*(timed(domains, f"j{number}") for number in range(MAX_WAITING_JOBS + 3)))
        assert [took for _, took in answers] == [about(WAIT)] * MAX_WAITING_JOBS + [0] * 3
        answers = await asyncio.gather(*(timed(domains, f"k{number}") for number in range(MAX_WAITING_JOBS)))
        assert [took for _, took in answers] == [about(WAIT)] * MAX_WAITING_JOBS, "another wait is possible again"

    async def test_one_beyond_the_limit_may_wait_later(self):
        domains = Domains(watches(), WAIT)
        await asyncio.gather(*(timed(domains, f"j{number}") for number in range(MAX_WAITING_JOBS + 1)))
        assert (await timed(domains, f"j{MAX_WAITING_JOBS}"))[1] == about(WAIT)

    async def test_cancelled_waits_leave_nothing_behind(self):
        """The API server gives up on a review; the next one for that Job waits as if there had been none."""

        domains = Domains(watches(), WAIT)
        for number in range(3 * MAX_WAITING_JOBS):
            task = asyncio.create_task(timed(domains, f"j{number}"))
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        answers = await asyncio.gather(*(timed(domains, f"j{number}") for number in range(MAX_WAITING_JOBS)))
        assert [took for _, took in answers] == [about(WAIT)] * MAX_WAITING_JOBS

    async def test_one_that_is_cancelled_does_not_end_the_other_waits(self):
        made = watches()
        domains = Domains(made, WAIT)
        first = asyncio.create_task(timed(domains))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(timed(domains))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0.05)
        show(made.leaders, leader_of(node="n1"))
        answer, took = await second
        assert answer == Domain("r1", "js-w-0-0-abcde", "n1")
        assert took == about(0.06)
        await asyncio.gather(first, return_exceptions=True)

    async def test_jobs_that_were_waited_for_in_vain_are_remembered_within_bounds(self):
        domains = Domains(watches(), WAIT, remembered=5)
        for number in range(20):
            await timed(domains, f"j{number}")
        assert [(await timed(domains, f"j{number}"))[1] for number in range(15, 20)] == [0] * 5
        assert (await timed(domains, "j0"))[1] == about(WAIT), "forgotten, and so waited for again"

    async def test_labels_that_had_to_be_listed_are_in_the_last_answer(self):
        """A node whose version did not change calls no handler when it is listed for one more label."""

        made = watches()
        domains = Domains(made, WAIT)
        show(made.nodes, node_of("n3", asked=(HOST,), rack="r3"))
        show(made.leaders, leader_of(node="n3"))

        def relisted() -> None:
            seen = made.nodes.store.watched_version
            made.nodes.store.begin()
            made.nodes.store.apply(node_of("n3", seen, rack="r3"))
            made.nodes.store.commit(seen)

        (answer, took), _ = await asyncio.gather(timed(domains), later(0.1, relisted))
        assert answer == Domain("r3", "js-w-0-0-abcde", "n3")
        assert took <= WAIT + 0.005
