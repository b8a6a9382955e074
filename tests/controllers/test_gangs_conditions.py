"""What is reported about groups: APIs that are missing, names that are taken, what the scheduler says."""

import pytest

from api import keys
from api.gang_api import Served
from tests.support.model.gang_sets import EACH, NESTED, ready_condition, rule, running, world

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

    @pytest.mark.parametrize(("version", "advice"), [((1, 36), "need Kubernetes 1.37"), ((1, 37), "--feature-gates")])
    def test_an_older_api_server_is_named_instead_of_gates_that_it_does_not_know(self, version, advice):
        w = world()
        w.served = Served(groups=False, composites=False, topology=False, version=version)
        w.settle()
        message = w.condition(keys.GROUPS_READY)[2]
        assert advice in message
        assert ("--feature-gates" in message) is (version == (1, 37))

    @pytest.mark.parametrize(("scheduling", "served", "reason"), LACKS)
    def test_jobs_run_without_groups_if_those_are_not_required(self, scheduling, served, reason):
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

    def test_a_new_process_writes_nothing_about_a_set_that_runs(self):
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
        w.replace_jobs()
        assert w.live() == ["js-workers-0", "js-workers-1"]
        assert (w.group_of("js-workers-0"), w.groups) == ("", {})


class TestTrouble:
    def test_a_name_that_is_taken_is_no_api_that_is_missing(self):
        w = world()
        w.group_error, w.groups_required = ("NameConflict", "words"), False
        w.settle()
        assert w.live() == []


class TestScheduled:
    def test_pods_that_are_ready_say_so_where_the_scheduler_does_not(self):
        assert running(scheduling=NESTED).condition(keys.GROUPS_SCHEDULED)[0] == "True"

    def test_a_refusal_of_the_scheduler_is_reported_with_its_first_message(self):
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
        reported = f"PodGroup {first['metadata']['name']} is not scheduled yet; kube-scheduler says: no room"
        assert message == reported
        refuse(first, "still no room")
        w.settle()
        assert w.condition(keys.GROUPS_SCHEDULED)[2] == reported, "another attempt is nothing new"
        first["status"] = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]}
        w.settle()
        now = f"PodGroup {second['metadata']['name']} is not scheduled yet; kube-scheduler says: none here"
        assert w.condition(keys.GROUPS_SCHEDULED)[2] == now
        w.schedule()
        w.settle()
        assert w.condition(keys.GROUPS_SCHEDULED)[0] == "True"


def refuse(group, words):
    condition = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    group["status"] = {"conditions": [condition]}
