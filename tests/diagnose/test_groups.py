"""What `jobset explain` says of gangs, from facts made by hand: which level waits, and why the scheduler has not reported."""

from typing import Any

import pytest

from api.gang_api import NO_COMPOSITES, NO_GROUPS
from tests.support.explain.gangs import EACH, GANG, NESTED, REPEATED, WORDS, Played
from tests.support.explain.objects import MOMENT, at, causes, event, job_of, lease, made, walk
from tests.support.objects.jobsets import rjob

JSON = dict[str, Any]


def last(body: JSON) -> JSON:
    return [*walk(body)][-1]


def test_which_level_waits_for_how_many_and_where():
    played = Played(NESTED)
    played.refuse_all()
    played.say(played.of_job("train-workers-0"), REPEATED)
    played.say(played.of_job("train-workers-2"), "0/2 placements are available")
    played.pod("train-workers-2", 0, unscheduled="0/2 nodes are available: 2 Insufficient example.com/tpu.")
    text, body = played.explain()
    root, groups = played.name("jobset"), [played.of_job(f"train-workers-{index}") for index in range(3)]
    needs = "needs 3 groups at once, and there is room for 2 in the first of 4 superslices"
    fix = "add nodes or end what is there"
    of_each = "0 of 2 pods bound; all 2 pods have to fit at once, in one cube"
    assert text.splitlines() == [
        "JobSet team-a/train: waits, 0 of 3 Jobs ready or done (since 14:05:03Z, 12 min)",
        f"└ CompositePodGroup {root}: 0 of 6 pods bound; all 3 groups have to fit at once, in one superslice",
        f"  ├ PodGroup {groups[0]}, Job train-workers-0: {of_each}",
        f"  │ └ the scheduler says: {WORDS}; that is: CompositePodGroup {root} {needs}",
        f"  ├ PodGroup {groups[1]}: likewise",
        f"  └ PodGroup {groups[2]}, Job train-workers-2: {of_each}",
        "    ├ the scheduler says: 0/2 placements are available",
        "    └ the scheduler says: 0/2 nodes are available: 2 Insufficient example.com/tpu",
        f"  to fix: it goes on by itself when there is room for all that has to fit in one superslice: {fix}",
    ]
    assert causes(body) == [
        "gang-waits", "group-waits", "scheduler-said", "group-waits", "group-waits", "scheduler-said", "scheduler-said",
    ]  # fmt: skip


def test_the_message_about_pods_counts_where_the_group_was_scheduled_once():
    played = Played(EACH)
    played.refuse_all()
    for name in played.groups:
        played.say(name, "", "True")
    assert f"the scheduler says: {WORDS}" in played.explain()[0]


@pytest.mark.no_cover
@pytest.mark.timeout(60)
@pytest.mark.parametrize("scheduling", [EACH, NESTED, {}])
def test_thousands_of_jobs_are_explained_at_once(scheduling):
    played = Played(scheduling, rjob(replicas=3000, parallelism=1, completions=1))
    for job in [*played.jobs][:50]:
        played.pod(job, 0, unscheduled="no room")
    text, _ = played.explain()
    assert len(text.splitlines()) < 20


def test_basic_groups_have_nothing_to_wait_for_together():
    played = Played({"replicatedJobs": [{"targetReplicatedJobs": ["workers"], "schedulingPolicy": {"basic": {}}}]})
    played.refuse_all("0/1 nodes are available")
    assert "0 of 6 pods bound; pods are scheduled one by one" in played.explain()[0]


def test_the_level_is_not_named_where_two_could_be_meant():
    played = Played(NESTED)
    played.refuse_all(WORDS.replace("(3)", "(2)"))
    for name in played.groups:
        gang = played.groups[name]["spec"]["schedulingPolicy"]["gang"]
        gang |= dict.fromkeys(gang, 2)
    assert "that is:" not in played.explain()[0]


def test_labels_that_nodes_may_lack_where_nodes_may_not_be_listed():
    played = Played(NESTED)
    played.refuse_all("no feasible placements found")
    text, body = played.explain()
    labels = "example.com/superslice=VALUE example.com/cube=VALUE"
    assert "to fix: if no node has all labels of its levels (example.com/superslice, example.com/cube), have" in text
    assert f"have an administrator of the cluster run kubectl label node NODE {labels}, or choose another" in text
    assert "it goes on by itself" not in text
    assert body["level"] == "fault"


class TestNoSchedulerReport:
    """Pods without a word from the scheduler: the likely cause, in the order of what holds them first."""

    def test_a_group_that_is_missing(self):
        played = Played(NESTED)
        root = played.name("jobset")
        del played.groups[root]
        played.pod("train-workers-0", 0, gates=("example.com/quota",))
        text, body = played.explain()
        assert f"CompositePodGroup {root} is missing: no pod of the whole tree is scheduled without" in text
        assert causes(body) == ["gang-waits", "group-missing"]

    def test_it_is_a_fault_while_nobody_makes_groups(self):
        played = Played(NESTED)
        played.groups.clear()
        _, body = played.explain(lease=lease(ago=3600))
        assert (last(body)["cause"], last(body)["level"]) == ("group-missing", "fault")

    def test_a_gated_pod_holds_the_tree(self):
        played = Played(NESTED)
        played.pod("train-workers-1", 1, gates=("example.com/quota",))
        _, body = played.explain()
        held = "held back by scheduling gate example.com/quota: one such pod holds the whole tree"
        assert last(body)["what"] == f"pod train-workers-1-1 is {held}"
        assert causes(body) == ["gang-waits", "pod-gated"]

    def test_pods_that_do_not_exist(self):
        played = Played(NESTED)
        played.jobs["train-workers-2"]["status"]["active"] = 1
        del played.pods["train-workers-2-1"]
        quota = event("FailedCreate", "exceeded quota", about="uid-train-workers-2")
        text, body = played.explain(job_warnings=[quota])
        short = played.of_job("train-workers-2")
        assert (
            f"CompositePodGroup {played.name('jobset')} needs 3 groups with their pods, 2 have them; PodGroup {short}"
            " needs 2 pods, 1 exist; Jobs that lack pods: train-workers-2 (1 of 2)"
        ) in text
        assert causes(body) == ["gang-waits", "quorum", "pods-refused"]

    def test_another_priority(self):
        played = Played(NESTED)
        played.pod("train-workers-1", 1, priority=1000)
        _, body = played.explain()
        words = "has priority 1000, the groups have 0: the scheduler wants one for all"
        assert last(body)["what"] == f"pod train-workers-1-1 {words}"
        assert last(body)["level"] == "fault"

    @pytest.mark.parametrize(
        ("pods", "says"),
        [
            (["train-workers-0-0"], "different schedulers: default-scheduler, other"),
            (None, "its pods are for scheduler other, which says nothing about them"),
        ],
    )
    def test_another_scheduler(self, pods, says):
        played = Played(NESTED)
        for name in pods or [*played.pods]:
            job, _, index = name.rpartition("-")
            played.pod(job, int(index), schedulerName="other")
        _, body = played.explain()
        assert says in last(body)["what"]
        assert last(body)["cause"] == "scheduler-differs"

    def test_nothing_is_wrong_that_can_be_seen(self):
        _, body = Played(NESTED).explain()
        assert last(body)["cause"] == "scheduler-silent"
        assert "GenericWorkload=true" in last(body)["remedy"]

    def test_groups_of_later_stages_are_not_missed(self):
        stages = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}
        scheduling = {
            "schedulingPolicy": {"basic": {}},
            "replicatedJobs": [
                {"targetReplicatedJobs": [name], "schedulingPolicy": GANG, "job": {}} for name in ("a", "b")
            ],
        }
        played = Played(scheduling, *(rjob(name, parallelism=2, completions=2) for name in ("a", "b")))
        played.js["spec"]["executionPolicy"] = stages
        for name in [name for name in played.groups if "-b" in name]:
            del played.groups[name]
        del played.jobs["train-b-0"]
        text, body = played.explain()
        assert causes(body) == ["gang-waits", "scheduler-silent", "later-stage"], text


def test_a_scheduler_that_ignores_groups():
    played = Played(NESTED)
    played.bind("train-workers-0")
    played.pod("train-workers-1", 0, unscheduled="0/16 nodes are available")
    text, body = played.explain()
    assert "2 of 6 pods bound" in text
    assert "start kube-scheduler with --feature-gates=GenericWorkload=true" in text
    assert "pods of PodGroup train-job-workers-0" in text, "only a PodGroup has pods of its own"
    assert causes(body)[:2] == ["gang-waits", "scheduler-ignores-groups"]


def test_pods_that_are_bound_and_not_ready_are_no_matter_of_groups():
    played = Played(NESTED)
    for job in played.jobs:
        for index in range(2):
            played.pod(job, index, node="node-1", phase="Pending")
    assert set(causes(played.explain()[1])) == {"not-ready"}


def test_without_the_right_to_read_groups_the_scheduler_s_message_is_shown():
    played = Played(NESTED)
    played.refuse_all()
    _, body = played.explain(groups=None)
    assert set(causes(body)) == {"unscheduled"}


class TestObjects:
    """SchedulingObjectsReady=False."""

    def refused(self, reason: str, message: str, runs: str = "", **known: Any) -> tuple[str, JSON]:
        """`runs`: a Job that exists all the same, and runs without a group."""
        said = {"type": "SchedulingObjectsReady", "status": "False", "lastTransitionTime": at(MOMENT)}
        played = Played(NESTED, conditions=[{**said, "reason": reason, "message": message}])
        for name in [name for name in played.jobs if name != runs]:
            del played.jobs[name]
        for job in played.jobs.values():
            del job["spec"]["template"]["spec"]["schedulingGroup"]
        played.pods.clear()
        played.groups.clear()
        return played.explain(**known)

    @pytest.mark.parametrize("lack", [NO_GROUPS, NO_COMPOSITES])
    def test_an_api_that_is_not_served(self, lack):
        text, body = self.refused(lack.reason, f"no Job is created: {lack.message}")
        assert f"{lack.reason}: no Job is created: {lack.problem}" in text
        assert "--runtime-config=scheduling.k8s.io/v1beta1=true" in text
        assert (causes(body), body["level"]) == (["groups-not-ready"], "fault")

    def test_groups_of_an_earlier_attempt(self):
        _, body = self.refused("WaitingForOldGroups", "PodGroup x of an earlier attempt is being deleted")
        assert (causes(body), body["level"]) == (["groups-not-ready"], "waits")
        assert "--force" in last(body)["remedy"]

    def test_jobs_that_run_without_groups_are_not_held_up_by_them(self):
        message = "nothing is served. The Jobs run without groups, as scheduling.whenUnavailable is Ignore"
        _, body = self.refused("APIUnavailable", message, runs="train-workers-0")
        assert causes(body)[:2] == ["groups-not-ready", "missing"]
        assert [finding["level"] for finding in walk(body)][1:3] == ["note", "waits"]


def test_a_tree_whose_old_jobs_have_to_go_first():
    played = Played(NESTED, restarts=1)
    del played.jobs["train-workers-1"]
    played.pods.clear()
    played.jobs["train-workers-2"] = made(job_of(played.js, 2, attempt=1), active=2)
    old = played.jobs["train-workers-0"]
    old["metadata"]["deletionTimestamp"] = at(MOMENT)
    text, body = played.explain()
    assert causes(body) == ["restarting", "tree-restarts", "not-ready"]
    assert "1 Job waits until all of an earlier attempt are gone (train-workers-0)" in text
