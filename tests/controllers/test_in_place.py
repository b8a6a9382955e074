"""What the controller makes of the attempts that pods report (docs/reference/in-place-restart.md)."""

import msgspec
import pytest

from api import keys
from api.jobset import JobSet
from api.pod import Pod
from controllers.planning.reported_attempts import Budget, apply_attempts
from controllers.planning.status import StatusDraft
from tests.support.objects import jobsets

NOW = "2026-01-01T00:00:00Z"
JOB = "job-uid"


class Recorder(StatusDraft):
    """Keeps the warnings where a test can see them."""

    def __init__(self, js):
        super().__init__(js.status, NOW)
        self.warnings = []

    def warn(self, reason, note):
        self.warnings.append((reason, note))


def jobset(*rjobs, status=None, max_restarts=3, **spec):
    policy = {"maxRestarts": max_restarts, "restartStrategy": "InPlaceRestart"}
    body = jobsets.jobset(*(rjobs or [jobsets.rjob(parallelism=3, completions=3)]), failurePolicy=policy, **spec)
    return msgspec.convert({**body, "status": status or {}}, JobSet)


def pod(attempt=None, *, owner=JOB, phase="Running", deleting=False, kind="Job", name="pod", failure=None, **status):
    meta = {"name": name, "uid": f"{name}-uid", "ownerReferences": []}
    if owner:
        ref = {"apiVersion": "batch/v1", "kind": kind, "name": "js-workers-0", "uid": owner, "controller": True}
        meta["ownerReferences"].append(ref)
    if attempt is not None:
        meta["annotations"] = {keys.IN_PLACE_RESTART_ATTEMPT: str(attempt), "other": "dropped"}
    if failure is not None:
        meta["annotations"][keys.IN_PLACE_RESTART_FAILURE] = failure
    if deleting:
        meta["deletionTimestamp"] = NOW
    spec = {"nodeName": "node-1"}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase, **status}}, Pod)


def pods(*attempts):
    return [pod(attempt, name=f"pod-{i}") for i, attempt in enumerate(attempts)]


def decide(js, observed):
    draft = Recorder(js)
    apply_attempts(js, observed, frozenset({JOB}), draft, Budget(), ())
    return draft


def attempts(draft):
    return (draft.status.previous_in_place_restart_attempt, draft.status.current_in_place_restart_attempt)


@pytest.mark.parametrize(
    ("reported", "stored", "wanted"),
    [
        ((), (None, None), (None, None)),
        ((None, None, None), (None, None), (None, None)),
        ((0, None, 0), (None, None), (None, None)),
        ((0, 0, 0), (None, None), (None, 0)),
        ((1, 0, 0), (None, 0), (0, 0)),
        ((1, 1, 0), (0, 0), (0, 0)),
        ((1, 1, 1), (0, 0), (0, 1)),
        ((0, 0, 0), (0, 1), (0, 1)),  # pods as they were
        ((3, 1, 2), (0, 1), (2, 1)),
        ((2, 1, 1), (1, 1), (1, 1)),
        ((2, 1, 1), (5, 1), (5, 1)),
        ((1, None, 0), (None, None), (0, None)),
        (("+1", "01", "1"), (0, 0), (0, 1)),
    ],
)
def test_attempts(reported, stored, wanted):
    status = {"previousInPlaceRestartAttempt": stored[0], "currentInPlaceRestartAttempt": stored[1]}
    draft = decide(jobset(status=status), pods(*reported))
    assert attempts(draft) == wanted
    assert draft.warnings == []
    assert draft.status.terminal_state == ""


def test_a_set_without_pods_has_no_attempt():
    assert attempts(decide(jobset(jobsets.rjob(replicas=0)), [])) == (None, None)


@pytest.mark.parametrize(
    "foreign",
    [
        pod(7, owner="job-of-an-earlier-set"),
        pod("junk", owner="job-of-an-earlier-set"),
        pod(7, owner=None),
        pod(7, kind="ReplicaSet"),
        pod(7, owner="other", containerStatuses=[{"name": "main", "restartCount": 99}]),
    ],
)
def test_defect_20_only_pods_that_our_jobs_control_count(foreign):
    draft = decide(jobset(), [*pods(0, 0, 0), foreign])
    assert attempts(draft) == (None, 0)
    assert draft.warnings == []
    assert draft.status.terminal_state == ""


@pytest.mark.parametrize("junk", ["", "x", "-1", "1.0", " 1", "1_0", "٣", str(2**31), "9" * 9000])
def test_defect_20_a_malformed_attempt_spoils_only_its_own_pod(junk):
    draft = decide(jobset(), [*pods(1, 0), pod(junk, name="odd")])
    assert attempts(draft) == (0, None), "the others go on"
    [(reason, note)] = draft.warnings
    assert reason == "InvalidInPlaceRestartAttempt"
    assert "pod odd" in note
    assert keys.IN_PLACE_RESTART_ATTEMPT in note
    assert len(note.encode()) <= 1024
    assert decide(jobset(), [*pods(0, 0), pod(junk)]).status.current_in_place_restart_attempt is None


class TestBudget:
    def failed(self, draft):
        conditions = {c.type: (c.status, c.reason, c.message) for c in draft.status.conditions}
        if draft.status.terminal_state:
            message = "jobset failed due to reaching max number of restarts"
            assert conditions["Failed"] == ("True", "ReachedMaxRestarts", message)
        return draft.status.terminal_state == "Failed"

    def test_one_attempt_too_many_fails_the_set(self):
        assert not self.failed(decide(jobset(max_restarts=3), pods(3, 2, 2)))
        assert self.failed(decide(jobset(max_restarts=3), pods(4, 3, 3)))

    def test_no_restart_allowed(self):
        assert not self.failed(decide(jobset(max_restarts=0), pods(0, 0, 0)))
        assert self.failed(decide(jobset(max_restarts=0), pods(1, 0, 0)))

    @pytest.mark.parametrize("kind", ["containerStatuses", "initContainerStatuses"])
    def test_a_container_that_keeps_crashing_fails_the_set(self, kind):
        def crashing(count):
            return pod(
                phase="Failed", **{kind: [{"name": "a", "restartCount": 0}, {"name": "b", "restartCount": count}]}
            )

        assert not self.failed(decide(jobset(max_restarts=3), [crashing(3)]))
        assert self.failed(decide(jobset(max_restarts=3), [crashing(4)]))

    def test_attempts_that_were_not_counted_yet_take_nothing_away(self):
        status = {"restarts": 2, "restartsCountTowardsMax": 2, "executionAttempts": 0}
        assert not self.failed(decide(jobset(max_restarts=3, status=status), pods(3, 3, 3)))


class TestPodsThatSucceeded:
    """They cannot start again: a restart that needs them is made by recreating the set."""

    def completed(self, count=1):
        counts = {"ready": 0, "failed": 0, "active": 0, "suspended": 0}
        return [{"name": "workers", "succeeded": count, **counts}]

    def test_one_of_an_earlier_attempt_restarts_the_set(self):
        status = {"currentInPlaceRestartAttempt": 0}
        draft = decide(jobset(status=status), [*pods(1, 0), pod(0, phase="Succeeded")])
        assert (draft.status.restarts, draft.status.restarts_count_towards_max) == (1, 1)
        [restarting] = draft.status.conditions
        assert (restarting.type, restarting.status) == ("RestartingJobSet", "True")
        assert restarting.reason == "InPlaceRestartImpossible"
        assert [event.type for event in draft.events] == ["Warning"]
        assert attempts(draft) == (None, 0), "the agents of the old pods are not asked for anything more"

    def test_a_job_that_is_complete_restarts_the_set_even_if_its_pods_are_gone(self):
        status = {"currentInPlaceRestartAttempt": 0, "replicatedJobsStatus": self.completed()}
        assert decide(jobset(status=status), pods(1, 0)).status.restarts == 1
        assert decide(jobset(status=status), pods(0, 0)).status.restarts == 0, "nobody asks for a restart"

    @pytest.mark.parametrize(("counted", "in_parts", "restarts"), [(1, 0, 2), (1, 1, 1), (2, 0, 2)])
    def test_the_set_fails_if_no_restart_is_left(self, counted, in_parts, restarts):
        """Restarts before the first attempt was released have raised no attempt, and count."""
        js = jobset(max_restarts=2, status=at_attempt(0, counted=counted))
        draft = Recorder(js)
        apply_attempts(
            js,
            [*pods(1, 0), pod(0, phase="Succeeded")],
            frozenset({JOB}),
            draft,
            Budget(restarts_of_parts=in_parts),
            (),
        )
        assert draft.status.restarts == restarts
        assert draft.status.terminal_state == ("" if restarts > counted else "Failed")

    def test_a_first_stage_that_has_to_complete_is_not_waited_for(self):
        first = jobsets.rjob("prepare")
        after = jobsets.rjob(parallelism=2, completions=2, dependsOn=[{"name": "prepare", "status": "Complete"}])
        status = {"replicatedJobsStatus": [{**self.completed()[0], "name": "prepare"}]}
        js = jobset(first, after, status=status)
        assert attempts(decide(js, pods(0))) == (None, None)
        assert attempts(decide(js, [*pods(0, 0), pod(phase="Succeeded")])) == (None, 0)
        js = jobset(first, after, status={**status, "currentInPlaceRestartAttempt": 0})
        draft = decide(js, [*pods(1, 0), pod(phase="Succeeded")])
        assert (attempts(draft), draft.status.restarts) == ((0, 0), 0)

    def test_a_first_stage_that_has_to_be_ready_is_waited_for(self):
        after = jobsets.rjob("late", dependsOn=[{"name": "workers", "status": "Ready"}])
        assert attempts(decide(jobset(jobsets.rjob(), after), pods(0))) == (None, None)


def test_a_suspended_set_is_left_alone():
    draft = decide(jobset(suspend=True), [*pods(9, 8), pod("junk")])
    assert draft.status == jobset(suspend=True).status
    assert draft.warnings == []


@pytest.mark.parametrize(("parallelism", "completions"), [(None, 1), (1, None), (None, None), (2, 3)])
def test_a_spec_that_cannot_be_restarted_in_place_is_reported_once(parallelism, completions):
    odd = [jobsets.rjob(name, parallelism=parallelism, completions=completions) for name in ("a", "b")]
    js = jobset(*odd)
    draft = decide(js, pods(0, 0, 0))
    assert [reason for reason, _ in draft.warnings] == ["InPlaceRestartMisconfigured"]
    assert draft.status == js.status


def limited(js, observed, most):
    draft = Recorder(js)
    apply_attempts(js, observed, frozenset({JOB}), draft, Budget(most), ())
    return draft


def at_attempt(current, *, counted=0, restarts=None, execution=None):
    """Status of a set whose pods run an attempt; `counted` of its restarts were of the whole set, as they count."""
    restarts = counted if restarts is None else restarts
    return {
        "currentInPlaceRestartAttempt": current,
        "restarts": restarts,
        "restartsCountTowardsMax": counted,
        "executionAttempts": restarts if execution is None else execution,
    }


@pytest.mark.parametrize(
    ("status", "reported", "recreated"),
    [
        (at_attempt(1), (2, 1, 1), False),  # the second restart in place of two
        (at_attempt(2), (2, 2, 2), False),  # it runs
        (at_attempt(2), (3, 2, 2), True),  # a third is asked for
        (at_attempt(2), (3, 3, 3), True),  # all pods failed at once
        (at_attempt(2, counted=1), (3, 3, 3), False),  # new pods of the recreated set
        (at_attempt(2, counted=1), (3, 3), False),  # some of them
        (at_attempt(3, counted=1), (4, 3, 3), True),  # one of them fails: never in place again
        (at_attempt(4, counted=2), (4, 4, 4), False),
        (at_attempt(3, restarts=1), (3, 3, 3), False),  # a restart that does not count is no restart in place
        (at_attempt(3, restarts=1), (4, 3, 3), True),
        (at_attempt(3, execution=1), (3, 3, 3), False),  # nor is a resume
        (at_attempt(7), (8, 8, 8), False),  # there were more before the limit held: joined, and nobody fails
        (at_attempt(7), (8, 7, 7), True),
        ({}, (1, 1, 0), False),
    ],
)
def test_after_so_many_restarts_in_place_the_set_is_recreated(status, reported, recreated):
    js = jobset(status=status, max_restarts=20)
    draft = limited(js, pods(*reported), 2)
    assert draft.status.restarts == js.status.restarts + recreated
    assert draft.status.restarts_count_towards_max == js.status.restarts_count_towards_max + recreated
    if recreated:
        assert draft.status.last_restart.reason == "InPlaceRestartsUsedUp"
        [entry] = draft.status.attempt_history
        assert (entry.reason, entry.attempt) == ("InPlaceRestartsUsedUp", js.status.execution_attempts or 0)
        assert entry.message.endswith("2 restarts in place have not helped")
        assert attempts(draft) == attempts(Recorder(js)), "no agent is asked to start again"
        [restarting] = [of for of in draft.status.conditions if of.type == keys.RESTARTING]
        assert restarting.message == "recreating all jobs: 2 restarts in place have not helped"
    assert limited(js, pods(*reported), None).status.restarts == js.status.restarts


def test_a_recreation_counts_against_max_restarts_as_a_restart_in_place_does():
    js = jobset(status=at_attempt(3, counted=1), max_restarts=3)
    assert limited(js, pods(4, 3, 3), 2).status.terminal_state == "Failed"
    assert limited(js, pods(3, 3, 3), 2).status.terminal_state == ""
