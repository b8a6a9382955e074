"""Groups of a set that is created, changes its size, runs in stages and ends, and groups that others change."""

import pytest

from api import keys
from api.gang_api import Served
from controllers.planning.actions import CreateGroup
from dev.simulator import job_status
from tests.support.model.gang_sets import (
    NESTED,
    RESTART,
    groups_of,
    jobs_of,
    minima,
    ready_condition,
    resize,
    rule,
    running,
    uids,
    world,
)
from tests.support.model.world import World
from tests.support.objects.gang_trees import workers
from tests.support.objects.stored_sets import jobset, rjob


class TestCreation:
    def test_groups_first_from_the_top_then_jobs(self):
        w = world(scheduling=NESTED)
        first = w.step()
        made = sorted((a.level, a.kind) for a in first.actions if isinstance(a, CreateGroup))
        assert [kind for _, kind in made] == ["Workload", "CompositePodGroup", "PodGroup", "PodGroup"]
        assert len({level for level, _ in made}) == 3
        assert jobs_of(first) == []
        assert jobs_of(w.step()) == ["js-workers-0", "js-workers-1"]

    def test_pods_name_their_group_and_jobs_its_template(self):
        w = running(scheduling=NESTED)
        for index in range(2):
            job = w.jobs[f"js-workers-{index}"]
            group = w.groups["PodGroup", w.group_of(f"js-workers-{index}")]
            assert group["spec"]["workloadRef"]["templateName"] == "job-workers"
            assert job["metadata"]["annotations"][keys.GROUP_TEMPLATE] == "job-workers"
        assert w.group_of("js-workers-0") != w.group_of("js-workers-1")

    def test_the_condition_is_written_once_and_nothing_is_left_to_do(self):
        w = running(scheduling=NESTED)
        assert w.condition(keys.GROUPS_READY) == ("True", "Created", "the Workload and 3 groups are there")
        assert [e.reason for e in w.events].count("Created") == 1
        plan = w.plan()
        assert (plan.actions, plan.status) == ((), None)

    def test_jobs_of_no_pods_need_no_group(self):
        w = running(workers(), rjob("idle", 1, parallelism=0, completions=1), scheduling={})
        assert w.live() == ["js-idle-0", "js-workers-0", "js-workers-1"]
        assert w.group_of("js-idle-0") == ""

    def test_a_set_of_no_pods_has_no_workload(self):
        w = running(rjob("idle", 1, parallelism=0, completions=1), scheduling={})
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

    def test_one_missing_composite_holds_the_whole_tree(self):
        w = world(scheduling=NESTED)
        w.step()
        w.lose("CompositePodGroup", w.of_kind("CompositePodGroup")[0]["metadata"]["name"])
        assert jobs_of(w.step()) == []
        assert jobs_of(w.step()) == ["js-workers-0", "js-workers-1"]


class TestWithoutScheduling:
    @pytest.mark.parametrize("served", [Served(), Served(enabled=False), Served(groups=False, composites=False)])
    def test_nothing_is_done_and_nothing_reported(self, served):
        w = World(jobset(workers()))
        w.served = served
        plans = [w.step(), w.step()]
        assert not any(groups_of(plan) for plan in plans)
        assert w.status.conditions == ()
        assert "schedulingGroup" not in w.jobs["js-workers-0"]["spec"]["template"]["spec"]

    def test_a_group_of_the_users_own_stays_as_it_is_written(self):
        own = {"schedulingGroup": {"podGroupName": "mine"}}
        w = World(jobset(workers(pod=own)))
        w.check_groups_of = lambda _: None
        w.settle()
        assert w.group_of("js-workers-0") == "mine"
        assert w.groups == {}


class TestTheEnd:
    @pytest.mark.parametrize("kind", ["Complete", "Failed"])
    def test_groups_go_and_the_workload_stays(self, kind):
        w = running(scheduling=NESTED)
        for name in w.live():
            w.finish(name, kind) if job_status.may_run(w.jobs[name]) else None
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
        assert minima(w)["js-jobset"] == 3
        assert w.live() == [f"js-workers-{i}" for i in range(3)]
        resize(w, replicas=1)
        w.replace_jobs()
        assert minima(w) == {"js-jobset": 1, "js-job-workers-0": 2}
        assert w.live() == ["js-workers-0"]

    def test_parallelism_goes_up_in_the_group_first(self):
        w = running(scheduling=NESTED, gates=["ElasticJobSet"])
        before = uids(w)
        resize(w, pods=4)
        plan = w.step()
        assert ("PatchGroup", "PodGroup") in groups_of(plan)
        w.settle()
        assert minima(w)["js-job-workers-0"] == 4
        resize(w, pods=2)
        w.settle()
        assert minima(w)["js-job-workers-0"] == 2
        assert uids(w) == before


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
        assert minima(w) == {"js-rj-first": 1}
        assert w.live() == ["js-first-0"]
        w.run()
        w.settle()
        assert minima(w) == {"js-rj-first": 1, "js-rj-workers": 4}
        assert w.live() == ["js-first-0", "js-workers-0", "js-workers-1"]

    @CASES
    def test_those_of_later_stages_stay_over_a_restart(self, later, order):
        w = running(workers("first", 1, 1), workers(**later), scheduling={}, failurePolicy=RESTART, **order)
        w.run()
        w.settle()
        before = uids(w)
        assert len(before) == 3
        w.fail("js-first-0")
        w.replace_jobs()
        assert uids(w) == before


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
        w.replace_jobs()
        assert w.live() == ["js-workers-0", "js-workers-1"]

    def test_a_deleted_pod_group_is_made_again_for_the_next_attempt(self):
        w = running(failurePolicy=RESTART)
        (group,) = w.of_kind("PodGroup")
        w.lose("PodGroup", group["metadata"]["name"])
        w.fail("js-workers-0")
        w.replace_jobs()
        (again,) = w.of_kind("PodGroup")
        assert again["metadata"]["uid"] != group["metadata"]["uid"]
        assert w.live() == ["js-workers-0", "js-workers-1"]

    @pytest.mark.parametrize("count", [1, 9])
    def test_a_changed_minimum_is_corrected(self, count):
        w = running()
        w.of_kind("PodGroup")[0]["spec"]["schedulingPolicy"]["gang"]["minCount"] = count
        w.settle()
        assert minima(w) == {"js-jobset": 4}

    def test_changed_templates_are_corrected(self):
        w = running()
        w.of_kind("Workload")[0]["spec"]["podGroupTemplates"][0]["schedulingPolicy"]["gang"]["minCount"] = 1
        w.settle()
        assert w.of_kind("Workload")[0]["spec"]["podGroupTemplates"][0]["schedulingPolicy"]["gang"]["minCount"] == 4

    def test_groups_that_no_tree_has_go(self):
        w = running()
        stray = {**w.of_kind("PodGroup")[0], "metadata": {"name": "stray", "uid": "stray"}}
        w.groups["PodGroup", "stray"] = stray
        assert groups_of(w.step()) == [("DeleteGroup", "PodGroup")]
