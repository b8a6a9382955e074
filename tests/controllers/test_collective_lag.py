"""Restarts of large sets by a process whose caches lag behind."""

import contextlib
from collections.abc import Iterator

import pytest

from api.features import FeatureGates
from controllers.planning.limits import Limits
from tests.support.model.ledger import Ledger
from tests.support.model.replica import Fault, ModelTimeLoop, Replica
from tests.support.model.stale import Server
from tests.support.objects.large_sets import RESTARTS
from tests.support.objects.stored_sets import jobset, rjob

EACH_ALONE = Limits(batch_deletion_from=1, jobs_per_deletion=1)


@pytest.fixture
def process() -> Iterator[Replica]:
    """A process, real but for its API server, with a set of three Jobs that counts as large and is about to restart.

    The first Job has failed. The Job controller has not come to the others yet, so that they have no pods.
    """
    gates = FeatureGates({})
    ledger = Ledger(gates, create_suspended=True)
    server = Server(ledger)
    ledger.spec_of = lambda: server.jobset
    with (
        contextlib.closing(ModelTimeLoop(lambda: float(server.seconds))) as loop,
    ):
        server.new_jobset(jobset(rjob("a", 3, parallelism=1, completions=1), failurePolicy=RESTARTS))
        replica = Replica(server, loop, gates, create_suspended=True, limits=EACH_ALONE)
        replica.reconcile()
        server.run("js-a-0", ready=True)
        server.finish("js-a-0", "Failed")
        server.end_pods(server.job("js-a-0").metadata.uid)
        replica.catch_up()
        replica.reconcile()
        assert server.jobset.status.restarts == 1
        yield replica


class TestViewsThatLag:
    """The ledger holds every creation to what pods there really are."""

    def comes_up(self, process: Replica):
        for _ in range(5):
            for uid in process.server.orphans():
                process.server.end_pods(uid)
            process.catch_up()
            process.reconcile()
        assert sorted(process.server.jobs) == ["js-a-0", "js-a-1", "js-a-2"]

    def test_pods_that_start_while_their_job_is_being_deleted(self, process):
        process.reconcile(Fault("meanwhile", 1), lambda: process.server.run("js-a-1", ready=True))
        assert process.server.jobs == {}
        process.deliver("jobs")
        process.old_pods.arrive(0)
        process.reconcile()
        assert sorted(process.server.jobs) == ["js-a-0", "js-a-2"]
        self.comes_up(process)

    def test_pods_that_start_between_two_deletions(self, process):
        process.reconcile(Fault("refuse", 1))
        assert list(process.server.jobs) == ["js-a-1"]
        process.old_pods.arrive()
        process.server.run("js-a-1", ready=True)
        process.deliver("jobs")
        process.reconcile()
        assert "js-a-1" not in process.server.jobs
        process.old_pods.arrive(0)
        process.deliver("jobs")
        process.reconcile()
        assert "js-a-1" not in process.server.jobs
        self.comes_up(process)

    def test_a_deletion_whose_answer_is_lost(self, process):
        process.server.run("js-a-1", ready=True)
        process.reconcile(Fault("lose answer", 1))
        process.reconcile()
        self.comes_up(process)

    def test_a_new_process_asks_again(self, process):
        process.server.run("js-a-1", ready=True)
        process.catch_up()
        process.reconcile()
        fresh = Replica(process.server, process.loop, FeatureGates({}), create_suspended=True, limits=EACH_ALONE)
        fresh.reconcile()
        assert process.server.jobs == {}, "nothing before the first list"
        fresh.old_pods.arrive()
        fresh.reconcile()
        assert sorted(process.server.jobs) == ["js-a-0", "js-a-2"]
        self.comes_up(fresh)
