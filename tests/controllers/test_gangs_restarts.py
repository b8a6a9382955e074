"""Groups over restarts, and minima that are lowered for pods that have completed."""

from tests.support.model.gang_sets import EACH, NESTED, RESTART, groups_of, jobs_of, minima, rule, running, uids
from tests.support.objects.gang_trees import BASIC, GANG, entry, workers


def succeed(w, job, pods):
    """So many pods of a Job that runs have succeeded."""
    w.jobs[job]["status"]["succeeded"] = pods


def unready(w, job):
    """A pod of the Job has been replaced, and waits."""
    w.jobs[job]["status"]["ready"] = 0


class TestRestarts:
    def test_the_next_attempt_waits_for_the_last_old_job_of_its_tree(self):
        w = running(scheduling=NESTED, failurePolicy=RESTART)
        before = uids(w)
        w.fail("js-workers-0")
        w.settle()
        del w.jobs["js-workers-0"]
        assert jobs_of(w.step()) == []
        del w.jobs["js-workers-1"]
        assert jobs_of(w.step()) == ["js-workers-0", "js-workers-1"]
        assert uids(w) == before

    def test_jobs_of_other_trees_are_created_at_once(self):
        w = running(scheduling=EACH, failurePolicy=RESTART)
        w.fail("js-workers-0")
        w.settle()
        del w.jobs["js-workers-0"]
        assert jobs_of(w.step()) == ["js-workers-0"]

    def test_restart_job_leaves_the_others_and_all_groups(self):
        w = running(scheduling=NESTED, failurePolicy=rule("RestartJob"), gates=["RestartJob"])
        before, job = uids(w), w.jobs["js-workers-1"]["metadata"]["uid"]
        w.fail("js-workers-0")
        w.replace_jobs()
        assert uids(w) == before
        assert w.live() == ["js-workers-0", "js-workers-1"]
        assert w.jobs["js-workers-1"]["metadata"]["uid"] == job

    def test_restart_replicated_job_waits_for_its_last_old_job(self):
        scheduling = {"replicatedJobs": [entry("driver"), entry("workers")]}
        w = running(
            workers("driver", 1, 1),
            workers(),
            scheduling=scheduling,
            failurePolicy=rule("RestartReplicatedJob"),
            gates=["RestartJob"],
        )
        w.fail("js-workers-0")
        w.settle()
        del w.jobs["js-workers-0"]
        w.settle()
        assert w.live() == ["js-driver-0"]
        w.collect()
        w.settle()
        assert w.live() == ["js-driver-0", "js-workers-0", "js-workers-1"]

    def test_a_job_that_a_person_deletes_holds_its_tree_until_it_is_gone(self):
        w = running()
        for job in w.jobs.values():
            job["metadata"]["deletionTimestamp"] = w.now
        del w.jobs["js-workers-0"]
        assert jobs_of(w.step()) == []
        w.collect()
        assert jobs_of(w.step()) == ["js-workers-0", "js-workers-1"]

    def test_minima_that_were_lowered_are_raised_ahead_of_the_jobs(self):
        w = running(workers(jobs=3), scheduling=NESTED, failurePolicy=RESTART)
        w.finish("js-workers-0")
        unready(w, "js-workers-1")
        w.settle()
        assert minima(w)["js-jobset"] == 2
        w.fail("js-workers-1")
        w.settle()
        w.collect()
        plan = w.step()
        while not jobs_of(plan):
            plan = w.step()
        assert minima(w) == {"js-jobset": 3, **{f"js-job-workers-{i}": 2 for i in range(3)}}
        assert jobs_of(plan) == [f"js-workers-{i}" for i in range(3)]


class TestCompletedMembers:
    """kube-scheduler counts pods that live: what has completed may not be waited for (kubernetes#142330)."""

    def test_nothing_changes_while_no_pod_waits(self):
        w = running(scheduling=NESTED)
        succeed(w, "js-workers-0", 1)
        assert groups_of(w.step()) == []
        w.finish("js-workers-0")
        assert groups_of(w.step()) == []
        assert minima(w) == {"js-jobset": 2, "js-job-workers-0": 2, "js-job-workers-1": 2}

    def test_a_pod_group_is_lowered_for_a_pod_that_is_replaced(self):
        w = running(workers(jobs=1))
        succeed(w, "js-workers-0", 1)
        unready(w, "js-workers-0")
        before = uids(w)
        assert groups_of(w.step()) == [("PatchGroup", "PodGroup")]
        assert minima(w) == {"js-jobset": 1}
        assert uids(w) == before
        assert w.plan().actions == ()

    def test_a_composite_is_replaced_under_its_name(self):
        w = running(scheduling=NESTED)
        w.finish("js-workers-0")
        unready(w, "js-workers-1")
        before = uids(w)
        assert groups_of(w.step()) == [("PatchGroup", "CompositePodGroup")]
        assert minima(w) == {"js-jobset": 1, "js-job-workers-0": 2, "js-job-workers-1": 2}
        changed = {kind for (kind, name), uid in uids(w).items() if before[kind, name] != uid}
        assert changed == {"CompositePodGroup"}
        assert w.plan().actions == ()

    def test_a_completed_job_that_is_deleted_counts_as_completed(self):
        w = running(workers(jobs=3), scheduling=NESTED)
        w.finish("js-workers-0")
        w.settle()
        w.remove("js-workers-0")
        w.settle()
        unready(w, "js-workers-1")
        w.settle()
        assert minima(w)["js-jobset"] == 2

    def test_with_nothing_left_what_is_there_stays(self):
        scheduling = {"replicatedJobs": [entry("driver"), entry("workers", schedulingPolicy=GANG, job={})]}
        w = running(workers("driver", 1, 1), workers(), scheduling=scheduling)
        w.finish("js-workers-0")
        unready(w, "js-workers-1")
        w.settle()
        w.finish("js-workers-1")
        before = uids(w)
        w.settle()
        assert uids(w) == before
        assert minima(w)["js-rj-workers"] == 1

    def test_basic_groups_have_no_number_to_lower(self):
        w = running(scheduling={"schedulingPolicy": BASIC})
        succeed(w, "js-workers-0", 1)
        unready(w, "js-workers-0")
        assert groups_of(w.step()) == []
