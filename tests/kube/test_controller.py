"""The worker loop and its outcome table."""

import asyncio
import itertools
import logging

import pytest

from kube import log_fields
from kube.calls import count_request
from kube.controller import Controller, Request, Result, settle
from kube.errors import (
    BadRequest,
    Cause,
    Conflict,
    Details,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    Status,
    TooManyRequests,
    TransportError,
)
from kube.workqueue import WorkQueue

pytestmark = pytest.mark.looptime
KEY = Request("ns", "a")


def clock() -> float:
    return asyncio.get_running_loop().time()


class Metrics:
    def __init__(self):
        self.reported = []
        self.calls = []

    def on_requests(self, requests):
        self.calls.append(requests)

    def on_reconcile(self, result, seconds):
        self.reported.append(result)

    def on_failure(self):
        self.reported.append("failed")

    def on_terminal_failure(self):
        self.reported.append("terminal")

    def on_panic(self):
        self.reported.append("panic")

    def active(self, workers):
        self.peak = max(getattr(self, "peak", 0), workers)


async def run_for(seconds, reconcile, *, keys=(KEY,), **options):
    """Reconcile the keys for that long; gives the metrics."""
    queue, metrics = WorkQueue[Request](), Metrics()
    controller = Controller("test", queue, reconcile, metrics=metrics, **options)
    for key in keys:
        queue.add(key)
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run())
        await asyncio.sleep(seconds)
        queue.shutdown()
    return metrics


async def test_success_is_done_and_requeue_after_comes_back():
    runs = []

    async def reconcile(request):
        runs.append((request, clock()))
        return Result(requeue_after=30) if len(runs) < 3 else None

    start = clock()
    metrics = await run_for(1000, reconcile)
    assert [request for request, _ in runs] == [KEY] * 3
    assert [at - start for _, at in runs] == pytest.approx([0, 30, 60])
    assert metrics.reported == ["requeue_after", "requeue_after", "success"]


async def test_an_error_is_tried_again_with_growing_waits_and_a_success_resets_them():
    times = []

    async def reconcile(_):
        times.append(clock())
        if len(times) in {1, 2, 3, 5}:
            raise TransportError("reset")
        return Result(requeue_after=10) if len(times) == 4 else None

    await run_for(100, reconcile)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert gaps == pytest.approx([0.005, 0.01, 0.02, 10, 0.005], abs=1e-4)


async def test_a_terminal_error_is_counted_and_not_tried_again():
    async def reconcile(_):
        raise TOO_LARGE

    assert (await run_for(5000, reconcile)).reported == ["failed", "terminal", "error"]


TOO_LARGE = BadRequest(413, Status(message="too large"))
ENDS = Forbidden(
    403, Status(message="being terminated", details=Details(causes=(Cause(reason="NamespaceTerminating"),)))
)


@pytest.mark.parametrize("error", [ENDS, ExceptionGroup("2 of 2 writes failed", [ENDS, NotFound(404, Status())])])
async def test_refusals_of_a_namespace_that_is_being_deleted_are_no_errors(caplog, error: Exception):
    async def reconcile(_):
        raise error

    caplog.set_level(logging.INFO, "kube.controller")
    assert (await run_for(5000, reconcile)).reported == ["success"]
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "the namespace is being deleted, nothing is created: " in caplog.records[0].getMessage()


async def test_a_refusal_for_another_reason_beside_them_is_an_error():
    async def reconcile(_):
        raise ExceptionGroup("2 of 2 writes failed", [ENDS, TOO_LARGE, NotFound(404, Status())])

    assert (await run_for(1, reconcile)).reported[:2] == ["failed", "error"]


async def test_the_log_says_why_a_group_of_writes_failed(caplog):
    async def reconcile(_):
        raise ExceptionGroup("2 of 3 writes failed", [TransportError("no route"), TransportError("reset")])

    with caplog.at_level(logging.WARNING, logger="kube"):
        await run_for(0.001, reconcile)
    assert "ns/a: failed, trying again: 2 of 3 writes failed, first: no route" in caplog.text


async def test_a_bug_in_one_reconcile_is_a_panic_and_the_loop_continues(caplog):
    async def reconcile(request):
        if request.name == "a":
            raise ZeroDivisionError

    with caplog.at_level(logging.CRITICAL, logger="kube"):
        metrics = await run_for(0.001, reconcile, keys=[KEY, Request("ns", "b")])
    assert metrics.reported == ["failed", "panic", "error", "success"]


async def test_a_reconcile_that_hangs_is_ended_and_tried_again():
    runs = []

    async def reconcile(_):
        runs.append(clock())
        await asyncio.sleep(3600 if len(runs) == 1 else 0)

    metrics = await run_for(1000, reconcile, timeout=60)
    assert runs[1] - runs[0] == pytest.approx(60.005, abs=1e-3)
    assert metrics.reported == ["failed", "error", "success"]


async def test_each_reconcile_has_its_own_id_and_workers_run_side_by_side():
    ids = []

    async def reconcile(_):
        ids.append(log_fields.current.get()["reconcileID"])
        await asyncio.sleep(1)
        assert log_fields.current.get()["reconcileID"] in ids

    keys = [Request("ns", str(number)) for number in range(6)]
    metrics = await run_for(2.5, reconcile, keys=keys, workers=3)
    assert len(set(ids)) == 6
    assert metrics.peak == 3
    assert log_fields.current.get() == {}


async def test_reconciles_that_never_wait_let_others_run_in_between():
    """A lease has to be renewed while a manager that has just begun to lead looks at all that there is."""
    seen = []

    async def reconcile(request):
        seen.append(request.name)

    async def other():
        while len(seen) - seen.count("other") < 100:
            seen.append("other")
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    await run_for(1, reconcile, keys=[Request("ns", str(number)) for number in range(100)], workers=2)
    await running
    assert max(len([*group]) for ours, group in itertools.groupby(seen, lambda name: name != "other") if ours) <= 2


async def test_the_requests_of_each_reconcile_are_counted_whatever_its_outcome():
    async def request(_):
        await asyncio.sleep(1)
        count_request()

    async def reconcile(key):
        async with asyncio.TaskGroup() as group:
            for _ in range(int(key.name)):
                group.create_task(request(key))
        if key.name == "3":
            raise TOO_LARGE
        if key.name == "4":
            await asyncio.sleep(3600)

    keys = [Request("ns", name) for name in ("0", "2", "3", "4", "50")]
    metrics = await run_for(70, reconcile, keys=keys, workers=5, timeout=60)
    assert sorted(metrics.calls[:5]) == [0, 2, 3, 4, 50]
    assert metrics.calls[4] == 4, "a reconcile that was given up still sent what it sent"


async def test_a_stop_lets_running_reconciles_finish_and_starts_no_more():
    finished = []

    async def reconcile(request):
        await asyncio.sleep(10)
        finished.append(request.name)

    await run_for(5, reconcile, keys=[KEY, Request("ns", "b")])
    assert finished == ["a"]


RETRIED = [
    BadRequest(400, Status()),
    Conflict(409, Status()),
    Forbidden(403, Status()),
    Invalid(422, Status()),
    ServerError(500, Status()),
    TransportError("x"),
    TimeoutError(),
    ExceptionGroup("some", [TOO_LARGE, TransportError("y")]),
]
TERMINAL = [
    TOO_LARGE,
    ExceptionGroup("all", [TOO_LARGE, BadRequest(415, Status())]),
]


@pytest.mark.parametrize(
    ("error", "outcome", "queued"),
    [*((error, "error", 1) for error in RETRIED), *((error, "error", 0) for error in TERMINAL), (ENDS, "success", 0)],
    ids=repr,
)
async def test_transient_errors_are_tried_again_others_and_the_end_of_a_namespace_not(error, outcome, queued):
    queue = WorkQueue[Request]()
    assert settle(queue, KEY, error) == outcome
    assert len(queue) == queued


@pytest.mark.parametrize(("seconds", "wait"), [(9, 9), (86400, 1000)])
async def test_the_longest_wait_a_server_asked_for_is_kept_within_the_limit(seconds: float, wait: float):
    queue = WorkQueue[Request]()
    start = clock()
    slow = TooManyRequests(429, Status(), retry_after=seconds)
    settle(queue, KEY, ExceptionGroup("several", [slow, TooManyRequests(429, Status(), retry_after=4)]))
    await queue.get()
    assert clock() - start == pytest.approx(wait)
