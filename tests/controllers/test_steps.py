"""The list of steps, and how what they decide becomes one plan."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import controllers.planning.steps as package
from api import keys
from api.elastic import ReducedReplicas
from api.failure_actions import ACTIONS, Scope
from api.features import GATES
from api.jobset_status import (
    FailedAttempt,
    FailedNode,
    JobSetStatus,
    LastRestart,
    MaintenanceStatus,
    ReplicatedJobStatus,
    RuleRestarts,
    RuleStep,
    SpareStatus,
)
from api.recovery_times import Recovery
from controllers.planning.actions import DeleteJob, Event, FailedPodQuery
from controllers.planning.attempts import NO_COUNTS, REACHED, RESTARTS_OF_JOBS, restart_set
from controllers.planning.partial import LastPartial, Partial, combine
from controllers.planning.plan import STEPS, STEPS_WITH_SPARES
from controllers.planning.status import StatusDraft
from controllers.planning.steps.grow_back import grow_back
from kube.model.meta import Condition

PARTIALS = st.builds(
    Partial,
    actions=st.lists(st.builds(DeleteJob, st.text(max_size=2), st.text(max_size=2)), max_size=2).map(tuple),
    status=st.none() | st.builds(JobSetStatus, restarts=st.integers(0, 9)),
    events=st.lists(st.builds(Event, st.just("Normal"), st.text(max_size=2), st.just("")), max_size=2).map(tuple),
    warnings=st.lists(st.builds(Event, st.just("Warning"), st.text(max_size=2), st.just("")), max_size=2).map(tuple),
    status_first=st.booleans(),
    requeue_after=st.none() | st.floats(0, 100),
    follow_pods=st.booleans(),
)


def test_each_step_is_in_a_file_of_its_name():
    files = {path.stem for path in Path(package.__path__[0]).glob("*.py")} - {"__init__"}
    assert {step.__name__ for step in (*STEPS_WITH_SPARES, grow_back)} == files
    assert all(step.__module__.endswith(f".{step.__name__}") for step in STEPS)


@given(parts=st.lists(PARTIALS, max_size=6))
def test_what_steps_decide_is_added_up_in_order(parts):
    whole = combine(parts)
    assert whole.actions == tuple(action for part in parts for action in part.actions)
    assert whole.events == tuple(event for part in parts for event in part.events)
    assert whole.warnings == tuple(event for part in parts for event in part.warnings)
    statuses = [part.status for part in parts if part.status is not None]
    assert whole.status == (statuses[-1] if statuses else None)
    assert whole.status_first == any(part.status_first for part in parts)
    assert whole.follow_pods == any(part.follow_pods for part in parts)


@given(parts=st.lists(PARTIALS, max_size=6))
def test_the_soonest_look_wins(parts):
    wanted = [part.requeue_after for part in parts if part.requeue_after is not None]
    assert combine(parts).requeue_after == (min(wanted) if wanted else None)


def test_a_question_is_handed_on():
    pod_query = FailedPodQuery((("js-a-0", "uid"),))
    assert combine([Partial(), LastPartial(pod_query=pod_query), Partial()]).pod_query == pod_query


def test_every_field_of_a_replicated_job_is_counted_reached_or_kept():
    """A new field has to say whether a restart keeps it."""
    fields = set(ReplicatedJobStatus.__struct_fields__)
    kinds = [{"name"}, set(NO_COUNTS), set(REACHED), set(RESTARTS_OF_JOBS)]
    assert set.union(*kinds) == fields
    assert sum(map(len, kinds)) == len(fields), "no field is of two kinds"


COUNTED = {"restarts", "restarts_count_towards_max", "execution_attempts"}
"""Fields of the status that a restart of the set raises by one."""

RESET = {"replicated_jobs_status", "last_restart", "start_time"}
"""Those that say something about the next attempt after it."""

KEPT = {
    "conditions",
    "terminal_state",
    "ready_jobs",
    "current_stage",
    "failure_policy_restarts",
    "failure_policy_steps",
    "attempt_history",
    "recovery",
    "failed_nodes",
    "maintenance",
    "reduced_replicas",
    "spares",
    "previous_in_place_restart_attempt",
    "current_in_place_restart_attempt",
}
"""Those that it leaves as they are, but for the condition that tells of it."""


def test_every_field_of_a_status_is_counted_reset_or_kept_by_a_restart():
    assert set(JobSetStatus.__struct_fields__) == COUNTED | RESET | KEPT
    entry = ReplicatedJobStatus(name="a", ready=1, succeeded=1, failed=1, active=1, suspended=1, started=True)
    before = JobSetStatus(
        conditions=(Condition(type=keys.STARTUP_COMPLETED, status="True"),),
        restarts=3,
        restarts_count_towards_max=2,
        terminal_state="x",
        replicated_jobs_status=(entry,),
        ready_jobs="2/2",
        current_stage="a (1/2)",
        failure_policy_restarts=(RuleRestarts(name="r", restarts=1),),
        failure_policy_steps=(RuleStep(name="r", restarts=1),),
        execution_attempts=5,
        start_time="2025-12-31T00:00:00Z",
        last_restart=LastRestart(reason="x", duration_seconds=1),
        attempt_history=(FailedAttempt(),),
        recovery=Recovery(lost_seconds=1),
        failed_nodes=(FailedNode(name="n1"),),
        maintenance=MaintenanceStatus(notice_time="x"),
        reduced_replicas=(ReducedReplicas(name="a", replicas=1),),
        spares=(SpareStatus(name="s"),),
        previous_in_place_restart_attempt=7,
        current_in_place_restart_attempt=7,
    )
    assert all(getattr(before, name) != getattr(JobSetStatus(), name) for name in COUNTED | RESET | KEPT)
    draft = StatusDraft(before, "2026-01-01T00:00:00Z")
    restart_set(draft, "Why", "words", counts=True)
    draft.remove_condition(keys.RESTARTING)
    after = draft.status
    assert {name for name in COUNTED if getattr(after, name) == getattr(before, name) + 1} == COUNTED
    assert {name for name in KEPT if getattr(after, name) == getattr(before, name)} == KEPT
    assert {name for name in RESET if getattr(after, name) != getattr(before, name)} == RESET


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_every_failure_action_has_an_entry_that_makes_sense(action):
    assert action.description
    assert not action.gate or action.gate in GATES
    assert action.restarts_part == bool(action.gate), "what leaves the rest of the set alone needs the gate"
    assert not (action.scope is Scope.NOTHING and action.counts_restarts), "nothing is restarted, so nothing is counted"
