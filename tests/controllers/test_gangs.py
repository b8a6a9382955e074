"""What the plan makes of groups over the life of a set, in the model of one namespace.

The model refuses what never may be: a Job ahead of its groups, a group ahead of those above it, a change that the API
server does not take, a second object of a name.
"""

import pytest
from msgspec.structs import replace

from api import keys
from api.gang_api import Served
from api.jobset import ReplicatedJob
from api.scheduling import Scheduling, SchedulingConstraints, TopologyConstraint
from controllers.planning.actions import CreateGroup, CreateJob, DeleteGroup, DeleteJob, PatchGroup, PatchJob
from tests.support.world import World, jobset, rjob

ALL, BASIC, GANG = {"all": {}}, {"basic": {}}, {"gang": {}}
RESTART = {"maxRestarts": 3, "restartStrategy": "Recreate"}


def rule(action):
    return {**RESTART, "rules": [{"name": "r", "action": action}]}


def entry(*targets, **fields):
    return {"targetReplicatedJobs": list(targets), **fields}


def workers(name="workers", jobs=2, pods=2, **more):
    return rjob(name, jobs, parallelism=pods, completions=pods, **more)


NESTED = {"schedulingPolicy": GANG, "replicatedJobs": [entry("workers", job={})]}
"""A composite over a PodGroup for each Job."""
EACH = {"replicatedJobs": [entry("workers", job={})]}
"""A PodGroup for each Job, each a tree of its own."""


def world(*rjobs, scheduling=None, gates=(), **spec):
    return World(
        jobset(*(rjobs or (workers(),)), scheduling={} if scheduling is None else scheduling, **spec),
        **dict.fromkeys(gates, True),
    )


def running(*rjobs, **more):
    """A set that is at rest with all Jobs ready."""
    w = world(*rjobs, **more)
    w.settle()
    w.run()
    w.settle()
    return w


def groups_of(plan, kind=CreateGroup | PatchGroup | DeleteGroup):
    return [(type(a).__name__, a.kind) for a in plan.actions if isinstance(a, kind)]


def jobs_of(plan, kind=CreateJob):
    return [a.name for a in plan.actions if isinstance(a, kind)]


def uids(w):
    return {place: of["metadata"]["uid"] for place, of in w.groups.items()}


def succeed(w, job, pods):
    """So many pods of a Job that runs have succeeded."""
    w.jobs[job]["status"]["succeeded"] = pods


def unready(w, job):
    """A pod of the Job has been replaced, and waits."""
    w.jobs[job]["status"]["ready"] = 0


def ready_condition(w):
    found = w.condition(keys.GROUPS_READY)
    return None if found is None else found[:2]


class TestCreation:
    def test_groups_first_from_the_top_then_jobs(self):
        w = world(scheduling=NESTED)
        first = w.step()
        made = sorted((a.level, a.kind) for a in first.actions if isinstance(a, CreateGroup))
        assert [kind for _, kind in made] == ["Workload", "CompositePodGroup", "PodGroup", "PodGroup"]
        assert len({level for level, _ in made}) == 3
        assert jobs_of(first) == []
        assert jobs_of(w.step()) == ["js-workers-0", "js-workers-1"]

    def test_deeper_composites_come_after_those_above_them(self):
        level = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
        scheduling = {**level, "replicatedJobs": [entry("workers", job={}, **level)]}
        first = world(scheduling=scheduling).step()
        by_level = sorted((a.level, a.body["spec"]["workloadRef"]["templateName"]) for a in first.actions if a_group(a))
        assert [name for _, name in by_level] == ["jobset", "rj-workers", "job-workers", "job-workers"]
        assert len({level for level, _ in by_level}) == 3

    def test_pods_name_their_group_and_jobs_its_template(self):
        w = running(scheduling=NESTED)
        for index in range(2):
            job = w.jobs[f"js-workers-{index}"]
            group = w.groups["PodGroup", w.group_of(f"js-workers-{index}")]
            assert group["spec"]["workloadRef"]["templateName"] == "job-workers"
            assert job["metadata"]["annotations"][keys.GROUP_TEMPLATE] == "job-workers"
        assert w.group_of("js-workers-0") != w.group_of("js-workers-1")

    def test_it_is_told_once_and_nothing_is_left_to_do(self):
        w = running(scheduling=NESTED)
        assert w.condition(keys.GROUPS_READY) == ("True", "Created", "the Workload and 3 groups are there")
        assert [e.reason for e in w.events].count("Created") == 1
        plan = w.plan()
        assert (plan.actions, plan.status) == ((), None)

    def test_jobs_of_no_pods_need_no_group(self):
        w = running(workers(), rjob("idle", 1, parallelism=0), scheduling={})
        assert w.live() == ["js-idle-0", "js-workers-0", "js-workers-1"]
        assert w.group_of("js-idle-0") == ""

    def test_a_set_of_no_pods_has_no_workload(self):
        w = running(rjob("idle", 1, parallelism=0), scheduling={})
        assert w.groups == {}
        assert w.condition(keys.GROUPS_SCHEDULED) is None

    def test_a_crash_after_some_groups_leaves_the_rest_to_be_made(self):
        w = world(scheduling=NESTED)
        for action in w.plan().actions:
            if isinstance(action, CreateGroup) and action.kind != "PodGroup":
                w._do(action)
        assert groups_of(w.plan()) == [("CreateGroup", "PodGroup")] * 2
        w.settle()
        assert w.live() == ["js-workers-0", "js-workers-1"]

    def test_a_tree_that_is_not_whole_holds_its_own_jobs_only(self):
        w = world(scheduling=EACH)
        w.step()
        w.lose("PodGroup", next(name for kind, name in w.groups if kind == "PodGroup" and "-0-" in name))
        plan = w.step()
        assert groups_of(plan) == [("CreateGroup", "PodGroup")]
        assert jobs_of(plan) == ["js-workers-1"]
        assert jobs_of(w.step()) == ["js-workers-0"]

    def test_one_missing_composite_holds_the_whole_tree(self):
        w = world(scheduling=NESTED)
        w.step()
        w.lose("CompositePodGroup", w.of_kind("CompositePodGroup")[0]["metadata"]["name"])
        assert jobs_of(w.step()) == []
        assert jobs_of(w.step()) == ["js-workers-0", "js-workers-1"]


def a_group(action):
    return isinstance(action, CreateGroup) and action.kind != "Workload"


class TestWithoutScheduling:
    @pytest.mark.parametrize("served", [Served(), Served(enabled=False), Served(groups=False, composites=False)])
    def test_nothing_is_done_and_nothing_told(self, served):
        w = World(jobset(workers()))
        w.served = served
        plans = [w.step(), w.step()]
        assert not any(groups_of(plan) for plan in plans)
        assert w.status.conditions == ()
        assert "schedulingGroup" not in w.jobs["js-workers-0"]["spec"]["template"]["spec"]

    def test_a_group_of_the_users_own_stays_as_it_is_written(self):
        own = {"schedulingGroup": {"podGroupName": "mine"}}
        w = World(jobset(workers(pod=own)))
        w._tree_stands = lambda _: None
        w.settle()
        assert w.group_of("js-workers-0") == "mine"
        assert w.groups == {}

    def test_what_is_told_of_groups_goes_with_spec_scheduling(self):
        w = running()
        w.edit(suspend=True)
        w.settle()
        w.halt()
        w.settle()
        w.edit(suspend=False, scheduling=None)
        w.settle()
        w.collect()
        w.settle()
        assert w.condition(keys.GROUPS_READY) is None
        assert w.condition(keys.GROUPS_SCHEDULED) is None
        assert w.live() == ["js-workers-0", "js-workers-1"]
        assert w.group_of("js-workers-0") == ""


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

    def test_other_trees_go_on(self):
        w = running(scheduling=EACH, failurePolicy=RESTART)
        w.fail("js-workers-0")
        w.settle()
        del w.jobs["js-workers-0"]
        assert jobs_of(w.step()) == ["js-workers-0"]

    def test_old_jobs_that_the_set_has_no_more_count(self):
        w = running(failurePolicy=RESTART, gates=["ElasticJobSet"])
        w.fail("js-workers-0")
        w.step()
        resize(w, replicas=1)
        w.settle()
        del w.jobs["js-workers-0"]
        assert jobs_of(w.step()) == []
        w.collect()
        w.settle()
        assert w.live() == ["js-workers-0"]

    def test_restart_job_leaves_the_others_and_all_groups(self):
        w = running(scheduling=NESTED, failurePolicy=rule("RestartJob"), gates=["RestartJob"])
        before, job = uids(w), w.jobs["js-workers-1"]["metadata"]["uid"]
        w.fail("js-workers-0")
        w.settle()
        w.collect()
        w.settle()
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
        assert w.minima()["js-jobset"] == 2
        w.fail("js-workers-1")
        w.settle()
        w.collect()
        plan = w.step()
        while not jobs_of(plan):
            plan = w.step()
        assert w.minima() == {"js-jobset": 3, **{f"js-job-workers-{i}": 2 for i in range(3)}}
        assert jobs_of(plan) == [f"js-workers-{i}" for i in range(3)]


class TestCompletedMembers:
    """kube-scheduler counts pods that live: what has completed may not be waited for (kubernetes#142330)."""

    def test_nothing_changes_while_nobody_waits(self):
        w = running(scheduling=NESTED)
        succeed(w, "js-workers-0", 1)
        assert groups_of(w.step()) == []
        w.finish("js-workers-0")
        assert groups_of(w.step()) == []
        assert w.minima() == {"js-jobset": 2, "js-job-workers-0": 2, "js-job-workers-1": 2}

    def test_a_pod_group_is_lowered_for_a_pod_that_is_replaced(self):
        w = running(workers(jobs=1))
        succeed(w, "js-workers-0", 1)
        unready(w, "js-workers-0")
        before = uids(w)
        assert groups_of(w.step()) == [("PatchGroup", "PodGroup")]
        assert w.minima() == {"js-jobset": 1}
        assert uids(w) == before
        assert w.plan().actions == ()

    def test_a_composite_is_replaced_under_its_name(self):
        w = running(scheduling=NESTED)
        w.finish("js-workers-0")
        unready(w, "js-workers-1")
        before = uids(w)
        assert groups_of(w.step()) == [("PatchGroup", "CompositePodGroup")]
        assert w.minima() == {"js-jobset": 1, "js-job-workers-0": 2, "js-job-workers-1": 2}
        changed = {kind for (kind, name), uid in uids(w).items() if before[kind, name] != uid}
        assert changed == {"CompositePodGroup"}
        assert w.plan().actions == ()

    def test_a_job_that_is_made_anew_beside_a_completed_one(self):
        w = running(scheduling=NESTED, failurePolicy=rule("RestartJob"), gates=["RestartJob"])
        w.finish("js-workers-0")
        w.settle()
        w.fail("js-workers-1")
        w.settle()
        w.collect()
        w.settle()
        assert w.live() == ["js-workers-0", "js-workers-1"]
        assert w.minima()["js-jobset"] == 1

    def test_a_completed_job_that_is_deleted_counts_as_completed(self):
        w = running(workers(jobs=3), scheduling=NESTED)
        w.finish("js-workers-0")
        w.settle()
        w.remove("js-workers-0")
        w.settle()
        unready(w, "js-workers-1")
        w.settle()
        assert w.minima()["js-jobset"] == 2

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
        assert w.minima()["js-rj-workers"] == 1

    def test_a_group_that_is_lost_with_nothing_left_is_made_as_it_was_at_first(self):
        success = {"operator": "All", "targetReplicatedJobs": ["driver"]}
        w = running(*both(), scheduling=EACH2, successPolicy=success)
        for index in range(2):
            w.finish(f"js-workers-{index}")
        w.settle()
        lost = next(name for kind, name in w.groups if name.startswith("js-rj-workers"))
        w.lose("PodGroup", lost)
        w.settle()
        assert w.minima()["js-rj-workers"] == 4

    def test_a_number_of_the_user_is_lowered_only_when_too_few_are_left(self):
        scheduling = {
            "replicatedJobs": [entry("workers", schedulingPolicy={"gang": {"minGroupCount": 2}}, job={})],
        }
        w = running(workers(jobs=4), scheduling=scheduling)
        for done, wanted in ((0, 2), (1, 2), (2, 1)):
            w.finish(f"js-workers-{done}")
            unready(w, "js-workers-3")
            w.settle()
            assert w.minima()["js-rj-workers"] == wanted

    def test_basic_groups_have_no_number_to_lower(self):
        w = running(scheduling={"schedulingPolicy": BASIC})
        succeed(w, "js-workers-0", 1)
        unready(w, "js-workers-0")
        assert groups_of(w.step()) == []


EACH2 = {"replicatedJobs": [entry("driver"), entry("workers")]}


def both():
    return workers("driver", 1, 1), workers()


class TestSuspension:
    def test_groups_go_only_when_every_job_is_suspended(self):
        w = running(scheduling=NESTED)
        w.edit(suspend=True)
        plan = w.step()
        assert jobs_of(plan, PatchJob) == ["js-workers-0", "js-workers-1"]
        assert groups_of(plan) == []
        assert {kind for _, kind in groups_of(w.step())} == {"Workload", "CompositePodGroup", "PodGroup"}
        assert {kind for kind, _ in w.groups} == {"PodGroup"}
        w.halt()
        w.collect()
        assert w.groups == {}
        w.settle()
        assert ready_condition(w) == ("False", "Suspended")

    def test_resume_waits_for_the_old_groups_and_makes_new_ones(self):
        w = running(scheduling=NESTED)
        before = uids(w)
        w.edit(suspend=True)
        w.settle()
        w.edit(suspend=False)
        w.settle()
        assert ready_condition(w) == ("False", "WaitingForOldGroups")
        assert all(job["spec"]["suspend"] for job in w.jobs.values())
        w.halt()
        w.collect()
        w.settle()
        assert not any(job["spec"]["suspend"] for job in w.jobs.values())
        assert ready_condition(w) == ("True", "Created")
        assert uids(w).keys() == before.keys()
        assert set(uids(w).values()).isdisjoint(before.values())

    def test_waiting_is_told_once_however_many_groups_go_one_by_one(self):
        w = running(workers(jobs=4), scheduling=EACH)
        w.edit(suspend=True)
        w.settle()
        w.edit(suspend=False)
        w.settle()
        for index in range(4):
            w.jobs[f"js-workers-{index}"]["status"].update(active=0, ready=0)
            w.release()
            w.settle()
        assert [e.reason for e in w.events].count("WaitingForOldGroups") == 1

    def test_a_resume_at_once_waits_for_the_pods_of_before(self):
        w = running()
        w.edit(suspend=True)
        w.step()
        w.edit(suspend=False)
        assert jobs_of(w.step(), PatchJob) == []
        w.halt()
        w.settle()
        assert not any(job["spec"]["suspend"] for job in w.jobs.values())

    def test_created_suspended_there_are_no_groups(self):
        w = world(scheduling=NESTED, suspend=True)
        w.settle()
        assert w.groups == {}
        assert w.live() == ["js-workers-0", "js-workers-1"]
        assert ready_condition(w) == ("False", "Suspended")
        w.edit(suspend=False)
        w.settle()
        assert len(w.groups) == 4
        assert w.live() == ["js-workers-0", "js-workers-1"]
        assert not any(job["spec"]["suspend"] for job in w.jobs.values())

    def test_suspended_jobs_are_made_anew_for_another_group(self):
        w = running()
        w.edit(suspend=True)
        w.settle()
        w.halt()
        w.collect()
        w.edit(scheduling=each(w))
        plan = w.step()
        assert sorted(jobs_of(plan, DeleteJob)) == ["js-workers-0", "js-workers-1"]
        w.collect()
        w.edit(suspend=False)
        w.settle()
        assert w.group_of("js-workers-0").startswith("js-job-workers-0-")

    def test_so_they_are_when_it_is_resumed_with_that(self):
        w = running()
        w.edit(suspend=True)
        w.settle()
        w.halt()
        w.collect()
        w.edit(scheduling=each(w), suspend=False)
        for _ in range(4):
            plan = w.step()
            assert set(jobs_of(plan, DeleteJob)).isdisjoint(jobs_of(plan, PatchJob))
        w.collect()
        w.settle()
        assert w.live() == ["js-workers-0", "js-workers-1"]
        assert w.group_of("js-workers-0").startswith("js-job-workers-0-")

    def test_other_constraints_replace_groups_that_still_stand(self):
        w = running()
        before = uids(w)
        w.edit(suspend=True)
        w.step()
        w.halt()
        rack = SchedulingConstraints(topology=(TopologyConstraint(key="rack"),))
        w.edit(scheduling=Scheduling(scheduling_constraints=rack), suspend=False)
        w.settle()
        w.collect()
        w.settle()
        (group,) = w.of_kind("PodGroup")
        (workload,) = w.of_kind("Workload")
        assert group["spec"]["schedulingConstraints"] == {"topology": [{"key": "rack"}]}
        assert workload["spec"]["podGroupTemplates"][0]["schedulingConstraints"] == {"topology": [{"key": "rack"}]}
        assert set(uids(w).values()).isdisjoint(before.values())
        assert not any(job["spec"]["suspend"] for job in w.jobs.values())


def each(w):
    """A PodGroup for each Job, in place of what the set has."""
    return jobset(workers(), scheduling=EACH).spec.scheduling


class TestTheEnd:
    @pytest.mark.parametrize("kind", ["Complete", "Failed"])
    def test_groups_go_and_the_workload_stays(self, kind):
        w = running(scheduling=NESTED)
        for name in w.live():
            w.finish(name, kind) if w._may_run(w.jobs[name]) else None
            w.settle()
        w.collect()
        w.settle()
        assert w.status.terminal_state == ("Completed" if kind == "Complete" else "Failed")
        assert [kind for kind, _ in w.groups] == ["Workload"]
        assert w.plan().actions == ()


class TestElastic:
    def test_replicas_bring_and_take_groups(self):
        w = running(scheduling=NESTED, gates=["ElasticJobSet"])
        resize(w, replicas=3)
        w.settle()
        assert w.minima()["js-jobset"] == 3
        assert w.live() == [f"js-workers-{i}" for i in range(3)]
        resize(w, replicas=1)
        w.settle()
        w.collect()
        w.settle()
        assert w.minima() == {"js-jobset": 1, "js-job-workers-0": 2}
        assert w.live() == ["js-workers-0"]

    def test_parallelism_goes_up_in_the_group_first(self):
        w = running(scheduling=NESTED, gates=["ElasticJobSet"])
        before = uids(w)
        resize(w, pods=4)
        plan = w.step()
        assert ("PatchGroup", "PodGroup") in groups_of(plan)
        w.settle()
        assert w.minima()["js-job-workers-0"] == 4
        resize(w, pods=2)
        w.settle()
        assert w.minima()["js-job-workers-0"] == 2
        assert uids(w) == before

    def test_a_replicated_job_of_no_jobs_gets_some(self):
        w = running(workers("driver", 1, 1), workers(jobs=0), scheduling=EACH2, gates=["ElasticJobSet"])
        resize(w, replicas=2, number=1)
        w.settle()
        assert w.live() == ["js-driver-0", "js-workers-0", "js-workers-1"]
        templates = [of["name"] for of in w.of_kind("Workload")[0]["spec"]["podGroupTemplates"]]
        assert templates == ["rj-driver", "rj-workers"]


def resize(w, *, replicas=None, pods=None, number=0):
    rjobs = list(w.js.spec.replicated_jobs)
    old: ReplicatedJob = rjobs[number]
    size = {} if pods is None else {"parallelism": pods, "completions": pods}
    template = {**old.template, "spec": {**old.template["spec"], **size}}
    rjobs[number] = replace(old, template=template, replicas=old.replicas if replicas is None else replicas)
    w.edit(replicated_jobs=tuple(rjobs))


class TestStages:
    CASES = pytest.mark.parametrize(
        ("later", "order"),
        [
            ({"dependsOn": [{"name": "first", "status": "Ready"}]}, {}),
            ({}, {"startupPolicy": {"startupPolicyOrder": "InOrder"}}),
            ({}, {"executionPolicy": {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Ready"}}),
        ],
        ids=["dependsOn", "startupPolicy", "executionPolicy"],
    )

    @CASES
    def test_groups_of_a_stage_come_when_it_is_released(self, later, order):
        zone = {"topology": [{"key": "zone"}]}
        w = world(workers("first", 1, 1), workers(**later), scheduling={"schedulingConstraints": zone}, **order)
        w.settle()
        assert w.minima() == {"js-rj-first": 1}
        assert w.live() == ["js-first-0"]
        w.run()
        w.settle()
        assert w.minima() == {"js-rj-first": 1, "js-rj-workers": 4}
        assert w.live() == ["js-first-0", "js-workers-0", "js-workers-1"]

    @CASES
    def test_those_of_later_stages_stay_over_a_restart(self, later, order):
        w = running(workers("first", 1, 1), workers(**later), scheduling={}, failurePolicy=RESTART, **order)
        w.run()
        w.settle()
        before = uids(w)
        assert len(before) == 3
        w.fail("js-first-0")
        w.settle()
        w.collect()
        w.settle()
        assert uids(w) == before

    def test_the_first_stage_alone_is_not_every_group(self):
        later = workers(dependsOn=[{"name": "first", "status": "Complete"}])
        w = running(workers("first", 1, 1), later, scheduling={})
        w.schedule()
        w.settle()
        assert w.condition(keys.GROUPS_SCHEDULED) is None


class TestDrift:
    def test_a_group_that_is_deleted_is_made_again(self):
        w = running(scheduling=NESTED)
        for kind in ("Workload", "CompositePodGroup"):
            w.lose(kind, w.of_kind(kind)[0]["metadata"]["name"])
        w.settle()
        assert len(w.groups) == 4

    def test_a_pod_group_that_is_deleted_serves_while_its_pods_run(self):
        """Else a Job that is restarted alone waited for those that wait for it."""
        w = running(failurePolicy=rule("RestartJob"), gates=["RestartJob"])
        (group,) = w.of_kind("PodGroup")
        w.lose("PodGroup", group["metadata"]["name"])
        w.settle()
        assert ready_condition(w) == ("True", "Created")
        w.fail("js-workers-0")
        w.settle()
        w.collect()
        w.settle()
        assert w.live() == ["js-workers-0", "js-workers-1"]

    def test_and_is_made_again_for_the_next_attempt(self):
        w = running(failurePolicy=RESTART)
        (group,) = w.of_kind("PodGroup")
        w.lose("PodGroup", group["metadata"]["name"])
        w.fail("js-workers-0")
        w.settle()
        w.collect()
        w.settle()
        (again,) = w.of_kind("PodGroup")
        assert again["metadata"]["uid"] != group["metadata"]["uid"]
        assert w.live() == ["js-workers-0", "js-workers-1"]

    @pytest.mark.parametrize("count", [1, 9])
    def test_a_number_that_somebody_changes_is_put_right(self, count):
        w = running()
        w.of_kind("PodGroup")[0]["spec"]["schedulingPolicy"]["gang"]["minCount"] = count
        w.settle()
        assert w.minima() == {"js-jobset": 4}

    def test_templates_that_somebody_changes_are_put_right(self):
        w = running()
        w.of_kind("Workload")[0]["spec"]["podGroupTemplates"][0]["schedulingPolicy"]["gang"]["minCount"] = 1
        w.settle()
        assert w.of_kind("Workload")[0]["spec"]["podGroupTemplates"][0]["schedulingPolicy"]["gang"]["minCount"] == 4

    def test_what_the_api_server_adds_is_no_change(self):
        w = running(scheduling=NESTED)
        for kind in ("PodGroup", "CompositePodGroup"):
            for of in w.of_kind(kind):
                of["spec"] |= {"disruptionMode": {"single": {}}, "priority": 0, "resourceClaims": None}
        w.of_kind("Workload")[0]["spec"]["podGroupTemplates"] = None
        assert w.plan().actions == ()

    def test_groups_that_no_tree_has_go(self):
        w = running()
        stray = {**w.of_kind("PodGroup")[0], "metadata": {"name": "stray", "uid": "stray"}}
        w.groups["PodGroup", "stray"] = stray
        assert groups_of(w.step()) == [("DeleteGroup", "PodGroup")]


LACKS = [
    ({}, Served(enabled=False), "FeatureGateDisabled"),
    ({}, Served(groups=False, composites=False, topology=False), "APIUnavailable"),
    (NESTED, Served(groups=True, composites=False, topology=True), "CompositePodGroupUnavailable"),
    (
        {"schedulingConstraints": {"topology": [{"key": "zone"}]}},
        Served(groups=True, composites=False, topology=False),
        "FieldDropped",
    ),
]


class TestMissingApis:
    @pytest.mark.parametrize(("scheduling", "served", "reason"), LACKS)
    def test_jobs_are_held_and_proceed_when_it_appears(self, scheduling, served, reason):
        w = world(scheduling=scheduling)
        w.served = served
        w.settle()
        assert (w.live(), w.groups) == ([], {})
        assert ready_condition(w) == ("False", reason)
        assert w.condition(keys.GROUPS_READY)[2].startswith("no Job is created: ")
        assert [(e.type, e.reason) for e in w.events].count(("Warning", reason)) == 1
        w.served = Served(groups=True, composites=True, topology=True)
        w.settle()
        assert w.live() == ["js-workers-0", "js-workers-1"]
        assert ready_condition(w) == ("True", "Created")

    @pytest.mark.parametrize(("scheduling", "served", "reason"), LACKS)
    def test_or_run_without_groups_if_that_is_wanted(self, scheduling, served, reason):
        w = world(scheduling=scheduling)
        w.served, w.groups_required = served, False
        w.settle()
        assert w.live() == ["js-workers-0", "js-workers-1"]
        assert w.group_of("js-workers-0") == ""
        assert ready_condition(w) == ("False", reason)
        assert "run without groups" in w.condition(keys.GROUPS_READY)[2]

    @pytest.mark.parametrize(
        ("scheduling", "served"),
        [
            ({}, Served(groups=True, composites=False, topology=False)),
            (EACH, Served(groups=True, composites=False, topology=False)),
            (
                {"schedulingConstraints": {"topology": [{"key": "zone"}]}},
                Served(groups=True, composites=False, topology=True),
            ),
        ],
    )
    def test_a_shape_asks_for_no_more_than_it_needs(self, scheduling, served):
        w = world(scheduling=scheduling)
        w.served = served
        w.settle()
        assert ready_condition(w) == ("True", "Created")

    @pytest.mark.parametrize("required", [True, False])
    def test_until_it_is_known_what_is_served_all_wait(self, required):
        w = world()
        w.served, w.groups_required = Served(), required
        w.settle()
        assert w.live() == []
        assert ready_condition(w) == ("False", "Discovering")

    def test_a_new_process_tells_of_a_set_that_runs_nothing_new(self):
        w = running()
        w.served = Served()
        plan = w.plan()
        assert (plan.actions, plan.status) == ((), None)

    def test_jobs_that_run_without_groups_get_none_until_the_next_attempt(self):
        w = world(failurePolicy=rule("RestartJob"), gates=["RestartJob"])
        w.served, w.groups_required = Served(groups=False, composites=False, topology=False), False
        w.settle()
        w.run()
        w.served = Served(groups=True, composites=True, topology=True)
        w.settle()
        assert ready_condition(w) == ("False", "JobsWithoutGroups")
        w.fail("js-workers-0")
        w.settle()
        w.collect()
        w.settle()
        assert w.live() == ["js-workers-0", "js-workers-1"]
        assert (w.group_of("js-workers-0"), w.groups) == ("", {})

    def test_a_restart_gives_them_groups(self):
        w = world(failurePolicy=RESTART)
        w.served, w.groups_required = Served(groups=False, composites=False, topology=False), False
        w.settle()
        w.run()
        w.served = Served(groups=True, composites=True, topology=True)
        w.fail("js-workers-0")
        w.settle()
        w.collect()
        w.settle()
        assert w.group_of("js-workers-0").startswith("js-jobset-")
        assert ready_condition(w) == ("True", "Created")


class TestTrouble:
    @pytest.mark.parametrize("reason", ["FieldDropped", "NameConflict"])
    def test_jobs_are_held_while_there_is_some(self, reason):
        w = world()
        w.trouble = reason, "words"
        w.settle()
        assert w.live() == []
        assert w.condition(keys.GROUPS_READY) == ("False", reason, "no Job is created: words")
        w.trouble = None
        w.settle()
        assert w.live() == ["js-workers-0", "js-workers-1"]

    def test_a_name_that_is_taken_is_no_api_that_is_missing(self):
        w = world()
        w.trouble, w.groups_required = ("NameConflict", "words"), False
        w.settle()
        assert w.live() == []


class TestScheduled:
    def test_once_told_it_stays(self):
        w = world()
        w.settle()
        assert w.condition(keys.GROUPS_SCHEDULED) is None
        w.schedule()
        w.settle()
        assert w.condition(keys.GROUPS_SCHEDULED)[0] == "True"
        w.of_kind("PodGroup")[0]["status"] = {}
        w.settle()
        assert w.condition(keys.GROUPS_SCHEDULED)[0] == "True"

    def test_pods_that_are_ready_say_so_where_the_scheduler_does_not(self):
        assert running(scheduling=NESTED).condition(keys.GROUPS_SCHEDULED)[0] == "True"

    def test_what_the_scheduler_refuses_is_told_in_its_first_words(self):
        w = world(scheduling=NESTED)
        w.settle()
        first, second = w.of_kind("PodGroup")
        refuse(first, "no room")
        refuse(second, "none here")
        w.settle()
        assert w.condition(keys.GROUPS_SCHEDULED) is None, "there are no pods yet: it says the same of those"
        for job in w.jobs.values():
            job["status"]["active"] = 2
        w.settle()
        status, reason, message = w.condition(keys.GROUPS_SCHEDULED)
        assert (status, reason) == ("False", "Unschedulable")
        told = f"PodGroup {first['metadata']['name']} has found no room yet; kube-scheduler says: no room"
        assert message == told
        refuse(first, "still no room")
        w.settle()
        assert w.condition(keys.GROUPS_SCHEDULED)[2] == told, "another attempt is nothing new"
        first["status"] = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]}
        w.settle()
        now = f"PodGroup {second['metadata']['name']} has found no room yet; kube-scheduler says: none here"
        assert w.condition(keys.GROUPS_SCHEDULED)[2] == now
        w.schedule()
        w.settle()
        assert w.condition(keys.GROUPS_SCHEDULED)[0] == "True"


def refuse(group, words):
    condition = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    group["status"] = {"conditions": [condition]}
