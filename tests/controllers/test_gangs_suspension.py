"""Groups of a set that is suspended and resumed."""

import pytest
from msgspec.structs import replace

from api.gang_api import Served
from api.scheduling import Scheduling, SchedulingConstraints, TopologyConstraint
from controllers.planning.actions import DeleteJob, PatchJob
from tests.support.model.gang_sets import EACH, NESTED, groups_of, jobs_of, ready_condition, running, uids, world
from tests.support.objects.gang_trees import workers
from tests.support.objects.stored_sets import jobset


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

    @pytest.mark.parametrize("reported", [True, False])
    def test_suspended_jobs_stay_until_the_served_apis_are_known(self, reported):
        """A manager that starts knows nothing of it, and these Jobs are as they should be."""
        w = world(scheduling=NESTED, suspend=True)
        w.served, w.groups_required = Served(groups=False, composites=False, topology=False), False
        w.settle()
        assert w.live() == ["js-workers-0", "js-workers-1"]
        w.served = Served()
        if not reported:
            w.js = replace(w.js, status=replace(w.status, conditions=()))
        assert jobs_of(w.step(), DeleteJob) == []
        w.settle()
        assert w.live() == ["js-workers-0", "js-workers-1"]

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

    def test_waiting_is_reported_once_however_many_groups_go_one_by_one(self):
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

    def test_a_resume_at_once_waits_for_the_old_pods(self):
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

    def test_suspended_jobs_are_created_again_for_another_group(self):
        w = running()
        w.edit(suspend=True)
        w.settle()
        w.halt()
        w.collect()
        w.edit(scheduling=each(w))
        plan = w.step()
        assert sorted(jobs_of(plan, DeleteJob)) == ["js-workers-0", "js-workers-1"]
        assert jobs_of(w.step(), DeleteJob) == [], "they are being deleted"
        w.collect()
        w.edit(suspend=False)
        w.settle()
        assert w.group_of("js-workers-0").startswith("js-job-workers-0-")

    def test_other_constraints_replace_groups_that_still_stand(self):
        w = running()
        before = uids(w)
        w.edit(suspend=True)
        w.step()
        w.halt()
        rack = SchedulingConstraints(topology=(TopologyConstraint(key="rack"),))
        w.edit(scheduling=Scheduling(scheduling_constraints=rack), suspend=False)
        w.replace_jobs()
        (group,) = w.of_kind("PodGroup")
        (workload,) = w.of_kind("Workload")
        assert group["spec"]["schedulingConstraints"] == {"topology": [{"key": "rack"}]}
        assert workload["spec"]["podGroupTemplates"][0]["schedulingConstraints"] == {"topology": [{"key": "rack"}]}
        assert set(uids(w).values()).isdisjoint(before.values())
        assert not any(job["spec"]["suspend"] for job in w.jobs.values())


def each(w):
    """A PodGroup for each Job, in place of what the set has."""
    return jobset(workers(), scheduling=EACH).spec.scheduling
